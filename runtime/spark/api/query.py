"""`sql`: DataFrames of rows or of changes in, the changelog of a query over them out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from pyspark.sql import DataFrame

from aggloom.codegen import (
    Arguments,
    Backend,
    Dialect,
    bind_parameters,
    shown_query,
    tables_read,
)
from aggloom.codegen.planner import Plan, PlanOptions, plan_query
from aggloom.errors import OptionError, SpecError, nearest
from aggloom.runtime.hosting.arguments import check_tables_read
from aggloom.runtime.hosting.handler_text import handler_texts
from aggloom.runtime.spark.api.inputs import check_frame, check_host_settings, columns_of, table_of
from aggloom.runtime.spark.api.watermarks import require_watermarks
from aggloom.runtime.spark.arguments import mapping_of
from aggloom.runtime.spark.plan.column_frames import InputTable
from aggloom.runtime.spark.plan.expressions import is_ansi, use_analyser
from aggloom.runtime.spark.plan.lookup_frame import as_lookups
from aggloom.runtime.spark.plan.lower import SparkLowering
from aggloom.runtime.spark.read.joint_topics import join_topics
from aggloom.runtime.spark.read.messages import upsert_keys
from aggloom.runtime.spark.sessions.session import ensure_query_settings


def sql(
    query: str | DataFrame,
    text: str | None = None,
    /,
    *,
    tables: Mapping[str, DataFrame] | None = None,
    change_column: str | Mapping[str, str | None] | None = "",
    input_changes: str | Mapping[str, str] | None = None,
    dialect: Dialect = "spark",
    backend: Backend = "numba",
    buckets: int | None = None,
    output_profile: str = "spark",
    state_directory: str | Path | None = None,
    state_limit: str | int | None = None,
    watermarks: Mapping[str, tuple[str, Any]] | None = None,
    keys: Mapping[str, str | Sequence[str]] | None = None,
    options: Mapping[str, Any] | None = None,
    lookups: Mapping[str, Any] | None = None,
    args: Arguments | None = None,
    **named: Any,
) -> DataFrame:
    """The changelog of a script (SET, CREATE VIEW, one query) over DataFrames, streaming or batch.

    query: the script, or a DataFrame, with `text` the script over it. Tables are keywords, `sql("SELECT ... FROM t",
    t=df)`, or in `tables`; every other keyword of `named` is a planner option (see PlanOptions), as is what `options`
    holds by Flink's names. `df.transform(al.sql, text)` asks a text of one table, which the DataFrame then is.

    A table with a column `_change_type` or `op` is one of changes; `change_column` names another column, for all
    tables or by table, or None if there is none. `input_changes` says "append" of tables whose change column never
    retracts anything, and "upsert" of those that send rows by key without the rows that they replace. `keys`: the
    tables' primary keys. `lookups`: tables that lookup joins ask, each an al.lookup_table or a batch DataFrame.
    `watermarks`: by table the event-time column and how far rows may be out of order, unless `df.withWatermark` said
    so. args: values of the text's parameters, by name for `:name` or in order for `?`. dialect: "spark" or "flink".
    backend: "numba" or "python".

    buckets: the units of state, by default twice the shuffle partitions; fixed for the life of a checkpoint.
    output_profile: "spark" or, for a change column `op` with Flink's signs, "flink". state_directory: where live state
    lies on the executors. state_limit: how much it may take there, in bytes or as "20g".

    Raises SpecError and its kin, with the place in the text; for a keyword that the query does not read, too (`tables`
    may hold more than that).

    Example:
        >>> import aggloom as al
        >>> spark = al.session()
        >>> orders = spark.createDataFrame([("Ada", 30), ("Ada", 12)], "customer STRING, amount INT")
        >>> totals = al.sql("SELECT customer, SUM(amount) AS spent FROM orders GROUP BY customer", orders=orders)
        >>> [tuple(row) for row in totals.collect()]
        [('Ada', 42, 'insert')]
    """
    frames = mapping_of("sql", "tables", tables, "as in tables={'t': df}")
    query, given_first = _split_query(query, text)
    query = bind_parameters(query, args, dialect)
    frames |= given_first
    keywords = {}
    for name, value in named.items():
        if hasattr(value, "sparkSession") or name in tables_read(query):
            if name in frames:
                raise SpecError(f"sql: table {name!r} is given twice; leave one out")
            frames[name] = value
        else:
            keywords[name] = value
    for name, df in frames.items():
        check_frame("sql", df, name, upserts=True, partial=True)
    if not frames:
        raise SpecError("sql: no table is given; pass DataFrames by name: sql(query, t=df)")
    times = mapping_of("sql", "watermarks", watermarks, "as in watermarks={'t': ('ts', '5 s')}")
    _check_given("watermarks", times, frames)
    if isinstance(change_column, Mapping):
        _check_given("change_column", change_column, frames)
    tables_by_name = {
        name: table_of(name, df, change_column, times.get(name)) for name, df in frames.items()
    }
    by_key = {name: upsert_keys(df) for name, df in frames.items() if upsert_keys(df)}
    first = next(iter(frames.values()))
    chosen = PlanOptions.of(options or {}, **keywords)
    if not is_ansi(first.sparkSession):
        # Expressions inside a fragment have the meaning of ANSI mode.
        chosen = replace(chosen, fragments_enabled=False)
    with use_analyser(first.sparkSession):
        plan = plan_query(
            query,
            {name: columns_of(table) for name, table in tables_by_name.items()},
            input_changes=_kinds(tables_by_name, input_changes, by_key),
            dialect=dialect,
            keys=by_key | mapping_of("sql", "keys", keys, "as in keys={'t': ['id']}"),
            watermarks={name: table.time for name, table in tables_by_name.items() if table.time},
            options=chosen,
            lookups=as_lookups(mapping_of("sql", "lookups", lookups, "as in lookups={'r': df}")),
        )
    for name, df in join_topics({n: df for n, df in frames.items() if n in plan.scans}).items():
        tables_by_name[name] = table_of(name, df, change_column, times.get(name))
    check_tables_read("sql", query, plan, [name for name in frames if name in named])
    settings = check_host_settings(buckets, output_profile, state_directory, state_limit)
    require_watermarks(plan, tables_by_name)
    ensure_query_settings(first.sparkSession, _waits_for_the_clock(plan), plan.awaits_watermark)
    return SparkLowering(
        plan, tables_by_name, handler_texts(backend), settings, text=shown_query(query)
    ).result()


def _split_query(query: str | DataFrame, text: str | None) -> tuple[str, dict[str, DataFrame]]:
    """Return the text of a query, and the table that `df.transform` gives before it; raises SpecError."""
    if text is None:
        if hasattr(query, "sparkSession"):
            raise SpecError(
                "sql: there is no query; give its text, as in df.transform(al.sql, text)"
            )
        return cast(str, query), {}
    if not hasattr(query, "sparkSession"):
        raise SpecError("sql: two texts are given; tables are keywords, as in al.sql(query, t=df)")
    names = tables_read(text)
    if len(names) != 1:
        read = ", ".join(names) or "no table"
        raise SpecError(f"sql: the query reads {read}; name each, as in al.sql(query, t=df)")
    return text, {names[0]: cast(DataFrame, query)}


def _kinds(
    tables: Mapping[str, InputTable],
    input_changes: str | Mapping[str, str] | None,
    by_key: Mapping[str, tuple[str, ...]],
) -> Mapping[str, str]:
    """Return the kinds of changes each table sends: as is said of it, as it was read, or as its change column says.

    by_key: the tables that were read by their keys; raises SpecError where something else is said of one.
    """
    listed: dict[str, str]
    if input_changes is None or isinstance(input_changes, Mapping):
        changes = {n: "append" if t.change_column is None else "retract" for n, t in tables.items()}
        listed = dict(input_changes or {})
    else:
        changes, listed = {}, dict.fromkeys(tables, input_changes)
    for name in by_key:
        if listed.setdefault(name, "upsert") != "upsert":
            raise SpecError(
                f"table {name} was read by its keys, so that it sends upserts and not {listed[name]!r}; "
                "leave out what input_changes says of it, or keys= where it is read"
            )
    return changes | listed


def _check_given(what: str, named: Mapping[str, Any], frames: Mapping[str, DataFrame]) -> None:
    """Raise OptionError where something is said of a table that is not given."""
    for name in named:
        if name not in frames:
            raise OptionError(
                f"{what} names table {name!r}, which is not given. {nearest(name, frames)}"
            )


def _waits_for_the_clock(plan: Plan) -> bool:
    """Tell whether an operator has timers in processing time; beside the watermark a time to live has none."""
    return plan.goes_by_the_clock or (plan.forgets and not plan.awaits_watermark)
