"""Columns of a block: as what Arrow reads the values of each, and what makes them values of the column's type."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from aggloom.runtime.formats.base import Settings
from aggloom.runtime.formats.values import WRONG, Reader

_SAMPLES = 50


class PlainColumns:
    """The columns of a table as a block has them; plain: the readers of values whose schema says no more.

    What is a whole number or a text in JSON may be read into many types: each value by its reader.
    """

    def __init__(self, settings: Settings, plain: Sequence[Reader]) -> None:
        self.fields, self._plain = list(settings.columns), list(plain)
        self.possible = bool(self.fields) and not any(pt.is_nested(f.type) for f in self.fields)
        self.kinds: dict[int, pa.DataType] = {}

    def learn(self, images: Sequence[Any]) -> None:
        """See by some rows what the values are in JSON of columns that may have several kinds."""
        self.kinds = dict(self.kinds)
        for place, field in enumerate(self.fields):
            for image in images[:_SAMPLES]:
                value = image.get(field.name) if isinstance(image, Mapping) else None
                if value is not None:
                    self.kinds[place] = pa.int64() if type(value) is int else pa.string()
                    break

    def row(self, readers: Sequence[Reader]) -> pa.DataType:
        """The type by which Arrow reads a row."""
        return pa.struct(
            [
                (
                    field.name,
                    _read(field.type) if self._is_own(place, readers) else self._kind(place),
                )
                for place, field in enumerate(self.fields)
            ]
        )

    def values(self, place: int, read: pa.Array, readers: Sequence[Reader]) -> pa.Array | None:
        """The values of a column; None if one of them is none of its type, or may be another than it seems."""
        field = self.fields[place]
        if self._is_own(place, readers):
            if pt.is_floating(field.type):
                # A whole number -0 is 0.
                zeros = read.filter(pc.equal(read, 0.0)).to_numpy(zero_copy_only=False)
                return None if np.signbit(zeros).any() else read.cast(field.type, safe=False)
            return read
        reader = readers[place]
        try:
            made = [None if value is None else reader(value) for value in read.to_pylist()]
            return pa.array(made, field.type)
        except (*WRONG, pa.ArrowException):
            return None

    def _is_own(self, place: int, readers: Sequence[Reader]) -> bool:
        return _own(self.fields[place].type) and readers[place] is self._plain[place]

    def _kind(self, place: int) -> pa.DataType:
        dtype = self.fields[place].type
        return self.kinds.get(place, pa.int64() if pt.is_integer(dtype) else pa.string())


def _own(dtype: pa.DataType) -> bool:
    """Whether Arrow reads values of a type as strictly as its reader does."""
    return (
        pt.is_signed_integer(dtype)
        or pt.is_string(dtype)
        or pt.is_boolean(dtype)
        or pt.is_floating(dtype)
    )


def _read(dtype: pa.DataType) -> pa.DataType:
    """The type as which Arrow reads values: a number with a point is one of 64 bits before it is one of 32."""
    return pa.float64() if pt.is_floating(dtype) else dtype
