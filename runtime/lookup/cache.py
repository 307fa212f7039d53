"""The cache of a lookup table in a worker process: the answers to the keys asked for last, or all rows."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence

from aggloom.codegen import Cache
from aggloom.runtime.lookup.batch import current_batch
from aggloom.runtime.lookup.request import Key, Row, Times

EVERY_BATCH = -1
_Entry = tuple[list[Row], float, float]


class Partial:
    """Answers by key: of too many rows those go first that were not asked for longest; old ones are asked anew."""

    def __init__(self, settings: Cache, times: Times) -> None:
        self._settings, self._times = settings, times
        self._entries: OrderedDict[Key, _Entry] = OrderedDict()
        self._rows = 0

    def __len__(self) -> int:
        """Rows that are kept; a key that found nothing counts as one."""
        return self._rows

    def get(self, key: Key) -> list[Row] | None:
        """The answer to a key; None if it is not known any more."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        rows, written, used = entry
        now, settings = self._times.now(), self._settings
        old = settings.expire_after_write and now >= written + settings.expire_after_write / 1000
        unused = settings.expire_after_access and now >= used + settings.expire_after_access / 1000
        # Asked anew, and not used once more while it is fetched: an old answer would be wrong without a word.
        if old or unused:
            self._drop(key)
            return None
        # Moved to the end, so that the first entry is the one that was not asked for longest.
        self._entries[key] = rows, written, now
        self._entries.move_to_end(key)
        return rows

    def put(self, key: Key, rows: list[Row]) -> None:
        """Keep an answer."""
        # Without this setting, a row that is added to the table later is found at once.
        if not rows and not self._settings.caches_misses:
            return
        if key in self._entries:
            self._drop(key)
        now = self._times.now()
        self._entries[key] = rows, now, now
        # A key without rows counts as well, so that misses cannot fill the memory.
        self._rows += max(1, len(rows))
        while self._rows > self._settings.max_rows:
            self._drop(next(iter(self._entries)))

    def _drop(self, key: Key) -> None:
        rows, _, _ = self._entries.pop(key)
        self._rows -= max(1, len(rows))


class Whole:
    """All rows of a table by key. They are read when they are first asked for, and again by the rule of the cache."""

    def __init__(
        self,
        settings: Cache,
        times: Times,
        read: Callable[[], Sequence[Row]],
        key_of: Callable[[Row], Key],
    ) -> None:
        self._settings, self._times, self._read, self._key_of = settings, times, read, key_of
        self._rows: dict[Key, list[Row]] | None = None
        # An object of its own, as None is a batch that a caller may name.
        self._since, self._batch = 0.0, object()

    def get(self, key: Key) -> list[Row]:
        """The rows of a key."""
        assert self._rows is not None
        return self._rows.get(key, [])

    def refresh(self) -> None:
        """Read the table again if it is time: a batch sees one reading of it."""
        batch, refresh, now = current_batch(), self._settings.refresh, self._times.now()
        if self._rows is not None:
            if refresh == EVERY_BATCH and batch == self._batch:
                return
            if refresh != EVERY_BATCH and (not refresh or now < self._since + refresh / 1000):
                return
        rows_by_key: dict[Key, list[Row]] = {}
        for row in self._read():
            key = self._key_of(row)
            # A NULL in a key equals nothing, so that no row would ever find it.
            if None not in key:
                rows_by_key.setdefault(key, []).append(row)
        # Only after all was read: an error leaves the rows of before, with their time.
        self._rows, self._since, self._batch = rows_by_key, now, batch
