"""The sessions of keys: disjoint windows that grow and merge as rows come, newest first in a list for each key.

This is Flink's merging window set in arrays: the slot of a session is its state window, and stays
the same however its bounds change; a session that was merged points to its new one until its accumulators have moved.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from aggloom.runtime.storage.arena import FIRST_SLOTS, Arena, Array, NumberArray, SlotArray
from aggloom.runtime.storage.audit import Audit, check_stack
from aggloom.runtime.storage.jit import kernel

HIGH, FREE, LIVE = range(3)
_FREE_SLOT, _LIVE_SLOT, _MERGED_SLOT = range(3)


class SessionArrays(NamedTuple):
    """`head` by key slot; the rest by session slot. Links are slots + 1, 0 is none."""

    head: Array  # int32[keys]
    start: Array  # int64[sessions]
    end: Array  # int64[sessions]
    following: Array  # int32[sessions]
    key: Array  # int32[sessions]
    used: Array  # uint8[sessions]
    free: Array  # int32[sessions]
    meta: Array  # int64[3]


@kernel
def _place(
    a: SessionArrays,
    keys: Array,
    starts: Array,
    ends: Array,
    closed: int,
    order: Array,
    slots: Array,
    merges: Array,
) -> int:
    """Put each row's window into a session of its key: `slots`, -1 for a row that is late; returns how many merged.

    A session that ends at or before `closed` takes no rows. merges: the slots that were merged away.
    """
    merged = 0
    for at in range(len(order)):
        r = order[at]
        k, start, end = keys[r], starts[r], ends[r]
        before = np.int64(-1)
        here = np.int64(a.head[k]) - 1
        # The list is newest first, and no two sessions touch: those passed by here begin after the window, all others
        # do not.
        while here >= 0 and a.start[here] > end:
            before = here
            here = np.int64(a.following[here]) - 1
        first = np.int64(-1)
        while here >= 0 and a.end[here] >= start:
            # Read before this session's link may become the way to the one that it is merged into.
            beyond = np.int64(a.following[here]) - 1
            start, end = min(start, a.start[here]), max(end, a.end[here])
            if first < 0:
                first = here
            else:
                # The slot is not free yet: earlier rows of the bundle were put there, and find the session by its
                # link (_roots).
                a.used[here] = _MERGED_SLOT
                a.following[here] = first + 1
                a.meta[LIVE] -= 1
                merges[merged] = here
                merged += 1
            here = beyond
        if first < 0:
            # Only a row that begins a session can be late: one that joins a session prolongs what is still open.
            if end <= closed:
                slots[r] = -1
                continue
            if a.meta[FREE] > 0:
                a.meta[FREE] -= 1
                first = np.int64(a.free[a.meta[FREE]])
            else:
                first = a.meta[HIGH]
                a.meta[HIGH] += 1
            a.meta[LIVE] += 1
            a.used[first] = _LIVE_SLOT
            a.key[first] = k
            if before < 0:
                a.head[k] = first + 1
            else:
                a.following[before] = first + 1
        a.start[first], a.end[first] = start, end
        a.following[first] = here + 1
        slots[r] = first
    return merged


@kernel
def _roots(a: SessionArrays, slots: Array) -> None:
    """Replace slots that were merged away by those that they were merged into."""
    for r in range(len(slots)):
        s = slots[r]
        while s >= 0 and a.used[s] == _MERGED_SLOT:
            s = np.int64(a.following[s]) - 1
        slots[r] = s


@kernel
def _free(a: SessionArrays, slots: Array) -> None:
    for r in range(len(slots)):
        s = slots[r]
        # A slot that was merged away is in no list any more, and was not counted since.
        if a.used[s] == _LIVE_SLOT:
            a.meta[LIVE] -= 1
            k = a.key[s]
            here = np.int64(a.head[k]) - 1
            if here == s:
                a.head[k] = a.following[s]
            else:
                while a.following[here] != s + 1:
                    here = np.int64(a.following[here]) - 1
                a.following[here] = a.following[s]
        a.used[s] = _FREE_SLOT
        a.following[s] = a.start[s] = a.end[s] = 0
        a.free[a.meta[FREE]] = s
        a.meta[FREE] += 1


@kernel
def _check_sessions(a: SessionArrays, used: Array, marks: Array) -> bool:
    """Tell whether the lists of all keys have every session once, newest first, none of which touch.

    used: uint8[keys], 1 for one in use. marks: uint8[sessions], 1 for a free one and else 0; set to 2.
    """
    count = np.int64(0)
    for k in range(len(a.head)):
        here, before = np.int64(a.head[k]) - 1, np.int64(-1)
        if here >= 0 and (k >= len(used) or used[k] == 0):
            return False
        while here != -1:
            if here < 0 or here >= a.meta[HIGH] or marks[here] != 0 or a.used[here] != _LIVE_SLOT:
                return False
            if a.key[here] != k or a.start[here] > a.end[here]:
                return False
            # Sessions that touch would have been merged: the walk in _place relies on it.
            if before >= 0 and a.end[here] >= a.start[before]:
                return False
            marks[here] = 2
            count += 1
            before, here = here, np.int64(a.following[here]) - 1
    for s in range(len(marks)):
        if (a.used[s] != _FREE_SLOT) != (marks[s] == 2):
            return False
    return count == a.meta[LIVE]


class SessionTable:
    """The sessions of as many keys as there are key slots."""

    def __init__(self, arena: Arena) -> None:
        self.arena = arena
        arena.array("sessions.head", FIRST_SLOTS, "i4")
        for name in ("start", "end"):
            arena.array(f"sessions.{name}", FIRST_SLOTS, "i8")
        for name in ("following", "key", "free"):
            arena.array(f"sessions.{name}", FIRST_SLOTS, "i4")
        arena.array("sessions.used", FIRST_SLOTS, "u1")
        arena.array("sessions.meta", 3, "i8")
        self._reload()

    def __len__(self) -> int:
        return int(self.arrays.meta[LIVE])

    def check_restored(self, audit: Audit, used: Array) -> None:
        """Raise StateCorruptError unless the arrays of a snapshot are sessions; used: uint8[keys], 1 for one in use."""
        a, name = self.arrays, "sessions"
        audit.require_length(self.capacity, name, *a[1:-1])
        high, free, live = a.meta[:3].tolist()
        marks = np.zeros(self.capacity, np.uint8)
        right = 0 <= free <= high <= self.capacity and live == high - free
        right = right and check_stack(a.free, free, marks, 0, high - 1)
        right = right and _check_sessions(a, used, marks)
        audit.require(right, name, "its lists do not lead over its sessions once")

    @property
    def capacity(self) -> int:
        """Sessions that there is room for."""
        return len(self.arrays.used)

    def place(
        self, keys: SlotArray, key_slots: int, starts: NumberArray, ends: NumberArray, closed: int
    ) -> tuple[Array, Array]:
        """(the session of each row or -1, sessions merged away); windows [start, end) of rows whose keys have slots.

        The merged ones are to be freed once their contents have moved to `roots`.
        """
        n = len(keys)
        self._reserve(n, key_slots)
        order = np.arange(n, dtype=np.int64)
        if n and closed < int(ends.min()) and (starts[1:] < starts[:-1]).any():
            # No row is late, so that their order means nothing: in order of time each finds its place at once.
            order = np.argsort(starts, kind="stable")
        slots = np.empty(n, np.int64)
        # Each row, and each session, may be merged away.
        merges = np.empty(n + len(self), np.int64)
        merged = _place(
            self.arrays,
            keys,
            starts,
            ends=ends,
            closed=closed,
            order=order,
            slots=slots,
            merges=merges,
        )
        _roots(self.arrays, slots)
        return slots, merges[:merged].copy()

    def roots(self, slots: SlotArray) -> Array:
        """The live sessions that sessions were merged into."""
        roots = slots.copy()
        _roots(self.arrays, roots)
        return roots

    def free(self, slots: SlotArray) -> None:
        """Forget sessions; their slots are used again."""
        # Lists begin with the newest: in this order each is near the front when it is taken out.
        newest_first = np.argsort(-self.arrays.start[slots], kind="stable")
        _free(self.arrays, slots[newest_first])

    def live(self) -> Array:
        """The slots of all sessions."""
        return np.flatnonzero(self.arrays.used == _LIVE_SLOT).astype(np.int64)

    def reset(self) -> None:
        """Give the memory back; only when no session is left."""
        for name in SessionArrays._fields[:-1]:
            self.arena.replace(f"sessions.{name}", FIRST_SLOTS)
        self.arrays.meta[:] = 0
        self._reload()

    def _reserve(self, rows: int, key_slots: int) -> None:
        if key_slots > len(self.arrays.head):
            self.arena.resize("sessions.head", max(key_slots, 2 * len(self.arrays.head)))
        meta = self.arrays.meta
        need = int(meta[HIGH]) + rows - int(meta[FREE])
        if need > self.capacity:
            size = max(need, 2 * self.capacity)
            for name in SessionArrays._fields[1:-1]:
                self.arena.resize(f"sessions.{name}", size)
        self._reload()

    def _reload(self) -> None:
        arrays = (self.arena.array(f"sessions.{n}", 0, "i8") for n in SessionArrays._fields)
        self.arrays = SessionArrays(*arrays)
