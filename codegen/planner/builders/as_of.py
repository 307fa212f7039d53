"""FOR SYSTEM_TIME AS OF and ASOF JOIN in a FROM: which join they are, and its node.

`way_of` is the one place where that is decided, by the time that is named.
"""

from __future__ import annotations

from typing import Literal, Protocol

import pyarrow as pa
from sqlglot import exp

from aggloom.codegen.operators import AsOfJoin, CurrentJoin, Node, pick_first
from aggloom.codegen.operators.as_of import Comparison
from aggloom.codegen.planner.builders.versions import time_of, versions_of
from aggloom.codegen.scalar.expressions import quote_name
from aggloom.codegen.spec.choices import JoinKind
from aggloom.codegen.spec.dtypes import type_name
from aggloom.codegen.sql.as_of import AsOf, flip_inequality, is_inequality
from aggloom.codegen.sql.conditions import column_names
from aggloom.codegen.sql.errors import refusal
from aggloom.codegen.sql.scope import bare, make_column

Way = Literal["nearest", "versions", "now"]
"""ASOF JOIN; the right as it was at the left's row time; the right as it is when the left's row is seen."""
_SIGNS: dict[type[exp.Expression], Comparison] = {
    exp.GTE: ">=",
    exp.GT: ">",
    exp.LTE: "<=",
    exp.LT: "<",
}


class Pairing(Protocol):
    """A join on its way: its sides, the conditions that are pairs of their columns, and those that are left."""

    sides: list[Node]
    pairs: list[tuple[str, str]]
    null_safe: list[bool]
    conditions: list[exp.Expression]

    @property
    def kind(self) -> JoinKind: ...

    @property
    def has_ttls(self) -> bool: ...

    def pair(self, condition: exp.Expression) -> bool: ...

    def build_pair_condition(self, conditions: list[exp.Expression]) -> str | None: ...


def way_of(as_of: AsOf, left: Node) -> Way:
    """Return how a join finds its rows of the right."""
    if as_of.time is None:
        return "nearest"
    by_clock = as_of.by_clock or as_of.time.name in left.clock_columns
    return "now" if by_clock else "versions"


def as_of_join(pairing: Pairing, as_of: AsOf) -> Node:
    """The join that a FROM asks for; raises UnsupportedSqlError for what it cannot be."""
    direction = way_of(as_of, pairing.sides[0])
    if pairing.has_ttls:
        fix = "set table.exec.state.ttl for keys as a whole"
        raise refusal(as_of.place, "STATE_TTL by side of this join is", fix)
    if direction == "now":
        return _current(pairing, as_of)
    return _nearest(pairing, as_of) if direction == "nearest" else _temporal(pairing, as_of)


def _current(pairing: Pairing, as_of: AsOf) -> Node:
    """The rows of the right that are there when a row of the left comes."""
    columns = tuple(name for side in pairing.sides for name in side.schema.names)
    # A retraction would have to find the rows that its row met, which are forgotten (decision 108).
    if not pairing.sides[0].appends_only:
        what = "FOR SYSTEM_TIME AS OF processing time of rows that may be retracted is"
        fix = "say input_changes='append' of the left, or write JOIN alone, which corrects what it has emitted"
        raise refusal(as_of.place, what, fix)
    # `pair` takes equalities out; what it leaves is tested on each pair of rows.
    rest = [each for each in pairing.conditions if not pairing.pair(each)]
    condition = pairing.build_pair_condition(rest)
    left, right = _keys_first(pairing)
    return CurrentJoin(
        left,
        right,
        kind=pairing.kind,
        pairs=tuple(pairing.pairs),
        null_safe=tuple(pairing.null_safe),
        columns=columns,
        condition=condition,
    )


def _nearest(pairing: Pairing, as_of: AsOf) -> Node:
    """The row of the right with the nearest value, over changes of both sides."""
    columns = tuple(name for side in pairing.sides for name in side.schema.names)
    nearest = [each for each in pairing.conditions if is_inequality(each)]
    if len(nearest) != 1:
        what = "several inequalities" if nearest else "no inequality"
        fix = "write one, such as l.k = r.k AND l.t >= r.t; more conditions go to WHERE"
        raise refusal(as_of.place, f"ASOF JOIN with {what} is", fix)
    for each in pairing.conditions:
        if each is not nearest[0] and not pairing.pair(each):
            fix = "write it in WHERE, or in a sub-query for one side"
            raise refusal(each, "a further condition of an ASOF JOIN is", fix)
    condition = bare(nearest[0])
    # From here on the left side's column stands left, so that one sign says the direction.
    if not column_names(condition.expression) <= set(pairing.sides[1].schema.names):
        condition = flip_inequality(condition)
    times = _times(pairing, as_of, bare(condition.this), bare(condition.expression))
    return _node(pairing, times, _SIGNS[type(condition)], columns)


def _temporal(pairing: Pairing, as_of: AsOf) -> Node:
    """The version of the right that was valid at the time of the left row."""
    assert as_of.time is not None
    columns = tuple(name for side in pairing.sides for name in side.schema.names)
    left, right = pairing.sides
    _refuse_unless_time(as_of, left.schema.field(as_of.time.name))
    # A row that waits for its version, and is then retracted, would have to be found among those that wait.
    if not left.appends_only:
        what = "FOR SYSTEM_TIME AS OF the time of rows that may be retracted is"
        fix = "say input_changes='append' of the left, or write ASOF JOIN, which corrects what it has emitted"
        raise refusal(as_of.place, what, fix)
    versions = versions_of(right)
    if isinstance(versions, str):
        what = f"FOR SYSTEM_TIME AS OF for what has no versions ({versions}) is"
        fix = "join a table with a primary key, or the last rows by time of each key; or write ASOF JOIN"
        raise refusal(as_of.place, what, fix)
    time = time_of(versions)
    if not isinstance(time, str):
        what = "FOR SYSTEM_TIME AS OF for a table without a TIMESTAMP column"
        if time:
            what = f"FOR SYSTEM_TIME AS OF for a table with several TIMESTAMP columns ({', '.join(time)})"
        fix = "join a view that has only one, the time from which a version is valid"
        raise refusal(as_of.place, f"{what} is", fix)
    # The changes themselves: what the node made of them by bundles would hide versions (decision 039).
    pairing.sides[1] = versions.rows
    rest = [each for each in pairing.conditions if not pairing.pair(each)]
    extra = _only_key(pairing, as_of, right)
    times = _times(pairing, as_of, as_of.time, make_column(time))
    tested = pairing.build_pair_condition(rest)
    every = [*extra, *([] if tested is None else [f"({tested})"])]
    return _node(pairing, times, ">=", columns, " AND ".join(every) or None, waits=True)


def _node(
    pairing: Pairing,
    times: tuple[str, str],
    matches: Comparison,
    columns: tuple[str, ...],
    condition: str | None = None,
    *,
    waits: bool = False,
) -> Node:
    left, right = _keys_first(pairing)
    pairs, null_safe = tuple(pairing.pairs), tuple(pairing.null_safe)
    return AsOfJoin(
        *(left, right, pairing.kind, pairs, null_safe, columns, times, matches),
        waits=waits,
        condition=condition,
    )


def _keys_first(pairing: Pairing) -> list[Node]:
    """Both sides with the columns of the pairs before the others."""
    sides = []
    for place, side in enumerate(pairing.sides):
        keys = [pair[place] for pair in pairing.pairs]
        sides.append(pick_first(side, keys))
    return sides


def _times(
    pairing: Pairing, as_of: AsOf, left: exp.Expression, right: exp.Expression
) -> tuple[str, str]:
    """The columns of both sides that are compared, in one type."""
    if not pairing.pair(exp.EQ(this=left.copy(), expression=right.copy())):
        fix = "compare a column of the left with one of the right"
        raise refusal(as_of.place, "this inequality of an ASOF JOIN is", fix)
    # The pair is taken off again: `pair` put both sides into one type, which is wanted, and counted it as an equality
    # of keys, which it is not.
    pairing.null_safe.pop()
    return pairing.pairs.pop()


def _only_key(pairing: Pairing, as_of: AsOf, right: Node) -> list[str]:
    """Leave only the pairs of the right's key, by which versions are known; the others as conditions."""
    mine = {pair[1] for pair in pairing.pairs}
    candidates = [key for key in right.ordered_keys if set(key) <= mine]
    if not candidates:
        if right.ordered_keys:
            words = ", ".join(right.ordered_keys[0])
            fix = f"ON needs the equality of {words}, in the type that it has there"
            what = "FOR SYSTEM_TIME AS OF with a condition that lacks the right's primary key is"
            raise refusal(as_of.place, what, fix)
        fix = "declare it: keys={'r': ['id']}, or PRIMARY KEY (id) NOT ENFORCED"
        what = "FOR SYSTEM_TIME AS OF for a table without a primary key is"
        raise refusal(as_of.place, what, fix)
    # The shortest: the fewer columns, the more rows share a state, and the other equalities are tested on the pair.
    key = min(candidates, key=len)
    own, extra = [], []
    for pair, safe in zip(pairing.pairs, pairing.null_safe, strict=True):
        if pair[1] in key:
            own.append((pair, safe))
        else:
            extra.append(f"{quote_name(pair[0])} {'<=>' if safe else '='} {quote_name(pair[1])}")
    pairing.pairs[:] = [pair for pair, _ in own]
    pairing.null_safe[:] = [safe for _, safe in own]
    return extra


def _refuse_unless_time(as_of: AsOf, field: pa.Field) -> None:
    if not pa.types.is_timestamp(field.type):
        what = f"FOR SYSTEM_TIME AS OF a {type_name(field.type)} is"
        raise refusal(as_of.place, what, "name a TIMESTAMP column of the left")
