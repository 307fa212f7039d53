"""Arguments that public functions cannot take: each is a typed error of one line that names the argument."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

import aggloom as al
from aggloom.errors import AggloomError, OptionError, SpecError, UnknownColumnError

SUM = "SELECT k, SUM(v) AS s FROM t GROUP BY k"
DDL = "k STRING, v INT"
SPEC = al.AggSpec.from_sql(SUM, DDL)
FORM = r"watermarks=\{'t': \('ts', '5 s'\)\}"


def planned(**options: Any) -> Any:
    return al.Harness.from_sql(SUM, options.pop("tables", {"t": DDL}), **options)


def refused(call: Callable[[], Any], kind: type[AggloomError], said: str) -> None:
    with pytest.raises(kind, match=said) as raised:
        call()
    assert "\n" not in str(raised.value)


BATCH = pa.record_batch({"k": ["a"], "v": pa.array([1], pa.int32())})


def spec(**given: Any) -> al.AggSpec:
    return al.AggSpec(**{"schema": DDL, "group_by": "k", "calls": al.AggCall("SUM", "v"), **given})


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: al.AggCall(None), "function is None; give a name"),
        (lambda: al.AggCall("SUM", 5), "args of SUM is 5; give a column, or a list"),
        (lambda: al.AggCall("SUM", ["v", 5]), r"args of SUM is \['v', 5\]"),
        (lambda: al.AggCall("LISTAGG", "v", order_by=5), "order_by of LISTAGG is 5"),
        (lambda: al.AggCall("FIRST", "v", nulls=5), "nulls is 5; give 'ignore' or"),
        (lambda: al.AggCall("LISTAGG", "v", options=["x"]), "options of LISTAGG .* a mapping"),
        (lambda: spec(schema={"k": 5}), "5 is no type; give a name such as 'INT'"),
        (lambda: spec(group_by=None), "group_by is None; give a column"),
        (lambda: spec(group_by=["k", 5]), r"group_by is \['k', 5\]"),
        (lambda: spec(calls="SUM(v)"), r"calls is 'SUM\(v\)'; give a call such as"),
        (lambda: spec(computed=["v + 1"]), "computed is .* give a Computed"),
        (lambda: spec(where=5), "where is 5; give a condition in SQL"),
        (lambda: spec(having=[]), r"having is \[\]"),
        (lambda: spec(select=["k"]), "select is .* give a mapping of names"),
        (lambda: spec(select={"k": 5}), "select of 'k' is 5"),
        (lambda: al.AggSpec.from_json(5), "the spec is a int; give its JSON text"),
        (lambda: al.Computed("x", "v + 1", 5), "5 is no type"),
        (lambda: al.generate(SPEC, directory=5), "generate: directory is 5"),
        (lambda: al.window_spec(SUM, al.Tumble("1 h", on="t")), "window_spec: the spec is a str"),
        (lambda: al.prepare(SUM, BATCH, None), "prepare: the spec is a str; give an AggSpec"),
        (lambda: al.finish(SPEC, [1], None), "finish: the batch is a list; give an Arrow batch"),
        (lambda: al.unregister(5), "unregister: name is 5"),
        (lambda: al.estimate(5, BATCH), "estimate: the query is a int"),
        (lambda: al.estimate(SUM, BATCH, rows="x"), "estimate: rows='x'; give a number"),
        (lambda: al.estimate(SUM, BATCH, keys="x"), "estimate: keys='x'; give a number"),
        (lambda: al.estimate(SUM, BATCH, tables=5), "estimate: tables is 5"),
        (lambda: al.join_sql("k", names=("l",)), r"join: names is \('l',\); give those of both"),
        (lambda: al.lookup_sql("k", names=None), "lookup: names is None"),
        (lambda: al.asof_join_sql("k", as_of="l.t", names="lr"), "asof_join: names is 'lr'"),
        (lambda: al.over_sql({"n": 5}), "over: 'n' is 5; give a function"),
        (lambda: al.over_sql({"n": "SUM(v)"}, frame=5), "over: frame is 5"),
        (lambda: al.over_sql({"n": "SUM(v)"}, table=5), "5 is no name; give a text"),
        (lambda: al.rank_sql(order_by="v", last=1, function=5), "rank: function is 5"),
        (lambda: al.Harness.deduplicate(DDL, 5), "keys is 5; give a name"),
        (lambda: al.Harness.deduplicate(DDL, "k", input_changes=5), "input_changes is 5"),
        (lambda: planned(backend=[]), r"backend is \[\]; it must be"),
        (lambda: al.lookup_table(DDL, connect=print, table=5), "lookup_table: table is 5"),
    ],
)
def test_a_description_of_no_use_is_named(call: Callable[[], Any], said: str) -> None:
    refused(call, SpecError, said)


@pytest.mark.parametrize(
    ("call", "kind", "said"),
    [
        (lambda: al.progress(None), SpecError, "progress: the query is a NoneType; give what"),
        (lambda: al.await_end("q"), SpecError, "await_end: the query is a str; give what"),
        (lambda: al.ship("local"), SpecError, "ship: the session is a str; give one of Spark's"),
        (lambda: al.session(5), SpecError, "session: name is 5; it must be a text"),
        (lambda: al.session(" "), SpecError, "session: name is ' '"),
        (lambda: al.session("x", None), SpecError, "session: master is None"),
        (lambda: al.load(SUM), SpecError, "the handler is the SQL 'SELECT k.*AggSpec.from_sql"),
        (lambda: al.Harness("SELECT 1"), SpecError, "the handler is the SQL 'SELECT 1'; make"),
        (lambda: al.Harness(5), SpecError, "the handler is 5; give an AggSpec, a loaded"),
        (lambda: al.Harness(""), SpecError, "the handler is ''"),
        (lambda: al.Harness(int), SpecError, "spec: <class 'int'> is no generated handler class"),
        (lambda: al.Harness(SPEC, handler=5), SpecError, "the handler is 5"),
        (lambda: al.Harness(SPEC, bundle_size="x"), OptionError, "bundle_size is 'x'"),
        (lambda: al.Harness(SPEC, bundle_size=-3), OptionError, "bundle_size is -3"),
        (lambda: al.Harness(SPEC, state_ttl="x"), OptionError, "state_ttl is 'x'"),
        (lambda: al.Harness(SPEC, watermarks=5), OptionError, f"watermarks is 5; .*{FORM}"),
        (lambda: al.Harness(SPEC, watermarks={"t": "ts"}), OptionError, f"'t' is 'ts'; .*{FORM}"),
        (lambda: planned(tables=None), SpecError, "tables is a NoneType; name each"),
        (lambda: planned(tables={5: DDL}), SpecError, "tables has the name 5"),
        (lambda: planned(input_changes=5), SpecError, "input_changes is 5. Known: 'append'"),
        (lambda: planned(lookups=5), SpecError, "lookups is 5; name each"),
        (lambda: planned(options=5), OptionError, "options is 5; give a mapping"),
        (lambda: planned(options={5: 5}), OptionError, "there is no option 5. Known"),
    ],
)
def test_an_argument_of_no_use_is_named(
    call: Callable[[], Any], kind: type[AggloomError], said: str
) -> None:
    refused(call, kind, said)


@pytest.mark.spark
def test_arguments_of_the_doors_of_spark(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("k,v\na,1\n")
    df = spark.createDataFrame([("a", 1)], DDL)
    timed = df.selectExpr("*", "current_timestamp() AS ts")
    out = al.sql(SUM, t=al.read_changes(spark, tmp_path / "in", "csv", DDL))

    def write(**options: Any) -> Any:
        checkpoint = options.pop("checkpoint", tmp_path / "c")
        given = options.pop("df", out)
        return al.write_changes(given, options.pop("sink", "console"), checkpoint, **options)

    def read(**options: Any) -> Any:
        given = {"spark": spark, "path": tmp_path / "in", "format": "csv", "schema": DDL}
        return al.read_changes(**given | options)

    def aggregate(**options: Any) -> Any:
        return al.group_aggregate(df, options.pop("spec", SPEC), **options)

    def sql(**options: Any) -> Any:
        return al.sql(SUM, **{"t": df, **options})

    wrong: list[tuple[Callable[[], Any], type[AggloomError], str]] = [
        (lambda: al.progress(df), SpecError, "progress: the query is a DataFrame"),
        (lambda: al.await_end(df), SpecError, "await_end: the query is a DataFrame"),
        (lambda: al.ship(df), SpecError, "ship: the session is a DataFrame"),
        (lambda: write(df=None), SpecError, "write_changes: the input is a NoneType"),
        (lambda: write(checkpoint=None), SpecError, "write_changes: checkpoint is None"),
        (lambda: write(checkpoint=""), SpecError, "write_changes: checkpoint is ''"),
        (lambda: write(trigger="5 s"), SpecError, "trigger is '5 s'; give a mapping of one"),
        (lambda: write(trigger={"once": True, "availableNow": True}), SpecError, "of one entry"),
        (lambda: write(trigger={"processingtime": "1 s"}), SpecError, "mean 'processingTime'"),
        (lambda: write(trigger={5: 5}), SpecError, "there is no trigger 5"),
        (lambda: write(trigger={"continuous": "1 s"}), SpecError, "no trigger 'continuous'"),
        (lambda: write(trigger={"processingTime": 5}), SpecError, "processingTime is 5; .* text"),
        (lambda: write(trigger={"processingTime": "soon"}), SpecError, "Spark refuses .*'soon'"),
        (lambda: write(trigger={"availableNow": False}), SpecError, "is False; it must be True"),
        (lambda: write(query_name=5), SpecError, "query_name is 5"),
        (lambda: write(rows_shown=-1), SpecError, "rows_shown is -1"),
        (lambda: write(key_columns=5), SpecError, "key_columns is 5; give a list"),
        (lambda: write(key_columns=[5]), SpecError, r"key_columns is \[5\]; give a list"),
        (lambda: write(key_columns=["x"]), SpecError, "key_columns names 'x'"),
        (lambda: al.read_table(tmp_path / "in" / "a.csv"), AggloomError, "That is a file"),
        (lambda: al.read_table(None), SpecError, "read_table: checkpoint is None"),
        (lambda: aggregate(spec="SELECT 1"), SpecError, "the handler is the SQL 'SELECT 1'"),
        (lambda: aggregate(change_column=5), UnknownColumnError, "no change column 5"),
        (lambda: aggregate(output_profile=[]), SpecError, r"output_profile \[\]"),
        (lambda: aggregate(state_directory=5), SpecError, "state_directory is 5"),
        (lambda: aggregate(options=5), OptionError, "options is 5; give a mapping"),
        (lambda: sql(tables=df), SpecError, "sql: tables is a DataFrame; it must be a mapping"),
        (lambda: sql(tables={5: df}), SpecError, "sql: tables has the name 5"),
        (lambda: sql(change_column=5), UnknownColumnError, "no change column 5"),
        (lambda: sql(change_column={"u": "x"}), OptionError, "change_column names table 'u'"),
        (lambda: sql(input_changes=5), SpecError, "input_changes is 5"),
        (lambda: sql(watermarks=5), SpecError, "sql: watermarks is a int"),
        (lambda: sql(watermarks={"u": ("ts", "1 s")}), OptionError, "names table 'u', which is"),
        (lambda: sql(t=timed, watermarks={"t": "ts"}), OptionError, "watermark is 'ts'; give the"),
        (lambda: sql(t=timed, watermarks={"t": ("ts", "-1 s")}), OptionError, "0 or more"),
        (lambda: sql(keys=5), SpecError, "sql: keys is a int"),
        (lambda: sql(lookups=5), SpecError, "sql: lookups is a int"),
        (lambda: sql(u=df), SpecError, r"table 'u' is given, and .* \(it reads t\); leave it out"),
        (lambda: read(spark="s"), SpecError, "read_changes: the session is a str"),
        (lambda: read(format=[]), SpecError, r"read_changes: format is \[\]"),
        (lambda: read(max_files_per_trigger=0), SpecError, "max_files_per_trigger is 0; it must"),
        (lambda: read(maxBytesPerTrigger="x"), SpecError, "maxBytesPerTrigger is 'x'; it must"),
        (lambda: read(schema="k STRINGG"), SpecError, "read_changes: schema is 'k STRINGG'"),
        (lambda: al.read_kafka(None, "a:1", "t", "json", DDL), SpecError, "session is a NoneType"),
        (lambda: al.read_kafka(spark, "a:1", 5, "debezium-json", DDL), SpecError, "and a topic"),
        (lambda: al.read_messages(5, "debezium-json", DDL), SpecError, "read_messages: .* a int"),
        (lambda: al.window_aggregate(df, SPEC, window=None), SpecError, "and a window such as"),
        (lambda: al.on_time(5), SpecError, "on_time: the input is a int"),
        (lambda: al.on_time(df), SpecError, "on_time: there is no column 'late_row'"),
        (lambda: al.late_rows(df), SpecError, "late_rows: there is no column"),
        (lambda: al.state(None), SpecError, "state: checkpoint is None"),
        (lambda: al.state(tmp_path, batch="x"), SpecError, "state: batch is 'x'"),
        (lambda: al.state(tmp_path, spark=5), SpecError, "state: the session is a int"),
        (lambda: al.repartition(None, tmp_path, 2), SpecError, "session is a NoneType"),
    ]
    for call, kind, said in wrong:
        refused(call, kind, said)
    assert not (tmp_path / "c").exists()


def test_a_query_is_told_by_its_class() -> None:
    # What is asked of a DataFrame is a column of it, if it has one of that name.
    refused(
        lambda: al.await_end(SimpleNamespace(awaitTermination=lambda: None)),  # type: ignore[arg-type]
        SpecError,
        "a SimpleNamespace",
    )


@pytest.mark.spark
def test_what_several_queries_share_may_be_more_than_one_reads(spark: Any) -> None:
    df = spark.createDataFrame([("a", 1)], DDL)
    assert al.sql(SUM, tables={"t": df, "u": df}).columns[:2] == ["k", "s"]
    # Read by any part of a script is read; a table has its name in any case.
    for query in (
        "CREATE VIEW w AS SELECT k FROM u; SELECT k FROM T",
        "WITH w AS (SELECT k FROM U) SELECT k FROM t",
        "SELECT k FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.k = t.k)",
        "SELECT t.k, (SELECT MAX(v) FROM u) AS m FROM t",
        "SELECT t.k FROM t, u WHERE t.k = u.k",
        "SELECT k FROM t UNION ALL SELECT k FROM u WHERE FALSE",
    ):
        assert al.sql(query, t=df, u=df).columns[0] == "k"
