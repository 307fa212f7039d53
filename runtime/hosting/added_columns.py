"""Columns that tables have gained since a checkpoint was begun: what a query that continues from it does with them.

The query of before is planned anew, over the tables as they were. If that is what the checkpoint belongs to, the query
differs from it in nothing but columns that are carried along, and its state is that of the other with NULL in them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from aggloom.codegen import type_name
from aggloom.codegen.planner import Plan, above, narrow_plan, refuse_edits
from aggloom.errors import StateMismatchError
from aggloom.runtime.hosting.checkpoint_paths import batches, local
from aggloom.runtime.hosting.evolution import compare_operators
from aggloom.runtime.hosting.factory import FragmentFactory
from aggloom.runtime.hosting.query_record import Query, next_batch, read_queries
from aggloom.runtime.operators.comparison import LINE

Factories = Mapping[int, FragmentFactory]
"""The factories of a plan's stateful nodes, by place."""
DescribePlan = Callable[[Plan], Factories]
"""The function by which an engine makes the factories of a plan."""


def describe_query(plan: Plan, factories: Factories, zone: str) -> Query:
    """The facts that a checkpoint is to know of a plan."""
    operators = tuple(json.loads(factories[place].description) for place in sorted(factories))
    tables = {name: list(scan.schema.names) for name, scan in plan.scans.items()}
    return Query(operators, above(plan.root), zone, tables, tuple(plan.schema.names))


@dataclass(frozen=True)
class AddedColumns:
    """The columns of a result that its tables have gained, and the query as it was before them.

    former, factories: the plan and the stateful nodes of before. columns: those that the result has gained. lines: what
    changes, a line each. is_begun: whether a batch was begun without them and not committed.
    """

    former: Plan
    factories: Factories
    columns: tuple[pa.Field, ...]
    lines: tuple[str, ...]
    is_begun: bool = False

    @property
    def names(self) -> frozenset[str]:
        """The names of the columns that the result has gained."""
        return frozenset(field.name for field in self.columns)

    @property
    def title(self) -> str:
        """The columns in words."""
        words = (f"{field.name} {type_name(field.type)}" for field in self.columns)
        return ", ".join(words)

    def carry_over(self, place: int, factory: FragmentFactory) -> FragmentFactory:
        """The factory of a stateful node that takes over the rows of before."""
        former = self.factories[place]
        same = former.description == factory.description
        return factory if same else replace(factory, former=former)


class ResumedPlan(NamedTuple):
    """The plan that a query continues with; added: the columns that it carries and the checkpoint does not know."""

    plan: Plan
    added: AddedColumns | None = None


def read_begun_query(checkpoint: str | Path, plans: str) -> Query | None:
    """Return the query that has begun a batch and not committed it; None if there is no such batch.

    plans: the directory of the checkpoint that has the numbers of batches that were begun. A query is noted before it
    begins a batch, and one with more columns than another only where no batch of the other is left.
    """
    if max(batches(local(checkpoint) / plans), default=-1) < next_batch(checkpoint):
        return None
    return next(iter(read_queries(checkpoint)[::-1]), None)


def resolve_added_columns(
    old: Query | None, plan: Plan, zone: str, describe: DescribePlan, begun: Query | None = None
) -> ResumedPlan:
    """Return the plan with which a query continues from a checkpoint, as its option added_columns says.

    old: the query that the checkpoint belongs to. begun: that which has begun a batch and not committed it. Raises
    StateMismatchError where its tables have gained columns that are refused, or that cannot be only carried; what else
    differs is not looked at.
    """
    new_columns = {} if old is None else _find_new_columns(old, plan)
    if old is None or not new_columns:
        return ResumedPlan(plan)
    factories = describe(plan)
    if _is_known(old, describe_query(plan, factories, zone), factories, plan):
        return ResumedPlan(plan)
    if not old.columns or not set(old.columns) < set(plan.schema.names):
        return ResumedPlan(plan)
    names = [name for name in plan.schema.names if name in old.columns]
    for former in narrow_plan(plan, names, new_columns):
        before = describe(former)
        if _is_known(old, describe_query(former, before, zone), before, former):
            if plan.options.added_columns == "ignore":
                _check_begun(begun, old.columns)
                return ResumedPlan(former)
            _check_begun(begun, old.columns, tuple(plan.schema.names))
            refuse_edits(plan, former, new_columns)
            columns = tuple(each for each in plan.schema if each.name not in names)
            lines = _list_changes(before, factories, plan)
            is_begun = begun is not None and begun.columns == old.columns
            added = AddedColumns(former, before, columns, lines, is_begun)
            return ResumedPlan(plan, _check_choice(plan, added))
    return ResumedPlan(plan)


def _check_begun(begun: Query | None, *known: tuple[str, ...]) -> None:
    """Raise StateMismatchError where a batch was begun with other columns of the result than these."""
    if begun is not None and begun.columns not in known:
        raise StateMismatchError(
            f"a batch was begun with the columns {', '.join(begun.columns)} and not committed, and its sink may have "
            "it. Let it end: start once with added_columns='carry', over tables with the columns that they had then."
        )


def _check_choice(plan: Plan, added: AddedColumns) -> AddedColumns:
    """Return columns that can be carried; raises StateMismatchError unless the option says that they are to be."""
    if plan.options.added_columns == "carry":
        return added
    raise StateMismatchError(
        f"the result has columns more than the checkpoint knows, which its tables have gained: {added.title}. Pass "
        "added_columns='carry' to have them from now on, NULL in the rows from before, or added_columns='ignore' to go "
        "on without them." + "".join(LINE + line for line in added.lines)
    )


def _find_new_columns(old: Query, plan: Plan) -> dict[str, set[str]]:
    """The columns that tables have now, and had not; only of tables that the checkpoint knows."""
    new_columns = {
        name: set(scan.schema.names) - set(old.tables[name])
        for name, scan in plan.scans.items()
        if name in old.tables
    }
    return {name: columns for name, columns in new_columns.items() if columns}


def _is_known(old: Query, new: Query, factories: Factories, plan: Plan) -> bool:
    """Tell whether a query may continue from the checkpoint of another as it is."""
    listed = [factories[place] for place in sorted(factories)]
    try:
        compare_operators(old, new, listed, plan.options.added_calls, warns=False)
    except StateMismatchError:
        return False
    return True


def _list_changes(before: Factories, after: Factories, plan: Plan) -> tuple[str, ...]:
    """List the changes, a line each; raises StateMismatchError for an operator whose rows cannot have columns more."""
    if sorted(before) != sorted(after):
        raise _refuse(
            "the query", "has other stateful nodes with the new columns than without them"
        )
    lines = []
    for place in sorted(before):
        was, now = (json.loads(each[place].description) for each in (before, after))
        if len(was["parts"]) != len(now["parts"]):
            raise _refuse(now["operator"], "has other operators with the new columns")
        pairs = zip(was["parts"], now["parts"], after[place].fragment.specs, strict=True)
        for old, new, spec in pairs:
            if old["settings"] == new["settings"] and old["spec"] == new["spec"]:
                continue
            if not spec.carries:
                raise _refuse(new["operator"], "keeps them in a form that takes no further column")
            if not _same_but_columns(old, new):
                raise _refuse(new["operator"], "works in another way with them")
            lines.append(f"{new['operator']}: its rows get them; NULL in those that it has")
    retracting = [name for name, scan in plan.scans.items() if scan.changes == "retract"]
    lines.append("the result and its sink get them; NULL in the rows from before")
    if retracting:
        lines.append(
            f"a change of {', '.join(retracting)} that retracts a row from before must have NULL in them, too"
        )
    return tuple(lines)


def _same_but_columns(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """Tell whether two operators have the same keys, and settings that differ in columns and their numbers alone."""
    plain = [
        {n: v for n, v in each["settings"].items() if isinstance(v, str | bool)}
        for each in (old, new)
    ]
    # The schema of a spec is that of the rows.
    specs = [{n: v for n, v in each["spec"].items() if n != "schema"} for each in (old, new)]
    fixed = [
        (each["kind"], each["keys"], each["spread"], spec, each["settings"].get("results"))
        for each, spec in zip((old, new), specs, strict=True)
    ]
    return plain[0] == plain[1] and fixed[0] == fixed[1]


def _refuse(operator: str, why: str) -> StateMismatchError:
    return StateMismatchError(
        f"the columns that tables have gained cannot be carried: {operator} {why}. Pass added_columns='ignore' to go "
        "on without them, or start over with an empty checkpoint directory."
    )


def list_gained_columns(added: AddedColumns | None) -> Sequence[str]:
    """Return the lines of a log that say what is carried from now on."""
    return () if added is None else (f"columns are added: {added.title}", *added.lines)
