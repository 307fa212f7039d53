"""Queries that move from one engine to the other at any batch: DuckDB's table, each batch once, whatever is killed.

`make moves COUNT=50 SEED=0` plays so many random queries instead of a few.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from engine_jobs import (
    ORDERS,
    expected_rows,
    job_over,
    random_changes,
    rows_of_table,
    run_to_end,
    write_files,
)

import aggloom as al
from aggloom import local
from aggloom import move as move_module
from aggloom.cli import main
from aggloom.codegen.planner import PlanOptions, plan_query
from aggloom.durable_files import write_whole
from aggloom.errors import CheckpointError, SpecError
from aggloom.job import Job
from aggloom.job_plan import declared_tables
from aggloom.move import move_checkpoint
from aggloom.runtime.engine import hand_over
from aggloom.runtime.engine.checkpoint import LocalCheckpoint
from aggloom.runtime.hosting.checkpoint_paths import HAND_OVER, batches, refuse_moved
from aggloom.runtime.spark.moving import begin
from aggloom.runtime.spark.watch.followers import wait_for_follower
from tests.engine.test_local_oracle import open_query
from tests.spark.test_spark_nested import (
    Asked,
    drawn_options,
    folded,
    over_tables,
    over_windows,
    write,
)

pytestmark = pytest.mark.spark

_FIRST, _COUNT = map(int, os.environ.get("AGGLOOM_MOVES", "0:2").split(":"))
_OTHER = {"spark": "local", "local": "spark"}


class Killed(BaseException):
    """The end of a process, played."""


def await_rest(query: Any) -> None:
    """Wait until a query has ended, and its journal says so."""
    al.await_end(query)
    wait_for_follower(query)


def run_on_spark(spark: Any, job: Job, **options: Any) -> None:
    """Run a job on Spark to the end of its files."""
    tables = {}
    for table in job.tables:
        caps = {"max_files_per_trigger": 1}
        tables[table.name] = al.read_changes(spark, table.path, "jsonl", ORDERS, **caps)
    out = al.sql(
        job.sql,
        tables=tables,
        backend=job.backend,
        input_changes={t.name: t.sends or job.changes for t in job.tables},
        watermarks={t.name: t.watermark for t in job.tables if t.watermark},
        options={**job.options, **options},
    )
    assert job.checkpoint is not None
    await_rest(al.write_changes(out, job.sink, job.checkpoint))


def run_asked(spark: Any, engine: str, asked: Asked, place: Path, about: dict[str, Any]) -> None:
    """Run a random query over its files so far."""
    if engine == "local":
        plan = plan_query(
            asked.script,
            asked.tables,
            input_changes=about["changes"],
            dialect=asked.dialect,
            watermarks=asked.watermarks,
            options=PlanOptions.of(about["options"]),
        )
        query = open_query(asked, plan, place, about["buckets"], about["files"])
        try:
            query.run()
        finally:
            query.close()
        return
    most = {"max_files_per_trigger": about["files"]}
    frames = {
        name: al.read_changes(spark, place / "in" / name, "parquet", schema, **most)
        for name, schema in asked.tables.items()
    }
    out = al.sql(
        asked.script,
        tables=frames,
        input_changes=about["changes"],
        dialect=asked.dialect,
        backend="python",
        watermarks=asked.watermarks,
        options=about["options"],
    )
    await_rest(al.write_changes(out, f"parquet:{place / 'out'}", place / "checkpoint"))


@pytest.mark.parametrize("seed", range(_FIRST, _FIRST + _COUNT))
@pytest.mark.thorough
def test_random_queries_move_at_random_batches(spark: Any, tmp_path: Path, seed: int) -> None:
    draws = random.Random(seed)
    windows, retracts = seed % 2 == 0, draws.random() < 0.5
    asked = (over_windows if windows else over_tables)(draws, retracts)
    about = {
        "options": drawn_options(draws),
        "changes": "retract" if retracts else "append",
        "buckets": draws.choice([1, 3, 8]),
        "files": draws.choice([1, 2]),
    }
    engine, first = draws.choice(["spark", "local"]), draws.randrange(len(asked.batches) - 1)
    moves, checkpoint = 0, tmp_path / "checkpoint"
    for number in range(len(asked.batches)):
        for name, schema in asked.tables.items():
            rows = [row for table, row in asked.batches[number] if table == name]
            write(tmp_path / "in" / name, number, schema, rows)
        last = number == len(asked.batches) - 1
        if last or number >= first or draws.random() < 0.5:
            run_asked(spark, engine, asked, tmp_path, about)
            if not last and (number == first or draws.random() < 0.5):
                engine, moves = _OTHER[engine], moves + 1
                move_checkpoint(checkpoint, tmp_path / "next", engine)
                checkpoint.rename(tmp_path / f"was {moves}")
                # Spark keeps whole paths: its own checkpoint is made where it is to stay.
                (tmp_path / "next").rename(checkpoint)
    assert moves
    found = folded((tmp_path / "out").rglob("*.parquet"), windows)
    assert found == asked.table, (asked.script, about)


def bytes_of(root: Path) -> dict[Path, bytes]:
    """The contents of all files below a directory."""
    return {file: file.read_bytes() for file in root.rglob("*") if file.is_file()}


def local_job(tmp_path: Path, name: str, query: str = "sums", sink: Any = "table") -> Job:
    """A job over files of orders, as both engines take it."""
    about = {"keep_open": True, "dialect": "spark"}
    job = job_over(tmp_path / "in", query, tmp_path / name, sink)
    return Job(**{**vars(job), **about})


def test_a_database_has_each_batch_once(spark: Any, tmp_path: Path) -> None:
    file = tmp_path / "db"
    sink = {"kind": "database", "table": "sums", "connect": str(file), "driver": "sqlite3"}
    changes = random_changes(3, 120)
    names = ["a", "b", "c", "d"]
    for number, name in enumerate(names):
        write_files(tmp_path / "in", changes[30 * number : 30 * number + 30], 2, start=2 * number)
        job = local_job(tmp_path, name, sink=sink)
        if number:
            move_checkpoint(
                tmp_path / names[number - 1], tmp_path / name, "local" if number == 2 else "spark"
            )
        if number % 2:
            run_on_spark(spark, job)
        else:
            run_to_end(job)
        with closing(sqlite3.connect(file)) as db:
            found = db.execute("SELECT customer, n, s, m FROM sums").fetchall()
            # Under the id of the first checkpoint, by numbers that go on.
            assert list(db.execute("SELECT batch FROM aggloom_batches")) == [
                (batches(tmp_path / name / "commits")[-1],)
            ]
        assert sorted(found, key=repr) == sorted(expected_rows(job), key=repr)
    with pytest.raises(CheckpointError, match="moved"):
        run_to_end(local_job(tmp_path, "a", sink=sink))
    with pytest.raises(CheckpointError, match="moved"):
        run_on_spark(spark, local_job(tmp_path, "b", sink=sink))


def test_topics_move(spark: Any, broker: Any, tmp_path: Path) -> None:
    """Offsets go along; a topic as the sink has each batch in one transaction, under the checkpoint's id."""
    source, out = broker.topic("move.orders", 2), "move.totals"
    script = "SELECT customer, COUNT(*) AS n, SUM(amount) AS s FROM orders GROUP BY customer"
    schema = "customer STRING, amount INT"
    sink = {"kind": "kafka", "servers": broker.servers, "topic": out, "format": "debezium-json"}
    rows: list[tuple[str, int]] = []
    for number, engine in enumerate(("local", "spark", "local")):
        new = [(name, amount + number) for name in ("Ada", "Zoë") for amount in range(5)]
        rows += new
        images = [{"customer": name, "amount": amount} for name, amount in new]
        values = [json.dumps({"before": None, "after": image, "op": "c"}) for image in images]
        broker.send(source, *((None, value, place % 2) for place, value in enumerate(values)))
        place = tmp_path / str(number)
        if number:
            move_checkpoint(tmp_path / str(number - 1), place, engine)
        if engine == "local":
            table = local.read_kafka(broker.servers, source, "debezium-json", schema)
            local.await_end(
                local.write_changes(local.sql(script, orders=table, backend="python"), sink, place)
            )
        else:
            df = al.read_kafka(spark, broker.servers, source, "debezium-json", schema)
            await_rest(al.write_changes(al.sql(script, orders=df, backend="python"), sink, place))
        left: Counter[Any] = Counter()
        for _, value in broker.read(out):
            told = json.loads(value)
            image = told["after"] if told["op"] == "c" else told["before"]
            left[tuple(image.values())] += 1 if told["op"] == "c" else -1
            assert set(left.values()) <= {0, 1}
        totals = {
            name: (sum(n == name for n, _ in rows), sum(a for n, a in rows if n == name))
            for name in ("Ada", "Zoë")
        }
        assert {row[0]: row[1:] for row, count in left.items() if count} == totals


@pytest.mark.thorough
def test_tables_of_delta_move(spark: Any, tmp_path: Path) -> None:
    deltalake = pytest.importorskip("deltalake")
    script = "SELECT customer, SUM(amount) AS s FROM orders GROUP BY customer"
    sink = {"kind": "delta", "path": str(tmp_path / "totals")}
    for number, engine in enumerate(("local", "spark", "local")):
        rows = pa.table({"customer": ["Ada", "Zoë"], "amount": pa.array([1, 10], pa.int32())})
        deltalake.write_deltalake(str(tmp_path / "orders"), rows, mode="append")
        place = tmp_path / str(number)
        if number:
            move_checkpoint(tmp_path / str(number - 1), place, engine)
        if engine == "local":
            table = local.read_delta(tmp_path / "orders")
            local.await_end(
                local.write_changes(local.sql(script, orders=table, backend="python"), sink, place)
            )
        else:
            df = al.read_delta(spark, tmp_path / "orders")
            await_rest(al.write_changes(al.sql(script, orders=df, backend="python"), sink, place))
        found = pa.table(deltalake.DeltaTable(str(tmp_path / "totals")).to_pyarrow_table())
        assert {r["customer"]: r["s"] for r in found.to_pylist()} == {
            "Ada": number + 1,
            "Zoë": 10 * number + 10,
        }


@pytest.mark.thorough
def test_windows_over_a_wall_clock_move(spark: Any, tmp_path: Path) -> None:
    """In dialect flink TIMESTAMP has no zone, on either engine; windows that are open are closed by the other one."""
    changes = random_changes(7, 90, retracts=False)
    for number, name in enumerate(("a", "b", "c")):
        write_files(tmp_path / "in", changes[30 * number : 30 * number + 30], 1, start=number)
        about = {"engine": "spark" if number == 1 else "local", "keep_open": number < 2}
        job = job_over(tmp_path / "in", "windows", tmp_path / name, **about)
        if number:
            move_checkpoint(tmp_path / "ab"[number - 1], tmp_path / name, job.engine)
        if number == 1:
            # As `aggloom run` reads the table.
            tables = {table.name: table.frame(spark, job.dialect) for table in job.tables}
            out = al.sql(job.sql, tables=tables, backend=job.backend, **declared_tables(job))
            await_rest(al.write_changes(out, job.sink, tmp_path / name))
        else:
            run_to_end(job)
    assert rows_of_table(tmp_path / "c") == expected_rows(job)


def test_calls_change_and_a_key_is_explained_after_a_move(spark: Any, tmp_path: Path) -> None:
    """The state of the other engine is carried over to other calls, and read by `why`."""
    changes = random_changes(5, 60)
    write_files(tmp_path / "in", changes[:40], 2)
    run_to_end(local_job(tmp_path, "a"))
    move_checkpoint(tmp_path / "a", tmp_path / "b", "spark")
    write_files(tmp_path / "in", changes[40:], 1, start=2)
    fewer = "SELECT customer, COUNT(*) AS n, SUM(amount) AS s FROM orders GROUP BY customer"
    job = Job(**{**vars(local_job(tmp_path, "b")), "sql": fewer})
    run_on_spark(spark, job)
    assert rows_of_table(tmp_path / "b") == expected_rows(job)
    replayed = al.why(tmp_path / "b", key={"customer": "Ada"}, spark=spark)
    assert "Ada" in str(replayed)


@pytest.mark.thorough
def test_a_killed_first_batch_on_spark_begins_anew(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = random_changes(5, 60)
    write_files(tmp_path / "in", changes[:40], 2)
    run_to_end(local_job(tmp_path, "a"))
    move_checkpoint(tmp_path / "a", tmp_path / "b", "spark")
    write_files(tmp_path / "in", changes[40:], 1, start=2)
    job = local_job(tmp_path, "b")
    with pytest.raises(CheckpointError, match="--engine spark"):
        run_to_end(job)

    def die(*_: Any) -> None:
        raise Killed

    for step in ("_take_states", "_renumber", "sync_directory"):
        with monkeypatch.context() as patch:
            patch.setattr(begin, step, die)
            with pytest.raises(Killed):
                run_on_spark(spark, job)
        if step == "sync_directory":
            break
        assert (tmp_path / "b" / HAND_OVER).is_dir()
    run_on_spark(spark, job)
    assert rows_of_table(tmp_path / "b") == expected_rows(job)
    assert not list((tmp_path / "b").glob(f"{HAND_OVER}*"))


def test_a_move_that_is_killed_harms_nothing(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_files(tmp_path / "in", random_changes(5, 60), 2)
    run_to_end(local_job(tmp_path, "a"))
    run_on_spark(spark, local_job(tmp_path, "s"))
    for source, to in (("a", "spark"), ("s", "local")):
        before = bytes_of(tmp_path / source)
        for after in range(1, 30):
            left = after

            def write_or_die(file: Path, pieces: Any) -> None:
                nonlocal left
                left -= 1
                if not left:
                    file.with_name(file.name + ".new").write_bytes(b"half")
                    raise Killed
                write_whole(file, pieces)

            with monkeypatch.context() as patch:
                for module in (move_module, hand_over, hand_over.layout):
                    patch.setattr(module, "write_whole", write_or_die)
                try:
                    move_checkpoint(tmp_path / source, tmp_path / f"to {to}", to)
                except Killed:
                    after_kill = bytes_of(tmp_path / source)
                    for name in ("aggloom-moved.json.new", "aggloom-moved.json"):
                        after_kill.pop(tmp_path / source / name, None)
                    assert after_kill == before
                    if (tmp_path / f"to {to}").exists():
                        # Both are whole, and one of them goes on.
                        with pytest.raises(CheckpointError, match="was moved"):
                            refuse_moved(tmp_path / source)
                        shutil.rmtree(tmp_path / f"to {to}")
                    else:
                        refuse_moved(tmp_path / source)
                else:
                    break
        assert 4 < after < 29
        assert (tmp_path / f"to {to}").is_dir()


def test_what_cannot_be_moved_is_refused(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(source: Path, to: str, match: str, kind: type[Exception] = CheckpointError) -> None:
        before = bytes_of(tmp_path)
        with pytest.raises(kind, match=match):
            move_checkpoint(source, tmp_path / "new", to)
        after = bytes_of(tmp_path)
        assert {f: b for f, b in after.items() if f.name != "lock"} == {
            f: b for f, b in before.items() if f.name != "lock"
        }
        assert not (tmp_path / "new").exists()

    orders = local.from_rows([("+I", "Ada", 30)], "customer STRING, amount INT")
    totals = local.sql(
        "SELECT customer, SUM(amount) AS s FROM orders GROUP BY customer", orders=orders
    )
    local.await_end(local.write_changes(totals, "table", tmp_path / "rows"))
    refused(tmp_path / "rows", "spark", "rows of a Python process")
    refused(tmp_path / "rows", "local", "already", SpecError)
    write_files(tmp_path / "in", random_changes(5, 60), 2)
    with monkeypatch.context() as patch:
        patch.setattr(LocalCheckpoint, "commit", lambda *_, **__: (_ for _ in ()).throw(Killed))
        with pytest.raises(Killed):
            run_to_end(local_job(tmp_path, "a"))
    refused(tmp_path / "a", "spark", "no batch is committed")
    run_to_end(local_job(tmp_path, "a"))
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes.txt").write_text("mine")
    with pytest.raises(CheckpointError, match="there already"):
        move_checkpoint(tmp_path / "a", tmp_path / "full", "spark")
    run_on_spark(spark, local_job(tmp_path, "s"))
    last = batches(tmp_path / "s" / "commits")[-1]
    for name in (str(last), f".{last}.crc"):
        (tmp_path / "s" / "commits" / name).unlink()
    refused(tmp_path / "s", "local", "begun and is not committed")
    (tmp_path / "s" / "aggloom-sources.json").unlink()
    run_on_spark(spark, local_job(tmp_path, "s"))
    (tmp_path / "s" / "aggloom-sources.json").unlink()
    refused(tmp_path / "s", "local", "which tables its sources are")


def test_the_command_says_what_comes_next(tmp_path: Path) -> None:
    from click.testing import CliRunner

    write_files(tmp_path / "in", random_changes(5, 60), 2)
    run_to_end(local_job(tmp_path, "a"))
    done = CliRunner().invoke(
        main, ["move", str(tmp_path / "a"), str(tmp_path / "b"), "--to", "spark"]
    )
    assert done.exit_code == 0, done.output
    assert "batch 2 comes next" in done.output and "--engine spark" in done.output
    looked = CliRunner().invoke(main, ["state", str(tmp_path / "b")])
    assert looked.exit_code and "has not begun from it yet" in looked.output
    assert CliRunner().invoke(main, ["state", str(tmp_path / "a")]).exit_code == 0
