"""Queries that number rows: ROW_NUMBER, RANK and DENSE_RANK as items and in QUALIFY, ORDER BY with LIMIT or FETCH.

Such a query is split into a plain one, which computes what the numbers go by, and the numbering of its rows. In the
plain query 0 stands for the number, and columns that only the numbering reads follow the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal, get_args

from sqlglot import exp

from aggloom.codegen.sql.dialect import CallNode
from aggloom.codegen.sql.errors import place_error, refusal, span
from aggloom.codegen.sql.numbering_range import whole_number
from aggloom.codegen.sql.scope import bare, make_column, name_item, text_of
from aggloom.codegen.sql.stars import left_out
from aggloom.errors import DuplicateNameError, SqlError

Function = Literal["ROW_NUMBER", "RANK", "DENSE_RANK"]


@dataclass(frozen=True)
class SortItem:
    """A column by which rows are numbered, and how."""

    column: str
    descending: bool = False
    nulls_first: bool = True


@dataclass(frozen=True)
class NumberingQuery:
    """A query that numbers rows.

    plain: what computes the rows, with the columns in `hidden` after its own. partition, order: by columns of it.
    number: the column that the number is called; `is_shown` if it is one of the query's own. condition: QUALIFY, over
    columns of plain and the number, or what LIMIT says of it.
    """

    plain: exp.Expression
    function: Function
    number: str
    is_shown: bool
    partition: tuple[str, ...]
    order: tuple[SortItem, ...]
    hidden: tuple[str, ...]
    condition: exp.Expression | None
    place: tuple[int, int] | None


def numbering_query(tree: exp.Expression) -> NumberingQuery | None:
    """Return the numbering that a query asks for; None if it numbers no rows."""
    # LIMIT first: it numbers the rows of the whole query, its own numberings among them.
    if tree.args.get("limit") or tree.args.get("offset"):
        return _read_limit(tree)
    if not isinstance(tree, exp.Select):
        return None
    windows = list(_windows(tree))
    return _read_windows(tree, windows) if windows else None


def _windows(tree: exp.Select) -> Iterator[exp.Window]:
    """The numbering functions of a SELECT: in its items and in QUALIFY."""
    places = [*tree.expressions, *filter(None, [tree.args.get("qualify")])]
    for place in places:
        yield from _windows_in(place)


@dataclass
class Plain:
    """A query on its way to a plain one: columns that only the numbering reads are added to its items."""

    tree: exp.Expression
    hidden: dict[str, exp.Expression] = field(default_factory=dict)

    @property
    def items(self) -> list[exp.Expression]:
        return list(self.tree.expressions) if isinstance(self.tree, exp.Select) else []

    def fresh(self, stem: str) -> str:
        """A name that the query does not say."""
        # Longer than any run of the sign that the query itself begins a name with: users may write `$0` as well.
        used = {node.name.casefold() for node in self.tree.find_all(exp.Identifier)}
        sign = "$"
        while any(name.startswith(sign) for name in used):
            sign += "$"
        return f"{sign}{stem}"

    def column(self, node: exp.Expression, sign: str, own: bool = False) -> str:
        """The column of the plain query that an expression over its source is; own: by its name, if that is free."""
        node = bare(node)
        for item in self.items:
            inner = bare(item.unalias())
            # * gives the column unless its EXCEPT leaves it out: no hidden copy is needed then.
            if isinstance(inner.this if isinstance(inner, exp.Column) else inner, exp.Star):
                # Of joined tables, t.* does not show each column that is written without its table.
                table = inner.text("table")
                tables = (table,) if self.tree.args.get("joins") else ("", table)
                own = isinstance(node, exp.Column) and (
                    isinstance(inner, exp.Star) or node.table in tables
                )
                if own and node.name.casefold() not in left_out(inner):
                    return str(node.name)
                continue
            # An item without a name of its own cannot be named by the numbering.
            if _same(inner, node) and (item.alias or isinstance(inner, exp.Column)):
                return str(item.alias or inner.name)
        # A column that was added already serves again.
        for name, known in self.hidden.items():
            if text_of(known) == text_of(node):
                return name
        name = f"{sign}{len(self.hidden)}"
        if own and isinstance(node, exp.Column):
            names = {(item.alias or item.name).casefold() for item in self.items}
            names |= {known.casefold() for known in self.hidden}
            name = name if node.name.casefold() in names else str(node.name)
        self.hidden[name] = node.copy()
        return name

    def order(
        self, items: Iterable[exp.Expression], column: Callable[[exp.Expression], str]
    ) -> tuple[SortItem, ...]:
        """The columns that ORDER BY goes by."""
        by_column: dict[str, SortItem] = {}
        for each in items:
            if each.args.get("with_fill"):
                raise refusal(each, "WITH FILL is", "take it out")
            down = bool(each.args.get("desc"))
            first = bool(each.args.get("nulls_first"))
            item = SortItem(column(each.this), down, first)
            # The first direction of a column decides; a second one is never reached.
            by_column.setdefault(item.column.casefold(), item)
        return tuple(by_column.values())

    def build_query(self) -> exp.Expression:
        """The plain query with the columns that were added."""
        for name, node in self.hidden.items():
            self.tree.append("expressions", name_item(node, name))
        return self.tree


def _same(left: exp.Expression, right: exp.Expression) -> bool:
    """Tell whether two expressions over a source are the same."""
    if isinstance(left, exp.Column) and isinstance(right, exp.Column):
        tables = {left.table.casefold(), right.table.casefold()} - {""}
        return left.name.casefold() == right.name.casefold() and len(tables) < 2
    return text_of(left) == text_of(right)


def _read_windows(tree: exp.Select, windows: list[exp.Window]) -> NumberingQuery:
    """A SELECT with numbering functions, which all have to be the same one."""
    first = windows[0]
    function, parts, order = _check_numbering(tree, first)
    for other in windows[1:]:
        if text_of(other) != text_of(first):
            fix = "number in a sub-query of its own"
            raise refusal(other, "a second numbering in one SELECT is", fix)
    if tree.args.get("distinct"):
        fix = "number in a sub-query, and write DISTINCT around it"
        raise refusal(first, "SELECT DISTINCT with a numbering is", fix)
    plain = Plain(tree.copy())
    sign = plain.fresh("")
    number, is_selected = f"{sign}number", False
    # A constant that keeps the number's place and type among the items until rows are numbered.
    zero = exp.cast(exp.Literal.number(0), "BIGINT", dialect="spark")
    items, selected = list(plain.tree.expressions), []
    for item in items:
        inner = bare(item.unalias())
        if isinstance(inner, exp.Window) and any(_windows_in(inner)):
            if is_selected:
                raise refusal(item, "the same numbering twice is", "name it once")
            number, is_selected = item.alias or text_of(inner), True
            selected.append(name_item(zero, number))
        elif any(_windows_in(item)):
            fix = "name it, and compute with its name in the query around this one"
            raise refusal(item, "a numbering inside an expression is", fix)
        else:
            selected.append(item)
    qualify = plain.tree.args.get("qualify")
    # What is beside the number is looked up without it.
    others = [each for each in selected if each.alias != number or not is_selected]
    plain.tree.set("expressions", others)
    partition = tuple(dict.fromkeys(plain.column(each, sign) for each in parts))
    items_ = plain.order(order, lambda node: plain.column(node, sign))
    condition = None
    if qualify is not None:
        condition = _rewrite_qualify(plain, qualify.this.copy(), number, sign)
        plain.tree.set("qualify", None)
    plain.tree.set("windows", None)
    plain.tree.set("expressions", selected)
    return NumberingQuery(
        plain.build_query(),
        function,
        number=number,
        is_shown=is_selected,
        partition=partition,
        order=items_,
        hidden=tuple(plain.hidden),
        condition=condition,
        place=span(first.this),
    )


def _windows_in(node: exp.Expression) -> Iterator[exp.Window]:
    """The numbering functions in an expression, but for those of its sub-queries."""
    for window in node.walk(prune=lambda each: isinstance(each, exp.Query)):
        if not isinstance(window, exp.Window):
            continue
        if isinstance(window.this, CallNode) and window.this.name.upper() in get_args(Function):
            yield window


def _check_numbering(
    tree: exp.Select, window: exp.Window
) -> tuple[Function, list[exp.Expression], list[exp.Expression]]:
    """The function of a numbering, and what it partitions and orders by."""
    call: CallNode = window.this
    function: Function = call.name.upper()  # type: ignore[assignment]
    if call.expressions or any(call.args.get(key) for key in ("distinct", "filter", "nulls")):
        message = f"{function} has no arguments; write {function}() OVER (...)."
        raise place_error(SqlError(message), call)
    clauses = window
    if window.args.get("alias"):
        window_name = window.args["alias"].name.casefold()
        known = [w for w in tree.args.get("windows") or () if w.this.name.casefold() == window_name]
        if not known:
            message = f"there is no window {window.args['alias'].name!r}; write WINDOW after FROM."
            raise place_error(SqlError(message), window)
        if len(known) > 1:
            message = f"WINDOW names {known[1].this.name!r} twice; rename one."
            raise place_error(DuplicateNameError(message), known[1])
        clauses = known[0]
    if clauses.args.get("spec"):
        raise refusal(call, f"a frame for {function} is", "take it out; it has none")
    order = clauses.args.get("order")
    if order is None:
        message = f"{function} needs an order; write OVER (PARTITION BY ... ORDER BY ...)."
        raise place_error(SqlError(message), call)
    return function, list(clauses.args.get("partition_by") or ()), list(order.expressions)


def _rewrite_qualify(
    plain: Plain, condition: exp.Expression, number: str, sign: str
) -> exp.Expression:
    """The condition of QUALIFY over columns of the plain query and the number."""

    def visit(node: exp.Expression) -> exp.Expression:
        if isinstance(node, exp.Window) and any(_windows_in(node)):
            return make_column(number)
        if not isinstance(node, exp.Column):
            return node
        if node.name.casefold() == number.casefold():
            return make_column(number)
        # QUALIFY may name items of SELECT, which go before columns of the source.
        aliases = [i.alias for i in plain.items if i.alias.casefold() == node.name.casefold()]
        name = aliases[0] if aliases and not node.table else plain.column(node, sign)
        return make_column(name)

    return condition.transform(visit)


def _read_limit(tree: exp.Expression) -> NumberingQuery:
    """ORDER BY with LIMIT, OFFSET or FETCH, around any query: the numbers of all its rows."""
    limit, offset = tree.args.get("limit"), tree.args.get("offset")
    place = span(limit or offset)
    skipped = 0 if offset is None else _read_count(offset.expression, "OFFSET")
    if limit is None:
        fix = "say how many rows with LIMIT"
        raise refusal(place, "OFFSET without LIMIT is", fix)
    function: Function = "ROW_NUMBER"
    fetch = isinstance(limit, exp.Fetch)
    clause = "FETCH" if fetch else "LIMIT"
    count = limit.args.get("count") or exp.Literal.number(1) if fetch else limit.expression
    rows = _read_count(count, clause)
    if limit.expressions:
        fix = "write QUALIFY ROW_NUMBER() OVER (PARTITION BY ...) <= n"
        raise refusal(place, "LIMIT BY is", fix)
    chosen = limit.args.get("limit_options")
    if chosen is not None and chosen.args.get("percent"):
        raise refusal(place, f"{clause} of a PERCENT is", "say how many rows")
    if chosen is not None and chosen.args.get("with_ties"):
        function = "RANK"
        # RANK skips numbers: rows from the n-th on would not be those behind the first n - 1.
        if skipped:
            fix = "take OFFSET out, or write RANK() and ROW_NUMBER() in sub-queries"
            raise refusal(place, "WITH TIES after OFFSET is", fix)
    order = tree.args.get("order")
    if function == "RANK" and order is None:
        raise place_error(SqlError("WITH TIES needs an ORDER BY."), place)
    copy = tree.copy()
    for key in ("limit", "offset", "order"):
        copy.set(key, None)
    # Parentheses that are left around a query whose LIMIT has been taken out.
    if isinstance(copy, exp.Subquery) and not any(copy.args.get(key) for key in ("alias", "with_")):
        copy = copy.this
    plain = Plain(copy)
    sign = plain.fresh("")
    items = order_of_output(plain, order.expressions if order is not None else ())
    # LIMIT n OFFSET m are the numbers from m + 1 to m + n.
    number = f"{sign}number"
    at_least = exp.GTE(this=make_column(number), expression=exp.Literal.number(skipped + 1))
    at_most = exp.LTE(this=make_column(number), expression=exp.Literal.number(skipped + rows))
    return NumberingQuery(
        plain.build_query(),
        function,
        number=number,
        is_shown=False,
        partition=(),
        order=items,
        hidden=tuple(plain.hidden),
        condition=exp.and_(at_least, at_most),
        place=place,
    )


def _read_count(node: exp.Expression, clause: str) -> int:
    number = whole_number(node)
    if number is None or number < 0:
        message = f"{clause} needs a whole number that is not negative, not {text_of(node)}."
        raise place_error(SqlError(message), node)
    return number


def order_of_output(plain: Plain, order: Iterable[exp.Expression]) -> tuple[SortItem, ...]:
    """The columns that ORDER BY after a query goes by; expressions that it lacks become hidden columns."""
    return plain.order(order, _of_output(plain, plain.fresh("")))


def _of_output(plain: Plain, sign: str) -> Callable[[exp.Expression], str]:
    """Return the function that names columns in ORDER BY of a query: by result name, by number, or over its source."""

    def column(node: exp.Expression) -> str:
        node = bare(node)
        items = plain.items
        number = whole_number(node)
        if number is not None:
            return _counted_off(plain, sign, node, number)
        if isinstance(node, exp.Column) and not node.table:
            for item in items:
                if item.alias and item.alias.casefold() == node.name.casefold():
                    return str(item.alias)
        # With DISTINCT, or over a set operation, the source is no longer there to order by.
        if isinstance(plain.tree, exp.Select) and not plain.tree.args.get("distinct"):
            return plain.column(_over_source(plain, node), sign)
        if isinstance(node, exp.Column):
            return str(node.name)
        fix = "order by a column of the result"
        raise refusal(node, "ORDER BY an expression here is", fix)

    return column


def _counted_off(plain: Plain, sign: str, node: exp.Expression, number: int) -> str:
    """The column of the result with this number; of a set operation, by the names of its left side."""
    tree = plain.tree
    items = list(tree.selects) if isinstance(tree, exp.Query) else []
    item = items[number - 1] if 1 <= number <= len(items) else None
    if item is not None and not any(each.is_star for each in items):
        if not isinstance(tree, exp.Select) and item.alias_or_name:
            return str(item.alias_or_name)
        if isinstance(tree, exp.Select):
            return str(item.alias) if item.alias else plain.column(item, sign)
    raise place_error(SqlError(f"ORDER BY {number}: name the column."), node)


def _over_source(plain: Plain, node: exp.Expression) -> exp.Expression:
    """An expression of ORDER BY over the source: the names of items stand for them, but for those in aggregates."""
    if isinstance(node, exp.Column):
        return node
    items = {item.alias.casefold(): item.this for item in plain.items if item.alias}
    copied = node.copy()
    # Inside an aggregate a name is a column of the source: an alias of it would be an aggregate of an aggregate.
    for part in list(copied.walk(prune=lambda each: isinstance(each, CallNode | exp.Query))):
        if isinstance(part, exp.Column) and not part.table and part.name.casefold() in items:
            part.replace(exp.paren(items[part.name.casefold()].copy()))
    return copied
