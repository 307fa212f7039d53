"""Window functions of the user's: over all rows of a window, for columns besides its calls."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from aggloom.codegen.spec.dtypes import parse_schema
from aggloom.codegen.windows.assigner import Window
from aggloom.codegen.windows.evictors import Elements, EvictorContext
from aggloom.errors import SpecError


class WindowFunction(ABC):
    """More columns of a window's result, from its key, itself and all of its rows.

    Subclass it; it must be picklable to run on Spark. A window then keeps its rows, as with an evictor.

    Example:
        >>> import aggloom as al
        >>> from datetime import datetime
        >>> class Spread(al.WindowFunction):
        ...     schema = "spread INT"
        ...     def process(self, key, window, elements, ctx):
        ...         values = elements.rows["n"].to_pylist()
        ...         return [max(values) - min(values)]
        >>> spec = al.AggSpec.from_sql("SELECT COUNT(*) AS c FROM t", "n INT, ts TIMESTAMP_NTZ")
        >>> hours = al.Windowing(al.Tumble("1 hour", on="ts"), function=Spread())
        >>> with al.Harness(spec, window=hours, backend="python") as harness:
        ...     harness.process([("+I", 3, datetime(2026, 1, 1, 10, 5)), ("+I", 9, datetime(2026, 1, 1, 10, 6))])
        ...     harness.end_of_input()
        ...     print([row[-2:] for row in harness.table()])
        [(2, 6)]
    """

    schema: pa.Schema | str
    """The columns that it adds, as a schema or as DDL such as "first STRING, spread DOUBLE"."""

    @abstractmethod
    def process(
        self, key: tuple[Any, ...], window: Window, elements: Elements, ctx: EvictorContext
    ) -> Sequence[Any]:
        """The values of its columns when a window fires; asked only where the window has rows.

        key: the values of the group keys. window: the window. elements: the rows that the evictor leaves, with all
        columns of the table. ctx: watermark and clock.
        """

    @property
    def text(self) -> str:
        """The function as in EXPLAIN."""
        return type(self).__name__


def result_schema(function: WindowFunction | None) -> pa.Schema:
    """The columns that a function adds, none without one; raises SpecError if it does not say them."""
    if function is None:
        return pa.schema([])
    schema_of_function = getattr(function, "schema", None)
    if schema_of_function is None:
        raise SpecError(
            f'{function.text}: give the class its columns, such as schema = "spread DOUBLE".'
        )
    schema = (
        schema_of_function
        if isinstance(schema_of_function, pa.Schema)
        else parse_schema(schema_of_function)
    )
    if not schema.names:
        raise SpecError(f"{function.text}: schema has no columns; name at least one.")
    return schema
