"""The further condition of a Join, over the stored rows of both sides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa

from aggloom.codegen import lower_calc
from aggloom.runtime.operators.join.stored import StoredSide
from aggloom.runtime.storage.arena import Array
from aggloom.runtime.values.columns import flags

_PASSES = pa.schema([("matches", pa.bool_())])


class Tested(Protocol):
    """A condition over the columns of both sides, and which of them it reads."""

    @property
    def condition(self) -> str | None: ...

    @property
    def read(self) -> frozenset[str]: ...

    @property
    def left(self) -> pa.Schema: ...

    @property
    def right(self) -> pa.Schema: ...

    @property
    def both(self) -> pa.Schema: ...

    @property
    def zone(self) -> str: ...


class Condition:
    """A condition as it is evaluated on pairs of rows, of which it reads only the columns that it names.

    Raises UnsupportedExpressionError for a condition that only Spark evaluates.
    """

    def __init__(self, settings: Tested) -> None:
        assert settings.condition is not None
        read = set(settings.read)
        self._names = tuple(
            tuple(name for name in schema.names if name in read)
            for schema in (settings.left, settings.right)
        )
        # A condition without columns still has a value by pair.
        self._schema = pa.schema(
            [settings.both.field(name) for names in self._names for name in names]
            or [pa.field("", pa.int8())]
        )
        self._calc = lower_calc(
            None,
            (("matches", settings.condition),),
            _PASSES,
            self._schema,
            zone=settings.zone,
        )

    def holds(self, sides: Sequence[StoredSide], lefts: Array, rights: Array) -> Array:
        """Whether each pair passes; NULL is no."""
        arrays: list[pa.Array] = []
        for side, names, ids in zip(sides, self._names, (lefts, rights), strict=True):
            places = np.array([side.places[name] for name in names], np.int64)
            arrays += side.bag.rows.gather_columns(ids, places)
        if not arrays:
            arrays = [pa.array(np.zeros(len(lefts), np.int8))]
        batch = pa.RecordBatch.from_arrays(arrays, schema=self._schema)
        found, _ = self._calc.run(batch, np.zeros(len(lefts), np.int8))
        return flags(found.column(0))
