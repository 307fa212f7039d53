"""The plan of a query before its tables gained columns: the new columns are not read, and occur nowhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import replace

import pyarrow as pa

from aggloom.codegen.operators import Calc, Node, Scan, Stateful, Union, transform, walk
from aggloom.codegen.operators.calc import pick
from aggloom.codegen.planner.notes import Notes
from aggloom.codegen.planner.options import PlanOptions
from aggloom.codegen.planner.plan import RULES, Plan, apply_rules
from aggloom.codegen.planner.rules.prune_calls import keep_columns, prune_calls
from aggloom.codegen.scalar.expressions import column_name, columns_of
from aggloom.errors import StateMismatchError

Columns = Mapping[str, Set[str]]
"""Names of columns, by table."""


def narrow_plan(plan: Plan, names: Sequence[str], added: Columns) -> list[Plan]:
    """The plans that the query may have had before its tables gained columns, the likeliest first.

    names: the columns of the result that it had. added: the columns of each table that have come since. A column that
    something else than the rest of the result is made of is refused: StateMismatchError names what reads it.
    """
    # A step that picked columns then may have been needless, and so have been left out: both plans are compared.
    return [_narrow(plan, names, added, drops_picks) for drops_picks in (True, False)]


def refuse_edits(plan: Plan, former: Plan, added: Columns) -> None:
    """Raise StateMismatchError where a plan differs from its narrower one in more than columns that tables have gained.

    What is computed, or was there before, has a value in the rows from before, too: NULL would be wrong.
    """
    # Pairs and not names: an expression that has changed under its name has other values, too.
    known = {pair for node in walk(former.root) if isinstance(node, Calc) for pair in node.select}
    edits = [
        name
        for node in walk(plan.root)
        if isinstance(node, Calc)
        for name, sql in node.select
        if (name, sql) not in known and column_name(sql) is None
    ]
    now, before = _read_tables(plan.root), _read_tables(former.root)
    for table, names in now.items():
        edits += sorted(names - before.get(table, set()) - added.get(table, set()))
    if edits:
        raise StateMismatchError(
            f"the query has columns more than the one that wrote the checkpoint, {', '.join(map(repr, edits))}, beside "
            "those that its tables have gained: rows from before would lack their values. Take them out, or start over "
            "with an empty checkpoint directory."
        )


def _read_tables(root: Node) -> dict[str, set[str]]:
    """The columns that are read of each table."""
    read: dict[str, set[str]] = {}
    for node in walk(root):
        for below in node.inputs:
            if isinstance(below, Scan):
                read.setdefault(below.table, set()).update(_read_columns(node, below))
    return read


def _narrow(plan: Plan, names: Sequence[str], added: Columns, drops_picks: bool) -> Plan:
    """The plan that reads the tables as they were. drops_picks: nothing was picked of a table that was read whole."""

    def prune(root: Node, options: PlanOptions, notes: Notes) -> Node:
        # The result has its former columns in their former order: their places count in a checkpoint.
        pruned = pick(keep_columns(root, list(names), notes), list(names))
        # Once more: what a union or a set picks by place has been pruned from above only.
        _refuse_read(pruned, added)
        return transform(pruned, lambda node: _drop(node, added, drops_picks))

    # The rules are run anew over the narrower plan, as they were when the checkpoint was written: they may decide
    # otherwise.
    rules = tuple(prune if rule is prune_calls else rule for rule in RULES)
    narrowed = apply_rules(plan.logical, rules, plan.options, plan.dialect)
    return replace(narrowed, order=plan.order)


def _drop(node: Node, added: Columns, drops_picks: bool) -> Node:
    """A table without its new columns; a step that picks all others goes with them."""
    if isinstance(node, Scan) and added.get(node.table):
        gone = added[node.table]
        columns = pa.schema([field for field in node.columns if field.name not in gone])
        digits = tuple(pair for pair in node.digits if pair[0] not in gone)
        return replace(node, columns=columns, digits=digits)
    is_pick = isinstance(node, Calc) and isinstance(node.input, Scan) and drops_picks
    if is_pick and isinstance(node, Calc) and added.get(node.input.table):  # type: ignore[attr-defined]
        names = tuple(node.schema.names)
        # Without the new columns it picks all there are, in their order, which is no step.
        if node.picked_columns == names == tuple(node.input.schema.names):
            return node.input
    return node


def _refuse_read(root: Node, added: Columns) -> None:
    """Raise StateMismatchError for a new column that is read by what the rest of the result is made of."""
    for node in walk(root):
        scans = [each for each in node.inputs if isinstance(each, Scan) and added.get(each.table)]
        for scan in scans:
            read = sorted(_read_columns(node, scan) & added[scan.table])
            if read:
                raise StateMismatchError(
                    f"column {', '.join(map(repr, read))} of table {scan.table} cannot be only carried: "
                    f"{_reader(root, node, read)} goes by it, so that rows from before, which have no value there, "
                    "would be other rows. Name the columns that the query is to have in the place of *, without it, or "
                    "start over with an empty checkpoint directory."
                )


def _read_columns(node: Node, scan: Scan) -> set[str]:
    """The columns of a table that the step over it reads."""
    if not isinstance(node, Calc):
        return set(scan.schema.names)
    texts = [*(sql for _, sql in node.select), *([node.where] if node.where else [])]
    return {name for sql in texts for name in columns_of(sql)}


def _reader(root: Node, above: Node, names: Sequence[str]) -> str:
    """The words for the operator nearest to a table that has one of these columns come to it."""
    nodes = walk(root)
    # Inputs precede what reads them.
    for node in nodes[nodes.index(above) :]:
        reads = any(set(names) & set(below.schema.names) for below in node.inputs)
        if reads and not isinstance(node, Calc | Union):
            title, lists = node.title
            details = next(
                (
                    f"({what}=[{', '.join(texts)}])"
                    for what, texts in lists.items()
                    if set(names) & set(texts)
                ),
                "",
            )
            return node.name if isinstance(node, Stateful) else title + details
    return "an expression"
