"""An aggregate call of a query as an AggCall: the meaning of each part inside and after its parentheses."""

from __future__ import annotations

from contextlib import suppress
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
from sqlglot import exp

from aggloom.codegen.catalogue.entry import Aggregate, Option
from aggloom.codegen.catalogue.registry import find
from aggloom.codegen.scalar.result_types import infer
from aggloom.codegen.spec import checks as spec_check
from aggloom.codegen.spec.agg_call import ON_NULL, AggCall, SortKey, places
from aggloom.codegen.spec.function_check import check_function
from aggloom.codegen.sql.dialect import CallNode
from aggloom.codegen.sql.errors import place_error, refusal, span
from aggloom.codegen.sql.scope import Scope, bare, pretty
from aggloom.errors import SpecError, SqlError, nearest

_FIRST_OR_LAST: Final = ("FIRST_VALUE", "LAST_VALUE", "ANY_VALUE")
OVER_SORTED: Final = ("PERCENTILE_CONT", "PERCENTILE_DISC", "MODE")
_DESCENDING: Final = {
    "PERCENTILE_DISC": "write ORDER BY without DESC, and 1 minus the fraction",
    "MODE": "of equally frequent values it takes the smallest; take DESC out",
}
_EXAMPLES: Final = {
    "text": "', '",
    "whole": "10",
    "fraction": "0.05",
    "fractions": "0.5 or array(0.25, 0.75)",
    "choice": "'null'",
}


def lower(scope: Scope, node: CallNode, alias: str | None) -> AggCall:
    """The call over columns, checked; its expressions are computed columns of the scope from now on."""
    with scope.at(node):
        check_function(node.name, "SELECT")
    entry = find(node.name)
    assert entry is not None
    call = _Lowering(scope, node, entry).call(alias)
    with scope.at(node):
        names = [*call.args, *(key.column for key in call.order_by)]
        names += [] if call.filter is None else [call.filter]
        spec_check.check_call(call, scope.columns_of(names), scope.dialect)
    return call


class _Lowering:
    """One call on its way, as the forms of SQL are brought down to arguments, options and clauses."""

    def __init__(self, scope: Scope, node: CallNode, entry: Aggregate) -> None:
        self.scope, self.node, self.entry = scope, node, entry
        self.items: list[exp.Expression] = list(node.expressions)
        self.order: list[exp.Expression] = _without_constants(_keys(node, "order"))
        self.nulls: str | None = node.args.get("nulls")
        self.distinct = bool(node.args.get("distinct"))
        self.descending = False

    def call(self, alias: str | None) -> AggCall:
        # In this order: WITHIN GROUP may give the argument that the second one is counted from.
        self._read_within()
        self._read_second()
        # COUNT(1) counts rows, as COUNT(*) does: with one form the two share a counter.
        if self.entry.name == "COUNT" and not self.distinct and _counts_rows(self.items):
            self.items = []
        args, options = self._read_arguments()
        condition = self.node.args.get("filter")
        return AggCall(
            self.entry.name,
            args,
            distinct=self.distinct,
            filter=None if condition is None else self._filter(condition),
            alias=alias,
            order_by=tuple(self._sort_key(key) for key in self.order),
            nulls=self.nulls,
            options=tuple(options.items()),
            entry=self.entry,
        )

    def _read_within(self) -> None:
        """WITHIN GROUP (ORDER BY x) is the argument of some functions and the order of others."""
        keys = _keys(self.node, "within")
        if not keys:
            return
        if self.entry.name not in OVER_SORTED:
            if self.entry.ordered is None:
                raise self._error(
                    "takes no WITHIN GROUP; write its argument in the parentheses", keys[0]
                )
            if self.order:
                raise self._error("has two ORDER BY; keep one", keys[0])
            self.order = _without_constants(keys)
            return
        if len(keys) > 1:
            raise self._error("takes one column in WITHIN GROUP; take the others out", keys[1])
        if keys[0].args.get("desc") and self.entry.name in _DESCENDING:
            raise self._error(f"takes no DESC: {_DESCENDING[self.entry.name]}", keys[0])
        self.descending = bool(keys[0].args.get("desc"))
        # Of ordered-set functions the argument is in WITHIN GROUP, and is the first.
        self.items.insert(0, keys[0].this)

    def _read_second(self) -> None:
        """FIRST(x, TRUE) is Spark's FIRST(x) IGNORE NULLS, FIRST_VALUE(x, ts) orders by ts."""
        if self.entry.name not in _FIRST_OR_LAST or len(self.items) != 2:
            return
        second = bare(self.items.pop())
        if isinstance(second, exp.Boolean):
            if self.nulls is not None:
                raise self._error(f"says twice what NULLs do; take {pretty(second)} out", second)
            self.nulls = "ignore" if second.this else "respect"
            return
        if self.order:
            raise self._error("has two orders; keep ORDER BY or the second argument", second)
        self.order = [exp.Ordered(this=second, desc=False, nulls_first=True)]

    def _read_arguments(self) -> tuple[tuple[str, ...], dict[str, Any]]:
        """The arguments as columns, in the entry's order, and the options."""
        options: dict[str, Any] = {}
        columns: list[tuple[int, str]] = []
        names: set[str] = set()
        for place, item in enumerate(self.items):
            name, value = self._match_argument(place, item)
            if name in names and not self._is_many(name):
                raise self._error(f"has {name} twice; take one out", item)
            names.add(name)
            option = self.entry.option(name)
            if option is None or (option.column and constant(value) is None):
                columns.append((self._rank(name), self._column(value)))
            else:
                options[name] = self._option(option, value, place)
        on_null = self.node.args.get("on_null")
        if on_null is not None:
            if self.entry.option(ON_NULL) is None:
                raise self._error(f"takes no {on_null.upper()} ON NULL; take it out", self.node)
            options[ON_NULL] = on_null
        # Named arguments may come in any order; the entry's expressions know them by their places.
        return tuple(column for _, column in sorted(columns, key=lambda pair: pair[0])), options

    def _match_argument(self, place: int, item: exp.Expression) -> tuple[str, exp.Expression]:
        """Return the name of the argument or option that an item is, by its name or by its place, and its value."""
        names = places(self.entry)
        if isinstance(item, exp.Kwarg):
            known = (*names, *(option.name for option in self.entry.options))
            name = item.this.name.lower()
            if name not in known:
                hint = nearest(name, known).rstrip("?.")
                raise self._error(f"has no argument {name!r}: {hint}", item)
            return name, item.expression
        if place < len(names):
            return names[place], item
        if names and self._is_many(names[-1]):
            return names[-1], item
        if not self.entry.options:
            # The check of the whole call says how many columns there should be.
            return "", item
        raise self._error(
            f"takes at most {len(names)} arguments ({', '.join(names)}), got {len(self.items)}",
            item,
        )

    def _is_many(self, name: str) -> bool:
        return not name or any(each.many and each.name == name for each in self.entry.arguments)

    def _rank(self, name: str) -> int:
        names = [argument.name for argument in self.entry.arguments]
        return names.index(name) if name in names else len(names)

    def _column(self, node: exp.Expression) -> str:
        name = self.entry.name
        if isinstance(node, exp.Star) or isinstance(node.this, exp.Star):
            what = f"this form of {name} is"
            raise refusal(node, what, "give it a plain column")
        self.scope.refuse_aggregates(node, f"the argument of {name}", "aggregate in two steps")
        return self._name_column(node)

    def _name_column(self, node: exp.Expression) -> str:
        """Name the column that holds an expression, computed only for the rows that FILTER lets pass.

        FILTER comes first in SQL: `SUM(10 / x) FILTER (WHERE x <> 0)` divides by no 0.
        """
        condition = self.node.args.get("filter")
        if condition is None or isinstance(bare(node), exp.Column) or not node.find(exp.Column):
            return self.scope.column(node)
        case = exp.Case(ifs=[exp.If(this=condition.copy(), true=node.copy())])
        self.scope.require_columns(case)
        return self.scope.compute(case, pretty(bare(node)))

    def _option(self, option: Option, node: exp.Expression, place: int) -> Any:
        value = constant(node)
        if value is None:
            raise self._error(
                f"needs a constant for {option.name}, argument {place + 1}, "
                f"such as {_EXAMPLES[option.kind]}; {pretty(bare(node))} is none",
                node,
            )
        if option.kind not in ("fraction", "fractions"):
            return value
        return _fraction(value, self.descending)

    def _sort_key(self, key: exp.Expression) -> SortKey:
        if constant(key.this) is not None:
            raise self._error("sorts by a constant, which orders nothing; name a column", key)
        self.scope.refuse_aggregates(key.this, "ORDER BY", "aggregate in two steps")
        descending = bool(key.args.get("desc"))
        return SortKey(self._name_column(key.this), descending, bool(key.args.get("nulls_first")))

    def _filter(self, node: exp.Expression) -> str:
        name = self.entry.name
        self.scope.refuse_aggregates(node, f"the filter of {name}", "use HAVING")
        self.scope.require_columns(node)
        self.scope.require_boolean(node, f"FILTER of {name}")
        return self.scope.column(node)

    def _error(self, what: str, where: exp.Expression) -> SqlError:
        # A bare literal does not remember its place; the call does.
        place = where if span(where) else self.node
        return place_error(SqlError(f"{self.node.name.upper()} {what}."), place)


def constant(node: exp.Expression) -> Any:
    """The value of a literal, of a list of literals or of a CAST of one; None for anything else."""
    node = bare(node)
    if isinstance(node, exp.Boolean):
        return bool(node.this)
    if isinstance(node, exp.Literal):
        if node.is_string:
            return str(node.this)
        return int(node.this) if node.this.isdigit() else float(node.this)
    if isinstance(node, exp.Neg):
        value = constant(node.this)
        return -value if isinstance(value, int | float) else None
    if isinstance(node, exp.Array):
        values = tuple(constant(item) for item in node.expressions)
        return None if None in values else values
    if isinstance(node, exp.Cast | exp.TryCast):
        return _cast(constant(node.this), node)
    return None


def _cast(value: Any, node: exp.Expression) -> Any:
    with suppress(SpecError, ValueError, TypeError):
        dtype = infer(node, {})
        if value is None or pa.types.is_nested(dtype):
            return value
        if pa.types.is_string(dtype):
            return str(value)
        if pa.types.is_integer(dtype):
            return int(value)
        if pa.types.is_floating(dtype) or pa.types.is_decimal(dtype):
            return float(value)
    return None


def _fraction(value: Any, descending: bool) -> Any:
    """A fraction as a float, seen from the other end if the values descend."""
    if isinstance(value, tuple):
        return tuple(_fraction(item, descending) for item in value)
    if isinstance(value, bool | str):
        return value
    # By decimals: 1 - 0.9 is 0.1 to whoever wrote it.
    return float(1 - Decimal(str(value))) if descending else float(value)


def _keys(node: CallNode, clause: str) -> list[exp.Expression]:
    order = node.args.get(clause)
    return [] if order is None else list(order.expressions)


def _without_constants(keys: list[exp.Expression]) -> list[exp.Expression]:
    """The keys that order rows: for a constant all of them are ties, and stay as they arrived."""
    return [
        key
        for key in keys
        if constant(key.this) is None and not isinstance(bare(key.this), exp.Null)
    ]


def _counts_rows(items: list[exp.Expression]) -> bool:
    """COUNT(*), COUNT(1), COUNT('x'): no argument that could be NULL."""
    return all(isinstance(each, exp.Star | exp.Literal | exp.Boolean) for each in items)
