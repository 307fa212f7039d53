"""Recursive queries of WITH RECURSIVE: the branches that begin, those that take a step, and what neither may be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sqlglot import exp

from aggloom.codegen.scalar.nondeterminism import differs, is_changing
from aggloom.codegen.sql.errors import place_error, refusal, span
from aggloom.errors import SqlError

MAX_LEVEL: Final = "recursion_level"
"""The part of a query of WITH that says how many steps it may take, behind MAX RECURSION LEVEL."""

BOUNDED: Final = (
    "write WITH RECURSIVE t MAX RECURSION LEVEL 8 AS (SELECT .. UNION ALL SELECT .. FROM t JOIN ..)"
)
BOUNDED_VIEW: Final = f"write CREATE VIEW v AS, and below it a recursive query: {BOUNDED}"
_OUTSIDE: Final = "filter its rows in the query that reads it"
_MOST: Final = 100
"""Steps of a recursive query at most: each is a join with state of its own."""


@dataclass(frozen=True)
class RecursiveQuery:
    """A query of WITH RECURSIVE that reads itself.

    columns: the names that it gives its columns, if it does. starts: the branches that do not read it. steps: those
    that do, once each. distinct: whether equal rows count once. limit: how many steps it may take, if it says so.
    place: its name in the text.
    """

    name: str
    columns: tuple[str, ...]
    starts: tuple[exp.Expression, ...]
    steps: tuple[exp.Select, ...]
    distinct: bool
    limit: int | None
    place: exp.Expression

    def check_unrolled(self, limit: int) -> None:
        """Raise UnsupportedSqlError where so many steps, or a choice of several each, are more than a plan may have."""
        if len(self.steps) > 1:
            # Each of them would have a copy of the rows below, and the plan would double with each level.
            what = f"more than one branch that reads {self.name} is"
            fix = f"unite what they join: FROM {self.name} JOIN (SELECT .. UNION ALL SELECT ..)"
            raise refusal(find_references(self.steps[1], self.name)[0], what, fix)
        if limit > _MOST:
            what = f"{limit} steps of a recursive query are more than the {_MOST} that are"
            raise refusal(self.place, what, "join what is further away in a second query")


def read_recursion(clause: exp.With, item: exp.CTE) -> RecursiveQuery | None:
    """The recursive query that a query of WITH is; None where it does not read itself.

    Raises UnsupportedSqlError where it reads one that follows it, which reads it in turn or not, and for other forms
    than branches under UNION of which each reads it once at most.
    """
    limit = _read_limit(item)
    if not clause.args.get("recursive"):
        if limit is not None:
            place = item.args[MAX_LEVEL]
            raise refusal(place, "MAX RECURSION LEVEL without RECURSIVE is", "write WITH RECURSIVE")
        return None
    _refuse_later(clause, item)
    name, tree = item.alias, item.this
    if not find_references(tree, name):
        if limit is not None:
            what = f"MAX RECURSION LEVEL of {name}, which does not read itself, is"
            raise refusal(item.args[MAX_LEVEL], what, "take it out")
        return None
    _check_body(tree, name)
    starts, steps = list[exp.Expression](), list[exp.Select]()
    for branch in _branches(tree, name, bool(tree.args["distinct"])):
        places = find_references(branch, name)
        if not places:
            starts.append(branch)
        elif len(places) > 1:
            what = f"a step of {name} that reads it twice is"
            fix = "read it once in each branch of UNION, and join other tables to it"
            raise refusal(places[1], what, fix)
        else:
            assert isinstance(branch, exp.Select)
            steps.append(branch)
    if not starts:
        message = f"no branch of {name} begins: each of them reads {name}; add one that does not."
        raise place_error(SqlError(message), find_references(tree, name)[0])
    return RecursiveQuery(
        name=name,
        columns=tuple(column.name for column in item.args["alias"].columns),
        starts=tuple(starts),
        steps=tuple(steps),
        distinct=bool(tree.args["distinct"]),
        limit=limit,
        place=item.args["alias"].this,
    )


def find_references(tree: exp.Expression, name: str) -> list[exp.Table]:
    """The places where a query reads a query of WITH."""
    tables = tree.find_all(exp.Table, bfs=False)
    return [each for each in tables if not each.db and each.name.casefold() == name.casefold()]


def _read_limit(item: exp.CTE) -> int | None:
    """The number behind MAX RECURSION LEVEL."""
    level = item.args.get(MAX_LEVEL)
    if level is None:
        return None
    text = level.name if isinstance(level, exp.Literal) and not level.is_string else ""
    if not text.isdigit() or not int(text):
        message = f"MAX RECURSION LEVEL is a whole number from 1 to {_MOST}, the steps that {item.alias} may take."
        raise place_error(SqlError(message), span(level) or item.args["alias"])
    return int(text)


def _refuse_later(clause: exp.With, item: exp.CTE) -> None:
    """Refuse a query that reads one that follows it in WITH RECURSIVE."""
    names = [each.alias.casefold() for each in clause.expressions]
    later = names[names.index(item.alias.casefold()) + 1 :]
    for table in item.this.find_all(exp.Table):
        if not table.db and table.name.casefold() in later:
            what = f"WITH RECURSIVE, where {item.alias} reads {table.name}, which follows it, is"
            fix = "make one query of both, with a column that says from which a row is"
            raise refusal(table, what, fix)


def _check_body(tree: exp.Expression, name: str) -> None:
    """Refuse a recursive query that is no UNION, is sorted or cut, or would not say the same each time it is asked."""
    place = find_references(tree, name)[0]
    if isinstance(tree, exp.Except | exp.Intersect):
        raise refusal(place, f"{type(tree).__name__.upper()} that reads {name} is", _OUTSIDE)
    if not isinstance(tree, exp.Union):
        raise refusal(place, f"{name}, which reads itself without UNION, is", BOUNDED)
    for node in tree.walk():
        if is_changing(node):
            fix = "compute it into a column of the input"
            raise refusal(node, f"{differs(node)}; in a recursive query it is", fix)
    before = tree.args.get("with_")
    if before is not None and find_references(before, name):
        what = f"{name} in a WITH of its own is"
        raise refusal(
            find_references(before, name)[0], what, f"read {name} in the FROM of a branch"
        )


def _branches(tree: exp.Expression, name: str, distinct: bool) -> list[exp.Expression]:
    """The branches of a UNION; one that is a UNION itself is taken apart where it reads the query."""
    places = find_references(tree, name)
    if not places or isinstance(tree, exp.Select):
        return [tree]
    if isinstance(tree, exp.Subquery) and not any(
        value for key, value in tree.args.items() if key != "this"
    ):
        return _branches(tree.this, name, distinct)
    if not isinstance(tree, exp.Union):
        word = type(tree).__name__.upper() if isinstance(tree, exp.SetOperation) else "a query"
        raise refusal(places[0], f"{name} on a side of {word} is", _OUTSIDE)
    for key, value in tree.args.items():
        if value and key not in ("this", "expression", "distinct", "with_"):
            what = f"{key.strip('_').upper()} after the UNION of {name} is"
            raise refusal(_place(value) or places[0], what, "take it out")
    if bool(tree.args["distinct"]) != distinct:
        what = f"UNION beside UNION ALL in {name} is"
        raise refusal(places[0], what, "write the same word between all branches")
    sides = (_branches(each, name, distinct) for each in (tree.this, tree.expression))
    return [branch for side in sides for branch in side]


def _place(value: object) -> tuple[int, int] | None:
    return span(value) if isinstance(value, exp.Expression) else None
