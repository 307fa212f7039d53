"""GROUPING SETS, ROLLUP and CUBE: the sets of keys that they stand for."""

from __future__ import annotations

from itertools import combinations, product
from math import prod
from typing import Final

from sqlglot import exp

GROUP_ID: Final = "$e"
"""The column that says of which set a row of the expanded input is: 0, 1, ..."""

MAX_SETS: Final = 4096
"""The sets that a GROUP BY may stand for, as a CUBE of twelve keys does: each adds a row for each of the input."""

Keys = tuple[exp.Expression, ...]
_GROUPINGS: Final = (exp.GroupingSets, exp.Cube, exp.Rollup)


def has_sets(group: exp.Group | None) -> bool:
    """Tell whether a GROUP BY asks for several sets of keys."""
    return group is not None and any(
        isinstance(node, _GROUPINGS) for node in group.find_all(*_GROUPINGS)
    )


def is_grouping(node: exp.Expression) -> bool:
    """Return whether an item of GROUP BY is a ROLLUP, a CUBE or GROUPING SETS."""
    return isinstance(node, _GROUPINGS)


def listed_keys(group: exp.Group) -> list[exp.Expression]:
    """The keys before GROUPING SETS without a comma, as Spark lists them: those in no set are NULL in every row."""
    return list(group.expressions) if group.args.get("grouping_sets") else []


def plain_keys(group: exp.Group) -> Keys:
    """The keys of a GROUP BY without sets: (a, b) is both, and () none, so that all rows are one group."""
    parts = (
        node.expressions if isinstance(node, exp.Tuple) else (node,) for node in group.expressions
    )
    return tuple(key for part in parts for key in part)


def count_sets(group: exp.Group) -> int:
    """Count the sets that a GROUP BY stands for, without making them."""
    # Counted before they are made: a CUBE of thirty keys would not fit into memory.
    if alone := group.args.get("grouping_sets"):
        return sum(_count(node) for node in alone)
    total = prod(_count(node) for node in group.expressions)
    for clause in ("rollup", "cube"):
        for node in group.args.get(clause) or ():
            keys = len(node.expressions) or len(group.expressions)
            several = keys + 1 if clause == "rollup" else 2**keys
            total = total * several if node.expressions else several
    return total


def _count(node: exp.Expression) -> int:
    if isinstance(node, exp.GroupingSets):
        return sum(_count(each) for each in node.expressions)
    if isinstance(node, exp.Rollup):
        return len(node.expressions) + 1
    return int(2 ** len(node.expressions)) if isinstance(node, exp.Cube) else 1


def sets_of(group: exp.Group) -> list[Keys]:
    """The sets of a GROUP BY: what stands side by side is combined.

    Spark's GROUP BY a, b GROUPING SETS (..), without a comma, means the sets alone: what precedes lists the keys.
    """
    if alone := group.args.get("grouping_sets"):
        return [keys for node in alone for keys in _sets(node)]
    parts = [_sets(node) for node in group.expressions]
    for clause in ("rollup", "cube"):
        for node in group.args.get(clause) or ():
            if node.expressions:
                parts.append(_sets(node))
            else:
                # WITH ROLLUP, WITH CUBE: over all that precedes.
                whole = [each for keys in parts for each in keys]
                parts = [_combine_items(clause, whole)]
    return [tuple(key for part in chosen for key in part) for chosen in product(*parts)]


def _sets(node: exp.Expression) -> list[Keys]:
    if isinstance(node, exp.GroupingSets):
        return [keys for each in node.expressions for keys in _sets(each)]
    if isinstance(node, exp.Rollup | exp.Cube):
        kind = "rollup" if isinstance(node, exp.Rollup) else "cube"
        return _combine_items(kind, [_sets(each)[0] for each in node.expressions])
    if isinstance(node, exp.Tuple):
        return [tuple(node.expressions)]
    return [(node.this if isinstance(node, exp.Paren) else node,)]


def _combine_items(kind: str, items: list[Keys]) -> list[Keys]:
    # From all keys to none, as every ROLLUP counts.
    if kind == "rollup":
        chosen = [items[:n] for n in range(len(items), -1, -1)]
    else:
        chosen = [list(c) for n in range(len(items), -1, -1) for c in combinations(items, n)]
    return [tuple(key for item in each for key in item) for each in chosen]


def grouping_value(keys: list[str], sets: list[tuple[str, ...]], kind: str) -> exp.Expression:
    """GROUPING of some keys over the sets: a bit for each, 1 where the key is not in the row's set."""
    case = exp.Case(this=exp.column(exp.to_identifier(GROUP_ID, quoted=True)))
    for place, names in enumerate(sets):
        # The first key is the highest bit, as GROUPING_ID has it.
        bits = "".join("0" if key in names else "1" for key in keys)
        case = case.when(exp.Literal.number(place), exp.Literal.number(int(bits or "0", 2)))
    return exp.cast(case, kind, dialect="spark")
