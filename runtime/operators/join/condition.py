"""The further condition of a join, over the stored rows of its inputs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from aggloom.codegen import columns_of, lower_condition
from aggloom.runtime.operators.join.stored_rows import StoredSide
from aggloom.runtime.storage.arena import Array
from aggloom.runtime.values.columns import flags


class Condition:
    """A condition as it is evaluated on joined rows of these inputs, of which it reads only the columns that it names.

    Raises UnsupportedExpressionError for a condition that only Spark evaluates.
    """

    def __init__(self, condition: str, schemas: Sequence[pa.Schema], zone: str) -> None:
        read = set(columns_of(condition))
        self._names = [[name for name in schema.names if name in read] for schema in schemas]
        # A condition without columns still has a value by pair.
        self._schema = pa.schema(
            [
                schema.field(name)
                for schema, names in zip(schemas, self._names, strict=True)
                for name in names
            ]
            or [pa.field("", pa.int8())]
        )
        self._calc = lower_condition(condition, self._schema, zone)

    def holds(self, sides: Sequence[StoredSide], *ids: Array) -> Array:
        """Tell whether each joined row passes; NULL is no. ids: by input its stored rows, -1 where it is padded."""
        arrays: list[pa.Array] = []
        for side, names, rows in zip(sides, self._names, ids, strict=False):
            if names:
                places = np.array([side.places[name] for name in names], np.int64)
                arrays += side.bag.rows.gather_columns(rows, places)
        if not arrays:
            arrays = [pa.array(np.zeros(len(ids[0]), np.int8))]
        batch = pa.RecordBatch.from_arrays(arrays, schema=self._schema)
        values, _ = self._calc.run(batch, np.zeros(len(ids[0]), np.int8))
        return flags(values.column(0))
