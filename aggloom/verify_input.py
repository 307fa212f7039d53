"""The input of a checkpoint as a script: the input of each batch, as far as the sources still have it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aggloom.errors import UnverifiableError
from aggloom.job_plan import plan_of_job
from aggloom.lake_tables import lake_source, open_lake
from aggloom.runtime.engine.file_log import ListedFile
from aggloom.runtime.engine.hand_over import HandOver, read_facts
from aggloom.runtime.engine.replayed_input import InputScript, align_files
from aggloom.runtime.hosting.checkpoint_paths import ORIGIN_FILE, is_local_checkpoint
from aggloom.runtime.values.clock import AFTER_ALL

if TYPE_CHECKING:
    from aggloom.job import Job
    from aggloom.tables import TableSource


@dataclass(frozen=True)
class ReadInput:
    """The input up to a batch, and how much that is, in words; same_batches: it is cut as the query has read it.

    checkpoint: the id by which sinks know the checkpoint.
    """

    checkpoint: str
    batch: int
    input: InputScript
    words: str
    same_batches: bool


def read_script(root: Path, job: Job) -> ReadInput:
    """The input of a checkpoint after its last batch; raises UnverifiableError where it is not known any more."""
    facts, with_input = _facts_of(root)
    tables = {table.name: table for table in job.tables}
    unknown = sorted(set(facts.positions) - set(tables))
    if unknown:
        raise UnverifiableError(
            f"{root}: its query has read table {unknown[0]}, which the job does not have. Give the job with which the "
            "query ran last."
        )
    ranges, numbers = align_files(facts.files)
    at_once = {
        n: _whole_range(root, tables[n], facts.positions[n])
        for n in set(facts.positions) - set(ranges)
    }
    plan = plan_of_job(job)
    # Topics and tables of lakes keep their order, and not where batches were cut.
    if at_once and plan.follows_batches:
        raise UnverifiableError(
            f"{root}: the result depends on what comes in one batch (TO_CHANGELOG, AS OF processing time), and nothing "
            f"keeps which rows of {sorted(at_once)[0]} were in which. Tables of files can be verified."
        )
    if at_once and plan.awaits_watermark:
        name = sorted(at_once)[0]
        raise UnverifiableError(
            f"{root}: the query goes by event time, and nothing keeps which rows of {name} were in which batch, so "
            "that it is unknown which ones were late. Tables of files can be verified."
        )
    was_moved = (root / ORIGIN_FILE).is_file()
    if was_moved and (plan.awaits_watermark or plan.follows_batches):
        why = "were late for the query, which goes by event time"
        if plan.follows_batches:
            why = "were in one batch, on which the result depends"
        raise UnverifiableError(
            f"{root}: it was moved from the other engine, and nothing keeps which of its rows were in which batch, so "
            f"that it is unknown which ones {why}."
        )
    # Batches behind the last with input had none: the clock alone has moved in them.
    last = max(numbers, default=0 if at_once else -1) if with_input is None else with_input
    closes = facts.watermark >= AFTER_ALL
    if closes and last == facts.batch and numbers:
        raise UnverifiableError(
            f"{root}: rows arrived after the end of the input closed its windows, and nothing keeps which ones. Run "
            "with --keep-open where files are added between runs."
        )
    idle = max(0, facts.batch - last - closes)
    whole: Mapping[str, Sequence[Any]] = {**ranges, **{n: [each] for n, each in at_once.items()}}
    same = with_input is None and not at_once and not was_moved
    return ReadInput(
        facts.id,
        facts.batch,
        InputScript(whole, idle, closes),
        _in_words(facts, whole),
        same_batches=same,
    )


def _facts_of(root: Path) -> tuple[HandOver, int | None]:
    """The facts of a checkpoint, and the last batch with input where they do not say it; raises CheckpointError."""
    if is_local_checkpoint(root):
        return read_facts(root), None
    from aggloom.runtime.spark.moving.read_files import files_by_batch
    from aggloom.runtime.spark.moving.take_over import take_over

    facts = take_over(root)
    files, last = files_by_batch(root)
    facts.files.update(files) if isinstance(facts.files, dict) else None
    return facts, last


def _whole_range(root: Path, table: TableSource, position: Any) -> Any:
    """The range of a table that is no files from its beginning up to a position; raises UnverifiableError."""
    if table.lake is not None:
        first = open_lake(table.lake, table.schema).first()
        if lake_source(table.lake).start != "snapshot":
            raise _unknown_start(root, table)
        # Asked of the lake with the options of the job, as the run itself did when its checkpoint was new.
        return {"from": first, "to": position}
    if table.kafka is None:
        raise UnverifiableError(
            f"{root}: table {table.name} was not read from files. Give the job with which the query ran last."
        )
    if table.kafka.get("start", "earliest") != "earliest":
        raise _unknown_start(root, table)
    topics = {
        # Kafka counts from 0. If retention has deleted the first rows since, the reader of the range refuses it.
        name: {**about, "offsets": {part: [0, end] for part, end in about["offsets"].items()}}
        for name, about in position["topics"].items()
    }
    return {"topics": topics}


def _unknown_start(root: Path, table: TableSource) -> UnverifiableError:
    """The error for a table that was not read from its beginning, which nothing keeps."""
    return UnverifiableError(
        f"{root}: table {table.name} was not read from its beginning (start), and nothing keeps where reading began. "
        "A table that is read whole can be verified."
    )


def _in_words(facts: HandOver, ranges: Mapping[str, Sequence[Any]]) -> str:
    """Describe how much was read, by table."""
    words = []
    for name in sorted(ranges):
        files: Sequence[ListedFile] | None = facts.files.get(name)
        words.append(name if files is None else f"{name} ({len(files):,} files)")
    return ", ".join(words) or "no table"
