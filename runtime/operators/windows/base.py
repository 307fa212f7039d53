"""What window operators have in common: the clock that they remember, late rows, and their life as a whole."""

from __future__ import annotations

import json
import struct
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from aggloom.codegen.planner import Bounds
from aggloom.codegen.windows import Windowing
from aggloom.errors import AggloomError, DataError, NotMergeableError, StateCorruptError
from aggloom.runtime.operators.slot_state import SlotState
from aggloom.runtime.operators.steps import Rows, no_rows
from aggloom.runtime.operators.windows.output import WindowOutput
from aggloom.runtime.storage.arena import Arena, Array
from aggloom.runtime.values.changelog import Kinds, is_retraction
from aggloom.runtime.values.clock import AFTER_ALL, BEFORE_ALL, NO_TIME, Clock

WATERMARK, PROCESSING, DUE, STAGGER, FIRED = range(5)
"""Places in the clock: the watermark, the processing time, when something is due, 1 + the stagger, how far it fired."""

_SIZES = struct.Struct("<4sI")
_MAGIC = b"AGLW"


class WindowOperator(ABC):
    """One bucket's operator; subclasses say what rows and the clock bring.

    chained: rows come from another window operator, so that they are judged by the watermark before this bundle's.
    per_record: each row acts at once, so that a window may fire several times in a bundle.
    """

    def __init__(
        self,
        handler_class: type[Any],
        windowing: Windowing,
        bounds: Bounds,
        chained: bool,
        update_before: bool,
        per_record: bool = False,
    ) -> None:
        self.handler_class, self.windowing = handler_class, windowing
        self.spec = handler_class.spec()
        self.update_before, self.bounds = update_before, bounds
        self._chained = chained and windowing.assigner.event_time
        # Where windows fire once, it is the same whether rows act one by one.
        self._per_record = per_record and bool(windowing.updates)
        self._output = WindowOutput(self.spec, bounds, windowing.assigner.zone)
        self.schema = self._output.schema
        self.nothing = no_rows(self.schema)
        self._failed = False
        self._late: list[Rows] = []
        self.counters = dict.fromkeys(
            ("rows", "orphans_dropped", "late_dropped", "fired", "emitted"), 0
        )

    @property
    @abstractmethod
    def states(self) -> Sequence[SlotState]:
        """The states that make up what it remembers; the clock lies in the first."""

    @abstractmethod
    def contents(self) -> Rows:
        """What has been given out and may still change: each row an insertion."""

    @abstractmethod
    def next_timers(self) -> tuple[int | None, int | None]:
        """The next time at which something is due, by the watermark and by the clock."""

    @abstractmethod
    def _take(
        self, batch: pa.RecordBatch, kinds: Kinds, partials: Sequence[bytes | memoryview]
    ) -> Rows:
        """Apply rows, and accumulators; the clock stands still."""

    @abstractmethod
    def _advance(self) -> Rows:
        """What is due now that the clock has moved."""

    def _settle(self) -> None:  # noqa: B027
        """Read anew what is derived from the state, which was opened or restored."""

    @property
    def clock(self) -> Array:
        """What the operator remembers of time; see the names of its places."""
        arena = self.states[0].arena
        if "clock" not in arena:
            arena.array("clock", 5, "i8")[:] = (BEFORE_ALL, 0, AFTER_ALL, 0, BEFORE_ALL)
        return arena.array("clock", 5, "i8")

    def process(
        self,
        batch: pa.RecordBatch,
        kinds: Kinds,
        clock: Clock = NO_TIME,
        partials: Sequence[bytes | memoryview] = (),
    ) -> Rows:
        """Move the clock, apply rows (columns of the spec's handler_schema), and return the changes.

        Rows are judged by the watermark of `clock`. Neither the watermark nor the clock goes back. After an error the
        operator refuses further work: restore a snapshot.
        """
        if self._failed:
            raise AggloomError(
                "the operator failed in an earlier bundle; restore it from a snapshot"
            )
        self._failed = True
        parts = [] if self._chained else [self._move(clock)]
        if batch.num_rows or partials:
            self.counters["rows"] += batch.num_rows
            if self._per_record:
                rows = range(batch.num_rows)
                parts += [self._take(batch.slice(i, 1), kinds[i : i + 1], ()) for i in rows]
            else:
                parts.append(self._take(batch, kinds, partials))
        if self._chained:
            parts.append(self._move(clock))
        self._failed = False
        changes = joined(parts, self.schema)
        self.counters["emitted"] += len(changes[1])
        return changes

    def take_late(self) -> list[Rows]:
        """The rows that came too late since the last call, if the windowing says late_rows."""
        late, self._late = self._late, []
        return late

    def snapshot(self) -> bytes:
        """The whole state as bytes."""
        self.clock  # noqa: B018
        blocks = [state.snapshot() for state in self.states]
        sizes = json.dumps([len(block) for block in blocks]).encode()
        return b"".join([_SIZES.pack(_MAGIC, len(sizes)), sizes, *blocks])

    def restore(self, data: bytes | memoryview) -> None:
        """Replace the state by a snapshot's; raises StateCorruptError."""
        view = memoryview(data)
        try:
            magic, length = _SIZES.unpack_from(view)
            at = _SIZES.size + length
            sizes = json.loads(bytes(view[_SIZES.size : at]))
            if magic != _MAGIC or len(sizes) != len(self.states) or at + sum(sizes) != len(view):
                raise ValueError("wrong length")
        except (ValueError, TypeError, struct.error) as e:
            raise StateCorruptError(
                f"state snapshot cannot be read: {e}. Restart from an older checkpoint or replay the source."
            ) from e
        for state, size in zip(self.states, sizes, strict=True):
            state.restore(view[at : at + size])
            at += size
        self._settle()
        self._failed = False

    def flush_files(self) -> None:
        """Bring everything into the mapped files."""
        for state in self.states:
            state.flush_files()

    def close(self) -> None:
        if self.states[0].arena.directory is not None and not self._failed:
            self.flush_files()

    @property
    def state_bytes(self) -> int:
        """Bytes of the arenas, free room included."""
        return sum(state.arena.nbytes for state in self.states)

    @property
    def arenas(self) -> list[Arena]:
        """Where its state lies."""
        return [state.arena for state in self.states]

    @property
    @abstractmethod
    def keys(self) -> int:
        """How many things the state holds: slices, windows or sessions, each of one key."""

    def require_merge(self, what: str) -> None:
        """Raise NotMergeableError if a function of the handler has no merge."""
        if self.handler_class.UNMERGEABLE:
            names = ", ".join(self.handler_class.UNMERGEABLE)
            raise NotMergeableError(
                f"{names} has no merge, which {what} need; give its class `def merge(state, other)`"
            )

    def drop_late(self, batch: pa.RecordBatch, kinds: Kinds, late: Array) -> None:
        """Count the rows that came too late, and keep them if they are asked for."""
        found = int(late.sum())
        self.counters["late_dropped"] += found
        if found and self.windowing.late_rows:
            rows = batch.filter(pa.array(late))
            on = self.windowing.assigner.columns[0]
            self._late.append((self._output.late(rows, on), kinds[late]))

    def retractions(self, kinds: Kinds) -> Array:
        """Which rows retract; raises DataError if the handler cannot."""
        retracts = is_retraction(kinds)
        if not self.handler_class.RETRACTING and retracts.any():
            row = int(np.argmax(retracts))
            raise DataError(
                f"row {row} retracts, but the spec says input_changes='append'; use input_changes='retract'"
            )
        return retracts

    @property
    def _now(self) -> int:
        """The last millisecond that is over, by the clock that windows fire by."""
        if self.windowing.assigner.event_time:
            return int(self.clock[WATERMARK])
        return int(self.clock[PROCESSING]) - 1

    def _move(self, clock: Clock) -> Rows:
        now = self.clock
        now[WATERMARK] = max(int(now[WATERMARK]), clock.watermark)
        now[PROCESSING] = max(int(now[PROCESSING]), clock.processing)
        return self._advance()

    def _give_out(
        self,
        handler: Any,
        keys: Any,
        windows: tuple[Array, Array],
        results: tuple[Any, Any],
        live: tuple[Array, Array],
    ) -> Rows:
        return self._output.changes(handler, keys, windows, results, live, self.update_before)


def joined(parts: list[Rows], schema: pa.Schema) -> Rows:
    """Changes one after the other."""
    parts = [part for part in parts if len(part[1])]
    if not parts:
        return no_rows(schema)
    if len(parts) == 1:
        return parts[0]
    return pa.concat_batches([b for b, _ in parts]), np.concatenate([k for _, k in parts])
