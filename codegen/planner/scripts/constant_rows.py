"""Tables of constant rows: `'connector' = 'values', 'rows' = '(1, ''a''), (2, NULL)'` in CREATE TABLE."""

from __future__ import annotations

from sqlglot import exp

from aggloom.codegen.planner.scripts.create_table import CreatedTable
from aggloom.codegen.spec.agg_spec import to_schema
from aggloom.codegen.spec.dtypes import type_name
from aggloom.codegen.sql.errors import place_error, refusal
from aggloom.codegen.sql.scope import make_column
from aggloom.codegen.sql.shape import statements
from aggloom.errors import OptionError

CONNECTOR = "values"


def constant_rows(table: CreatedTable, dialect: str) -> exp.Query | None:
    """The query of a table's rows, in the types of its columns; None for a table that a harness is to feed.

    Raises OptionError for an option without a meaning and for rows that do not fit, and UnsupportedSqlError for a
    WATERMARK.
    """
    odd = set(table.options) - {"connector", "rows"}
    if odd:
        message = (
            f"table {table.name}: connector 'values' has no option {min(odd)!r}; it has 'rows'."
        )
        raise place_error(OptionError(message), table.place)
    if "rows" not in table.options:
        return None
    if table.watermark is not None:
        fix = "put the rows into a file, or make them by 'datagen'"
        raise refusal(table.place, "WATERMARK of a table of constant rows is", fix)
    schema = to_schema(table.columns, dialect, is_cut=True)
    # As a text of SQL, so that all that a query can compute is a value.
    try:
        (tree,) = statements(
            f"SELECT * FROM (VALUES {table.options['rows']}) AS v", dialect=dialect
        )
        values = tree.args["from_"].this
        rows = [
            list(row.expressions) if isinstance(row, exp.Tuple) else [row]
            for row in values.expressions
        ]
    # Anything else than one list of values, too.
    except (ValueError, AttributeError) as error:
        cause = str(error).partition("\n")[0]
        message = (
            f"table {table.name}: 'rows' cannot be read: {cause} Write '(1, ''a''), (2, NULL)'."
        )
        raise place_error(OptionError(message), table.place) from None
    for row in rows:
        if len(row) != len(schema):
            message = f"table {table.name}: a row of 'rows' has {len(row)} values for {len(schema)} columns."
            raise place_error(OptionError(message), table.place)
    # A cast around each value and not around the column: a NULL by itself has no type.
    typed = [
        exp.Tuple(
            expressions=[
                exp.cast(cell, type_name(kind), dialect="spark")
                for cell, kind in zip(row, schema.types, strict=True)
            ]
        )
        for row in rows
    ]
    names = [exp.to_identifier(name, quoted=True) for name in schema.names]
    alias = exp.TableAlias(this=exp.to_identifier("v"), columns=names)
    source = exp.Values(expressions=typed, alias=alias)
    return exp.select(*map(make_column, schema.names)).from_(source)
