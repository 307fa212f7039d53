"""`group_aggregate`: a DataFrame of changes in, the changelog of its GROUP BY out. Streaming and batch alike."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame

from aggloom.codegen import AggSpec, Handler, generate, load
from aggloom.codegen.planner import PlanOptions, plan_spec
from aggloom.errors import SpecError
from aggloom.runtime.hosting.handler_text import HandlerText
from aggloom.runtime.spark.api.inputs import (
    check_frame,
    check_host_settings,
    is_mini_batch,
    resolve_change_column,
)
from aggloom.runtime.spark.plan.column_frames import InputTable
from aggloom.runtime.spark.plan.lower import SparkLowering
from aggloom.runtime.spark.sessions.session import ensure_query_settings


def resolve(what: Any) -> tuple[AggSpec, HandlerText]:
    """The spec and the generated text of a spec, a handler class or a module's path."""
    if isinstance(what, AggSpec):
        what = load(generate(what))
    elif isinstance(what, str | Path):
        what = load(what)
    if not hasattr(what, "SPEC_JSON") or not hasattr(what, "SOURCE_PATH"):
        raise SpecError(
            f"group_aggregate: {what!r} is neither an AggSpec, nor a loaded handler class, nor the path of "
            "a generated module"
        )
    return AggSpec.from_json(what.SPEC_JSON, trust=True), handler_text(what)


def handler_text(handler: type[Any]) -> HandlerText:
    """A loaded handler class as workers get it."""
    return HandlerText(Path(handler.SOURCE_PATH).read_text(encoding="utf-8"), handler.DIGEST)


def group_aggregate(
    df: DataFrame,
    spec: AggSpec | type[Handler] | str | Path,
    *,
    change_column: str | None = "",
    buckets: int | None = None,
    mode: str = "mini_batch",
    update_before: bool = True,
    on_orphan_retraction: str = "drop",
    state_ttl: int | str | None = None,
    output_profile: str = "spark",
    state_directory: str | Path | None = None,
    state_limit: str | int | None = None,
    options: Mapping[str, Any] | None = None,
) -> DataFrame:
    """The changelog of a grouped aggregate over a DataFrame of rows or of changes.

    df: streaming or batch. spec: an AggSpec, a loaded handler class or a generated module's path. change_column: found
    by its name (`_change_type`, or Flink's `op`) unless given; None: there is none, and every row is an insertion.
    mode: "mini_batch" emits the net change of a batch, "per_record" that of each row. update_before,
    on_orphan_retraction: as of al.Harness. state_ttl: after how long without a change a key is forgotten:
    milliseconds, or text such as "1 d". buckets, output_profile, state_directory, state_limit: as of `sql`. options:
    the planner's, by Flink's names or by keyword (see PlanOptions). Raises SpecError and its kin.

    Example:
        >>> import aggloom as al
        >>> spark = al.session()
        >>> orders = spark.createDataFrame([("a", 3)], "shop STRING, n INT")
        >>> spec = al.AggSpec.from_sql("SELECT shop, SUM(n) AS s FROM t GROUP BY shop", "shop STRING, n INT")
        >>> al.group_aggregate(orders, spec, state_ttl="1 d").columns
        ['shop', 's', '_change_type']
    """
    check_frame("group_aggregate", df)
    resolved, handler = resolve(spec)
    chosen = PlanOptions.of(
        options or {},
        mini_batch_enabled=is_mini_batch(mode),
        update_before=update_before,
        on_orphan_retraction=on_orphan_retraction,
        state_ttl=state_ttl or 0,
    )
    change_column = resolve_change_column(df, change_column, resolved.schema.names)
    plan = plan_spec(resolved, options=chosen, inserts_only=change_column is None)
    settings = check_host_settings(buckets, output_profile, state_directory, state_limit)
    ensure_query_settings(df.sparkSession, timers=bool(state_ttl))
    tables = {"t": InputTable(df, change_column)}
    return SparkLowering(plan, tables, lambda _: handler, settings).result()
