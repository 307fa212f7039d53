"""Comparing what came out with what a case expects: messages in order, as a bag, or net content.

Numbers compare by value: decimals at the column's scale, FLOAT at 32-bit precision, DOUBLE to
twelve digits.
"""

from __future__ import annotations

import datetime as dt
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

import pyarrow as pa

from aggloom.runtime.values.changelog import same_value
from cases.format import to_value

Change = tuple[str, tuple[Any, ...]]
_SINGLE, _DOUBLE = 1e-6, 1e-12
_ADDS = ("+I", "+U")


def typed(rows: Iterable[Change], schema: pa.Schema, rounded: bool = False) -> list[Change]:
    """Expected rows with their values in the result's types."""
    out: list[Change] = []
    for kind, values in rows:
        if len(values) != len(schema):
            out.append((kind, values))
            continue
        out.append(
            (
                kind,
                tuple(_expected(v, f.type, rounded) for v, f in zip(values, schema, strict=True)),
            )
        )
    return out


def _expected(raw: Any, kind: pa.DataType, rounded: bool) -> Any:
    value = to_value(raw, kind)
    if rounded and isinstance(value, Decimal):
        return value.quantize(Decimal(1).scaleb(-kind.scale), ROUND_HALF_UP)
    return value


def difference(
    mode: str,
    expected: Sequence[Change],
    actual: Sequence[Change],
    schema: pa.Schema,
    tolerance: float,
) -> str | None:
    """None when they agree, else a short text with the rows missing and the rows too many.

    mode: ordered, unordered (each as often as it is listed) or set (however often).
    """
    singles = frozenset(i for i, f in enumerate(schema) if _holds_singles(f.type))
    if mode == "ordered":
        return _in_order(expected, actual, singles, tolerance)
    if mode == "set":
        expected, actual = _different(expected, singles), _different(actual, singles)
    missing = list(expected)
    surplus: list[Change] = []
    for change in actual:
        for position, candidate in enumerate(missing):
            if _same(candidate, change, singles, tolerance):
                del missing[position]
                break
        else:
            surplus.append(change)
    if not missing and not surplus:
        return None
    return f"missing {_show(missing)}; not expected {_show(surplus)}"


def _different(changes: Sequence[Change], singles: frozenset[int]) -> list[Change]:
    """The messages, each once."""
    kept: list[Change] = []
    for change in changes:
        if not any(_same(known, change, singles, 0.0) for known in kept):
            kept.append(change)
    return kept


def _holds_singles(kind: pa.DataType) -> bool:
    """Tell whether a column's values have 32-bit floats in them."""
    if pa.types.is_struct(kind):
        return any(_holds_singles(field.type) for field in kind)
    if pa.types.is_map(kind):
        return _holds_singles(kind.key_type) or _holds_singles(kind.item_type)
    if pa.types.is_list(kind):
        return _holds_singles(kind.value_type)
    return bool(pa.types.is_float32(kind))


def _in_order(
    expected: Sequence[Change], actual: Sequence[Change], singles: frozenset[int], tolerance: float
) -> str | None:
    for position, (want, got) in enumerate(zip(expected, actual, strict=False)):
        if not _same(want, got, singles, tolerance):
            return f"message {position}: expected {_show([want])}, got {_show([got])}"
    if len(expected) != len(actual):
        return f"expected {len(expected)} messages, got {len(actual)}: {_show(actual)}"
    return None


def _show(changes: Sequence[Change]) -> str:
    shown = ", ".join(f"{kind}{list(values)}" for kind, values in changes[:5])
    return (shown or "nothing") + (f" and {len(changes) - 5} more" if len(changes) > 5 else "")


def _same(want: Change, got: Change, singles: frozenset[int], tolerance: float) -> bool:
    if want[0] != got[0] or len(want[1]) != len(got[1]):
        return False
    return all(
        equal_values(a, b, max(tolerance, _SINGLE if i in singles else _DOUBLE))
        for i, (a, b) in enumerate(zip(want[1], got[1], strict=True))
    )


def equal_values(a: Any, b: Any, tolerance: float = _DOUBLE) -> bool:
    """Equality of two result values: NULL is NULL, NaN is NaN, numbers by value."""
    if a is None or b is None:
        return a is b
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(equal_values(a[k], b[k], tolerance) for k in a)
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        if _is_map(a) and _is_map(b):
            return _same_entries(a, b, tolerance)
        return len(a) == len(b) and all(
            equal_values(x, y, tolerance) for x, y in zip(a, b, strict=True)
        )
    if isinstance(a, float) or isinstance(b, float):
        if not isinstance(a, int | float | Decimal) or not isinstance(b, int | float | Decimal):
            return False
        x, y = float(a), float(b)
        return (
            x == y
            or (math.isnan(x) and math.isnan(y))
            or math.isclose(x, y, rel_tol=tolerance, abs_tol=1e-300)
        )
    if isinstance(a, bool) != isinstance(b, bool):
        return False
    if isinstance(a, dt.datetime) and isinstance(b, dt.datetime):
        return a.replace(tzinfo=None) == b.replace(tzinfo=None)
    return bool(a == b)


def _is_map(value: Sequence[Any]) -> bool:
    """Tell whether a value is a map as Arrow shows it: a list of tuples."""
    return isinstance(value, list) and all(isinstance(entry, tuple) for entry in value)


def _same_entries(a: Sequence[Any], b: Sequence[Any], tolerance: float) -> bool:
    """Equality in any order."""
    left = list(b)
    for entry in a:
        found = [k for k, other in enumerate(left) if equal_values(entry, other, tolerance)]
        if not found:
            return False
        del left[found[0]]
    return not left


def net(changes: Iterable[Change]) -> list[Change]:
    """The net content of messages: additions and removals of equal rows cancel."""
    balance: Counter[Any] = Counter()
    rows: dict[Any, tuple[Any, ...]] = {}
    for kind, values in changes:
        mark = same_value(values)
        rows[mark] = values
        balance[mark] += 1 if kind in _ADDS else -1
    out: list[Change] = []
    for mark, count in balance.items():
        out += [("+I" if count > 0 else "-D", rows[mark])] * abs(count)
    return out
