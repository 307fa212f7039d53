"""An estimate of what a query will remember: its operators run over a sample of its rows, without Spark.

Windows stay open and no key is forgotten, so that with windows or a TTL the sample stands for the rows of as much time
as is remembered at once.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from aggloom.codegen import AggSpec, Backend, Dialect
from aggloom.codegen.planner import (
    Node,
    Plan,
    PlanOptions,
    Scan,
    Stateful,
    describe,
    plan_query,
    plan_spec,
    plan_windows,
)
from aggloom.codegen.windows import Assigner, Windowing
from aggloom.errors import SpecError, UnknownTableError, nearest
from aggloom.runtime.local.pipeline import Pipeline, handlers
from aggloom.runtime.operators.steps import Rows
from aggloom.runtime.sizing.growth import Grown
from aggloom.runtime.sizing.report import Estimate, OperatorEstimate
from aggloom.runtime.sizing.samples import changes_of, name_samples, rows_of, schema_of
from aggloom.runtime.sizing.state_counts import count_rows

_BUNDLE = 1 << 17


def estimate(
    query: AggSpec | str,
    sample: Any,
    *,
    rows: int | Mapping[str, int] | None = None,
    keys: int | Mapping[int, int] | None = None,
    buckets: int | None = None,
    tables: Mapping[str, Any] | None = None,
    input_changes: str | Mapping[str, str] | None = None,
    dialect: Dialect = "spark",
    backend: Backend = "numba",
    window: Assigner | Windowing | None = None,
    options: PlanOptions | Mapping[str, Any] | None = None,
    session: Any = None,
    **keywords: Any,
) -> Estimate:
    """Estimate the memory and the checkpoints of the operators of a spec, or of SQL over tables.

    query: an AggSpec, or SQL. sample: rows as an Arrow table or batch, a pandas or Spark DataFrame, or by table name;
    a column `_change_type` or `op` makes them changes. rows: how many the whole input has, in all or by table
    (default: the sample is all of it). keys: how many keys there will be, of the only operator or by the number that
    explain gives it, where you know. tables: schemas of the tables (default: those of the samples). buckets: as in
    group_aggregate, by default as many as on a session of this machine. session: as of the harness. input_changes,
    dialect, backend, window, options, keywords: as in `explain`. Raises SpecError and DataError for what does not fit.

    Example:
        >>> import aggloom as al, pyarrow as pa
        >>> sample = pa.table({"shop": ["a", "b", "a"], "n": [1, 2, 3]})
        >>> query = "SELECT shop, SUM(n) AS s FROM t GROUP BY shop"
        >>> print(al.estimate(query, {"t": sample}, rows=1_000_000, backend="python"))
        state after 1,000,000 rows, from a sample of 3
        node[1] GroupAggregate: 3 keys (2 in the sample), Python objects
          1.6 kB in a checkpoint
        in all 0 B in memory, 1.6 kB in a checkpoint
    """
    chosen = options if isinstance(options, PlanOptions) else PlanOptions.of(options or {})
    # Phases, bundles and fragments say how rows are added up, not what is remembered.
    plain: dict[str, Any] = {
        "agg_phase_strategy": "ONE_PHASE",
        "mini_batch_enabled": True,
        "fragments_enabled": False,
    }
    chosen = chosen.with_options({**keywords, **plain})
    if isinstance(query, AggSpec):
        if tables is not None or input_changes is not None:
            raise SpecError("estimate: a spec has a schema; leave out tables and input_changes.")
        windowing = Windowing.of(window)
        plan = plan_spec(query, options=chosen)
        if windowing is not None:
            plan = plan_windows(query, windowing, options=chosen)
        samples = name_samples(sample, list(plan.scans))
    else:
        if not isinstance(tables, Mapping | None):
            raise SpecError(f"estimate: tables is {tables!r}; give a mapping of schemas by name.")
        samples = name_samples(sample, query)
        # Declared schemas win over those of the samples, which may lack columns or have wider types.
        schemas = {name: schema_of(table) for name, table in samples.items()} | dict(tables or {})
        changes = changes_of(samples) if input_changes is None else input_changes
        plan = plan_query(query, schemas, input_changes=changes, dialect=dialect, options=chosen)
    fed = {name: rows_of(name, samples, scan.schema) for name, scan in plan.scans.items()}
    make = handlers(backend)
    # Handlers of append-only inputs do not count rows, but the estimate needs how often a key was seen.
    pipeline = Pipeline(plan, lambda spec: count_rows(make(spec)), session=session)
    _feed_tables(pipeline, fed)
    sampled = {name: batch.num_rows for name, (batch, _) in fed.items()}
    whole = _whole(rows, sampled)
    flow = _Flow(sampled, whole, rows is not None, _by_number(keys), buckets or _buckets())
    operators = flow.operators(plan, pipeline, backend)
    return Estimate(sum(whole.values()), sum(sampled.values()), operators)


def _feed_tables(pipeline: Pipeline, tables: Mapping[str, Rows]) -> None:
    parts = [
        [
            (name, (rows.slice(at, _BUNDLE), kinds[at : at + _BUNDLE]))
            for at in range(0, len(kinds), _BUNDLE)
        ]
        for name, (rows, kinds) in tables.items()
    ]
    # Bundles of all tables side by side, as joins would otherwise see one side whole before the other.
    for bundle in zip_longest(*parts):
        pipeline.process(dict(part for part in bundle if part is not None))


def _whole(rows: int | Mapping[str, int] | None, sampled: Mapping[str, int]) -> dict[str, int]:
    """The rows of the whole input by table."""
    if rows is None:
        return dict(sampled)
    if isinstance(rows, Mapping):
        for name in rows:
            if name not in sampled:
                raise UnknownTableError(f"estimate: rows of {name!r}. {nearest(name, sampled)}")
        totals = {**sampled, **rows}
    elif not isinstance(rows, int):
        raise SpecError(f"estimate: rows={rows!r}; give a number, or one of each table.")
    else:
        total = sum(sampled.values())
        # One number is of all tables together, which are taken to grow as they are in the samples.
        totals = {name: round(rows * number / total) for name, number in sampled.items()}
        if rows < total:
            # Fewer than were sampled: rounding could hide that for a table, and the check below is to tell it.
            totals = dict.fromkeys(sampled, 0)
    for name, number in totals.items():
        if number < sampled[name]:
            raise SpecError(
                f"estimate: rows={rows!r} is less than the sample has of {name!r}, {sampled[name]}; "
                "give the rows of the whole input."
            )
    return totals


def _by_number(keys: int | Mapping[int, int] | None) -> dict[int | None, int]:
    if not isinstance(keys, int | Mapping | None):
        raise SpecError(
            f"estimate: keys={keys!r}; give a number, or one of each operator by its number."
        )
    keys_by_number: dict[int | None, int] = {}
    keys_by_number.update(((None, keys),) if isinstance(keys, int) else (keys or {}).items())
    for number in keys_by_number.values():
        if number < 1:
            raise SpecError(f"estimate: keys={number}; give the number of keys, at least 1.")
    return keys_by_number


def _buckets() -> int:
    """The number of buckets that a query has on a session of this machine: twice the cores."""
    return 2 * (os.cpu_count() or 1)


@dataclass(frozen=True)
class _Flow:
    """The rows or keys that flow along a plan: those in the sample, and as many as there will be."""

    sampled: Mapping[str, int]
    whole: Mapping[str, int]
    by_rows: bool
    keys: Mapping[int | None, int]
    buckets: int

    def operators(
        self, plan: Plan, pipeline: Pipeline, backend: str
    ) -> tuple[OperatorEstimate, ...]:
        """The estimates of all nodes with state, in the order of their numbers."""
        # The pipeline made its operators in the order in which the walk meets the nodes.
        running = iter(pipeline.operators)
        estimates: list[OperatorEstimate] = []
        self._of(plan.root, describe(plan, backend)["plan"], running, estimates)
        numbers = {each.id for each in estimates}
        # One number is of the only operator; with several it would be guessed which one is meant.
        if (None in self.keys and len(estimates) != 1) or not self.keys.keys() <= numbers | {None}:
            node_numbers = ", ".join(f"{number}: ..." for number in sorted(numbers))
            raise SpecError(
                f"estimate: keys must be given by the number of a node, as in keys={{{node_numbers}}}; "
                "explain shows the numbers."
            )
        return tuple(sorted(estimates, key=lambda each: each.id))

    def _of(
        self,
        node: Node,
        described: dict[str, Any],
        running: Iterator[Any],
        estimates: list[OperatorEstimate],
    ) -> tuple[float, float]:
        """(in the sample, in the whole) of what leaves a node; the operators of its inputs come first."""
        if isinstance(node, Scan):
            return self.sampled[node.table], self.whole[node.table]
        pairs = zip(node.inputs, described["inputs"], strict=True)
        flows = [self._of(below, row_count, running, estimates) for below, row_count in pairs]
        sampled, whole = (sum(side) for side in zip(*flows, strict=True))
        if not isinstance(node, Stateful):
            return sampled, whole
        # None stands for the number that was given without a node.
        key_count = self.keys.get(described["id"], self.keys.get(None))
        grown = Grown(next(running), described, whole / max(sampled, 1), key_count, self.by_rows)
        # Without keys there is one bucket, whatever the number of all.
        estimates.append(grown.estimate(self.buckets if described["keys"] else 1))
        # What flows on from an operator are its keys: each has a row of the result.
        return estimates[-1].keys_in_sample, estimates[-1].keys
