"""Hints of a query block: Flink's STATE_TTL, after how long without a change a block forgets a key."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from aggloom.codegen.operators import AggregateNode, Node
from aggloom.codegen.planner.builders.lookup_hints import LOOKUP
from aggloom.codegen.scalar.spark_text import spark_text
from aggloom.codegen.spec.durations import milliseconds
from aggloom.codegen.sql.errors import place_error, refusal, span
from aggloom.errors import OptionError, nearest

_TTL = "STATE_TTL"
_OPTIONS = "OPTIONS"


def state_ttl(tree: exp.Select, names: set[str]) -> int | None:
    """The milliseconds that the hints of a block over one table say; None without any.

    names: under which the block reads its table.
    """
    # A block over one table can name only that.
    return next(reversed(ttls_of(tree, names).values()), None)


def ttls_of(tree: exp.Select, names: set[str]) -> dict[str, int]:
    """The milliseconds that the hints of a block say, by table in the order in which they are named.

    names: under which the block reads its tables. As in Flink the first hint wins, and a name that the block does not
    read is an error. So is a name that occurs twice, and any other hint: nothing here heeds it.
    """
    hint = tree.args.get("hint")
    ttls: dict[str, int] = {}
    for each in hint.expressions if hint is not None else ():
        place = span(each)
        name = each.name if isinstance(each, exp.Anonymous | exp.Var) else spark_text(each)
        # A hint of Flink about how a table is looked up, which changes no result.
        if name.upper() == LOOKUP and (tree.args.get("joins") or []):
            continue
        if name.upper() == _OPTIONS:
            fix = "write it behind the table's name: FROM t /*+ OPTIONS('key' = 'value') */"
            raise refusal(place, f"the hint {_OPTIONS} after SELECT is", fix)
        if name.upper() == LOOKUP:
            fix = "take it out, for it is about a join with FOR SYSTEM_TIME AS OF"
            raise refusal(place, f"the hint {name} of a SELECT without a join is", fix)
        if name.upper() != _TTL:
            known = nearest(name.upper(), [_TTL, LOOKUP])
            raise refusal(place, f"the hint {name} is", f"take it out. {known}".rstrip("."))
        pairs = _pairs(each, names)
        # The pairs of a later hint are checked, too, before they are thrown away.
        ttls = ttls or pairs
    return ttls


def _pairs(hint: exp.Expression, names: set[str]) -> dict[str, int]:
    place, ttls = span(hint), dict[str, int]()
    pairs = hint.expressions
    for pair in pairs:
        sides = (pair.this, pair.expression) if isinstance(pair, exp.EQ) else ()
        if len(sides) != 2 or not all(each.name for each in sides):
            message = f"{_TTL} needs names and durations: {_TTL}('t' = '1 d')."
            raise place_error(OptionError(message), place)
        table, duration = (each.name for each in sides)
        if table.casefold() not in {name.casefold() for name in names}:
            message = f"{_TTL} names {table!r}, which this query does not read. "
            raise place_error(OptionError(message + nearest(table, sorted(names))), place)
        try:
            ms = milliseconds(_TTL, duration)
        except OptionError as error:
            raise place_error(OptionError(str(error)), place) from None
        if ms < 0:
            message = f"{_TTL} is {duration!r}; it must be a duration that is not negative."
            raise place_error(OptionError(message), place)
        if table.casefold() in ttls:
            message = f"{_TTL} names {table!r} twice; name each table once."
            raise place_error(OptionError(message), place)
        ttls[table.casefold()] = ms
    if not pairs:
        message = f"{_TTL} says nothing; write {_TTL}('t' = '1 d')."
        raise place_error(OptionError(message), place)
    return ttls


def set_state_ttl(node: Node, source: Node, ttl: int) -> Node:
    """The plan of a block in which every aggregate above its source forgets keys after this time."""
    if node is source:
        return node
    if node.inputs:
        node = node.over(*(set_state_ttl(each, source, ttl) for each in node.inputs))
    return replace(node, state_ttl=ttl) if isinstance(node, AggregateNode) else node
