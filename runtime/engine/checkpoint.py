"""The checkpoint of a query on the local engine: a directory of plans, commits and snapshots, under one lock.

A batch is planned before it runs: which input it reads, and the clock. Its sink may have it before it is committed, so
a batch that was killed runs again under the same number, over the same input, by the same clock. What it adds to the
state lies in its commit, which is renamed into place as the last step.

    aggloom-local.json     the id of the checkpoint
    aggloom-query.json     what the state is made from
    plans/12               the input and the clock of a batch
    commits/12             what is known after it, and what it has added to the state
    snapshots/0.3.12       a large snapshot of a bucket, or a large part of its log
    sources/NAME/12        the files that a batch reads
    lock                   held by the run
"""

from __future__ import annotations

import fcntl
import json
import os
import uuid
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Self

from aggloom.checkpoint_file import check_files, read_file
from aggloom.durable_files import ASIDE, make_directory, sync_directory, write_whole
from aggloom.errors import CheckpointError, StateMismatchError
from aggloom.runtime.engine.commit_file import (
    AddedRows,
    BucketId,
    Commit,
    collect_rows,
    commit_pieces,
    read_commit,
)
from aggloom.runtime.engine.log_file import LogFile
from aggloom.runtime.engine.state_rows import StateRows, read_rows
from aggloom.runtime.hosting.checkpoint_paths import (
    HAND_OVER,
    LOCAL_MARK_FILE,
    batches,
    corrupt,
    refuse_moved,
    refuse_unfinished,
)
from aggloom.runtime.storage.checksums import with_checksum, without_checksum
from aggloom.runtime.values.clock import BEFORE_ALL

LAYOUT = 1
RETAINED = 10
"""The number of commits that can be read besides the last."""
DIRECTORIES = ("plans", "commits", "snapshots", "sources")
IN_COMMIT = 1 << 20
"""A snapshot of up to so many bytes lies in its commit."""
_RENEWED_AFTER = 400
"""Rows that so many later commits have left where they are are copied into the next one, so that files go."""
_DELETED_AT_ONCE = 8
"""The number of old commits that one commit deletes: a snapshot may free hundreds, and no batch is to wait for them."""
_OWN = "Give the query a checkpoint directory of its own: one that is empty, or not there yet."


@dataclass(frozen=True)
class BatchPlan:
    """The input of a batch by table, as its source says it, and the clock by which it runs, in milliseconds."""

    batch: int
    ranges: Mapping[str, Any] = field(default_factory=dict)
    now: int = 0
    watermark: int = BEFORE_ALL


class LocalCheckpoint:
    """A checkpoint directory, as the one run sees it that has its lock."""

    def __init__(self, root: Path, retained: int = RETAINED, *, forgets: bool = False) -> None:
        self.root, self._retained = root, retained
        self._writers = ThreadPoolExecutor(1, "aggloom-log")
        self.rows: dict[BucketId, StateRows] = {}
        # Before anything is read or deleted: what looks unfinished may be what another run is writing.
        self._lock = _take_lock(root)
        try:
            if not forgets:
                refuse_unfinished(root)
            # Written once, so a sink that knows the id recognises the checkpoint after any restart.
            self.id = read_id(root) or write_mark(root, str(uuid.uuid4()))
            # Before anything is looked for in them: a run may have been killed between two of them.
            for name in DIRECTORIES:
                make_directory(root / name)
            _remove_unfinished(root)
            # The state first: it decides which planned batch runs again, and which snapshots are needed.
            self.last, self.rows = load_state(root)
            self.planned = self._read_planned()
            self._needed: dict[int, int] = {}
            self._snapshots = self._remove_unneeded()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def next_batch(self) -> int:
        """The number of the batch that runs next."""
        return 0 if self.last is None else self.last.batch + 1

    def close(self) -> None:
        """Give up the lock."""
        # Nobody else may have the directory while something is written; what is not finished goes at the next start.
        self._writers.shutdown(cancel_futures=True)
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def bucket(self, place: int, bucket: int) -> StateRows:
        """The rows of a bucket's state."""
        state = self.rows.setdefault((place, bucket), StateRows(self.root))
        state.open_log = partial(self._open_log, (place, bucket))
        return state

    def _open_log(self, key: BucketId) -> LogFile:
        return LogFile(self.root, _name_file(key, self.next_batch), self._writers)

    def plan(self, plan: BatchPlan) -> None:
        """Note durably what the next batch reads."""
        # The input of a batch is fixed before it runs, so that it is the same when it runs again.
        text = with_checksum(json.dumps(asdict(plan), separators=(",", ":")))
        write_whole(self.root / "plans" / str(plan.batch), [text.encode()])
        self.planned = plan

    def commit(self, batch: int, **known: Any) -> None:
        """Make a batch durable; known: the fields of its `Commit` that are not about state."""
        rows: list[bytes] = []
        added: dict[BucketId, AddedRows] = {}
        since: dict[BucketId, int] = {}
        for key, state in sorted(self.rows.items()):
            # Rows in one old commit would keep the files of all commits since.
            if state.places and not state.replaces and batch - state.since > _RENEWED_AFTER:
                self._renew(state)
            # A bucket that is written anew, or for the first time, needs no row of an earlier commit.
            since[key] = batch if state.replaces or not state.text else state.since
            if state.is_changed:
                added[key] = self._add(key, batch, state, rows)
                since[key] = batch if not state.places or state.replaces else state.since
        if any(state.log is not None for state in self.rows.values()):
            # The names of these files as well, before the commit that says them.
            sync_directory(self.root / "snapshots")
        heads = {key: (state.text, since[key]) for key, state in self.rows.items() if state.text}
        commit = Commit(batch, heads=heads, added=added, **known)
        file = f"commits/{batch}"
        # Only the lengths of start and header are asked for here, which say where rows will begin.
        size = [0, *map(len, commit_pieces(commit, ()))]
        # The batch is committed by this rename: a run that is killed from here on begins with the next one.
        write_whole(self.root / file, commit_pieces(commit, rows))
        places = commit.row_places(file, size[1] + size[2])
        for key, row_places in places.items():
            # A snapshot that is no longer needed stays for the earlier commits that may still be looked at.
            before = {place.file for place in self.rows[key].places}
            self.rows[key].note_committed(row_places, since[key])
            after = {place.file for place in self.rows[key].places}
            self._snapshots += [(batch, n) for n in before - after if n.startswith("snapshots/")]
        self.last, self.planned = commit, None
        self._clean(commit)

    def _renew(self, state: StateRows) -> None:
        """Have the rows of old commits in the next one; a snapshot in a file of its own stays there."""
        state.put([(row,) for row in (*read_rows(self.root, state.places), *state.added)])

    def _add(self, key: BucketId, batch: int, state: StateRows, rows: list[bytes]) -> AddedRows:
        """Put what a bucket adds among the rows of the commit, or if it is much into a file of its own."""
        lengths = tuple(map(len, state.added))
        if state.log is not None:
            state.log.finish()
            return AddedRows(lengths, state.log.name, len(lengths))
        if not state.replaces or sum(lengths) <= IN_COMMIT:
            rows += state.added
            return AddedRows(lengths)
        name = _name_file(key, batch)
        # Before the commit that names it: a file that no commit names is deleted at the next start.
        write_whole(self.root / name, state.added)
        return AddedRows(lengths, name, len(lengths))

    def _clean(self, commit: Commit) -> None:
        """Delete the files that neither this commit needs nor one that may still be looked at."""
        oldest = commit.batch - self._retained
        self._needed[commit.batch] = commit.first_needed
        self._needed = {n: first for n, first in self._needed.items() if n >= oldest}
        # A commit that may be looked at can need rows of far older ones.
        needed = min(oldest, *self._needed.values())
        for _ in range(min(needed - self._first, _DELETED_AT_ONCE)):
            for directory in ("commits", "plans"):
                # A file may be missing already, where a run was killed while it deleted.
                (self.root / directory / str(self._first)).unlink(missing_ok=True)
            self._first += 1
        for at, name in [each for each in self._snapshots if each[0] < oldest]:
            (self.root / name).unlink(missing_ok=True)
            self._snapshots.remove((at, name))

    def purge(self) -> None:
        """Delete every file of batches before the last, which needs none of them."""
        assert self.last is not None
        used = {Path(place.file).name for state in self.rows.values() for place in state.places}
        for number in batches(self.root / "commits"):
            # The commits between the first that is needed and the last may have rows of a live log.
            if self.last.first_needed > number != self.last.batch:
                (self.root / "commits" / str(number)).unlink()
        for directory, needed_names in (("plans", {str(self.last.batch)}), ("snapshots", used)):
            for file in (self.root / directory).iterdir():
                if file.name not in needed_names:
                    file.unlink()
        # Until then a loss of power may bring a deleted file back.
        for directory in ("commits", "plans", "snapshots"):
            sync_directory(self.root / directory)
        self._first, self._snapshots = self.last.batch, []

    def _read_planned(self) -> BatchPlan | None:
        """The plan of a batch that did not come to its commit."""
        numbers = batches(self.root / "plans")
        # A plan beyond the next batch says that its predecessor was committed, and that file is gone.
        if numbers and numbers[-1] > self.next_batch:
            raise corrupt(
                f"commits/{numbers[-1] - 1} is missing, and batch {numbers[-1]} is planned"
            )
        if self.next_batch not in numbers:
            return None
        return read_plan(self.root, self.next_batch)

    def _remove_unneeded(self) -> list[tuple[int, str]]:
        """Delete the snapshots of batches that were never committed; list those that only older commits need."""
        needed: dict[str, int] = {}
        numbers = batches(self.root / "commits")
        self._first = numbers[0] if numbers else 0
        for number in numbers:
            commit, _ = read_commit(self.root, self.root / "commits" / str(number))
            needed |= {each.snapshot: number for each in commit.added.values() if each.snapshot}
            self._needed[number] = commit.first_needed
        for file in (self.root / "snapshots").iterdir():
            # A snapshot is written before the commit that names it: without one its batch will run again.
            if f"snapshots/{file.name}" not in needed:
                file.unlink()
        used = {place.file for state in self.rows.values() for place in state.places}
        # Listed under the next batch, so that they stay as long as any commit that may still be looked at.
        return [(self.next_batch, name) for name in needed if name not in used]


def _name_file(key: BucketId, batch: int) -> str:
    """The path of the file that has the rows of a bucket which are too many for the commit of a batch."""
    return f"snapshots/{key[0]}.{key[1]}.{batch}"


def load_state(root: Path) -> tuple[Commit | None, dict[BucketId, StateRows]]:
    """The last commit, and the rows of each bucket after it; raises StateCorruptError."""
    numbers = batches(root / "commits")
    if not numbers:
        return None, {}
    last, _ = read_commit(root, root / "commits" / str(numbers[-1]))

    def read(number: int) -> tuple[Commit, int]:
        try:
            return read_commit(root, root / "commits" / str(number))
        except FileNotFoundError:
            raise corrupt(f"commits/{number} is missing") from None

    rows = {key: StateRows(root) for key in last.heads}
    for key, places in collect_rows(last, read).items():
        rows[key].places = places
    for key, (head, since) in last.heads.items():
        rows[key].text, rows[key].since = head, since
    return last, rows


def check_commits(root: Path) -> None:
    """Raise StateCorruptError if the mark or the last commit is damaged, or a commit that it needs is missing."""
    read_id(root)
    numbers = batches(root / "commits")
    if not numbers:
        return
    last, _ = read_commit(root, root / "commits" / str(numbers[-1]))
    missing = set(range(last.first_needed, last.batch)) - set(numbers)
    # A query that runs may have gone on, and deleted what it does not need any more.
    if missing and batches(root / "commits")[-1] == last.batch:
        raise corrupt(f"commits/{min(missing)} is missing")


def read_plan(root: Path, batch: int) -> BatchPlan:
    """The plan of a batch; raises StateCorruptError."""
    file = root / "plans" / str(batch)
    try:
        plan = BatchPlan(**json.loads(without_checksum(read_file(root, file))))
        if plan.batch != batch or not isinstance(plan.ranges, dict):
            raise ValueError("it is that of another batch")
        return plan
    except (ValueError, TypeError, RecursionError) as error:
        raise corrupt(f"plans/{batch} is damaged: {error}") from None


def check_local_directory(root: Path) -> None:
    """Raise CheckpointError unless a directory is empty, not there yet, or a checkpoint of this engine."""
    if not root.exists():
        return
    # Nothing is written yet: a wrong path must not make a directory of someone else a checkpoint.
    if not root.is_dir():
        raise CheckpointError(f"{root}: a checkpoint is a directory, and this is a file. {_OWN}")
    # A lock or half a mark is left by a run that was killed at its very start.
    names = {path.name for path in root.iterdir()} - {"lock", LOCAL_MARK_FILE + ASIDE}
    refuse_moved(root)
    if not names or LOCAL_MARK_FILE in names:
        return
    if HAND_OVER in names:
        raise CheckpointError(
            f"{root}: this checkpoint was moved to Spark. Run the query with --engine spark; once it has begun there, "
            "`aggloom move` brings it back."
        )
    if {"offsets", "commits", "metadata"} <= names:
        raise CheckpointError(
            f"{root}: this is a checkpoint of Spark. Run the query with --engine spark, or move it: "
            f"aggloom move {root} NEW --to local."
        )
    raise CheckpointError(
        f"{root}: this is no checkpoint; found there: {', '.join(sorted(names)[:5])}. Nothing was written. {_OWN}"
    )


def _take_lock(root: Path) -> int:
    """The descriptor of the lock of a checkpoint, which is made if need be; raises CheckpointError."""
    check_local_directory(root)
    make_directory(root)
    check_files(root)
    # No link is followed: it would lock, or make, a file somewhere else.
    descriptor = os.open(
        root / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600
    )
    try:
        # The kernel gives this lock up with the process, however that ends, so that no stale one is left.
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise CheckpointError(
            f"{root}: another run has this checkpoint. Wait until it ends, or stop it."
        ) from None
    return descriptor


def read_id(root: Path) -> str | None:
    """The id of a checkpoint; None of a new one. Raises StateCorruptError and StateMismatchError."""
    file = root / LOCAL_MARK_FILE
    if not file.is_file():
        if batches(root / "commits"):
            raise corrupt(f"{root}: {LOCAL_MARK_FILE} is missing")
        return None
    try:
        data = json.loads(without_checksum(read_file(root, file)))
        layout, checkpoint_id = int(data["layout"]), str(data["id"])
    except (ValueError, KeyError, TypeError) as error:
        raise corrupt(f"{LOCAL_MARK_FILE} is damaged: {error}") from None
    if layout != LAYOUT:
        raise StateMismatchError(
            f"{root}: written in layout {layout}, this version reads {LAYOUT}. "
            "Run the version of aggloom that wrote it, or start over with an empty checkpoint directory."
        )
    return checkpoint_id


def write_mark(root: Path, id: str) -> str:
    """Give a new checkpoint an id."""
    text = with_checksum(json.dumps({"layout": LAYOUT, "id": id}))
    write_whole(root / LOCAL_MARK_FILE, [text.encode()])
    return id


def _remove_unfinished(root: Path) -> None:
    """Delete the files that a run was about to write when it was killed."""
    for directory in (root, *(root / name for name in DIRECTORIES)):
        for file in directory.glob(f"*{ASIDE}"):
            file.unlink()
        sync_directory(directory)
