"""Rank beside a plain model and DuckDB: random changes, cuts, strategies, functions, ranges and restarts."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import examples

import aggloom as al
from aggloom.errors import DataError, OrphanRetractionError
from aggloom.runtime.operators.rank.operator import RankOperator
from aggloom.runtime.operators.rank.spec import RankSpec
from aggloom.runtime.state.sort_key import SortColumn
from aggloom.runtime.storage import pool
from aggloom.runtime.values.changelog import KIND_NAMES
from aggloom.runtime.values.clock import NO_TIME, Clock

SCHEMA = pa.schema(
    [("g", pa.string()), ("id", pa.int32()), ("x", pa.float64()), ("s", pa.string())]
)
Row = tuple[Any, ...]
CODES = {name: code for code, name in enumerate(KIND_NAMES)}

rows_ = st.tuples(
    st.sampled_from([None, "a", "b" * 30]),
    st.integers(0, 3),
    st.sampled_from([None, 0.0, -0.0, math.nan, math.inf, -1.5, 2.0]),
    st.sampled_from([None, "", "é", "zz"]),
)
orders = st.sampled_from(
    [
        (),
        (SortColumn(2),),
        (SortColumn(2, True, False),),
        (SortColumn(2, True, True), SortColumn(1)),
        (SortColumn(3, False, False), SortColumn(2, True)),
        (SortColumn(3, True),),
    ]
)
functions = st.sampled_from(["ROW_NUMBER", "RANK", "DENSE_RANK"])
ranges = st.sampled_from([(1, 1), (1, 2), (2, 2), (2, 3), (1, 100), (3, 1), (1, 0)])


def plain(row: Row) -> Row:
    """Return a row that equal rows share: NaN is NaN, -0.0 is 0.0."""
    return tuple(repr(v + 0.0) if isinstance(v, float) else v for v in row)


def batch(rows: list[Row], schema: pa.Schema = SCHEMA) -> pa.RecordBatch:
    columns = zip(*rows, strict=True) if rows else [[] for _ in schema]
    arrays = [pa.array(list(c), f.type) for c, f in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def messages(changes: tuple[pa.RecordBatch, Any]) -> list[Row]:
    columns = [column.to_pylist() for column in changes[0].columns]
    return [
        (KIND_NAMES[k], *r) for k, r in zip(changes[1], zip(*columns, strict=True), strict=True)
    ]


def take(operator: RankOperator, changes: list[Row], clock: Clock = NO_TIME) -> list[Row]:
    kinds = np.array([CODES[c[0]] for c in changes], np.int8)
    return messages(operator.process(batch([c[1:] for c in changes]), kinds, clock))


def sort_value(value: Any, column: SortColumn) -> tuple[Any, ...]:
    if value is None:
        return (0 if column.nulls_first else 2, 0)
    if isinstance(value, float):
        number = (1, 0.0) if math.isnan(value) else (0, value + 0.0)
        return (1, *((-number[0], -number[1]) if column.descending else number))
    if isinstance(value, str):
        data = (
            value.encode()
            if not column.descending
            else bytes(255 - b for b in value.encode()) + b"\xff" * 9
        )
        return (1, data)
    return (1, -value if column.descending else value)


class Model:
    """The rows that are there in the order in which they came; -D takes the oldest equal one, if there is any."""

    def __init__(self, spec: RankSpec) -> None:
        self.spec, self.rows = spec, list[Row]()

    def take(self, change: Row) -> None:
        kind, row = change[0], change[1:]
        if kind in ("+I", "+U"):
            self.rows.append(row)
            return
        same = [i for i, r in enumerate(self.rows) if plain(r) == plain(row)]
        if same:
            del self.rows[same[0]]

    def table(self) -> Counter[Row]:
        """Return the rows that are in the result now."""
        found: Counter[Row] = Counter()
        spec = self.spec
        for key in {row[0] for row in self.rows}:
            marked = [
                (tuple(sort_value(row[c.column], c) for c in spec.sort), n, row)
                for n, row in enumerate(self.rows)
                if row[0] == key
            ]
            marked.sort(key=lambda each: each[:2])
            keys = [each[0] for each in marked]
            for n, (mark, _, row) in enumerate(marked):
                number = n + 1
                if spec.function == "RANK":
                    number = keys.index(mark) + 1
                elif spec.function == "DENSE_RANK":
                    number = sorted(set(keys)).index(mark) + 1
                if spec.first <= number <= (spec.end or 0):
                    found[plain(row) + ((number,) if spec.number else ())] += 1
        return found


def fold(table: Counter[Row], changes: list[Row]) -> None:
    """Apply messages; each takes back only what is there."""
    for change in changes:
        row = plain(change[1:])
        if change[0] in ("+I", "+U"):
            table[row] += 1
        else:
            assert table[row] > 0, f"{change} takes back what is not there"
            table[row] -= 1
    for row in [row for row, n in table.items() if not n]:
        del table[row]


def spec_of(**given: Any) -> RankSpec:
    first, end = given.pop("asked", (1, 2))
    return RankSpec(schema=SCHEMA, keys=1, first=first, end=end, **given)


@examples(50)
@given(
    data=st.data(),
    function=functions,
    order=orders,
    asked=ranges,
    number=st.sampled_from([None, "n"]),
    per_record=st.booleans(),
    orphans=st.sampled_from(["drop", "keep"]),
    restart=st.integers(0, 5),
)
def test_changes_beside_the_model(
    data: Any,
    function: Any,
    order: Any,
    asked: Any,
    number: Any,
    per_record: bool,
    orphans: Any,
    restart: int,
) -> None:
    spec = spec_of(
        function=function,
        sort=order,
        strategy="retract",
        asked=asked,
        number=number,
        per_record=per_record,
        on_orphan_retraction=orphans,
    )
    kinds = st.sampled_from(["+I", "+I", "+U", "-D", "-U"])
    bundles = data.draw(
        st.lists(
            st.lists(st.tuples(kinds, rows_).map(lambda c: (c[0], *c[1])), max_size=9), max_size=6
        )
    )
    model, operator, table = Model(spec), RankOperator(spec), Counter[Row]()
    owed: Counter[Row] = Counter()
    for number_, changes in enumerate(bundles):
        if number_ == restart:
            snapshot, operator = operator.snapshot(), RankOperator(spec)
            operator.restore(snapshot)
        for change in changes:
            row = plain(change[1:])
            there = any(plain(r) == row for r in model.rows)
            if orphans == "keep" and change[0] in ("+I", "+U") and owed[row]:
                owed[row] -= 1
            elif change[0] in ("+I", "+U") or there:
                model.take(change)
            else:
                owed[row] += 1
        out = take(operator, changes)
        fold(table, out)
        wanted = model.table()
        if orphans == "keep":
            # Which of equal sort keys stays is open where a row is taken back before it comes.
            assert sum(table.values()) == sum(wanted.values()) or function != "ROW_NUMBER"
            if function != "ROW_NUMBER":
                assert table == wanted
        else:
            assert table == wanted
        held = Counter(plain(m[1:]) for m in messages(operator.contents()))
        assert held == (table if asked[1] >= asked[0] else Counter())
        if not per_record:
            gone = Counter(plain(m[1:]) for m in out if m[0] in ("-U", "-D"))
            came = Counter(plain(m[1:]) for m in out if m[0] in ("+I", "+U"))
            assert not gone & came, "a message that folds to nothing"


@examples(40)
@given(
    data=st.data(),
    function=functions,
    order=orders,
    asked=ranges,
    number=st.sampled_from([None, "n"]),
    per_record=st.booleans(),
    restart=st.integers(0, 4),
)
def test_insertions_need_no_other_rows(
    data: Any, function: Any, order: Any, asked: Any, number: Any, per_record: bool, restart: int
) -> None:
    spec = spec_of(
        function=function,
        sort=order,
        strategy="append",
        asked=asked,
        number=number,
        per_record=per_record,
    )
    bundles = data.draw(st.lists(st.lists(rows_, max_size=12), max_size=5))
    model, operator, table = Model(spec), RankOperator(spec), Counter[Row]()
    for number_, rows in enumerate(bundles):
        if number_ == restart:
            snapshot, operator = operator.snapshot(), RankOperator(spec)
            operator.restore(snapshot)
        changes = [("+I", *row) for row in rows]
        for change in changes:
            model.take(change)
        fold(table, take(operator, changes))
        assert table == model.table()
        if function == "ROW_NUMBER" and asked[1] >= asked[0]:
            slots = operator.state.used_slots()
            assert (operator.state.sorted.sizes(slots)[0] <= asked[1]).all()


@examples(40)
@given(
    data=st.data(),
    function=st.sampled_from(["ROW_NUMBER", "RANK"]),
    asked=ranges,
    number=st.sampled_from([None, "n"]),
    per_record=st.booleans(),
    restart=st.integers(0, 4),
)
def test_rows_that_get_better_need_no_other_rows(
    data: Any, function: Any, asked: Any, number: Any, per_record: bool, restart: int
) -> None:
    """Rows known by (g, id) whose x only grows; equal sort keys are numbered as they were reached."""
    common = {"function": function, "sort": (SortColumn(2, True, False),), "asked": asked}
    spec = spec_of(
        **common,
        strategy="update",
        unique=(0, 1),
        identity=(0, 1),
        number=number,
        per_record=per_record,
    )
    steps = data.draw(
        st.lists(
            st.lists(
                st.tuples(
                    st.sampled_from("ab"),
                    st.integers(0, 3),
                    st.integers(1, 3),
                    st.text("yz", max_size=1),
                ),
                max_size=8,
            ),
            max_size=5,
        )
    )
    operator, table = RankOperator(spec), Counter[Row]()
    now: dict[Row, Row] = {}
    model = Model(spec)
    for number_, step in enumerate(steps):
        if number_ == restart:
            snapshot, operator = operator.snapshot(), RankOperator(spec)
            operator.restore(snapshot)
        changes: list[Row] = []
        for g, id_, more, text in step:
            old = now.get((g, id_))
            row = (g, id_, (old[2] if old else 0.0) + float(more), text)
            now[g, id_] = row
            if old is not None:
                changes.append(("-U", *old))
                model.take(("-U", *old))
            changes.append(("+U" if old else "+I", *row))
            model.take(("+I", *row))
        fold(table, take(operator, changes))
        assert table == model.table()


@examples(20)
@given(
    data=st.data(),
    function=functions,
    order=st.sampled_from([((2, True, False),), ((2, False, True), (1, True, False))]),
    end=st.integers(1, 5),
)
def test_the_net_rows_beside_duckdb(data: Any, function: Any, order: Any, end: int) -> None:
    spec = spec_of(
        function=function,
        sort=tuple(SortColumn(*each) for each in order),
        strategy="retract",
        asked=(1, end),
        number="n",
    )
    operator, table, net = RankOperator(spec), Counter[Row](), list[Row]()
    for rows in data.draw(st.lists(st.lists(rows_, max_size=15), max_size=4)):
        changes = [("+I", *row) for row in rows]
        gone = data.draw(st.lists(st.sampled_from(net), max_size=4)) if net else []
        net += rows
        for row in gone:
            if any(plain(r) == plain(row) for r in net):
                del net[next(i for i, r in enumerate(net) if plain(r) == plain(row))]
                changes.append(("-D", *row))
        fold(table, take(operator, changes))
        source = pa.Table.from_batches([batch(net)]).append_column(
            "came", pa.array(range(len(net)), pa.int64())
        )
        items = ", ".join(
            f"{SCHEMA.names[c]} {'DESC' if d else 'ASC'} NULLS {'FIRST' if f else 'LAST'}"
            for c, d, f in order
        )
        if function == "ROW_NUMBER":
            items += ", came"
        connection = duckdb.connect()
        connection.register("t", source)
        found = connection.execute(
            f"SELECT g, id, x, s, {function}() OVER (PARTITION BY g ORDER BY {items}) AS n FROM t "
            f"QUALIFY n <= {end}"
        ).fetchall()
        assert table == Counter(plain(row) for row in found)


def test_an_orphan_follows_the_policy() -> None:
    row = ("a", 1, 1.0, "x")
    given_ = {"function": "ROW_NUMBER", "sort": (SortColumn(2),), "strategy": "retract"}
    dropping = RankOperator(spec_of(**given_))
    assert take(dropping, [("-D", *row)]) == []
    assert dropping.counters["orphans_dropped"] == 1 and dropping.keys == 0
    refusing = RankOperator(spec_of(**given_, on_orphan_retraction="error"))
    with pytest.raises(OrphanRetractionError, match="row 0 retracts from key g='a'"):
        take(refusing, [("-D", *row)])
    keeping = RankOperator(spec_of(**given_, on_orphan_retraction="keep"))
    assert take(keeping, [("-D", *row)]) == [] and keeping.keys == 1
    assert take(keeping, [("+I", *row)]) == [] and keeping.keys == 0


def test_a_fast_strategy_refuses_what_it_cannot_undo() -> None:
    for strategy, only in (("append", "only added"), ("update", "never deleted")):
        spec = spec_of(function="ROW_NUMBER", sort=(), strategy=strategy, unique=(1,))
        with pytest.raises(DataError, match=f"row 0 retracts a row; .* {only}"):
            take(RankOperator(spec), [("-D", "a", 1, 1.0, "x")])


def test_keys_are_forgotten_and_their_room_is_given_back() -> None:
    spec = spec_of(
        function="ROW_NUMBER", sort=(SortColumn(2),), strategy="retract", state_ttl_ms=10
    )
    operator = RankOperator(spec)
    take(operator, [("+I", f"key {n}", n, 1.0, "x") for n in range(5_000)], Clock(0))
    full = operator.state_bytes
    assert take(operator, [("+I", "key 1", 1, 2.0, "y")], Clock(9))
    assert take(operator, [], Clock(10)) == []
    assert (operator.keys, operator.counters["expired"]) == (1, 4_999)
    assert operator.state_bytes < full / 20
    assert len(messages(operator.contents())) == 2


def test_the_settings_as_data() -> None:
    spec = spec_of(function="RANK", sort=(SortColumn(2, True),), strategy="update", unique=(0, 1))
    assert RankSpec.from_data(spec.to_data()) == spec


def test_the_end_is_what_the_first_row_of_a_key_says() -> None:
    spec = RankSpec(
        schema=SCHEMA,
        keys=1,
        function="ROW_NUMBER",
        sort=(SortColumn(2),),
        strategy="append",
        end_column=1,
    )
    operator, table = RankOperator(spec), Counter[Row]()
    rows = [("a", 2, 3.0, "x"), ("a", 1, 1.0, "x"), ("b", 0, 1.0, "x"), ("a", 0, 2.0, "x")]
    fold(table, take(operator, [("+I", *row) for row in rows]))
    assert table == Counter(plain(r) for r in (rows[1], rows[3]))
    assert take(operator, [("+I", "b", 5, 0.0, "x")]) == []


def test_big_sort_keys_and_many_equal_rows() -> None:
    long = ["k" * 1_000_000 + tail for tail in "abc"]
    spec = spec_of(
        function="ROW_NUMBER", sort=(SortColumn(3, True),), strategy="retract", number="n"
    )
    operator = RankOperator(spec)
    out = take(operator, [("+I", "a", 1, None, text) for text in long])
    assert [(m[4][-1], m[5]) for m in out] == [("c", 1), ("b", 2)]
    equal = spec_of(function="RANK", sort=(SortColumn(2),), strategy="retract", number="n")
    operator = RankOperator(equal)
    same = ("a", 1, 1.0, "x")
    assert take(operator, [("+I", *same)] * 1_000) == [("+I", *same, 1)] * 1_000
    assert take(operator, [("-D", *same)] * 999) == [("-D", *same, 1)] * 999
    assert Counter(messages(operator.contents())) == Counter([("+I", *same, 1)])


@pytest.mark.parametrize(
    "best",
    [(SortColumn(2, True, False),), (SortColumn(2, True, False), SortColumn(1))],
    ids=["by words", "by bytes"],
)
def test_rows_that_a_bundle_puts_out_of_range_are_not_stored(best: Any) -> None:
    spec = spec_of(function="ROW_NUMBER", sort=best, strategy="append", asked=(1, 2))
    operator = RankOperator(spec)
    changes = take(operator, [("+I", "a", n, float(n % 50), "") for n in range(1000)])
    # Of equals the first to come are there.
    assert sorted(row[2:4] for row in changes) == [(49, 49.0), (99, 49.0)]
    assert operator.state.sorted.rows.high == 2
    # Nor were the sort keys of the others: two keys, the name and the text of the rows are all that the pool ever had.
    assert operator.state.pool.arrays.meta[pool.HIGH] <= 4


def test_what_it_holds_of_a_key() -> None:
    spec = spec_of(function="RANK", sort=(SortColumn(2),), strategy="retract", number="n")
    operator = RankOperator(spec)
    take(operator, [("+I", "a", k, float(k), "x") for k in range(4)])
    key = pa.RecordBatch.from_arrays([pa.array(["a"])], names=["g"])
    held = list(operator.read_key_state(key))
    assert [each.results for each in held] == [
        {"id": 0, "x": 0.0, "s": "x", "n": 1},
        {"id": 1, "x": 1.0, "s": "x", "n": 2},
    ]
    assert {each.records for each in held} == {4}
    assert operator.key_columns()[0].to_pylist() == ["a"]
    assert not list(
        operator.read_key_state(pa.RecordBatch.from_arrays([pa.array(["z"])], names=["g"]))
    )


@examples(25)
@given(
    rows=st.lists(st.tuples(st.sampled_from(["+I", "+I", "-D"]), rows_), max_size=25),
    function=functions,
    order=orders,
    data=st.data(),
)
def test_cuts_change_nothing(rows: list[Any], function: Any, order: Any, data: Any) -> None:
    changes = [(kind, *row) for kind, row in rows]
    tables = []
    for per_record in (False, True):
        spec = spec_of(
            function=function, sort=order, strategy="retract", number="n", per_record=per_record
        )
        cuts = sorted(data.draw(st.lists(st.integers(0, len(changes)), max_size=4)))
        operator, table = RankOperator(spec), Counter[Row]()
        for start, stop in zip([0, *cuts], [*cuts, len(changes)], strict=True):
            fold(table, take(operator, changes[start:stop]))
        tables.append(table)
    assert tables[0] == tables[1]


def test_a_million_rows_of_one_key_and_a_million_keys_of_one_row() -> None:
    n = 1_000_000
    for keys in (1, n):
        spec = spec_of(function="ROW_NUMBER", sort=(SortColumn(1),), strategy="retract", number="n")
        operator = RankOperator(spec)
        names = pa.array(["k"] * n) if keys == 1 else pa.array(np.arange(n)).cast(pa.string())
        numbers = np.arange(n, dtype=np.int32)
        columns = [names, pa.array(numbers), pa.array(numbers / 7), pa.nulls(n, pa.string())]
        whole = pa.RecordBatch.from_arrays(columns, schema=SCHEMA)
        out, _ = operator.process(whole, np.zeros(n, np.int8))
        assert out.num_rows == (2 if keys == 1 else n)
        # The first row of all goes; the one that comes up is found without looking at the others.
        changes = operator.process(whole.slice(0, 1), np.full(1, CODES["-D"], np.int8))
        assert len(changes[1]) == (4 if keys == 1 else 1)
        assert operator.keys == (1 if keys == 1 else n - 1)


def test_a_row_that_an_update_deletes_and_inserts_again_is_an_update() -> None:
    """Record by record, the -U of a count empties the sum above it, and the +U fills it again: -D, +I."""
    counts = "SELECT g, k, x, COUNT(*) AS v FROM t GROUP BY g, k, x"
    sums = f"SELECT g, k, SUM(v) AS s FROM ({counts}) GROUP BY g, k"
    number = "ROW_NUMBER() OVER (PARTITION BY g ORDER BY s DESC, k)"
    sql = f"SELECT g, k, s FROM (SELECT *, {number} AS r FROM ({sums})) WHERE r <= 2"
    table = {"t": "g INT, k INT, x DOUBLE"}
    settings = {"input_changes": "append", "backend": "python", "mini_batch_enabled": False}
    with al.Harness.from_sql(sql, table, **settings) as harness:
        harness.process([("+I", 1, 1, None), ("+I", 1, 2, 0.5), ("+I", 1, 1, None)])
        harness.flush()
        assert sorted(harness.table()) == [(1, 1, 2), (1, 2, 1)]
