"""Side tables of unreadable messages, and lookup joins, on the local engine."""

from __future__ import annotations

import json
import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from engine_jobs import changes_in, rows_of_table, run_to_end

from aggloom.errors import SpecError
from aggloom.job import Job, complete
from aggloom.runtime.engine.checkpoint import LocalCheckpoint
from aggloom.runtime.lookup.batch import current_batch
from aggloom.script import jobs_of
from aggloom.tables import table_source

DDL = "id INT, v INT"


class Killed(Exception):
    """The end of a process, played."""


def _die(*_: Any, **__: Any) -> None:
    raise Killed


def job(checkpoint: Path, settings: dict[str, Any], **given: Any) -> Job:
    tables = (table_source("t", {"format": "jsonl", "schema": DDL, **settings}, "a test"),)
    told = {"sql": "SELECT SUM(v) AS s FROM t", "tables": tables, "sink": "table"}
    return complete({**told, "backend": "python", "checkpoint": checkpoint, **given}, "a test")


def side_rows(folder: Path) -> list[tuple[bytes, str]]:
    rows = [row for file in folder.glob("*.parquet") for row in pq.read_table(file).to_pylist()]
    assert all(each["reason"] for each in rows)
    return sorted((each["value"], each["place"]) for each in rows)


def test_a_side_table_of_files(tmp_path: Path) -> None:
    folder, side = tmp_path / "in", tmp_path / "side"
    folder.mkdir()
    (folder / "a.json").write_text('{"id": 1, "v": 1}\n{broken\n{"id": 2, "v": 5}\n')
    asked = job(tmp_path / "c", {"path": str(folder), "unreadable": "side", "side": str(side)})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LocalCheckpoint, "commit", _die)
        with pytest.raises(Killed):
            run_to_end(asked)
    counts = run_to_end(asked).counts
    assert (rows_of_table(tmp_path / "c"), counts.refused) == ([(6,)], 1)
    assert side_rows(side) == [(b"{broken", f"{folder / 'a.json'}, line 2")]
    (folder / "b.json").write_text('{"id": 3, "v": "x"}\n')
    assert run_to_end(asked).counts.refused == 1
    assert [value for value, _ in side_rows(side)] == [b'{"id": 3, "v": "x"}', b"{broken"]
    with pytest.raises(SpecError, match="needs a directory"):
        run_to_end(job(tmp_path / "d", {"path": str(folder), "unreadable": "side"}))
    with pytest.raises(SpecError, match='goes with unreadable="side"'):
        run_to_end(job(tmp_path / "e", {"path": str(folder), "side": str(side)}))


def test_a_side_table_of_a_topic(broker: Any, tmp_path: Path) -> None:
    broker.topic("local.side", 2)
    good = [(b"k", json.dumps({"id": n, "v": n}), n % 2) for n in range(10)]
    broker.send("local.side", *good, (b"k", "{broken", 1), *good, (b"k", "[]", 0))
    topic = {"connector": "kafka", "servers": broker.servers, "topic": "local.side"}
    asked = job(tmp_path / "c", {**topic, "unreadable": "side", "side": str(tmp_path / "side")})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LocalCheckpoint, "commit", _die)
        with pytest.raises(Killed):
            run_to_end(asked)
    counts = run_to_end(asked).counts
    assert (rows_of_table(tmp_path / "c"), counts.refused) == ([(90,)], 2)
    places = ("topic local.side, partition 0, offset 10", "topic local.side, partition 1, offset 5")
    assert side_rows(tmp_path / "side") == [(b"[]", places[0]), (b"{broken", places[1])]


SCRIPT = """
CREATE TABLE t (id INT, v INT, now AS PROCTIME()) WITH
  ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json');
CREATE TABLE names (id INT, name STRING) WITH {source};
SELECT t.id, t.v, n.name FROM t LEFT JOIN names FOR SYSTEM_TIME AS OF t.now AS n ON t.id = n.id
"""
FILES = (
    "('connector' = 'filesystem', 'path' = 'names', 'format' = 'csv', "
    "'lookup.full-cache.periodic-reload.interval' = '1 ms')"
)
DATABASE = "('connector' = 'jdbc', 'url' = 'jdbc:sqlite:names.db', 'table-name' = 'names')"


@pytest.mark.parametrize("source", [FILES, DATABASE])
def test_a_lookup_join(source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are joined with the table as it was when their batch ran, and are not asked for again."""
    monkeypatch.chdir(tmp_path)
    for folder in ("in", "names"):
        (tmp_path / folder).mkdir()

    def name(word: str) -> None:
        rows = [(number, f"{word}{number}") for number in range(3)]
        (tmp_path / "names" / "a.csv").write_text(
            "id,name\n" + "".join(f"{k},{n}\n" for k, n in rows)
        )
        with closing(sqlite3.connect(tmp_path / "names.db")) as db:
            db.execute("CREATE TABLE IF NOT EXISTS names (id INT PRIMARY KEY, name TEXT)")
            db.executemany("INSERT OR REPLACE INTO names VALUES (?, ?)", rows)
            db.commit()

    def run(number: int) -> list[Any]:
        file = tmp_path / "in" / f"{number}.json"
        file.write_text("".join(json.dumps({"id": n, "v": number}) + "\n" for n in (1, 7)))
        os.utime(file, (1_700_000_000 + number,) * 2)
        (made,), _ = jobs_of(base)
        run_to_end(made)
        assert current_batch() != current_batch(), "the batch ends with its query"
        out = changes_in(tmp_path / "out")
        return [(each["id"], each["v"], each.get("name")) for each in out]

    base = Job(
        SCRIPT.format(source=source),
        (),
        checkpoint=tmp_path / "state",
        sink=f"jsonl:{tmp_path / 'out'}",
        backend="python",
        dialect="flink",
    )
    name("a")
    first = [(1, 0, "a1"), (7, 0, None)]
    assert sorted(run(0)) == first
    name("b")
    assert sorted(run(1), key=lambda row: row[1]) == [*first, (1, 1, "b1"), (7, 1, None)]
