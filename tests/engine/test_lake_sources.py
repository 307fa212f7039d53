"""Tables of Delta and Iceberg as sources of the local engine: plain Python folds the same rows, over restarts."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lakes
import numpy as np
import pyarrow as pa
import pytest
from engine_jobs import rows_of_table, run_to_end
from lakes import batch

from aggloom.errors import CheckpointError, InputFormatError, MissingFileError, SpecError
from aggloom.job import Job, complete
from aggloom.run_local import open_query
from aggloom.runtime.connectors.delta.options import delta_options
from aggloom.runtime.connectors.delta.sink import DeltaSink
from aggloom.runtime.connectors.iceberg.options import iceberg_options
from aggloom.runtime.connectors.iceberg.sink import IcebergSink
from aggloom.runtime.engine.checkpoint import LocalCheckpoint
from aggloom.tables import table_source

FEED = {"delta.enableChangeDataFeed": "true"}
SQL = "SELECT v, COUNT(*) AS n, SUM(k) AS s FROM t GROUP BY v"


class Killed(Exception):
    """The end of a process, played."""


def connect(path: Path) -> dict[str, str]:
    return {"type": "sql", "uri": f"sqlite:///{path}/c.db", "warehouse": f"file://{path}/w"}


def delta_table(path: Path) -> tuple[Any, dict[str, Any]]:
    pytest.importorskip("deltalake")
    place = path / "t"
    sink = DeltaSink(delta_options({"path": place, "properties": FEED}), ("k", "f"), True)
    return sink, {"connector": "delta", "path": str(place)}


def iceberg_table(path: Path) -> tuple[Any, dict[str, Any]]:
    pytest.importorskip("pyiceberg.catalog")
    told = {"table": "db.t", "connect": connect(path)}
    sink = IcebergSink(iceberg_options(told), ("k", "f"), True)
    return sink, {"connector": "iceberg", "path": "db.t", "connect": connect(path)}


TABLES = {"delta": delta_table, "iceberg": iceberg_table}
Make = Callable[[Path], tuple[Any, dict[str, Any]]]


@pytest.fixture(params=TABLES)
def make(request: pytest.FixtureRequest) -> Make:
    return TABLES[request.param]


def job(settings: dict[str, Any], checkpoint: Path, sql: str = SQL, **given: Any) -> Job:
    tables = (table_source("t", settings, "a test"),)
    told = {"sql": sql, "tables": tables, "sink": "table", "backend": "python", **given}
    return complete({**told, "checkpoint": checkpoint}, "a test")


def sums(rows: list[lakes.Row]) -> list[tuple[Any, ...]]:
    """The result of SQL over the rows of a table."""
    counts: Counter[Any] = Counter()
    totals: dict[Any, Any] = {}
    for k, _, v in rows:
        counts[v] += 1
        totals[v] = k if totals.get(v) is None else totals[v] + (k or 0)
    return sorted(((v, n, totals[v]) for v, n in counts.items()), key=repr)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.sampled(3)
def test_a_query_follows_the_table(seed: int, make: Make, tmp_path: Path) -> None:
    """Runs that end between versions, kills between sink and commit, a limit of versions."""
    rng = random.Random(seed)
    sink, settings = make(tmp_path)
    if seed:
        settings["max_versions_per_trigger"] = seed
    wanted: list[lakes.Row] = []
    for number, (some, rows) in enumerate(lakes.random_batches(seed, 10)):
        sink.write(*batch(some), number, "c")
        wanted = rows
        if rng.random() < 0.5:
            continue
        asked = job(settings, tmp_path / "state")
        if rng.random() < 0.5:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(LocalCheckpoint, "commit", _die)
                with pytest.raises(Killed):
                    run_to_end(asked)
        run_to_end(asked)
        assert sorted(rows_of_table(tmp_path / "state"), key=repr) == sums(wanted)
    run_to_end(job(settings, tmp_path / "state"))
    assert sorted(rows_of_table(tmp_path / "state"), key=repr) == sums(wanted)
    assert run_to_end(job(settings, tmp_path / "state")).counts.batches == 0


def _die(*_: Any, **__: Any) -> None:
    raise Killed


def test_where_reading_starts(make: Make, tmp_path: Path) -> None:
    sink, settings = make(tmp_path)
    sink.write(*batch([("+I", (1, 1.0, "a"))]), 0, "c")
    late = job({**settings, "start": "latest"}, tmp_path / "late", "SELECT k, v FROM t", key=("k",))
    query = open_query(late, tmp_path / "late")
    query.run()
    query.close()
    assert query.counts.rows == 0
    # What comes between two runs is after the first.
    sink.write(*batch([("+I", (2, 1.0, "b"))]), 1, "c")
    run_to_end(late)
    assert rows_of_table(tmp_path / "late") == [(2, "b")]
    with pytest.raises(SpecError, match="start"):
        run_to_end(job({**settings, "start": "first"}, tmp_path / "other"))
    with pytest.raises(SpecError, match="1 at least"):
        run_to_end(job({**settings, "max_versions_per_trigger": 0}, tmp_path / "none"))


def test_a_query_that_goes_on_reads_what_comes(make: Make, tmp_path: Path) -> None:
    sink, settings = make(tmp_path)
    sink.write(*batch([("+I", (1, 1.0, "a"))]), 0, "c")
    asked = job(settings, tmp_path / "state", continuous=True)
    query = open_query(asked, tmp_path / "state")
    assert query.run_batch() and not query.run_batch()
    sink.write(*batch([("-U", (1, 1.0, "a")), ("+U", (1, 1.0, "b"))]), 1, "c")
    assert query.run_batch() and not query.run_batch()
    query.close()
    assert rows_of_table(tmp_path / "state") == [("b", 1, 1)]


def test_a_batch_that_was_planned_gives_the_same_rows(make: Make, tmp_path: Path) -> None:
    """A commit comes between the kill and the next run: it belongs to the batch after."""
    sink, settings = make(tmp_path)
    sink.write(*batch([("+I", (1, 1.0, "a"))]), 0, "c")
    asked = job(
        settings, tmp_path / "state", "SELECT k, v FROM t", sink=f"jsonl:{tmp_path / 'out'}"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LocalCheckpoint, "commit", _die)
        with pytest.raises(Killed):
            run_to_end(asked)
    sink.write(*batch([("+I", (2, 1.0, "b"))]), 1, "c")
    assert run_to_end(asked).counts.batches == 2
    from engine_jobs import changes_in

    assert [(each["k"], each["v"]) for each in changes_in(tmp_path / "out")] == [(1, "a"), (2, "b")]


def test_what_is_gone_is_named(make: Make, tmp_path: Path) -> None:
    sink, settings = make(tmp_path)
    sink.write(*batch([("+I", (1, 1.0, "a"))]), 0, "c")
    run_to_end(job(settings, tmp_path / "state"))
    sink.write(*batch([("+I", (2, 1.0, "b"))]), 1, "c")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LocalCheckpoint, "commit", _die)
        with pytest.raises(Killed):
            run_to_end(job(settings, tmp_path / "state"))
    for file in [f for f in tmp_path.rglob("*.parquet") if "state" not in f.parts]:
        file.unlink()
    with pytest.raises(MissingFileError, match=r"is gone|are gone"):
        run_to_end(job(settings, tmp_path / "state"))
    # Another table at the same place.
    for place in ("t", "w", "c.db"):
        path = tmp_path / place
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    other, _ = make(tmp_path)
    other.write(*batch([("+I", (9, 1.0, "z"))]), 0, "d")
    with pytest.raises((CheckpointError, MissingFileError, InputFormatError)):
        run_to_end(job(settings, tmp_path / "state"))


def test_a_position_of_another_source_is_refused(make: Make, tmp_path: Path) -> None:
    sink, settings = make(tmp_path)
    sink.write(*batch([("+I", (1, 1.0, "a"))]), 0, "c")
    run_to_end(job(settings, tmp_path / "state"))
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.json").write_text('{"k": 1, "f": 1.0, "v": "a"}\n')
    files = {
        "path": str(tmp_path / "in"),
        "format": "jsonl",
        "schema": "k BIGINT, f DOUBLE, v STRING",
    }
    with pytest.raises(CheckpointError, match="another kind of source"):
        run_to_end(job(files, tmp_path / "state"))
    run_to_end(job(files, tmp_path / "files"))
    with pytest.raises(CheckpointError, match="another kind of source"):
        run_to_end(job(settings, tmp_path / "files"))


def test_metadata_and_rows_that_cannot_be_taken_back(tmp_path: Path) -> None:
    sink, settings = delta_table(tmp_path)
    sink.write(*batch([("+I", (1, 1.0, "a"))]), 0, "c")
    sink.write(*batch([("+I", (2, 1.0, "b"))]), 1, "c")
    told = {**settings, "metadata": True, "start": 0}
    sql = "SELECT k, _commit_version AS version FROM t"
    run_to_end(job(told, tmp_path / "state", sql, key=("k",)))
    found = rows_of_table(tmp_path / "state")
    assert [k for k, _ in found] == [1, 2]
    assert found[1][1] == found[0][1] + 1
    sink.write(*batch([("-D", (2, 1.0, "b"))]), 2, "c")
    with pytest.raises(InputFormatError, match="retracts rows"):
        run_to_end(job(told, tmp_path / "state", sql, key=("k",)))


def test_a_table_without_a_feed_that_deletes(tmp_path: Path) -> None:
    deltalake = pytest.importorskip("deltalake")
    place = tmp_path / "t"
    deltalake.write_deltalake(place, pa.table({"k": np.arange(3), "v": ["a", "b", "c"]}))
    settings = {"connector": "delta", "path": str(place)}
    sql = "SELECT COUNT(*) AS n FROM t"
    run_to_end(job(settings, tmp_path / "state", sql))
    assert rows_of_table(tmp_path / "state") == [(3,)]
    deltalake.DeltaTable(place).delete("k = 1")
    with pytest.raises(InputFormatError, match="no change data feed"):
        run_to_end(job(settings, tmp_path / "state", sql))
    assert rows_of_table(tmp_path / "state") == [(3,)]


def test_the_door_in_python(make: Make, tmp_path: Path) -> None:
    from aggloom import local

    sink, settings = make(tmp_path)
    sink.write(*batch([("+I", (1, 1.0, "a")), ("+I", (2, 1.0, "a"))]), 0, "c")
    if settings["connector"] == "delta":
        table = local.read_delta(settings["path"])
    else:
        table = local.read_iceberg(settings["path"], connect=settings["connect"])
    found = local.collect(local.sql(SQL, t=table, backend="python"))
    assert found.to_pylist() == [{"v": "a", "n": 2, "s": 3}]
