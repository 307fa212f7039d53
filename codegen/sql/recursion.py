"""Recursive queries: which queries of WITH RECURSIVE read themselves, and what to write instead."""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from aggloom.codegen.sql.errors import refusal

STEPS: Final = (
    "write as many steps as there may be: r1 AS (..), r2 AS (SELECT .. FROM r1 ..), and the UNION of all"
)


def refuse_recursion(clause: exp.With) -> None:
    """Raise UnsupportedSqlError at the place where a query of WITH RECURSIVE reads itself, or one that follows it.

    Where none does, the word changes nothing.
    """
    if not clause.args.get("recursive"):
        return
    names = [item.alias.casefold() for item in clause.expressions]
    for number, item in enumerate(clause.expressions):
        for table in item.this.find_all(exp.Table):
            name = table.name.casefold()
            if table.db or name not in names[number:]:
                continue
            reads = "itself" if name == names[number] else f"{table.name}, which follows it"
            raise refusal(table, f"WITH RECURSIVE, where {item.alias} reads {reads}, is", STEPS)
