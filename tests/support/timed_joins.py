"""Random joins in time and in windows beside plain models: `check`, `check_changes`, `check_windows` hold one each."""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import duckdb
import pyarrow as pa

import aggloom as al
from aggloom.codegen import to_schema
from aggloom.codegen.planner import PlanOptions, TimedJoin, plan_query, walk
from aggloom.runtime.local.pipeline import handlers
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
    """Let DuckDB answer a query over rows."""
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
    """A join in windows: emitted when they are over, netted of all changes that came before."""
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
