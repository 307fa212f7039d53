"""Spark's side of a stateful query, without Spark: versioned state by key and batch, tasks and their attempts.

What is played is what `FragmentProcessor` may count on: an attempt sees the state of the last committed batch, its
writes are seen by nobody else, and they are kept only if the driver takes this attempt and then commits the batch.
Attempts run the real processor. Whatever they do that the world outside could see is a step, at which they may be
killed, or stopped and left to go on later, when another attempt has long taken their place.
"""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pandas as pd

from aggloom.runtime.hosting import bucket_store as store
from aggloom.runtime.hosting import local_phase
from aggloom.runtime.hosting.blobs import cut_batch
from aggloom.runtime.spark.node import host as host_module
from aggloom.runtime.spark.node import live_state, output_encoding, state_files
from aggloom.runtime.spark.node.host import FragmentProcessor
from aggloom.runtime.storage import arena

QUERY = "01234567-89ab-cdef-0123-456789abcdef"
PackedRow = tuple[int, int, int, bytes]


STEPS = [
    *(f"{name}.get" for name in ("commit", "log")),
    *("run", "run, done", "snapshot", "snapshot, done", "close", "close, done"),
    *("log.appendList", "log.appendList, done", "log.put", "log.put, done"),
    *("commit.update", "commit.update, done"),
    *("registerTimer", "deleteTimer", "room for an array", "flush", "flush, done"),
    *("holds", "holds, done", "mark_dirty", "mark_dirty, done", "wipe", "wipe, done"),
    *("mark_clean", "mark_clean, done", "release"),
    *("delete_superseded", "delete_superseded, done", "_delete_old", "_delete_old, done"),
]
"""Steps of an attempt at which something may happen."""


class Killed(BaseException):
    """The process is gone."""


@dataclass
class Host:
    """A machine with a directory for live state, and what tells its boots apart."""

    root: Path
    boot: str = "boot 0"


@dataclass
class Bucket:
    """The state variables and timers of one grouping key."""

    values: dict[str, Any] = field(default_factory=dict)
    timers: frozenset[int] = frozenset()

    def copy(self) -> Bucket:
        return Bucket(dict(self.values), self.timers)


State = dict[int, Bucket]


class Handle:
    """A StatefulProcessorHandle over an attempt's copy of the committed state."""

    def __init__(self, committed: State, step: Callable[[str], None]) -> None:
        self.committed, self.step = committed, step
        self.written: State = {}
        self.key = 0

    @property
    def bucket(self) -> Bucket:
        return self.written.get(self.key) or self.committed.get(self.key) or Bucket()

    def change(self) -> Bucket:
        self.written[self.key] = self.written.get(self.key) or self.bucket.copy()
        return self.written[self.key]

    def getValueState(self, name: str, schema: Any) -> _Value:  # noqa: N802
        return _Value(self, name)

    def getListState(self, name: str, schema: Any) -> _List:  # noqa: N802
        return _List(self, name)

    def listTimers(self) -> Iterator[int]:  # noqa: N802
        return iter(sorted(self.bucket.timers))

    def registerTimer(self, at: int) -> None:  # noqa: N802
        self.step("registerTimer")
        self.change().timers |= {at}

    def deleteTimer(self, at: int) -> None:  # noqa: N802
        self.step("deleteTimer")
        self.change().timers -= {at}


class _Variable:
    def __init__(self, handle: Handle, name: str) -> None:
        self.handle, self.name = handle, name

    def _write(self, what: str, value: Any) -> None:
        self.handle.step(f"{self.name}.{what}")
        self.handle.change().values[self.name] = value
        self.handle.step(f"{self.name}.{what}, done")

    def exists(self) -> bool:
        return self.handle.bucket.values.get(self.name) is not None

    def clear(self) -> None:
        self._write("clear", None)


class _Value(_Variable):
    def get(self) -> Any:
        self.handle.step(f"{self.name}.get")
        return self.handle.bucket.values.get(self.name)

    def update(self, value: Any) -> None:
        self._write("update", tuple(value))


class _List(_Variable):
    def get(self) -> Iterator[Any]:
        self.handle.step(f"{self.name}.get")
        return iter(self.handle.bucket.values.get(self.name) or ())

    def put(self, rows: Any) -> None:
        self._write("put", tuple(rows))

    def appendList(self, rows: Any) -> None:  # noqa: N802
        self._write(
            "appendList", (*(self.handle.bucket.values.get(self.name) or ()), *map(tuple, rows))
        )


@dataclass(frozen=True)
class Timers:
    """TimerValues."""

    now: int
    watermark: int

    def getCurrentProcessingTimeInMs(self) -> int:  # noqa: N802
        return self.now

    def getCurrentWatermarkInMs(self) -> int:  # noqa: N802
        return self.watermark


@dataclass(frozen=True)
class Checkpoint:
    """The directory with files of the state, which all hosts share.

    kept: the number of batches to which the query may go back. file_bytes: the size of rows that go to files.
    """

    root: Path
    kept: int
    file_bytes: int | None


@dataclass(frozen=True)
class Task:
    """One partition of a stateful node in a batch: its rows by key, the clock, the state it starts from."""

    name: str
    batch: int
    checkpoint: Checkpoint
    processor: FragmentProcessor
    rows: dict[int, list[PackedRow]]
    timers: Timers
    committed: State

    @property
    def due_timers(self) -> list[tuple[int, int]]:
        """(time, key) of the timers that are due."""
        mode = self.processor._options.time_mode
        limit = {"ProcessingTime": self.timers.now, "EventTime": self.timers.watermark}.get(mode, 0)
        return sorted((t, k) for k, b in self.committed.items() for t in b.timers if t <= limit)


class _Place(threading.local):
    """Which attempt the code that runs belongs to."""

    attempt: Attempt | None = None


_place = _Place()


def step(name: str) -> None:
    """Something is about to happen, or has just happened, that the world outside could see."""
    if _place.attempt is not None:
        _place.attempt.reach(name)


class Attempt:
    """One attempt at a task on a host. fate: what happens at a step, by its name and how often it was reached.

    status: new, stopped (at a step; `resume` lets it go on), done (with `outputs` and `written`), or killed.
    """

    def __init__(
        self,
        task: Task,
        host: Host,
        fate: dict[tuple[str, int], Callable[[Attempt, str], None]],
        rng: random.Random,
    ) -> None:
        self.task, self.host, self.fate, self.rng = task, host, fate, rng
        self.status = "new"
        self.steps: Counter[str] = Counter()
        self.outputs: dict[int, list[pd.DataFrame]] = {}
        self.written: State = {}
        self.failure: BaseException | None = None
        self.operator: Any = None
        self._go, self._back = threading.Semaphore(0), threading.Semaphore(0)
        self._thread: threading.Thread | None = None
        self._dies = False

    def run(self, may_stop: bool) -> None:
        """Run until the end, or a stop."""
        if not may_stop:
            self._run()
        else:
            self._thread = threading.Thread(target=self._run_and_tell, daemon=True)
            self._thread.start()
            self._back.acquire()
        self._raise()

    def resume(self, die: bool = False) -> None:
        """Go on after a stop, or be killed there."""
        self._dies, self.status = die, "new"
        self._go.release()
        self._back.acquire()
        self._raise()

    def reach(self, name: str) -> None:
        self.steps[name] += 1
        happens = self.fate.get((name, self.steps[name]))
        if happens is not None:
            happens(self, name)

    def die(self, name: str) -> None:
        """Be killed; whatever the operator was doing to its arrays is half done."""
        if self.operator is not None:
            for each in self.operator.arenas:
                for name, array in each:
                    if name.startswith("acc.") and array.size:
                        flat = array.reshape(-1).view("u1")
                        # Where the first slots are, which are in use.
                        flat[self.rng.randrange(min(flat.size, 64))] ^= 0xFF
        raise Killed(name)

    def stop(self, name: str) -> None:
        if self._thread is None:
            return
        self.status = "stopped"
        self._back.release()
        self._go.acquire()
        if self._dies:
            self.die(name)

    def _raise(self) -> None:
        if self.failure is not None:
            raise self.failure

    def _run_and_tell(self) -> None:
        self._run()
        self._back.release()

    def _run(self) -> None:
        _place.attempt = self
        try:
            self._work()
            self.status = "done"
        except Killed:
            self.status = "killed"
        except BaseException as e:
            self.failure, self.status = e, "killed"
        finally:
            _place.attempt = None
            self.operator = None

    def _work(self) -> None:
        task, given = self.task, self.task.processor
        root, least = str(self.host.root), task.checkpoint.file_bytes
        options = replace(given._options, state_directory=root, file_bytes=least)
        processor = FragmentProcessor(_Factory(given._factory, self), options)  # type: ignore[arg-type]
        handle: Any = Handle(task.committed, self.reach)
        processor.init(handle)
        for key, rows in sorted(task.rows.items()):
            handle.key = key
            # The shuffle brings blobs in any order.
            shuffled = self.rng.sample(rows, len(rows))
            cut_at = self.rng.randint(0, len(rows))
            frames = [pd.DataFrame(part) for part in (shuffled[:cut_at], shuffled[cut_at:]) if part]
            found = processor.handleInputRows((key,), iter(frames), task.timers)
            self.outputs.setdefault(key, []).extend(found)
        for at, key in task.due_timers:
            handle.key = key
            found = processor.handleExpiredTimer((key,), task.timers, None)
            self.outputs.setdefault(key, []).extend(found)
            handle.deleteTimer(at)
        processor.close()
        self.written = handle.written


class _Factory:
    """The real factory; what it makes tells of its steps."""

    def __init__(self, real: Any, attempt: Attempt) -> None:
        self._real, self._attempt = real, attempt

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def open(self, directory: Path | None, bucket: int) -> Any:
        """The operator of a bucket."""
        operator = self._real.open(directory, bucket)
        self._attempt.operator = operator
        for name in ("run", "snapshot", "close"):
            setattr(operator, name, _wrap_step(getattr(operator, name), name))
        return operator


def _wrap_step(function: Any, name: str) -> Any:
    """The function, with a step before it and one after."""

    def call_with_steps(*args: Any, **options: Any) -> Any:
        step(name)
        found = function(*args, **options)
        step(f"{name}, done")
        return found

    return call_with_steps


def _boot() -> str:
    return _place.attempt.host.boot if _place.attempt else "none"


def _root() -> Path | None:
    return _place.attempt.task.checkpoint.root if _place.attempt else None


def _batch() -> int | None:
    return _place.attempt.task.batch if _place.attempt else None


def _kept() -> int:
    assert _place.attempt is not None
    return _place.attempt.task.checkpoint.kept


def simulated(patch: Any, log_entries: int, blob_bytes: int) -> None:
    """Small limits, hosts of one's own, and steps wherever live state is written. patch: a MonkeyPatch."""
    patch.setattr(host_module, "query_id", lambda: QUERY)
    patch.setattr(host_module, "_clean_up_once", lambda root, limit: None)
    patch.setattr(output_encoding, "cut_batch", lambda batch: cut_batch(batch, blob_bytes))
    patch.setattr(store, "BLOB_BYTES", 64 * blob_bytes)
    patch.setattr(store, "LOG_MAXIMUM_ENTRIES", log_entries)
    patch.setattr(live_state, "_boot_id", _boot)
    patch.setattr(state_files, "checkpoint_root", _root)
    patch.setattr(state_files, "batch_number", _batch)
    patch.setattr(state_files, "batches_kept", _kept)
    for name in ("delete_superseded", "_delete_old"):
        function = getattr(state_files.StateFiles, name)
        patch.setattr(state_files.StateFiles, name, _wrap_step(function, name))
    patch.setattr(local_phase, "_WORTH_A_TRY", 3)
    for name in ("holds", "mark_dirty", "mark_clean", "wipe", "release"):
        function = getattr(live_state.LiveState, name)
        patch.setattr(live_state.LiveState, name, _wrap_step(function, name))
    patch.setattr(arena, "grow_file", _wrap_step(arena.grow_file, "room for an array"))
    patch.setattr(arena.Arena, "flush", _wrap_step(arena.Arena.flush, "flush"))
