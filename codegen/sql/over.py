"""Queries with window functions: the query below them, the functions, and the expressions over their values.

Such a query is split into a plain one, whose columns the functions and the items around them read, and the items over
these columns and the functions' values. Columns that only they read follow the plain query's own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import get_args

import pyarrow as pa
from sqlglot import exp

from aggloom.codegen.spec.function_check import check_function
from aggloom.codegen.sql.dialect import CallNode
from aggloom.codegen.sql.errors import place_error, refusal
from aggloom.codegen.sql.numbering import Function, Plain
from aggloom.codegen.sql.scope import Scope, bare, make_column, name_item, pretty, text_of
from aggloom.codegen.sql.shape import is_clock
from aggloom.errors import DuplicateNameError, SqlError


@dataclass(frozen=True)
class OverFunction:
    """A call and its window, over columns of the plain query. name: of the column with its values."""

    name: str
    call: CallNode
    partition: tuple[exp.Expression, ...]
    order: tuple[exp.Expression, ...]
    frame: exp.Expression | None
    place: exp.Expression


@dataclass(frozen=True)
class OverQuery:
    """A query with window functions.

    items: what it shows over columns of `plain` and of the functions; None stands for the columns of a star.
    condition: QUALIFY over the same columns. stars: the items with a star, as queries of their own.
    """

    plain: exp.Select
    items: tuple[exp.Expression | None, ...]
    stars: tuple[exp.Select, ...]
    windows: tuple[OverFunction, ...]
    condition: exp.Expression | None
    distinct: exp.Expression | None


def over_query(tree: exp.Expression) -> OverQuery | None:
    """Return the parts of a query with window functions; None if it has none, or does no more than number its rows."""
    if not isinstance(tree, exp.Select) or any(tree.args.get(key) for key in ("limit", "offset")):
        return None
    windows = list(_windows(tree))
    if not windows or _numbers(tree, windows):
        return None
    return _Split(tree).query()


def _windows(tree: exp.Select) -> Iterator[exp.Window]:
    """The window functions of a SELECT: in its items and in QUALIFY."""
    for place in (*tree.expressions, *filter(None, [tree.args.get("qualify")])):
        # Those of sub-queries are theirs.
        for part in place.walk(prune=lambda each: isinstance(each, exp.Query)):
            if isinstance(part, exp.Window):
                yield part


def _numbers(tree: exp.Select, windows: list[exp.Window]) -> bool:
    """Tell whether all that a SELECT does with windows is to number its rows in one way."""
    if tree.args.get("distinct") or len({text_of(window) for window in windows}) > 1:
        return False
    call = windows[0].this
    if not isinstance(call, CallNode) or call.name.upper() not in get_args(Function):
        return False
    items = [item for item in tree.expressions if item.find(exp.Window)]
    whole = all(isinstance(bare(item.unalias()), exp.Window) for item in items)
    # A rank need not store what it has emitted: it is cheaper than an OVER, where it says the same.
    return whole and len(items) < 2


def is_query(part: exp.Expression) -> bool:
    """Return whether a part of an expression is the value or the test of a sub-query."""
    return isinstance(part, exp.Subquery | exp.Exists) or bool(
        isinstance(part, exp.In) and part.args.get("query")
    )


class _Split:
    """A query on its way into its parts."""

    def __init__(self, tree: exp.Select) -> None:
        self.tree = tree
        self.plain = Plain(tree.copy())
        self.sign = self.plain.fresh("")
        self.windows: dict[str, OverFunction] = {}
        group = tree.args.get("group")
        self.keys = {text_of(bare(key)) for key in group.expressions} if group else set()
        self.named: dict[str, exp.Expression] = {}
        for each in tree.args.get("windows") or ():
            if each.name.casefold() in self.named:
                message = f"WINDOW names {each.name!r} twice; rename one."
                raise place_error(DuplicateNameError(message), each)
            self.named[each.name.casefold()] = each

    def query(self) -> OverQuery:
        tree = self.plain.tree
        assert isinstance(tree, exp.Select)
        items_read, qualify = list(tree.expressions), tree.args.get("qualify")
        # They are of the rows with the functions' values, which the plain query does not have.
        for key in ("qualify", "windows", "distinct"):
            tree.set(key, None)
        plain_items = {
            n: self._keep_item(item)
            for n, item in enumerate(items_read)
            if not item.find(exp.Window)
        }
        tree.set("expressions", list(plain_items.values()))
        items: list[exp.Expression | None] = []
        stars: list[exp.Select] = []
        for n, item in enumerate(items_read):
            if (
                n in plain_items
                and plain_items[n].find(exp.Star)
                and not plain_items[n].find(CallNode)
            ):
                # What a star stands for is known only over the source: it is planned as a query of its own, for its
                # columns.
                star = self.tree.copy()
                for key in ("qualify", "windows", "distinct", "having"):
                    star.set(key, None)
                star.set("expressions", [plain_items[n].copy()])
                stars.append(star)
                items.append(None)
            elif n in plain_items:
                items.append(make_column(plain_items[n].alias or plain_items[n].name))
            else:
                # A window has an alias, too: the name that it goes by.
                aliased = isinstance(item, exp.Alias)
                name = item.alias if aliased else pretty(bare(item.unalias()))
                call = self._over(item.unalias())
                items.append(name_item(call, name))
        aliases = {
            item.alias.casefold(): item.this for item in items if isinstance(item, exp.Alias)
        }
        condition = None if qualify is None else self._over(qualify.this, aliases)
        if not tree.expressions and not self.plain.hidden:
            # Nothing of the rows is read but that they are there.
            self.plain.column(exp.cast(exp.Literal.number(0), "BIGINT", dialect="spark"), self.sign)
        plain = self.plain.build_query()
        assert isinstance(plain, exp.Select)
        windows = tuple(self.windows.values())
        distinct = self.tree.args.get("distinct")
        return OverQuery(plain, tuple(items), tuple(stars), windows, condition, distinct)

    def _keep_item(self, item: exp.Expression) -> exp.Expression:
        """An item without window functions, under the name that it has."""
        inner = bare(item.unalias())
        star = isinstance(inner, exp.Star) or isinstance(inner.this, exp.Star)
        if (
            item.alias
            or isinstance(inner, exp.Column)
            or (star and not isinstance(inner, CallNode))
        ):
            return item
        return name_item(item, pretty(inner))

    def _over(
        self, node: exp.Expression, aliases: dict[str, exp.Expression] | None = None
    ) -> exp.Expression:
        """An expression over columns of the plain query and the functions' values; aliases: items by their names."""

        def visit(part: exp.Expression) -> exp.Expression:
            if isinstance(part, exp.Window):
                return make_column(self._window(part))
            if aliases and isinstance(part, exp.Column) and not part.table:
                if part.name.casefold() in aliases:
                    return exp.paren(aliases[part.name.casefold()].copy())
                for item in self.plain.items:
                    if item.alias and item.alias.casefold() == part.name.casefold():
                        return make_column(item.alias)
            return self._leaf(part)

        return bare(node).copy().transform(visit, copy=False)

    def _leaf(self, part: exp.Expression) -> exp.Expression:
        """A part that the plain query computes as its column; any other part as it is."""
        # What a sub-query reads and aggregates is its own.
        computed = isinstance(part, exp.Column | CallNode) or is_clock(part) or is_query(part)
        is_key = bool(self.keys) and not isinstance(part, exp.Ordered)
        if computed or (is_key and text_of(bare(part)) in self.keys):
            return make_column(self.plain.column(part, self.sign, own=True))
        return part

    def _window(self, window: exp.Window) -> str:
        """The column of a function's values."""
        # The same function over the same window is one column, however often it is written.
        known = text_of(window)
        if known in self.windows:
            return self.windows[known].name
        call = window.this
        if isinstance(call, exp.IgnoreNulls | exp.RespectNulls) or not isinstance(call, CallNode):
            if isinstance(call, exp.Anonymous):
                with Scope(pa.schema([]), "spark", set()).at(call):
                    check_function(call.name, "SELECT")
            what = f"{text_of(call)} as a window function is"
            raise refusal(window, what, "use an aggregate or a window function")
        for inner in call.find_all(exp.Window):
            fix = "compute the inner one in a sub-query"
            raise refusal(inner, "a window function inside another is", fix)
        # The clauses of the named window count as if they were written here.
        partition, order, frame = self._clauses(window, ())
        name = f"{self.sign}w{len(self.windows)}"
        copy = call.copy()
        copy.transform(lambda part: part if part is copy else self._leaf(part), copy=False)
        self.windows[known] = OverFunction(
            name,
            copy,
            tuple(self._lower_item(each) for each in partition),
            tuple(self._lower_item(each) for each in order),
            frame,
            call,
        )
        return name

    def _lower_item(self, node: exp.Expression) -> exp.Expression:
        return node.copy().transform(self._leaf, copy=False)

    def _clauses(
        self, window: exp.Window, bases: tuple[str, ...]
    ) -> tuple[list[exp.Expression], list[exp.Expression], exp.Expression | None]:
        """PARTITION BY, ORDER BY and the frame of a window, with those of the named one that it goes by."""
        parts = list(window.args.get("partition_by") or ())
        order = window.args.get("order")
        items = [] if order is None else list(order.expressions)
        for each in items:
            if each.args.get("with_fill"):
                raise refusal(each, "WITH FILL is", "take it out")
        frame = window.args.get("spec")
        alias = window.args.get("alias")
        if alias is None:
            return parts, items, frame
        base = self.named.get(alias.name.casefold())
        # A window that goes by itself, over others perhaps, has no clauses.
        if base is None or alias.name.casefold() in bases:
            message = f"there is no window {alias.name!r}; write WINDOW after FROM."
            raise place_error(SqlError(message), alias)
        below = self._clauses(base, (*bases, alias.name.casefold()))
        # As in SQL, OVER (w ORDER BY ..) may only add what the window lacks.
        if parts or (items and below[1]):
            clause = "PARTITION BY" if parts else "ORDER BY"
            message = f"window {alias.name!r} is fixed already; take {clause} out of OVER."
            raise place_error(SqlError(message), alias)
        # A frame may be added to a named window, and is not one of its clauses.
        return below[0], items or below[1], frame or below[2]
