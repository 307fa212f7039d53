"""A window table brought above the steps over it, so that the aggregate over them meets it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import pyarrow as pa
from sqlglot import exp

from aggloom.codegen.operators import Calc, Column, Expand, Node, WindowTable
from aggloom.codegen.scalar.expressions import column_name, columns_of, parse_scalar, quote_name
from aggloom.codegen.sql.scope import bare, pretty, text_of
from aggloom.codegen.windows import Session


@dataclass(frozen=True)
class LiftedWindow:
    """A WindowTable brought above the steps over it: what is left of them, and what became of the bounds.

    roles: start, end or time, by the column that is it now. carried: the assigner's columns by their names below.
    mixed: columns that are computed from the bounds. barrier: why rows may not pass by the window. filters: conditions
    that ask for one horizon, by column: its name, and the column with what else they ask for ("": nothing).
    """

    rows: Node
    table: WindowTable
    roles: dict[str, str]
    carried: dict[str, str]
    mixed: frozenset[str] = frozenset()
    barrier: str = ""
    filters: Mapping[str, tuple[str, str]] = field(default_factory=dict)


def lift_window(node: Node) -> LiftedWindow | None:
    if isinstance(node, WindowTable):
        carried = {name: name for name in node.assigner.columns}
        return LiftedWindow(node.input, node, node.roles, carried)
    if not isinstance(node, Calc | Expand):
        return None
    below = lift_window(node.input)
    if below is None:
        return None
    return _over_calc(node, below) if isinstance(node, Calc) else _over_expand(node, below)


def _over_calc(node: Calc, below: LiftedWindow) -> LiftedWindow:
    """The projection without the bounds, with the columns by which rows find their windows."""
    roles, columns, mixed = {}, [], set()
    filters: dict[str, tuple[str, str]] = {}
    # What is made of the bounds cannot be computed below, where there are none yet.
    hidden = below.roles.keys() | below.mixed | below.filters.keys()
    for name, sql in node.select:
        column = column_name(sql) or ""
        if column in below.roles:
            roles[name] = below.roles[column]
        elif column in below.filters:
            filters[name] = below.filters[column]
        elif not hidden & set(columns_of(sql)):
            columns.append((name, sql))
        elif (parts := split_horizon(sql, below.roles)) is None:
            mixed.add(name)
        else:
            horizon, rest = parts
            # Named by its text, so that the same condition of two horizons is one column.
            condition = "" if rest is None else pretty(rest)
            filters[name] = horizon, condition
            columns += [] if rest is None else [(condition, text_of(rest))]
    # What else a condition asks for is a condition below, which the steps over it have to carry.
    columns += [(c, quote_name(c)) for _, c in filters.values() if c]
    # Of one name the text that stands first stays: a condition that is carried must not replace what computes it.
    columns = list(dict(reversed(columns)).items())[::-1]
    fields = [_field(node, name) for name, _ in columns]
    carried = {}
    for column, name in below.carried.items():
        copied = next((own for own, sql in columns if column_name(sql) == name), None)
        # The assigner needs its time below, even where nothing above reads it.
        if copied is None:
            copied = _fresh(name, [*node.columns.names, *(field.name for field in fields)])
            columns.append((copied, quote_name(name)))
            fields.append(pa.field(copied, below.rows.schema.field(name).type))
        carried[column] = copied
    rows = Calc(below.rows, tuple(columns), pa.schema(fields), node.where)
    # The projection was only there for the bounds.
    if rows.picked_columns == tuple(rows.schema.names) == tuple(below.rows.schema.names):
        return replace(below, roles=roles, carried=carried, mixed=frozenset(mixed), filters=filters)
    barrier = below.barrier or _barrier(node.where, hidden, below.table)
    lifted = LiftedWindow(rows, below.table, roles, carried, frozenset(mixed), barrier)
    return replace(lifted, filters=filters)


def _field(node: Calc, name: str) -> pa.Field:
    """A column of a projection, or a condition that it computes or carries."""
    known = name in node.columns.names
    return node.columns.field(name) if known else pa.field(name, pa.bool_())


def split_horizon(
    condition: str, roles: Mapping[str, str]
) -> tuple[str, exp.Expression | None] | None:
    """The horizon that a condition asks for, and the rest of it; None if it asks for no single one."""
    tree = parse_scalar(condition)
    while isinstance(tree, exp.Paren) or (isinstance(tree, exp.Cast) and tree.is_type("boolean")):
        tree = tree.this
    horizons, rest = [], []
    for part in tree.flatten() if isinstance(tree, exp.And) else [tree]:
        name = _horizon_of(bare(part), roles)
        if name is None:
            rest.append(part)
        else:
            horizons.append(name)
    read = {column.name for part in rest for column in part.find_all(exp.Column)}
    # Two horizons at once hold for no row, and a bound in the rest would be read where there is none yet.
    if len(horizons) != 1 or read & roles.keys():
        return None
    return horizons[0], exp.and_(*(part.copy() for part in rest)) if rest else None


def _horizon_of(node: exp.Expression, roles: Mapping[str, str]) -> str | None:
    if not isinstance(node, exp.EQ | exp.NullSafeEQ):
        return None
    for column, value in ((node.left, node.right), (node.right, node.left)):
        column, value = bare(column), bare(value)
        if (
            isinstance(column, exp.Column)
            and roles.get(column.name) == "horizon"
            and value.is_string
        ):
            return str(value.this)
    return None


def _barrier(where: str | None, hidden: set[str], table: WindowTable) -> str:
    if where is None:
        return ""
    if hidden & set(columns_of(where)):
        return f"WHERE {where} reads the window's bounds"
    # Which rows make a session follows from all rows of the key: a filter may not go below that.
    if isinstance(table.assigner, Session) and table.partition is not None:
        return f"WHERE {where} is applied after the sessions are formed"
    return ""


def _over_expand(node: Expand, below: LiftedWindow) -> LiftedWindow:
    """The expansion without the bounds; a bound that is not in every set is none any more."""
    roles, mixed, places = {}, set(), []
    for place, name in enumerate(node.schema.names):
        items = {project[place] for project in node.projects}
        sources = {item.name if isinstance(item, Column) else "" for item in items}
        source_roles = {below.roles.get(source) for source in sources}
        # A bound that is NULL in one set of a CUBE is an ordinary column, which no window is found by.
        if len(source_roles) == 1 and None not in source_roles:
            roles[name] = next(role for role in source_roles if role)
        elif sources & (below.roles.keys() | below.mixed | below.filters.keys()):
            mixed.add(name)
        else:
            places.append(place)
    # The assigner's columns go along beside the sets, which may have NULL in their place.
    names = {name: _fresh(name, node.schema.names) for name in below.carried.values()}
    more = tuple(Column(name) for name in names)
    projects = tuple((*(project[place] for place in places), *more) for project in node.projects)
    fields = [node.schema.field(place) for place in places]
    fields += [pa.field(new, below.rows.schema.field(name).type) for name, new in names.items()]
    rows = Expand(below.rows, projects, pa.schema(fields))
    carried = {column: names[name] for column, name in below.carried.items()}
    return LiftedWindow(rows, below.table, roles, carried, frozenset(mixed), below.barrier)


def _fresh(name: str, names_used: list[str]) -> str:
    names = (name, *(f"{name}_{number}" for number in range(2, 999)))
    return next(each for each in names if each not in names_used)
