"""The difference of two tables as lines: missing rows, unexpected rows, and differing values."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence
from typing import Any

from aggloom.display import text_of
from aggloom.runtime.values.changelog import same_value, sort_key
from aggloom.testing.values import equal

Row = tuple[Any, ...]
_SHOWN = 20
"""The number of differing rows that are shown."""


def difference(
    names: Sequence[str], expected: Sequence[Row], rows: Sequence[Row], key: Sequence[str] = ()
) -> list[str]:
    """Lines that say how rows, in any order, differ from what was expected; none if they do not.

    `-` is a row that was expected, `+` one that was found instead, or that nobody expected; key: the columns by which
    two such are one row that differs. Signs below such a pair mark the values.
    """
    missing, extra = _remove_matches(expected, rows)
    if not missing and not extra:
        return []
    places = [names.index(name) for name in key if name in names]
    pairs = _pair_rows(missing, extra, places)
    same = len(expected) - len(missing)
    counted = f"expected {_rows(len(expected))}, found {_rows(len(rows))}"
    lines = [f"{counted}; {_rows(same)} as expected" if same else counted]
    return lines + _table(names, pairs)


def _rows(number: int) -> str:
    return f"{number:,} row{'s' * (number != 1)}"


def _remove_matches(expected: Sequence[Row], rows: Sequence[Row]) -> tuple[list[Row], list[Row]]:
    """Return the rows that are left of both sides once equal rows are taken out, one for one."""
    exact: Callable[[Row], Any] = lambda row: tuple(map(same_value, row))  # noqa: E731
    missing, extra = _take_matches(expected, rows, exact)
    # Only among rows without an exact match: comparing floats nearly is no equality that could be looked up, and takes
    # each pair.
    for row in list(missing):
        near = next((other for other in extra if all(map(equal, row, other))), None)
        if near is not None:
            missing.remove(row)
            extra.remove(near)
    return missing, extra


def _take_matches(
    expected: Sequence[Row], actual: Sequence[Row], of: Callable[[Row], Any]
) -> tuple[list[Row], list[Row]]:
    left: dict[Any, list[Row]] = {}
    for row in actual:
        left.setdefault(of(row), []).append(row)
    missing = []
    for row in expected:
        same = left.get(of(row))
        if same:
            same.pop()
        else:
            missing.append(row)
    return missing, [row for rows in left.values() for row in rows]


def _pair_rows(
    missing: list[Row], extra: list[Row], places: list[int]
) -> list[tuple[Row | None, Row | None]]:
    """Rows of one key beside each other, in the order of the key."""
    pairs: list[tuple[Row | None, Row | None]] = []
    rest = list(extra)
    for row in missing:
        same = [other for other in rest if all(equal(row[at], other[at]) for at in places)]
        # Without a key all rows would be equal to all others.
        other = same[0] if places and same else None
        if other is not None:
            rest.remove(other)
        pairs.append((row, other))
    pairs += [(None, row) for row in rest]

    def by(pair: tuple[Row | None, Row | None]) -> list[Any]:
        row = pair[0] if pair[0] is not None else pair[1] or ()
        return [sort_key(value) for value in (*(row[at] for at in places), *row)]

    try:
        return sorted(pairs, key=by)
    except TypeError:
        # Values of one column that have no order, such as maps.
        return pairs


def _table(names: Sequence[str], pairs: Sequence[tuple[Row | None, Row | None]]) -> list[str]:
    """The rows under their names, in columns."""
    lines: list[tuple[str, list[str]]] = [(" ", [text_of(name) for name in names])]
    for one, other in pairs[:_SHOWN]:
        if one is not None:
            lines.append(("-", list(map(text_of, one))))
        if other is not None:
            lines.append(("+", list(map(text_of, other))))
        if one is not None and other is not None:
            marks = [
                # Compared as the test compares: two floats that are written differently, but count as the same, get no
                # mark.
                "" if equal(a, b) else "^" * max(_width(text_of(a)), _width(text_of(b)))
                for a, b in zip(one, other, strict=True)
            ]
            lines.append((" ", marks))
    # Of all lines together, so that the marks stand under their cells.
    wide = [max(_width(cells[at]) for _, cells in lines) for at in range(len(names))]
    drawn = [f"{sign} {_pad_cell(cells, wide)}".rstrip() for sign, cells in lines]
    if len(pairs) > _SHOWN:
        drawn.append(f"  and {len(pairs) - _SHOWN:,} more")
    return drawn


def _pad_cell(cells: Sequence[str], wide: Sequence[int]) -> str:
    return "  ".join(
        cell + " " * (width - _width(cell)) for cell, width in zip(cells, wide, strict=True)
    )


def _width(text: str) -> int:
    """Count the columns of a terminal that a text takes."""
    # Terminals draw Chinese letters two columns wide, and combining marks none: otherwise the marks below would miss.
    wide = sum(unicodedata.east_asian_width(sign) in "WF" for sign in text)
    return len(text) + wide - sum(unicodedata.combining(sign) > 0 for sign in text)
