"""Sources and caches of lookup tables: databases, files, functions that raise, hang and lie, a clock that is told."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import postgres
import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as parquet
import pytest

import aggloom as al
from aggloom.codegen import LookupTable
from aggloom.errors import LookupAnswerError, LookupFailedError
from aggloom.runtime.lookup.batch import enter_batch
from aggloom.runtime.lookup.request import Request, Times
from aggloom.runtime.lookup.tables import OpenTable, close_all, open_table

DIM = "k INT, name STRING, rank INT"


class Clock:
    """A clock that moves when it is told to, or waited by."""

    def __init__(self) -> None:
        self.now = 0.0
        self.waited: list[float] = []

    @property
    def times(self) -> Times:
        """As tables take it."""
        return Times(lambda: self.now, self.sleep)

    def sleep(self, seconds: float) -> None:
        self.waited.append(seconds)
        self.now += seconds


def ask(
    table: LookupTable, keys: list[Any], clock: Clock | None = None, asked: tuple[str, ...] = ("k",)
) -> list[Any]:
    return opened_with(table, clock, asked).answers(
        [k if isinstance(k, tuple) else (k,) for k in keys]
    )


def opened_with(
    table: LookupTable, clock: Clock | None = None, asked: tuple[str, ...] = ("k",), **more: Any
) -> OpenTable:
    request = Request("dim", table, asked, table.columns, **more)
    return OpenTable(request, (clock or Clock()).times)


def function(call: Any, **options: Any) -> LookupTable:
    return al.lookup_table(DIM, function=call, key="k", **options)


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        ((1, "a"), "a row has 2 values, and the table 3 columns"),
        ((1, "a", 2, 3), "a row has 4 values"),
        ([(1, "a", 2), (1, "a")], "a row has 2 values"),
        ("abc", "the answer is a str"),
        ([1, 2], "the answer is a int"),
        ({"k": 1, "name": "a"}, "a row has no 'rank'"),
        ((1, 5, 2), "column 'name' is STRING"),
        ((1, b"a", 2), "column 'name' is STRING"),
        ((1, "a", 1.5), "column 'rank' is INT: 1.5 would be 1"),
        ((1, "a", 2**40), "column 'rank' is INT"),
        ((1, "a", True), "column 'rank' is INT"),
        ((2, "a", 1), "a row of the answer has k=2"),
        ([(1, "a", 1), (1, "b", 1)], "2 rows, and k is declared to be its key"),
    ],
)
def test_answers_that_are_no_rows(answer: Any, error: str) -> None:
    for policy in ("fail", "skip"):
        with pytest.raises(LookupAnswerError, match=error) as raised:
            ask(function(lambda k: answer, on_error=policy, attempts=3), [1])
        assert "dim" in str(raised.value)
        assert "k=1" in str(raised.value)


def test_forms_of_an_answer() -> None:
    answers: dict[int, Any] = {
        1: None,
        2: [],
        3: (3, "three", 3),
        4: {"name": "four", "rank": None, "else": 5},
        5: [(5, "ü" * 3, Decimal(2))],
    }
    found = ask(function(answers.get), [1, 2, 3, 4, 5])
    assert found == [[], [], [(3, "three", 3)], [(4, "four", None)], [(5, "üüü", 2)]]


def test_a_failed_call_is_made_again_and_a_miss_if_it_is_said() -> None:
    calls: list[int] = []

    def flaky(k: int) -> Any:
        calls.append(k)
        if calls.count(k) < 3:
            raise ConnectionError("gone")
        return (k, "there", 1)

    clock = Clock()
    found = ask(function(flaky, attempts=3, delay="2 s"), [1, 2], clock)
    assert found == [[(1, "there", 1)], [(2, "there", 1)]]
    assert clock.waited == [2.0, 2.0]
    calls.clear()
    with pytest.raises(LookupFailedError, match="key k=1: ConnectionError: gone"):
        ask(function(flaky, attempts=2), [1])
    seen: list[int] = []

    def late(k: int) -> Any:
        seen.append(k)
        return (k, "there", 1) if seen.count(k) == 2 and k == 1 else None

    clock = Clock()
    found = ask(function(late, miss_attempts=3, miss_delay="10 s"), [1, 2], clock)
    assert (found, seen) == ([[(1, "there", 1)], []], [1, 2, 1, 2, 2])
    assert clock.waited == [10.0, 10.0]


def test_what_hangs_is_left_and_named() -> None:
    over = threading.Event()
    table = function(lambda k: over.wait(30) if k == 1 else (k, "x", 1), timeout="100 ms")
    opened_table = opened_with(table)
    with pytest.raises(LookupFailedError, match="key k=1: no answer within 100 ms"):
        opened_table.answers([(1,)])
    assert opened_table.answers([(2,)]) == [[(2, "x", 1)]], "another thread takes the place"
    over.set()

    async def hangs(k: int) -> Any:
        await asyncio.sleep(30 if k == 1 else 0)
        return (k, "x", 1)

    skipping = opened_with(function(hangs, timeout="100 ms", capacity=5, on_error="skip"))
    assert skipping.answers([(1,), (2,)]) == [None, [(2, "x", 1)]]
    assert skipping.counters["lookup_errors_skip"] == 1
    skipping.close()


def test_coroutines_run_side_by_side_and_answers_stand_by_key() -> None:
    at_once = [0, 0]

    async def slow(k: int) -> Any:
        at_once[0] += 1
        at_once[1] = max(at_once)
        await asyncio.sleep(0.002 * (20 - k))
        at_once[0] -= 1
        return (k, str(k), k)

    opened_table = opened_with(function(slow, capacity=7))
    keys = [(k,) for k in range(20)]
    assert opened_table.answers(keys) == [[(k, str(k), k)] for k in range(20)]
    assert at_once[1] == 7
    opened_table.close()


def test_threads_run_side_by_side() -> None:
    barrier = threading.Barrier(4, timeout=60)

    def waits(k: int) -> Any:
        barrier.wait()
        return (k, "x", 1)

    found = ask(function(waits, capacity=4), [1, 2, 3, 4])
    assert [rows[0][0] for rows in found] == [1, 2, 3, 4]


def test_a_partial_cache_grows_old_and_is_bounded() -> None:
    asked: list[int] = []

    def call(k: int) -> Any:
        asked.append(k)
        return (k, "x", len(asked)) if k < 10 else None

    clock = Clock()
    options = {"cache": "partial", "max_rows": 2, "expire_after_write": "10 s"}
    table = opened_with(function(call, **options), clock)
    assert table.answers([(1,)]) == table.answers([(1,)]) == [[(1, "x", 1)]]
    assert table.counters["lookup_cache_hits"] == 1
    table.answers([(2,)])
    table.answers([(1,)])
    table.answers([(3,)])
    assert asked == [1, 2, 3]
    table.answers([(1,), (2,)])
    assert asked == [1, 2, 3, 2], "2 was not asked for longest"
    clock.now = 10.0
    table.answers([(1,)])
    assert asked[-1] == 1
    table.answers([(77,)])
    table.answers([(77,)])
    assert asked.count(77) == 1, "that there is nothing is an answer"
    forgetful = opened_with(function(call, cache="partial", cache_misses=False), clock)
    forgetful.answers([(77,)])
    forgetful.answers([(77,)])
    assert asked.count(77) == 3
    idle = opened_with(function(call, cache="partial", expire_after_access="5 s"), clock)
    for seconds, count in ((0, 1), (4, 1), (4, 1), (6, 2)):
        clock.now += seconds
        idle.answers([(5,)])
        assert asked.count(5) == count


def test_a_whole_table_is_read_again_by_its_rule() -> None:
    rows = [(1, "old", 1)]
    clock = Clock()
    tables = {
        refresh: opened_with(al.lookup_table(DIM, rows=lambda: list(rows), refresh=refresh), clock)
        for refresh in (None, "1 min", "batch")
    }

    def names() -> list[str]:
        return [each.answers([(1,)])[0][0][1] for each in tables.values()]

    try:
        enter_batch(1)
        assert names() == ["old"] * 3
        rows[:] = [(1, "new", 1)]
        assert names() == ["old"] * 3, "a batch sees one reading"
        enter_batch(2)
        assert names() == ["old", "old", "new"]
        clock.now = 60.0
        assert names() == ["old", "new", "new"]
    finally:
        enter_batch(None)


def test_files_are_listed_whenever_they_are_read(tmp_path: Path) -> None:
    rows = pa.table(
        {"k": pa.array([1], pa.int32()), "name": ["one"], "rank": pa.array([1], pa.int32())}
    )
    with pytest.raises(LookupFailedError, match="there is no file at"):
        ask(al.lookup_table(DIM, files=str(tmp_path)), [1])
    parquet.write_table(rows, tmp_path / "a.parquet")
    table = opened_with(al.lookup_table(DIM, files=str(tmp_path), refresh="batch"))
    assert table.answers([(1,), (2,)]) == [[(1, "one", 1)], []]
    second = rows.set_column(0, "k", pa.array([2], pa.int32()))
    parquet.write_table(second, tmp_path / "b.parquet")
    assert table.answers([(2,)]) == [[(2, "one", 1)]]
    csv.write_csv(rows, tmp_path / "a.csv")
    assert ask(al.lookup_table(DIM, files=str(tmp_path / "*.csv"), format="csv"), [1]) == [
        [(1, "one", 1)]
    ]
    (tmp_path / "b.csv").write_text("k,name,rank\nx,y,z\n")
    with pytest.raises(LookupFailedError, match=r"b.csv cannot be read"):
        ask(al.lookup_table(DIM, files=str(tmp_path), format="csv"), [1])


HOSTILE = ["'; DROP TABLE dim; --", '"', "%s", "?", "ü", "x" * 100_000, "", "\\", "NULL"]


def hostile_table(connect: Any, marks: str) -> tuple[LookupTable, list[str]]:
    """A table of which table, columns and keys have names that quoting has to survive."""
    made = connect()
    cursor = made.cursor()
    cursor.execute(
        'CREATE TABLE "d""i?m %s" ("k; --" TEXT, "na""me%" TEXT)'.replace(
            "%", "%%" if "%" in marks else "%"
        ),
        (),
    )
    statement = f'INSERT INTO "d""i?m %s" VALUES ({marks}, {marks})'
    if "%" in marks:
        statement = f'INSERT INTO "d""i?m %%s" VALUES ({marks}, {marks})'
    for text in HOSTILE:
        cursor.execute(statement, (text, f"of {text}"))
    made.commit()
    made.close()
    columns = '`k; --` STRING, `na"me%` STRING'
    return al.lookup_table(columns, connect=connect, table=['d"i?m %s'], chunk=4), HOSTILE


def check_hostile(table: LookupTable, keys: list[str]) -> None:
    found = opened_with(table, asked=("k; --",)).answers([(key,) for key in [*keys, "none"]])
    assert found == [*([(key, f"of {key}")] for key in keys), []]


def test_a_database_by_dbapi(tmp_path: Path) -> None:
    place = tmp_path / "dim.db"

    def connect() -> Any:
        return sqlite3.connect(place)

    check_hostile(*hostile_table(connect, "?"))
    made = connect()
    made.execute("CREATE TABLE dim (k INT, name TEXT, rank INT)")
    made.executemany("INSERT INTO dim VALUES (?, ?, ?)", [(k, f"n{k}", k % 3) for k in range(2000)])
    made.commit()
    table = al.lookup_table(DIM, connect=connect, table="dim", cache="none")
    keys = [(k,) for k in range(1500, 2500)]
    found = opened_with(table).answers(keys)
    assert [len(rows) for rows in found] == [1] * 500 + [0] * 500
    both = opened_with(table, asked=("rank", "k")).answers([(1, 1), (2, 1)])
    assert both == [[(1, "n1", 1)], []]
    pushed = opened_with(table, pushed=(("rank", "<", (1,)), ("name", "IN", ("n0", "n3", "n4"))))
    assert [len(rows) for rows in pushed.answers([(0,), (3,), (4,), (6,)])] == [1, 1, 0, 0]
    again = opened_with(table)
    assert again.answers([(1,)]) == [[(1, "n1", 1)]]
    made.execute("UPDATE dim SET name = 'new' WHERE k = 1")
    made.commit()
    assert again.answers([(1,)]) == [[(1, "new", 1)]], "what has been committed is seen"
    whole = al.lookup_table(DIM, connect=connect, table="dim", cache="full", refresh="1 h")
    assert opened_with(whole).answers([(5,), (5000,)]) == [[(5, "n5", 2)], []]
    made.execute("UPDATE dim SET rank = 'high' WHERE k = 7")
    made.commit()
    made.close()
    with pytest.raises(LookupAnswerError, match="key k=7: column 'rank' is INT"):
        opened_with(table).answers([(7,)])
    gone = al.lookup_table(DIM, connect=connect, table="nowhere")
    with pytest.raises(LookupFailedError, match="OperationalError: no such table"):
        opened_with(gone).answers([(1,)])


@pytest.mark.slow
def test_postgresql() -> None:
    with postgres.server() as server:
        connect = server.connect
        check_hostile(*hostile_table(connect, "%s"))
        with connect() as made:
            made.execute("CREATE SCHEMA stock")
            made.execute(
                "CREATE TABLE stock.dim (k INT PRIMARY KEY, at TIMESTAMPTZ, day DATE, price NUMERIC(10,2), "
                "ok BOOLEAN, raw BYTEA, tags TEXT[])"
            )
            made.execute(
                "INSERT INTO stock.dim SELECT n, '2026-01-01Z', '2026-01-02', n + 0.25, n % 2 = 0, '\\x00ff', "
                "ARRAY['a', NULL] FROM generate_series(1, 3000) AS n"
            )
        columns = "k INT, at TIMESTAMP, day DATE, price DECIMAL(10, 2), ok BOOLEAN, raw BINARY, tags ARRAY<STRING>"
        table = al.lookup_table(columns, connect=connect, table="stock.dim", key="k", attempts=2)
        opened_table = opened_with(table)
        found = opened_table.answers([(k,) for k in range(2500, 3500)])
        assert [len(rows) for rows in found] == [1] * 501 + [0] * 499
        row = found[0][0]
        assert (row[0], row[3], row[4:]) == (
            2500,
            Decimal("2500.25"),
            (True, b"\x00\xff", ["a", None]),
        )
        assert row[1].isoformat() == "2026-01-01T00:00:00+00:00"
        with connect() as made:
            made.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND "
                "backend_type = 'client backend'"
            )
        assert (
            opened_table.answers([(1,)])[0][0][0] == 1
        ), "a connection that was lost is made again"
        text = al.lookup_table(
            "name STRING, k INT", connect=connect, table="words", on_error="null"
        )
        with connect() as made:
            made.execute("CREATE TABLE words (name TEXT, k INT)")
            made.execute("INSERT INTO words VALUES ('a', 1)")
        nul = opened_with(text, asked=("name",))
        assert nul.answers([("a",), ("a\0b",)]) == [
            [("a", 1)],
            [],
        ], "PostgreSQL takes no NUL in a text"
        ddl = f"""
            CREATE TABLE dim (k INT, price DECIMAL(10, 2)) WITH ('connector' = 'jdbc', 'url' = 'jdbc:{server.url}',
              'table-name' = 'stock.dim', 'lookup.cache' = 'FULL');
            SELECT s.k, d.price FROM s LEFT JOIN dim FOR SYSTEM_TIME AS OF PROCTIME() AS d
            ON s.k = d.k AND d.price < 3"""
        with al.Harness.from_sql(ddl, {"s": "k INT"}) as harness:
            harness.process([("+I", 1), ("+I", 2), ("+I", 3)])
            harness.flush()
            assert harness.table() == [(1, Decimal("1.25")), (2, Decimal("2.25")), (3, None)]
        close_all()


def test_a_process_opens_a_table_once_and_closes_it() -> None:
    closed: list[int] = []

    class Connection:
        def cursor(self) -> Any:
            return self

        def execute(self, *_: Any) -> None: ...

        def fetchall(self) -> list[Any]:
            return []

        def rollback(self) -> None: ...

        def close(self) -> None:
            closed.append(1)

    made: list[Connection] = []

    def connect() -> Connection:
        made.append(Connection())
        return made[-1]

    table = al.lookup_table(DIM, connect=connect, table="dim")
    request = Request("dim", table, ("k",), table.columns)
    assert open_table(request) is open_table(replace(request))
    assert made == [], "the connection waits for the first key"
    open_table(request).answers([(1,)])
    open_table(request).answers([(2,)])
    assert len(made) == 1
    close_all()
    assert len(closed) >= 2


def test_a_function_of_two_values_gets_them_in_the_order_of_the_key() -> None:
    table = al.lookup_table(
        "a INT, b STRING, c INT", function=lambda b, a: (a, b, a * 10), key=["b", "a"]
    )
    assert ask(table, [(3, "x")], asked=("a", "b")) == [[(3, "x", 30)]]


def test_a_large_batch_of_few_keys_asks_few_times() -> None:
    asked: list[int] = []
    table = function(lambda k: asked.append(k) or (k, "x", 1))
    sql = "SELECT s.id, d.name FROM s JOIN dim FOR SYSTEM_TIME AS OF PROCTIME() AS d ON s.k = d.k"
    with al.Harness.from_sql(
        sql, {"s": "id INT, k INT"}, lookups={"dim": table}, input_changes="append"
    ) as harness:
        numbers = pa.array(range(200_000), pa.int32())
        keys = pa.array([n % 50 for n in range(200_000)], pa.int32())
        harness.process(pa.RecordBatch.from_arrays([numbers, keys], names=["id", "k"]))
        harness.flush()
        assert len(harness.changes()) == 200_000
    assert sorted(asked) == list(range(50))
