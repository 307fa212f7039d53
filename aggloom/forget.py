"""Forget a subject: remove its keys from the state, logs, snapshots and the table of a checkpoint, with a receipt.

The query runs one batch without input in which each operator loses the subject's keys and retracts their results, as if
the subject's rows had been deleted at the source. Its commit has the whole state anew; older files are deleted then.
A note in the checkpoint keeps other runs out until that is done: a kill at any point is made good by a second call.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aggloom.checkpoint_file import read_file
from aggloom.codegen.planner import Scan
from aggloom.errors import CheckpointError, SpecError, nearest
from aggloom.job_note import noted_job
from aggloom.run_local import open_query
from aggloom.runtime.connectors.files.table_file import TABLE_FILE, drop_rows
from aggloom.runtime.connectors.registry import destination
from aggloom.runtime.engine.durable_files import sync_directory, write_whole
from aggloom.runtime.engine.forgetter import Forgetter, ForgettingOperator, OperatorPlace
from aggloom.runtime.hosting.checkpoint_paths import (
    FORGET_FILE,
    RECEIPTS,
    corrupt,
    is_local_checkpoint,
    refuse_moved,
    require_checkpoint,
)
from aggloom.runtime.inspection.keys import key_batch
from aggloom.runtime.operators.forgetting import keyed_parts
from aggloom.runtime.storage.checksums import with_checksum, without_checksum

if TYPE_CHECKING:
    from aggloom.codegen.planner import Node, Stateful
    from aggloom.job import Job
    from aggloom.runtime.engine.query import LocalQuery


@dataclass(frozen=True)
class ForgottenPart:
    """The removal from an operator, or from the table: keys or windows of keys, and rows that were retracted."""

    place: str
    keys: int
    retracted: int = 0


@dataclass(frozen=True)
class Receipt:
    """The receipt of a subject that was forgotten; it does not name the subject.

    columns: of its key. salted_hash: SHA-256 of `salt` and the key as JSON, so that whoever knows the key can tell.
    removed: by place. checksums: SHA-256 of the files that have taken the place of all before, by path. deleted: how
    many older files went. not_reached: what still may have the subject.
    """

    checkpoint: str
    batch: int
    at: str
    columns: tuple[str, ...]
    salt: str
    salted_hash: str
    removed: tuple[ForgottenPart, ...]
    checksums: Mapping[str, str]
    deleted: int
    not_reached: tuple[str, ...]

    def to_json(self) -> str:
        """The receipt as JSON."""
        return json.dumps(asdict(self), indent=2, ensure_ascii=False) + "\n"

    def is_of(self, key: Mapping[str, str | None]) -> bool:
        """Tell whether it is of this subject."""
        return self.salted_hash == _hash(self.salt, key)


@dataclass
class _Intent:
    """The note of a subject that is being forgotten. done: the batch that has it, once the sink has taken it."""

    key: dict[str, str | None]
    batch: int = -1
    removed: list[dict[str, Any]] = field(default_factory=list)
    not_reached: list[str] = field(default_factory=list)

    def write(self, root: Path) -> None:
        """Write the note in one step."""
        write_whole(root / FORGET_FILE, [with_checksum(json.dumps(asdict(self))).encode()])


def forget(
    checkpoint: str | Path, key: Mapping[str, str | None], job: Job | None = None
) -> Receipt:
    """Remove a subject from a checkpoint of the local engine whose query does not run, and return the receipt.

    key: values by column, as text that is read as the column's type; None is NULL. job: with which the query runs
    (None: as the checkpoint has noted it).

    Raises CheckpointError, before anything is changed, where an operator cannot lose the subject, and SpecError for a
    key that no operator has.
    """
    require_checkpoint(checkpoint)
    root = Path(checkpoint)
    refuse_moved(root)
    if not key:
        raise SpecError("forget: the key has no column; give COLUMN=VALUE")
    if not is_local_checkpoint(root):
        raise CheckpointError(
            f"{root}: Spark keeps old versions of its state in files of its own. Move the query, forget there, and "
            f"move it back: aggloom move {root} NEW --to local; aggloom forget NEW --key ...; aggloom move NEW NEWER "
            f"--to spark. Then delete {root} and NEW."
        )
    intent = _read_intent(root)
    if intent is not None and intent.key != dict(key):
        raise CheckpointError(
            f"{root}: forgetting another subject was interrupted. Run `aggloom forget` with its --key first."
        )
    job = job or noted_job(root)
    with closing(open_query(job, root, forgets=True)) as query:
        last = query.checkpoint.last
        if last is None:
            raise CheckpointError(f"{root}: no batch is committed, so that there is no state.")
        if intent is None and query.checkpoint.planned is not None:
            raise CheckpointError(
                f"{root}: batch {query.checkpoint.planned.batch} is planned and not committed; the sink may have it. "
                "Run the query once more, and stop it with Ctrl-C, so that the batch ends; then forget."
            )
        if intent is None or intent.batch != last.batch:
            intent = _run(root, query, job, key, intent or _Intent(dict(key)))
        return _finish(root, query, job, key, intent)


def _run(
    root: Path, query: LocalQuery, job: Job, key: Mapping[str, str | None], intent: _Intent
) -> _Intent:
    """Run the batch that forgets, and commit it."""
    operators = _find_operators(root, query, key)

    def note_settled(forgetter: Forgetter, batch: int, retracted: int) -> None:
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
    intent.not_reached = list(_list_unreached(root, query, job, operators))
    intent.write(root)
    try:
        query.forget(Forgetter(operators, tuple(dict.fromkeys(texts)), note_settled))
    except CheckpointError:
        if intent.batch < 0:
            # Nothing has been written but the note, and the plan of a batch without input.
            (root / FORGET_FILE).unlink()
        raise
    return intent


def _finish(
    root: Path, query: LocalQuery, job: Job, key: Mapping[str, str | None], intent: _Intent
) -> Receipt:
    """Remove the subject from the table, delete older files, write the receipt, and delete the note."""
    removed = [ForgottenPart(**each) for each in intent.removed]
    removed += _clean_table(root, query, key)
    before = sum(1 for _ in _files(root))
    query.checkpoint.purge()
    deleted = before - sum(1 for _ in _files(root))
    salt = secrets.token_hex(16)
    names = [each for each in _files(root) if each.parent.name in ("commits", "snapshots")]
    names += [root / TABLE_FILE] if (root / TABLE_FILE).exists() else []
    receipt = Receipt(
        checkpoint=str(root),
        batch=intent.batch,
        at=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        columns=tuple(key),
        salt=salt,
        salted_hash=_hash(salt, key),
        removed=tuple(removed),
        checksums={str(each.relative_to(root)): _sha256(each) for each in sorted(names)},
        deleted=deleted,
        not_reached=(*intent.not_reached, *_named_in(root, key)),
    )
    (root / RECEIPTS).mkdir(exist_ok=True)
    write_whole(root / RECEIPTS / f"forget-{intent.batch}.json", [receipt.to_json().encode()])
    (root / FORGET_FILE).unlink()
    sync_directory(root)
    return receipt


def _find_operators(
    root: Path, query: LocalQuery, key: Mapping[str, str | None]
) -> dict[OperatorPlace, ForgettingOperator]:
    """The operators with the columns in their keys; raises SpecError without one, CheckpointError for others."""
    found: dict[OperatorPlace, ForgettingOperator] = {}
    known = set[str]()
    for place, nodes in query.stateful_nodes.items():
        for number, node in enumerate(nodes):
            known |= set(node.keys)
            if set(key) <= set(node.keys):
                found[place, number] = _prepare_operator(root, query, (place, number), key)
            elif set(key) & _columns_from_source(node, set(key)):
                raise CheckpointError(
                    f"{root}: {node.name} has rows with {', '.join(key)}, and not under that key, so that it cannot "
                    "lose those of one subject. Nothing was changed."
                )
    if not found:
        names = ", ".join(sorted(known)) or "none"
        missing = next((name for name in key if name not in known), next(iter(key)))
        raise SpecError(
            f"forget: no operator of {root} has {', '.join(key)} in its key; there are {names}. "
            f"{nearest(missing, known)}"
        )
    return found


def _prepare_operator(
    root: Path, query: LocalQuery, at: OperatorPlace, key: Mapping[str, str | None]
) -> ForgettingOperator:
    """An operator and the subject in the types of its key; raises CheckpointError where it cannot lose keys."""
    place, number = at
    node = query.stateful_nodes[place][number]
    parts = keyed_parts(query.operators_at(place)[number])
    if not parts:
        raise CheckpointError(
            f"{root}: {node.name} holds its keys in windows that cannot lose one (sessions, triggers and evictors of "
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
        if hasattr(below, "keys") and names <= set(below.keys):
            return set()
        return present & {name for each in below.inputs for name in find_columns(each)}

    return {name for each in node.inputs for name in find_columns(each)}


def _list_unreached(
    root: Path,
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
        yield f"sink {kind}: the files in {path}, in which a deletion follows the changes before it"
    else:
        yield f"sink {kind}: it was given deletions of the rows that are retracted, and may keep former rows"
    if any(not each.is_retracted for each in operators.values()) and kind != "table":
        yield "results of windows that were emitted once, and are not retracted"
    for place, nodes in query.stateful_nodes.items():
        for number, node in enumerate(nodes):
            if (place, number) not in operators:
                yield f"{node.name}: sums over many subjects, to which this one's rows were added without its key"
    for table in job.tables:
        where = table.path or "its source"
        yield f"table {table.name}: the source itself ({where}), whose rows come again if it is read from the beginning"
    yield "copies and backups of the checkpoint, and blocks of the disk that the deleted files had"


def _named_in(root: Path, key: Mapping[str, str | None]) -> Iterator[str]:
    """Yield the files of the checkpoint that name the subject otherwise: in paths of source files, in the query."""
    texts = [text.encode() for text in key.values() if text]
    for file in _files(root):
        relative = file.relative_to(root)
        if relative.parts[0] in ("sources",) or relative.suffix in (".json", ".jsonl"):
            data = file.read_bytes()
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


def _files(root: Path) -> Iterator[Path]:
    return (each for each in root.rglob("*") if each.is_file())


def _read_intent(root: Path) -> _Intent | None:
    """The note of a subject that was not forgotten to the end; raises StateCorruptError."""
    file = root / FORGET_FILE
    if not file.exists():
        return None
    try:
        return _Intent(**json.loads(without_checksum(read_file(root, file))))
    except (ValueError, TypeError) as error:
        raise corrupt(f"{FORGET_FILE} is damaged: {error}") from None


def _sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _hash(salt: str, key: Mapping[str, str | None]) -> str:
    text = json.dumps(dict(sorted(key.items())), ensure_ascii=False)
    return hashlib.sha256(f"{salt}{text}".encode()).hexdigest()
