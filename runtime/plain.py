"""The backend of handlers in plain Python: accumulators in lists and dicts, bound columns, results.

Integers are Python's, float sums are fractions: slow, simple to step through, and an independent check of the
compiled backend.
"""

from __future__ import annotations

import ast
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa

from aggloom.physical import is_nested
from aggloom.runtime import columns, rows
from aggloom.runtime.arena import Arena, Array
from aggloom.runtime.handler import HandlerBase
from aggloom.runtime.plain_floats import ZERO_SUM
from aggloom.runtime.plain_sketches import new_sketch
from aggloom.runtime.plain_values import real_word, word_to_float
from aggloom.runtime.plain_views import (
    ListOut,
    concatenated,
    lists_differ,
    new_list_out,
    new_view,
    rows_of,
)


class Accumulators:
    """n accumulators as Python lists; `sync` writes them into the arena as text, for snapshots."""

    def __init__(self, handler: type[HandlerBase], arena: Arena, slots: int) -> None:
        self.handler, self.arena = handler, arena
        self.slots = slots
        self.fields: dict[str, list[Any]] = {
            attr: [ZERO_SUM if kind == "float" else 0] * slots
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
    make = new_sketch if kind in ("bits", "registers", "bins", "quantiles") else new_view
    return make(kind, slots, width)


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
        elif form == "real" or (form == "number" and pa.types.is_floating(column.type)):
            bound[name, form] = columns.reals(column).tolist()
        elif form == "real_word":
            bound[name, form] = columns.float_words(columns.reals(column)).tolist()
        else:
            bound[name, form] = _python_words(column)

    def pick(self, inputs: Any, rows: Array) -> Any:
        return self.KERNELS.inputs(*([column[row] for row in rows] for column in inputs))

    def outputs(self, n: int) -> Any:
        lists: list[Any] = [[0] * max(1, len(self.OUTPUTS))]
        for _, form, width, _ in self.OUTPUTS:
            empty = (0,) * width if form in ("words", "floats") else 0
            lists += [new_list_out(n) if form == "list" else [empty] * n, [False] * n]
        return self.KERNELS.outputs(*lists)

    def differ(self, before: Any, after: Any, rows: int) -> Array:
        changed = np.zeros(rows, np.bool_)
        for a, b in zip(before[1:], after[1:], strict=True):
            if isinstance(a, ListOut):
                changed |= lists_differ(a, b, rows)
            else:
                changed |= np.array([a[k] != b[k] for k in range(rows)], np.bool_)
        return changed

    def concatenate(self, before: Any, after: Any) -> Any:
        pairs = zip(before, after, strict=True)
        return type(before)(
            *(concatenated(a, b) if isinstance(a, ListOut) else a + b for a, b in pairs)
        )

    def scalars(self, data: Any, valid: Any, form: str, dtype: pa.DataType) -> pa.Array:
        shown = [v if ok else None for v, ok in zip(data, valid, strict=True)]
        return _from_python_words(shown, dtype)

    def taken(self, data: Any, valid: Any, take: Array | None) -> tuple[Any, Any]:
        chosen = range(len(valid)) if take is None else take.tolist()
        return [data[k] for k in chosen], [valid[k] for k in chosen]

    def lists(self, data: ListOut, take: Array) -> tuple[Any, Any, Any]:
        return rows_of(data, take)


def _python_words(column: pa.Array) -> list[Any]:
    """A column as Python values that are equal and ordered as SQL's are; None for NULL."""
    dtype = column.type
    if pa.types.is_decimal(dtype):
        shift = dtype.scale
        return [None if v is None else _unscaled(v, shift) for v in column.to_pylist()]
    if pa.types.is_string(dtype) or pa.types.is_binary(dtype) or pa.types.is_boolean(dtype):
        return list(column.to_pylist())
    if pa.types.is_floating(dtype):
        return [None if v is None else real_word(v) for v in column.to_pylist()]
    if is_nested(dtype):
        return list(rows.encode_values(column).to_pylist())
    return list(column.view(columns.carrier(dtype)).to_pylist())


def _unscaled(value: Decimal, scale: int) -> int:
    sign, digits, exponent = value.as_tuple()
    number = int("".join(map(str, digits))) * 10 ** (scale + int(exponent))
    return -number if sign else number


def _from_python_words(values: list[Any], dtype: pa.DataType) -> pa.Array:
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
    if is_nested(dtype):
        return rows.decode_values(pa.array(values, pa.binary()), dtype)
    return pa.array(values, columns.carrier(dtype)).view(dtype)
