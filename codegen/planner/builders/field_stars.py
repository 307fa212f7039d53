"""All fields of a ROW or STRUCT as columns: `s.*` is written out as `s.x, s.y` before anything else reads the query.

A table of that name has the right of way, as in Flink and Spark. The fields are known only over FROM, which is
therefore planned for each such item; the plan is thrown away.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa
from sqlglot import exp

from aggloom.codegen.operators import Node
from aggloom.codegen.spec.dtypes import type_name
from aggloom.codegen.sql.errors import place_error, span
from aggloom.codegen.sql.scope import path
from aggloom.codegen.sql.stars import select_star_columns
from aggloom.codegen.sql.subqueries import unwrap_query
from aggloom.errors import TypeMismatchError, UnknownColumnError

_SOURCES = ("from_", "joins", "laterals")


def write_fields_out(tree: exp.Select, plan: Callable[[exp.Expression], Node]) -> exp.Select:
    """The query, and those in its FROM, with the fields for each `s.*` of a column; the same object if it has none.

    plan: builds the plan of a query. Raises TypeMismatchError where the column has no fields.
    """
    if not any(_find_field_stars(tree)):
        return tree
    tree = tree.copy()
    for select, star in list(_find_field_stars(tree)):
        column = _plan_column(select, star, plan)
        if column is None:
            continue
        if not pa.types.is_struct(column.type):
            written = ".".join(_names_before(star))
            message = (
                f"{written} is {type_name(column.type)}, which has no fields; .* takes those of a ROW or STRUCT, so "
                f"write {written} alone."
            )
            raise place_error(TypeMismatchError(message), span(star))
        fields = [(each.name, _read_field(star, each.name)) for each in column.type]
        items: list[exp.Expression] = []
        for item in select.expressions:
            items += [f for _, f in select_star_columns(star, fields)] if item is star else [item]
        select.set("expressions", items)
    return tree


def take_stars_off(query: exp.Expression) -> exp.Expression:
    """The query of EXISTS with `s` for each `s.*` of a column, as no field of it matters; the same if it has none."""
    select = unwrap_query(query)
    if not isinstance(select, exp.Select) or not any(_find_field_stars(select)):
        return query
    select = select.copy()
    for owner, star in list(_find_field_stars(select)):
        if owner is select:
            star.replace(_read_field(star))
    return select


def _find_field_stars(tree: exp.Select) -> Iterator[tuple[exp.Select, exp.Expression]]:
    """Yield each item of the form `s.*` where s is no table of FROM, the innermost queries first."""
    for source in _sources(tree):
        # What numbers rows is read together with the query in its FROM.
        if isinstance(source, exp.Subquery) and isinstance(source.this, exp.Select):
            yield from _find_field_stars(source.this)
    stars = [item for item in tree.expressions if _names_before(item)]
    if not stars:
        return
    tables = {
        name.casefold() for each in _sources(tree) for name in (each.alias_or_name, each.name)
    }
    tables |= {
        pivot.alias.casefold() for e in _sources(tree) for pivot in e.args.get("pivots") or ()
    }
    for item in stars:
        *outer, last = [name.casefold() for name in _names_before(item)]
        # The last name may be a table's with its database before it, or a field of a column of a table.
        if last not in tables or (outer and outer[0] in tables):
            yield tree, item


def _sources(tree: exp.Select) -> list[exp.Expression]:
    clauses = [tree.args.get("from_"), *(tree.args.get("joins") or ())]
    sources = [clause.this for clause in clauses if clause is not None]
    return [*sources, *(tree.args.get("laterals") or ())]


def _names_before(item: exp.Expression) -> list[str]:
    """The names before the star of an item; none of what is no such item."""
    if isinstance(item, exp.Column) and isinstance(item.this, exp.Star):
        return [part.name for part in item.parts[:-1]]
    if isinstance(item, exp.Dot) and isinstance(item.expression, exp.Star):
        return path(item.this)
    return []


def _read_field(star: exp.Expression, *names: str) -> exp.Expression:
    """The value before a star as an expression, or a field of it."""
    parts = list(star.parts[:-1]) if isinstance(star, exp.Column) else [star.this]
    parts = [part.copy() for part in parts]
    parts += [exp.to_identifier(name, quoted=True) for name in names]
    if isinstance(parts[0], exp.Identifier):
        keys = ("catalog", "db", "table", "this")
        first = parts[:4]
        parts[:4] = [exp.Column(**dict(zip(keys[-len(first) :], first, strict=True)))]
    value: exp.Expression = parts[0]
    for part in parts[1:]:
        value = exp.Dot(this=value, expression=part)
    return value


def _plan_column(
    select: exp.Select, star: exp.Expression, plan: Callable[[exp.Expression], Node]
) -> pa.Field | None:
    """The column or field before a star, as the rows of FROM have it; None if there is none."""
    probe = exp.Select(expressions=[exp.alias_(_read_field(star), "fields", quoted=True)])
    for key in (*_SOURCES, "with_"):
        value = select.args.get(key)
        if value is not None:
            probe.set(key, [e.copy() for e in value] if isinstance(value, list) else value.copy())
    try:
        return plan(probe).schema.field(0)
    except UnknownColumnError:
        # The star itself is read as that of a table: its error names the tables.
        return None
