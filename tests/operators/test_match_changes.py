"""MATCH_RECOGNIZE over changes: the model over the rows that are there, after each of random changes; facts."""

from __future__ import annotations

import datetime as dt
import os
import random
from collections import Counter
from typing import Any

import match_model
import pytest
from match_model import Query

import aggloom as al
from aggloom.errors import OrphanRetractionError, SqlError
from aggloom.runtime.operators.match import corrections

_FIRST, _COUNT = map(int, os.environ.get("AGGLOOM_SEEDS", "0:12").split(":"))
TABLE = {
    "g": "STRING",
    "id": "INT",
    "price": "INT",
    "name": "STRING",
    "rate": "DOUBLE",
    "cost": "DECIMAL(10, 2)",
    "ts": "TIMESTAMP",
}


def open_random(query: Query, backend: Any = "python") -> al.Harness:
    return al.Harness.from_sql(
        query.sql(), {"t": TABLE}, input_changes="retract", backend=backend, buckets=2
    )


def run_over_changes(query: Query, rng: random.Random, backend: Any = "python") -> int:
    """Feed random changes with watermarks and restarts; after each the result is the model's over the rows so far."""
    waiting, live = match_model.random_rows(rng, 40), {}
    harness = open_random(query, backend)
    known = match_model.START - dt.timedelta(days=1)
    table: Counter[tuple[Any, ...]] = Counter()
    taken = 0

    def check(known: dt.datetime | None) -> None:
        nonlocal taken
        came, went = Counter(), Counter()
        for kind, *row in harness.changes():
            (went if kind == "-D" else came)[tuple(row)] += 1
        # What stands as it stood is not emitted again.
        assert not came & went, query.sql()
        taken += went.total()
        table.update(came)
        table.subtract(went)
        wanted = Counter(match_model.expected(query, list(live.values()), known))
        assert +table == wanted and min(table.values(), default=0) >= 0, query.sql()

    for _ in range(25):
        changes = match_model.change_rows(rng, live, waiting)
        if not changes:
            continue
        harness.process(changes)
        harness.flush()
        check(known)
        if live and rng.random() < 0.6:
            newest = max(row["ts"] for row in live.values()) - dt.timedelta(seconds=2)
            known = max(known, newest)
            harness.watermark(int(known.timestamp() * 1000))
            check(known)
        if rng.random() < 0.2:
            data = harness.snapshot()
            harness = open_random(query, backend)
            harness.restore(data)
    harness.end_of_input()
    check(None)
    return taken


@pytest.mark.parametrize("seed", range(_FIRST, _FIRST + _COUNT))
@pytest.mark.sampled(4)
def test_random_changes(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(seed)
    monkeypatch.setattr(corrections, "_ROOM", rng.choice([1, 3, 64]))
    query = match_model.random_query(rng)
    # What is computed of two values may be the same when these are others.
    query.left_out = ("x",) if rng.random() < 0.3 else ("x", "k")
    run_over_changes(query, rng)


@pytest.mark.slow
def test_random_changes_compiled() -> None:
    rng = random.Random(8)
    query = match_model.random_query(rng)
    query.left_out = ("x", "k")
    assert run_over_changes(query, rng, "numba") > 0


START = match_model.START
COLUMNS = {"g": "STRING", "id": "INT", "v": "INT", "ts": "TIMESTAMP"}
SQL = (
    "SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY g ORDER BY ts MEASURES FIRST(A.id) AS f, B.id AS l "
    "PATTERN (A+ B) DEFINE A AS v = 1, B AS v = 2)"
)


def row(number: int, value: int, at: float | None = None) -> tuple[Any, ...]:
    return ("x", number, value, START + dt.timedelta(seconds=number if at is None else at))


def open_harness(sql: str = SQL, **options: Any) -> al.Harness:
    options = {"backend": "python", "input_changes": "retract", **options}
    return al.Harness.from_sql(sql, {"t": COLUMNS}, **options)


def feed(harness: al.Harness, *changes: tuple[Any, ...], known: float | None = None) -> list[Any]:
    """The changes that rows bring, and after them the watermark."""
    harness.process([*changes])
    harness.flush()
    if known is not None:
        harness.watermark(int((START + dt.timedelta(seconds=known)).timestamp() * 1000))
    return list(harness.changes())


def test_a_change_searches_what_it_touches() -> None:
    """In a key of 3,000 rows a change searches a few of them again, wherever it is."""
    with open_harness() as harness:
        rows = [("+I", *row(number, 1 + (number % 3 == 2))) for number in range(3000)]
        assert len(feed(harness, *rows, known=5000)) == 1000
        for number in (1500, 2999, 0):
            before = harness.operator.counters["searched"]
            old, new = row(number, 1 + (number % 3 == 2)), row(number, 3)
            first = number - number % 3
            wanted = [("-D", "x", first, first + 2)]
            wanted += [("+I", "x", 1, 2)] if number == 0 else []
            wanted += [("+I", "x", 1501, 1502)] if number == 1500 else []
            assert feed(harness, ("-U", *old), ("+U", *new)) == wanted
            assert harness.operator.counters["searched"] - before < 15


def test_a_late_row_makes_a_match_and_goes() -> None:
    with open_harness() as harness:
        assert feed(harness, ("+I", *row(1, 1)), ("+I", *row(9, 3)), known=20) == []
        late = row(5, 2)
        assert feed(harness, ("+I", *late)) == [("+I", "x", 1, 5)]
        rows, kinds = harness.operator.contents()
        assert rows.num_rows == 1 and kinds.tolist() == [0]
        assert feed(harness, ("-D", *late)) == [("-D", "x", 1, 5)]
        assert feed(harness, ("-D", *row(1, 1)), ("-D", *row(9, 3))) == []
        assert harness.operator.keys == 0


def test_rows_ahead_of_the_watermark_change_in_silence() -> None:
    with open_harness() as harness:
        feed(harness, ("+I", *row(1, 1)), ("+I", *row(2, 2)))
        # Before the first watermark there is nothing to show.
        assert harness.operator.contents()[0].num_rows == 0
        assert feed(harness, ("-D", *row(1, 1)), ("+I", *row(0, 1, 0.5)), known=3) == [
            ("+I", "x", 0, 2)
        ]


@pytest.mark.parametrize("policy", ["drop", "keep", "error"])
def test_rows_that_are_taken_back_and_never_came(policy: Any) -> None:
    with open_harness(on_orphan_retraction=policy) as harness:
        feed(harness, ("+I", *row(1, 1)), known=9)
        if policy == "error":
            with pytest.raises(OrphanRetractionError, match="key g='x'"):
                feed(harness, ("-D", *row(2, 2)))
            return
        assert feed(harness, ("-D", *row(2, 2))) == []
        wanted = [("+I", "x", 1, 2)] if policy == "drop" else []
        assert feed(harness, ("+I", *row(2, 2))) == wanted
        assert harness.counters["orphans_dropped"] == (policy == "drop")


def test_upserts() -> None:
    with open_harness(input_changes="upsert", keys={"t": "id"}) as harness:
        feed(harness, ("+I", *row(1, 1)), ("+I", *row(2, 2)), ("+I", *row(3, 2)), known=9)
        assert harness.table() == [("x", 1, 2)]
        assert feed(harness, ("+U", *row(2, 1))) == [("-D", "x", 1, 2), ("+I", "x", 1, 3)]
        # A later row is sent to the front.
        assert feed(harness, ("+U", *row(3, 2, 0.5))) == [("-D", "x", 1, 3)]
        assert feed(harness, ("-D", *row(2, 1)), ("+U", *row(3, 2, 4))) == [("+I", "x", 1, 3)]


def test_between_aggregates() -> None:
    """Sums by second are matched, and matches are counted: both change."""
    sums = "(SELECT g, ts, MAX(id) AS id, SUM(v) AS v FROM t GROUP BY g, ts) AS s"
    counted = f"SELECT g, COUNT(*) AS n FROM ({SQL.replace(' t ', f' {sums} ')}) AS m GROUP BY g"
    with open_harness(counted) as harness:
        feed(harness, ("+I", *row(1, 1)), ("+I", *row(2, 1)), ("+I", *row(4, 1)), known=9)
        assert harness.table() == []
        feed(harness, ("+I", *row(3, 1, 2)), ("+I", *row(5, 2)))
        assert harness.table() == [("x", 2)]
        feed(harness, ("-D", *row(3, 1, 2)))
        assert harness.table() == [("x", 1)]


def test_a_key_that_got_no_row_is_forgotten() -> None:
    with open_harness(options={"state_ttl": "10 s"}) as harness:
        feed(harness, ("+I", *row(1, 1)), ("+I", *row(2, 2)), known=9)
        harness.set_ttl_time(20_000)
        # Its match stands, and is known to nobody here any more.
        assert feed(harness, ("-D", *row(2, 2))) == []
        assert harness.counters["expired"] == 1


def test_explain_says_what_is_kept() -> None:
    def explain(changes: Any) -> str:
        return str(al.explain(SQL, tables={"t": COLUMNS}, input_changes=changes))

    assert "over=[changes]" in explain("retract") and "all its rows" in explain("retract")
    assert "over=" not in explain("append")


def test_what_is_seen_by_the_clock_is_only_added() -> None:
    sql = SQL.replace(" t ", " (SELECT *, PROCTIME() AS p FROM t) AS s ").replace("BY ts", "BY p")
    with pytest.raises(SqlError, match=r"by PROCTIME\(\) over rows that change is not supported"):
        open_harness(sql)
