"""Random queries of several steps, lawful changes of their tables, and what DuckDB answers."""

from __future__ import annotations

import datetime as dt
import math
import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from itertools import count
from typing import Any, Literal

import duckdb
import pyarrow as pa
from changelog_laws import check_laws
from handlers import Backend, handler_class
from hypothesis import strategies as st
from strategies import net_rows

from aggloom.codegen.planner import (
    Correlate,
    Join,
    MultiJoin,
    Over,
    Plan,
    PlanOptions,
    plan_query,
    walk,
)
from aggloom.runtime.local.harness import Harness
from aggloom.runtime.values.changelog import fold, same_value

Row = tuple[Any, ...]
Change = tuple[Any, ...]
Batch = list[tuple[str, Change]]
"""Changes of several tables, each beside its table's name."""
Draw = st.DrawFn

TABLE: dict[str, tuple[pa.DataType, list[Any]]] = {
    "k": (pa.string(), ["a", "b", "ä", "", None]),
    "g": (pa.int32(), [1, 2, None]),
    "x": (pa.int32(), [0, 1, -1, 2, 3, 7, None]),
    "y": (pa.int64(), [0, 1, 5, -9, 2**40, None]),
    "d": (pa.decimal128(10, 2), [Decimal("0.00"), Decimal("1.50"), Decimal("-2.25"), None]),
    "f": (pa.float64(), [0.0, -0.0, 0.5, -1.25, math.nan, None]),
    "ok": (pa.bool_(), [True, False, None]),
}
"""The columns of every table: types and the few values drawn for them."""
SCHEMA = pa.schema([(name, kind) for name, (kind, _) in TABLE.items()])
TABLES = {"t": SCHEMA, "u": SCHEMA}

# A global aggregate over nothing is a row in DuckDB and Spark and none in Flink; the empty grouping set is
# a row in DuckDB alone. These hold where DuckDB is told so, and are comments to aggloom.
SOME = "/*some*/"
AND_SOME = "/*and some*/"
SETS = "/*sets*/"
AND_SETS = "/*and sets*/"


_EITHER = re.compile("‹([^‹›¦]*)¦([^‹›¦]*)¦([^‹›¦]*)¦([^‹›¦]*)›")


def either(spark: str, flink: str, duck: str, duck_as_flink: str | None = None) -> str:
    """A text that differs by dialect and for DuckDB, perhaps for it by dialect, too; such texts nest."""
    return f"‹{spark}¦{flink}¦{duck}¦{duck if duck_as_flink is None else duck_as_flink}›"


def _pick(text: str, which: Literal["spark", "flink", "duck", "duck as flink"]) -> str:
    """A text with one of each four."""
    place = ("spark", "flink", "duck", "duck as flink").index(which) + 1
    while "‹" in text:
        text = _EITHER.sub(lambda match: str(match[place]), text)
    return text


@dataclass(frozen=True)
class Model:
    """A step that DuckDB lacks: the query of the rows that it reads, and what it makes of them in plain Python.

    rows: of the rows read, and of the time up to which none is to come any more (None: none is to come at all).
    """

    reads: str
    rows: Callable[[list[Row], dt.datetime | None], Iterable[Row]]
    schema: pa.Schema


@dataclass(frozen=True)
class Query:
    """A script whose last statement is the query; `steps` are the named queries before it.

    models: by name those of the steps that DuckDB finds as tables.
    """

    steps: tuple[tuple[str, str], ...]
    last: str
    form: Literal["with", "views"] = "with"
    dialect: str = "spark"
    models: Mapping[str, Model] = field(default_factory=dict)

    @property
    def sql(self) -> str:
        """The script as aggloom reads it."""
        text = self._with()
        if self.form == "views":
            views = (f"CREATE TEMPORARY VIEW {name} AS {sql};" for name, sql in self.steps)
            text = " ".join([*views, self.last])
        return _pick(text, "flink" if self.dialect == "flink" else "spark")

    @property
    def duck(self) -> str:
        """The same for DuckDB."""
        return self.by_duckdb(self.last)

    def by_duckdb(self, last: str, before: str | None = None) -> str:
        """A query for DuckDB over the steps, or over those before one of them."""
        steps: list[tuple[str, str]] = []
        for name, sql in self.steps:
            if name == before:
                break
            steps += [(name, sql)] if name not in self.models else []
        text = replace(self, steps=tuple(steps), last=last)._with()
        text = _pick(text, "duck as flink" if self.dialect == "flink" else "duck")
        text = text.replace(AND_SETS, "AND COUNT(*) > 0")
        text = text.replace(SETS, "HAVING COUNT(*) > 0")
        text = text.replace("LEFT SEMI", "SEMI").replace("LEFT ANTI", "ANTI")
        if self.dialect == "flink":
            text = text.replace(AND_SOME, "AND COUNT(*) > 0").replace(SOME, "HAVING COUNT(*) > 0")
        return text

    def _with(self) -> str:
        if not self.steps:
            return self.last
        return f"WITH {', '.join(f'{n} AS ({s})' for n, s in self.steps)} {self.last}"


# Queries.

Columns = dict[str, str]
"""Names to kinds: int, text, dec, real or bool."""
_BASE: Columns = {
    "k": "text",
    "g": "int",
    "x": "int",
    "y": "int",
    "d": "dec",
    "f": "real",
    "ok": "bool",
}


_SETS = ("INTERSECT", "EXCEPT", "INTERSECT ALL", "EXCEPT ALL")


class Steps:
    """The named queries of a script as they are drawn; each reads tables or earlier ones."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.made: list[tuple[str, str]] = []
        self.names = count()

    def any(self, *options: Any) -> Any:
        """One of the options."""
        return self.random.choice(options)

    def some(self, options: Sequence[Any], least: int, most: int) -> list[Any]:
        """A few of the options, each once, in an order of their own."""
        most = min(most, len(options))
        return self.random.sample(list(options), self.random.randint(min(least, most), most))

    def name(self, stem: str) -> str:
        """A name that nothing else in the script has."""
        return f"{stem}{next(self.names)}"

    def step(self, sql: str) -> str:
        """The name of a query as a step."""
        self.made.append((self.name("v"), sql))
        return self.made[-1][0]

    def source(self, depth: int) -> tuple[str, Columns]:
        """Draw the text of FROM; return it and its columns."""
        if depth == 0:
            return self.any("t", "t", "u"), dict(_BASE)
        sql, columns = self.block(depth - 1)
        if self.any(True, False):
            return self.step(sql), columns
        return f"({sql}) AS {self.name('s')}", columns

    def block(self, depth: int) -> tuple[str, Columns]:
        """A query, and the columns of its result."""
        kinds = [self.aggregate, self.aggregate, self.aggregate, self.project, self.distinct]
        if depth:
            kinds.append(self.unite_sources)
        made: tuple[str, Columns] = self.any(*kinds)(depth)
        return made

    def project(self, depth: int) -> tuple[str, Columns]:
        """Expressions over a source, perhaps filtered."""
        source, columns = self.source(depth)
        items: dict[str, tuple[str, str]] = {}
        for name in self.some(list(columns), 1, 4):
            sql, kind = self.expression(name, columns[name])
            items[name if sql == name else self.name("e")] = sql, kind
        select = ", ".join(sql if sql == n else f"{sql} AS {n}" for n, (sql, _) in items.items())
        sql = f"SELECT {select} FROM {source}{self.where(columns)}"
        return sql, {name: kind for name, (_, kind) in items.items()}

    def distinct(self, depth: int) -> tuple[str, Columns]:
        """SELECT DISTINCT."""
        source, columns = self.source(depth)
        names = self.some(list(columns), 1, 2)
        sql = f"SELECT DISTINCT {', '.join(names)} FROM {source}{self.where(columns)}"
        return sql, {name: columns[name] for name in names}

    def unite_sources(self, depth: int) -> tuple[str, Columns]:
        """A set operation on two sources, brought to columns of the same kinds."""
        (left, own), (right, other) = self.source(depth - 1), self.source(depth - 1)
        pairs = [(a, b) for a in own for b in other if own[a] == other[b]]
        if not pairs:
            return self.aggregate_of(left, own)
        chosen: dict[str, str] = {}
        for name, partner in self.some(pairs, 1, 3):
            if partner not in chosen.values():
                chosen[name] = partner
        word = self.any("UNION ALL", "UNION ALL", "UNION", *_SETS)
        first = f"SELECT {', '.join(chosen)} FROM {left}{self.where(own)}"
        second = f"SELECT {', '.join(chosen.values())} FROM {right}{self.where(other)}"
        step = self.step(f"{first} {word} {second}")
        return f"SELECT {', '.join(chosen)} FROM {step}", {name: own[name] for name in chosen}

    def aggregate(self, depth: int) -> tuple[str, Columns]:
        """GROUP BY over a source."""
        return self.aggregate_of(*self.source(depth))

    def aggregate_of(self, source: str, columns: Columns) -> tuple[str, Columns]:
        """GROUP BY over a source with these columns."""
        keys = self.some(list(columns), 0, 2)
        out: Columns = {key: columns[key] for key in keys}
        shown = [key for key in keys if self.any(True, True, True, False)]
        if shown != keys:
            out = {key: columns[key] for key in shown}
        items = list(shown)
        for _ in range(self.any(1, 1, 2, 3)):
            (sql, kind), name = self.call(columns), self.name("c")
            items.append(f"{sql} AS {name}")
            out[name] = kind
        grouping = ", ".join(keys)
        some, and_some = ("", "") if keys else (SOME, AND_SOME)
        if keys and self.any(True, False, False, False):
            grouping, total = self.sets(keys)
            some, and_some = (SETS, AND_SETS) if total else ("", "")
            asked = self.any(*keys)
            items.append(f"GROUPING({asked}) AS {(name := self.name('gr'))}")
            out[name] = "int"
        group = f" GROUP BY {grouping}" if keys else ""
        having = self.having(columns, some, and_some)
        distinct = self.any("", "", "", "", "", "DISTINCT ")
        items_, where = ", ".join(items), self.where(columns)
        return f"SELECT {distinct}{items_} FROM {source}{where}{group}{having}", out

    def sets(self, keys: list[str]) -> tuple[str, bool]:
        """ROLLUP, CUBE or GROUPING SETS of keys, and whether the empty set is among them."""
        names = ", ".join(keys)
        parts = ", ".join(f"({key})" for key in keys)
        form = self.any("ROLLUP", "CUBE", "SETS", "SETS and ()")
        if form in ("ROLLUP", "CUBE"):
            return f"{form} ({names})", True
        if form == "SETS":
            return f"GROUPING SETS (({names}), {parts})", False
        return f"GROUPING SETS ({parts}, ())", True

    def having(self, columns: Columns, some: str, and_some: str) -> str:
        """HAVING, often one that only ever becomes true as rows come."""
        numbers = [name for name, kind in columns.items() if kind == "int"]
        conditions = ["COUNT(*) > 1", "COUNT(*) >= 2", "COUNT(*) < 3"]
        conditions += [f"MAX({name}) > 1" for name in numbers]
        conditions += [f"COUNT(DISTINCT {name}) > 1 OR MIN({name}) < 0" for name in numbers]
        if not self.any(True, False, False):
            return f" {some}"
        return f" HAVING ({self.any(*conditions)}) {and_some}"

    def call(self, columns: Columns) -> tuple[str, str]:
        """An aggregate call and the kind of its result."""
        name = self.any(*columns)
        kind = columns[name]
        options = [("COUNT", "int")]
        if kind != "bool":
            options += [("MIN", kind), ("MAX", kind)]
        if kind in ("int", "dec", "real"):
            options += [("SUM", kind)]
        if kind == "int":
            options += [("AVG", "real")]
        function, result = self.any(*options, ("COUNT(*)", "int"))
        condition = self.any("", "", "", self.condition(columns))
        condition = f" FILTER (WHERE {condition})" if condition else ""
        if function == "COUNT(*)":
            return f"COUNT(*){condition}", result
        distinct = self.any("", "DISTINCT ")
        sql = name if kind == "bool" else self.expression(name, kind, keep=True)[0]
        return f"{function}({distinct}{sql}){condition}", result

    def expression(self, name: str, kind: str, keep: bool = False) -> tuple[str, str]:
        """An expression over a column; `keep`: of the same kind."""
        options = [(name, kind), (name, kind)]
        if kind == "int":
            options += [
                (f"{name} % 2", kind),
                (f"COALESCE({name}, 0)", kind),
                (f"{name} + 1", kind),
            ]
        if kind in ("int", "dec") and not keep:
            options += [(f"CASE WHEN {name} > 1 THEN 'p' ELSE 'n' END", "text")]
        if kind == "text":
            options += [(f"COALESCE({name}, 'none')", kind)]
        picked: tuple[str, str] = self.any(*options)
        return picked

    def where(self, columns: Columns) -> str:
        """A WHERE, or nothing."""
        return f" WHERE {self.condition(columns)}" if self.any(True, False, False) else ""

    def condition(self, columns: Columns) -> str:
        """A predicate over a column."""
        name = self.any(*columns)
        options = {
            "int": [f"{name} > 0", f"{name} % 2 = 0", f"NOT {name} = 1"],
            "dec": [f"{name} > 0", f"{name} <= 1.5"],
            "real": [f"{name} > 0.25", f"{name} IS NOT NULL"],
            "text": [f"{name} <> 'a'", f"{name} IN ('a', 'b')"],
            "bool": [name, f"NOT {name}"],
        }[columns[name]]
        picked: str = self.any(*options, f"{name} IS NULL", f"{name} IS NOT NULL")
        return picked


def query_of(seed: int, depth: int = 2) -> Query:
    """A random query of up to `depth` steps above its tables."""
    steps = Steps(seed)
    last, _ = steps.block(steps.random.randint(0, depth))
    query = Query(tuple(steps.made), last, steps.any("with", "views"))
    # Flink's means of integers are integers, DuckDB's are none.
    return query if "AVG" in query.sql else replace(query, dialect=steps.any("spark", "flink"))


queries = st.builds(query_of, st.integers(0, 10**9))
"""Random queries."""

# Changes.


@st.composite
def batches_of(draw: Draw, kind: str, most: int = 16) -> list[Batch]:
    """Changes of both tables in batches, some empty; retract: taken back are live rows only."""
    rows = st.tuples(*(st.sampled_from(values) for _, values in TABLE.values()))
    step = st.tuples(st.sampled_from(["t", "t", "u"]), st.integers(0, 7), st.integers(0, 99), rows)
    live: dict[str, list[Row]] = {"t": [], "u": []}
    batches: list[Batch] = [[]]
    size = draw(st.integers(0, most))
    for table, action, choice, row in draw(st.lists(step, min_size=size, max_size=size)):
        if choice % 4 == 0:
            batches.append([])
        if kind == "append" or action <= 3 or not live[table]:
            live[table].append(row)
            batches[-1].append((table, ("+I", *row)))
            continue
        old = live[table].pop(choice % len(live[table]))
        if action <= 5:
            batches[-1].append((table, ("-D", *old)))
        else:
            live[table].append(row)
            batches[-1] += [(table, ("-U", *old)), (table, ("+U", *row))]
    return batches


# Answers.

_CONNECTION = duckdb.connect()
_CONNECTION.execute("SET threads = 1; SET TimeZone = 'UTC'")


def answer(
    query: Query,
    rows: Mapping[str, Sequence[Row]],
    tables: Mapping[str, pa.Schema] = TABLES,
    known: dt.datetime | None = None,
) -> Counter[Row]:
    """DuckDB's result over tables of rows, as a multiset; known: the time that models are told."""
    for name, schema in tables.items():
        _register(name, schema, rows.get(name, ()))
    for name, _ in query.steps:
        if (model := query.models.get(name)) is not None:
            read = _CONNECTION.sql(query.by_duckdb(model.reads, before=name)).fetchall()
            _register(name, model.schema, model.rows(read, known))
    return multiset(_CONNECTION.sql(query.duck).fetchall())


def _register(name: str, schema: pa.Schema, rows: Iterable[Row]) -> None:
    data = [dict(zip(schema.names, row, strict=True)) for row in rows]
    _CONNECTION.register(name, pa.Table.from_pylist(data, schema=schema))


def multiset(rows: Iterable[Sequence[Any]]) -> Counter[Row]:
    """Rows with how often they occur; numbers of all types are equal if they are the same number."""
    return Counter(tuple(_plain(value) for value in row) for row in rows)


def _plain(value: Any) -> Any:
    if isinstance(value, bool):
        return ("bool", value)
    if isinstance(value, float):
        # Eleven digits: DuckDB's sums of doubles depend on the order of rows.
        return same_value(value) if math.isnan(value) else float(f"{value:.11g}") + 0.0
    if isinstance(value, int | Decimal):
        number = float(value)
        return number if abs(number) < 2.0**53 and value == number else value
    return same_value(value)


# Runs.


@dataclass(frozen=True)
class Way:
    """A way to run a query: the plan's options, and into how many parts state and input are cut."""

    options: tuple[tuple[str, Any], ...]
    partitions: int = 1
    buckets: int = 1

    @property
    def plan_options(self) -> PlanOptions:
        """The planner's options."""
        return PlanOptions.of(dict(self.options))

    def cut(self, partitions: int, buckets: int) -> Way:
        """The same way in other parts."""
        return replace(self, partitions=partitions, buckets=buckets)


def _way(**options: Any) -> Way:
    return Way(tuple({"on_orphan_retraction": "keep", **options}.items()))


PER_RECORD = _way(mini_batch_enabled=False)
ONE_PHASE = _way(agg_phase_strategy="ONE_PHASE")
TWO_PHASE = _way(agg_phase_strategy="TWO_PHASE")


def split(buckets: int, **options: Any) -> Way:
    """A plan with split DISTINCT calls."""
    return _way(distinct_agg_split_enabled=True, distinct_agg_split_bucket_num=buckets, **options)


WAYS: dict[str, Way] = {
    "per record": PER_RECORD,
    "one phase": ONE_PHASE,
    "two phases": TWO_PHASE,
    "split": split(3, incremental_agg_enabled=False),
    "split, incremental": split(3),
    "split in one phase": split(2, agg_phase_strategy="ONE_PHASE"),
    "split per record": split(2, mini_batch_enabled=False),
}
"""Every kind of plan by name."""


def plan_of(query: Query, way: Way, changes: str = "retract") -> Plan:
    """The plan of a query over the tables of this module."""
    return plan_query(
        query.sql, TABLES, input_changes=changes, dialect=query.dialect, options=way.plan_options
    )


def open_plan(plan: Plan, way: Way, backend: Backend = "python") -> Harness:
    """A harness of a plan whose handlers are generated once for all tests."""
    return Harness.of_plan(
        plan,
        lambda spec: handler_class(spec, backend),
        partitions=way.partitions,
        buckets=way.buckets,
    )


def feed(harness: Harness, batch: Batch) -> list[Change]:
    """Process a batch as one bundle and return the changes that it brings."""
    for name in harness.plan.scans:
        changes = [change for table, change in batch if table == name]
        if changes:
            harness.process(changes, table=name)
    harness.flush()
    return harness.changes()


def agree(query: Query, batches: Sequence[Batch], way: Way, changes: str, **options: Any) -> Plan:
    """After every batch the result of a way is DuckDB's, and its changelog obeys the laws."""
    plan = plan_of(query, way, changes)
    so_far: dict[str, list[Change]] = {name: [] for name in TABLES}
    out: list[Change] = []
    with open_plan(plan, way, **options) as harness:
        for batch in batches:
            for table, change in batch:
                so_far[table].append(change)
            new = feed(harness, batch)
            out += new
            expected = answer(query, {name: net_rows(each) for name, each in so_far.items()})
            assert multiset(fold(out)) == expected, (query.sql, query.duck, way)
            assert multiset(harness.table()) == expected
            if way.plan_options.mini_batch_enabled:
                assert_changes_once(plan, new)
    assert_laws(plan, out)
    return plan


def assert_laws(plan: Plan, changes: Sequence[Change]) -> None:
    """A result with a unique key obeys the laws of a keyed changelog.

    Row by row a join and OVER send on the kind of the row that caused a change, as Flink does: a +U may be the first.
    """
    by_row = not plan.options.mini_batch_enabled
    if by_row and any(isinstance(node, Join | MultiJoin | Over) for node in walk(plan.root)):
        return
    if plan.key is not None and plan.key in plan.root.ordered_keys:
        check_laws(key_first(plan, changes), len(plan.key), False)


def assert_changes_once(plan: Plan, changes: Sequence[Change]) -> None:
    """A bundle changes a key of the result at most once, but for keys of unnested rows, which come and go."""
    if any(isinstance(node, Correlate) for node in walk(plan.root)):
        return
    if plan.key is None or plan.key not in plan.root.ordered_keys:
        return
    width = len(plan.key)
    moved = [row for row in key_first(plan, changes) if row[0] != "-U"]
    keys = Counter(tuple(map(same_value, row[1 : width + 1])) for row in moved)
    assert not keys or max(keys.values()) == 1, keys


def key_first(plan: Plan, changes: Iterable[Change]) -> list[Change]:
    """Changes with the columns of the result's key before the others."""
    names, key = plan.schema.names, plan.key or ()
    order = [names.index(name) for name in key]
    order += [place for place in range(len(names)) if place not in order]
    return [(kind, *(row[place] for place in order)) for kind, *row in changes]
