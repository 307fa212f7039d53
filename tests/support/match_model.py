"""MATCH_RECOGNIZE as a model in plain Python: a backtracking matcher over lists of rows, and random queries for it.

A pattern is a nested tuple: ("var", name), ("seq", parts), ("or", parts), ("many", part, least, most, reluctant). The
ways through a pattern are tried in the order of SQL: the first that ends is the match.
"""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

START = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
NAMES = ("A", "B", "C", "D")
Row = dict[str, Any]
Pattern = tuple[Any, ...]


class Undecided(Exception):
    """A row that is still to come may lead to a match that is preferred."""


@dataclass
class Look:
    """The rows of a key, and those of them that were mapped so far; the last one is being mapped."""

    rows: list[Row]
    start: int
    path: tuple[str, ...]

    @property
    def now(self) -> Row:
        return self.rows[self.start + len(self.path) - 1]

    def mapped(self, name: str = "") -> list[Row]:
        pairs = zip(self.rows[self.start :], self.path, strict=False)
        return [row for row, own in pairs if not name or own == name]

    def last(self, column: str, name: str = "", offset: int = 0) -> Any:
        found = self.mapped(name)
        return found[-1 - offset][column] if offset < len(found) else None

    def first(self, column: str, name: str = "", offset: int = 0) -> Any:
        found = self.mapped(name)
        return found[offset][column] if offset < len(found) else None

    def prev(self, column: str, back: int) -> Any:
        place = self.start + len(self.path) - 1 - back
        return self.rows[place][column] if place >= 0 else None

    def values(self, column: str, name: str = "") -> list[Any]:
        return [row[column] for row in self.mapped(name) if row[column] is not None]


Test = Callable[[Look], Any]


def both(*truths: Any) -> Any:
    if any(each is False for each in truths):
        return False
    return None if None in truths else True


def either(*truths: Any) -> Any:
    if any(each is True for each in truths):
        return True
    return None if None in truths else False


def less(left: Any, right: Any) -> Any:
    return None if left is None or right is None else left < right


def same(left: Any, right: Any) -> Any:
    return None if left is None or right is None else left == right


def plus(left: Any, right: Any) -> Any:
    return None if left is None or right is None else left + right


def flip(truth: Any) -> Any:
    return None if truth is None else not truth


@dataclass
class Query:
    """A query and its parts. within: seconds or None. skip: the words, and a variable for TO FIRST and TO LAST.

    left_out: names of MEASURES that it does not show.
    """

    pattern: Pattern
    defines: dict[str, tuple[str, Test]]
    skip: tuple[str, str] = ("PAST LAST ROW", "")
    within: int | None = None
    all_rows: bool = False
    names: list[str] = field(default_factory=list)
    left_out: tuple[str, ...] = ()

    @property
    def measures(self) -> dict[str, str]:
        return {name: sql for name, sql in MEASURES.items() if name not in self.left_out}

    def sql(self, source: str = "t") -> str:
        within = f" WITHIN INTERVAL '{self.within}' SECOND" if self.within is not None else ""
        defines = ", ".join(f"{name} AS {sql}" for name, (sql, _) in self.defines.items())
        rows = "ALL ROWS PER MATCH" if self.all_rows else "ONE ROW PER MATCH"
        measures = ", ".join(f"{sql} AS {name}" for name, sql in self.measures.items())
        columns = ", ".join(["g", *(["id"] if self.all_rows else []), *self.measures])
        return (
            f"SELECT {columns} FROM {source} MATCH_RECOGNIZE ("
            f"PARTITION BY g ORDER BY ts, id MEASURES {measures} {rows} "
            f"AFTER MATCH SKIP {' '.join(self.skip).strip()} PATTERN ({text_of(self.pattern)}){within} "
            f"DEFINE {defines})"
        )


MEASURES = {
    "f": "FIRST(id)",
    "l": "LAST(id)",
    "n": "COUNT(*)",
    "s": "SUM(A.price)",
    "b": "LAST(B.price, 1)",
    "p": "PREV(FIRST(A.id), 1)",
    "m": "MAX(B.name)",
    "x": "A.price + B.price",
    "c": "CLASSIFIER()",
    "k": "MATCH_NUMBER()",
}


def measure_values(look: Look, number: int) -> tuple[Any, ...]:
    prices, names = look.values("price", "A"), look.values("name", "B")
    first = look.first("place", "A")
    return (
        look.first("id"),
        look.last("id"),
        len(look.path),
        sum(prices) if prices else None,
        look.last("price", "B", 1),
        look.rows[first - 1]["id"] if first else None,
        max(names) if names else None,
        plus(look.last("price", "A"), look.last("price", "B")),
        look.path[-1],
        number,
    )


def text_of(pattern: Pattern) -> str:
    kind = pattern[0]
    if kind == "var":
        return str(pattern[1])
    if kind == "seq":
        return " ".join(f"({text_of(p)})" if p[0] == "or" else text_of(p) for p in pattern[1])
    if kind == "or":
        return " | ".join(text_of(part) for part in pattern[1])
    _, part, least, most, reluctant = pattern
    inner = text_of(part) if part[0] == "var" else f"({text_of(part)})"
    signs = {(0, None): "*", (1, None): "+", (0, 1): "?"}
    bounds = f"{{{least}, {'' if most is None else most}}}"
    return f"{inner}{signs.get((least, most), bounds)}{'?' * reluctant}"


@dataclass
class Matcher:
    """Matches one key's rows, of which no more are to come up to time `known` (None: at all)."""

    query: Query
    rows: list[Row]
    known: dt.datetime | None

    def ways(
        self, pattern: Pattern, start: int, path: tuple[str, ...]
    ) -> Iterator[tuple[str, ...]]:
        kind = pattern[0]
        if kind == "var":
            if self.accepts(start, (*path, pattern[1])):
                yield (*path, pattern[1])
        elif kind == "seq":
            yield from self.through(list(pattern[1]), start, path)
        elif kind == "or":
            for part in pattern[1]:
                yield from self.ways(part, start, path)
        else:
            yield from self.repeat(pattern, 0, start, path)

    def through(
        self, parts: list[Pattern], start: int, path: tuple[str, ...]
    ) -> Iterator[tuple[str, ...]]:
        if not parts:
            yield path
            return
        for way in self.ways(parts[0], start, path):
            yield from self.through(parts[1:], start, way)

    def repeat(
        self, pattern: Pattern, count: int, start: int, path: tuple[str, ...]
    ) -> Iterator[tuple[str, ...]]:
        _, part, least, most, reluctant = pattern
        if reluctant and count >= least:
            yield path
        if most is None or count < most:
            for way in self.ways(part, start, path):
                # A round without a row is of no use, unless it has to be there; of bounded rounds it is one.
                if way != path or count < least or most is not None:
                    yield from self.repeat(pattern, count + 1, start, way)
        if not reluctant and count >= least:
            yield path

    def accepts(self, start: int, path: tuple[str, ...]) -> bool:
        place, within = start + len(path) - 1, self.query.within
        end = self.rows[start]["ts"] + dt.timedelta(seconds=within) if within is not None else None
        if place == len(self.rows):
            if self.known is None or (end is not None and end <= self.known):
                return False
            raise Undecided
        if end is not None and self.rows[place]["ts"] > end:
            return False
        test = self.query.defines.get(path[-1])
        return test is None or test[1](Look(self.rows, start, path)) is True

    def results(self) -> list[tuple[Any, ...]]:
        """The rows of the result, of the key's matches in order."""
        found, start, number = [], 0, 0
        while start < len(self.rows):
            try:
                path = next(self.ways(self.query.pattern, start, ()), None)
            except Undecided:
                break
            if path is None:
                start += 1
                continue
            number += 1
            for size in range(1, len(path) + 1) if self.query.all_rows else [len(path)]:
                values = measure_values(Look(self.rows, start, path[:size]), number)
                named = zip(MEASURES, values, strict=True)
                values = tuple(value for name, value in named if name in self.query.measures)
                own = [self.rows[start + size - 1]["id"]] if self.query.all_rows else []
                found.append((self.rows[start]["g"], *own, *values))
            start = self.next_start(start, path)
        return found

    def next_start(self, start: int, path: tuple[str, ...]) -> int:
        words, name = self.query.skip
        if words == "PAST LAST ROW":
            return start + len(path)
        if words == "TO NEXT ROW":
            return start + 1
        places = [place for place, own in enumerate(path) if own == name]
        return start + (places[0] if words == "TO FIRST" else places[-1])


def random_pattern(rng: random.Random, depth: int = 2) -> Pattern:
    kind = rng.choice(["var", "var", "seq", "seq", "or", "many"]) if depth else "var"
    if kind == "var":
        return ("var", rng.choice(NAMES))
    if kind in ("seq", "or"):
        return (kind, tuple(random_pattern(rng, depth - 1) for _ in range(rng.randint(2, 3))))
    least, most = rng.choice([(0, None), (1, None), (0, 1), (2, 3), (0, 2), (2, None)])
    return ("many", random_pattern(rng, depth - 1), least, most, rng.random() < 0.4)


def may_be_empty(pattern: Pattern) -> bool:
    kind = pattern[0]
    if kind == "var":
        return False
    if kind == "many":
        return pattern[2] == 0 or may_be_empty(pattern[1])
    return (all if kind == "seq" else any)(may_be_empty(part) for part in pattern[1])


def used_names(pattern: Pattern) -> list[str]:
    if pattern[0] == "var":
        return [pattern[1]]
    parts = [pattern[1]] if pattern[0] == "many" else pattern[1]
    return list(dict.fromkeys(name for part in parts for name in used_names(part)))


def random_condition(rng: random.Random, name: str, others: list[str]) -> tuple[str, Test]:
    n, other = rng.randint(0, 6), rng.choice(others)
    choices: list[tuple[str, Test]] = [
        (f"price > {n}", lambda k: less(n, k.now["price"])),
        (f"{name}.price <= {n + 2}", lambda k: flip(less(n + 2, k.now["price"]))),
        (
            f"price BETWEEN {n} AND {n + 3}",
            lambda k: both(flip(less(k.now["price"], n)), flip(less(n + 3, k.now["price"]))),
        ),
        (
            f"{name}.price > LAST({name}.price, 1) OR LAST({name}.price, 1) IS NULL",
            lambda k: either(
                less(k.last("price", name, 1), k.now["price"]), k.last("price", name, 1) is None
            ),
        ),
        ("price >= PREV(price)", lambda k: flip(less(k.now["price"], k.prev("price", 1)))),
        (
            "PREV(price, 2) IS NULL OR NOT price = PREV(price, 2)",
            lambda k: either(
                k.prev("price", 2) is None, flip(same(k.now["price"], k.prev("price", 2)))
            ),
        ),
        (
            f"price < {other}.price + 2",
            lambda k: less(k.now["price"], plus(k.last("price", other), 2)),
        ),
        (
            f"{other}.price IS NULL OR price <> FIRST({other}.price)",
            lambda k: either(
                k.last("price", other) is None, flip(same(k.now["price"], k.first("price", other)))
            ),
        ),
        (f"SUM({name}.price) < {3 * n}", lambda k: less(_total(k.values("price", name)), 3 * n)),
        (f"COUNT(*) <= {n}", lambda k: len(k.path) <= n),
        (
            f"AVG(price) > {n / 2}",
            lambda k: less(n / 2, _average(k.values("price"))),
        ),
        (
            f"MIN({other}.price) < price",
            lambda k: less(min(k.values("price", other), default=None), k.now["price"]),
        ),
        ("name = 'b'", lambda k: same(k.now["name"], "b")),
        (f"name >= LAST({other}.name)", lambda k: flip(less(k.now["name"], k.last("name", other)))),
        (
            "MAX(name) > FIRST(name)",
            lambda k: less(k.first("name"), max(k.values("name"), default=None)),
        ),
        (
            f"rate + {other}.rate > {n}",
            lambda k: less(n, plus(k.now["rate"], k.last("rate", other))),
        ),
        (
            "price - FIRST(price) IN (0, 1, -2)",
            lambda k: _among(k.now["price"], k.first("price")),
        ),
        (f"COALESCE({other}.price, price) = price", lambda k: _coalesced(k, other)),
        ("id <> 0 AND LAST(cost, 1) IS NULL OR cost < LAST(cost, 1) * 2", _cheaper),
    ]
    return rng.choice(choices)


def _total(values: list[int]) -> int | None:
    return sum(values) if values else None


def _average(values: list[int]) -> float | None:
    return sum(values) / len(values) if values else None


def _among(left: Any, right: Any) -> Any:
    return None if left is None or right is None else left - right in (0, 1, -2)


def _coalesced(look: Look, other: str) -> Any:
    found = look.last("price", other)
    return same(look.now["price"] if found is None else found, look.now["price"])


def _cheaper(look: Look) -> Any:
    before = look.last("cost", "", 1)
    cheaper = less(look.now["cost"], None if before is None else before * 2)
    return either(both(look.now["id"] != 0, before is None), cheaper)


def random_query(rng: random.Random) -> Query:
    """A random query whose pattern has variables A and B, and a row in each match."""
    while True:
        pattern = random_pattern(rng, 3)
        names = used_names(pattern)
        if not may_be_empty(pattern) and {"A", "B"} <= set(names):
            break
    defines = {
        name: random_condition(rng, name, names) for name in names if rng.random() < 0.85
    } or {"A": ("price > 1", lambda k: less(1, k.now["price"]))}
    skip = rng.choice([("PAST LAST ROW", ""), ("PAST LAST ROW", ""), ("TO NEXT ROW", "")])
    within = rng.choice([None, None, 3, 8])
    return Query(pattern, defines, skip, within, rng.random() < 0.3, names)


def random_rows(rng: random.Random, count: int) -> list[Row]:
    """Rows of two keys, with some NULLs, some of the same time."""
    rows, now = [], 0
    for number in range(count):
        now += rng.choice([0, 1, 1, 2])
        known = rng.random() > 0.08
        rows.append(
            {
                "g": rng.choice("xy"),
                "id": number,
                "price": rng.randint(0, 8) if known else None,
                "name": rng.choice("abc") if rng.random() > 0.05 else None,
                "rate": rng.choice([0.5, 1.25, 4.0]),
                "cost": rng.choice([1, 2, 4]),
                "ts": START + dt.timedelta(seconds=now),
            }
        )
    return rows


def change_rows(
    rng: random.Random, live: dict[int, Row], waiting: list[Row]
) -> list[tuple[Any, ...]]:
    """Bring random changes into the rows that are there: new ones, late ones among them, and others for old ones."""
    changes = []
    for _ in range(rng.randint(1, 4)):
        action = rng.random()
        if waiting and (action < 0.6 or not live):
            row = waiting.pop(0 if rng.random() < 0.8 else rng.randrange(len(waiting)))
            live[row["id"]] = row
            changes.append(("+I", *row.values()))
        elif live and action < 0.75:
            changes.append(("-D", *live.pop(rng.choice(list(live))).values()))
        elif live:
            old = live[rng.choice(list(live))]
            row = {**old, "price": rng.randint(0, 8)}
            if rng.random() < 0.3:
                row["ts"] += dt.timedelta(seconds=rng.randint(-4, 4))
            if rng.random() < 0.1:
                row["g"] = rng.choice("xy")
            live[row["id"]] = row
            changes += [("-U", *old.values()), ("+U", *row.values())]
    return changes


def expected(query: Query, rows: list[Row], known: dt.datetime | None) -> list[tuple[Any, ...]]:
    """The rows of the result once no row up to a time is to come any more (None: no row at all)."""
    there = [row for row in rows if known is None or row["ts"] <= known]
    found = []
    for key in dict.fromkeys(row["g"] for row in there):
        own = sorted(
            (row for row in there if row["g"] == key), key=lambda row: (row["ts"], row["id"])
        )
        placed = [{**row, "place": place} for place, row in enumerate(own)]
        found += Matcher(query, placed, known).results()
    return found
