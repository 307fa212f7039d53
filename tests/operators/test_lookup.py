"""Lookup joins in the harness: random changes against a table that changes between batches; hints, caches, refusals."""

from __future__ import annotations

import random
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import examples

import aggloom as al
from aggloom.errors import (
    LookupAnswerError,
    LookupFailedError,
    OptionError,
    OrphanRetractionError,
    SpecError,
    SqlError,
    TypeMismatchError,
    UnsupportedSqlError,
)

S = {"s": "id INT, k INT, v STRING"}
DIM = "k INT, name STRING, rank INT"
Row = tuple[Any, ...]


class Table:
    """A table as a dictionary: what is in it is what it says from then on."""

    def __init__(self, several: bool = False) -> None:
        self.rows: dict[int, list[Row]] = {}
        self.several = several
        self.asked: list[int] = []

    def __call__(self, k: int) -> list[Row] | None:
        self.asked.append(k)
        return [(k, *rest) for rest in self.rows.get(k, [])] or None

    def change(self, draw: random.Random) -> None:
        """Other rows for some keys."""
        for k in range(4):
            if draw.random() < 0.5:
                count = draw.choice([0, 1, 2, 3] if self.several else [0, 1])
                self.rows[k] = [(draw.choice("abc"), draw.randint(0, 3)) for _ in range(count)]

    def lookups(self, **options: Any) -> dict[str, Any]:
        """The table under the name dim."""
        return {"dim": al.lookup_table(DIM, function=self, key="k", **options)}


def query(kind: str, condition: str = "") -> str:
    at = "FOR SYSTEM_TIME AS OF PROCTIME()"
    return f"SELECT s.id, v, d.name, d.rank FROM s {kind} dim {at} AS d ON s.k = d.k{condition}"


class Model:
    """A lookup join in plain Python: each row with its matches when it came; the last that came goes first."""

    def __init__(self, table: Table, left: bool, by_id: bool) -> None:
        self.table, self.left, self.by_id = table, left, by_id
        self.got: dict[Row, list[list[Row]]] = {}

    def take(self, kind: str, row: Row) -> None:
        key = row[:1] if self.by_id else row
        stack = self.got.setdefault(key, [])
        if kind in ("-U", "-D"):
            stack.pop()
            return
        ident, k, v = row
        rows = self.table.rows.get(k, []) if k is not None else []
        passing = [rest for rest in rows if rest[1] > 0]
        found = [(ident, v, *rest) for rest in passing]
        stack.append(found or ([(ident, v, None, None)] if self.left else []))

    def result(self) -> Counter[Row]:
        return Counter(row for stack in self.got.values() for rows in stack for row in rows)


@examples(15)
@given(st.integers(0, 10**9))
def test_random_changes_against_a_table_that_changes(seed: int) -> None:
    draw = random.Random(seed)
    left, by_id, several = (draw.random() < 0.5 for _ in range(3))
    per_record = draw.random() < 0.3
    table = Table(several)
    model = Model(table, left, by_id)
    sql = query("LEFT JOIN" if left else "JOIN", " AND d.rank > 0")
    made: dict[str, Any] = {
        "buckets": draw.choice([1, 3]),
        "partitions": draw.choice([1, 2]),
        "keys": {"s": ["id"]} if by_id else None,
        "options": {"table.exec.mini-batch.enabled": not per_record},
    }
    dim = table.lookups()
    # Answers of more than one row have no key.
    dim = (
        {"dim": al.lookup_table(DIM, function=table, key="k")}
        if not several
        else {
            "dim": al.lookup_table(
                DIM,
                rows=lambda: [(k, *r) for k, rows in table.rows.items() for r in rows],
                refresh="batch",
            )
        }
    )
    harness = al.Harness.from_sql(sql, S, lookups=dim, **made)
    live: list[Row] = []
    for _ in range(draw.randint(1, 5)):
        table.change(draw)
        changes = []
        for _ in range(draw.randint(0, 8)):
            if live and draw.random() < 0.4:
                row = live.pop(draw.randrange(len(live)))
                if by_id and draw.random() < 0.5:
                    new = (row[0], draw.choice([None, 0, 1, 2, 3]), draw.choice("xy"))
                    changes += [("-U", *row), ("+U", *new)]
                    live.append(new)
                else:
                    changes.append(("-D", *row))
            else:
                ident = (
                    draw.randint(0, 3) if not by_id else max([r[0] for r in live], default=0) + 1
                )
                row = (ident, draw.choice([None, 0, 1, 2, 3]), draw.choice("xy"))
                changes.append(("+I", *row))
                live.append(row)
        for kind, *row in changes:
            model.take(kind, tuple(row))
        if changes:
            harness.process(changes)
        harness.flush()
        harness.table()  # The changes fold: nothing is taken back that is not there.
        assert Counter(harness.table()) == model.result(), seed
        if draw.random() < 0.4:
            saved = harness.snapshot()
            harness = al.Harness.from_sql(sql, S, lookups=dim, **made)
            harness.restore(saved)
            assert Counter(harness.table()) == model.result(), seed


def run(sql: str, rows: list[Row], lookups: dict[str, Any], **options: Any) -> list[Row]:
    with al.Harness.from_sql(sql, S, lookups=lookups, **options) as harness:
        harness.process(rows)
        harness.flush()
        return harness.table()


def test_insertions_are_answered_without_a_state() -> None:
    table = Table()
    table.rows = {1: [("one", 1)]}
    rows = [("+I", 1, 1, "x"), ("+I", 2, 9, "x"), ("+I", 3, None, "x")]
    lookups = table.lookups()
    assert run(query("JOIN"), rows, lookups, input_changes="append") == [(1, "x", "one", 1)]
    padded = [(1, "x", "one", 1), (2, "x", None, None), (3, "x", None, None)]
    assert run(query("LEFT JOIN"), rows, lookups, input_changes="append") == padded
    assert None not in table.asked, "a NULL is never looked up"
    text = al.explain(query("LEFT JOIN"), tables=S, lookups=lookups, input_changes="append")
    line = (
        "LookupJoin(table=[dim], joinType=[LeftOuterJoin], lookup=[k=k], select=[id, v, name, rank]"
    )
    assert line in text
    assert "no row is stored" in text
    assert "Exchange" not in text


def test_what_may_be_taken_back_is_remembered() -> None:
    table = Table()
    table.rows = {1: [("one", 1)]}
    with al.Harness.from_sql(
        query("JOIN"), S, lookups=table.lookups(), keys={"s": "id"}
    ) as harness:
        harness.process([("+I", 1, 1, "x")])
        harness.flush()
        harness.changes()
        table.rows = {1: [("uno", 1)], 2: [("dos", 2)]}
        table.asked.clear()
        harness.process([("-U", 1, 1, "x"), ("+U", 1, 2, "x")])
        harness.flush()
        assert harness.changes() == [("-U", 1, "x", "one", 1), ("+U", 1, "x", "dos", 2)]
        assert table.asked == [2], "a row that is taken back asks nothing"
        harness.process([("-D", 1, 2, "x")])
        harness.flush()
        assert harness.changes() == [("-D", 1, "x", "dos", 2)]
        assert harness.counters["keys"] == 0, "what it got leaves with the row"
        harness.process([("-D", 1, 2, "x")])
        harness.flush()
        assert (harness.changes(), harness.counters["orphans_dropped"]) == ([], 1)
    text = al.explain(query("JOIN"), tables=S, lookups=table.lookups(), keys={"s": "id"})
    assert "upsertMaterialize=[true]" in text
    assert "Exchange(distribution=[hash[id]]" in text


@pytest.mark.parametrize("policy", ["error", "keep"])
def test_a_row_that_is_taken_back_before_it_comes(policy: str) -> None:
    table = Table()
    table.rows = {1: [("one", 1)]}
    options = {"on_orphan_retraction": policy}
    with al.Harness.from_sql(query("JOIN"), S, lookups=table.lookups(), **options) as harness:
        harness.process([("-D", 1, 1, "x")])
        if policy == "error":
            with pytest.raises(OrphanRetractionError, match="does not hold it"):
                harness.flush()
            return
        harness.flush()
        harness.process([("+I", 1, 1, "x"), ("+I", 1, 1, "x")])
        harness.flush()
        assert harness.changes() == [("+I", 1, "x", "one", 1)]


def test_a_state_that_is_forgotten() -> None:
    table = Table()
    table.rows = {1: [("one", 1)]}
    options = {"table.exec.state.ttl": "1 h"}
    with al.Harness.from_sql(query("JOIN"), S, lookups=table.lookups(), options=options) as harness:
        harness.process([("+I", 1, 1, "x")])
        harness.flush()
        harness.set_ttl_time(3_600_001)
        harness.process([("-D", 1, 1, "x")])
        harness.flush()
        assert harness.counters["expired"] == 1
        assert harness.table() == [(1, "x", "one", 1)], "what was joined stays"


def test_aggregates_stand_above_and_below() -> None:
    table = Table()
    table.rows = {1: [("one", 1)], 2: [("two", 1)]}
    sql = """
        SELECT name, SUM(n) AS total FROM (SELECT k, COUNT(*) AS n FROM s GROUP BY k) AS c
        LEFT JOIN dim FOR SYSTEM_TIME AS OF PROCTIME() AS d ON c.k = d.k GROUP BY name"""
    with al.Harness.from_sql(sql, S, lookups=table.lookups(), backend="python") as harness:
        for n in range(3):
            harness.process([("+I", n, 1, "x"), ("+I", n, 2, "x"), ("+I", n, 7, "x")])
            harness.flush()
            table.rows = {1: [(f"one{n}", 1)]}
        assert harness.table() == [(None, 6), ("one1", 3)]


def test_keys_that_are_computed_and_constants_and_further_conditions() -> None:
    rows = [(2, "two", 5), (3, "three", 6)]
    lookups = {"dim": al.lookup_table(DIM, rows=rows)}
    sql = """
        SELECT s.id, d.name FROM s LEFT JOIN dim FOR SYSTEM_TIME AS OF PROCTIME() AS d
        ON s.k + 1 = d.k AND d.rank = 5 AND s.v <> 'no' AND d.rank > s.id"""
    given_rows = [("+I", 1, 1, "x"), ("+I", 2, 2, "x"), ("+I", 3, 1, "no"), ("+I", 7, 1, "x")]
    assert run(sql, given_rows, lookups) == [(1, "two"), (2, None), (3, None), (7, None)]


def test_a_where_on_the_table_is_a_test_of_the_answers() -> None:
    table = Table()
    table.rows = {1: [("one", 1)], 2: [("two", 2)]}
    rows = [("+I", 1, 1, "x"), ("+I", 2, 2, "x"), ("+I", 3, 3, "x")]
    where = query("LEFT JOIN") + " WHERE d.rank > 1 AND s.id < 3"
    assert run(where, rows, table.lookups(), input_changes="append") == [(2, "x", "two", 2)]
    assert 3 not in table.asked, "a condition of the row comes before the question"
    nothing = query("LEFT JOIN") + " WHERE d.name IS NULL"
    assert run(nothing, rows, table.lookups(), input_changes="append") == [(3, "x", None, None)]


def test_a_time_column_of_the_rows() -> None:
    table = Table()
    table.rows = {1: [("one", 1)]}
    sql = """
        SELECT t.id, d.name FROM (SELECT *, PROCTIME() AS proctime FROM s) AS t
        JOIN dim FOR SYSTEM_TIME AS OF t.proctime AS d ON t.k = d.k"""
    assert run(sql, [("+I", 1, 1, "x")], table.lookups()) == [(1, "one")]


def test_one_column_of_using_and_lookup_sql() -> None:
    lookups = {"r": al.lookup_table(DIM, rows=[(1, "one", 1)])}
    with al.Harness.from_sql(
        al.lookup_sql("k", select=["k", "id", "name"]), {"l": S["s"]}, lookups=lookups
    ) as harness:
        harness.process([("+I", 5, 1, "x")])
        harness.flush()
        assert harness.table() == [(1, 5, "one")]


def test_two_lookups_and_a_plain_join() -> None:
    one = {"a": al.lookup_table("k INT, x STRING", rows=[(1, "a1")])}
    two = {"b": al.lookup_table("x STRING, y STRING", rows=[("a1", "b1")])}
    at = "FOR SYSTEM_TIME AS OF PROCTIME()"
    sql = f"SELECT s.id, y, w FROM s JOIN a {at} ON s.k = a.k JOIN b {at} ON a.x = b.x JOIN t ON s.k = t.k"
    tables = {**S, "t": "k INT, w INT"}
    with al.Harness.from_sql(sql, tables, lookups={**one, **two}) as harness:
        harness.process([("+I", 1, 1, "x")], table="s")
        harness.process([("+I", 1, 7)], table="t")
        harness.flush()
        assert harness.table() == [(1, "b1", 7)]
        harness.process([("-D", 1, 1, "x")], table="s")
        harness.flush()
        assert harness.table() == []


def test_hints_say_how_a_table_is_asked() -> None:
    table = Table()
    hint = (
        "/*+ LOOKUP('table'='d', 'retry-predicate'='lookup_miss', 'retry-strategy'='fixed_delay', "
        "'fixed-delay'='1ms', 'max-attempts'='3') */"
    )
    sql = query("LEFT JOIN").replace("SELECT", f"SELECT {hint}")
    assert run(sql, [("+I", 1, 1, "x")], table.lookups()) == [(1, "x", None, None)]
    assert table.asked == [1, 1, 1]


@pytest.mark.parametrize(
    ("hint", "error"),
    [
        ("LOOKUP('table'='x', 'async'='true')", "which no lookup join"),
        ("LOOKUP('async'='true')", "say which table"),
        ("LOOKUP('table'='d', 'asink'='true')", "there is no 'asink'"),
        ("LOOKUP('table'='d', 'async'='yes')", "async is 'yes'"),
        ("LOOKUP('table'='d', 'shuffle'='true')", "rows ask where they are read"),
        ("LOOKUP('table'='d', 'fixed-delay'='1s')", "a retry needs"),
        ("LOOKUP('table'='d', 'capacity'='0')", "at least 1"),
        ("LOOKUP('table'='d', 'timeout'='soon')", "duration"),
        ("LOOKUP(d)", "names and values"),
        ("STATE_TTL('s' = '1 d')", "STATE_TTL of a lookup join"),
    ],
)
def test_hints_that_cannot_be(hint: str, error: str) -> None:
    sql = query("JOIN").replace("SELECT", f"SELECT /*+ {hint} */")
    with pytest.raises(SpecError, match=error):
        al.explain(sql, tables=S, lookups=Table().lookups())


@pytest.mark.parametrize(
    ("sql", "kind", "error"),
    [
        ("SELECT * FROM dim", UnsupportedSqlError, "is a lookup table, which only a join asks"),
        ("SELECT s.id FROM s JOIN dim ON s.k = dim.k", UnsupportedSqlError, "is a lookup table"),
        (query("RIGHT JOIN"), SqlError, "RIGHT JOIN"),
        (query("JOIN").replace("s.k = d.k", "s.k > d.k"), SqlError, "without an equality"),
        (query("JOIN").replace("s.k = d.k", "s.k <=> d.k"), SqlError, "NULL finds nothing"),
        (query("JOIN").replace("s.k = d.k", "s.v = d.name"), SqlError, "without k"),
        (
            query("JOIN").replace("s.k = d.k", "CAST(s.k AS BIGINT) = d.k"),
            TypeMismatchError,
            "cast",
        ),
        (query("JOIN").replace("PROCTIME()", "s.v"), SqlError, "AS OF a row time"),
    ],
)
def test_what_is_refused(sql: str, kind: type[Exception], error: str) -> None:
    with pytest.raises(kind, match=error):
        al.explain(sql, tables=S, lookups=Table().lookups())


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({}, "give one of rows, files"),
        ({"rows": [], "files": "x"}, "give one of rows, files"),
        ({"function": len}, "name its columns"),
        ({"function": len, "key": "q"}, "the key names column 'q'"),
        ({"function": 3, "key": "k"}, "give a function"),
        ({"connect": len}, "go together"),
        ({"rows": [], "cache": "partial"}, "read whole"),
        ({"function": len, "key": "k", "cache": "full"}, "cannot be read whole"),
        ({"rows": [], "refresh": "often"}, "duration"),
        ({"function": len, "key": "k", "on_error": "ignore"}, "on_error"),
        ({"function": len, "key": "k", "capacity": 0}, "at least 1"),
        ({"files": "x", "format": "orc"}, "no format"),
    ],
)
def test_tables_that_cannot_be(options: dict[str, Any], error: str) -> None:
    with pytest.raises(SpecError, match=error):
        al.lookup_table(DIM, **options)


def test_a_table_in_ddl(tmp_path: Any) -> None:
    import sqlite3

    place = tmp_path / "dim.db"
    with sqlite3.connect(place) as made:
        made.execute("CREATE TABLE dim (k INT, name TEXT, rank INT)")
        made.execute("INSERT INTO dim VALUES (1, 'one', 1)")
    made.close()
    ddl = f"""
        CREATE TABLE dim (k INT, name STRING, rank INT, PRIMARY KEY (k) NOT ENFORCED) WITH (
          'connector' = 'jdbc', 'url' = 'jdbc:sqlite:{place}', 'table-name' = 'dim',
          'lookup.cache' = 'PARTIAL', 'lookup.partial-cache.max-rows' = '100',
          'lookup.partial-cache.expire-after-write' = '10 min', 'lookup.max-retries' = '3');"""
    assert run(ddl + query("JOIN"), [("+I", 1, 1, "x")], {}) == [(1, "x", "one", 1)]
    assert "up to 100 rows are kept for 10 min" in al.explain(ddl + query("JOIN"), S["s"])
    for old, new, error in (
        ("'jdbc'", "'jbdc'", "Did you mean 'jdbc'"),
        ("jdbc:sqlite:", "jdbc:oracle:", "are known"),
        ("'lookup.cache'", "'lookup.cash'", "there is no option"),
        ("'PARTIAL'", "'SOME'", "cache is 'some'"),
        ("'table-name'", "'username'", "'table-name' is missing"),
    ):
        with pytest.raises((OptionError, SpecError), match=error):
            al.explain(ddl.replace(old, new, 1) + query("JOIN"), S["s"])


def test_names_of_tables_and_what_is_no_table() -> None:
    with pytest.raises(SpecError, match="rename one"):
        al.explain(query("JOIN"), tables={**S, "dim": DIM}, lookups=Table().lookups())
    with pytest.raises(SpecError, match=r"give al.lookup_table"):
        al.explain(query("JOIN"), tables=S, lookups={"dim": [1]})


def test_many_columns_without_a_key_are_refused() -> None:
    wide = ", ".join(f"c{n} INT" for n in range(80))
    sql = "SELECT * FROM s JOIN dim FOR SYSTEM_TIME AS OF PROCTIME() AS d ON s.c0 = d.k"
    with pytest.raises(UnsupportedSqlError, match="Say what is unique"):
        al.explain(sql, tables={"s": wide}, lookups=Table().lookups())
    assert "LookupJoin" in al.explain(
        sql, tables={"s": wide}, lookups=Table().lookups(), keys={"s": "c0"}
    )


def test_only_columns_that_are_read_are_asked_for() -> None:
    """The table has more columns than the Arrow rows: those that nothing reads need not be there."""
    rows = pa.table({"k": pa.array([1], pa.int32()), "name": ["one"]})
    lookups = {"dim": al.lookup_table(DIM, rows=rows)}
    sql = "SELECT d.name FROM s JOIN dim FOR SYSTEM_TIME AS OF PROCTIME() AS d ON s.k = d.k"
    assert run(sql, [("+I", 1, 1, "x")], lookups) == [("one",)]
    count = sql.replace("d.name", "COUNT(*)")
    assert run(count, [("+I", 1, 1, "x"), ("+I", 2, 1, "x")], lookups, backend="python") == [(2,)]
    with pytest.raises(LookupAnswerError, match="there is no column 'rank'"):
        run(query("JOIN"), [("+I", 1, 1, "x")], lookups)


def test_a_failure_names_table_key_and_fix() -> None:
    def fails(k: int) -> None:
        raise OSError("no route")

    lookups = {"dim": al.lookup_table(DIM, function=fails, key="k")}
    with pytest.raises(
        LookupFailedError, match=r"table dim, key k=1: OSError: no route. Set attempts"
    ):
        run(query("JOIN"), [("+I", 1, 1, "x")], lookups)
    told = {"null": [(1, "x", None, None)], "skip": []}
    for policy, rows in told.items():
        lookups = {"dim": al.lookup_table(DIM, function=fails, key="k", on_error=policy)}
        for changes in ("append", "retract"):
            found = run(query("LEFT JOIN"), [("+I", 1, 1, "x")], lookups, input_changes=changes)
            assert found == rows


def test_the_page_says_what_happens(capsys: pytest.CaptureFixture[str]) -> None:
    page = (Path(__file__).parents[2] / "docs" / "lookup.md").read_text(encoding="utf-8")
    code, printed = re.findall(r"```(?:python|text)\n(.*?)```", page, re.S)[:2]
    exec(compile(code, "docs/lookup.md", "exec"), {})
    assert capsys.readouterr().out == printed


@pytest.mark.parametrize("keys", [None, {"s": "id"}])
def test_memory_is_given_back_and_what_is_left_stays_right(keys: Any) -> None:
    lookups = {"dim": al.lookup_table(DIM, rows=[(k, f"name {k}", 1) for k in range(100)])}
    with al.Harness.from_sql(query("LEFT JOIN"), S, lookups=lookups, keys=keys) as harness:
        rows = [(n, n % 150, f"row {n}") for n in range(6000)]
        harness.process([("+I", *row) for row in rows])
        harness.flush()
        full = harness.operator.state_bytes
        harness.process([("-D", *row) for row in rows[50:]])
        harness.flush()
        assert harness.operator.state_bytes < full / 10
        expected = [(n, f"row {n}", f"name {n}", 1) for n in range(50)]
        assert harness.table() == expected
        saved = harness.snapshot()
        harness.restore(saved)
        assert harness.table() == expected
        harness.process([("-D", *row) for row in rows[:50]])
        harness.flush()
        assert (harness.table(), harness.counters["keys"]) == ([], 0)


def test_every_picture_of_a_plan() -> None:
    for form in ("text", "json", "svg"):
        assert "LookupJoin" in al.explain(
            query("JOIN"), tables=S, lookups=Table().lookups(), format=form
        )
