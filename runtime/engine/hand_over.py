"""A query's checkpoint as one engine hands it over to another: one commit of the local engine with all that is known.

The form is that of a checkpoint of the local engine, so that this engine continues from it as it is. Spark begins from
it in its first run (`runtime/spark/moving`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aggloom.durable_files import make_directory, write_whole
from aggloom.errors import CheckpointError
from aggloom.runtime.engine import checkpoint as layout
from aggloom.runtime.engine.checkpoint import LocalCheckpoint, load_state, read_id, write_mark
from aggloom.runtime.engine.commit_file import AddedRows, BucketId, Commit, commit_pieces
from aggloom.runtime.engine.file_log import FileLog, ListedFile, has_files, write_files


@dataclass(frozen=True)
class BucketState:
    """The state of a bucket as its store holds it: the head, and the rows."""

    key: BucketId
    head: str
    rows: Sequence[bytes]


@dataclass(frozen=True)
class HandOver:
    """The facts of a query after its last batch.

    id: of the checkpoint, by which sinks know batches. positions: of the sources, as the local engine has them. files:
    those that were read, by table. watermarks, watermark: as of a `Commit`.
    """

    id: str
    batch: int
    positions: Mapping[str, Any] = field(default_factory=dict)
    files: Mapping[str, Sequence[ListedFile]] = field(default_factory=dict)
    watermarks: Mapping[str, int] = field(default_factory=dict)
    watermark: int = 0


def take_over(source: LocalCheckpoint) -> HandOver:
    """The facts of a checkpoint of the local engine; raises CheckpointError where they cannot be handed over."""
    root, last = source.root, source.last
    if last is None:
        raise CheckpointError(
            f"{root}: no batch is committed, so that there is nothing to move. Start the query on the other engine."
        )
    # The sink may have the batch, and another engine would cut the input elsewhere and write it again.
    if source.planned is not None:
        raise CheckpointError(
            f"{root}: batch {source.planned.batch} is planned and not committed; the sink may have it. Run the query "
            "once more with --engine local, and stop it with Ctrl-C, so that the batch ends; then move it."
        )
    return read_facts(root)


def read_facts(root: Path) -> HandOver:
    """The facts of the last commit under a directory; raises StateCorruptError, and CheckpointError for rows."""
    last, _ = load_state(root)
    checkpoint_id = read_id(root)
    assert last is not None and checkpoint_id is not None
    files = {}
    for name, position in last.positions.items():
        # A number is the batch of a source of files or of rows; other sources have offsets.
        if isinstance(position, int):
            if not has_files(root, name):
                raise CheckpointError(
                    f"{root}: table {name} was read from rows of a Python process, which no other engine has. Write "
                    "the rows into files, and read these from an empty checkpoint."
                )
            files[name] = list(FileLog(root, name, position).known.values())
    return HandOver(
        checkpoint_id, last.batch, last.positions, files, dict(last.watermarks), last.watermark
    )


def states_of(root: Path) -> Iterable[BucketState]:
    """Yield the state of each bucket under a directory after the last commit; raises StateCorruptError."""
    _, rows = load_state(root)
    for key, state in sorted(rows.items()):
        yield BucketState(key, state.text, [row for (row,) in state.get()])


def read_state(root: str, key: BucketId) -> BucketState | None:
    """The state of one bucket under a directory; None if it was never written. Raises StateCorruptError."""
    _, rows = load_state(Path(root))
    state = rows.get(key)
    return None if state is None else BucketState(key, state.text, [row for (row,) in state.get()])


def write_checkpoint(root: Path, facts: HandOver, states: Iterable[BucketState]) -> None:
    """Write a new checkpoint of the local engine, bucket by bucket; the commit is the last file."""
    for name in layout.DIRECTORIES:
        make_directory(root / name)
    # Sinks know batches by the id, so it moves with the checkpoint and no batch is written twice.
    write_mark(root, facts.id)
    for table, files in facts.files.items():
        if files:
            write_files(root, table, int(facts.positions[table]), files)
    heads: dict[BucketId, tuple[str, int]] = {}
    added: dict[BucketId, AddedRows] = {}
    rows: dict[BucketId, Sequence[bytes]] = {}
    for state in states:
        lengths = tuple(map(len, state.rows))
        heads[state.key] = (state.head, facts.batch)
        if sum(lengths) <= layout.IN_COMMIT:
            rows[state.key] = state.rows
            added[state.key] = AddedRows(lengths)
            continue
        name = f"snapshots/{state.key[0]}.{state.key[1]}.{facts.batch}"
        write_whole(root / name, state.rows)
        added[state.key] = AddedRows(lengths, name, len(lengths))
    commit = Commit(
        facts.batch,
        positions=facts.positions,
        watermarks=facts.watermarks,
        watermark=facts.watermark,
        heads=heads,
        added=added,
    )
    # Without this file the directory has no commit: a move that is killed before it leaves no state to continue from.
    # A commit has its rows in the order of the buckets, in which another engine need not give them.
    ordered = [row for _, each in sorted(rows.items()) for row in each]
    write_whole(root / "commits" / str(facts.batch), commit_pieces(commit, ordered))
