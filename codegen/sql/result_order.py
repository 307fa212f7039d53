"""The order in which a result is shown: ORDER BY of the outermost query, taken out of it.

A changelog has no order, so the plan computes the rows, and the code that shows them sorts them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa
from sqlglot import exp

from aggloom.codegen.spec.dtypes import has_order, type_name
from aggloom.codegen.sql.errors import Span, place_error, span
from aggloom.codegen.sql.numbering import Plain, SortItem, order_of_output
from aggloom.errors import TypeMismatchError, UnknownColumnError, nearest


@dataclass(frozen=True)
class ResultOrder:
    """The columns by which the rows of a result are sorted before they are shown.

    items: columns of the result, the most important first. hidden: those that only the order reads; they are the last
    columns of the result and are not shown. place: where ORDER BY is in the text.
    """

    items: tuple[SortItem, ...] = ()
    hidden: tuple[str, ...] = ()
    place: Span | None = None

    def resolve(self, schema: pa.Schema) -> ResultOrder:
        """Return the order by the names that the columns of the result have.

        Raises UnknownColumnError, and TypeMismatchError for a column whose values have no order.
        """
        names = {name.casefold(): name for name in reversed(schema.names)}
        items = []
        for item in self.items:
            name = item.column if item.column in schema.names else names.get(item.column.casefold())
            if name is None:
                hint = nearest(item.column, schema.names)
                message = f"ORDER BY: the result has no column {item.column!r}. {hint}"
                raise place_error(UnknownColumnError(message), self.place)
            kind = schema.field(name).type
            if not has_order(kind):
                message = f"ORDER BY {name}: {type_name(kind)} has no order; order by a part of it."
                raise place_error(TypeMismatchError(message), self.place)
            items.append(replace(item, column=name))
        return replace(self, items=tuple(items))


UNORDERED = ResultOrder()


def split_order(tree: exp.Expression) -> tuple[exp.Expression, ResultOrder]:
    """Return a query without the ORDER BY around it, and what that says. With LIMIT the ORDER BY stays.

    Expressions that the result does not have become further columns of it.
    """
    order = tree.args.get("order")
    if order is None:
        return tree, UNORDERED
    copy = tree.copy()
    copy.set("order", None)
    limits = {key: copy.args[key] for key in ("limit", "offset") if copy.args.get(key)}
    for key in limits:
        copy.set(key, None)
    if isinstance(copy, exp.Subquery) and not (copy.alias or copy.args.get("with_")):
        copy = copy.this
        if any(copy.args.get(key) for key in ("order", "limit", "offset")):
            # The order around a query that has its own is planned as it stands.
            return tree, UNORDERED
    plain = Plain(copy)
    items = order_of_output(plain, order.expressions)
    plain_tree = plain.build_query()
    if limits:
        for key, value in {**limits, "order": order.copy()}.items():
            plain_tree.set(key, value)
    return plain_tree, ResultOrder(items, tuple(plain.hidden), span(order.expressions[0]))
