"""Rows that are written in the query: VALUES, and a SELECT without FROM. The first batch reads them."""

from __future__ import annotations

from typing import Protocol

import pyarrow as pa
from sqlglot import exp

from aggloom.codegen.operators import Calc, Node, Union, one_row
from aggloom.codegen.scalar.operand_types import common
from aggloom.codegen.scalar.result_types import infer
from aggloom.codegen.spec.dtypes import type_name
from aggloom.codegen.sql.errors import place_error, span
from aggloom.codegen.sql.scope import Scope
from aggloom.codegen.sql.shape import check_expression
from aggloom.errors import SqlError, UnsupportedExpressionError


class ConstantsBuilder(Protocol):
    """The builder of the blocks of a query."""

    dialect: str


def with_from(tree: exp.Select) -> exp.Select:
    """A query that reads no table as one over a row; as it is if it names columns."""
    if tree.args.get("from_") or tree.args.get("joins"):
        return tree
    # A query that names columns lacks its FROM, which an error should say; those of sub-queries are their own.
    columns = tree.find_all(exp.Column)
    if any(column.find_ancestor(exp.Select) is tree for column in columns):
        return tree
    if any(isinstance(item, exp.Star) for item in tree.expressions):
        return tree
    copy = tree.copy()
    row = exp.Values(expressions=[exp.Tuple(expressions=[exp.true()])])
    # A name that no query can write by accident.
    row.set("alias", exp.TableAlias(this=exp.to_identifier("(one row)", quoted=True)))
    copy.set("from_", exp.From(this=row))
    return copy


def values(builder: ConstantsBuilder, source: exp.Values) -> Node:
    """The rows of VALUES; their columns are col1, col2, ... as in Spark."""
    rows = [list(each.expressions) for each in source.expressions]
    if len({len(row) for row in rows}) != 1:
        message = "the rows of VALUES have different numbers of columns; give them as many each."
        raise place_error(SqlError(message), span(source))
    scope = Scope(pa.schema([]), builder.dialect, set())
    fields = []
    for number, column in enumerate(zip(*rows, strict=True), 1):
        for node in column:
            check_expression(node)
        with scope.at(source):
            # The one type of a column, so that 1 and 2.5 in two rows are DECIMALs.
            dtype = common([infer(scope.resolve(node), {}) for node in column], column[0])
            if pa.types.is_null(dtype):
                raise UnsupportedExpressionError("NULL has no type; write CAST(NULL AS type).")
        fields.append(pa.field(f"col{number}", dtype))
    schema = pa.schema(fields)
    # One row each: a Calc over the only row of no table.
    parts = [
        Calc(
            one_row(),
            tuple(
                (
                    field.name,
                    f"CAST({scope.input_sql(scope.resolve(node))} AS {type_name(field.type)})",
                )
                for field, node in zip(schema, row, strict=True)
            ),
            schema,
        )
        for row in rows
    ]
    return parts[0] if len(parts) == 1 else Union(tuple(parts))
