"""The registry of a general window operator: keys, their live windows, timers. The arena stores it as JSON."""

from __future__ import annotations

import json
from typing import Any

from aggloom.codegen.windows import FOREVER, Window
from aggloom.runtime.operators.windows.general_timers import Timers
from aggloom.runtime.values.clock import Clock


class Key:
    """A key with at least one live window. slot: where the state's index has it, without a window."""

    __slots__ = ("slot", "windows")

    def __init__(self, slot: int) -> None:
        self.slot = slot
        self.windows: dict[tuple[int, int], LiveWindow] = {}


class Pane:
    """The place in which the rows of a window are added up, or with an evictor their numbers.

    The state window of Flink's MergingWindowSet: a session that grows keeps the pane of one of its parts. slot: that of
    the accumulators, -1 before the first row. round, closed: see Ledger.
    """

    __slots__ = ("closed", "id", "key", "round", "rows", "slot")

    def __init__(
        self, number: int, key: Key, slot: int = -1, rows: list[int] | None = None
    ) -> None:
        self.id, self.key, self.slot = number, key, slot
        self.rows: list[int] = rows or []
        self.round, self.closed = -1, False


class LiveWindow:
    """A window that is not over.

    local, window: its bounds on the wall clock of the assigner's zone, and in instants, as triggers see them. cleanup:
    the timer at which it ends, if ever. state: what its trigger remembers. emitted: the numbers of the emitted results
    that are still valid.
    """

    __slots__ = ("cleanup", "emitted", "id", "key", "local", "pane", "state", "window")

    def __init__(
        self, number: int, pane: Pane, local: Window, window: Window, cleanup: int | None
    ) -> None:
        self.id, self.key, self.pane = number, pane.key, pane
        self.local, self.window, self.cleanup = local, window, cleanup
        self.state: dict[str, Any] = {}
        self.emitted: tuple[int, ...] = ()


class WindowRegistry:
    """Keys by slot and windows by number. emptied: slots of keys that have lost their last window.

    due: whether a timer was set for a time that is already over.
    """

    def __init__(self, event_time: bool, lateness: int) -> None:
        self.event_time, self._lateness = event_time, lateness
        self.clock = Clock()
        self.keys: dict[int, Key] = {}
        self.windows: dict[int, LiveWindow] = {}
        self.event, self.processing = Timers(), Timers()
        self.emptied: set[int] = set()
        self.due = False
        self._numbers = 0

    @property
    def cleanups(self) -> Timers:
        """The timers at which windows end."""
        return self.event if self.event_time else self.processing

    def cleanup_of(self, window: Window) -> int | None:
        """The timer at which a window ends."""
        return window.max_timestamp + self._lateness if window.end < FOREVER else None

    def is_late(self, window: Window) -> bool:
        """Tell whether a window is over by the watermark."""
        cleanup = self.cleanup_of(window)
        return self.event_time and cleanup is not None and cleanup <= self.clock.watermark

    def pane(self, key: Key) -> Pane:
        """A new pane of a key."""
        return Pane(self._number(), key)

    def open_window(
        self, slot: int, local: Window, window: Window, pane: Pane | None = None
    ) -> LiveWindow:
        """A new window of the key at a slot, with a pane of its own or that of a window which it replaces."""
        key = self.keys.get(slot)
        if key is None:
            key = self.keys[slot] = Key(slot)
        live = LiveWindow(
            self._number(), pane or self.pane(key), local, window, self.cleanup_of(window)
        )
        self._enter(live)
        if live.cleanup is not None:
            (self.register_event if self.event_time else self.register_processing)(
                live.cleanup, live
            )
        return live

    def register_event(self, time: int, live: LiveWindow) -> None:
        """Set a window's timer by the watermark."""
        self.event.register(time, live.id, time)
        self.due |= time <= self.clock.watermark

    def register_processing(self, time: int, live: LiveWindow) -> None:
        """Set a window's timer by the clock."""
        # The last millisecond of a window has to be over: more rows may come in it.
        due = time + (time == live.window.max_timestamp)
        self.processing.register(time, live.id, due)
        self.due |= due <= self.clock.processing

    def close(self, live: LiveWindow) -> None:
        """Forget a window, its timers, and its key if that has no other."""
        self.event.drop(live.id)
        self.processing.drop(live.id)
        del self.windows[live.id]
        if live.key.windows[live.local] is live:
            del live.key.windows[live.local]
        if not live.key.windows:
            del self.keys[live.key.slot]
            self.emptied.add(live.key.slot)

    def renumber(self, slots: dict[int, int]) -> None:
        """Replace slots after the state has moved them; slots: from old to new."""
        for key in self.keys.values():
            key.slot = slots[key.slot]
        self.keys = {key.slot: key for key in self.keys.values()}
        for live in self.windows.values():
            # A pane before its first row has no slot that could have moved.
            live.pane.slot = slots.get(live.pane.slot, -1)

    def dump(self) -> bytes:
        """Return the registry as JSON."""
        keys = ",".join(
            f"[{key.slot},[{','.join(map(self._dump_window, key.windows.values()))}]]"
            for key in self.keys.values()
        )
        return f'{{"numbers":{self._numbers},"keys":[{keys}]}}'.encode()

    def load(self, text: bytes) -> None:
        """Load what `dump` wrote, into a new registry."""
        data = json.loads(text)
        self._numbers = data["numbers"]
        for slot, windows in data["keys"]:
            key = self.keys[slot] = Key(slot)
            for dumped in windows:
                self._load(key, dumped)

    def check_numbers(self, slots: set[int], rows: int) -> None:
        """Raise ValueError unless windows name keys and accumulators that are there, and rows below a number."""
        panes = [live.pane for live in self.windows.values()]
        own = [pane.slot for pane in panes if pane.slot != -1]
        known = {*self.keys, *own} <= slots and len(own) == len(set(own))
        if not known or not self.keys.keys().isdisjoint(own):
            raise ValueError("a window names accumulators that are not there")
        numbers = [*self.windows, *(pane.id for pane in panes), *(n for p in panes for n in p.rows)]
        times = [t for live in self.windows.values() for t in (*live.local, *live.window)]
        if any(type(number) is not int for number in (*numbers, *times, self._numbers)):
            raise ValueError("a window has something else than numbers")
        if any(not 0 <= number < rows for pane in panes for number in pane.rows):
            raise ValueError("a window names a row that is not there")
        # The next window gets a number that no other has.
        if max([*self.windows, *(pane.id for pane in panes)], default=0) > self._numbers:
            raise ValueError("a window has a number that was not assigned")

    def _number(self) -> int:
        self._numbers += 1
        return self._numbers

    def _enter(self, live: LiveWindow) -> None:
        live.key.windows[live.local] = live
        self.windows[live.id] = live

    def _dump_window(self, live: LiveWindow) -> str:
        # Text, not lists that are then written: those of many windows keep the garbage collector busy.
        (start, end), (since, until), pane = live.local, live.window, live.pane
        state = json.dumps(live.state) if live.state else "{}"
        timers = f"{self.event.of(live.id)},{self.processing.of(live.id)}"
        place = f"{live.id},{start},{end},{since},{until},{pane.id},{pane.slot}"
        return f"[{place},{pane.rows},{list(live.emitted)},{timers},{state}]"

    def _load(self, key: Key, dumped: list[Any]) -> None:
        number, start, end, since, until, pane, slot, rows, emitted, event, processing, state = (
            dumped
        )
        window = Window(since, until)
        cleanup = self.cleanup_of(window)
        live = LiveWindow(number, Pane(pane, key, slot, rows), Window(start, end), window, cleanup)
        live.state, live.emitted = state, tuple(emitted)
        self._enter(live)
        for time in event:
            self.register_event(time, live)
        for time in processing:
            self.register_processing(time, live)
