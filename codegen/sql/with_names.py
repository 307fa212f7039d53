"""The names of the queries of WITH that a place in a query sees."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp


def list_with_names(node: exp.Expression) -> Iterator[str]:
    """The names of the queries of WITH that precede a place in a query, or around it, without regard to case."""
    inside: exp.Expression | None = None
    while node.parent is not None:
        inside, node = node, node.parent
        clause = node.args.get("with_") if isinstance(node, exp.Query) else None
        if clause is None and isinstance(node, exp.With):
            clause = node
        for query in clause.expressions if clause is not None and inside is not clause else ():
            # A query of WITH sees those that precede it.
            if query is inside:
                break
            yield query.alias.casefold()
