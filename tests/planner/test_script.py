"""Scripts with tables of their own: CREATE TABLE with Flink's words, INSERT INTO, EXPLAIN, several queries."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import fields
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner

import aggloom as al
from aggloom.cli import main
from aggloom.codegen import insertions, read_script
from aggloom.connectors import sink_of, source_of
from aggloom.errors import AggloomError, IgnoredOptionWarning, OptionError, SpecError
from aggloom.job import complete, read_job
from aggloom.runtime.connectors.registry import SINKS
from aggloom.runtime.sinks.options import sink_words
from aggloom.script import jobs_of
from aggloom.tables import read_table_option, table_source

ROOT = Path(__file__).parents[2]
ORDERS = """
-- A comment; of two parts.
CREATE TEMPORARY TABLE IF NOT EXISTS orders (
  id BIGINT COMMENT 'a, b', shop STRING NOT NULL, amount DECIMAL(10, 2), ts TIMESTAMP(3),
  doubled AS amount * 2, r ROW<a INT, b ARRAY<STRING>>,
  WATERMARK FOR ts AS ts - INTERVAL '5' SECOND,
  CONSTRAINT pk PRIMARY KEY (id) NOT ENFORCED
) COMMENT 'x' PARTITIONED BY (shop) WITH (
  'connector' = 'kafka', 'topic' = 'orders', 'properties.bootstrap.servers' = 'h:1', 'format' = 'debezium-json');
"""
TOTALS = """
CREATE TABLE totals (shop STRING, n BIGINT, total DECIMAL(38, 2), PRIMARY KEY (shop) NOT ENFORCED) WITH (
  'connector' = 'jdbc', 'url' = 'jdbc:sqlite:totals.db', 'table-name' = 'totals');
"""
INTO = "INSERT INTO totals SELECT shop, COUNT(*), SUM(doubled) AS x FROM orders GROUP BY shop"
SCRIPT = ORDERS + TOTALS + INTO


def table(options: str, columns: str = "k INT, v STRING, PRIMARY KEY (k) NOT ENFORCED") -> Any:
    """The table that WITH makes, which something reads."""
    script = read_script(f"CREATE TABLE t ({columns}) WITH ({options}); SELECT * FROM t")
    return script.created["t"]


def test_a_created_table_is_a_table_of_the_plan() -> None:
    text = al.explain(SCRIPT)
    assert "unique key shop" in text
    assert "TableSourceScan(table=[[orders]], fields=[id, shop, amount, ts, r]" in text
    with al.Harness.from_sql(SCRIPT, {}) as harness:
        harness.process([("+I", 1, "a", 1, None, None), ("+I", 2, "a", 3, None, None)])
        harness.process([("-D", 1, "a", 1, None, None)])
        harness.flush()
        assert [(row[0], row[1], str(row[2])) for row in harness.table()] == [("a", 1, "6.00")]
    reordered = INTO.replace("totals SELECT shop, COUNT(*), ", "totals (total, shop) SELECT ")
    with al.Harness.from_sql(
        ORDERS + TOTALS + reordered.replace("AS x", "AS x, shop"), {}
    ) as harness:
        harness.process([("+I", 1, "a", 1, None, None)])
        harness.flush()
        assert [(row[0], row[1]) for row in harness.table()] == [("a", None)]


def test_upserts_and_processing_time() -> None:
    text = """
        CREATE TABLE t (k INT, v INT, now AS PROCTIME(), PRIMARY KEY (k) NOT ENFORCED) WITH
          ('connector' = 'upsert-kafka', 'topic' = 't', 'properties.bootstrap.servers' = 'h:1',
           'key.format' = 'json', 'value.format' = 'json');
        SELECT SUM(v) AS s FROM t"""
    with al.Harness.from_sql(text, {}) as harness:
        harness.process([("+U", 1, 5), ("+U", 1, 7), ("+U", 2, 1), ("-D", 2, None)])
        harness.flush()
        assert harness.table() == [(7,)]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("'kafka'", "'kafak'", "Did you mean 'kafka'?"),
        ("total DECIMAL(38, 2)", "total INT", "write CAST(.. AS INT)"),
        ("SUM(doubled)", "SUM(doubeld)", "Did you mean 'doubled'?"),
        ("INTO totals", "INTO totls", "Did you mean 'totals'?"),
        ("shop, COUNT(*)", "COUNT(*)", "for 3 of totals (shop, n, total)"),
        ("INTO totals", "INTO totals (n, totl, shop)", "names column 'totl'"),
        ("INTO totals", "INTO totals (n, total)", "for 2 of totals"),
        ("INTO totals", "INTO totals (shop, n, n)", "names column 'n' twice"),
        ("INSERT INTO", "INSERT OVERWRITE", "INSERT OVERWRITE is not supported"),
        ("INTO totals", "INTO totals PARTITION (n = 1)", "PARTITION in INSERT is not supported"),
        ("INTO totals", "INTO totals REPLACE WHERE n = 1", "WHERE in INSERT is not supported"),
        ("INTO totals", "INTO totals AS t", "ALIAS in INSERT is not supported"),
        ("BY shop", "BY shop ON CONFLICT DO NOTHING", "CONFLICT in INSERT is not supported"),
        (
            "INSERT",
            "WITH a AS (SELECT 1 AS x) CREATE VIEW v AS SELECT x FROM a; INSERT",
            "after AS",
        ),
        ("BY (shop)", "BY (shp)", "PARTITIONED BY names column 'shp'"),
        ("BY (shop)", "BY (shop, shop)", "names column 'shop' twice"),
        ("BY (shop)", "BY ()", "PARTITIONED BY names no column"),
        ("BY (shop)", "BY (shop DESC)", "shop DESC in PARTITIONED BY is not supported"),
        ("BY (shop)", "BY (shop) PARTITIONED BY (id)", "two PARTITIONED BY"),
        ("r ROW<a INT", "o BIGINT METADATA FOR 'offset', r ROW<a INT", "METADATA FOR 'offset' is"),
        ("ts - INTERVAL", "id - INTERVAL", "write WATERMARK FOR ts AS ts - INTERVAL"),
        ("FOR ts AS ts", "FOR t AS t", "WATERMARK names column 't'"),
        ("FOR ts AS ts", "FOR doubled AS doubled", "and no TIMESTAMP"),
        ("PRIMARY KEY (id)", "PRIMARY KEY (ip)", "names column 'ip'"),
        ("(id) NOT ENFORCED", "(id)", "write PRIMARY KEY (..) NOT ENFORCED"),
        ("n BIGINT", "n BIGNT", "Did you mean 'BIGINT'"),
        ("COMMENT 'x'", "CLUSTER x", "CLUSTER after the columns of CREATE TABLE"),
        ("'topic' = 'orders'", "'format' = 'json'", "'format' is given twice"),
        ("'topic' = 'orders'", "topic = 'orders'", "write WITH ("),
        ("TABLE totals", "TABLE orders", "is created twice"),
        ("KEY (shop)", "KEY (shop, shop)", "PRIMARY KEY names column 'shop' twice"),
        ("INSERT", "EXECUTE STATEMENT SET BEGIN INSERT", "the statement set has no END"),
        ("INSERT", "EXECUTE STATEMENT SET BEGIN END; INSERT", "the statement set is empty"),
        ("INSERT", "BEGIN STATEMENT SET;\nEND; INSERT", "the statement set is empty"),
    ],
)
def test_what_a_script_cannot_say(old: str, new: str, said: str) -> None:
    assert old in SCRIPT
    with pytest.raises(AggloomError) as raised:
        al.explain(SCRIPT.replace(old, new, 1))
    assert said in str(raised.value)
    assert "line " in str(raised.value)


def test_a_table_of_a_query_that_exists_is_refused() -> None:
    again = "CREATE TABLE IF NOT EXISTS orders WITH ('connector' = 'print') AS SELECT 1 AS other"
    with pytest.raises(AggloomError, match="table 'orders' is created twice"):
        al.explain(f"{ORDERS} {TOTALS} {again}; {INTO}")


@pytest.mark.parametrize("words", ["TABLE", "TEMPORARY TABLE"])
def test_a_table_that_exists_is_not_created_again(words: str) -> None:
    again = f"CREATE {words} IF NOT EXISTS orders (other INT) WITH ('connector' = 'print')"
    assert al.explain(f"{ORDERS} {TOTALS} {again}; {INTO}") == al.explain(SCRIPT)


@pytest.mark.parametrize(
    ("second", "table"),
    [
        ("CREATE OR REPLACE VIEW", [(2,)]),
        ("CREATE OR REPLACE TEMPORARY VIEW", [(2,)]),
        ("CREATE VIEW IF NOT EXISTS", [(1,)]),
        ("CREATE VIEW", "write CREATE OR REPLACE VIEW"),
        ("CREATE OR REPLACE VIEW IF NOT EXISTS", "take one of them out"),
    ],
)
def test_a_view_is_created_again(second: str, table: Any) -> None:
    script = (
        f"CREATE VIEW v AS SELECT a FROM t; {second} v AS SELECT a + 1 AS b FROM t; SELECT * FROM v"
    )
    if isinstance(table, str):
        with pytest.raises(AggloomError, match=table):
            al.Harness.from_sql(script, {"t": "a BIGINT"})
        return
    harness = al.Harness.from_sql(script, {"t": "a BIGINT"})
    harness.process([("+I", 1)])
    harness.flush()
    assert harness.table() == table


@pytest.mark.parametrize("options", ["WITH ('connector' = 'x')", "TBLPROPERTIES ('k' = 'x')"])
def test_a_view_has_no_options(options: str) -> None:
    script = f"CREATE VIEW v {options} AS SELECT a FROM t; SELECT * FROM v"
    with pytest.raises(AggloomError, match="in CREATE VIEW is not supported"):
        al.Harness.from_sql(script, {"t": "a BIGINT"})


def test_what_flinks_words_mean() -> None:
    source = source_of(
        table(
            "'connector'='kafka', 'topic'='a;b', 'properties.bootstrap.servers'='h:1', 'format'='canal-json', "
            "'properties.security.protocol'='SSL', 'properties.group.id'='g', 'canal-json.ignore-parse-errors'='true', "
            "'canal-json.table.include'='o.*', 'scan.startup.mode'='timestamp', 'scan.startup.timestamp-millis'='17'",
            "k INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts",
        ),
        dialect="flink",
    )
    assert source.kafka == {
        "servers": "h:1",
        "topic": ["a", "b"],
        "properties": {"security.protocol": "SSL"},
        "start": 17,
    }
    assert source.options == {"unreadable": "drop", "table": "o.*"}
    assert (source.format, source.watermark, source.sends) == (
        "canal-json",
        ("ts", "0 seconds"),
        "retract",
    )
    assert str(source.columns()) == "k: int32\nts: timestamp[us]"
    upserts = source_of(
        table(
            "'connector'='upsert-kafka','topic'='t','properties.bootstrap.servers'='h:1','value.format'='json'"
        ),
        Path("/jobs"),
    )
    assert (upserts.format, upserts.sends, upserts.keys) == ("upsert-json", "upsert", ("k",))
    files = source_of(
        table(
            "'connector'='filesystem','path'='in','format'='json','json.fail-on-missing-field'='false'"
        ),
        Path("/jobs"),
    )
    assert (files.path, files.format, files.sends) == ("/jobs/in", "jsonl", "append")
    assert files.options == {"missing": "null"}
    offsets = (
        "'scan.startup.mode'='specific-offsets',"
        "'scan.startup.specific-offsets'='partition:0,offset:4;partition:1,offset:0'"
    )
    kafka = "'connector'='kafka','topic'='t','properties.bootstrap.servers'='h:1','format'='json'"
    found = source_of(table(f"{kafka},{offsets}"))
    assert found.kafka is not None and found.kafka["start"] == {0: 4, 1: 0}
    assert source_of(table(f"{kafka},'scan.bounded.mode'='unbounded'")).kafka
    with pytest.warns(IgnoredOptionWarning, match="a run without --continuous ends where"):
        assert source_of(table(f"{kafka},'scan.bounded.mode'='latest-offset'")).kafka
    assert sink_of(table("'connector'='filesystem','path'='o','format'='json'")) == "jsonl:o"
    assert sink_of(table("'connector'='print'")) == "console"
    for options, said in (
        (f"{kafka},'scan.startup.mode'='group-offsets'", "'scan.startup.mode' is 'group-offsets'"),
        (f"{kafka},'scan.startup.mod'='x'", "Did you mean 'scan.startup.mode'"),
        (
            f"{kafka},'scan.startup.mode'='specific-offsets'",
            "'scan.startup.specific-offsets' is missing",
        ),
        (f"{kafka},'scan.bounded.mode'='timestamp'", "'scan.bounded.mode' is 'timestamp'"),
        (kafka.replace("'json'", "'jsom'"), "Did you mean 'json'"),
        (kafka.replace("'json'", "'parquet'"), "is one of files"),
        (kafka.replace("'topic'='t',", ""), "'topic' is missing"),
        ("'connector'='print'", "cannot be read from"),
    ):
        with pytest.raises(SpecError) as raised:
            source_of(table(options))
        assert said in str(raised.value)
    database = "'connector'='jdbc','url'='jdbc:sqlite:x','table-name'='t'"
    with pytest.warns(IgnoredOptionWarning, match="no effect: each batch is one transaction"):
        sink_of(read_into(f"{database},'sink.buffer-flush.interval'='1 s'"))
    with pytest.raises(OptionError, match=r"CREATE TABLE \w+: 'url' is 'jdbc:postgres:x'; jdbc:p"):
        sink_of(read_into(database.replace("sqlite", "postgres")))
    with pytest.raises(SpecError, match="existing is 'some'"):
        sink_of(read_into(f"{database},'sink.existing'='some'"))


def test_words_of_a_delta_table() -> None:
    delta = "'connector'='delta','table-path'='lake/t'"
    more = "'sink.existing'='keep','sink.attempts'='3','delta.appendOnly'='true','storage.a.b'='c'"
    assert sink_of(read_into(f"{delta},{more}"), Path("/jobs")) == {
        "kind": "delta",
        "path": "/jobs/lake/t",
        "existing": "keep",
        "attempts": "3",
        "properties": {"delta.appendOnly": "true"},
        "storage": {"a.b": "c"},
    }
    assert sink_of(read_into(f"{delta},'sink.form'='changelog'", "")) == {
        "kind": "delta",
        "path": "lake/t",
        "form": "changelog",
    }
    by_k = sink_of(read_into(delta, by=" PARTITIONED BY (k)"))
    assert by_k == {"kind": "delta", "path": "lake/t", "partition_by": ["k"]}
    with pytest.raises(OptionError, match=r"'sink.partition_by' is PARTITIONED BY once more"):
        sink_of(read_into(f"{delta},'sink.partition_by'='k'", by=" PARTITIONED BY (k)"))
    with pytest.raises(OptionError, match="PARTITIONED BY has no meaning in 'print'"):
        sink_of(read_into("'connector'='print'", by=" PARTITIONED BY (k)"))
    with pytest.raises(
        OptionError, match=r"declare PRIMARY KEY .* or say 'sink.form' = 'changelog'"
    ):
        sink_of(read_into(delta, ""))
    with pytest.raises(SpecError, match="known are table, changelog"):
        sink_of(read_into(f"{delta},'sink.form'='log'"))
    with pytest.raises(OptionError, match="'table-path' is missing"):
        sink_of(read_into("'connector'='delta'"))
    with pytest.raises(OptionError, match=r"'table-path' is missing \(there is 'path'\)"):
        sink_of(read_into("'connector'='delta','path'='t'"))
    with pytest.raises(OptionError, match=r"Did you mean .sink.form."):
        sink_of(read_into(f"{delta},'sink.from'='x'"))


def test_words_of_a_delta_table_that_is_read(tmp_path: Path) -> None:
    deltalake = pytest.importorskip("deltalake")
    deltalake.write_deltalake(tmp_path / "t", pa.table({"k": pa.array([1], pa.int32()), "v": [2]}))
    delta = "'connector'='delta','table-path'='t'"
    more = "'startingVersion'='0','max_versions_per_trigger'='5','storage.a.b'='c'"
    made = source_of(table(f"{delta},{more}", "k INT"), tmp_path)
    assert made.lake == {
        "connector": "delta",
        "path": f"{tmp_path}/t",
        "start": 0,
        "storage": {"a.b": "c"},
        "max_versions_per_trigger": 5,
    }
    assert source_of(table(delta, "k INT"), tmp_path).columns() == pa.schema([("k", pa.int32())])
    for options, said in (
        ("'startingVersion'='0','startingTimestamp'='2026-01-01'", "are both given"),
        ("'startingVersion'='first'", "must be a whole number"),
        ("'startingVersion'='0','start'='latest'", "'startingVersion' and 'start' are both given"),
        ("'max_versions_per_trigger'='many'", "must be a whole number"),
        ("'start'='lately'", "CREATE TABLE t: start is 'lately'; it must be snapshot, latest"),
        ("'format'='json'", "there is no option 'format' here"),
        ("'unreadable'='drop'", "there is no option 'unreadable' here"),
        ("'changes'='upsert'", "tells the rows that it replaces"),
    ):
        with pytest.raises(SpecError) as raised:
            source_of(table(f"{delta},{options}"), tmp_path)
        assert said in str(raised.value)


def test_words_of_an_iceberg_table(tmp_path: Path) -> None:
    pytest.importorskip("pyiceberg")
    options = (
        f"'connector'='iceberg','catalog-name'='c','catalog-type'='sql','uri'='sqlite:///{tmp_path}/c.db',"
        f"'warehouse'='file://{tmp_path}/w','catalog-database'='db'"
    )
    more = "'sink.existing'='keep','write.format.default'='parquet','catalog.s3.region'='x'"
    connect = {
        "type": "sql",
        "uri": f"sqlite:///{tmp_path}/c.db",
        "warehouse": f"file://{tmp_path}/w",
    }
    assert sink_of(read_into(f"{options},{more}")) == {
        "kind": "iceberg",
        "table": "db.t",
        "catalog": "c",
        "existing": "keep",
        "connect": {"s3.region": "x", **connect},
        "properties": {"write.format.default": "parquet"},
    }
    made = source_of(table(f"{options},'start-snapshot-id'='17','max_versions_per_trigger'='3'"))
    assert made.lake == {
        "connector": "iceberg",
        "path": "db.t",
        "catalog": "c",
        "connect": connect,
        "start": 17,
        "max_versions_per_trigger": 3,
    }
    for wrong, said in (
        ("'start-snapshot-id'='17','start'='latest'", "'start' are both given; leave one out"),
        ("'streaming'='false'", "'streaming' is 'false'"),
        ("'catalog-tabel'='x'", "Did you mean 'catalog-table'"),
    ):
        with pytest.raises(SpecError) as raised:
            source_of(table(f"{options},{wrong}"))
        assert said in str(raised.value)
    with pytest.warns(IgnoredOptionWarning, match="a trigger says how often"):
        assert (
            source_of(table(f"{options},'monitor-interval'='1s'")).lake
            == source_of(table(options)).lake
        )
    with pytest.raises(SpecError, match="write the table's name with its namespace"):
        table_source("t", {"connector": "iceberg", "path": "t"}, "job")
    with pytest.raises(SpecError, match="there is no such table"):
        read_table_option(
            f"t=db.t,connector=iceberg,connect.type=sql,connect.uri={connect['uri']}"
        ).columns()


def test_a_delta_table_of_a_job(tmp_path: Path) -> None:
    deltalake = pytest.importorskip("deltalake")
    deltalake.write_deltalake(tmp_path / "t", pa.table({"k": [1], "v": ["a"]}))
    whole = pa.schema([("k", pa.int64()), ("v", pa.string())])
    told = {"connector": "delta", "path": "t", "start": "latest"}
    made = table_source("t", told, "job", tmp_path)
    assert made.columns() == whole and made.sends is None
    text = f"t={tmp_path}/t,connector=delta,schema=v STRING, _commit_version BIGINT,storage.a=b"
    made = read_table_option(text)
    assert made.columns() == pa.schema([("v", pa.string()), ("_commit_version", pa.int64())])
    assert made.lake is not None and made.lake["storage"] == {"a": "b"}
    for more, said in (
        ({"schema": "k INT"}, "'k' is int64 in the table, not int32"),
        ({"schema": "w INT"}, "there is no column 'w'"),
        ({"formt": "x"}, "there is no entry 'formt'"),
        ({"storage": 3}, "storage is 3; it must be a mapping"),
        ({"max_versions_per_trigger": "x"}, "must be a whole number"),
        ({"path": ""}, "a table of delta needs a path"),
        ({"connector": "dleta"}, "Did you mean 'delta'"),
    ):
        with pytest.raises(SpecError) as raised:
            table_source("t", told | more, "job", tmp_path).columns()
        assert said in str(raised.value)


def read_into(options: str, key: str = ", PRIMARY KEY (k) NOT ENFORCED", by: str = "") -> Any:
    table = f"CREATE TABLE t (k INT{key}){by} WITH ({options})"
    script = read_script(f"{table}; INSERT INTO t SELECT 1")
    return script.created["t"]


def test_several_queries_are_scripts_of_their_own() -> None:
    two = f"EXECUTE STATEMENT SET BEGIN {INTO}; {INTO.replace('totals', 'other')}; END;"
    first, second = insertions(ORDERS + two)
    assert len(first) == len(second) == len(ORDERS + two)
    assert "INTO totals" in first and "INTO other" not in first and "STATEMENT" not in first
    assert "INTO other" in second and "CREATE" in second
    before = read_script("WITH a AS (SELECT 1 AS x FROM t) INSERT INTO s SELECT x FROM a")
    assert before.query.sql() == "WITH a AS (SELECT 1 AS x FROM t) SELECT x FROM a"
    with pytest.raises(AggloomError, match="WITH before and in an INSERT"):
        read_script("WITH a AS (SELECT 1) INSERT INTO s WITH b AS (SELECT 1) SELECT 1 FROM a")
    with pytest.raises(AggloomError, match="there are two queries"):
        read_script(ORDERS + INTO + ";" + INTO)
    job = complete({"sql": f"{SCRIPT}; EXPLAIN {INTO}", "checkpoint": "c"}, "run")
    jobs, plans = jobs_of(job)
    assert [str(each.checkpoint) for each in jobs] == ["c/totals"]
    assert jobs[0].key == ("shop",) and plans[0].startswith("plan")
    with pytest.raises(SpecError, match="leave sink out"):
        jobs_of(complete({"sql": SCRIPT, "sink": "table", "checkpoint": "c"}, "run"))
    with pytest.raises(SpecError, match="there is no `checkpoint`"):
        jobs_of(complete({"sql": SCRIPT}, "run"))
    with pytest.raises(SpecError, match="go into one table"):
        jobs_of(complete({"sql": f"{SCRIPT};{INTO}", "checkpoint": "c"}, "run"))


@pytest.mark.spark
def test_a_script_runs(spark: Any, tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    lines = [{"id": n, "shop": "ab"[n % 2], "amount": n} for n in range(5)]
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.json").write_text("\n".join(map(json.dumps, lines)))
    script = tmp_path / "job.sql"
    script.write_text(f"""
        CREATE TABLE orders (id BIGINT, shop STRING, amount INT, PRIMARY KEY (id) NOT ENFORCED) WITH
          ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json');
        CREATE TABLE totals (shop STRING, n BIGINT, PRIMARY KEY (shop) NOT ENFORCED) WITH
          ('connector' = 'jdbc', 'url' = 'jdbc:sqlite:{tmp_path}/totals.db', 'table-name' = 'totals');
        CREATE TABLE large (id BIGINT) WITH ('connector' = 'filesystem', 'path' = 'out', 'format' = 'json');
        EXPLAIN SELECT * FROM orders;
        EXECUTE STATEMENT SET BEGIN
        INSERT INTO totals SELECT shop, COUNT(*) FROM orders GROUP BY shop;
        INSERT INTO large SELECT id FROM orders WHERE amount > 2;
        END;
        """)
    told = ["run", str(script), "--checkpoint", str(tmp_path / "c")]
    result = CliRunner().invoke(main, told)
    assert result.exit_code == 0, result.output
    assert "TableSourceScan(table=[[orders]]" in result.output
    connection = sqlite3.connect(tmp_path / "totals.db")
    assert connection.execute("SELECT * FROM totals ORDER BY 1").fetchall() == [("a", 3), ("b", 2)]
    connection.close()
    written = "".join(path.read_text() for path in (tmp_path / "out").glob("*.json"))
    assert sorted(json.loads(line)["id"] for line in written.splitlines()) == [3, 4]
    result = CliRunner().invoke(main, told)
    assert result.exit_code == 0, result.output
    assert "0 batches" in result.output or "no batch" in result.output


def test_topics_and_scripts_in_job_files(tmp_path: Path) -> None:
    job = tmp_path / "job.yaml"
    topic = "{connector: kafka, servers: 'h:1', topic: t, format: jsonl, start: '17', schema: k INT"
    job.write_text(f"sql: SELECT k FROM t\ntables:\n  t: {topic}, unreadable: drop}}\n")
    (table,) = read_job(job).tables
    assert table.kafka == {"servers": "h:1", "topic": "t", "start": 17}
    assert (table.path, table.options) == ("", {"unreadable": "drop"})
    for old, new, said in (
        ("kafka", "kafak", "Did you mean 'kafka'"),
        ("topic: t, ", "", "a topic of Kafka needs topic"),
        ("jsonl", "csv", "a topic has a schema, no path"),
        (", schema: k INT", "", "a topic has a schema, no path"),
        ("start: '17'", "strat: 17", "Did you mean 'start'"),
    ):
        with pytest.raises(SpecError) as raised:
            changed = (topic + "}").replace(old, new, 1)
            read_job(written(job, f"sql: SELECT k FROM t\ntables:\n  t: {changed}\n"))
        assert said in str(raised.value)
    read_job(written(job, "sql: |\n" + "".join(f"  {line}\n" for line in SCRIPT.splitlines())))
    with pytest.raises(SpecError, match="there is no `tables`"):
        complete({"sql": "SELECT 1 FROM t"}, "run")


def written(job: Path, text: str) -> Path:
    job.write_text(text)
    return job


SINK_OPTIONS = {
    "database": "'connector'='jdbc','url'='jdbc:sqlite:x','table-name'='t'",
    "delta": "'connector'='delta','table-path'='lake/t'",
    "iceberg": "'connector'='iceberg','catalog-name'='c'",
    "kafka": "'connector'='kafka','topic'='t','properties.bootstrap.servers'='h:1','format'='debezium-json'",
}


@pytest.mark.parametrize("kind", SINK_OPTIONS)
def test_options_of_a_sink_are_those_of_its_dataclass(kind: str) -> None:
    """An option that is added there is an entry of jobs, a word of CREATE TABLE, and in both pages."""
    pages = {name: (ROOT / "docs" / name).read_text() for name in ("sinks.md", "scripts.md")}
    words = sink_words(SINKS[kind])
    assert {"existing", "replay", "create"} <= set(words)
    examples = {"bool": "true", "int": "7", "tuple[str, ...]": "k"}
    for field in fields(SINKS[kind]):
        assert f"`{field.name}`" in pages["sinks.md"]
        if field.name not in words:
            continue
        value = {"existing": "keep", "form": "table"}.get(field.name)
        value = value or examples.get(str(field.type), "x")
        found = sink_of(read_into(f"{SINK_OPTIONS[kind]},'{words[field.name]}'='{value}'"))
        assert isinstance(found, dict) and found[field.name] == value
        assert f"`{words[field.name]}`" in pages["scripts.md"]
