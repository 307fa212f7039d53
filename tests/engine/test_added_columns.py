"""Tables that gain columns under a running query of the local engine: carried along, left out, or refused."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from engine_jobs import changes_in, rows_of_table
from widened import NARROW, WIDE, draw_widened, fold_changes, write_batch

from aggloom.durable_files import write_whole
from aggloom.errors import StateMismatchError
from aggloom.job import Job, complete
from aggloom.run_local import open_query
from aggloom.runtime.connectors.files.table_file import read_table
from aggloom.runtime.engine import checkpoint, file_log, file_sink
from aggloom.tables import table_source

_FIRST, _COUNT = map(int, os.environ.get("AGGLOOM_SEEDS", "100:9").split(":"))


class Killed(BaseException):
    """The end of a process, played."""


def job_of(
    folder: Path,
    sql: str,
    tables: dict[str, str],
    sink: Any,
    changes: str | None = None,
    **options: Any,
) -> Job:
    """A job over the tables t and u in a folder; a file is a batch. Upserts go by the first column."""
    sources = tuple(
        table_source(
            name,
            {
                "path": str(folder / "in" / name),
                "format": "jsonl",
                "schema": ddl,
                "options": {"maxFilesPerTrigger": 1},
                **({"changes": changes} if changes else {}),
                **({"keys": [ddl.split()[0]]} if changes == "upsert" else {}),
            },
            "a test",
        )
        for name, ddl in tables.items()
    )
    entries = {"sql": sql, "tables": sources, "backend": "python", "options": options}
    return complete({**entries, "sink": sink, "checkpoint": folder / "state"}, "a test")


def run(job: Job) -> None:
    assert job.checkpoint is not None
    query = open_query(job, job.checkpoint)
    try:
        query.run()
    finally:
        query.close()


@pytest.mark.parametrize("seed", range(_FIRST, _FIRST + _COUNT))
@pytest.mark.sampled(3)
def test_carried_columns_give_duckdbs_table(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = random.Random(seed)
    changes = ("append", "retract", "upsert")[seed % 3]
    # A deletion by key may say of a row from before what it has now: it leaves as it came.
    default = "later" if changes == "upsert" else None
    drawn = draw_widened(draw, changes != "append", default)
    left = draw.randint(1, 25)

    def write_or_die(file: Path, pieces: Any) -> None:
        nonlocal left
        left -= 1
        if not left:
            if draw.random() < 0.5:
                write_whole(file, pieces)
            raise Killed
        write_whole(file, pieces)

    for module in (checkpoint, file_log, file_sink):
        monkeypatch.setattr(module, "write_whole", write_or_die)
    sink, options = f"jsonl:{tmp_path / 'out'}", {"mini_batch_enabled": draw.random() < 0.7}
    narrow = job_of(tmp_path, drawn.sql, NARROW, sink, changes, **options)
    wide = job_of(tmp_path, drawn.sql, WIDE, sink, changes, added_columns="carry", **options)
    for number, batch in enumerate(drawn.narrow):
        write_batch(tmp_path / "in", number, batch)
    # A batch that is killed before its commit may be left to the run that knows the columns.
    is_left = draw.random() < 0.5
    for job, batches in ((narrow, ()), (wide, drawn.wide)):
        for number, batch in enumerate(batches, len(drawn.narrow)):
            write_batch(tmp_path / "in", number, batch)
        while True:
            try:
                run(job)
                break
            except Killed:
                if job is narrow and is_left and list((tmp_path / "state").glob("commits/*")):
                    break
    assert fold_changes(changes_in(tmp_path / "out")) == drawn.expected(), drawn.sql


TOP = "SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY id DESC) AS r FROM t) WHERE r = 1"
REFUSED = {
    "SELECT DISTINCT * FROM t": r"'extra' of table t .* LogicalAggregate\(groupBy=\[id, k, extra, v, n\]\) goes by it",
    "SELECT * FROM t INTERSECT SELECT * FROM t": "'extra' of table t cannot be only carried",
    "SELECT * FROM t NATURAL JOIN (SELECT id2, w AS extra FROM u)": "differs",
    f"SELECT *, n + 1 AS m FROM ({TOP}) AS a": "'m', beside those that its tables have gained",
    f"SELECT id, v, k, n, extra FROM ({TOP}) AS a": "'n', 'v', beside",
}


def begin(tmp_path: Path, sql: str, tables: dict[str, str] = NARROW, sink: Any = "table") -> None:
    for number, batch in enumerate(draw_widened(random.Random(5), True).narrow):
        write_batch(tmp_path / "in", number, batch)
    run(job_of(tmp_path, sql, tables, sink))


def go_on(tmp_path: Path, sql: str, sink: Any = "table", **options: Any) -> None:
    """Go on with one batch more."""
    row = {"id": 900, "k": 1, "v": "new", "n": 7, "extra": "e"}
    write_batch(tmp_path / "in", 900, {"t": [("insert", row)]})
    run(job_of(tmp_path, sql, WIDE, sink, **options))


@pytest.mark.parametrize("sql", REFUSED)
def test_what_cannot_be_only_carried_is_refused(tmp_path: Path, sql: str) -> None:
    """Nothing is written: the query of before goes on."""
    before = {
        f"SELECT *, n + 1 AS m FROM ({TOP}) AS a": TOP,
        f"SELECT id, v, k, n, extra FROM ({TOP}) AS a": f"SELECT id, k FROM ({TOP}) AS a",
        "SELECT * FROM t NATURAL JOIN (SELECT id2, w AS extra FROM u)": (
            "SELECT * FROM t CROSS JOIN (SELECT id2, w AS extra FROM u)"
        ),
    }.get(sql, sql)
    begin(tmp_path, before)
    known = {file: file.read_bytes() for file in (tmp_path / "state").rglob("*") if file.is_file()}
    with pytest.raises(StateMismatchError, match=REFUSED[sql]):
        go_on(tmp_path, sql, added_columns="carry")
    for file, data in known.items():
        assert file.read_bytes() == data, file


def test_columns_are_refused_unless_asked_for_or_left_out(tmp_path: Path) -> None:
    begin(tmp_path, TOP)
    with pytest.raises(
        StateMismatchError, match=r"gained: extra STRING\. .*'carry'.*'ignore'"
    ) as error:
        go_on(tmp_path, TOP)
    assert "ROW_NUMBER by k: its rows get them" in str(error.value)
    go_on(tmp_path, TOP, added_columns="ignore")
    assert (900, 1, "new", 7, 1) in rows_of_table(tmp_path / "state")
    # A column of the checkpoint's that is gone, or has another type, is refused whatever is asked for.
    for ddl in (
        "id INT, k INT, extra STRING, v STRING",
        "id INT, k BIGINT, extra STRING, v STRING, n INT",
    ):
        with pytest.raises(StateMismatchError, match="differs"):
            run(job_of(tmp_path, TOP, {"t": ddl}, "table", added_columns="carry"))
    row = {"id": 901, "k": 2, "v": "more", "n": 8, "extra": "f"}
    write_batch(tmp_path / "in", 901, {"t": [("insert", row)]})
    run(job_of(tmp_path, TOP, WIDE, "table", added_columns="carry"))
    rows = rows_of_table(tmp_path / "state")
    assert (900, 1, None, "new", 7, 1) in rows
    assert (901, 2, "f", "more", 8, 1) in rows


def test_a_column_that_nothing_reads_changes_nothing(tmp_path: Path) -> None:
    sql = "SELECT k, COUNT(*) AS c FROM t GROUP BY k"
    begin(tmp_path, sql)
    go_on(tmp_path, sql)
    assert (1, 900) not in rows_of_table(tmp_path / "state")


def test_files_without_the_column_go_on_beside_those_with_it(tmp_path: Path) -> None:
    """Columns of Parquet files are those of all files together: one that was written late lacks the new one."""
    tables = [
        pa.table({"k": [1, 2], "n": [1, 5]}),
        pa.table({"k": [1, 3], "extra": ["x", None], "n": [9, 2]}),
        pa.table({"k": [4, 2], "n": [1, 6]}),
    ]
    sql = "SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY n DESC) AS r FROM t) WHERE r = 1"
    (tmp_path / "in").mkdir()

    def write_and_run(numbers: range, **options: Any) -> None:
        for number in numbers:
            pq.write_table(tables[number], tmp_path / "in" / f"{number}.parquet")
        settings = {"path": str(tmp_path / "in"), "format": "parquet"}
        entries = {
            "sql": sql,
            "tables": (table_source("t", settings, "a test"),),
            "options": options,
        }
        whole = {**entries, "backend": "python", "sink": "table", "checkpoint": tmp_path / "state"}
        run(complete(whole, "a test"))

    write_and_run(range(1))
    write_and_run(range(1, 3), added_columns="carry")
    rows = [(1, 9, "x", 1), (2, 6, None, 1), (3, 2, None, 1), (4, 1, None, 1)]
    columns = ("k", "n", "extra", "r")
    found = read_table(tmp_path / "state").select(columns).to_pylist()
    assert sorted(tuple(row.values()) for row in found) == rows


def test_a_batch_ends_with_the_columns_that_it_was_begun_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch that was begun with the column, and killed before its commit, is not finished without it."""
    begin(tmp_path, TOP)

    def die(*_: Any, **__: Any) -> None:
        raise Killed

    with monkeypatch.context() as killing:
        killing.setattr(checkpoint.LocalCheckpoint, "commit", die)
        with pytest.raises(Killed):
            go_on(tmp_path, TOP, added_columns="carry")
    with pytest.raises(StateMismatchError, match=r"begun with the columns id, k, extra, .*'carry'"):
        run(job_of(tmp_path, TOP, WIDE, "table", added_columns="ignore"))
    run(job_of(tmp_path, TOP, WIDE, "table", added_columns="carry"))
    assert (900, 1, "e", "new", 7, 1) in rows_of_table(tmp_path / "state")
