"""Rows of sessions that nothing groups by: each leaves once, when its session is over, with the session's bounds."""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter, defaultdict
from typing import Any

import pytest

import aggloom as al
from aggloom.errors import UnsupportedSqlError

BEGIN = dt.datetime(2024, 1, 1)
TABLES = {"t": "id INT, k STRING, ts TIMESTAMP(3), v DOUBLE, l ARRAY<INT>"}
GAP = 10
Row = tuple[Any, ...]


def session(keys: str = "PARTITION BY k") -> str:
    return f"TABLE(SESSION(TABLE t {keys}, DESCRIPTOR(ts), INTERVAL '{GAP}' SECOND))"


def at(seconds: float) -> dt.datetime:
    return BEGIN + dt.timedelta(seconds=seconds)


def milliseconds(moment: dt.datetime) -> int:
    return round((moment - dt.datetime(1970, 1, 1)).total_seconds() * 1000)


def model(rows: Counter[Row], by_key: bool = True) -> Counter[Row]:
    """The rows with the bounds of their sessions, which are made of all rows at once."""
    found: Counter[Row] = Counter()
    keys: dict[Any, list[Row]] = defaultdict(list)
    for row in rows.elements():
        keys[row[1] if by_key else None].append(row)
    for own in keys.values():
        part: list[Row] = []
        for row in [*sorted(own, key=lambda each: each[2]), None]:
            if part and (row is None or row[2] > part[-1][2] + dt.timedelta(seconds=GAP)):
                end = part[-1][2] + dt.timedelta(seconds=GAP)
                found.update((each[0], each[1], each[3], part[0][2], end) for each in part)
                part = []
            part += [] if row is None else [row]
    return found


def random_rows(seed: int, retracts: bool) -> list[tuple[list[Row], float]]:
    """Bundles of changes, each with the watermark after it; what comes or goes is ahead of the watermark."""
    draw = random.Random(seed)
    live: list[Row] = []
    bundles, mark = [], 0.0
    for _ in range(12):
        changes: list[Row] = []
        for _ in range(draw.randrange(6)):
            early = [row for row in live if row[2] > at(mark + GAP)]
            if retracts and early and draw.random() < 0.3:
                gone = draw.choice(early)
                live.remove(gone)
                changes.append(("-D", *gone))
                continue
            seconds = mark + draw.choice([0.002, draw.randrange(1, 40)])
            values = draw.choice([None, 0.5, -0.0]), draw.choice([None, [], [1, None]])
            row = (len(live), draw.choice(["a", "b", None]), at(seconds), *values)
            row = (
                draw.choice(live)
                if live and live[-1][2] > at(mark) and draw.random() < 0.1
                else row
            )
            if row[2] <= at(mark):
                continue
            live.append(row)
            changes.append(("+I", *row))
        mark += draw.randrange(0, 12)
        bundles.append((changes, mark))
    return bundles


@pytest.mark.parametrize("retracts", [False, True], ids=["append", "retract"])
@pytest.mark.parametrize("seed", range(4))
def test_rows_beside_a_model_over_restarts(seed: int, retracts: bool) -> None:
    by_key = seed % 2 == 0
    query = f"SELECT id, k, v, window_start, window_end FROM {session() if by_key else session('')}"
    about: dict[str, Any] = {
        "input_changes": "retract" if retracts else "append",
        "dialect": "flink",
        "backend": "python",
    }
    running, told, rows = (
        al.Harness.from_sql(query, TABLES, **about),
        Counter[Row](),
        Counter[Row](),
    )
    for number, (changes, mark) in enumerate(random_rows(seed, retracts)):
        if changes:
            running.process(changes)
        running.watermark(milliseconds(at(mark)))
        fresh = [tuple(row) for row in running.changes()]
        # A row leaves once and for all, when its session is over.
        assert all(kind == "+I" and row[-1] <= at(mark + 0.001) for kind, *row in fresh)
        told.update(tuple(row) for _, *row in fresh)
        for kind, *row in changes:
            rows[_plain(row)] += 1 if kind == "+I" else -1
        if number == 6:
            state = running.snapshot()
            running.close()
            running = al.Harness.from_sql(query, TABLES, **about)
            running.restore(state)
            running.watermark(milliseconds(at(mark)))
            running.changes()
    assert running.counters["late_dropped"] == 0
    running.end_of_input()
    told.update(tuple(row) for _, *row in running.changes())
    expected = model(+rows, by_key)
    if retracts:
        # A session keeps the bounds that a row had given it which is no more.
        told, expected = (Counter(row[:3] for row in each.elements()) for each in (told, expected))
    assert told == expected and told
    running.close()


def _plain(row: Any) -> Row:
    """A row that can be counted."""
    return tuple(tuple(value) if isinstance(value, list) else value for value in row)


def fed(query: str, **more: Any) -> list[Row]:
    """The table of a query over a few rows, once they have all left."""
    about = {"dialect": "flink", "backend": "python", "input_changes": "append", **more}
    with al.Harness.from_sql(query, TABLES, **about) as harness:
        seconds = [("a", 0), ("a", 5), ("b", 3), ("a", 30), ("b", 14), ("a", 33)]
        harness.process([("+I", n, k, at(s), 1.0 + n, None) for n, (k, s) in enumerate(seconds)])
        harness.end_of_input()
        return sorted(tuple(row) for row in harness.table())


def test_the_bounds_may_be_computed_with() -> None:
    length = "TIMESTAMPDIFF(SECOND, window_start, window_end)"
    query = f"SELECT id, {length} AS s FROM {session()} WHERE window_end > TIMESTAMP '2024-01-01 00:00:20' AND v > 2"
    assert fed(query) == [(3, 13), (4, 10), (5, 13)]


def test_groups_of_other_keys_stand_over_rows_of_sessions() -> None:
    query = f"SELECT k, window_start, COUNT(*) AS n FROM {session('')} GROUP BY k, window_start, window_end"
    assert fed(query) == [("a", at(0), 2), ("a", at(30), 2), ("b", at(0), 2)]
    filtered = f"""SELECT k, window_start, window_end, COUNT(*) AS n FROM {session()}
      WHERE v > 1 GROUP BY k, window_start, window_end"""
    # The session is that of all rows, also of those that the condition takes out.
    assert ("a", at(0), at(15), 1) in fed(filtered)


def test_windows_and_ranks_over_rows_of_sessions() -> None:
    hourly = f"""WITH s AS (SELECT id, window_time AS wt FROM {session()})
      SELECT window_end, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE s, DESCRIPTOR(wt), INTERVAL '20' SECOND))
      GROUP BY window_start, window_end"""
    assert fed(hourly) == [(at(20), 3), (at(40), 1), (at(60), 2)]
    order = "PARTITION BY window_start, window_end, k ORDER BY ts"
    first = f"""SELECT id, k FROM (SELECT *, ROW_NUMBER() OVER ({order}) AS r FROM {session()}) WHERE r = 1"""
    assert [id for id, _ in fed(first)] == [0, 2, 3, 4]


def test_sessions_by_the_clock() -> None:
    query = """CREATE VIEW w AS SELECT id, k, PROCTIME() AS p FROM t;
      SELECT id, window_start FROM TABLE(SESSION(TABLE w PARTITION BY k, DESCRIPTOR(p), INTERVAL '10' SECOND))"""
    about: dict[str, Any] = {"dialect": "flink", "backend": "python", "input_changes": "append"}
    with al.Harness.from_sql(query, TABLES, **about) as harness:
        for seconds, number in ((0, 1), (5, 2), (20, 3)):
            harness.processing_time(milliseconds(at(seconds)))
            harness.process([("+I", number, "a", None, None, None)])
            harness.flush()
        assert [tuple(row) for row in harness.changes()] == [("+I", 1, at(0)), ("+I", 2, at(0))]
        harness.processing_time(milliseconds(at(40)))
        assert [tuple(row) for row in harness.changes()] == [("+I", 3, at(20))]


@pytest.mark.parametrize(
    ("tables", "changes", "said"),
    [
        (
            {"t": "id INT, k STRING, ts TIMESTAMP(3), m MAP<STRING, INT>"},
            "append",
            "over column 'm' of type MAP",
        ),
    ],
)
def test_rows_that_no_list_holds_are_refused(
    tables: dict[str, str], changes: str, said: str
) -> None:
    with pytest.raises(UnsupportedSqlError, match=said):
        al.Harness.from_sql(
            f"SELECT * FROM {session()}", tables, input_changes=changes, dialect="flink"
        )


def test_columns_that_nobody_reads_are_not_held() -> None:
    text = al.explain(
        f"SELECT id FROM {session()}", tables=TABLES, input_changes="append", dialect="flink"
    )
    assert "NAMED_STRUCT('id', `id`, 'k', `k`, 'ts', `ts`)" in text
    assert "session_rows fired: each row waits until its session ends" in text
