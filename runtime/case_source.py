"""Between a case's events and the operator: upsert sources and the cuts of mini-batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

Row = tuple[Any, ...]
Change = tuple[Any, ...]


class UpsertNormaliser:
    """Turn an upsert source into a changelog by keeping the last row of each key."""

    def __init__(self, key: Sequence[int]) -> None:
        self._key = tuple(key)
        self._last: dict[Row, Row] = {}

    def __call__(self, kind: str, row: Row) -> Iterator[Change]:
        key = tuple(row[i] for i in self._key)
        previous = self._last.get(key)
        if kind in ("-U", "-D"):
            if previous is not None:
                del self._last[key]
                yield ("-D", *previous)
        elif previous is None:
            self._last[key] = row
            yield ("+I", *row)
        elif previous != row:
            self._last[key] = row
            yield ("-U", *previous)
            yield ("+U", *row)


class Bundles:
    """Cut the input into mini-batches of `size` rows; None passes every row on at once.

    With `key`, the cut is that of a two-phase plan: a local bundle of `size` rows becomes one
    partial row for each key, and the operator's bundle is full after `size` of these. Merging a
    partial row and adding its input rows are the same thing, so only the cut is reproduced.
    """

    def __init__(
        self,
        size: int | None,
        process: Callable[[list[Change]], None],
        flush: Callable[[], None],
        key: Callable[[Change], Row] | None = None,
    ) -> None:
        self._size, self._process, self._flush, self._key = size, process, flush, key
        self._local: list[Change] = []
        self._partials = 0

    def add(self, rows: Iterable[Change]) -> None:
        """Take rows in arrival order."""
        for row in rows:
            if self._size is None:
                self._process([row])
                continue
            self._local.append(row)
            if len(self._local) >= self._size:
                self._end_local()

    def flush(self) -> None:
        """End the bundle, full or not."""
        self._end_local()
        self._end_bundle()

    def _end_local(self) -> None:
        local, self._local = self._local, []
        if self._key is None:
            if local:
                self._process(local)
                self._end_bundle()
            return
        groups: dict[Row, list[Change]] = {}
        for row in local:
            groups.setdefault(self._key(row), []).append(row)
        for rows in groups.values():
            self._process(rows)
            self._partials += 1
            if self._partials == self._size:
                self._end_bundle()

    def _end_bundle(self) -> None:
        self._partials = 0
        self._flush()


def key_positions(
    params: Mapping[str, Any], names: Sequence[str], declared: Mapping[str, str]
) -> list[int]:
    """Where the primary key of a source stands in its rows."""
    listed = params.get("primary_key") or declared.get("primary key")
    if isinstance(listed, str):
        listed = [name.strip() for name in listed.split(",")]
    marked = [
        name
        for name, text in declared.items()
        if "primary key" in str(text).lower() and name in names
    ]
    return [list(names).index(name) for name in (listed or marked)]
