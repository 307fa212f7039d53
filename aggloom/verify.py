"""Verify a checkpoint: run its query once more over the input that it has read, and compare state and sink by key.

The query runs on the local engine into a directory for this alone, in the batches in which the input was read, so that
rows are late where they were. The checkpoint is only read.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from aggloom.codegen.planner import walk
from aggloom.codegen.scalar.nondeterminism import find_changing_call
from aggloom.errors import CheckpointError, StateError, StateMismatchError, UnverifiableError
from aggloom.job_note import noted_job
from aggloom.job_plan import plan_of_job
from aggloom.run_local import open_query
from aggloom.runtime.connectors.files.table_file import read_table
from aggloom.runtime.engine.query import BUCKETS
from aggloom.runtime.engine.replayed_input import InputScript
from aggloom.runtime.engine.state_reader import LocalStateReader
from aggloom.runtime.hosting.checkpoint_paths import RECEIPTS, require_checkpoint
from aggloom.runtime.hosting.query_record import (
    compare_queries,
    known_buckets,
    read_committed_query,
    read_queries,
)
from aggloom.runtime.inspection.checkpoint import open_state, why
from aggloom.runtime.inspection.comparison import (
    KeyDifference,
    NodeStates,
    PlaceComparison,
    compare_nodes,
    open_nodes,
)
from aggloom.runtime.inspection.facts import Report
from aggloom.runtime.inspection.text import TextPage, key_text
from aggloom.runtime.operators.fragment import FragmentSpec
from aggloom.verify_input import ReadInput, read_script
from aggloom.verify_sink import StoredSink, compare_sink, read_sink

if TYPE_CHECKING:
    from aggloom.codegen.planner import Plan
    from aggloom.job import Job

_SECONDS, _PAUSE = 10.0, 0.01
SHOWN = 20
"""The number of differences that are listed, and explained by their why."""


@dataclass(frozen=True)
class VerifyReport(Report):
    """A checkpoint after a batch beside its query over the same input. input: how much that was, in words.

    forgotten: so many subjects have left the checkpoint since it was new, which the input still has.
    """

    checkpoint: str
    batch: int
    input: str
    places: tuple[PlaceComparison, ...]
    forgotten: int = 0

    @property
    def is_equal(self) -> bool:
        """True if nothing differs."""
        return not any(place.differences for place in self.places)

    def text(self, limit: int = SHOWN) -> str:
        """Format it as tables and lines; limit: the number of differences of each place that are listed."""
        page = TextPage()
        page.line(f"{self.checkpoint} after batch {self.batch}, beside its query over {self.input}")
        rows = [(p.place, p.keys, len(p.differences), p.note) for p in self.places]
        notes = any(place.note for place in self.places)
        names = ("place", "compared", "different", "note")[: 4 if notes else 3]
        page.table(names, [row[: len(names)] for row in rows])
        for place in self.places:
            for each in place.differences[:limit]:
                _write_difference(page, each)
            more = len(place.differences) - limit
            if more > 0:
                page.line(f"{place.place}: {more:,} more (--limit)")
        if self.forgotten:
            page.line(
                f"subjects that were forgotten, and that the input still has: {self.forgotten} (receipts/)"
            )
        page.line("equal" if self.is_equal else "different")
        return page.text


def verify(
    checkpoint: str | Path,
    job: Job | None = None,
    *,
    trust: bool = False,
    limit: int = SHOWN,
    spark: Any = None,
) -> VerifyReport:
    """Hold the state and the sink of a checkpoint against its query over the input that it has read.

    job: with which the query runs (None: as the checkpoint has noted it). trust: run Python source that lies in the
    checkpoint. limit: so many differences are explained. spark: a session to read a checkpoint of Spark's with.

    Raises UnverifiableError where the result cannot be computed once more: files or messages are gone, or it depends on
    when the query ran. Raises StateMismatchError for the job of another query.
    """
    require_checkpoint(checkpoint)
    root = Path(checkpoint)
    job = replace(job or noted_job(root), engine="", checkpoint=None)
    planned = plan_of_job(job)
    script, nodes, sink = _open_together(root, job, planned, trust, spark)
    with TemporaryDirectory(prefix="aggloom-verify-", ignore_cleanup_errors=True) as scratch:
        again = Path(scratch) / "checkpoint"
        plan = _run_again(job, root, again, script.input)
        expected = open_nodes(LocalStateReader(str(again)), None, trust)
        places = [
            place
            for number, node in sorted(nodes.items())
            for place in compare_nodes(node, expected.get(number), same_batches=script.same_batches)
        ]
        places.append(compare_sink(sink, job, plan, read_table(again)))
    for place in places:
        place.differences[:limit] = [
            _explain(each, root, script.batch, trust, spark) for each in place.differences[:limit]
        ]
    forgotten = len(list((root / RECEIPTS).glob("*.json")))
    return VerifyReport(str(checkpoint), script.batch, script.words, tuple(places), forgotten)


def _open_together(
    root: Path, job: Job, plan: Plan, trust: bool, spark: Any
) -> tuple[ReadInput, dict[int, NodeStates], StoredSink]:
    """The input, the state and the sink after one batch; a query that runs is waited for between two of them.

    The files of the state are open from now on, however far the query goes on.
    """
    end = time.monotonic() + _SECONDS
    while True:
        script = read_script(root, job)
        nodes = open_nodes(open_state(str(root), spark), script.batch, trust)
        try:
            return script, nodes, read_sink(root, job, plan, script.checkpoint, script.batch)
        except UnverifiableError:
            if time.monotonic() > end:
                raise
        time.sleep(_PAUSE)


def _run_again(job: Job, root: Path, again: Path, script: InputScript) -> Plan:
    """Run a query over input that is known into a checkpoint of its own; the plan."""
    plan = plan_of_job(job)
    _check_plan(root, job, plan)
    key = job.key or (() if plan.has_old_rows else plan.key or ())
    table_job = replace(job, sink="table", key=tuple(key))
    buckets = known_buckets(root) or BUCKETS
    with closing(open_query(table_job, again, buckets=buckets, ranges=script.ranges)) as query:
        _check_fragments(root, query.fragments)
        _check_same(root, again)
        query.journal.dropped.is_quiet = True
        for _ in range(script.batches + script.idle):
            if not query.run_batch():
                break
        if script.closes:
            query.close_windows()
    return plan


def _check_plan(root: Path, job: Job, plan: Plan) -> None:
    """Raise UnverifiableError where the result depends on when the query ran."""
    call = find_changing_call(job.sql)
    if call is not None:
        raise UnverifiableError(
            f"{root}: {call} differs from run to run, so that the result cannot be computed once more. Compute it into "
            "a column of the input."
        )
    if any(node.asks_elsewhere for node in walk(plan.root)):
        raise UnverifiableError(
            f"{root}: a lookup join asks another system, which may answer otherwise by now. `aggloom state` and "
            "`aggloom why` show what it has answered."
        )


def _check_fragments(root: Path, fragments: Sequence[FragmentSpec]) -> None:
    """Raise UnverifiableError for operators that go by the wall clock."""
    for each in fragments:
        names = "; ".join(part.name for part in each.parts)
        if each.ttls:
            raise UnverifiableError(
                f"{root}: {names} forgets keys after {each.ttls[0]:,} ms of the wall clock, so that its state depends "
                "on when it ran. A query without state TTL can be verified."
            )
        if each.time_mode == "ProcessingTime":
            raise UnverifiableError(
                f"{root}: {names} goes by processing time, so that its result depends on when it ran. Windows over "
                "event time can be verified."
            )


def _check_same(root: Path, again: Path) -> None:
    """Raise StateMismatchError unless the checkpoint is one of this query."""
    old, new = read_committed_query(root), read_queries(again)[-1]
    if old is None:
        raise CheckpointError(
            f"{root}: it does not say of which query it is (aggloom-query.json). Run the query once more, and "
            "then verify."
        )
    differing = compare_queries(old, new)
    if differing is not None:
        raise differing
    # compare_queries asks only which operators there are. These four decide what the state of each looks like; with
    # another one the two states cannot be compared.
    same = [("digest", "buckets", "parts", "inputs")] * len(old.operators)
    for names, was, now in zip(same, old.operators, new.operators, strict=True):
        lines = [
            f"{name}: {was.get(name)} -> {now.get(name)}"
            for name in names
            if was.get(name) != now.get(name)
        ]
        if lines:
            raise StateMismatchError(
                f"{root}: {now['operator']} is not the operator that wrote the state, in its calls or settings. Give "
                f"the job with which the query ran last.\n  - {lines[0][:300]}"
            )


def _explain(
    difference: KeyDifference, root: Path, batch: int, trust: bool, spark: Any
) -> KeyDifference:
    """The difference with the story of its key, where the state has it."""
    number = difference.operator
    if not difference.key and number is None:
        return difference
    try:
        story = why(
            root, key=difference.key, operator=number, batch=batch, trust=trust, spark=spark
        )
    except StateError:
        # A row of the sink, whose columns are no key of an operator, or state that cannot be replayed by key.
        return difference
    return replace(difference, why=story)


def _write_difference(page: TextPage, difference: KeyDifference) -> None:
    """A key with both sides, and its story."""
    page.line("")
    page.line(f"{difference.place}: {key_text(difference.key)}")
    for name, lines in (("stored", difference.stored), ("expected", difference.expected)):
        for place, line in enumerate(lines):
            page.line(f"  {name if not place else '':<9} {line}")
    if difference.why is not None:
        page.line("  why:")
        for line in difference.why.text().splitlines()[1:]:
            page.line(f"    {line}".rstrip())
