"""VALUES where an expression stands: `x IN (VALUES 1, 2)`, `EXISTS (VALUES 1)`, `(VALUES 1)` as a value."""

from __future__ import annotations

from sqlglot import exp


def ask_values(tree: exp.Expression) -> None:
    """Let VALUES in an expression ask a query, as `(SELECT * FROM (VALUES ..))` does."""
    for rows in list(tree.find_all(exp.Values)):
        node = rows.parent
        if isinstance(node, exp.In) and len(node.expressions) == 1:
            node.set("expressions", [])
            node.set("query", exp.Subquery(this=_query_of(rows)))
        elif isinstance(node, exp.Anonymous) and node.name.upper() == "EXISTS":
            # To the parser it is a call of Spark's EXISTS(array, condition).
            node.replace(_is_there(rows))
        elif isinstance(node, exp.Subquery) and not isinstance(node.parent, exp.From | exp.Join):
            node.set("this", _query_of(rows))


def _is_there(rows: exp.Values) -> exp.Expression:
    """TRUE, as VALUES has a row; a condition that always holds where values are columns, which have to be there."""
    columns = [column.copy() for row in rows.expressions for column in row.find_all(exp.Column)]
    tests = [exp.or_(each.is_(exp.null()), exp.not_(each.is_(exp.null()))) for each in columns]
    return exp.paren(exp.and_(*tests)) if tests else exp.true()


def _query_of(rows: exp.Values) -> exp.Select:
    if len(rows.expressions) == 1:
        # Of one row it is known that no second one follows, and what it reads may be a column of the query around it.
        return exp.select(*rows.expressions[0].expressions)
    return exp.select(exp.Star()).from_(rows)
