"""`group_aggregate`: a DataFrame of changes in, the changelog of its GROUP BY out. Streaming and batch alike."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame

from aggloom.codegen import ABSENT, MODES, AggSpec, Handler, generate, load
from aggloom.codegen.planner import PlanOptions, plan_spec
from aggloom.errors import SpecError, UnknownColumnError, nearest
from aggloom.runtime.hosting.handler_text import HandlerText
from aggloom.runtime.spark.node.live_state import size_of
from aggloom.runtime.spark.plan.column_frames import InputTable
from aggloom.runtime.spark.plan.host_settings import HostSettings
from aggloom.runtime.spark.plan.lower import SparkLowering
from aggloom.runtime.spark.read.messages import upsert_keys
from aggloom.runtime.spark.read.records import CHANGE_COLUMN
from aggloom.runtime.spark.sessions.session import ensure_query_settings
from aggloom.runtime.values.changelog import CHANGE_COLUMNS
from aggloom.runtime.values.markers import MARKER_HINT, MARKERS


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
    if mode not in MODES:
        raise SpecError(f"mode {mode!r}: known are {' and '.join(MODES)}")
    chosen = PlanOptions.of(
        options or {},
        mini_batch_enabled=mode == "mini_batch",
        update_before=update_before,
        on_orphan_retraction=on_orphan_retraction,
        state_ttl=state_ttl or 0,
    )
    if change_column == "":
        change_column = find_change_column(df, resolved.schema.names)
    if change_column is not None and change_column not in df.columns:
        raise UnknownColumnError(
            f"the DataFrame has no change column {change_column!r}. {nearest(change_column, df.columns)}"
        )
    plan = plan_spec(resolved, options=chosen, inserts_only=change_column is None)
    settings = check_host_settings(buckets, output_profile, state_directory, state_limit)
    ensure_query_settings(df.sparkSession, timers=bool(state_ttl))
    tables = {"t": InputTable(df, change_column)}
    return SparkLowering(plan, tables, lambda _: handler, settings).result()


def check_host_settings(
    buckets: int | None,
    output_profile: str,
    state_directory: str | Path | None,
    state_limit: str | int | None,
) -> HostSettings:
    """The settings of a query's host, checked."""
    if output_profile not in tuple(CHANGE_COLUMNS):
        raise SpecError(f"output_profile {output_profile!r}: known are {', '.join(CHANGE_COLUMNS)}")
    if buckets is not None and (type(buckets) is not int or buckets < 1):
        raise SpecError(f"buckets={buckets!r}: it must be a whole number, at least 1")
    if not isinstance(state_directory, str | Path | None):
        raise SpecError(
            f"state_directory is {state_directory!r}; it must be the path of a directory"
        )
    directory = str(state_directory) if state_directory else None
    limit = None if state_limit is None else size_of(state_limit)
    return HostSettings(buckets, directory, output_profile, limit)


def check_frame(
    call: str, df: Any, name: str = "", upserts: bool = False, partial: bool = False
) -> None:
    """Raise SpecError unless `df` is a DataFrame, of whole changes or of `upserts`; name: of the table that it is.

    partial: whether its rows may leave columns out.
    """
    table = f"table {name}" if name else "the input"
    if hasattr(df, "sparkSession"):
        if upsert_keys(df) and not upserts:
            raise SpecError(
                f"{call}: {table} was read by its keys, so that its changes lack the rows that they replace; give it "
                "to al.sql, which makes them whole, or to al.deduplicate(df, keys, input_changes='upsert') first"
            )
        if ABSENT in df.columns and not partial:
            raise SpecError(
                f"{call}: rows of {table} leave out columns ({ABSENT}), which keep what they had; give it to al.sql, "
                "which completes rows by their key"
            )
        return
    what = f"the path {str(df)!r}" if isinstance(df, str | Path) else f"a {type(df).__name__}"
    raise SpecError(
        f"{call}: {table} is {what}, not a DataFrame of Spark; read it first, such as with "
        'al.read_changes(spark, "changes/", "jsonl", schema="name STRING, cnt INT")'
    )


def find_change_column(df: DataFrame, used: list[str]) -> str | None:
    """The change column that a DataFrame has under a known name, in any case, that is not used as a column.

    Raises SpecError where it cannot be determined.
    """
    used_names = {name.lower() for name in used}
    free = [name for name in df.columns if name.lower() not in used_names]
    candidates = [name for name in free if name.lower() in CHANGE_COLUMNS.values()]
    # A changelog has its change column last; what is before it under another such name is a column like others.
    if len(candidates) > 1 and df.columns[-1] == CHANGE_COLUMN:
        candidates = [CHANGE_COLUMN]
    if len(candidates) > 1:
        raise SpecError(
            f"the DataFrame has {' and '.join(map(repr, candidates))}; say which is the change column: "
            "change_column=..."
        )
    flattened = [name for name in free if name.lower() in MARKERS]
    if flattened and not candidates:
        raise SpecError(
            f"the DataFrame's column {flattened[0]!r} {MARKER_HINT}, or pass change_column=None"
        )
    return candidates[0] if candidates else None
