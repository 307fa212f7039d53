"""The planner: a script or a spec, tables and options to the plan that runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa

from aggloom.codegen.operators import Node, Scan, Stateful, WindowAggregate, walk
from aggloom.codegen.planner.exchanges import exchanges
from aggloom.codegen.planner.incremental import incremental
from aggloom.codegen.planner.logical import logical_plan, plan_of_spec
from aggloom.codegen.planner.monotonic_extremes import monotonic_extremes
from aggloom.codegen.planner.notes import Notes
from aggloom.codegen.planner.options import PlanOptions
from aggloom.codegen.planner.prune_calls import prune_calls
from aggloom.codegen.planner.rank_strategy import rank_strategy
from aggloom.codegen.planner.script import read_script
from aggloom.codegen.planner.split_distinct import split_distinct
from aggloom.codegen.planner.two_phase import two_phase
from aggloom.codegen.planner.window_checks import check_windows
from aggloom.codegen.planner.window_query import NAMES
from aggloom.codegen.planner.window_ranks import window_ranks
from aggloom.codegen.planner.window_spec import plan_of_windows
from aggloom.codegen.planner.windows import windows
from aggloom.codegen.spec.agg_spec import AggSpec, SchemaLike, to_schema
from aggloom.codegen.sql.depth import deep
from aggloom.codegen.sql.shape import refusal
from aggloom.codegen.windows import Assigner, Windowing
from aggloom.errors import OptionError, SpecError, nearest

Rule = Callable[[Node, PlanOptions, Notes], Node]

RULES: tuple[Rule, ...] = (
    windows,
    window_ranks,
    prune_calls,
    monotonic_extremes,
    split_distinct,
    # Once more, for what the split has made.
    monotonic_extremes,
    exchanges,
    two_phase,
    incremental,
    rank_strategy,
)


@dataclass(frozen=True)
class Plan:
    """A query as it runs: the physical plan, the logical one that it was made of, and what the rules say."""

    root: Node
    logical: Node
    options: PlanOptions
    notes: Notes
    dialect: str = "spark"

    @property
    def schema(self) -> pa.Schema:
        """The columns of the result."""
        return self.root.schema

    @cached_property
    def scans(self) -> dict[str, Scan]:
        """The tables that are read, by name."""
        return {node.table: node for node in walk(self.root) if isinstance(node, Scan)}

    def ttl_of(self, node: Node) -> int:
        """After how many milliseconds without a change an aggregate forgets a key; 0 is never."""
        own = getattr(node, "state_ttl", None)
        return self.options.state_ttl if own is None else int(own)

    @property
    def forgets(self) -> bool:
        """Whether any aggregate forgets keys."""
        return any(self.ttl_of(node) for node in walk(self.root) if isinstance(node, Stateful))

    @property
    def key(self) -> tuple[str, ...] | None:
        """Columns of the result of which no two rows have the same values."""
        return self.root.unique_key


def plan_query(
    sql: str,
    tables: Mapping[str, SchemaLike],
    *,
    input_changes: str | Mapping[str, str] = "retract",
    dialect: str = "spark",
    options: PlanOptions | None = None,
    explained: bool = False,
) -> Plan:
    """The plan of a script over tables, given as schemas by name.

    input_changes: append or retract, for all tables or by name. explained: it is to be shown, so EXPLAIN may say so.
    """
    chosen = options or PlanOptions()
    return deep(lambda: _plan_query(sql, tables, input_changes, dialect, chosen, explained))


def _plan_query(
    sql: str,
    tables: Mapping[str, SchemaLike],
    input_changes: str | Mapping[str, str],
    dialect: str,
    options: PlanOptions,
    explained: bool,
) -> Plan:
    script = read_script(sql)
    if script.explains is not None and not explained:
        fix = "give the text to al.explain or aggloom explain, or take EXPLAIN out"
        raise refusal(sql, script.explains, "EXPLAIN where the query is to run is", fix)
    chosen = options.updated(script.settings)
    scans = {
        name: Scan(name, to_schema(schema, dialect), _changes(name, input_changes, tables))  # type: ignore[arg-type]
        for name, schema in tables.items()
    }
    logical = logical_plan(script, scans, dialect, chosen)
    plan = _planned(logical, RULES, chosen, dialect)
    check_windows(plan.root, plan.notes, script.text)
    return plan


def plan_spec(
    spec: AggSpec, *, options: PlanOptions | None = None, inserts_only: bool = False
) -> Plan:
    """The plan of a single spec over the table t; `inserts_only`: its rows say nothing of changes."""
    changes = "append" if inserts_only else spec.input_changes
    logical = plan_of_spec(spec, Scan("t", spec.schema, changes))
    rules = tuple(rule for rule in RULES if rule is not prune_calls)
    chosen = options or PlanOptions()
    return _planned(logical, rules, chosen, spec.dialect)


def plan_windows(
    spec: AggSpec,
    windowing: Windowing,
    *,
    options: PlanOptions | None = None,
    inserts_only: bool = False,
    bounds_names: tuple[str, str, str] = NAMES,
    having: str | None = None,
    select: Mapping[str, str] | None = None,
) -> Plan:
    """The plan of a spec's calls in windows over the table t, whose rows hold the time that windows go by.

    columns out: the keys, the window's bounds, the calls; with `select` (of the spec, or given here, where it may name
    the bounds) what it says. having: as in the spec, over all these columns.
    """
    changes = "append" if inserts_only else spec.input_changes
    chosen = options or PlanOptions()
    notes = Notes()
    scan = Scan("t", spec.schema, changes)
    shown = select if select is None else tuple(select.items())
    logical = plan_of_windows(spec, windowing, scan, chosen, notes, bounds_names, having, shown)
    rules = tuple(rule for rule in RULES if rule is not prune_calls)
    return _planned(logical, rules, chosen, spec.dialect, notes)


def window_spec(spec: AggSpec, window: Assigner | Windowing) -> AggSpec:
    """The spec from which the handler of a spec's calls in windows is generated: `generate(window_spec(...))`."""
    windowing = window if isinstance(window, Windowing) else Windowing(window)
    plan = plan_windows(spec, windowing)
    return next(each.spec for each in walk(plan.root) if isinstance(each, WindowAggregate))


def _planned(
    logical: Node,
    rules: tuple[Rule, ...],
    options: PlanOptions,
    dialect: str,
    notes: Notes | None = None,
) -> Plan:
    notes, root = notes or Notes(), logical
    for rule in rules:
        root = rule(root, options, notes)
    if not options.update_before:
        root = root.without_before()
    return Plan(root, logical, options, notes, dialect)


def _changes(name: str, input_changes: str | Mapping[str, str], tables: Mapping[str, Any]) -> str:
    chosen = input_changes if isinstance(input_changes, str) else input_changes.get(name, "retract")
    if not isinstance(input_changes, str):
        for each in input_changes:
            if each not in tables:
                raise OptionError(
                    f"input_changes names table {each!r}, which is not given. {nearest(each, tables)}"
                )
    if chosen not in ("append", "retract"):
        raise SpecError(f"input_changes is {chosen!r}. {nearest(chosen, ('append', 'retract'))}")
    return chosen
