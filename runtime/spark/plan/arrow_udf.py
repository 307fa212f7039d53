"""Columns that functions of Arrow arrays compute, on a Spark that has such (4.1) and on one with pandas' only (4.0)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import ArrayType, DataType

from aggloom.runtime.spark.plan.expressions import arrow_type
from aggloom.runtime.spark.release import SPARK


def arrow_udf(function: Callable[..., pa.Array], returned: DataType) -> Callable[..., Column]:
    """Return a maker of a column from others; it is not computed twice, nor moved to where other rows are."""
    if SPARK >= (4, 1):
        columns_of: Callable[..., Column] = F.arrow_udf(function, returned).asNondeterministic()
        return columns_of
    return _by_pandas(function, returned)


def _by_pandas(function: Callable[..., pa.Array], returned: DataType) -> Callable[..., Column]:
    """The same as a function of pandas' columns, of lists of one value: a struct by itself would be taken apart."""
    kind = arrow_type(ArrayType(returned))

    def list_values(*columns: pd.Series) -> pd.Series:
        result = function(*(pa.array(column, from_pandas=True) for column in columns))
        ends = pa.array(np.arange(len(result) + 1, dtype=np.int32))
        lists = pa.ListArray.from_arrays(ends, result).cast(kind)
        return _Kept(pd.arrays.ArrowExtensionArray(pa.chunked_array([lists])))

    udf = F.pandas_udf(list_values, ArrayType(returned)).asNondeterministic()
    return lambda *columns: F.get(udf(*columns), F.lit(0))


class _Kept(pd.Series):
    """A column of Arrow's that stays one: pyspark would make Python objects of it, and NULL of their NaN."""

    def apply(self, *_: Any, **__: Any) -> _Kept:  # type: ignore[override]
        """Return the column as it is; pyspark converts values with this method."""
        return self
