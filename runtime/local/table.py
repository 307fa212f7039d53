"""Rows with the names of their columns: what a harness emits, as a list, for notebooks and for pandas."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from aggloom.display import html_table
from aggloom.runtime.handlers.columns import rows_to_batch
from aggloom.runtime.values.batches import empty_columns
from aggloom.runtime.values.changelog import CHANGE_COLUMNS

if TYPE_CHECKING:
    import pandas as pd


class RowTable(list[tuple[Any, ...]]):
    """A list of rows that knows their columns; `harness.table()` and `harness.changes()` give it."""

    def __init__(self, rows: Iterable[tuple[Any, ...]], schema: pa.Schema) -> None:
        super().__init__(rows)
        self.schema = schema

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return list(self.schema.names)

    def to_arrow(self) -> pa.Table:
        """The rows as a table of Arrow, in the types of the query."""
        if not self.schema.names:
            return pa.Table.from_batches([empty_columns(len(self))])
        return pa.Table.from_batches([rows_to_batch(list(self), self.schema)])

    def to_pandas(self) -> pd.DataFrame:
        """The rows as a DataFrame. A NULL is `pd.NA` in numbers, which stay what they are, and None elsewhere."""
        import pandas as pd

        kinds = {
            **{getattr(pa, name.lower())(): getattr(pd, f"{name}Dtype")() for name in _NUMBERS},
            pa.bool_(): pd.BooleanDtype(),
        }
        table = self.to_arrow()
        # Dates as Python's own: pandas' timestamps do not reach all years that SQL has.
        frame = table.to_pandas(types_mapper=kinds.get, date_as_object=True)
        for place, column in enumerate(table.columns):
            # From pandas 3 on a NULL among texts would be NaN.
            if pa.types.is_string(column.type) and frame.dtypes.iloc[place].name != "object":
                frame.isetitem(place, pd.Series(column.to_pylist(), dtype=object))
        return frame

    def _repr_html_(self) -> str:
        return html_table(self.columns, self, len(self))


_NUMBERS = ("Int8", "Int16", "Int32", "Int64", "Float32", "Float64")


def changes_schema(schema: pa.Schema) -> pa.Schema:
    """The columns of a table's changes: what kind each is, then the table's; a harness reads them by these names."""
    names = {name.lower() for name in schema.names}
    # A table may have columns of these names itself; then its changes need another one.
    free = [name for name in ("op", *CHANGE_COLUMNS.values()) if name not in names]
    return schema.insert(0, pa.field(free[0] if free else "change", pa.string()))
