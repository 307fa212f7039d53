"""Joins whose rows leave with the watermark, beside plain models and DuckDB: random bounds, rows, cuts, restarts."""

from __future__ import annotations

import datetime as dt
import json
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import aggloom as al
from aggloom.codegen import AggSpec, to_schema
from aggloom.codegen.planner import PlanOptions, TimedJoin, plan_query, walk
from aggloom.errors import AggloomError, SpecError
from aggloom.runtime.local.pipeline import handlers
from aggloom.runtime.operators.registry import operator_from, operator_of
from aggloom.runtime.values.changelog import fold
from aggloom.runtime.values.clock import BEFORE_ALL

KINDS = {
    "inner": "JOIN",
    "left": "LEFT JOIN",
    "right": "RIGHT JOIN",
    "full": "FULL JOIN",
    "semi": "LEFT SEMI JOIN",
    "anti": "LEFT ANTI JOIN",
}
SECOND = 1_000_000
TABLES = {
    "a": "id INT, k INT, v INT, t TIMESTAMP_NTZ",
    "b": "id INT, k INT, v INT, t TIMESTAMP_NTZ",
}
Row = tuple[Any, ...]
Change = tuple[str, Row]
Bundle = tuple[Sequence[Change], Sequence[Change]]


def at(micros: int | None) -> dt.datetime | None:
    return None if micros is None else dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=micros)


def micros(time: dt.datetime) -> int:
    return round((time - dt.datetime(1970, 1, 1)) / dt.timedelta(microseconds=1))


def joined(
    kind: str, lefts: Counter[Row], rights: Counter[Row], match: Callable[[Row, Row], bool]
) -> Counter[Row]:
    """The rows of a join, as anybody would compute it."""
    out: Counter[Row] = Counter()
    met: set[tuple[int, Row]] = set()
    for x, m in lefts.items():
        for y, n in rights.items():
            if match(x, y):
                met |= {(0, x), (1, y)}
                if kind not in ("semi", "anti"):
                    out[x[:1] + y[:1]] += m * n
    for which, (rows, kinds) in enumerate(((lefts, ("left", "full")), (rights, ("right", "full")))):
        for row, count in rows.items():
            alone = (which, row) not in met
            if alone and kind in kinds:
                out[(row[0], None) if which == 0 else (None, row[0])] += count
            if which == 0 and kind in ("semi", "anti") and alone == (kind == "anti"):
                out[row[:1]] += count
    return +out


@dataclass
class Query:
    """A join with bounds of times: a.t - b.t within [lower, upper] microseconds."""

    kind: str
    lower: int
    upper: int
    further: bool
    text: str

    def match(self, x: Row, y: Row) -> bool:
        if None in (x[1], y[1], x[3], y[3]) or x[1] != y[1]:
            return False
        near = self.lower <= micros(x[3]) - micros(y[3]) <= self.upper
        return near and not (self.further and not x[2] < y[2])

    @property
    def sql(self) -> str:
        items = "a.id" if self.kind in ("semi", "anti") else "a.id, b.id AS other"
        return f"SELECT {items} FROM a {KINDS[self.kind]} b ON {self.text}"


def query_of(rnd: random.Random) -> Query:
    """Bounds in one of the ways in which they can be written."""
    lower, upper = sorted(rnd.randint(-20, 20) for _ in range(2))
    if rnd.random() < 0.08:
        lower, upper = upper + 1, lower
    kind, further = rnd.choice(list(KINDS)), rnd.random() < 0.3
    shift = lambda n: f"{'-' if n < 0 else '+'} INTERVAL '{abs(n)}' SECOND"  # noqa: E731
    strict = rnd.random() < 0.3
    parts = rnd.choice(
        [
            [f"a.t >= b.t {shift(lower)}", f"a.t <= b.t {shift(upper)}"],
            [f"b.t <= a.t {shift(-lower)}", f"b.t {shift(upper)} >= a.t"],
            [f"a.t {shift(-lower)} >= b.t", f"b.t >= a.t {shift(-upper)}"],
        ]
    )
    low, high = lower * SECOND, upper * SECOND
    if strict:
        parts = [part.replace(">=", ">").replace("<=", "<") for part in parts]
        low, high = low + 1, high - 1
    elif rnd.random() < 0.4:
        parts = [f"a.t BETWEEN b.t {shift(lower)} AND b.t {shift(upper)}"]
    if lower == upper and not strict and rnd.random() < 0.5:
        parts = [f"a.t {shift(-lower)} = b.t"] if lower else ["a.t = b.t"]
    parts += ["a.k = b.k"] + (["a.v < b.v"] if further else [])
    rnd.shuffle(parts)
    return Query(kind, low, high, further, " AND ".join(parts))


@dataclass
class Model:
    """An interval join row by row: what is kept of each side, as [row, until, whether it has had a partner]."""

    query: Query
    watermark: int = BEFORE_ALL
    sides: tuple[list[list[Any]], list[list[Any]]] = field(default_factory=lambda: ([], []))
    out: Counter[Row] = field(default_factory=Counter)

    def until(self, which: int, row: Row) -> int:
        empty = self.query.lower > self.query.upper
        if row[3] is None or empty:
            return BEFORE_ALL
        return (micros(row[3]) + (-self.query.lower, self.query.upper)[which]) // 1000

    def advance(self, watermark: int) -> None:
        self.watermark = max(self.watermark, watermark)
        self.leave(lambda each: each[1] < self.watermark)

    def bundle(self, lefts: list[Row], rights: list[Row]) -> None:
        for which, rows in enumerate((lefts, rights)):
            for row in rows:
                each = [row, self.until(which, row), False, True]
                for other in self.sides[1 - which]:
                    x, y = (each, other) if which == 0 else (other, each)
                    if self.query.match(x[0], y[0]):
                        if self.query.kind not in ("semi", "anti"):
                            self.out[x[0][0], y[0][0]] += 1
                        elif self.query.kind == "semi" and not x[2]:
                            self.out[x[0][:1]] += 1
                        x[2] = y[2] = True
                self.sides[which].append(each)
        self.leave(lambda each: each[3] and each[1] <= self.watermark)
        for side in self.sides:
            for each in side:
                each[3] = False

    def leave(self, goes: Callable[[list[Any]], bool]) -> None:
        kinds = (("left", "full", "anti"), ("right", "full"))
        for which, side in enumerate(self.sides):
            for each in [each for each in side if goes(each)]:
                side.remove(each)
                if not each[2] and self.query.kind in kinds[which]:
                    row = each[0]
                    padded = (row[0], None) if which == 0 else (None, row[0])
                    self.out[row[:1] if self.query.kind == "anti" else padded] += 1


def rows_of(rnd: random.Random, base: int, late: bool) -> list[Row]:
    """Rows a little around a time, in seconds, some with NULLs, some twice."""
    found: list[Row] = []
    for _ in range(rnd.choice([0, 1, 2, 5])):
        time = (base + rnd.randint(-25 if late else 0, 25)) * SECOND
        time += rnd.choice([0, 0, 0, 1, 999, 1000])
        stamp = at(None if rnd.random() < 0.04 else time)
        found.append((rnd.randint(0, 9), rnd.choice([0, 0, 1, 2, None]), rnd.randint(0, 2), stamp))
    return found + ([rnd.choice(found)] if found and rnd.random() < 0.2 else [])


class Timed:
    """A harness whose watermark is moved by hand, over tables whose times it goes by; it may be started again."""

    def __init__(
        self, sql: str, rnd: random.Random, changes: str = "append", **options: Any
    ) -> None:
        self.plan = plan_query(
            sql,
            TABLES,
            input_changes=changes,
            watermarks=dict.fromkeys(TABLES, "t"),
            options=PlanOptions.of(options),
        )
        assert any(isinstance(node, TimedJoin) for node in walk(self.plan.root)), sql
        self.cut = {"buckets": rnd.randint(1, 3), "partitions": rnd.randint(1, 2)}
        self.h = al.Harness.of_plan(self.plan, handlers("python"), **self.cut)
        self.out: list[tuple[Any, ...]] = []

    def bundle(self, bundle: Bundle) -> None:
        for name, changes in zip("ab", bundle, strict=True):
            if changes:
                self.h.process([(kind, *row) for kind, row in changes], table=name)
        self.h.flush()
        self.out += self.h.changes()

    def watermark(self, ms: int) -> None:
        self.h.watermark(ms)
        self.out += self.h.changes()

    def restart(self) -> None:
        state = self.h.snapshot()
        self.h = al.Harness.of_plan(self.plan, handlers("python"), **self.cut)
        self.h.restore(state)

    def end(self) -> None:
        self.h.end_of_input()
        self.out += self.h.changes()

    @property
    def rows(self) -> Counter[Row]:
        """The rows of a result that is only added to."""
        assert {kind for kind, *_ in self.out} <= {"+I"}
        return Counter(tuple(row) for _, *row in self.out)

    @property
    def table(self) -> Counter[Row]:
        return Counter(fold(self.out))


def check(seed: int) -> None:
    """An interval join over rows that are only added: the model's rows after every step, and DuckDB's at the end."""
    rnd = random.Random(seed)
    query, each = query_of(rnd), rnd.random() < 0.2
    h, model = Timed(query.sql, rnd, mini_batch_enabled=not each), Model(query)
    late, base = rnd.random() < 0.5, 0
    given: tuple[list[Row], list[Row]] = ([], [])
    for _ in range(rnd.randint(3, 12)):
        if rnd.random() < 0.4:
            base += rnd.randint(0, 12)
            now = base * 1000 - 1 - rnd.choice([0, 0, 1])
            h.watermark(now)
            model.advance(now)
        else:
            lefts, rights = (rows_of(rnd, base, late) for _ in range(2))
            h.bundle(([("+I", row) for row in lefts], [("+I", row) for row in rights]))
            for bundle in ((lefts, []), ([], rights)) if each else ((lefts, rights),):
                model.bundle(*bundle)
            given[0].extend(lefts)
            given[1].extend(rights)
        if rnd.random() < 0.2:
            h.restart()
        assert h.rows == model.out, (seed, query.sql)
    h.end()
    model.advance(2**62)
    assert h.rows == model.out, (seed, query.sql)
    assert h.h.counters["keys"] == 0
    if not late:
        plain = joined(query.kind, Counter(given[0]), Counter(given[1]), query.match)
        assert h.rows == plain == duck(query.sql, given), (seed, query.sql)


def duck(sql: str, given: Sequence[Sequence[Row]]) -> Counter[Row]:
    """What DuckDB makes of a query over rows."""
    connection = duckdb.connect()
    for (name, ddl), rows in zip(TABLES.items(), given, strict=True):
        data = [dict(zip(("id", "k", "v", "t"), row, strict=True)) for row in rows]
        connection.register(name, pa.Table.from_pylist(data, schema=to_schema(ddl)))
    text = sql.replace("LEFT SEMI", "SEMI").replace("LEFT ANTI", "ANTI")
    return Counter(connection.sql(text).fetchall())


def changes_of(rnd: random.Random, net: Counter[Row], rows: list[Row]) -> list[Change]:
    """Some of these rows as insertions, and insertions so far taken back or replaced."""
    found: list[Change] = []
    for row in rows:
        old = rnd.choice(sorted(net.elements(), key=repr)) if +net and rnd.random() < 0.5 else None
        if old is not None:
            net[old] -= 1
            found.append(("-D", old))
            if rnd.random() < 0.5:
                # The value changes, and perhaps the time.
                row = (*old[:2], rnd.randint(0, 2), old[3] if rnd.random() < 0.7 else row[3])
                found[-1] = ("-U", old)
        if old is None or found[-1][0] == "-U":
            net[row] += 1
            found.append(("+I" if old is None else "+U", row))
    return found


def check_changes(seed: int) -> None:
    """An interval join over changes: after every step the table is the join of all changes that came on time."""
    rnd = random.Random(seed)
    query = query_of(rnd)
    h = Timed(query.sql, rnd, "retract", mini_batch_enabled=rnd.random() < 0.6)
    all_of: tuple[Counter[Row], Counter[Row]] = (Counter(), Counter())
    kept: tuple[Counter[Row], Counter[Row]] = (Counter(), Counter())
    now, base, late = BEFORE_ALL, 0, 0
    for _ in range(rnd.randint(3, 12)):
        if rnd.random() < 0.35:
            base += rnd.randint(0, 12)
            now = max(now, base * 1000 - 1)
            h.watermark(now)
        else:
            bundle = tuple(changes_of(rnd, net, rows_of(rnd, base, True)) for net in all_of)
            h.bundle(bundle)
            for rows, changes in zip(kept, bundle, strict=True):
                for kind, row in changes:
                    if row[3] is not None and micros(row[3]) // 1000 <= now:
                        late += 1
                    else:
                        rows[row] += 1 if kind in ("+I", "+U") else -1
        if rnd.random() < 0.2:
            counted = h.h.counters["late_dropped"]
            h.restart()
            late -= counted
        wanted = joined(query.kind, +kept[0], +kept[1], query.match)
        assert h.table == wanted, (seed, query.sql)
        assert h.h.counters["late_dropped"] == late, (seed, query.sql)


WINDOWS = {
    "TUMBLE": ("INTERVAL '10' SECOND", lambda t: [(t - t % 10, t - t % 10 + 10)]),
    "HOP": (
        "INTERVAL '5' SECOND, INTERVAL '10' SECOND",
        lambda t: [(s, s + 10) for s in (t - t % 5, t - t % 5 - 5)],
    ),
    "CUMULATE": (
        "INTERVAL '5' SECOND, INTERVAL '10' SECOND",
        lambda t: [(t - t % 10, e) for e in (t - t % 10 + 5, t - t % 10 + 10) if t < e],
    ),
}


def check_windows(seed: int) -> None:
    """A join in windows: given out when they are over, netted of all changes that came before."""
    rnd = random.Random(seed)
    kind, further = rnd.choice(list(KINDS)), rnd.random() < 0.3
    names = [rnd.choice(list(WINDOWS)) for _ in range(2)]
    sides = [
        f"(SELECT * FROM TABLE({name}(TABLE {table}, DESCRIPTOR(t), {WINDOWS[name][0]})))"
        for name, table in zip(names, "ab", strict=True)
    ]
    on = ["l.window_start = r.window_start", "r.window_end = l.window_end", "l.k = r.k"]
    on += ["l.v < r.v"] if further else []
    rnd.shuffle(on)
    single = kind in ("semi", "anti")
    items = "l.id" if single else "l.id, r.id AS other"
    sql = f"SELECT {items} FROM {sides[0]} l {KINDS[kind]} {sides[1]} r ON {' AND '.join(on)}"
    if single and rnd.random() < 0.5:
        exists = "EXISTS" if kind == "semi" else "NOT EXISTS"
        sql = f"SELECT l.id FROM {sides[0]} l WHERE {exists} (SELECT 1 FROM {sides[1]} r WHERE {' AND '.join(on)})"
    changes = rnd.choice(["append", "retract"])
    h = Timed(sql, rnd, changes)

    def match(x: Row, y: Row) -> bool:
        same = x[1] == y[1] and x[1] is not None and x[4:] == y[4:]
        return same and not (further and not x[2] < y[2])

    all_of: tuple[Counter[Row], Counter[Row]] = (Counter(), Counter())
    kept: tuple[Counter[Row], Counter[Row]] = (Counter(), Counter())
    now, base, late = BEFORE_ALL, 0, 0
    for step in range(rnd.randint(3, 12)):
        if rnd.random() < 0.4:
            base += rnd.randint(0, 9)
            now = max(now, base * 1000 - 1)
            h.watermark(now)
        else:
            drawn = [[r for r in rows_of(rnd, base, True) if r[3] is not None] for _ in range(2)]
            if changes == "retract":
                bundle = tuple(
                    changes_of(rnd, net, rows) for net, rows in zip(all_of, drawn, strict=True)
                )
            else:
                bundle = tuple([("+I", row) for row in rows] for rows in drawn)
            h.bundle(bundle)
            for rows, name, given in zip(kept, names, bundle, strict=True):
                for way, row in given:
                    for bounds in WINDOWS[name][1](micros(row[3]) // SECOND):
                        if bounds[1] * 1000 - 1 <= now:
                            late += 1
                        else:
                            rows[(*row, *bounds)] += 1 if way in ("+I", "+U") else -1
        if step % 5 == 4:
            late -= h.h.counters["late_dropped"]
            h.restart()
        over = [
            Counter({row: n for row, n in rows.items() if row[5] * 1000 - 1 <= now and n})
            for rows in kept
        ]
        assert h.rows == joined(kind, *over, match), (seed, sql)
        assert h.h.counters["late_dropped"] == late, (seed, sql)
    h.end()
    assert h.rows == joined(kind, +kept[0], +kept[1], match), (seed, sql)
    assert h.h.counters["keys"] == 0


@pytest.mark.parametrize("seed", range(25))
def test_interval_joins_of_insertions(seed: int) -> None:
    check(seed)


@pytest.mark.parametrize("seed", range(20))
def test_interval_joins_of_changes(seed: int) -> None:
    check_changes(seed)


@pytest.mark.parametrize("seed", range(20))
def test_joins_in_windows(seed: int) -> None:
    check_windows(seed)


WATERMARKS = {"a": ("t", "0 s"), "b": ("t", "0 s")}
NEAR = "a.k = b.k AND a.t BETWEEN b.t - INTERVAL '5' SECOND AND b.t + INTERVAL '10' SECOND"


def explained(sql: str, **options: Any) -> str:
    given = {"input_changes": "append", "watermarks": dict.fromkeys(TABLES, "t"), **options}
    return al.explain(sql, tables=TABLES, **given)


def test_explain_shows_the_bounds_as_flink_does() -> None:
    text = explained(f"SELECT a.id FROM a LEFT JOIN b ON {NEAR}")
    assert (
        "IntervalJoin(joinType=[LeftOuterJoin], windowBounds=[isRowTime=true, leftLowerBound=-5000, "
        "leftUpperBound=10000, leftTimeIndex=2, rightTimeIndex=1], where=[(k = b.k) AND `t` BETWEEN"
        in text
    )
    assert (
        "state bounded by rows that can still match: those of the left until the watermark is 5 s past t, "
        "those of the right until the watermark is 10 s past b.t" in text
    )
    strict = explained(
        "SELECT a.id FROM a JOIN b ON a.k = b.k AND b.t < a.t AND a.t < b.t + INTERVAL '1' HOUR"
    )
    assert "leftLowerBound=1, leftUpperBound=3599999" in strict


@pytest.mark.parametrize(
    ("condition", "times", "why"),
    [
        ("a.t >= b.t - INTERVAL '1' HOUR", "ab", "bounds `t` and `b.t` on one side only"),
        ("a.t BETWEEN b.t AND b.t + INTERVAL '1' DAY", "a", "`b.t` is no column of a watermark"),
        (
            "a.t BETWEEN b.t AND b.t + INTERVAL '1' DAY",
            "",
            "`t` and `b.t` are no columns of watermarks",
        ),
    ],
)
def test_what_is_no_interval_join_is_a_plain_one_that_says_why(
    condition: str, times: str, why: str
) -> None:
    sql = f"SELECT a.id FROM a JOIN b ON a.k = b.k AND {condition}"
    text = explained(sql, watermarks=dict.fromkeys(times, "t"))
    assert "Join(joinType=[InnerJoin], where=" in text and "IntervalJoin" not in text
    assert "interval_join did not fire: " in text and why in text


def test_a_window_above_an_outer_interval_join_loses_no_row() -> None:
    """Rows without a partner come behind the watermark: above, it is held back by the bounds."""
    for kind, rows in (("LEFT JOIN", 40), ("JOIN", 20)):
        h = al.Harness.from_sql(
            f"""WITH j AS (SELECT a.id, a.t AS at FROM a {kind} b ON {NEAR})
                SELECT window_start, COUNT(*) AS n
                FROM TABLE(TUMBLE(TABLE j, DESCRIPTOR(at), INTERVAL '3' SECOND))
                GROUP BY window_start, window_end""",
            TABLES,
            input_changes="append",
            watermarks=WATERMARKS,
            backend="python",
        )
        for second in range(40):
            h.process([("+I", second, second % 2, 0, at(second * SECOND))], table="a")
            h.process([("+I", second, 7 * (second % 10 != 3), 0, at(second * SECOND))], table="b")
        h.end_of_input()
        found = sum(n for _, n in h.table())
        brute = joined(
            "left" if rows == 40 else "inner",
            Counter((s, s % 2, 0, at(s * SECOND)) for s in range(40)),
            Counter((s, 7 * (s % 10 != 3), 0, at(s * SECOND)) for s in range(40)),
            Query("left", -5 * SECOND, 10 * SECOND, False, "").match,
        )
        assert found == sum(brute.values()) and h.counters["late_dropped"] == 0


@pytest.mark.parametrize("kind", ["JOIN", "FULL JOIN", "LEFT ANTI JOIN"])
@pytest.mark.parametrize("changes", ["append", "retract"])
def test_bytes_stay_flat_over_time(kind: str, changes: str) -> None:
    h = al.Harness.from_sql(
        f"SELECT a.id FROM a {kind} b ON {NEAR}",
        TABLES,
        input_changes=changes,
        watermarks=WATERMARKS,
    )
    sizes = []
    for minute in range(30):
        times = [at((60 * minute + s) * SECOND) for s in range(60)]
        for name in "ab":
            h.process([("+I", n, n % 7, minute, t) for n, t in enumerate(times)], table=name)
        h.flush()
        sizes.append(sum(each.state_bytes for each in h.pipeline.operators))
        assert (
            sum(len(side.bag) for each in h.pipeline.operators for side in each.state.sides) < 200
        )
    assert max(sizes) == max(sizes[:3])


def test_a_time_to_live_lets_rows_leave_before_the_watermark_does() -> None:
    sql = f"SELECT /*+ STATE_TTL('a' = '1 s') */ a.id, b.id AS other FROM a LEFT JOIN b ON {NEAR}"
    h = al.Harness.from_sql(sql, TABLES, input_changes="append", watermarks=WATERMARKS)
    h.set_ttl_time(1000)
    h.process([("+I", 1, 1, 0, at(0))], table="a")
    h.flush()
    h.set_ttl_time(3000)
    h.process([("+I", 2, 1, 0, at(0))], table="b")
    h.flush()
    assert h.changes() == [("+I", 1, None)]
    with pytest.raises(SpecError, match="STATE_TTL on a join of the same windows"):
        explained(
            """SELECT /*+ STATE_TTL('l' = '1 s') */ l.id FROM TABLE(TUMBLE(TABLE a, DESCRIPTOR(t), INTERVAL '1' HOUR)) l
            JOIN TABLE(TUMBLE(TABLE b, DESCRIPTOR(t), INTERVAL '1' HOUR)) r USING (k, window_start, window_end)"""
        )


def test_a_row_whose_end_was_late_stays_beside_the_one_that_replaces_it() -> None:
    """As it does whether or not a key is declared: what is on time is joined, and nothing else."""
    for keys in ({}, {"a": ["id"], "b": ["id"]}):
        h = al.Harness.from_sql(
            f"SELECT a.id, a.v, b.id AS other FROM a LEFT JOIN b ON {NEAR}",
            TABLES,
            watermarks=WATERMARKS,
            keys=keys,
        )
        h.process([("+I", 1, 1, 0, at(0))], table="a")
        h.process([("+I", 8, 1, 0, at(4 * SECOND))], table="b")
        h.process([("+I", 2, 2, 0, at(3 * SECOND))], table="a")
        h.process([("-U", 1, 1, 0, at(0)), ("+U", 1, 1, 5, at(6 * SECOND))], table="a")
        h.end_of_input()
        assert h.table() == [(1, 0, 8), (1, 5, 8), (2, 0, None)]
        assert h.counters["late_dropped_left"] == 1 == h.counters["late_dropped"]


def test_windows_and_aggregates_in_windows_join_as_in_duckdb() -> None:
    """Three sides, of which one is an aggregate that gives its rows out by the same watermark."""
    window = "TABLE(TUMBLE(TABLE {}, DESCRIPTOR(t), INTERVAL '10' SECOND))"
    sql = f"""SELECT l.id, r.id AS other, m.n FROM {window.format("a")} l
        LEFT JOIN {window.format("b")} r
        ON l.k = r.k AND l.window_start = r.window_start AND l.window_end = r.window_end
        JOIN (SELECT k, window_start, window_end, COUNT(*) AS n FROM {window.format("b")}
              GROUP BY k, window_start, window_end) m
        ON m.k = l.k AND m.window_start = l.window_start AND m.window_end = l.window_end"""
    h = al.Harness.from_sql(
        sql, TABLES, input_changes="append", watermarks=WATERMARKS, backend="python", buckets=2
    )
    assert explained(sql).count("WindowJoin(") == 2
    rnd = random.Random(5)
    rows: tuple[list[Row], list[Row]] = ([], [])
    for second in range(60):
        for name, given in zip("ab", rows, strict=True):
            given.append((second, rnd.randint(0, 2), 0, at(second * SECOND)))
            h.process([("+I", *given[-1])], table=name)
    h.end_of_input()
    text = """WITH l AS (SELECT *, time_bucket(INTERVAL 10 SECOND, t) AS w FROM a),
        r AS (SELECT *, time_bucket(INTERVAL 10 SECOND, t) AS w FROM b),
        m AS (SELECT k, w, COUNT(*) AS n FROM r GROUP BY k, w)
        SELECT l.id, r.id, m.n FROM l LEFT JOIN r ON l.k = r.k AND l.w = r.w JOIN m ON m.k = l.k AND m.w = l.w"""
    assert {kind for kind, *_ in h.changes()} == {"+I"}
    assert Counter(h.table()) == duck(text, rows)


def test_more_joined_rows_than_a_bundle_may_bring_name_their_key() -> None:
    sql = """SELECT l.id FROM TABLE(TUMBLE(TABLE a, DESCRIPTOR(t), INTERVAL '10' SECOND)) l
        JOIN TABLE(TUMBLE(TABLE b, DESCRIPTOR(t), INTERVAL '10' SECOND)) r USING (k, window_start, window_end)"""
    h = al.Harness.from_sql(sql, TABLES, input_changes="append", options={"join_match_limit": 8})
    for name in "ab":
        h.process([("+I", n, 4, 0, at(0)) for n in range(3)], table=name)
    with pytest.raises(AggloomError, match="joins more than 8 rows, most of them of key k=4"):
        h.end_of_input()


def test_what_a_checkpoint_holds_makes_the_same_operator() -> None:
    plan = plan_query(
        f"SELECT a.id FROM a LEFT JOIN b ON {NEAR}", TABLES, watermarks=dict.fromkeys(TABLES, "t")
    )
    (node,) = (each for each in walk(plan.root) if isinstance(each, TimedJoin))
    spec = operator_of(node, plan.options)
    data = json.loads(json.dumps(spec.to_data()))
    assert operator_from(spec.kind, data, AggSpec(node.remembered, ("k",), (), "append")) == spec


def test_a_condition_that_only_spark_evaluates_stands_above_the_bounds() -> None:
    text = explained(
        f"SELECT a.id FROM a JOIN b ON {NEAR} AND SOUNDEX(CAST(a.v AS STRING)) = CAST(b.v AS STRING) || 'x'"
    )
    assert "IntervalJoin" in text


def test_the_python_front_door_finds_the_bounds() -> None:
    sql = al.join_sql(condition=NEAR.replace("a.", "l.").replace("b.", "r."), how="left")
    tables = {"l": TABLES["a"], "r": TABLES["b"]}
    text = al.explain(
        sql, tables=tables, input_changes="append", watermarks=dict.fromkeys("lr", "t")
    )
    assert "IntervalJoin(joinType=[LeftOuterJoin]" in text
