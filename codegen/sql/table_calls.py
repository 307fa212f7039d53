"""Table functions in SQL: UNNEST, LATERAL, LATERAL VIEW, and Spark's generators in SELECT.

All become joins with a source of FROM, each a call over columns of what stands to its left.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from sqlglot import exp

from aggloom.codegen.catalogue.registry import find
from aggloom.codegen.sql.dialect import AggloomSpark, CallNode
from aggloom.codegen.sql.errors import place_error, refusal, span
from aggloom.codegen.sql.scope import bare
from aggloom.codegen.sql.window_parser import TABLE_FUNCTIONS, Descriptor, TableArgument, WindowCall
from aggloom.errors import SqlError, UnsupportedSqlError

GENERATORS: Final = (
    *("explode", "explode_outer", "posexplode", "posexplode_outer"),
    *("inline", "inline_outer", "json_tuple", "stack"),
)
"""Spark's functions that make several rows of one."""
EMITTED: Final = "EMITTED ROWS"
"""The table function that opens the rows of a table aggregate; nobody can write its name."""
_HIDDEN: Final = "hidden"
_NAME: Final = "(generator)"
_ABOVE_GROUPS: Final = ("with_", "distinct", "order", "limit", "offset", "qualify")
"""Clauses of a SELECT that see the rows of its generator, and not the groups below it."""


@dataclass(frozen=True)
class TableFunction:
    """A table function in FROM, as it was written.

    name: the function in capitals. ordinality: rows are to be numbered. alias, columns: the names that it is given, if
    any. hidden: it is in SELECT, so that its columns are found by its alias alone.
    """

    place: exp.Expression
    name: str
    arguments: tuple[exp.Expression, ...]
    ordinality: bool = False
    alias: str = ""
    columns: tuple[str, ...] = ()
    hidden: bool = False


def read_table_function(source: exp.Expression) -> TableFunction | None:
    """The table function that a source of FROM is; None for tables, queries and windows."""
    call: exp.Expression | None = source
    if isinstance(source, exp.Lateral | exp.Table):
        call = bare(source.this)
    if isinstance(call, exp.Anonymous) and call.name.upper() == "TABLE":
        if len(call.expressions) != 1:
            message = "TABLE(..) takes one call of a table function; write TABLE(f(x))."
            raise place_error(SqlError(message), call)
        call = bare(call.expressions[0])
    if isinstance(call, WindowCall) and _is_window(call):
        return None
    if not isinstance(call, exp.Func | exp.Unnest):
        return None
    alias, offset = source.args.get("alias"), call.args.get("offset")
    names = [each.name for each in alias.columns] if alias is not None else []
    names += [offset.name] if isinstance(offset, exp.Identifier) else []
    named = isinstance(call, exp.Anonymous | WindowCall | CallNode)
    parts = call.expressions if named or isinstance(call, exp.Unnest) else call.iter_expressions()
    return TableFunction(
        place=call if span(call) else source,
        name=call.name.upper() if named else call.sql_name().upper(),
        arguments=tuple(parts),
        ordinality=bool(offset),
        alias=source.alias,
        columns=tuple(names),
        hidden=bool(source.meta.get(_HIDDEN)),
    )


def _is_window(call: WindowCall) -> bool:
    """Tell whether a call is a window's: by its name, or as a table, a DESCRIPTOR or a named argument is in it."""
    parts = (TableArgument, Descriptor, exp.Kwarg)
    return call.name in TABLE_FUNCTIONS or any(isinstance(each, parts) for each in call.expressions)


def is_on_true(join: exp.Join) -> bool:
    """Tell whether a join has no condition, or TRUE."""
    on = join.args.get("on")
    return on is None or (isinstance(bare(on), exp.Boolean) and bool(bare(on).this))


def join_table_functions(tree: exp.Expression) -> None:
    """Make joins of the LATERAL VIEWs of a query and of the generators among its items, in place."""
    # Sub-queries first: a grouped query is copied.
    for select in reversed(list(tree.find_all(exp.Select))):
        for view in select.args.get("laterals") or []:
            view.set("view", False)
            _append(select, view, bool(view.args.get("outer")))
            view.set("outer", False)
        select.set("laterals", None)
        _join_generator(select)


def _join_generator(select: exp.Select) -> None:
    """Make a join of the generator among the items of a SELECT."""
    _open_table_aggregates(select)
    generators = list(_generators(select))
    if not generators:
        return
    if len(generators) > 1:
        raise _refuse_second([_call(each) for each in generators])
    item = generators[0]
    call = _call(item)
    if any(_call(each).find(exp.Window) for each in select.expressions):
        fix = "explode in a sub-query in FROM"
        raise refusal(call, f"{call.name.upper()} beside OVER is", fix)
    if select.args.get("group") or select.args.get("having") or _aggregates(select):
        item = _group_below(select, item)
        call = _call(item)
    names: list[exp.Identifier] = []
    if isinstance(item, exp.Aliases):
        names = [each.copy() for each in item.args["expressions"]]
    elif isinstance(item, exp.Alias):
        names = [item.args["alias"].copy()]
    alias = exp.TableAlias(this=exp.to_identifier(_NAME, quoted=True), columns=names)
    source = exp.Lateral(this=call.copy(), view=False, outer=False, alias=alias)
    source.meta[_HIDDEN] = True
    star = exp.Column(this=exp.Star(), table=exp.to_identifier(_NAME, quoted=True))
    select.set("expressions", [star if each is item else each for each in select.expressions])
    if select.args.get("from_") is None:
        select.set("from_", exp.From(this=source))
    else:
        _append(select, source, False)


def _group_below(select: exp.Select, item: exp.Expression) -> exp.Expression:
    """Make a sub-query of the groups of a SELECT, of which its generator makes rows; return the generator over it."""
    call, items = _call(item), list(select.expressions)
    place = next(number for number, each in enumerate(items) if each is item)
    if 0 < place < len(items) - 1:
        fix = "make it the first or the last item, or explode in a sub-query in FROM"
        raise refusal(call, f"{call.name.upper()} between items beside aggregates is", fix)
    inner, above = select.copy(), item.copy()
    arguments: list[exp.Expression] = []
    for number, each in enumerate(_call(above).expressions):
        if not isinstance(each, exp.Literal):
            name = exp.to_identifier(_argument_name(each, number), quoted=True)
            arguments.append(exp.alias_(each.copy(), name.copy()))
            each.replace(exp.Column(this=name))
    inner.set("expressions", [*(e.copy() for e in items if e is not item), *arguments])
    group = inner.args.get("group")
    for key in list(group.expressions) if group is not None else ():
        # The places of the items are others in the sub-query.
        if isinstance(key, exp.Literal) and key.name.isdigit() and 0 < int(key.name) <= len(items):
            key.replace(_call(items[int(key.name) - 1]).copy())
    for clause in _ABOVE_GROUPS:
        inner.set(clause, None)
    for clause in ("joins", "where", "group", "having"):
        select.set(clause, None)
    alias = exp.TableAlias(this=exp.to_identifier("(groups)", quoted=True))
    select.set("from_", exp.From(this=exp.Subquery(this=inner, alias=alias)))
    rest = exp.Star(except_=[each.args["alias"].copy() for each in arguments])
    others = [rest] if len(items) > 1 else []
    select.set("expressions", [above, *others] if place == 0 else [*others, above])
    return above


def _argument_name(argument: exp.Expression, number: int) -> str:
    """The name of an argument of a generator in the sub-query below it; that of emitted rows says whose they are."""
    call = argument if isinstance(argument, CallNode) else None
    entry = find(call.name) if call is not None else None
    if call is None or entry is None or not entry.emits_rows:
        return f"(argument {number})"
    return f"rows of {call.sql(dialect=AggloomSpark)}"


def _open_table_aggregates(select: exp.Select) -> None:
    """Make a generator of a call of a table aggregate that is an item of a SELECT: the rows that it emits."""
    for item in select.expressions:
        call = _call(item)
        entry = find(call.name) if isinstance(call, CallNode) else None
        if entry is None or not entry.emits_rows:
            continue
        opened = exp.Anonymous(this=EMITTED)
        opened.meta.update(call.meta)
        call.replace(opened)
        opened.set("expressions", [call])


def _refuse_second(calls: list[exp.Expression]) -> UnsupportedSqlError:
    """The error of several generators, some of which may be table aggregates, of which no LATERAL VIEW exists."""
    if not any(call.name == EMITTED for call in calls):
        fix = "write LATERAL VIEW for the others"
        return refusal(calls[1], "a second generator in one SELECT is", fix)
    names = [(call.expressions[0] if call.name == EMITTED else call).name for call in calls]
    what = f"{names[1].upper()} beside {names[0].upper()} in one SELECT, with the rows of a table aggregate, is"
    return refusal(calls[1], what, "write a query for each, and join them")


def _append(select: exp.Select, source: exp.Lateral, outer: bool) -> None:
    """Join a source with all that FROM has; outer: rows without any stay."""
    words = {"side": "LEFT", "on": exp.true()} if outer else {"kind": "CROSS"}
    select.append("joins", exp.Join(this=source, **words))


def _generators(select: exp.Select) -> Iterator[exp.Expression]:
    """The items of a SELECT that are generators."""
    for item in select.expressions:
        call = _call(item)
        if isinstance(call, exp.Anonymous) and call.name.lower() in (*GENERATORS, EMITTED.lower()):
            yield item


def _call(item: exp.Expression) -> exp.Expression:
    """The expression of an item without its names."""
    return bare(item.this if isinstance(item, exp.Alias | exp.Aliases) else item)


def _aggregates(select: exp.Select) -> bool:
    return any(_call(item).find(CallNode) for item in select.expressions)
