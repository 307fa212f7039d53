"""A user's script over every public name, which strict mypy passes (make check); it is read, and never run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, assert_type

import numpy as np
from numpy.typing import NDArray

import aggloom as al
from aggloom import local

SCHEMA = "name STRING, cnt INT, ts TIMESTAMP"


def specs() -> al.AggSpec:
    """A spec from SQL, from its parts, and back from its texts."""
    calls = [al.AggCall("SUM", ["cnt"], alias="total"), al.AggCall("COUNT")]
    computed = (al.Computed("twice", "cnt * 2", "BIGINT"),)
    spec = al.AggSpec(SCHEMA, ["name"], calls, computed=computed)
    assert_type(al.AggSpec.from_sql("SELECT SUM(cnt) FROM t", SCHEMA), al.AggSpec)
    assert_type(al.AggSpec.from_json(spec.to_json()), al.AggSpec)
    assert_type(al.AggSpec.from_yaml(spec.to_yaml()), al.AggSpec)
    assert_type(spec.digest, str)
    return spec


def sources(spec: al.AggSpec) -> type[al.Handler]:
    """A generated module and what is in it."""
    source = al.generate(spec, directory=Path("generated"), name="totals", backend="python")
    assert_type(source, al.GeneratedSource)
    text: str = al.explain(spec, format="svg")
    print(text, source.path, source.text)
    handler = al.load(source)
    assert_type(handler().accumulate((1,)), None)
    windows: list[al.WindowOperator] = []
    print(windows)
    operator = al.GroupAggOperator(handler, mode="per_record")
    operator.close()
    return handler


def harnesses(spec: al.AggSpec) -> None:
    """Changes in, changes and tables out."""
    with al.Harness(spec, mode="mini_batch", backend="python") as harness:
        harness.process([("+I", "a", 1, None)])
        harness.flush()
        for kind, *values in harness.changes():
            print(kind, values)
        rows: list[tuple[Any, ...]] = harness.table()
        names: list[str] = harness.table().columns
        print(rows, names, harness.to_pandas().shape, harness.to_arrow(), harness.counts.rows)
        kept: bytes = harness.snapshot()
        harness.restore(kept)
    query = al.Harness.from_sql("SELECT SUM(cnt) AS s FROM t", {"t": SCHEMA})
    query.watermark(1_000, "t")
    queries = al.ScriptHarness("SELECT SUM(cnt) AS s FROM t", {"t": SCHEMA}, dialect="flink")
    queries.flush()
    print([each.table() for each in queries.values()], queries["query 1"].counts.rows)
    one = al.Harness.deduplicate(SCHEMA, "name", keep="first", order_by="ts")
    one.end_of_input()
    print(al.estimate(spec, one.to_pandas(), rows=1_000).bytes)


def windows(spec: al.AggSpec) -> None:
    """Every assigner, trigger and evictor."""
    assigners: list[al.Assigner] = [
        al.Tumble("1 hour", on="ts"),
        al.Hop("1 hour", "10 minutes", on="ts"),
        al.Rolling("5 minutes", ["1 hour", "24 hours"], on="ts"),
        al.Cumulate("1 day", "1 hour", on="ts"),
        al.Session("5 minutes", on="ts"),
        al.CountWindow(10),
        al.GlobalWindow(),
    ]
    triggers: list[al.Trigger] = [
        al.EventTimeTrigger(early="1 minute"),
        al.ProcessingTimeTrigger(),
        al.ContinuousTrigger("1 minute"),
        al.DeltaTrigger(1.5, "x"),
        al.ProcessingTimeoutTrigger(al.CountTrigger(3), "1 minute"),
        al.PurgingTrigger(al.CountTrigger(3)),
        al.NeverTrigger(),
    ]
    evictors: list[al.Evictor] = [
        al.CountEvictor(3),
        al.TimeEvictor("1 minute"),
        al.DeltaEvictor(1.0, "cnt"),
    ]
    windowing = al.Windowing(assigners[0], triggers[0], evictors[0], "1 minute", late_rows=True)
    assert_type(al.window_spec(spec, windowing), al.AggSpec)
    al.Harness(spec, window=windowing).end_of_input()


class EveryThird(al.Trigger):
    """A trigger of one's own."""

    def on_element(self, row: Any, time: int, window: al.Window, context: Any) -> al.TriggerResult:
        """Fire, and keep the rows."""
        return al.TriggerResult.FIRE


class KeepAll(al.Evictor):
    """An evictor of one's own."""

    def evict_before(
        self, elements: al.Elements, window: al.Window, ctx: al.EvictorContext
    ) -> NDArray[np.bool_]:
        """Which rows stay."""
        print(window.end, ctx.watermark)
        return np.ones(len(elements.times), np.bool_)


def functions() -> None:
    """Aggregates of one's own: as data, and as a class."""
    shape = al.Shape((al.Field("n", "count", "n + 1", "n + other_n"), al.View("ordered")), "n")
    entry = al.Aggregate(
        "MY_COUNT",
        arguments=(al.Argument("x"),),
        result="BIGINT",
        append=shape,
        options=(al.Option("least", "whole"),),
        examples=(al.Example(((1,),), 1),),
    )
    assert_type(al.register(entry), al.Aggregate)
    al.unregister("MY_COUNT")

    @al.aggregate("MY_SUM", arguments={"x": "BIGINT"}, result="BIGINT")
    class MySum:
        state: ClassVar[dict[str, str]] = {"total": "BIGINT"}

    @al.table_function("MY_WORDS", arguments={"s": "STRING"}, columns={"word": "STRING"})
    def words(s: str) -> list[tuple[str]]:
        return [(word,) for word in s.split()]

    @al.table_aggregate("MY_TOP", arguments={"x": "BIGINT"}, columns={"value": "BIGINT"})
    class MyTop:
        size: ClassVar[int] = 2

    print(MySum.state, MyTop.size, words("a b"))
    made: Callable[[al.WindowFunction], None] = print
    print(made)


def on_spark(spec: al.AggSpec) -> None:
    """DataFrames of changes in, DataFrames of changes out."""
    spark = al.session("typed", master="local[2]", **al.kafka_settings())
    al.ship(spark)
    orders = al.read_changes(spark, "changes/", schema=SCHEMA)
    topic = al.read_kafka(spark, "broker:9092", "orders", "debezium-json", SCHEMA)
    lake = al.read_delta(spark, "lake/orders", SCHEMA, start="latest", metadata=True)
    read = al.read_messages(topic, "canal-json", SCHEMA)
    totals = al.group_aggregate(orders, spec)
    timed = al.window_aggregate(read, spec, window=al.Tumble("1 hour", on="ts"), late_rows=True)
    frames = [
        al.sql("SELECT SUM(cnt) AS s FROM orders", orders=orders),
        al.deduplicate(orders, "name", order_by="ts"),
        al.join(orders, read, on="name"),
        al.asof_join(orders, read, on="name", match="l.ts >= r.ts"),
        al.rank(orders, order_by="cnt DESC", last=3, partition_by="name"),
        al.flat_aggregate(orders, "MY_TOP", "cnt", group_by="name", columns=["most"]),
        al.over(orders, {"s": "SUM(cnt)"}, partition_by="name", order_by="ts"),
        al.lookup(orders, al.lookup_table(SCHEMA, rows=[("a", 1, None)], key="name"), on="name"),
        al.on_time(timed),
        lake,
        al.read_iceberg(spark, "shop.orders", connect={"type": "sql"}),
        al.late_rows(timed),
    ]
    queries = [al.write_changes(each, {"kind": "console"}, "state/") for each in (totals, *frames)]
    for query in queries:
        al.await_end(query)
        print(al.progress(query).to_dict(), al.progress(query).rows)
    print(al.read_table("state/"), al.state("state/").text(), al.why("state/", key={"name": "a"}))
    al.repartition(spark, "state/", 8)


def locally() -> list[dict[str, Any]]:
    """The same in this process."""
    tables: list[local.LocalTable] = [
        local.read_changes("changes/", "debezium-json", SCHEMA),
        local.read_kafka("broker:9092", "orders", "debezium-json", SCHEMA, start="latest"),
        local.read_delta("lake/orders", start="latest"),
        local.read_iceberg("shop.orders", connect={"type": "sql"}),
        local.from_rows([("+I", "a", 1, None)], SCHEMA),
    ]
    changes = local.sql("SELECT SUM(cnt) AS s FROM orders", orders=tables[0], state_ttl="1 d")
    assert_type(changes, local.LocalChanges)
    query = local.write_changes(changes, lambda rows, batch: print(rows, batch), "state/")
    assert_type(query, local.RunningQuery)
    local.await_end(query)
    print(local.progress(query).rows)
    return list(local.collect(changes).to_pylist())


def texts() -> list[str]:
    """The texts of SQL that some of the calls write."""
    return [
        al.join_sql("name", how="left"),
        al.asof_join_sql("name", match="l.ts >= r.ts"),
        al.rank_sql(order_by="cnt", last=3),
        al.flat_aggregate_sql("MY_TOP", "cnt", group_by="name", where="cnt > 0"),
        al.over_sql({"s": "SUM(cnt)"}, order_by="ts"),
        al.lookup_sql("name"),
    ]


def by_hand(spec: al.AggSpec, batch: Any, kinds: Any) -> None:
    """The steps around a handler, and errors."""
    try:
        before, codes = al.prepare(spec, batch, kinds)
        after, _ = al.finish(spec, before, codes)
        print(after)
    except al.errors.SpecError as error:
        print(error)
