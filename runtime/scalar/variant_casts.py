"""VARIANT as another type: values of each kind by the cast of the SQL type that they have."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_DOWN, ROUND_HALF_UP, Context, Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np
import pyarrow as pa

from aggloom.errors import InvalidCastError
from aggloom.runtime.scalar import variant_documents as documents
from aggloom.runtime.scalar.json_documents import order_names
from aggloom.runtime.scalar.values import Value, apply_to_arrays, array, failure
from aggloom.runtime.scalar.variant_documents import read_document, write_document
from aggloom.runtime.scalar.variants import MISSING, VARIANT, Step, find_value

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Flags = NDArray[np.bool_]  # bool[values]

KINDS: Final = {bool: pa.bool_(), int: pa.int64(), float: pa.float64(), str: pa.string()}
"""The SQL types of values without parts; that of a DECIMAL depends on its digits."""
_NAMES: Final = {bool: "boolean", int: "bigint", float: "double", str: "string"}
_EXACT: Final = Context(prec=200)
_FIX: Final = (
    "the VARIANT cannot be cast so; write TRY_VARIANT_GET or TRY_CAST, which have NULL for it."
)


class VariantTarget(Protocol):
    """A type that the values of documents become."""

    def convert(self, values: Sequence[Any]) -> tuple[pa.Array, Flags]:
        """The values in the type, NULL where they do not fit, and a flag for each of those."""


@dataclass(frozen=True)
class ScalarTarget:
    """A type without parts.

    casts: by kind of value the cast of an array of them, NULL for what does not fit; a kind without one never fits.
    """

    type: pa.DataType
    casts: Mapping[str, Callable[[pa.Array], Value]]

    def convert(self, values: Sequence[Any]) -> tuple[pa.Array, Flags]:
        """Convert values as the protocol says."""
        places: dict[Any, list[int]] = {}
        for place, value in enumerate(values):
            places.setdefault(type(value), []).append(place)
        parts = [self._cast(kind, [values[at] for at in own]) for kind, own in places.items()]
        order = np.argsort(np.concatenate([*places.values(), []]).astype(np.int64))
        joined = pa.chunked_array(parts, self.type).combine_chunks().take(pa.array(order))
        known = np.array([value is not None for value in values], np.bool_)
        return joined, known & joined.is_null().to_numpy(zero_copy_only=False)

    def _cast(self, kind: Any, values: list[Any]) -> pa.Array:
        if kind in (list, dict):
            texts = map(documents.to_json, values)
            is_text = self.type == pa.string()
            return pa.array(texts, self.type) if is_text else pa.nulls(len(values), self.type)
        if kind is Decimal:
            return pa.array([_from_decimal(value, self.type) for value in values], self.type)
        if kind is float and pa.types.is_timestamp(self.type) and self.type.tz is not None:
            return pa.array(map(_as_ticks, values), self.type)
        function = self.casts.get(_NAMES.get(kind, ""))
        if function is None:
            return pa.nulls(len(values), self.type)
        return array(function(pa.array(values, KINDS[kind])), len(values))


@dataclass(frozen=True)
class DocumentTarget:
    """VARIANT itself."""

    def convert(self, values: Sequence[Any]) -> tuple[pa.Array, Flags]:
        """Convert values as the protocol says."""
        return pa.array(map(write_document, values), VARIANT), np.zeros(len(values), np.bool_)


@dataclass(frozen=True)
class ListOf:
    """An ARRAY."""

    item: VariantTarget

    def convert(self, values: Sequence[Any]) -> tuple[pa.Array, Flags]:
        """Convert values as the protocol says."""
        fits = np.array([isinstance(value, list) for value in values], np.bool_)
        lists = [value if isinstance(value, list) else [] for value in values]
        items, unfit = self.item.convert([each for value in lists for each in value])
        ends = _ends(list(map(len, lists)))
        # An offset that is NULL makes a list that is NULL.
        offsets = pa.array(ends, pa.int32(), mask=np.append(~fits, False))
        return pa.ListArray.from_arrays(offsets, items), _unfit(values, fits, ends, unfit)


@dataclass(frozen=True)
class MapOf:
    """A MAP of texts."""

    item: VariantTarget

    def convert(self, values: Sequence[Any]) -> tuple[pa.Array, Flags]:
        """Convert values as the protocol says."""
        fits = np.array([isinstance(value, dict) for value in values], np.bool_)
        maps = [value if isinstance(value, dict) else {} for value in values]
        keys = [name for value in maps for name in order_names(value)]
        inner = [value[name] for value in maps for name in order_names(value)]
        items, unfit = self.item.convert(inner)
        ends = _ends(list(map(len, maps)))
        offsets = pa.array(ends, pa.int32(), mask=np.append(~fits, False))
        maps_array = pa.MapArray.from_arrays(offsets, pa.array(keys, pa.string()), items)
        return maps_array, _unfit(values, fits, ends, unfit)


@dataclass(frozen=True)
class RowOf:
    """A STRUCT; a field that an object lacks is NULL."""

    fields: Sequence[tuple[str, VariantTarget]]

    def convert(self, values: Sequence[Any]) -> tuple[pa.Array, Flags]:
        """Convert values as the protocol says."""
        fits = np.array([isinstance(value, dict) for value in values], np.bool_)
        rows = [value if isinstance(value, dict) else {} for value in values]
        parts = [target.convert([row.get(name) for row in rows]) for name, target in self.fields]
        names = [name for name, _ in self.fields]
        structs = pa.StructArray.from_arrays(
            [part for part, _ in parts], names, mask=pa.array(~fits)
        )
        unfit = np.array([value is not None for value in values], np.bool_) & ~fits
        for _, flags in parts:
            unfit |= flags
        return structs, unfit


def cast(value: Value, steps: Sequence[Step], target: VariantTarget, sql: str | None) -> Value:
    """CAST of a VARIANT, or of its part at the end of these steps; sql None: NULL for what does not fit."""

    def convert(texts: pa.Array) -> pa.Array:
        parts = (find_value(document, steps) for document in _documents(texts))
        converted, unfit = target.convert([None if part is MISSING else part for part in parts])
        if sql is not None and unfit.any():
            raise failure(InvalidCastError, sql, (texts[int(unfit.argmax())].as_py(),), _FIX)
        return converted

    return apply_to_arrays(convert, value)


def _documents(texts: pa.Array) -> list[Any]:
    return [None if text is None else read_document(text) for text in texts.to_pylist()]


def _ends(lengths: list[int]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def _unfit(values: Sequence[Any], fits: Flags, ends: NDArray[np.int64], inner: Flags) -> Flags:
    """The flags of values that are of another kind, or have a part that does not fit."""
    known = np.array([value is not None for value in values], np.bool_)
    counts = np.concatenate([[0], np.cumsum(inner)])
    return (known & ~fits) | (counts[ends[1:]] > counts[ends[:-1]])


def _from_decimal(value: Decimal, dtype: pa.DataType) -> Any:
    """A DECIMAL as a type; None if it does not fit."""
    if dtype == pa.string():
        return documents.decimal_text(value)
    if dtype == pa.bool_():
        return value != 0
    if pa.types.is_floating(dtype):
        return float(value)
    if pa.types.is_integer(dtype):
        number = int(value.to_integral_value(ROUND_DOWN))
        return number if abs(2 * number + 1) < 2**dtype.bit_width else None
    if pa.types.is_decimal(dtype):
        try:
            rounded = value.quantize(Decimal(1).scaleb(-dtype.scale), ROUND_HALF_UP, _EXACT)
        except InvalidOperation:
            return None
        return rounded if abs(rounded) < Decimal(10) ** (dtype.precision - dtype.scale) else None
    return _as_ticks(value) if pa.types.is_timestamp(dtype) and dtype.tz is not None else None


def _as_ticks(seconds: float | Decimal) -> int | None:
    """Seconds since 1970 as microseconds, without what is less than one; None for what is no time."""
    if not math.isfinite(seconds):
        return None
    ticks = int(seconds * 1_000_000)
    return ticks if -(1 << 63) <= ticks < 1 << 63 else None
