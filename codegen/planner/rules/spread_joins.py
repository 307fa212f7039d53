"""spread_joins: rows of a hot join key are spread over hash buckets, where an aggregate stands above the join.

The side with many rows of a key gets a hash of the row as one more column of the key; each row of the other side is
copied to every bucket. Equal rows have the same bucket, so that a row is retracted where it was added. The pairs are
those of the original join, but their changes arrive in another order, on which only an aggregate does not depend.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from aggloom.codegen.operators import (
    AggregateNode,
    Bucket,
    Calc,
    Column,
    Constant,
    Expand,
    Item,
    Join,
    Node,
    Union,
    mark,
    transform,
)
from aggloom.codegen.operators.base import Key
from aggloom.codegen.planner.notes import Notes
from aggloom.codegen.planner.options import PlanOptions
from aggloom.codegen.spec.agg_spec import AggSpec
from aggloom.type_layout import is_nested


def spread_joins(root: Node, options: PlanOptions, notes: Notes) -> Node:
    """Spread the rows of each key of the inner joins below aggregates over as many buckets as the option says."""
    if options.join_spread_buckets == 1:
        return root

    def change(node: Node) -> Node:
        if not isinstance(node, AggregateNode):
            return node
        # Only right below an aggregate: to any other reader the changes of a row would come in the wrong order.
        below = _spread_below(node.input, node.spec, options, notes)
        return node if below is node.input else node.over(below)

    return transform(root, change)


def _spread_below(node: Node, spec: AggSpec, options: PlanOptions, notes: Notes) -> Node:
    """The rows of an aggregate with joins spread, as far down as each row is looked at by itself."""
    if isinstance(node, Join):
        return _spread(node, spec, options, notes)
    # These treat each row by itself, so that the order of changes passes through them.
    if not isinstance(node, Calc | Expand | Union):
        return node
    inputs = [_spread_below(each, spec, options, notes) for each in node.inputs]
    changed = any(a is not b for a, b in zip(inputs, node.inputs, strict=True))
    return node.over(*inputs) if changed else node


def _spread(join: Join, spec: AggSpec, options: PlanOptions, notes: Notes) -> Join:
    sides = ((join.left, join.keys), (join.right, join.right_keys))
    # Rows are many on the side whose unique keys say so; where neither says it, on the left.
    hot = int(_has_one_row(*sides[0]))
    hashed = _hashed_columns(*sides[hot])
    obstacle = _obstacle(join, spec, options, hashed)
    if obstacle:
        notes.add("spread_joins", join.subject, False, obstacle)
        return join
    buckets, prefix = options.join_spread_buckets, mark(join.both)
    copies: list[Item] = [Constant(bucket) for bucket in range(buckets)]
    # The columns of both sides are in one row: they need two names.
    names = (f"{prefix}l", f"{prefix}r")
    left, right = (
        _with_bucket(*side, name, [Bucket(hashed, buckets)] if place == hot else copies)
        for place, (side, name) in enumerate(zip(sides, names, strict=True))
    )
    spread = replace(
        join,
        left=left,
        right=right,
        # The bucket comes last: `is_spread` says that the last pair is one.
        pairs=(*join.pairs, names),
        null_safe=(*join.null_safe, False),
        is_spread=True,
    )
    notes.move(join.subject, spread.subject)
    side, other = ("right", "left") if hot else ("left", "right")
    why = f"the {side}'s rows of a key are spread over {buckets} buckets of ({', '.join(hashed)})"
    notes.add("spread_joins", spread.subject, True, f"{why}, the {other}'s copied to each")
    return spread


def _obstacle(join: Join, spec: AggSpec, options: PlanOptions, hashed: Key) -> str:
    """The reason why the rows of a join stay where they are; empty: there is none."""
    ordered = [call.text for call in spec.calls if spec.entry(call).by_arrival]
    if join.kind != "inner":
        return (
            f"a row of a {join.kind} join that matches nothing would be there once for each bucket"
        )
    if not join.keeps_rows:
        return "it forgets rows"
    if options.state_ttl or any(join.ttls):
        return "with a state TTL copies would be forgotten at other times"
    if ordered:
        return f"{ordered[0]} depends on the order of the rows"
    # The bucket follows from the row's values: the old row is only found by its own.
    if any("UA" in each.changelog and "UB" not in each.changelog for each in join.inputs):
        return "an update lacks the row that it replaces, which may be in another bucket"
    if not hashed:
        return "the rows of a key have nothing by which they could be spread"
    return ""


def _has_one_row(rows: Node, keys: Key) -> bool:
    """Tell whether there is at most one row of each join key."""
    return any(set(unique) <= set(keys) for unique in rows.unique_keys)


def _hashed_columns(rows: Node, keys: Key) -> Key:
    """The columns by whose hash the rows of a join key are spread; none where a key has one row."""
    if _has_one_row(rows, keys):
        return ()
    # By a unique key the versions of a row stay together.
    names = min(rows.unique_keys, key=len, default=tuple(rows.schema.names))
    # The join's key is the same in all of the rows, and a nested value has no hash.
    return tuple(n for n in names if n not in keys and not is_nested(rows.schema.field(n).type))


def _with_bucket(rows: Node, keys: Key, name: str, buckets: Sequence[Item]) -> Expand:
    """Rows with their bucket as a further column behind the join key, once for each of several items."""
    rest = [each for each in rows.schema.names if each not in keys]
    fields = [rows.schema.field(each) for each in (*keys, *rest)]
    fields.insert(len(keys), pa.field(name, pa.int32()))
    projects = tuple((*map(Column, keys), bucket, *map(Column, rest)) for bucket in buckets)
    return Expand(rows, projects, pa.schema(fields))
