"""Scalar SQL around the handler: its syntax tree, the columns that it reads, and its type.

Its value is `codegen/scalar/`'s business in the harness, and Spark's on Spark where that cannot say it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

import pyarrow as pa
from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError

from aggloom.codegen.scalar.dialect import ScalarSpark
from aggloom.codegen.scalar.nondeterminism import STORED, changes, differs
from aggloom.codegen.scalar.operand_types import unsupported_error, untold
from aggloom.codegen.scalar.result_types import infer
from aggloom.codegen.scalar.spark_text import spark_text
from aggloom.codegen.scalar.variant_types import column_error
from aggloom.codegen.spec.dtypes import hides_variant
from aggloom.codegen.sql.depth import check_nesting, deep
from aggloom.codegen.sql.errors import syntax_error
from aggloom.errors import SpecError, UnknownColumnError, nearest


@lru_cache(maxsize=16_384)
def parse_scalar(sql: str) -> exp.Expression:
    """The syntax tree of one scalar expression; callers must not change it."""
    # A text that is nested too deep would end in a RecursionError inside the parser.
    check_nesting(sql)
    try:
        return deep(lambda: parse_one(sql, dialect=ScalarSpark))
    except SqlglotError as error:
        raise syntax_error(sql, error) from None


def quote_name(name: str) -> str:
    """The column of this exact name, as Spark SQL. Raises SpecError for what is no text."""
    if not isinstance(name, str):
        raise SpecError(f"{name!r} is no name; give a text.")
    text: str = spark_text(exp.column(exp.to_identifier(name, quoted=True)))
    return text


def select_names(names: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """The items of a projection that gives columns as they are: each name with its text."""
    return tuple((name, quote_name(name)) for name in names)


def quoted_text(sql: str) -> str:
    """An expression with its names in backticks, as plans write it.

    >>> quoted_text("TO_TIMESTAMP_LTZ(ms, 3)")
    'TIMESTAMP_MILLIS(`ms`)'
    """

    def quote(node: exp.Expression) -> exp.Expression:
        return (
            exp.to_identifier(node.name, quoted=True) if isinstance(node, exp.Identifier) else node
        )

    return deep(lambda: spark_text(parse_scalar(sql).transform(quote)))


def is_expression(sql: str, names: Sequence[str]) -> bool:
    """Tell whether a text is an expression of columns, and not the name of one of these."""
    # A column may have a name that looks like an expression.
    if sql in names:
        return False
    try:
        return not isinstance(parse_scalar(sql), exp.Column)
    except SpecError:
        return False


def columns_of(sql: str) -> tuple[str, ...]:
    """The column names that an expression mentions, in order of first mention."""
    nodes = parse_scalar(sql).find_all(exp.Column, bfs=False)
    return tuple(dict.fromkeys(column.name for column in nodes))


def column_name(sql: str) -> str | None:
    """The column that an expression is, or None."""
    node = parse_scalar(sql)
    return node.name if isinstance(node, exp.Column) and not node.table else None


def infer_type(sql: str, schema: pa.Schema) -> pa.DataType:
    """The type of an expression over these columns; scalar rules are Spark's in both dialects."""
    node = parse_scalar(sql)
    _require_columns(sql, schema)
    # A retraction computes the value once more, and it has to be the same.
    require_repeatable(sql)
    types = dict(zip(schema.names, schema.types, strict=True))
    dtype = deep(lambda: infer(node, types))
    # No column has the type of a bare NULL.
    if pa.types.is_null(dtype):
        raise untold(node)
    if hides_variant(dtype):
        raise column_error(sql)
    return dtype


def require_repeatable(sql: str) -> None:
    """Raise if the value of an expression does not follow from the row alone."""
    changing_call = changes(parse_scalar(sql))
    if changing_call is not None:
        raise unsupported_error(parse_scalar(sql), f"{differs(changing_call)}; {STORED}.")


def _require_columns(sql: str, schema: pa.Schema) -> None:
    for name in columns_of(sql):
        if name not in schema.names:
            hint = nearest(name, schema.names)
            raise UnknownColumnError(f"expression {sql}: there is no column {name!r}. {hint}")
