"""The harness: a query's operators without Spark, fed by Python rows, for tests, notebooks and debugging."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from aggloom.codegen import (
    MODES,
    AggSpec,
    Arguments,
    Backend,
    Handler,
    LookupTable,
    Mode,
    OrphanPolicy,
    SchemaLike,
    bind_parameters,
    tables_read,
)
from aggloom.codegen.planner import (
    Plan,
    PlanOptions,
    plan_deduplicate,
    plan_query,
    plan_spec,
    plan_windows,
)
from aggloom.codegen.windows import Assigner, Evictor, Trigger, Windowing
from aggloom.errors import AggloomError, OptionError, SpecError
from aggloom.runtime.local.handler_choice import spec_handler, window_handler
from aggloom.runtime.local.pipeline import Handlers, ask_session, handlers
from aggloom.runtime.local.plan_driver import FedPlan

Change = tuple[Any, ...]
_UNNEEDED = (
    "None of its rows changes the result, as those of EXISTS over an aggregate without GROUP BY, which always has a "
    "row; leave them out."
)
_UNNAMED = "It is among the tables, but the query does not name it; leave its rows out."


class Harness(FedPlan):
    """Feeds a query's operators and collects the changes of its result.

    spec: an AggSpec, a loaded handler class or a generated module's path; `from_sql` takes whole queries.
    mode: in mini_batch rows are buffered until `flush`, until `bundle_size` of them are there, or until a watermark or
    the processing time ends the bundle; in per_record each row acts at once.
    backend: "numba" compiles, "python" does not, and can be stepped through.
    update_before: whether updates come with the row that they replace (-U before +U).
    on_orphan_retraction: "drop", "error" or "keep", for a retraction of a row that was never added.
    state_ttl: after how long without a change a key is forgotten: milliseconds, or text such as "1 d"; 0 is never.
    buckets, partitions: into how many parts state and input are cut, of which the result does not depend.
    session: a Spark session, asked only for expressions that pyarrow cannot evaluate as Spark does, and their types;
    by default the one that is active, if there is one.

    window: an assigner such as Tumble("1 hour", on="ts"), or a whole Windowing. trigger, evictor, allowed_lateness,
    late_rows: as of Windowing. handler: the class to run, made from the spec, or from `window_spec` (default:
    generated). watermarks: by table the column and how far out of order its rows may be; after each call of `process`
    the watermark follows (otherwise only `watermark` moves it).

    A global aggregate of dialect spark has its row from the first bundle on, with rows or without: from the first
    `flush`, or the first call of `process` in mode per_record.

    Example:
        >>> import aggloom as al
        >>> spec = al.AggSpec.from_sql("SELECT shop, SUM(n) AS s FROM t GROUP BY shop", "shop STRING, n INT")
        >>> with al.Harness(spec, backend="python") as harness:
        ...     harness.process([{"shop": "a", "n": 3}, {"op": "+I", "shop": "a", "n": 4}])
        ...     harness.flush()
        ...     print(harness.changes(), harness.table())
        [('+I', 'a', 7)] [('a', 7)]
    """

    def __init__(
        self,
        spec: AggSpec | type[Handler] | str | Path,
        *,
        mode: Mode = "mini_batch",
        backend: Backend = "numba",
        update_before: bool = True,
        on_orphan_retraction: OrphanPolicy = "drop",
        state_ttl: int | str = 0,
        bundle_size: int | None = None,
        window: Assigner | Windowing | None = None,
        trigger: Trigger | None = None,
        evictor: Evictor | None = None,
        allowed_lateness: Any = 0,
        late_rows: bool = False,
        handler: type[Handler] | str | Path | None = None,
        watermarks: Mapping[str, tuple[str, Any]] | None = None,
        buckets: int = 1,
        partitions: int = 1,
        session: Any = None,
    ) -> None:
        if mode not in MODES:
            raise AggloomError(f"mode={mode!r} does not exist; use {' or '.join(MODES)}")
        if bundle_size is not None and (type(bundle_size) is not int or bundle_size < 0):
            raise OptionError(f"bundle_size is {bundle_size!r}; it must be a number of rows.")
        options = PlanOptions.of(
            {},
            mini_batch_enabled=mode == "mini_batch",
            mini_batch_size=bundle_size or -1,
            # One phase, as a bundle is applied in one process, so a local aggregate would only be a second pass.
            agg_phase_strategy="ONE_PHASE",
            state_ttl=state_ttl,
            update_before=update_before,
            on_orphan_retraction=on_orphan_retraction,
        )
        windowing = Windowing.of(window, trigger, evictor, allowed_lateness, late_rows)
        if windowing is None:
            loaded = spec_handler(spec, handler, backend)
            plan = plan_spec(loaded.spec(), options=options)
        else:
            # A class is made for a spec with the window in it, which it cannot be distinguished from here.
            if not isinstance(spec, AggSpec):
                raise SpecError(
                    "spec: windows are planned from an AggSpec; give it, and the class as handler=...."
                )
            plan = plan_windows(spec, windowing, options=options)
            loaded = window_handler(plan, handler, backend)
        self.handler, self.spec = loaded, loaded.spec()
        parts = {"buckets": buckets, "partitions": partitions}
        super().__init__(plan, lambda _: loaded, watermarks, session=session, **parts)

    @classmethod
    def from_sql(
        cls,
        sql: str,
        tables: Mapping[str, SchemaLike],
        *,
        input_changes: str | Mapping[str, str] = "retract",
        dialect: str = "spark",
        backend: Backend = "numba",
        buckets: int = 1,
        partitions: int = 1,
        options: Mapping[str, Any] | PlanOptions | None = None,
        watermarks: Mapping[str, tuple[str, Any]] | None = None,
        keys: Mapping[str, str | Sequence[str]] | None = None,
        session: Any = None,
        lookups: Mapping[str, LookupTable] | None = None,
        args: Arguments | None = None,
        **keywords: Any,
    ) -> Harness:
        """Make a harness of a script over tables: the plan that al.sql runs on Spark.

        sql: the script. tables: their columns, as schemas by name. input_changes: "append", "retract" or "upsert", of
        all tables or by table. dialect: "spark" or "flink". backend, watermarks, session: as of the harness. buckets,
        partitions: into how many parts state and input are cut, on which the result does not depend. keys: the tables'
        primary keys, which input_changes="upsert" goes by. lookups: tables that lookup joins ask. args: values of the
        text's parameters, by name for `:name` or in order for `?`. options, keywords: the planner's, by Flink's names
        or as keywords (see PlanOptions). Raises SpecError and its kin.
        """
        if not isinstance(options, PlanOptions):
            options = PlanOptions.of(options or {})
        # Types of expressions that the planner does not know are asked of the session, and only while it plans.
        with ask_session(session):
            plan = plan_query(
                bind_parameters(sql, args, dialect),
                tables,
                input_changes=input_changes,
                dialect=dialect,
                options=options.with_options(keywords),
                keys=keys,
                watermarks=watermarks,
                lookups=lookups,
            )
        followed = {
            name: each
            # A watermark of a table that the query does not read is ignored; of an unknown name it is an error later.
            for name, each in (watermarks or {}).items()
            if name in plan.scans or name not in tables
        }
        harness = cls.of_plan(
            plan,
            handlers(backend),
            followed,
            buckets=buckets,
            partitions=partitions,
            session=session,
        )
        # Names in the text tell a table that the planner removed from one that was never meant.
        named = tables_read(sql)
        harness._unread = {
            name: _UNNEEDED if name in named else _UNNAMED
            for name in tables
            if name not in plan.scans
        }
        return harness

    @classmethod
    def deduplicate(
        cls,
        rows: SchemaLike,
        keys: str | Sequence[str],
        *,
        keep: Literal["first", "last"] = "last",
        order_by: str | None = None,
        insert_only: bool = False,
        input_changes: str = "append",
        options: Mapping[str, Any] | PlanOptions | None = None,
        watermark: tuple[str, Any] | None = None,
        backend: Backend = "numba",
        buckets: int = 1,
        **keywords: Any,
    ) -> Harness:
        """Make a harness of one row of each key, as al.deduplicate gives it.

        rows: the columns of its table, t. keys: the columns of the key. keep, order_by, insert_only, input_changes,
        watermark: as in al.deduplicate. backend, buckets: as of the harness. options, keywords: the planner's.
        """
        if not isinstance(options, PlanOptions):
            options = PlanOptions.of(options or {})
        chosen = options.with_options({**keywords, "deduplicate_insert_only": insert_only})
        plan = plan_deduplicate(
            rows,
            (keys,) if isinstance(keys, str) else keys,
            keep=keep,
            order_by=order_by,
            options=chosen,
            input_changes=input_changes,
        )
        watermarks = None if watermark is None else {"t": watermark}
        return cls.of_plan(plan, handlers(backend), watermarks, buckets=buckets)

    @classmethod
    def of_plan(
        cls,
        plan: Plan,
        handler_of: Handlers,
        watermarks: Mapping[str, tuple[str, Any]] | None = None,
        **options: Any,
    ) -> Harness:
        """Make a harness of a plan.

        plan: what `plan_query` gives. handler_of: gives the handler class of a spec. watermarks: as of the harness.
        options: buckets, partitions and session of the harness.
        """
        # Without `__init__`, which makes a plan of its own.
        harness = cls.__new__(cls)
        FedPlan.__init__(harness, plan, handler_of, watermarks, **options)
        return harness
