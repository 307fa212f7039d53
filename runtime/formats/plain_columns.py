"""Columns of a block: as what Arrow reads the values of each, and what makes them values of the column's type."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from aggloom.runtime.formats.base import FormatSettings
from aggloom.runtime.formats.plain_texts import finite
from aggloom.runtime.formats.values import WRONG, Reader

_SAMPLES = 50


class PlainColumns:
    """The columns of a table as a block has them; plain: the readers of values whose schema says no more.

    What is a whole number or a text in JSON may be read into many types: each value by its reader.
    """

    def __init__(self, settings: FormatSettings, plain: Sequence[Reader]) -> None:
        self.fields, self._plain = list(settings.columns), list(plain)
        self.possible = bool(self.fields) and not any(pt.is_nested(f.type) for f in self.fields)
        self._kinds: dict[int, pa.DataType] = {}

    def learn(self, images: Sequence[Any]) -> bool:
        """See by some rows what the values are in JSON of columns that may have several kinds; whether that is new."""
        known = dict(self._kinds)
        for place, field in enumerate(self.fields):
            for image in images[:_SAMPLES]:
                value = image.get(field.name) if isinstance(image, Mapping) else None
                if value is not None:
                    self._kinds[place] = _kind_of(value, field.type)
                    break
        return known != self._kinds

    def row(self, readers: Sequence[Reader], numbers: bool = True) -> pa.StructType:
        """The type by which Arrow reads a row.

        numbers: with columns that have to be numbers in JSON, which Arrow takes in texts, too.
        """
        fields = [(f.name, self._type(place, readers)) for place, f in enumerate(self.fields)]
        return pa.struct([each for each in fields if numbers or not pt.is_decimal(each[1])])

    def are_numbers(self, readers: Sequence[Reader], row_type: pa.DataType) -> bool:
        """Tell whether a row, as Arrow reads it, has numbers in the columns that have to be numbers."""
        kinds = [row_type.field(place) for place in range(row_type.num_fields)]
        number_columns = {f.name for f in self.row(readers) if pt.is_decimal(f.type)}
        return all(f.name not in number_columns or _is_number(f.type) for f in kinds)

    def values(self, place: int, read: pa.Array, readers: Sequence[Reader]) -> pa.Array | None:
        """The values of a column; None if one of them is none of its type, or may be another than it seems."""
        field = self.fields[place]
        if self._is_own(place, readers):
            if pt.is_floating(field.type):
                # A whole number -0 is 0.
                zeros = read.filter(pc.equal(read, 0.0)).to_numpy(zero_copy_only=False)
                # Not a safe cast, which would refuse each DOUBLE that has to be rounded to a FLOAT.
                column = read.cast(field.type, safe=False)
                # A number of 64 bits may be none of 32.
                return column if finite(column) and not np.signbit(zeros).any() else None
            return read
        if pt.is_decimal(read.type):
            return read
        reader = readers[place]
        try:
            column = [None if value is None else reader(value) for value in read.to_pylist()]
            return pa.array(column, field.type)
        except (*WRONG, pa.ArrowException):
            return None

    def _is_own(self, place: int, readers: Sequence[Reader]) -> bool:
        return _own(self.fields[place].type) and readers[place] is self._plain[place]

    def _type(self, place: int, readers: Sequence[Reader]) -> pa.DataType:
        """As what Arrow reads the values of a column."""
        dtype = self.fields[place].type
        if self._is_own(place, readers):
            # A number with a point is one of 64 bits before it is one of 32.
            return pa.float64() if pt.is_floating(dtype) else dtype
        kind = self._kinds.get(place, pa.int64() if pt.is_integer(dtype) else pa.string())
        return (
            pa.int64() if pt.is_decimal(kind) and readers[place] is not self._plain[place] else kind
        )


def _kind_of(value: Any, dtype: pa.DataType) -> pa.DataType:
    """As what Arrow reads values such as one."""
    if pt.is_decimal128(dtype) and isinstance(value, int | float) and not isinstance(value, bool):
        return dtype
    return pa.int64() if type(value) is int else pa.string()


def _is_number(dtype: pa.DataType) -> bool:
    return pt.is_integer(dtype) or pt.is_floating(dtype) or pt.is_null(dtype)


def _own(dtype: pa.DataType) -> bool:
    """Tell whether Arrow reads values of a type as strictly as its reader does."""
    return (
        pt.is_signed_integer(dtype)
        or pt.is_string(dtype)
        or pt.is_boolean(dtype)
        or pt.is_floating(dtype)
    )
