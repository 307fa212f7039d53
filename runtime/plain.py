"""What modules generated for plain Python import as `rt`: the same words over Python objects.

Integers are Python's, float sums are fractions, views are dicts and lists: slow, simple to step through, and
an independent check of the compiled backend.
"""

from __future__ import annotations

import ast
import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa

from aggloom.runtime import columns
from aggloom.runtime.arena import Arena, Array
from aggloom.runtime.handler import HandlerBase, Kernels

__all__ = ["Handler", "Kernels"]

NO_WORD = NO_FLOAT = NO_LIMBS = 0
FloatSum = tuple[Fraction, int, int, int]
_ZERO_SUM: FloatSum = (Fraction(0), 0, 0, 0)


def add_wide(total: int, x: int) -> int:
    return total + x


def subtract_wide(total: int, x: int) -> int:
    return total - x


combine_wide = add_wide


def add_float(total: FloatSum, x: float, change: int = 1) -> FloatSum:
    exact, nans, above, below = total
    if math.isnan(x):
        return exact, nans + change, above, below
    if math.isinf(x):
        return exact, nans, above + change * (x > 0), below + change * (x < 0)
    return exact + change * Fraction(x), nans, above, below


def subtract_float(total: FloatSum, x: float) -> FloatSum:
    return add_float(total, x, -1)


def combine_float(a: FloatSum, b: FloatSum) -> FloatSum:
    return a[0] + b[0], a[1] + b[1], a[2] + b[2], a[3] + b[3]


def float_total(total: FloatSum) -> float:
    exact, nans, above, below = total
    if nans > 0 or (above > 0 and below > 0):
        return math.nan
    if above > 0:
        return math.inf
    if below > 0:
        return -math.inf
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def wide_to_bigint(total: int) -> tuple[int, bool]:
    return total, -(2**63) <= total < 2**63


def wide_to_decimal(total: int, precision: int) -> tuple[int, bool]:
    return total, abs(total) < 10**precision


def wide_to_float(total: int) -> float:
    return float(total)


def divide_wide(total: int, count: int, digits: int, precision: int) -> tuple[int, bool]:
    quotient, rest = divmod(abs(total) * 10**digits, abs(count))
    quotient += 2 * rest >= abs(count)
    return wide_to_decimal(-quotient if (total < 0) != (count < 0) else quotient, precision)


def truncate_divide(a: int, b: int) -> int:
    quotient = abs(a) // abs(b)
    return -quotient if (a < 0) != (b < 0) else quotient


def wrap(value: int, bits: int) -> int:
    half = 1 << (bits - 1)
    return (value + half) % (1 << bits) - half


def compare(pool: None, pooled: bool, a: Any, b: Any) -> int:
    return (a > b) - (a < b)


def wide_at(column: list[Any], i: int) -> Any:
    return column[i]


def load_wide(field: list[Any], s: int) -> Any:
    return field[s]


def store_wide(field: list[Any], s: int, value: Any) -> None:
    field[s] = value


load_float, store_float = load_wide, store_wide


def clear_wide(field: list[Any], s: int) -> None:
    field[s] = 0


def clear_float(field: list[Any], s: int) -> None:
    field[s] = _ZERO_SUM


def store_pooled(field: list[Any], pool: None, s: int, word: Any) -> None:
    field[s] = word


def import_word(pool: None, other: None, word: Any) -> Any:
    return word


def put_word(out: list[Any], k: int, value: Any) -> None:
    out[k] = value


put_limbs = put_word


def put_float(out: list[Any], k: int, value: float) -> None:
    out[k] = float_word(value)


def float_word(value: float) -> int:
    return int(columns.float_words(np.array([value], np.float64))[0])


def word_to_float(word: int) -> float:
    return float(columns.words_to_floats(np.array([word], np.int64))[0])


def word_to_wide(word: int) -> int:
    return word


def pooled_to_wide(pool: None, word: int) -> int:
    return word


Counter = dict[Any, int]


def _count(counts: Counter, value: Any, change: int) -> None:
    counts[value] = counts.get(value, 0) + change
    if counts[value] == 0:
        del counts[value]


def ordered_accumulate(view: list[Counter], pool: None, pooled: bool, s: int, word: Any) -> None:
    _count(view[s], word, 1)


def ordered_retract(view: list[Counter], pool: None, pooled: bool, s: int, word: Any) -> None:
    _count(view[s], word, -1)


def ordered_merge(
    view: list[Counter],
    pool: None,
    pooled: bool,
    s: int,
    other: list[Counter],
    other_pool: None,
    o: int,
) -> None:
    for word, count in other[o].items():
        _count(view[s], word, count)


def ordered_clear(view: list[Any], pool: None, pooled: bool, s: int) -> None:
    view[s].clear()


def least(view: list[Counter], pool: None, pooled: bool, s: int) -> tuple[Any, bool]:
    shown = [word for word, count in view[s].items() if count > 0]
    return (min(shown), True) if shown else (0, False)


def greatest(view: list[Counter], pool: None, pooled: bool, s: int) -> tuple[Any, bool]:
    shown = [word for word, count in view[s].items() if count > 0]
    return (max(shown), True) if shown else (0, False)


def sequence_accumulate(view: list[list[Any]], pool: None, pooled: bool, s: int, word: Any) -> None:
    view[s].append(word)


def sequence_retract(view: list[list[Any]], pool: None, pooled: bool, s: int, word: Any) -> None:
    if word in view[s]:
        view[s].remove(word)


def sequence_merge(
    view: list[list[Any]],
    pool: None,
    pooled: bool,
    s: int,
    other: list[list[Any]],
    other_pool: None,
    o: int,
) -> None:
    view[s].extend(other[o])


def sequence_merge_distinct(
    view: list[list[Any]],
    pool: None,
    pooled: bool,
    s: int,
    other: list[list[Any]],
    other_pool: None,
    o: int,
    counts: Multiset,
    column: int,
) -> None:
    for word in other[o]:
        shown = word in counts[s] and counts[s][word][column] > 0
        if shown and word not in view[s]:
            view[s].append(word)


sequence_clear = multiset_clear = ordered_clear


def oldest(view: list[list[Any]], pool: None, pooled: bool, s: int) -> tuple[Any, bool]:
    return (view[s][0], True) if view[s] else (0, False)


def newest(view: list[list[Any]], pool: None, pooled: bool, s: int) -> tuple[Any, bool]:
    return (view[s][-1], True) if view[s] else (0, False)


Entry = tuple[int, Any]


class Multiset(list[dict[Any, list[int]]]):
    """By slot: value -> one count for each sharing call."""

    def __init__(self, slots: int, width: int) -> None:
        super().__init__({} for _ in range(slots))
        self.width = width


def multiset_entry(view: Multiset, pool: None, pooled: bool, s: int, word: Any) -> Entry:
    view[s].setdefault(word, [0] * view.width)
    return s, word


def multiset_change(view: Multiset, entry: Entry, column: int, change: int) -> int:
    counts = view[entry[0]][entry[1]]
    counts[column] += change
    return counts[column]


def multiset_count(view: Multiset, entry: Entry, column: int) -> int:
    return view[entry[0]][entry[1]][column]


def multiset_word(view: Multiset, entry: Entry) -> Any:
    return entry[1]


def multiset_first(view: Multiset, s: int) -> Entry | None:
    return next(((s, word) for word in view[s]), None)


def multiset_after(view: Multiset, pool: None, s: int, entry: Entry) -> Entry | None:
    words = list(view[entry[0]])
    place = words.index(entry[1]) + 1
    return (entry[0], words[place]) if place < len(words) else None


def multiset_settle(view: Multiset, pool: None, pooled: bool, s: int, entry: Entry) -> None:
    if not any(view[entry[0]][entry[1]]):
        del view[entry[0]][entry[1]]


class Accumulators:
    """n accumulators as Python lists; `sync` writes them into the arena as text, for snapshots."""

    def __init__(self, handler: type[HandlerBase], arena: Arena, slots: int) -> None:
        self.handler, self.arena = handler, arena
        self.slots = slots
        self.fields: dict[str, list[Any]] = {
            attr: [_ZERO_SUM if kind == "float" else 0] * slots
            for attr, _, _, kind, _ in handler.FIELDS
        }
        self.views: dict[str, Any] = {
            attr: _new_view(kind, slots, width) for attr, kind, _, width in handler.VIEWS
        }
        if "plain.state" in arena:
            self._load(ast.literal_eval(arena.array("plain.state", 0, "u1").tobytes().decode()))

    @property
    def state(self) -> Any:
        return self.handler.KERNELS.state(None, *self.fields.values(), *self.views.values())

    @property
    def records(self) -> Array:
        return np.array(self.fields["records"], np.int64)

    def resize(self, slots: int) -> None:
        more = max(0, slots - self.slots)
        fresh = Accumulators(self.handler, Arena(), more)
        for attr, values in self.fields.items():
            self.fields[attr] = values[:slots] + fresh.fields[attr]
        for attr, view in self.views.items():
            view[:] = view[:slots] + fresh.views[attr]
        self.slots = slots

    def reserve(self, rows: int) -> int:
        """Lists need no room."""
        return rows

    is_airy = False

    def trim(self) -> None:
        """Python frees."""

    def reserve_merge(self, other: Accumulators) -> None:
        """Lists need no room."""

    def sweep(self) -> None:
        """Python frees."""

    def sync(self) -> None:
        text = repr((self.slots, _plain(self.fields), _plain(self.views))).encode()
        self.arena.array("plain.state", len(text), "u1")
        self.arena.replace("plain.state", len(text))[:] = np.frombuffer(text, np.uint8)

    def dump(self) -> list[Any]:
        return [
            ([v[s] for v in self.fields.values()], [v[s] for v in self.views.values()])
            for s in range(self.slots)
        ]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Accumulators) and self.dump() == other.dump()

    __hash__ = None  # type: ignore[assignment]

    def _load(self, saved: tuple[int, dict[str, Any], dict[str, Any]]) -> None:
        self.slots = saved[0]
        for attr, _, _, kind, _ in self.handler.FIELDS:
            values = saved[1][attr]
            self.fields[attr] = (
                [(Fraction(*v[0]), *v[1:]) for v in values] if kind == "float" else values
            )
        for attr, kind, _, width in self.handler.VIEWS:
            view = _new_view(kind, 0, width)
            view.extend(saved[2][attr])
            self.views[attr] = view


def _new_view(kind: str, slots: int, width: int) -> Any:
    if kind == "multiset":
        return Multiset(slots, width)
    return [{} if kind == "ordered" else [] for _ in range(slots)]


def _plain(value: Any) -> Any:
    """The same in literals that `ast.literal_eval` reads."""
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_plain(v) for v in value]
    if isinstance(value, tuple):
        return tuple(_plain(v) for v in value)
    if isinstance(value, Fraction):
        return (value.numerator, value.denominator)
    return value


class Handler(HandlerBase):
    """The base of handlers in plain Python."""

    accumulators_type = Accumulators

    def bind_column(
        self, column: pa.Array, name: str, form: str, bound: dict[tuple[str, str], Any]
    ) -> None:
        if form == "flag":
            bound[name, form] = columns.flags(column).tolist()
        elif form == "valid":
            bound[name, form] = columns.validity(column).tolist()
        elif form == "number" and pa.types.is_floating(column.type):
            bound[name, form] = column.cast(pa.float64()).to_pylist()
        else:
            bound[name, form] = _python_words(column)

    def pick(self, inputs: Any, rows: Array) -> Any:
        return self.KERNELS.inputs(*([column[row] for row in rows] for column in inputs))

    def outputs(self, n: int) -> Any:
        lists: list[list[Any]] = [[0] * max(1, len(self.OUTPUTS))]
        for _ in self.OUTPUTS:
            lists += [[0] * n, [False] * n]
        return self.KERNELS.outputs(*lists)

    def differ(self, before: Any, after: Any, rows: int) -> Array:
        pairs = list(zip(before[1:], after[1:], strict=True))
        return np.array([any(a[k] != b[k] for a, b in pairs) for k in range(rows)], np.bool_)

    def concatenate(self, before: Any, after: Any) -> Any:
        return type(before)(*(a + b for a, b in zip(before, after, strict=True)))

    def to_arrow(
        self, out: Any, fields: list[pa.Field], take: Array | None = None
    ) -> list[pa.Array]:
        made = []
        for position, field in enumerate(fields):
            data, valid = out[1 + 2 * position], out[2 + 2 * position]
            chosen = range(len(data)) if take is None else take.tolist()
            made.append(_from_python_words([data[k] if valid[k] else None for k in chosen], field))
        return made


def _python_words(column: pa.Array) -> list[Any]:
    """A column as Python values that are equal and ordered as SQL's are; None for NULL."""
    dtype = column.type
    if pa.types.is_decimal(dtype):
        shift = dtype.scale
        return [None if v is None else _unscaled(v, shift) for v in column.to_pylist()]
    if pa.types.is_string(dtype) or pa.types.is_binary(dtype) or pa.types.is_boolean(dtype):
        return list(column.to_pylist())
    if pa.types.is_floating(dtype):
        return [None if v is None else float_word(v) for v in column.to_pylist()]
    return list(column.view(columns.carrier(dtype)).to_pylist())


def _unscaled(value: Decimal, scale: int) -> int:
    sign, digits, exponent = value.as_tuple()
    number = int("".join(map(str, digits))) * 10 ** (scale + int(exponent))
    return -number if sign else number


def _from_python_words(values: list[Any], field: pa.Field) -> pa.Array:
    dtype = field.type
    if pa.types.is_decimal(dtype):
        mask = (1 << 64) - 1
        limbs = np.zeros((len(values), 2), np.uint64)
        for k, v in enumerate(values):
            if v is not None:
                limbs[k] = (v & mask, (v >> 64) & mask)
        valid = np.array([v is not None for v in values], np.bool_)
        return columns.from_limbs(limbs.view(np.int64), valid, dtype)
    if pa.types.is_floating(dtype):
        floats = [None if v is None else word_to_float(v) for v in values]
        return pa.array(floats, pa.float64()).cast(dtype)
    if pa.types.is_string(dtype) or pa.types.is_binary(dtype) or pa.types.is_boolean(dtype):
        return pa.array(values, dtype)
    return pa.array(values, columns.carrier(dtype)).view(dtype)
