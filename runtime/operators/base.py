"""The contract of operators: state and a bundle of changes in, changes out; deterministic, without an engine.

Whoever runs an operator (host, harness, replay, estimate) knows only what stands here. An operator says of itself what
it remembers, when it must be called, and what it holds of a key; its OperatorSpec says how it is made.
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
    """A part of what an operator remembers: arrays in an arena of its own."""

    arena: Arena

    def snapshot(self) -> bytes: ...

    def restore(self, data: bytes | memoryview) -> None: ...

    def flush_files(self) -> None: ...


def join_blocks(blocks: Sequence[bytes]) -> bytes:
    """Blocks of bytes as one, with their sizes before them."""
    sizes = json.dumps([len(block) for block in blocks]).encode()
    return b"".join([_SIZES.pack(_MAGIC, len(sizes)), sizes, *blocks])


def split_blocks(
    data: bytes | memoryview, count: int, owner: str = "the operators that it was taken from"
) -> list[memoryview]:
    """The blocks that were joined; raises StateCorruptError unless they are as many, and whole."""
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


class StoredKeyState(NamedTuple):
    """The state that an operator holds of a key in one window, or of the key as a whole.

    handler, slot: the accumulators; slot None: no rows are added up. window: start and end on the wall clock. emitted:
    accumulators of what was emitted last. records: the rows, where accumulators do not count them. written: when
    the key was written last, in milliseconds; 0 if that is not kept. results: its values, where there is no handler.
    """

    handler: Any
    slot: int | None
    window: tuple[int, int] | None = None
    emitted: tuple[Any, int] | None = None
    records: int | None = None
    written: int = 0
    results: dict[str, Any] | None = None


class InputBatch(NamedTuple):
    """The input that comes to an operator: rows in the order in which they are to be applied, and accumulators."""

    batch: pa.RecordBatch
    kinds: Kinds
    partials: Partials = ()


class Operator(ABC):
    """One bucket's operator. The same bundles in the same order give the same changes.

    schema: the columns of its changes. handler_class: of what adds its rows up, if it has any. counters: what it has
    counted since it was made, by name.
    After an error in the middle of a bundle it refuses further work: restore a snapshot.
    """

    schema: pa.Schema
    handler_class: Any
    counters: dict[str, int]
    update_before: bool
    in_windows: ClassVar[bool] = False
    """True if it holds windows, not keys."""
    keeps_calls: ClassVar[str] = "its state is not made of calls"
    """Why its state does not outlive a change of its calls; empty if it does."""
    _failed: bool = False

    def __repr__(self) -> str:
        columns = ", ".join(self.schema.names)
        noun = "window" if self.in_windows else "key"
        noun += "s" * (self.keys != 1)
        failed = ", failed: restore a snapshot" if self._failed else ""
        return f"{type(self).__name__}({columns}; {self.keys:,} {noun}{failed})"

    @abstractmethod
    def run(self, inputs: Sequence[InputBatch], clock: Clock) -> Rows:
        """Apply a bundle of each input, and return the changes that they bring."""

    @abstractmethod
    def contents(self) -> Rows:
        """The rows of its result that the state holds, each an insertion."""

    @property
    @abstractmethod
    def states(self) -> Sequence[StoredState]:
        """The parts of what it remembers, always as many and in the same order."""

    @property
    @abstractmethod
    def keys(self) -> int:
        """Number of the things that the state holds: keys, or windows of keys."""

    @abstractmethod
    def key_columns(self) -> list[pa.Array]:
        """The keys of all that it holds as columns, a key perhaps several times."""

    def count_key_rows(self) -> Any:
        """Return the number of rows behind each key that `key_columns` lists, as an array; None: it is not known."""
        return None

    @abstractmethod
    def read_key_state(self, key: pa.RecordBatch) -> Iterator[StoredKeyState]:
        """Yield the state that it holds of a key (a row of the key's columns), windows in order of time."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The name that messages call it by."""

    def format_row(self, row: dict[str, Any]) -> dict[str, Any]:
        """A row that came, by name, as its user knows it."""
        return row

    def format_window(self, window: tuple[int, int]) -> tuple[Any, Any]:
        """The start and end of a held window as the query shows them."""
        return window

    def next_timers(self) -> tuple[int | None, int | None]:
        """The next time at which something is due, by the watermark and by the clock; None: nothing is."""
        return None, None

    def take_late(self) -> list[Rows]:
        """The rows that came too late since the last call, where they are asked for."""
        return []

    def start_with(self, other: Any) -> None:  # noqa: B027
        """Take over, before the first row, what another operator of the same bucket has settled by its first row."""

    def refuse_after_failure(self) -> None:
        """Raise AggloomError if an earlier bundle ended in its middle."""
        if self._failed:
            raise AggloomError(
                "the operator failed in an earlier bundle; restore it from a snapshot"
            )

    @contextmanager
    def changing_state(self) -> Iterator[None]:
        """Surround a change of the state; after an error inside, which may leave half of it, no bundle is taken."""
        # Set before and cleared after: it stays set where an error leaves the context.
        self._failed = True
        yield
        self._failed = False

    def take_over(self, old: Any) -> None:  # noqa: B027
        """Take over what an operator remembered besides its states, which have been carried over already."""

    def take_narrower(self, old: Any) -> None:
        """Take over the state of an operator of before whose rows may lack columns of this one's.

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
        """Raise StateCorruptError unless its states, each of which is right, fit each other."""

    def rebuild_derived(self) -> None:  # noqa: B027
        """Read anew what is derived from the state, which was opened or restored."""

    def flush_files(self) -> None:
        """Bring everything into the mapped files."""
        for state in self.states:
            state.flush_files()

    def close(self) -> None:
        """Leave mapped files as they are to be found again."""
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
        """Run a bundle of rows, and of accumulators, and return the changes that it brings."""
        return self.run([InputBatch(batch, kinds, partials)], clock)


class OperatorSpec(OperatorSettings, ABC, Generic[NodeT]):
    """The settings of an operator and its factory: a frozen, keyword-only dataclass. NodeT: its node in a plan."""

    carries: ClassVar[bool] = False
    """True if its rows may gain a column that is only carried, while it has state."""

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
        """The columns of the rows that it takes; its keys are the first."""

    @property
    def inputs(self) -> tuple[pa.Schema, ...]:
        """The columns of the rows of each of its inputs."""
        return (self.rows,)

    @property
    def calls_python(self) -> bool:
        """True if it calls functions of the user's, or asks other systems, of which few may be asked by two threads."""
        return False

    @property
    def ttl_ms(self) -> int:
        """The time, in milliseconds, after which a key that was not written is forgotten; 0: never."""
        return 0

    @property
    @abstractmethod
    def time_mode(self) -> TimeMode:
        """The time by which it has timers."""

    @property
    def late_columns(self) -> pa.Schema | None:
        """The columns of the rows that came too late, if they are handed out."""
        return None

    @property
    def wakes(self) -> bool:
        """True if every bucket is to be called whenever there are rows for any."""
        return False

    @property
    def always(self) -> bool:
        """True if its first bundle brings a change even if no row comes."""
        return False

    @property
    def moves_last(self) -> bool:
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
