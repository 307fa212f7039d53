"""Random joins by time beside plain models and DuckDB: python tests/support/as_of_rounds.py FIRST LAST [temporal]."""

from __future__ import annotations

import datetime as dt
import math
import random
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import duckdb

from aggloom.runtime.local.harness import Harness
from aggloom.runtime.values.changelog import fold

Row = tuple[Any, ...]
Change = tuple[Any, ...]
NAN = math.nan


def second(n: float) -> dt.datetime:
    """A time of a short day."""
    return dt.datetime(2026, 1, 1, tzinfo=dt.UTC) + dt.timedelta(seconds=n)


def ms(n: float) -> int:
    """The same in milliseconds."""
    return int(second(n).timestamp() * 1000)


TYPES: dict[str, tuple[str, Callable[[random.Random], Any]]] = {
    "INT": ("INTEGER", lambda r: r.randint(-3, 8)),
    "BIGINT": ("BIGINT", lambda r: r.choice([-(2**62), 2**62, *range(6)])),
    "DOUBLE": ("DOUBLE", lambda r: r.choice([NAN, -1.5, 0.0, 1.5, 2.5, 1e300])),
    "STRING": ("VARCHAR", lambda r: r.choice(["", "a", "ab", "b", "ba", "z" * 20])),
    "TIMESTAMP": ("TIMESTAMPTZ", lambda r: second(r.randint(0, 9) / 2)),
    "DATE": ("DATE", lambda r: dt.date(2026, 1, r.randint(1, 9))),
}
OPS: dict[str, Callable[[Any, Any], bool]] = {
    ">=": lambda a, b: a >= b,
    ">": lambda a, b: a > b,
    "<=": lambda a, b: a <= b,
    "<": lambda a, b: a < b,
}


def place(value: Any) -> Any:
    """Return a value to compare by: NaN is the greatest."""
    return (value != value, 0.0 if value != value else value)


def nearest(
    lefts: list[Row], rights: list[Row], op: str, safe: bool, left_join: bool
) -> Counter[Row]:
    """The rows of an ASOF JOIN of rows (id, k, t, v) in the order in which they came."""
    found: Counter[Row] = Counter()
    for row in lefts:
        best: Row | None = None
        for other in rights:
            equal = row[1] == other[1] and (safe or row[1] is not None)
            if not equal or row[2] is None or other[2] is None:
                continue
            mine, theirs = place(row[2]), place(other[2])
            if not OPS[op](mine, theirs):
                continue
            # Of several with one time the last that came.
            if best is None or (
                theirs >= place(best[2]) if op in (">=", ">") else theirs <= place(best[2])
            ):
                best = other
        if best is not None or left_join:
            v, t = (None, None) if best is None else (best[3], best[2])
            found[(row[0], row[1], row[2], row[3], t, v)] += 1
    return found


def duck(lefts: list[Row], rights: list[Row], op: str, left_join: bool, kind: str) -> Counter[Row]:
    """The same by DuckDB, which may take any of several rows with one time: it gets the last."""
    last = {(row[1], place(row[2]) if row[2] is not None else None): row for row in rights}
    with duckdb.connect() as con:
        con.execute("SET TimeZone='UTC'")
        for name, rows in (("l", lefts), ("r", list(last.values()))):
            con.execute(f"CREATE TABLE {name} (id INT, k INT, t {kind}, v VARCHAR)")
            if rows:
                con.executemany(f"INSERT INTO {name} VALUES (?, ?, ?, ?)", rows)
        join = "ASOF LEFT JOIN" if left_join else "ASOF JOIN"
        sql = f"SELECT l.id, l.k, l.t, l.v, r.t, r.v FROM l {join} r ON l.k = r.k AND l.t {op} r.t"
        return Counter(same(row) for row in con.execute(sql).fetchall())


def same(row: Row) -> Row:
    """A row whose values can be counted: one NaN, instants in UTC."""
    return tuple(
        (
            NAN
            if value != value
            else value.astimezone(dt.UTC) if isinstance(value, dt.datetime) else value
        )
        for value in row
    )


@dataclass
class Feed:
    """Random changes of a table (id, k, t, v), and its rows in the order of their arrival."""

    random: random.Random
    draw: Callable[[random.Random], Any]
    keyed: bool
    adds_only: bool
    rows: list[Row] = field(default_factory=list)
    seen: list[Row] = field(default_factory=list)
    ids: int = 0

    def some(self) -> list[Change]:
        """A few changes."""
        found: list[Change] = []
        for _ in range(self.random.choice([0, 1, 2, 5, 9])):
            for change in self.one():
                found.append(change)
                self.see(change)
        return found

    def see(self, change: Change) -> None:
        """Keep the rows in the order of arrival; of those that look alike without a key the first goes."""
        kind, *row = change
        if kind in ("+I", "+U"):
            self.seen.append(tuple(row))
        elif self.keyed:
            self.seen.remove(tuple(row))
        else:
            alike = (each for each in self.seen if each[1:] == tuple(row[1:]))
            self.seen.remove(next(alike))

    def one(self) -> list[Change]:
        r = self.random
        if self.rows and not self.adds_only and r.random() < 0.5:
            old = r.choice(self.rows)
            self.rows.remove(old)
            if r.random() < 0.5:
                return [("-D", *old)]
            new = self.row(old[0])
            if r.random() < 0.4:
                new = (*old[:3], new[3])
            self.rows.append(new)
            return [("-U", *old), ("+U", *new)]
        self.ids += 1
        row = self.row(self.ids if self.keyed or r.random() < 0.6 else r.randint(1, 3))
        if not self.keyed and self.rows and r.random() < 0.2:
            row = r.choice(self.rows)
        self.rows.append(row)
        return [("+I", *row)]

    def row(self, number: int) -> Row:
        r = self.random
        t = None if r.random() < 0.08 else self.draw(r)
        return (number, r.choice([None, 1, 1, 2, 3]), t, r.choice(["x", "y", "zz"]))


def check(seed: int) -> None:
    """One random ASOF JOIN, compared after every batch."""
    r = random.Random(seed)
    kind = r.choice(list(TYPES))
    op, left_join, safe = r.choice(list(OPS)), r.random() < 0.6, r.random() < 0.15
    keyed = r.random() < 0.5, r.random() < 0.5
    adds = r.random() < 0.15, r.random() < 0.15
    equal = "<=>" if safe else "="
    written = [f"l.k {equal} r.k", f"l.t {op} r.t"]
    r.shuffle(written)
    join = f"ASOF {'LEFT ' if left_join else ''}JOIN"
    sql = f"SELECT l.id, l.k, l.t, l.v, r.t AS rt, r.v AS rv FROM l {join} r ON {' AND '.join(written)}"
    above = r.choice(["", "", "", "counted", "joined" if keyed[0] else ""])
    if above == "counted":
        sql = f"SELECT rv, COUNT(*) AS n FROM ({sql}) j GROUP BY rv"
    elif above == "joined":
        sql = f"SELECT j.*, o.v AS own FROM ({sql}) j JOIN l o ON j.id = o.id"
    columns = f"id INT, k INT, t {kind}, v STRING"
    options: dict[str, Any] = {
        "tables": {"l": columns, "r": columns},
        "keys": {name: ["id"] for name, own in zip("lr", keyed, strict=True) if own},
        "input_changes": {
            name: "append" if own else "retract" for name, own in zip("lr", adds, strict=True)
        },
        "buckets": r.choice([1, 1, 3]),
        "partitions": r.choice([1, 2]),
        "mini_batch_enabled": r.random() < 0.7,
        "backend": "python",
    }
    feeds = [Feed(r, TYPES[kind][1], own, only) for own, only in zip(keyed, adds, strict=True)]
    harness = Harness.from_sql(sql, **options)
    out: list[Change] = []
    for _ in range(r.randint(2, 7)):
        parts = [("l", change) for change in feeds[0].some()]
        parts += [("r", change) for change in feeds[1].some()]
        for name, change in parts:
            harness.process([change], table=name)
        harness.flush()
        out += harness.changes()
        wanted = nearest(feeds[0].rows, feeds[1].seen, op, safe, left_join)
        where = (seed, sql, options)
        shown = wanted
        if above == "counted":
            counts: Counter[Any] = Counter()
            for row, n in wanted.items():
                counts[row[5]] += n
            shown = Counter(dict.fromkeys(counts.items(), 1))
        elif above == "joined":
            shown = Counter({(*row, row[3]): n for row, n in wanted.items()})
        assert Counter(map(same, fold(out))) == shown, where
        assert Counter(map(same, harness.table())) == shown, where
        if not safe:
            assert (
                duck(feeds[0].rows, feeds[1].seen, op, left_join, TYPES[kind][0]) == wanted
            ), where
        if r.random() < 0.3:
            state = harness.snapshot()
            harness.close()
            harness = Harness.from_sql(sql, **options)
            harness.restore(state)
    harness.close()


@dataclass
class Versions:
    """A temporal join in plain Python."""

    left_join: bool
    watermark: int = -(10**15)
    waiting: list[Row] = field(default_factory=list)
    versions: dict[Any, dict[int, Any]] = field(default_factory=dict)
    late: int = 0

    def add_left(self, row: Row) -> None:
        """A row (id, k, t) comes."""
        if row[1] is None and not self.left_join:
            return
        if ms(row[2]) <= self.watermark:
            self.late += 1
        else:
            self.waiting.append(row)

    def right(self, kind: str, k: Any, t: float, v: Any) -> None:
        """A version begins."""
        if kind != "-U" and k is not None:
            self.versions.setdefault(k, {})[ms(t)] = None if kind == "-D" else v

    def move(self, watermark: int) -> Counter[Row]:
        """The rows whose time has come."""
        self.watermark = max(self.watermark, watermark)
        found: Counter[Row] = Counter()
        for row in [row for row in self.waiting if ms(row[2]) <= self.watermark]:
            self.waiting.remove(row)
            held = {t: v for t, v in self.versions.get(row[1], {}).items() if t <= ms(row[2])}
            v = held[max(held)] if held else None
            if v is not None and v > 90:
                v = None
            if v is not None or self.left_join:
                since = None if v is None else dt.datetime.fromtimestamp(max(held) / 1000, dt.UTC)
                found[(row[0], row[1], second(row[2]), since, v)] += 1
        return found


def check_temporal(seed: int) -> None:
    """One random temporal join, compared after every batch and watermark."""
    r = random.Random(seed)
    left_join = r.random() < 0.5
    view = r.random() < 0.3
    upserts = r.random() < 0.5
    made = (
        "CREATE TEMPORARY VIEW v AS SELECT k, t, v FROM (SELECT *, ROW_NUMBER() OVER "
        "(PARTITION BY k ORDER BY t DESC) AS n FROM r) x WHERE n = 1; "
    )
    sql = (
        f"{made if view else ''}SELECT l.id, l.k, l.t, x.t AS since, x.v FROM l "
        f"{'LEFT ' if left_join else ''}JOIN {'v' if view else 'r'} FOR SYSTEM_TIME AS OF l.t AS x "
        "ON l.k = x.k AND x.v + l.id * 0 <= 90"
    )
    options: dict[str, Any] = {
        "tables": {"l": "id INT, k INT, t TIMESTAMP", "r": "k INT, t TIMESTAMP, v INT"},
        "keys": {} if view else {"r": ["k"]},
        "input_changes": {
            "l": "append",
            "r": "append" if view else "upsert" if upserts else "retract",
        },
        "buckets": r.choice([1, 1, 3]),
        "partitions": r.choice([1, 2]),
        "mini_batch_enabled": r.random() < 0.7,
    }
    model, ids, clock = Versions(left_join), 0, 0.0
    # The last version of each key, as the table has it.
    table: dict[Any, tuple[float, int]] = {}
    harness = Harness.from_sql(sql, **options)
    late = 0
    for _ in range(r.randint(2, 8)):
        lefts: list[Change] = []
        rights: list[Change] = []
        for _ in range(r.choice([0, 1, 3, 6])):
            ids += 1
            t = max(0.0, clock + r.randint(-2, 8) / 2)
            row = (ids, r.choice([None, 1, 1, 2, 3]), t)
            lefts.append(("+I", row[0], row[1], second(t)))
            model.add_left(row)
        for _ in range(r.choice([0, 1, 3, 6])):
            k, t, v = (
                r.choice([1, 1, 2, 3]),
                max(0.0, clock + r.randint(-1, 6) / 2),
                r.randint(1, 100),
            )
            if view:
                k = r.choice([None, k])
                rights.append(("+I", k, second(t), v))
                model.right("+I", k, t, v)
            elif k in table and r.random() < 0.3:
                old_t, old_v = table.pop(k)
                t = t if upserts else old_t
                rights.append(("-D", k, second(t), old_v))
                model.right("-D", k, t, old_v)
            else:
                if k in table and not upserts:
                    rights.append(("-U", k, second(table[k][0]), table[k][1]))
                kind = "+U" if k in table else "+I"
                rights.append((kind, k, second(t), v))
                model.right(kind, k, t, v)
                table[k] = (t, v)
        parts = [("l", each) for each in lefts] + [("r", each) for each in rights]
        if r.random() < 0.5:
            parts = parts[len(lefts) :] + parts[: len(lefts)]
        for name, change in parts:
            harness.process([change], table=name)
        if r.random() < 0.5:
            harness.flush()
        assert harness.changes() == [], (seed, sql)
        clock += r.choice([0.0, 0.5, 1.0, 3.0])
        harness.watermark(ms(clock))
        got = harness.changes()
        wanted = model.move(ms(clock))
        assert {each[0] for each in got} <= {"+I"}
        found = Counter(same(each[1:]) for each in got)
        assert found == wanted, (seed, sql, options, found - wanted, wanted - found)
        assert late + harness.counters["late_dropped"] == model.late
        if r.random() < 0.3:
            state = harness.snapshot()
            late += harness.counters["late_dropped"]
            harness.close()
            harness = Harness.from_sql(sql, **options)
            harness.restore(state)
            harness.watermark(ms(clock))
    harness.end_of_input()
    found = Counter(same(each[1:]) for each in harness.changes())
    assert found == model.move(10**15), (seed, sql)
    harness.close()


if __name__ == "__main__":
    first, last, *modes = sys.argv[1:]
    for number in range(int(first), int(last)):
        (check_temporal if "temporal" in modes else check)(number)
        if number % 100 == 99:
            print(f"{number + 1} done", flush=True)
    print(f"{int(last) - int(first)} joins, none wrong")
