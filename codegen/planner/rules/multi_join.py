"""multi_join: a chain of INNER and LEFT joins on one key becomes one operator without intermediate results."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeGuard

import pyarrow as pa
from sqlglot import exp

from aggloom.codegen.operators import (
    Calc,
    Join,
    MultiJoin,
    Node,
    mark,
    pick,
    rename_columns,
    transform,
    walk,
)
from aggloom.codegen.operators.multi_join import Step
from aggloom.codegen.planner.notes import Notes
from aggloom.codegen.planner.options import PlanOptions
from aggloom.codegen.scalar.expressions import parse_scalar
from aggloom.codegen.scalar.spark_text import spark_text

_OPTION = "table.optimizer.multi-join.enabled"


def multi_join(root: Node, options: PlanOptions, notes: Notes) -> Node:
    """Make one operator of joins that follow one another on the same key, where that is worth it or asked for."""
    merged = transform(root, lambda node: _merge_joins(node, options, notes))
    for node in walk(merged):
        if isinstance(node, MultiJoin):
            inputs = f"{len(node.tables)} inputs share the key {', '.join(node.keys)}"
            why = f"{inputs}, and no joined row of fewer inputs is stored"
            notes.add("multi_join", node.subject, True, why)
    return merged


def _merge_joins(node: Node, options: PlanOptions, notes: Notes) -> Node:
    if not _keeps_rows(node):
        return node
    below, names = _below(node.left)
    if below is None:
        return node
    result: MultiJoin | str
    # One operator has the rows of its inputs and none in between, on which a filter could be tested.
    if names is None:
        result = "a filter, or a column that is computed, is between the joins"
    else:
        result = _chain(node, below, names)
    # First whether it can be one, then whether it should.
    if isinstance(result, MultiJoin):
        obstacle = _obstacle(result, options)
        if not obstacle:
            return result
        result = obstacle
    if result:
        notes.add("multi_join", node.subject, False, result)
    return node


def _keeps_rows(node: Node) -> TypeGuard[Join]:
    """Tell whether a node is a join that may be one of many: one that forgets rows has its own."""
    if not isinstance(node, Join) or not node.keeps_rows:
        return False
    return node.kind in ("inner", "left") and bool(node.pairs)


def _below(node: Node) -> tuple[MultiJoin | None, dict[str, str] | None]:
    """The joins whose rows a node picks columns of, and by column its name there; None: it does more than that."""
    names: dict[str, str] | None = {name: name for name in node.schema.names}
    while isinstance(node, Calc):
        picked = node.picked_columns
        # A step that computes something ends the chain, and is gone through only to see whether there was one.
        if picked is None:
            names = None
        elif names is not None:
            own = dict(zip(node.schema.names, picked, strict=True))
            names = {name: own[column] for name, column in names.items()}
        node = node.input
    if _keeps_rows(node):
        node = MultiJoin(
            node.inputs,
            len(node.pairs),
            kinds=(_step(node),),
            null_safe=(node.null_safe,),
            via=((),),
            conditions=(node.condition,),
            columns=node.columns,
            ttls=node.ttls,
        )
    return (node, names) if isinstance(node, MultiJoin) else (None, None)


def _chain(node: Join, below: MultiJoin, names: dict[str, str]) -> MultiJoin | str:
    """The joins below with the right of this one as a further input; or why they are none, empty if keys differ."""
    # Renaming goes both ways below, which needs one name for each column.
    if len(set(names.values())) < len(names):
        return "a column of the joined rows has two names"
    below = _rename_chain(
        below, {own: name for name, own in names.items()}, set(node.right.schema.names)
    )
    places = {
        name: (which, place)
        for which in range(len(below.tables))
        for place, name in enumerate(below.key_of(which))
    }
    positions = [places.get(left) for left, _ in node.pairs]
    order = {each[1]: number for number, each in enumerate(positions) if each is not None}
    # Joins on different keys are usual: nothing is noted about them.
    if len(order) < len(positions) or len(positions) != below.width:
        return ""
    via = sorted({each[0] for each in positions if each is not None} - set(below.present))
    null_safe = tuple(node.null_safe[order[place]] for place in range(below.width))
    # A join of two inputs would let padded rows match NULLs; a chain by key pads them.
    if via and any(null_safe):
        return "a padded row's key, which is NULL, equals NULL"
    # In the order of the first join's key: pairs may be written in another one.
    keys = [node.right_keys[order[place]] for place in range(below.width)]
    rest = [name for name in node.right.schema.names if name not in keys]
    return MultiJoin(
        # The key first, as in all inputs.
        (*below.tables, pick(node.right, [*keys, *rest])),
        below.width,
        kinds=(*below.kinds, _step(node)),
        null_safe=(*below.null_safe, null_safe),
        via=(*below.via, tuple(via)),
        conditions=(*below.conditions, node.condition),
        columns=node.columns,
        ttls=(*below.ttls, node.ttls[1]),
    )


def _step(node: Join) -> Step:
    return "inner" if node.kind == "inner" else "left"


def _rename_chain(chain: MultiJoin, names: dict[str, str], others: set[str]) -> MultiJoin:
    """A chain whose columns are called as above it, and those that are not read there as no other is."""
    called, used = {}, {*names.values(), *others}
    sign = mark(*(each.schema for each in chain.tables), pa.schema([(n, pa.int8()) for n in used]))
    for name in chain.every.names:
        called[name] = names.get(name, name)
        if name not in names and name in used:
            # Nobody above reads it: any name will do that no other column has.
            # `used` grows with each name, so that none of these comes twice.
            called[name] = f"{sign}hidden_{len(used)}"
        used.add(called[name])
    if all(name == new for name, new in called.items()):
        return chain
    tables = []
    for each in chain.tables:
        fields = [(called[field.name], field.type) for field in each.schema]
        tables.append(rename_columns(each, pa.schema(fields)))
    conditions = tuple(None if each is None else _over(each, called) for each in chain.conditions)
    columns = tuple(called[name] for name in chain.columns)
    return replace(chain, tables=tuple(tables), conditions=conditions, columns=columns)


def _over(condition: str, called: dict[str, str]) -> str:
    """A condition over columns with other names."""
    tree = parse_scalar(condition).copy()
    for column in list(tree.find_all(exp.Column)):
        column.set("this", exp.to_identifier(called[column.name], quoted=True))
    return str(spark_text(tree))


def _obstacle(node: MultiJoin, options: PlanOptions) -> str:
    """The reason why a chain of joins stays one; empty if it need not."""
    if options.multi_join_enabled == "FALSE":
        return f"{_OPTION} is false"
    lives = [options.state_ttl if ttl is None else ttl for ttl in node.ttls]
    # kinds has no entry for the first input: a chain begins with it.
    for which, kind in enumerate(node.kinds, 1):
        if kind == "left" and lives[which]:
            what = f"input {which + 1} of a LEFT JOIN forgets rows that are still in the result"
            return f"{what}, which only a join of two inputs counts"
    if options.multi_join_enabled == "TRUE":
        return ""
    if not options.mini_batch_enabled:
        return f"per record the changes are those of joins of two inputs, unless {_OPTION} is true"
    if not any(node.conditions):
        return ""
    several = [
        f"input {which + 1}"
        for which in range(len(node.tables))
        if node.input_spec(which) != "JoinKeyContainsUniqueKey"
    ]
    if len(several) > 1:
        many = f"{' and '.join(several)} may have several rows a key, and a condition drops some of their pairs"
        return f"{many}: a chain of joins stores which; with {_OPTION} true they are tested again each time"
    return ""
