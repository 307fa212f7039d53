"""PIVOT and UNPIVOT after a table, as queries of its rows: a GROUP BY with filtered aggregates, a STACK of columns."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from aggloom.codegen.scalar.expressions import quote_name
from aggloom.codegen.scalar.spark_text import spark_text
from aggloom.codegen.sql.dialect import CallNode
from aggloom.codegen.sql.errors import place_error, refusal
from aggloom.codegen.sql.scope import make_table
from aggloom.codegen.sql.shape import statements
from aggloom.errors import UnknownColumnError, nearest


def pivot_query(pivot: exp.Pivot, columns: Sequence[str], table: str) -> exp.Query:
    """The query that a PIVOT or UNPIVOT is, over the rows of a table with these columns; raises SqlError."""
    if (
        len(pivot.args.get("fields") or ()) != 1
        or pivot.args.get("using")
        or pivot.args.get("group")
    ):
        fix = "write PIVOT (SUM(v) FOR k IN ('a', 'b'))"
        raise refusal(pivot, "this form of PIVOT is", fix)
    (choice,) = pivot.args["fields"]
    if not isinstance(choice, exp.In) or not choice.expressions or choice.args.get("query"):
        raise refusal(pivot, "a PIVOT without a list of values is", "write FOR k IN ('a', 'b')")
    if pivot.args.get("unpivot"):
        return _unpivot(pivot, choice, columns, table)
    return _pivot(pivot, choice, columns, table)


def _pivot(pivot: exp.Pivot, choice: exp.In, columns: Sequence[str], table: str) -> exp.Query:
    """One row for the columns that the PIVOT does not name, with each aggregate for each value of the list."""
    keys = choice.this.expressions if isinstance(choice.this, exp.Tuple) else [choice.this]
    aggregates = pivot.expressions
    read = [each.name for part in (*keys, *aggregates) for each in part.find_all(exp.Column)]
    _check_known(read, columns, pivot)
    folded = {name.casefold() for name in read}
    groups = [name for name in columns if name.casefold() not in folded]
    select: list[exp.Expression] = [exp.column(name, quoted=True) for name in groups]
    for value in choice.expressions:
        for aggregate in aggregates:
            call = _for_value(aggregate, _is_value(keys, value), pivot)
            select.append(exp.alias_(call, _name(value, aggregate, len(aggregates)), quoted=True))
    query = exp.Select(expressions=select, from_=exp.From(this=make_table(table)))
    if groups:
        grouped = [exp.column(name, quoted=True) for name in groups]
        query.set("group", exp.Group(expressions=grouped))
    return query


def _for_value(
    aggregate: exp.Expression, condition: exp.Expression, pivot: exp.Pivot
) -> exp.Expression:
    """The aggregate of the rows of one value; NULL if there are none, also for COUNT, as Spark has it."""
    call = aggregate.unalias().copy()
    if not isinstance(call, CallNode):
        raise refusal(
            pivot, f"{spark_text(call)} in PIVOT is", "write an aggregate, such as SUM(v)"
        )
    own = call.args.get("filter")
    call.set("filter", condition.copy() if own is None else exp.and_(own, condition.copy()))
    some = CallNode(this="COUNT", expressions=[exp.Star()], filter=condition.copy())
    branch = exp.If(this=exp.GT(this=some, expression=exp.Literal.number(0)), true=call)
    return exp.Case(ifs=[branch])


def _is_value(keys: Sequence[exp.Expression], value: exp.Expression) -> exp.Expression:
    """The condition that the columns of FOR have a value of the list."""
    bare = value.this if isinstance(value, exp.PivotAlias) else value
    parts = bare.expressions if isinstance(bare, exp.Tuple) else [bare]
    if len(parts) != len(keys):
        what = f"{len(parts)} values for {len(keys)} columns of FOR are"
        raise refusal(value, what, "give one for each column")
    pairs = zip(keys, parts, strict=True)
    return exp.and_(*(exp.NullSafeEQ(this=k.copy(), expression=v.copy()) for k, v in pairs))


def _name(value: exp.Expression, aggregate: exp.Expression, count: int) -> str:
    """The name of a column: the value's, and with several aggregates the aggregate's after it."""
    if isinstance(value, exp.PivotAlias):
        name = str(value.alias)
    elif isinstance(value, exp.Tuple):
        raise refusal(value, "a list of values without a name is", "write ('a', 1) AS name")
    else:
        name = value.name if isinstance(value, exp.Literal) else spark_text(value).lower()
    if count == 1:
        return name
    if not aggregate.alias:
        what = "several aggregates in a PIVOT without names are"
        raise refusal(aggregate, what, "write SUM(v) AS s, COUNT(*) AS n")
    return f"{name}_{aggregate.alias}"


def _unpivot(pivot: exp.Pivot, choice: exp.In, columns: Sequence[str], table: str) -> exp.Query:
    """A row for each column of the list: the other columns, the column's name and its value."""
    (values,) = pivot.expressions
    names = [
        part.name for part in (values.expressions if isinstance(values, exp.Tuple) else [values])
    ]
    rows, inputs = list[str](), set[str]()
    for item in choice.expressions:
        bare = item.this if isinstance(item, exp.PivotAlias) else item
        parts = [
            each.name for each in (bare.expressions if isinstance(bare, exp.Tuple) else [bare])
        ]
        if len(parts) != len(names):
            raise refusal(item, f"{len(parts)} columns for {len(names)} values are", "give as many")
        _check_known(parts, columns, pivot)
        inputs |= {name.casefold() for name in parts}
        label = item.alias if isinstance(item, exp.PivotAlias) else "_".join(parts)
        rows += [spark_text(exp.Literal.string(label)), *map(quote_name, parts)]
    others = [quote_name(name) for name in columns if name.casefold() not in inputs]
    outputs = [quote_name(choice.this.name), *map(quote_name, names)]
    select = ", ".join([*others, *outputs])
    text = f"SELECT {select} FROM {quote_name(table)} LATERAL VIEW STACK({len(choice.expressions)}, {', '.join(rows)})"
    text += f" `$unpivot` AS {', '.join(outputs)}"
    if not pivot.args.get("include_nulls"):
        text += " WHERE " + " OR ".join(f"{name} IS NOT NULL" for name in outputs[1:])
    (query,) = statements(text)
    return query


def _check_known(names: Sequence[str], columns: Sequence[str], pivot: exp.Pivot) -> None:
    """Raise UnknownColumnError for a name that the table does not have."""
    known = {column.casefold() for column in columns}
    for name in names:
        if name.casefold() not in known:
            message = f"there is no column {name!r} to pivot by. {nearest(name, list(columns))}"
            raise place_error(UnknownColumnError(message), pivot)
