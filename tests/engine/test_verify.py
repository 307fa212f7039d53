"""`aggloom verify`: no difference where there is none, each planted one found, and what cannot be verified named."""

from __future__ import annotations

import json
import random
import shutil
import threading
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import lakes
import pyarrow as pa
import pytest
from click.testing import CliRunner
from engine_jobs import QUERIES, job_over, random_changes, run_to_end, write_files

from aggloom import local
from aggloom.cli import main
from aggloom.errors import (
    CheckpointError,
    MissingFileError,
    StateCorruptError,
    StateMismatchError,
    UnverifiableError,
)
from aggloom.job import Job
from aggloom.job_note import JOB_FILE, noted_job
from aggloom.run_local import open_query
from aggloom.runtime.connectors.files.table_file import TABLE_FILE, TableFile, read_table_file
from aggloom.runtime.engine.node import DurableBucket
from aggloom.runtime.hosting import bucket_store
from aggloom.runtime.operators.base import InputBatch
from aggloom.runtime.values.clock import Clock
from aggloom.verify import verify
from tests.engine.test_lake_sources import TABLES
from tests.engine.test_lake_sources import job as lake_job

FILES = 6
STATEFUL = [name for name in QUERIES if name != "filter"]
PLANTED = 4
"""Differences of each kind for each query."""


def run_query(root: Path, query: str, seed: int, sink: Any = "table", **given: Any) -> Job:
    """Run a query over random files in two runs, so that it goes on from its checkpoint once."""
    changes = random_changes(seed, 120, retracts=query != "windows")
    half = len(changes) // 2
    write_files(root / "in", changes[:half], FILES // 2)
    job = job_over(root / "in", query, root / "state", sink, **given)
    run_to_end(replace(job, keep_open=True))
    write_files(root / "in", changes[half:], FILES - FILES // 2, start=FILES // 2)
    run_to_end(job)
    return job


@pytest.fixture(params=[3, bucket_store.LOG_MAXIMUM_ENTRIES])
def entries(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Logs with and without snapshots before them."""
    monkeypatch.setattr(bucket_store, "LOG_MAXIMUM_ENTRIES", request.param)


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.sampled(6)
def test_a_checkpoint_that_is_right_is_equal(query: str, tmp_path: Path, entries: None) -> None:
    job = run_query(tmp_path, query, seed=31)
    before = {p: p.read_bytes() for p in (tmp_path / "state").rglob("*") if p.is_file()}
    report = verify(tmp_path / "state")
    assert report.is_equal, report.text()
    assert report.batch + 1 >= FILES
    sink = report.places[-1]
    assert sink.keys == len(local.collect(local.LocalChanges(job)))
    assert sink.keys > 0
    assert before == {p: p.read_bytes() for p in (tmp_path / "state").rglob("*") if p.is_file()}


def test_files_of_one_batch_are_read_in_their_order(tmp_path: Path) -> None:
    write_files(tmp_path / "in", random_changes(9, 120), FILES)
    job = job_over(tmp_path / "in", "sums", tmp_path / "state")
    tables = tuple(replace(table, options={}) for table in job.tables)
    run_to_end(replace(job, tables=tables))
    report = verify(tmp_path / "state")
    assert report.is_equal, report.text()
    assert report.batch == 0


@pytest.mark.parametrize("sink", ["jsonl", "parquet"])
@pytest.mark.parametrize("query", ["sums", "join", "windows"])
@pytest.mark.sampled(2)
def test_files_that_are_right_are_equal_and_a_lost_one_is_not(
    query: str, sink: str, tmp_path: Path
) -> None:
    run_query(tmp_path, query, 7, f"{sink}:{tmp_path / 'out'}")
    assert verify(tmp_path / "state").is_equal
    files = sorted((tmp_path / "out").glob("part-*"))
    for lost in random.Random(query).sample(files, 3):
        content = lost.read_bytes()
        lost.unlink()
        report = verify(tmp_path / "state")
        assert not report.is_equal
        assert lost.name in report.text()
        lost.write_bytes(content)
    assert verify(tmp_path / "state").is_equal


def state_buckets(query: Any) -> list[DurableBucket]:
    """The buckets of a query that hold something."""
    nodes = query._host.nodes.values()
    return [b for node in nodes for b in node.buckets if any(o.keys for o in b.fragment.operators)]


def plant_row(job: Job, draw: random.Random) -> None:
    """Have one row in the state of a bucket that the input does not have, with every checksum right."""
    assert job.checkpoint is not None
    with closing(open_query(job, job.checkpoint)) as query:
        bucket = draw.choice(state_buckets(query))
        schemas = bucket._factory.fragment.inputs
        number = draw.randrange(len(schemas))
        bundles = [InputBatch(pa.RecordBatch.from_pylist([], s), _kinds(0)) for s in schemas]
        row = _row_of(schemas[number], draw)
        bundles[number] = InputBatch(row, _kinds(1))
        last = query.checkpoint.last
        assert last is not None
        bucket.run(bundles, Clock(last.batch, last.watermark), True)
        known = ("positions", "watermarks", "watermark")
        query.checkpoint.commit(last.batch + 1, **{name: getattr(last, name) for name in known})


def _kinds(rows: int) -> Any:
    import numpy as np

    return np.zeros(rows, np.int8)


def _row_of(schema: pa.Schema, draw: random.Random) -> pa.RecordBatch:
    values = {}
    for field in schema:
        if field.name == "$window":
            # The end of a slice, in milliseconds: far ahead of the watermark, or the row would be late.
            values[field.name] = 1_900_000_000_000
        elif pa.types.is_integer(field.type):
            values[field.name] = draw.randrange(1_000, 9_000)
        elif pa.types.is_timestamp(field.type):
            values[field.name] = 1_900_000_000_000_000 + draw.randrange(10**6)
        else:
            values[field.name] = draw.choice(["Ada", "Eve"])
    return pa.RecordBatch.from_arrays(
        [pa.array([values[f.name]], f.type) for f in schema], schema=schema
    )


def plant_in_table(checkpoint: Path, draw: random.Random) -> None:
    """Have another value in one row of the table, or one row less, with its checksum right."""
    table = read_table_file(checkpoint / TABLE_FILE)
    rows = table.to_pylist()
    place = draw.randrange(len(rows))
    if draw.random() < 0.5:
        del rows[place]
    else:
        integers = [f.name for f in table.schema if pa.types.is_integer(f.type)]
        name = draw.choice([n for n in integers if n != "weight"] or integers)
        rows[place][name] = (rows[place][name] or 0) + 1
    metadata = {k: v for k, v in table.schema.metadata.items() if k != b"aggloom.checksum"}
    changed = pa.Table.from_pylist(rows, schema=table.schema.with_metadata(metadata))
    from aggloom.runtime.connectors.files import table_file

    checksum = table_file._checksum(changed)
    whole = changed.replace_schema_metadata({**metadata, b"aggloom.checksum": checksum})
    table_file._write(whole, TableFile(checkpoint).file)


@pytest.mark.parametrize("query", STATEFUL)
@pytest.mark.sampled(4)
def test_a_row_planted_in_the_state_is_found(query: str, tmp_path: Path) -> None:
    draw = random.Random(query)
    given = {"keep_open": True} if query == "windows" else {}
    job = run_query(tmp_path, query, seed=40, **given)
    right = tmp_path / "right"
    shutil.copytree(tmp_path / "state", right)
    for number in range(PLANTED):
        shutil.rmtree(tmp_path / "state")
        shutil.copytree(right, tmp_path / "state")
        plant_row(job, draw)
        report = verify(tmp_path / "state")
        assert not report.is_equal, f"{query} {number}"
        assert all(not place.differences for place in report.places if place.operator is None)


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.sampled(4)
def test_a_row_changed_in_the_table_is_found(query: str, tmp_path: Path) -> None:
    draw = random.Random(query)
    run_query(tmp_path, query, seed=50)
    state = tmp_path / "state"
    right = (state / TABLE_FILE).read_bytes()
    for _ in range(PLANTED + 1):
        plant_in_table(state, draw)
        report = verify(state)
        assert not report.is_equal
        assert all(not place.differences for place in report.places if place.operator is not None)
        (state / TABLE_FILE).write_bytes(right)
    (state / TABLE_FILE).unlink()
    assert "missing" in verify(state).text()


def test_a_difference_comes_with_its_why(tmp_path: Path) -> None:
    job = run_query(tmp_path, "sums", 3)
    plant_row(job, random.Random(2))
    result = CliRunner().invoke(main, ["verify", str(tmp_path / "state")])
    assert result.exit_code == 1
    assert "stored" in result.output
    assert "expected" in result.output
    assert "entry 0 of the log" in result.output
    as_json = CliRunner().invoke(main, ["verify", str(tmp_path / "state"), "--format", "json"])
    data = json.loads(as_json.output)
    assert (as_json.exit_code, data["equal"]) == (1, False)
    (difference,) = data["places"][0]["differences"]
    assert difference["key"].keys() == {"customer"}
    assert difference["why"]["bundles"]


def test_a_lost_source_file_cannot_be_verified(tmp_path: Path) -> None:
    run_query(tmp_path, "sums", 3)
    lost = sorted((tmp_path / "in").iterdir())[2]
    content = lost.read_bytes()
    lost.unlink()
    result = CliRunner().invoke(main, ["verify", str(tmp_path / "state")])
    assert result.exit_code == 2
    assert lost.name in result.output
    lost.write_bytes(content)  # Another time than it was read at.
    with pytest.raises(MissingFileError, match=lost.name):
        verify(tmp_path / "state")


def test_a_lost_file_of_the_checkpoint_is_named(tmp_path: Path) -> None:
    run_query(tmp_path, "sums", 3)
    commit = sorted((tmp_path / "state" / "commits").iterdir())[1]
    commit.unlink()
    with pytest.raises(StateCorruptError, match=f"commits/{commit.name}"):
        verify(tmp_path / "state")


GROUP = "SELECT customer, COUNT(*) AS n FROM orders GROUP BY customer"
UNVERIFIABLE: list[tuple[str, dict[str, Any], str]] = [
    (GROUP, {"options": {"table.exec.state.ttl": "1 d"}}, "wall clock"),
]


@pytest.mark.parametrize(("sql", "entries", "word"), UNVERIFIABLE)
def test_what_depends_on_when_it_ran_is_refused(
    sql: str, entries: dict[str, Any], word: str, tmp_path: Path
) -> None:
    write_files(tmp_path / "in", random_changes(1, 30), 2)
    job = replace(job_over(tmp_path / "in", "sums", tmp_path / "state", **entries), sql=sql)
    run_to_end(job)
    with pytest.raises(UnverifiableError, match=word):
        verify(tmp_path / "state")


def test_the_job_is_noted_unless_it_has_secrets(tmp_path: Path) -> None:
    job = run_query(tmp_path, "sums", 3)
    noted = noted_job(tmp_path / "state")
    assert (noted.sql, noted.sink, noted.tables) == (job.sql, job.sink, job.tables)
    (tmp_path / "state" / JOB_FILE).unlink()
    with pytest.raises(CheckpointError, match="Give the job"):
        verify(tmp_path / "state")
    assert verify(tmp_path / "state", job).is_equal
    secret = (
        "SELECT customer, 'password=\"hush\"' AS p, COUNT(*) AS n FROM orders GROUP BY customer"
    )
    again = replace(job, sql=secret, checkpoint=tmp_path / "other")
    run_to_end(again)
    assert not (tmp_path / "other" / JOB_FILE).exists()
    assert verify(tmp_path / "other", again).is_equal


def test_rows_of_a_process_are_refused(tmp_path: Path) -> None:
    orders = local.from_rows([("+I", "Ada", 3)], "customer STRING, amount INT")
    sums = local.sql(
        "SELECT customer, SUM(amount) AS s FROM orders GROUP BY customer", orders=orders
    )
    local.await_end(local.write_changes(sums, "table", tmp_path / "state"))
    with pytest.raises(CheckpointError, match="rows of a Python process"):
        verify(tmp_path / "state")


def test_the_job_of_another_query_is_refused(tmp_path: Path) -> None:
    job = run_query(tmp_path, "sums", 3)
    other = replace(job, sql=QUERIES["distinct"])
    with pytest.raises(StateMismatchError):
        verify(tmp_path / "state", other)


def test_a_query_that_runs_is_verified_at_a_commit(tmp_path: Path) -> None:
    write_files(tmp_path / "in", random_changes(5, 100), 5)
    job = job_over(tmp_path / "in", "sums", tmp_path / "state")
    with closing(open_query(job, tmp_path / "state")) as query:
        query.run_batch()
        query.run_batch()
        report = verify(tmp_path / "state")
    assert report.is_equal, report.text()
    assert report.batch == 1


@pytest.mark.parametrize("sink", ["table", "jsonl"])
@pytest.mark.sampled(1)
def test_a_query_that_goes_on_meanwhile_is_verified(
    sink: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # On a busy machine the query takes longer than the seconds for which a user would wait.
    monkeypatch.setattr("aggloom.verify._SECONDS", 600.0)
    write_files(tmp_path / "in", random_changes(5, 400), 100)
    place = "table" if sink == "table" else f"jsonl:{tmp_path / 'out'}"
    job = job_over(tmp_path / "in", "sums", tmp_path / "state", place)
    with closing(open_query(job, tmp_path / "state")) as query:
        query.run_batch()
        thread = threading.Thread(target=query.run)
        thread.start()
        reports = []
        while thread.is_alive():
            reports.append(verify(tmp_path / "state"))
        thread.join()
    assert all(report.is_equal for report in reports)
    # Files of changes take longer to read than a batch takes: they wait for a pause of the query.
    assert reports[0].batch < 99 or sink == "jsonl"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "Missing argument"),
        (["nowhere"], "no such directory"),
        (["empty"], "no checkpoint in it"),
        (["state", "--table", "t=x.csv"], "give --sql too"),
        (["state", "--limit", "-1"], "--limit"),
        (["state", "missing.yaml"], "missing.yaml"),
    ],
)
def test_misuse_is_said_in_a_line(
    arguments: list[str], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    run_query(tmp_path, "sums", 3)
    result = CliRunner().invoke(main, ["verify", *arguments])
    assert result.exit_code == 2
    assert words in result.output
    assert "Traceback" not in result.output


@pytest.mark.parametrize("kind", TABLES)
def test_tables_of_lakes_are_verified(kind: str, tmp_path: Path) -> None:
    sink, entries = TABLES[kind](tmp_path)
    for number, (changes, _) in enumerate(lakes.random_batches(3, 6)):
        sink.write(*lakes.batch(changes), number, "c")
        run_to_end(lake_job(entries, tmp_path / "state"))
    report = verify(tmp_path / "state", lake_job(entries, tmp_path / "state"))
    assert report.is_equal, report.text()
    assert report.places[-1].keys > 0
    plant_in_table(tmp_path / "state", random.Random(1))
    assert not verify(tmp_path / "state").is_equal
    late = {**entries, "start": "latest"}
    with pytest.raises(UnverifiableError, match="from its beginning"):
        verify(tmp_path / "state", lake_job(late, tmp_path / "state"))
