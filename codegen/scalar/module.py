"""A filter and a projection as one Python module: `where(rows)` and `select(rows)`; each input is an argument.

What both compute is in columns that `extend(rows)` puts beside those of the rows. READ: the columns that `select`
reads, where that is known.
"""

from __future__ import annotations

import hashlib
import linecache
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from types import ModuleType
from typing import Final

import pyarrow as pa
from sqlglot import exp

from aggloom.codegen.scalar.casts import cast
from aggloom.codegen.scalar.expressions import parse_scalar
from aggloom.codegen.scalar.functions import BY_NODE
from aggloom.codegen.scalar.lowered_expression import LoweredExpression, quoted, type_text
from aggloom.codegen.scalar.lowering import NEEDS_SPARK, ExpressionLowering, bracket_depth
from aggloom.codegen.scalar.operand_types import unsupported_error
from aggloom.codegen.scalar.shared_calls import (
    SharedCall,
    columns_of_rows,
    share_calls,
    share_with_filter,
)
from aggloom.codegen.sql.depth import deep
from aggloom.codegen.templating import template_environment

ROWS: Final = "rows"
"""The name of the input in a module that has only one."""

# Python's parser refuses some hundred brackets within each other (lowering.py cuts most of them earlier).
_DEEPEST: Final = 90


@dataclass(frozen=True)
class _Item:
    """An expression of a module: how the user wrote it, and its text."""

    sql: str
    text: str


@dataclass(frozen=True)
class _Module:
    """The values that the template prints."""

    title: str
    arguments: str
    first: str
    schema: str
    parts: tuple[str, ...]
    where: _Item | None
    columns: tuple[_Item, ...]
    beside: tuple[SharedCall, ...]
    before_where: tuple[SharedCall, ...]
    before_columns: tuple[SharedCall, ...]
    read: tuple[str, ...]


def lower(sql: str, inputs: Mapping[str, pa.Schema], zone: str = "UTC") -> LoweredExpression:
    """An expression over named inputs; raises UnsupportedExpressionError for what only Spark evaluates."""
    low = ExpressionLowering(inputs, zone, BY_NODE, cast)
    node = parse_scalar(sql)
    value = deep(lambda: low.lower(node))
    # One line has no place for the functions that deep expressions are cut into.
    if low.parts:
        raise unsupported_error(node, f"is nested too deep for one line: it {NEEDS_SPARK}")
    return value


def module_text(
    where: str | None,
    select: Sequence[tuple[str, str]],
    schema: pa.Schema,
    inputs: Mapping[str, pa.Schema],
    zone: str = "UTC",
) -> str:
    """The module of a filter and of the columns of `schema`, each name with its expression; `format_module` formats it.

    Raises UnsupportedExpressionError if Arrow cannot say one of them as Spark does.
    """
    return deep(lambda: _module_text(where, select, schema, inputs, zone))


def _module_text(
    where: str | None,
    select: Sequence[tuple[str, str]],
    schema: pa.Schema,
    inputs: Mapping[str, pa.Schema],
    zone: str,
) -> str:
    low = ExpressionLowering(inputs, zone, BY_NODE, cast)
    passes = None if where is None else low.boolean(parse_scalar(where))
    columns = []
    for (_, sql), field in zip(select, schema, strict=True):
        node = parse_scalar(sql)
        # The plan has fixed the type of each column, and the value is cast to it.
        columns.append(_item(low.as_type(node, field.type), sql, node))
    fields = ", ".join(f"({quoted(f.name)}, {type_text(f.type)})" for f in schema)
    named = ", ".join(f"{sql} AS {name}" for name, sql in select)
    filters = [] if passes is None else [_item(passes, str(where), parse_scalar(str(where)))]
    beside, filters, columns = _share_with_filter(filters, columns, inputs)
    before_where, filters = _share(filters, inputs)
    before_columns, columns = _share(columns, inputs)
    texts = [*(each.text for each in before_columns), *(each.text for each in columns)]
    read = columns_of_rows(texts, next(iter(inputs))) if filters and len(inputs) == 1 else None
    module = _Module(
        title=f"{named}{f' WHERE {where}' if where else ''}",
        arguments=low.arguments,
        first=next(iter(inputs)),
        schema=f"pa.schema([{fields}])",
        parts=tuple(low.parts),
        where=filters[0] if filters else None,
        columns=tuple(columns),
        beside=tuple(beside),
        before_where=tuple(before_where),
        before_columns=tuple(before_columns),
        read=tuple(read or ()),
    )
    return template_environment().get_template("expressions.py.j2").render(module=module)


@lru_cache(maxsize=256)
def format_module(text: str) -> str:
    """A module's text for readers. Calcs run unformatted, as formatting takes longer than all else about them."""
    # Late, as in codegen/handler/render.py.
    import black

    return black.format_str(text, mode=black.Mode(line_length=100, preview=False))


@lru_cache(maxsize=256)
def load_module(text: str) -> ModuleType:
    """The module of a text, run in memory; tracebacks show its lines."""
    name = f"aggloom_expressions_{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    path = f"<{name}>"
    module = ModuleType(name)
    exec(compile(text, path, "exec"), module.__dict__)
    # So that a traceback shows the line of a module that is in no file.
    linecache.cache[path] = (len(text), None, text.splitlines(keepends=True), path)
    return module


def _share(
    items: Sequence[_Item], inputs: Mapping[str, pa.Schema]
) -> tuple[list[SharedCall], list[_Item]]:
    """The calls that stand several times in some expressions, and the expressions with names for them."""
    shared, texts = share_calls([each.text for each in items], list(inputs))
    return shared, [replace(each, text=text) for each, text in zip(items, texts, strict=True)]


def _share_with_filter(
    filters: list[_Item], items: list[_Item], inputs: Mapping[str, pa.Schema]
) -> tuple[list[SharedCall], list[_Item], list[_Item]]:
    """The calls that a filter and some expressions share, as more columns of the rows; both, which read those."""
    # A condition of two inputs is asked for pairs of rows.
    if not filters or len(inputs) > 1:
        return [], filters, items
    ((rows, schema),) = inputs.items()
    texts = [each.text for each in items]
    beside, text, texts = share_with_filter(filters[0].text, texts, rows, schema.names)
    items = [replace(each, text=own) for each, own in zip(items, texts, strict=True)]
    return beside, [replace(filters[0], text=text)], items


def _item(value: LoweredExpression, sql: str, node: exp.Expression) -> _Item:
    if bracket_depth(value.text) > _DEEPEST:
        raise unsupported_error(node, f"is nested too deep: it {NEEDS_SPARK}")
    return _Item(sql, value.text)
