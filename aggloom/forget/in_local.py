"""Forgetting on the local engine: a batch that removes the keys of a subject, and a commit without older files.

The query runs one batch without input in which each operator loses the subject's keys and retracts their results, as if
the subject's rows had been deleted at the source. Its commit contains the whole state; older files are then deleted.
Until that is done a note in the checkpoint keeps other runs out: after a kill at any point a second call finishes it.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from aggloom.codegen.planner import Scan
from aggloom.durable_files import make_directory, sync_directory, write_whole
from aggloom.errors import CheckpointError, SpecError, nearest
from aggloom.forget.note import (
    ForgottenPart,
    Intent,
    Receipt,
    hash_key,
    list_files,
    read_intent,
    sha256_of,
)
from aggloom.job_note import noted_job
from aggloom.run_local import open_query
from aggloom.runtime.connectors.files.table_file import TABLE_FILE, drop_rows
from aggloom.runtime.connectors.registry import destination
from aggloom.runtime.engine.forgetter import Forgetter, ForgettingOperator, OperatorPlace
from aggloom.runtime.hosting.checkpoint_paths import FORGET_FILE, RECEIPTS, refuse_moved
from aggloom.runtime.hosting.recent_changes import drop_changes
from aggloom.runtime.inspection.keys import key_batch
from aggloom.runtime.operators.forgetting import keyed_parts

if TYPE_CHECKING:
    from aggloom.codegen.planner import Node, Stateful
    from aggloom.job import Job
    from aggloom.runtime.engine.query import LocalQuery


def forget_in_local(root: Path, key: Mapping[str, str | None], job: Job | None) -> Receipt:
    """Remove a subject from a checkpoint of the local engine, and return the receipt; raises as `aggloom.forget`."""
    refuse_moved(root)
    intent = read_intent(root, key)
    job = job or noted_job(root)
    with closing(open_query(job, root, forgets=True)) as query:
        last = query.checkpoint.last
        if last is None:
            raise CheckpointError(f"{root}: no batch is committed, so that there is no state.")
        # A planned batch may be in the sink already; a batch that forgets would take its number with other rows.
        if intent is None and query.checkpoint.planned is not None:
            raise CheckpointError(
                f"{root}: batch {query.checkpoint.planned.batch} is planned and not committed; the sink may have it. "
                "Run the query once more, and stop it with Ctrl-C, so that the batch ends; then forget."
            )
        # Equal, the batch that forgets was committed before a kill: only what comes after it is left to do.
        if intent is None or intent.batch != last.batch:
            intent = _run(root, query, job, key, intent or Intent(dict(key)))
        return _finish(root, query, key, intent)


def _run(
    root: Path, query: LocalQuery, job: Job, key: Mapping[str, str | None], intent: Intent
) -> Intent:
    """Run the batch that forgets, and commit it."""
    operators = _find_operators(root, query, key)

    def note_removed(forgetter: Forgetter, batch: int) -> None:
        intent.batch = batch
        intent.removed = [
            asdict(
                ForgottenPart(each.name, forgetter.keys.get(at, 0), forgetter.retracted.get(at, 0))
            )
            for at, each in operators.items()
        ]
        intent.write(root)

    texts = tuple(
        value.as_py()
        for each in operators.values()
        for value in each.subject.values()
        if value.is_valid and isinstance(value.as_py(), str)
    )
    # Written before the batch: from here on no other run may continue with the checkpoint.
    intent.not_reached = list(_list_unreached(query, job, operators))
    intent.write(root)
    try:
        query.forget(Forgetter(operators, tuple(dict.fromkeys(texts)), note_removed))
    except CheckpointError:
        # Once the sink has the batch the note has to stay: what it retracts has left, and has to be finished.
        if intent.batch < 0:
            # Nothing has been written but the note, and the plan of a batch without input.
            (root / FORGET_FILE).unlink()
        raise
    return intent


def _finish(
    root: Path, query: LocalQuery, key: Mapping[str, str | None], intent: Intent
) -> Receipt:
    """Remove the subject from the table, delete older files, write the receipt, and delete the note."""
    removed = [ForgottenPart(**each) for each in intent.removed]
    removed += _clean_table(root, query, key)
    before = sum(1 for _ in list_files(root))
    # After the commit only: until then the older files are what a restart would need.
    query.checkpoint.purge()
    drop_changes(root)
    deleted = before - sum(1 for _ in list_files(root))
    # Without a salt a short key could be found by hashing all keys there may be.
    salt = secrets.token_hex(16)
    names = [each for each in list_files(root) if each.parent.name in ("commits", "snapshots")]
    names += [root / TABLE_FILE] if (root / TABLE_FILE).exists() else []
    receipt = Receipt(
        checkpoint=str(root),
        batch=intent.batch,
        at=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        columns=tuple(key),
        salt=salt,
        salted_hash=hash_key(salt, key),
        removed=tuple(removed),
        checksums={str(each.relative_to(root)): sha256_of(each) for each in sorted(names)},
        deleted=deleted,
        not_reached=(*intent.not_reached, *_named_in(root, key)),
    )
    make_directory(root / RECEIPTS)
    write_whole(root / RECEIPTS / f"forget-{intent.batch}.json", [receipt.to_json().encode()])
    (root / FORGET_FILE).unlink()
    sync_directory(root)
    return receipt


def _find_operators(
    root: Path, query: LocalQuery, key: Mapping[str, str | None]
) -> dict[OperatorPlace, ForgettingOperator]:
    """The operators with the columns in their keys; raises SpecError without one, CheckpointError for others."""
    operators: dict[OperatorPlace, ForgettingOperator] = {}
    known = set[str]()
    for place, nodes in query.stateful_nodes.items():
        for number, node in enumerate(nodes):
            known |= set(node.keys)
            if set(key) <= set(node.keys):
                operators[place, number] = _prepare_operator(root, query, (place, number), key)
            # Such an operator keeps rows of the subject under other keys: it could not find them.
            elif set(key) & _columns_from_source(node, set(key)):
                raise CheckpointError(
                    f"{root}: {node.name} has rows with {', '.join(key)}, and not under that key, so that it cannot "
                    "lose those of one subject. Nothing was changed."
                )
    if not operators:
        names = ", ".join(sorted(known)) or "none"
        missing = next((name for name in key if name not in known), next(iter(key)))
        raise SpecError(
            f"forget: no operator of {root} has {', '.join(key)} in its key; there are {names}. "
            f"{nearest(missing, known)}"
        )
    return operators


def _prepare_operator(
    root: Path, query: LocalQuery, at: OperatorPlace, key: Mapping[str, str | None]
) -> ForgettingOperator:
    """An operator and the subject in the types of its key; raises CheckpointError where it cannot lose keys."""
    place, number = at
    node = query.stateful_nodes[place][number]
    parts = keyed_parts(query.operators_at(place)[number])
    if not parts:
        raise CheckpointError(
            f"{root}: {node.name} keeps its keys in windows that cannot lose one (sessions, triggers and evictors of "
            "one's own, OVER with running sums). Nothing was changed. Once its windows are over they are empty."
        )
    fields = {f.name: f for state in parts for f in state.table.fields}
    values = {}
    for name, text in key.items():
        if name not in fields:
            raise CheckpointError(f"{root}: {node.name} has no column {name} in its state.")
        row = key_batch({name: text}, [fields[name]], f"{root}, {node.name}")
        values[name] = row.column(0)[0]
    return ForgettingOperator(node.name, values, not node.appends_only)


def _columns_from_source(node: Stateful, names: set[str]) -> set[str]:
    """The columns, of some, that come to an operator from a source without passing one that has them in its key."""

    def find_columns(below: Node) -> set[str]:
        present = names & set(below.schema.names)
        if isinstance(below, Scan):
            return present
        # Above an operator by these columns there are only its own results, which it retracts.
        if hasattr(below, "keys") and names <= set(below.keys):
            return set()
        return present & {name for each in below.inputs for name in find_columns(each)}

    return {name for each in node.inputs for name in find_columns(each)}


def _list_unreached(
    query: LocalQuery,
    job: Job,
    operators: Mapping[OperatorPlace, ForgettingOperator],
) -> Iterator[str]:
    """Yield what still may have the subject, in words."""
    kind, path, _ = destination(job.sink)
    if kind == "table":
        pass
    elif kind == "console":
        yield "what was printed on consoles"
    elif kind in ("jsonl", "parquet"):
        # These files are only appended to; the sink rewrites none, because whoever reads them may have passed the
        # place.
        yield f"sink {kind}: the files in {path}, in which a deletion follows the changes before it"
    else:
        yield f"sink {kind}: it was given deletions of the rows that are retracted, and may keep former rows"
    if any(not each.is_retracted for each in operators.values()) and kind != "table":
        yield "results of windows that were emitted once, and are not retracted"
    for place, nodes in query.stateful_nodes.items():
        for number, node in enumerate(nodes):
            # Nothing in these states says which part of a sum is of the subject, so nothing can be removed.
            if (place, number) not in operators:
                yield f"{node.name}: sums over many subjects, to which this one's rows were added without its key"
    for table in job.tables:
        where = table.path or "its source"
        yield f"table {table.name}: the source itself ({where}), whose rows come again if it is read from the beginning"
    yield "copies and backups of the checkpoint, and blocks of the disk that the deleted files had"


def _named_in(root: Path, key: Mapping[str, str | None]) -> Iterator[str]:
    """Yield the files of the checkpoint that name the subject otherwise: in paths of source files, in the query."""
    texts = [text.encode() for text in key.values() if text]
    for file in list_files(root):
        relative = file.relative_to(root)
        if relative.parts[0] == "sources" or relative.suffix in (".json", ".jsonl"):
            data = file.read_bytes()
            # Outside of `sources/` a key stands as a value in JSON. Without the quotes, key "1" would be found in every
            # number.
            quoted = [b'"' + text + b'"' for text in texts]
            if file.name != FORGET_FILE and any(
                text in data if relative.parts[0] == "sources" else mark in data
                for text, mark in zip(texts, quoted, strict=True)
            ):
                yield f"{relative}: it has the text, in the name of a file or in the query itself"


def _clean_table(
    root: Path, query: LocalQuery, key: Mapping[str, str | None]
) -> list[ForgottenPart]:
    """Drop the rows of sink `table` that were not retracted, where the result has the columns of the key."""
    file = root / TABLE_FILE
    names = query.plan.schema.names
    if not file.exists() or not set(key) <= set(names):
        return []
    values = {}
    for name, text in key.items():
        field = query.plan.schema.field(name)
        values[name] = key_batch({name: text}, [field], f"{root}, the table").column(0)[0]
    return [ForgottenPart("sink table", drop_rows(file, values))]
