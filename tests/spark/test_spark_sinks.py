"""The database sink on Spark: keys from the plan, kills between its commit and Spark's, jobs and the command line."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from aggloom.cli import main
from aggloom.errors import SinkError, SpecError
from aggloom.job import complete, read_job
from aggloom.tables import read_table_option

pytest.importorskip("pyspark")

import aggloom as al

QUERY = "SELECT name, SUM(cnt) AS s FROM t GROUP BY name"
DDL = "name STRING, cnt INT"


def put(directory: Path, number: int, *rows: tuple[str, int, str]) -> None:
    directory.mkdir(exist_ok=True)
    lines = [json.dumps({"name": n, "cnt": c, "op": op}) for n, c, op in rows]
    (directory / f"{number}.jsonl").write_text("\n".join(lines))


def content(file: Path) -> list[Any]:
    connection = sqlite3.connect(file)
    found = connection.execute("SELECT * FROM totals ORDER BY 1").fetchall()
    connection.close()
    return found


def test_what_a_job_says_of_its_sink(tmp_path: Path) -> None:
    table = read_table_option("t=in,format=csv,schema=k INT")
    told = {"sql": QUERY, "tables": (table,), "checkpoint": "c"}
    text = "database,driver=sqlite3,table=totals,connect=host=a dbname=b"
    wanted = {"kind": "database", "driver": "sqlite3", "table": "totals"}
    assert complete(told | {"sink": text}, "run").sink == wanted | {"connect": "host=a dbname=b"}
    assert complete(told | {"sink": "jsonl:a,b"}, "run").sink == "jsonl:a,b"
    bare = {key: told[key] for key in ("sql", "tables")}
    assert complete(bare, "run").checkpoint is None
    with pytest.raises(SpecError, match="there is no `checkpoint`; a sink that keeps"):
        complete(bare | {"sink": "jsonl:out"}, "run")
    for sink, why in (
        ("database,table=t,table=u,connect=x", "says something twice"),
        ("database,tabel=t,connect=x", "Did you mean 'table'"),
        (3, "it must be text, or a mapping with its kind"),
    ):
        with pytest.raises(SpecError, match=why):
            complete(told | {"sink": sink}, "run")
    job = tmp_path / "job.yaml"
    job.write_text(
        f"sql: {QUERY}\ntables:\n  t: {{path: in, format: csv, schema: k INT}}\ncheckpoint: c\n"
        "sink: {kind: database, driver: sqlite3, table: totals, connect: x}\n"
    )
    assert read_job(job).sink == wanted | {"connect": "x"}


@pytest.mark.spark
def test_a_table_of_a_database_over_kills_and_restarts(
    spark: Any, tmp_path: Path, killed_after_writing: Callable[[], AbstractContextManager[None]]
) -> None:
    file, source = tmp_path / "db", tmp_path / "in"
    sink = {"kind": "database", "driver": "sqlite3", "connect": str(file), "table": "totals"}
    put(source, 0, ("a", 1, "+I"), ("b", 2, "+I"))

    def run(checkpoint: str, query: str = QUERY, **more: Any) -> None:
        df = al.read_changes(spark, source, "jsonl", DDL)
        out = al.sql(query, t=df, buckets=1, backend="python")
        al.await_end(al.write_changes(out, sink | more, tmp_path / checkpoint))

    with pytest.raises(
        SpecError, match=r"no columns tell the rows .* Select the columns of GROUP BY"
    ):
        run("none", "SELECT SUM(cnt) AS s FROM t GROUP BY name")
    assert not (tmp_path / "none").exists()
    run("one")
    assert content(file) == [("a", 1), ("b", 2)]
    put(source, 1, ("a", 4, "+I"), ("b", 2, "-D"))
    with killed_after_writing(), pytest.raises(Exception, match="killed"):
        run("one")
    assert content(file) == [("a", 5)]
    connection = sqlite3.connect(file)
    connection.execute(
        "CREATE TRIGGER no BEFORE INSERT ON totals BEGIN SELECT RAISE(ABORT, 'twice'); END"
    )
    connection.commit()
    # Spark runs the batch again, and the table has it.
    run("one")
    connection.execute("DROP TRIGGER no")
    connection.commit()
    # A new checkpoint begins with batch 0, which the table knows of another: nothing is dropped.
    put(source, 2, ("c", 7, "+I"))
    run("two", existing="replace")
    assert content(file) == [("a", 5), ("c", 7)]


@pytest.mark.spark
def test_the_command_line_writes_to_postgresql(spark: Any, tmp_path: Path) -> None:
    from postgres import server

    changes = [
        {"type": "INSERT", "data": [{"name": "a", "cnt": "1"}, {"name": None, "cnt": "2"}]},
        {"type": "UPDATE", "data": [{"name": "a", "cnt": "5"}], "old": [{"cnt": "1"}]},
    ]
    (tmp_path / "in.json").write_text("\n".join(map(json.dumps, changes)))
    with server() as made:
        done = CliRunner().invoke(
            main,
            [
                *(
                    "run",
                    "--sql",
                    QUERY,
                    "--checkpoint",
                    str(tmp_path / "c"),
                    "--backend",
                    "python",
                ),
                *("--table", f"t={tmp_path}/in.json,format=canal-json,schema={DDL}"),
                *("--sink", f"database,table=totals,connect={made.url}"),
            ],
        )
        assert done.exit_code == 0, done.output
        with made.connect() as connection:
            found = connection.execute("SELECT * FROM totals ORDER BY 1").fetchall()
            log = connection.execute("SELECT sink, batch FROM aggloom_batches").fetchall()
    assert found == [("a", 5), (None, 2)]
    assert log == [("totals", 0)]


@pytest.mark.spark
def test_a_run_without_a_checkpoint_leaves_nothing(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path / "in", 0, ("a", 1, "+I"))
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    done = CliRunner().invoke(
        main,
        [
            *("run", "--sql", "SELECT * FROM t", "--sink", "table", "--json"),
            *("--table", f"t={tmp_path}/in/*.jsonl,schema={DDL}"),
        ],
    )
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["table"] == [{"name": "a", "cnt": 1}]
    assert not list((tmp_path / "temporary").glob("aggloom-run-*"))


@pytest.mark.parametrize("query", [QUERY, "SELECT name, cnt FROM t"])
@pytest.mark.sampled(1)
def test_files_of_another_checkpoint_stay(
    spark: Any, tmp_path: Path, query: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark's sink of files knows batches by their numbers alone, and passes over those that it has.

    Paths are relative to where this process is now, and not to where it started Spark.
    """
    monkeypatch.chdir(tmp_path)
    source, sink = Path("in"), {"kind": "jsonl", "path": "out"}

    def run(checkpoint: str) -> None:
        df = al.read_changes(spark, source, "jsonl", DDL)
        out = al.sql(query, t=df, buckets=1, backend="python")
        al.await_end(al.write_changes(out, sink, checkpoint))

    def written() -> list[Any]:
        files = (tmp_path / "out").glob("*.json")
        return sorted(
            str(json.loads(line)) for file in files for line in file.read_text().splitlines()
        )

    put(source, 0, ("a", 1, "+I"))
    run("one")
    assert len(written()) == 1
    assert query != QUERY or len(al.state("one", spark=spark).operators) == 1
    for _ in range(2):
        with pytest.raises(SinkError, match="batches of another checkpoint"):
            run("two")
        assert len(written()) == 1
    shutil.copytree(tmp_path / "one", tmp_path / "older")
    put(source, 1, ("b", 1, "+I"))
    run("one")
    now = written()
    assert len(now) == 2
    with pytest.raises(SinkError, match=r"has batch 1 already, .* restored from an older copy"):
        run("older")
    assert written() == now
    put(source, 2, ("c", 1, "+I"))
    run("one")
    assert len(written()) == 3


@pytest.mark.parametrize("sink", ["jsonl", "parquet"])
@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
@pytest.mark.sampled(2)
def test_files_hold_every_value_as_it_is(spark: Any, tmp_path: Path, sink: str, zone: str) -> None:
    ddl = (
        "k STRING, at TIMESTAMP, wall TIMESTAMP_NTZ, day DATE, clock TIME, d DOUBLE, f FLOAT, m DECIMAL(20,5), "
        "b BINARY, st STRUCT<p: TIMESTAMP, q: DOUBLE>"
    )
    rows = [
        '{"k":"a","at":"2024-03-10T02:30:00.123456Z","wall":"1969-12-31T23:59:59.999999","day":"1582-10-10",'
        '"clock":"12:00:00.000001","d":0.1,"f":0.1,"m":1.23456,"b":"AAE=","st":{"p":"1900-01-01T00:00:00.000001Z"}}',
        '{"k":"b","at":"0001-01-02T00:00:00.000001Z","wall":"9999-12-31T23:59:59.999999","d":"NaN","f":"Infinity"}',
        '{"k":"\\u0000\\u2028","d":1e-320,"m":123456789012345.67891}',
        '{"k":null}',
    ]
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "rows").write_text("\n".join(rows))
    old = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        for each in (f"{sink}:{tmp_path}/out", "table"):
            out = al.sql(
                "SELECT DISTINCT * FROM t", t=al.read_changes(spark, tmp_path / "in", "jsonl", ddl)
            )
            al.await_end(al.write_changes(out, each, tmp_path / each[:5]))
        again = al.read_changes(spark, tmp_path / "out", sink, ddl, streaming=False)
        found = again.drop("_change_type").toArrow().to_pylist()
    finally:
        spark.conf.set("spark.sql.session.timeZone", old)
    wanted = al.read_table(tmp_path / "table").to_pylist()
    assert len(found) == len(rows)
    assert sorted(map(repr, found)) == sorted(map(repr, wanted))
