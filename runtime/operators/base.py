"""The contract of operators: state and a bundle of changes in, changes out; deterministic, without an engine.

The code that runs operators (host, harness, replay, estimate) uses only this contract. An operator describes its
state, the times at which it must be called, and the state of one key; its OperatorSpec describes how it is created.
"""

from __future__ import annotations

import json
import struct
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, ClassVar, Generic, Literal, NamedTuple, Protocol, Self, TypeVar

import pyarrow as pa

from aggloom.codegen import AggSpec
from aggloom.codegen.planner import PlanOptions, Stateful
from aggloom.errors import AggloomError, StateCorruptError
from aggloom.runtime.operators.settings import OperatorSettings
from aggloom.runtime.operators.steps import Rows
from aggloom.runtime.storage.arena import Arena
from aggloom.runtime.storage.audit import reading_snapshot
from aggloom.runtime.values.changelog import Kinds
from aggloom.runtime.values.clock import NO_TIME, Clock

NodeT = TypeVar("NodeT", bound=Stateful)
TimeMode = Literal["None", "ProcessingTime", "EventTime"]
Partials = Sequence[bytes | memoryview]
_SIZES = struct.Struct("<4sI")
_MAGIC = b"AGLO"


class StoredState(Protocol):
    """A part of an operator's state: arrays in an arena of its own."""

    arena: Arena

    def snapshot(self) -> bytes: ...

    def restore(self, data: bytes | memoryview) -> None: ...

    def flush_files(self) -> None: ...


def join_blocks(blocks: Sequence[bytes]) -> bytes:
    """Return blocks of bytes as one block, with their sizes before them."""
    sizes = json.dumps([len(block) for block in blocks]).encode()
    return b"".join([_SIZES.pack(_MAGIC, len(sizes)), sizes, *blocks])


def split_blocks(
    data: bytes | memoryview, count: int, owner: str = "the operators that it was taken from"
) -> list[memoryview]:
    """Return the joined blocks; raises StateCorruptError unless there are `count` of them, all complete."""
    view = memoryview(data)
    try:
        magic, length = _SIZES.unpack_from(view)
        at = _SIZES.size + length
        sizes = json.loads(bytes(view[_SIZES.size : at]))
        if magic != _MAGIC or at + sum(sizes) != len(view):
            raise ValueError("wrong length")
        # A bool is an int in Python, and no size.
        if any(type(size) is not int or size < 0 for size in sizes):
            raise ValueError("wrong sizes")
    except (ValueError, TypeError, RecursionError, struct.error) as e:
        raise StateCorruptError(
            f"state snapshot cannot be read: {e}. Restart from an older checkpoint or replay the source."
        ) from e
    if len(sizes) != count:
        raise StateCorruptError(
            f"the snapshot holds {len(sizes)} operators, and {count} are wanted; restore it into {owner}."
        )
    starts = [at, *(at + end for end in accumulate(sizes))]
    return [view[start:end] for start, end in pairwise(starts)]


def check_choice(option: str, value: str, allowed: tuple[str, ...]) -> None:
    """Raise AggloomError unless the value of an option is one of those that are allowed."""
    if value not in allowed:
        raise AggloomError(f"{option}={value!r} does not exist; use one of {', '.join(allowed)}")


class StoredKeyState(NamedTuple):
    """The state of a key in one window, or of the key as a whole.

    handler, slot: the accumulators; slot None: no rows are aggregated. window: start and end in local time. emitted:
    accumulators of the last emitted result. records: the number of rows, if accumulators do not count them. written:
    the time of the key's last change, in milliseconds; 0 if it is not stored. results: its values, without a handler.
    """

    handler: Any
    slot: int | None
    window: tuple[int, int] | None = None
    emitted: tuple[Any, int] | None = None
    records: int | None = None
    written: int = 0
    results: dict[str, Any] | None = None


class InputBatch(NamedTuple):
    """The input of an operator: rows in the order in which they are applied, and accumulators."""

    batch: pa.RecordBatch
    kinds: Kinds
    partials: Partials = ()


class Operator(ABC):
    """One bucket's operator. The same bundles in the same order give the same changes.

    schema: the columns of its changes. handler_class: the handler that aggregates its rows, if any. counters: its
    counts since it was created, by name.
    After an error in the middle of a bundle it refuses further work: restore a snapshot.
    """

    schema: pa.Schema
    handler_class: Any
    counters: dict[str, int]
    update_before: bool
    in_windows: ClassVar[bool] = False
    """True if its state has windows, not keys."""
    keeps_calls: ClassVar[str] = "its state is not made of calls"
    """The reason why its state does not outlive a change of its calls; empty if it does."""
    _failed: bool = False

    def __repr__(self) -> str:
        columns = ", ".join(self.schema.names)
        noun = "window" if self.in_windows else "key"
        noun += "s" * (self.keys != 1)
        failed = ", failed: restore a snapshot" if self._failed else ""
        return f"{type(self).__name__}({columns}; {self.keys:,} {noun}{failed})"

    @abstractmethod
    def run(self, inputs: Sequence[InputBatch], clock: Clock) -> Rows:
        """Apply a bundle of each input, and return the emitted changes."""

    @abstractmethod
    def contents(self) -> Rows:
        """The rows of its result according to the state, each an insertion."""

    @property
    @abstractmethod
    def states(self) -> Sequence[StoredState]:
        """The parts of its state, always the same number in the same order."""

    @property
    @abstractmethod
    def keys(self) -> int:
        """The number of keys, or of windows of keys, in the state."""

    @abstractmethod
    def key_columns(self) -> list[pa.Array]:
        """The keys in the state as columns; a key may occur several times."""

    def count_key_rows(self) -> Any:
        """Return the number of rows behind each key that `key_columns` lists, as an array; None: unknown."""
        return None

    @abstractmethod
    def read_key_state(self, key: pa.RecordBatch) -> Iterator[StoredKeyState]:
        """Yield the state of a key (a row of the key's columns), windows in order of time."""

    @property
    @abstractmethod
    def name(self) -> str:
        """Its name in messages."""

    def format_row(self, row: dict[str, Any]) -> dict[str, Any]:
        """Return an input row by column name, for messages to the user."""
        return row

    def format_window(self, window: tuple[int, int]) -> tuple[Any, Any]:
        """Return the start and end of a stored window as the query shows them."""
        return window

    def next_timers(self) -> tuple[int | None, int | None]:
        """The next time at which something is due, by the watermark and by the clock; None: nothing is."""
        return None, None

    def take_late(self) -> list[Rows]:
        """The late rows since the last call, if they are to be emitted."""
        return []

    def start_with(self, other: Any) -> None:  # noqa: B027
        """Take over, before the first row, what another operator of the same bucket derived from its first row."""

    def refuse_after_failure(self) -> None:
        """Raise AggloomError if an earlier bundle failed in the middle."""
        if self._failed:
            raise AggloomError(
                "the operator failed in an earlier bundle; restore it from a snapshot"
            )

    @contextmanager
    def changing_state(self) -> Iterator[None]:
        """Surround a change of the state; after an error inside, which may leave it incomplete, bundles are refused."""
        # Set before and cleared after: it stays set where an error leaves the context.
        self._failed = True
        yield
        self._failed = False

    def take_over(self, old: Any) -> None:  # noqa: B027
        """Take over what an operator stores besides its states, which have been converted already."""

    def take_narrower(self, old: Any) -> None:
        """Take over the state of an earlier operator whose rows may lack some columns of this one.

        What keeps no rows of columns is the same with and without them.
        """
        self.restore(old.snapshot())
        self.take_over(old)

    def keeps_stamps(self, old: Any) -> bool:
        """Tell whether an old operator of the same calls kept the same times by key."""
        return True

    def snapshot(self) -> bytes:
        """The whole state as bytes."""
        return join_blocks([state.snapshot() for state in self.states])

    def restore(self, data: bytes | memoryview) -> None:
        """Replace the state by a snapshot's; raises StateCorruptError."""
        blocks = split_blocks(data, len(self.states))
        for state, block in zip(self.states, blocks, strict=True):
            state.restore(block)
        with reading_snapshot():
            self.rebuild_derived()
            self.check_restored()
        self._failed = False

    def check_restored(self) -> None:  # noqa: B027
        """Raise StateCorruptError unless its states, each valid by itself, fit together."""

    def rebuild_derived(self) -> None:  # noqa: B027
        """Compute again everything that is derived from the state, after it was opened or restored."""

    def flush_files(self) -> None:
        """Write everything to the mapped files."""
        for state in self.states:
            state.flush_files()

    def close(self) -> None:
        """Prepare mapped files for the next use."""
        if self.states[0].arena.directory is not None and not self._failed:
            self.flush_files()
        for state in self.states:
            handler = getattr(state, "handler", None)
            if handler is not None:
                handler.close_functions()

    @property
    def state_bytes(self) -> int:
        """Bytes of the arenas, free room included."""
        return sum(state.arena.nbytes for state in self.states)

    @property
    def arenas(self) -> list[Arena]:
        """The arenas in which its state lies."""
        return [state.arena for state in self.states]


class OneInput(Operator):
    """An operator with one input."""

    def process(
        self, batch: pa.RecordBatch, kinds: Kinds, clock: Clock = NO_TIME, partials: Partials = ()
    ) -> Rows:
        """Apply a bundle of rows, and of accumulators, and return the emitted changes."""
        return self.run([InputBatch(batch, kinds, partials)], clock)


class OperatorSpec(OperatorSettings, ABC, Generic[NodeT]):
    """The settings of an operator and its factory: a frozen, keyword-only dataclass. NodeT: its node in a plan."""

    carries: ClassVar[bool] = False
    """True if its stored rows may gain a column that is only passed on."""

    @property
    def handler_spec(self) -> AggSpec | None:
        """The aggregates that its handler is generated from; None: it has none, and `make` is given None."""
        return None

    @classmethod
    @abstractmethod
    def of(cls, node: NodeT, options: PlanOptions, zone: str = "UTC") -> Self:
        """Return the spec of a node of a plan, whose expressions are evaluated in a time zone."""

    @abstractmethod
    def make(self, handler_class: Any, bucket: int = 0, directory: Path | None = None) -> Operator:
        """The operator of a bucket, over the mapped files of `directory` if given."""

    @property
    @abstractmethod
    def rows(self) -> pa.Schema:
        """The columns of its input rows; its keys are the first."""

    @property
    def inputs(self) -> tuple[pa.Schema, ...]:
        """The columns of the rows of each of its inputs."""
        return (self.rows,)

    @property
    def calls_python(self) -> bool:
        """True if it calls users' functions or queries other systems, few of which can be called from two threads."""
        return False

    @property
    def ttl_ms(self) -> int:
        """The time, in milliseconds, after which a key without changes is forgotten; 0: never."""
        return 0

    @property
    @abstractmethod
    def time_mode(self) -> TimeMode:
        """The time by which it has timers."""

    @property
    def late_columns(self) -> pa.Schema | None:
        """The columns of late rows, if they are emitted."""
        return None

    @property
    def wakes_every_bucket(self) -> bool:
        """True if every bucket is called whenever any bucket has rows."""
        return False

    @property
    def emits_without_rows(self) -> bool:
        """True if its first bundle emits a change even without rows."""
        return False

    @property
    def moves_clock_last(self) -> bool:
        """True if the clock moves after a bundle's rows."""
        return False

    @property
    def needs_order(self) -> bool:
        """True if the result depends on the order of rows, which is then carried along."""
        spec = self.handler_spec
        if spec is None or spec.input_changes == "retract":
            return True
        entries = [spec.entry(call) for call in spec.calls]
        return any(entry.by_arrival or entry.user_defined for entry in entries)


class ExpiringSpec(OperatorSpec[NodeT]):
    """A spec with a state TTL: a key without a change for `state_ttl_ms` milliseconds is forgotten; 0: never."""

    state_ttl_ms: int

    @property
    def ttl_ms(self) -> int:
        return self.state_ttl_ms

    @property
    def time_mode(self) -> TimeMode:
        return "ProcessingTime" if self.state_ttl_ms else "None"
