"""The planner: a script or a spec, tables and options to the plan that runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import import_module
from typing import Literal

import pyarrow as pa

from aggloom.codegen.operators import (
    ONE_ROW,
    Calc,
    Node,
    Scan,
    Stateful,
    WindowAggregate,
    deduplicated_table,
    walk,
)
from aggloom.codegen.planner.builders.insert import plan_insertion
from aggloom.codegen.planner.builders.logical import logical_plan
from aggloom.codegen.planner.builders.lookup_join import as_dimensions
from aggloom.codegen.planner.builders.spec_plan import plan_of_spec
from aggloom.codegen.planner.builders.window_query import NAMES
from aggloom.codegen.planner.builders.window_spec import plan_of_windows
from aggloom.codegen.planner.notes import Notes
from aggloom.codegen.planner.options import PlanOptions
from aggloom.codegen.planner.rules.clock_columns import clock_columns
from aggloom.codegen.planner.rules.exchanges import exchanges
from aggloom.codegen.planner.rules.fragments import fragments
from aggloom.codegen.planner.rules.horizons import horizons
from aggloom.codegen.planner.rules.incremental import incremental
from aggloom.codegen.planner.rules.join_state import join_state
from aggloom.codegen.planner.rules.lift_projections import lift_projections
from aggloom.codegen.planner.rules.logged_changes import logged_changes
from aggloom.codegen.planner.rules.monotonic_extremes import monotonic_extremes
from aggloom.codegen.planner.rules.multi_join import multi_join
from aggloom.codegen.planner.rules.normalise import normalise
from aggloom.codegen.planner.rules.own_calls import check_own_calls
from aggloom.codegen.planner.rules.prune_calls import prune_calls
from aggloom.codegen.planner.rules.rank_strategy import rank_strategy
from aggloom.codegen.planner.rules.reuse import reuse
from aggloom.codegen.planner.rules.session_rows import session_rows
from aggloom.codegen.planner.rules.split_distinct import split_distinct
from aggloom.codegen.planner.rules.spread_joins import spread_joins
from aggloom.codegen.planner.rules.stored_columns import check_stored_columns
from aggloom.codegen.planner.rules.two_phase import two_phase
from aggloom.codegen.planner.rules.window_checks import check_windows
from aggloom.codegen.planner.rules.window_ranks import window_ranks
from aggloom.codegen.planner.rules.windows import windows
from aggloom.codegen.planner.scripts.script import read_script
from aggloom.codegen.planner.tables import Keys, Times, created_nodes, table_nodes
from aggloom.codegen.scalar.expressions import quote_name
from aggloom.codegen.spec.agg_spec import AggSpec, SchemaLike
from aggloom.codegen.spec.choices import DIALECTS
from aggloom.codegen.spec.lookup_table import LookupTable, check_lookups
from aggloom.codegen.sql.argument_names import names_of
from aggloom.codegen.sql.depth import deep
from aggloom.codegen.sql.errors import refusal, underline_errors
from aggloom.codegen.sql.result_order import UNORDERED, ResultOrder, split_order
from aggloom.codegen.windows import Assigner, Windowing
from aggloom.display import html_plan
from aggloom.errors import SpecError, nearest

Rule = Callable[[Node, PlanOptions, Notes], Node]

RULES: tuple[Rule, ...] = (
    # Filters go into Normalise before anything else moves them.
    normalise,
    horizons,
    windows,
    window_ranks,
    # After the windows, whose bounds an aggregate reads; before the split, which would copy calls that nobody reads.
    prune_calls,
    session_rows,
    monotonic_extremes,
    split_distinct,
    # Once more, for what the split has made.
    monotonic_extremes,
    clock_columns,
    # After columns that nobody reads are gone: those that are left say which side is wider.
    lift_projections,
    # While aggregates still stand right above their joins, without an exchange between.
    spread_joins,
    multi_join,
    logged_changes,
    # From here on the plan is physical.
    exchanges,
    fragments,
    reuse,
    # After fragments: where an exchange is gone there is nothing to aggregate before.
    two_phase,
    # Joins two halves that the rule before it has made.
    incremental,
    rank_strategy,
    join_state,
)


@dataclass(frozen=True)
class Plan:
    """A query as it runs: the physical plan, the logical one that it was made of, and what the rules say.

    order: how its rows are sorted before they are shown, where plan_query was asked for it.
    """

    root: Node
    logical: Node
    options: PlanOptions
    notes: Notes
    dialect: str = "spark"
    order: ResultOrder = UNORDERED

    @property
    def schema(self) -> pa.Schema:
        """The columns of the result."""
        return self.root.schema

    def _repr_html_(self) -> str:
        # The picture is drawn from plans.
        picture = import_module("aggloom.codegen.planner.picture")
        return html_plan(picture.as_svg(self))

    @cached_property
    def scans(self) -> dict[str, Scan]:
        """The tables that are read, by name, as they are stored."""
        nodes = (node for node in walk(self.root) if isinstance(node, Scan))
        return {node.table: node.without_clock for node in nodes if node.table != ONE_ROW}

    @property
    def reads_clock(self) -> bool:
        """True if rows get the time at which they are read."""
        return any(isinstance(node, Scan) and node.clock for node in walk(self.root))

    @property
    def says_rows(self) -> bool:
        """True if the query itself says rows, so that the table ONE_ROW is read."""
        return any(isinstance(node, Scan) and node.table == ONE_ROW for node in walk(self.root))

    def ttl_of(self, node: Node) -> int:
        """The milliseconds without a change after which an aggregate forgets a key; 0 is never."""
        own = getattr(node, "state_ttl", None)
        return self.options.state_ttl if own is None else int(own)

    @property
    def forgets(self) -> bool:
        """True if any aggregate forgets keys."""
        return any(self.ttl_of(node) for node in walk(self.root) if isinstance(node, Stateful))

    @property
    def awaits_watermark(self) -> bool:
        """True if any operator waits for the watermark."""
        return any(node.awaits_watermark for node in walk(self.root))

    @property
    def follows_batches(self) -> bool:
        """True if the result depends on which rows come in one batch."""
        return any(node.follows_batches for node in walk(self.root))

    @property
    def shows_last_watermark(self) -> bool:
        """True if the rows of an operator are the state at the last watermark."""
        return any(node.shows_last_watermark for node in walk(self.root))

    @property
    def goes_by_the_clock(self) -> bool:
        """True if rows enter or leave the result by the clock alone, so that batches without input may emit changes."""
        nodes = (node for node in walk(self.root) if isinstance(node, Stateful))
        return any(node.wakes_by(0) == "the clock" for node in nodes)

    @property
    def has_old_rows(self) -> bool:
        """True if the changes contain each row of the result that is replaced."""
        return "UA" not in self.root.changelog or "UB" in self.root.changelog

    def is_ordered(self, columns: Sequence[str]) -> bool:
        """Tell whether a row of the result comes after the one of the same values in these columns that it replaces."""
        keys = self.root.unique_keys
        return not keys or any(set(key) <= set(columns) for key in self.root.ordered_keys)

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
    keys: Keys | None = None,
    watermarks: Times | None = None,
    explained: bool = False,
    lookups: Mapping[str, LookupTable] | None = None,
    ordered: bool = False,
) -> Plan:
    """Return the plan of a script over tables, given as schemas by name.

    input_changes: append, retract or upsert, for all tables or by name. keys: their primary keys by name, unless DDL
    declares them (PRIMARY KEY (..) NOT ENFORCED). watermarks: the event-time columns of the tables, by name.
    explained: the plan is only shown, so EXPLAIN is allowed. lookups: tables for lookup joins, by name. ordered: the
    result is shown in the order of the query's ORDER BY; otherwise ORDER BY without LIMIT is refused.
    """
    if dialect not in DIALECTS:
        raise SpecError(f"dialect is {dialect!r}. {nearest(str(dialect), DIALECTS)}")
    chosen = options or PlanOptions()
    lookup_tables = check_lookups(lookups)
    with underline_errors(sql):
        return deep(
            lambda: _plan_query(
                sql,
                tables,
                input_changes=input_changes,
                keys=keys,
                watermarks=watermarks,
                dialect=dialect,
                options=chosen,
                explained=explained,
                lookups=lookup_tables,
                ordered=ordered,
            )
        )


def _plan_query(
    sql: str,
    tables: Mapping[str, SchemaLike],
    input_changes: str | Mapping[str, str],
    keys: Keys | None,
    watermarks: Times | None,
    dialect: str,
    options: PlanOptions,
    explained: bool,
    lookups: Mapping[str, LookupTable],
    ordered: bool,
) -> Plan:
    script = read_script(sql, dialect)
    if script.explains is not None and not explained:
        fix = "give the text to al.explain or aggloom explain, or take EXPLAIN out"
        raise refusal(script.explains, "EXPLAIN where the query is to run is", fix)
    chosen = options.with_options(script.settings)
    scans = created_nodes(script, tables, input_changes, keys, watermarks, dialect)
    scans |= as_dimensions({**lookups, **script.lookups}, scans)
    notes, order = Notes(), UNORDERED
    # An INSERT writes rows, which have no order.
    if ordered and script.target is None:
        script.query, order = split_order(script.query)
    logical = logical_plan(script, scans, dialect, chosen, notes)
    check_own_calls(logical)
    if script.target is not None:
        logical = plan_insertion(script, script.target, logical, dialect)
    # The target's columns are cast before the rules run, so that pruning knows what is written.
    plan = apply_rules(logical, RULES, chosen, dialect, notes)
    check_windows(plan.root, plan.notes)
    check_stored_columns(plan.root)
    return replace(plan, order=order.resolve(plan.schema))


def plan_spec(
    spec: AggSpec, *, options: PlanOptions | None = None, inserts_only: bool = False
) -> Plan:
    """The plan of a single spec over the table t; `inserts_only`: its rows say nothing of changes."""
    changes = "append" if inserts_only else spec.input_changes
    logical = plan_of_spec(spec, Scan("t", spec.schema, changes))
    # The result of a spec is all of its calls: nothing is pruned.
    rules = tuple(rule for rule in RULES if rule is not prune_calls)
    chosen = options or PlanOptions()
    return apply_rules(logical, rules, chosen, spec.dialect)


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
    items = select if select is None else tuple(select.items())
    logical = plan_of_windows(
        spec,
        windowing,
        scan=scan,
        options=chosen,
        notes=notes,
        names=bounds_names,
        having=having,
        select=items,
    )
    rules = tuple(rule for rule in RULES if rule is not prune_calls)
    return apply_rules(logical, rules, chosen, spec.dialect, notes)


def plan_deduplicate(
    rows: SchemaLike,
    keys: Sequence[str],
    *,
    keep: Literal["first", "last"] = "last",
    order_by: str | None = None,
    window_end: str | None = None,
    options: PlanOptions | None = None,
    input_changes: str = "append",
    select: Mapping[str, str] | None = None,
) -> Plan:
    """The plan of the first or last row of each key of the table t, by arrival or by the column order_by.

    window_end: the key column at which a row's window ends, for which the row then waits.
    select: the columns of the result and those that they show; all by default. Raises SpecError.
    """
    keys = names_of("keys", keys)
    chosen = options or PlanOptions()
    # Upserts go by the key of which one row is kept.
    own = {"t": keys} if input_changes == "upsert" else None
    table = table_nodes({"t": rows}, input_changes, own, "spark")
    logical = deduplicated_table(table["t"], tuple(keys), keep, order_by, window_end)
    if select is not None:
        columns = [(name, logical.schema.field(of).type) for name, of in select.items()]
        items = tuple((name, quote_name(of)) for name, of in select.items())
        logical = Calc(logical, items, pa.schema(columns))
    return apply_rules(logical, RULES, chosen, "spark")


def window_spec(spec: AggSpec, window: Assigner | Windowing) -> AggSpec:
    """The spec from which the handler of a spec's calls in windows is generated.

    spec: the calls and keys. window: an assigner or a whole Windowing. Raises SpecError.

    Example:
        >>> import aggloom as al
        >>> spec = al.AggSpec.from_sql("SELECT SUM(n) AS s FROM t", "n INT, ts TIMESTAMP")
        >>> windowed = al.window_spec(spec, al.Tumble("1 hour", on="ts"))
        >>> windowed.namespace, al.generate(windowed, backend="python").backend
        (True, 'python')
    """
    if not isinstance(spec, AggSpec):
        raise SpecError(f"window_spec: the spec is a {type(spec).__name__}; give an AggSpec.")
    windowing = window if isinstance(window, Windowing) else Windowing(window)
    plan = plan_windows(spec, windowing)
    return next(each.spec for each in walk(plan.root) if isinstance(each, WindowAggregate))


def apply_rules(
    logical: Node,
    rules: tuple[Rule, ...],
    options: PlanOptions,
    dialect: str,
    notes: Notes | None = None,
) -> Plan:
    """The plan of a logical one, after these rules in their order."""
    notes, root = notes or Notes(), logical
    for rule in rules:
        root = rule(root, options, notes)
    if not options.update_before:
        root = root.without_before()
    return Plan(root, logical, options, notes, dialect)
