"""The items of a SELECT over joined rows: each * is expanded, and repeated names are made unique."""

from __future__ import annotations

from sqlglot import exp

from aggloom.codegen.sql.errors import Place, place_error, span
from aggloom.codegen.sql.output_names import free_names
from aggloom.codegen.sql.relations import Relations
from aggloom.codegen.sql.scope import bare, name_item, pretty
from aggloom.codegen.sql.stars import select_star_columns
from aggloom.codegen.sql.subqueries import queries
from aggloom.errors import DuplicateNameError


def resolve_items(
    items: list[exp.Expression], relations: Relations, names_aliases: bool
) -> list[exp.Expression]:
    """The items of SELECT, each * written out; names that come twice are distinguished as in Flink: a, a0, a1.

    names_aliases: items may name aliases to their left.
    """
    named_items: list[tuple[str | None, exp.Expression]] = []
    left: set[str] = set()

    def keep(column: exp.Column) -> bool:
        # Only without a table before it: `t.x` is never an alias.
        known = names_aliases and column.name.casefold() in left
        return known and not column.table

    for item in items:
        inner = item.this if isinstance(item, exp.Column) else item
        if isinstance(inner, exp.Star):
            of = item if isinstance(item, exp.Column) else None
            named_items += select_star_columns(item, relations.star(of))
        # A field of a ROW is called by its last part.
        elif isinstance(bare(item), exp.Dot):
            named_items.append((str(bare(item).expression.name), relations.resolve(item)))
        elif isinstance(bare(item), exp.Column):
            named_items.append((_own_name(bare(item), relations), relations.resolve(item, keep)))
        else:
            resolved = relations.resolve(item, keep)
            # After the item is resolved: an alias holds for what stands to its right, not for its own expression.
            left |= {item.alias.casefold()} - {""}
            # The sub-query becomes a join, so that its text is the only name that is left.
            if not item.alias and any(queries(item)):
                name = exp.to_identifier(pretty(bare(item)), quoted=True)
                resolved = exp.Alias(this=resolved, alias=name)
            named_items.append((None, resolved))
    aliases = [item.alias for _, item in named_items if isinstance(item, exp.Alias)]
    names = free_names([name for name, _ in named_items], aliases)
    return [
        node if name is None else name_item(node, name)
        for name, (_, node) in zip(names, named_items, strict=True)
    ]


def _own_name(column: exp.Expression, relations: Relations) -> str:
    """A column's name as its table spells it; a field's as it is written."""
    written = str(column.name)
    if isinstance(column, exp.Column) and relations.find(column) is None:
        return written
    names = (name for each in relations.tables for name in each.columns)
    # Spark keeps the spelling of the table, however the query writes it.
    return next((name for name in names if name.casefold() == written.casefold()), written)


def name_columns(
    select: list[tuple[str, str]], aliases: list[str | None], place: Place
) -> list[tuple[str, str]]:
    """Columns, each a name and a text, under names of their own: of those without an alias one gives way.

    Raises DuplicateNameError where two aliases are one.
    """
    written = [alias for alias in aliases if alias is not None]
    refuse_twice(written, place)
    own = [
        name if alias is None else None for (name, _), alias in zip(select, aliases, strict=True)
    ]
    free = free_names(own, written)
    return [(new or name, sql) for new, (name, sql) in zip(free, select, strict=True)]


def refuse_twice(names: list[str] | tuple[str, ...], place: Place) -> None:
    """Raise DuplicateNameError where two columns have one name."""
    known: set[str] = set()
    for name in names:
        if name in known:
            message = f"two columns are called {name!r}; give one an alias."
            where = span(place) if isinstance(place, exp.Expression) else place
            raise place_error(DuplicateNameError(message), where)
        known.add(name)
