"""Table aggregates beside plain models and DuckDB: random changes, cuts, plans, restarts, windows, messages."""

from __future__ import annotations

import datetime as dt
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st
from queries import ONE_PHASE, PER_RECORD, TWO_PHASE
from strategies import examples, lawful_batches, net_rows
from table_aggregates import APPEND_ONLY, MODELS, register_all, unregister_all

import aggloom as al
from aggloom.codegen.planner import GroupAggregate, plan_query, walk
from aggloom.errors import ArithmeticOverflowError, DataError, SpecError, UnknownFunctionError
from aggloom.runtime.values.changelog import fold

Row = tuple[Any, ...]
TABLES = {"t": "k STRING, v INT"}
BACKENDS = ["python", "numba"]


@pytest.fixture(autouse=True)
def functions() -> Iterator[None]:
    register_all()
    yield
    unregister_all()


def batches_of(sql: str, batches: Iterable[list[Any]], **options: Any) -> list[list[Row]]:
    """The changes that each batch brings."""
    with al.Harness.from_sql(sql, TABLES, **{"backend": "python", **options}) as harness:
        found = []
        for batch in batches:
            harness.process(batch)
            harness.flush()
            found.append(list(harness.changes()))
        return found


def expected(function: str, rows: Iterable[Row]) -> Counter[Row]:
    """The table that a model gives over net rows."""
    values: dict[Any, list[int]] = defaultdict(list)
    for key, value in rows:
        values[key] += [value] if value is not None else []
    return Counter((k, *row) for k, own in values.items() for row in MODELS[function](own))


rows_ = st.tuples(
    st.sampled_from(["a", "b", None]), st.none() | st.sampled_from([-5, 0, 3, 7, 12, 99])
)


@pytest.mark.parametrize("function", MODELS)
@examples(12)
@given(data=st.data())
@pytest.mark.sampled(2)
def test_rows_are_those_of_a_plain_model(function: str, data: st.DataObject) -> None:
    retracts = function not in APPEND_ONLY and data.draw(st.booleans())
    changes = "retract" if retracts else "append"
    batches = data.draw(lawful_batches(rows_, 16, retracts))
    way = data.draw(st.sampled_from([PER_RECORD, ONE_PHASE, TWO_PHASE]))
    options = {
        "input_changes": changes,
        "options": way.plan_options,
        "buckets": data.draw(st.integers(1, 3)),
        "partitions": data.draw(st.integers(1, 2)),
        "backend": data.draw(st.sampled_from(BACKENDS)),
    }
    sql = f"SELECT k, {function}(v) FROM t GROUP BY k"
    assert plan_query(sql, TABLES, input_changes=changes).root.changelog == ("I", "D")
    restart = data.draw(st.integers(0, len(batches)))
    harness = al.Harness.from_sql(sql, TABLES, **options)
    so_far, out = list[Row](), list[Row]()
    for number, batch in enumerate(batches):
        if number == restart:
            kept = harness.snapshot()
            harness.close()
            harness = al.Harness.from_sql(sql, TABLES, **options)
            harness.restore(kept)
        so_far += batch
        harness.process(batch)
        harness.flush()
        emitted = list(harness.changes())
        out += emitted
        assert Counter(fold(out)) == expected(function, net_rows(so_far))
        if way is ONE_PHASE:
            # Nothing is taken back that comes again.
            kinds = {kind: {row[1:] for row in emitted if row[0] == kind} for kind in ("+I", "-D")}
            assert not kinds["+I"] & kinds["-D"]
    harness.close()


@examples(8)
@given(batches=lawful_batches(rows_, 16))
def test_the_two_largest_are_duckdbs(batches: list[list[Row]]) -> None:
    sql = "SELECT k, COUNT(*) AS n, TOP2_OF_ALL(v) AS (value, place) FROM t GROUP BY k"
    out = [change for batch in batches_of(sql, batches) for change in batch]
    rows = net_rows([change for batch in batches for change in batch])
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE t (k VARCHAR, v INT)")
        if rows:
            connection.executemany("INSERT INTO t VALUES (?, ?)", rows)
        wanted = connection.execute("""
            SELECT k, n, v, p FROM (
                SELECT k, v, COUNT(*) OVER (PARTITION BY k) AS n,
                    RANK() OVER (PARTITION BY k ORDER BY v DESC NULLS LAST) AS p FROM t
            ) WHERE p <= 2 AND v IS NOT NULL""").fetchall()
    assert Counter(fold(out)) == Counter(wanted)


def test_messages_of_two_largest_with_ties_one_row_at_a_time() -> None:
    sql = "SELECT k, TOP2_OF_ALL(v) FROM t GROUP BY k"
    rows = [("+I", 3), ("+I", 5), ("+I", 3), ("+I", 1), ("-U", 5), ("+U", 3), ("-D", 1)]
    found = batches_of(sql, [[(kind, "a", v)] for kind, v in rows], mini_batch_enabled=False)
    assert found == [
        [("+I", "a", 3, 1)],
        [("-D", "a", 3, 1), ("+I", "a", 5, 1), ("+I", "a", 3, 2)],
        [("+I", "a", 3, 2)],
        [],
        [
            ("-D", "a", 5, 1),
            ("-D", "a", 3, 2),
            ("-D", "a", 3, 2),
            ("+I", "a", 3, 1),
            ("+I", "a", 3, 1),
        ],
        [("+I", "a", 3, 1)],
        [],
    ]


def test_a_key_that_goes_takes_its_rows_along_and_one_that_expires_does_not() -> None:
    sql = "SELECT k, TOP2_OF_ALL(v) FROM t GROUP BY k"
    gone = batches_of(sql, [[("+I", "a", 3), ("+I", "a", 2)], [("-D", "a", 3), ("-D", "a", 2)]])
    assert gone[1] == [("-D", "a", 3, 1), ("-D", "a", 2, 2)]
    with al.Harness.from_sql(sql, TABLES, state_ttl="1 s", backend="python") as harness:
        harness.process([("+I", "a", 3)])
        harness.flush()
        harness.processing_time(5_000)
        harness.process([("+I", "a", 2)])
        harness.flush()
        assert harness.changes() == [("+I", "a", 3, 1), ("+I", "a", 2, 1)]


@pytest.mark.parametrize(
    ("sql", "wanted"),
    [
        ("SELECT TOP2_OF_ALL(v) FROM t", [(5, 1), (4, 2)]),
        ("SELECT TOP2_OF_ALL(v) AS (x, y), k FROM t GROUP BY k", [(5, 1, "a"), (3, 2, "a"), (4, 1, "b")]),
        ("SELECT k, TOP2_OF_ALL(v) FROM t GROUP BY k HAVING COUNT(*) > 1", [("a", 5, 1), ("a", 3, 2)]),
        ("SELECT k, COUNT(*) AS n, TOP2_OF_ALL(v) FROM t WHERE v < 5 GROUP BY k", [("a", 1, 3, 1), ("b", 1, 4, 1)]),
        ("SELECT k, TOP2_OF_ALL(v) FILTER (WHERE v < 5) FROM t GROUP BY k", [("a", 3, 1), ("b", 4, 1)]),
        ("SELECT k, SIZE(TOP2_OF_ALL(v)) AS n FROM t GROUP BY k", [("a", 2), ("b", 1)]),
        (
            "SELECT place, SUM(value) AS s FROM (SELECT k, TOP2_OF_ALL(v) FROM t GROUP BY k) GROUP BY place",
            [(1, 9), (2, 3)],
        ),
        ("SELECT k, TOP2_OF_ALL(v) FROM t GROUP BY k ORDER BY value DESC LIMIT 1", [("a", 5, 1)]),
        ("SELECT DISTINCT TOP2_OF_ALL(v % 2) AS (value, place) FROM t GROUP BY k", [(1, 1), (0, 1)]),
    ],
)  # fmt: skip
def test_where_it_may_stand(sql: str, wanted: list[Row]) -> None:
    with al.Harness.from_sql(sql, TABLES, backend="python") as harness:
        harness.process(
            [("+I", "a", 3), ("+I", "a", 9), ("+I", "b", 4), ("-U", "a", 9), ("+U", "a", 5)]
        )
        harness.flush()
        assert Counter(harness.table()) == Counter(wanted)


def test_the_queries_of_the_page_have_plans() -> None:
    page = Path(__file__).parents[2] / "docs" / "table-aggregates.md"
    (block,) = re.findall(r"^```sql$(.*?)^```$", page.read_text("utf-8"), re.M | re.S)
    tables = {"t": "shop STRING, sales INT, ts TIMESTAMP"}
    columns = [
        plan_query(
            sql, tables, input_changes="append", watermarks={"t": ("ts", 0)}
        ).root.schema.names
        for sql in block.split(";")
    ]
    assert columns == [
        ["shop", "value", "place"],
        ["shop", "n", "amount", "rank"],
        ["window_start", "shop", "value", "place"],
        ["amount", "shops"],
    ]


def test_the_query_as_text() -> None:
    text = al.flat_aggregate_sql(
        "top2", "v + 1", group_by="k", columns=("x", "y"), where="v > 0", table="s"
    )
    assert text == "SELECT `k`, TOP2(v + 1) AS (`x`, `y`) FROM `s` WHERE v > 0 GROUP BY `k`"
    assert al.flat_aggregate_sql("TOP2", "v") == "SELECT TOP2(v) FROM `t`"
    with pytest.raises(UnknownFunctionError, match=r"no table aggregate TOPP2.*TOP2"):
        al.flat_aggregate_sql("TOPP2", "v")
    with pytest.raises(SpecError, match="have 2 columns, and 1 names"):
        al.flat_aggregate_sql("TOP2", "v", columns="x")


SECONDS = [
    ("+I", "a", 3, 1),
    ("+I", "a", 5, 4),
    ("+I", "a", 4, 7),
    ("-D", "a", 5, 4),
    ("+I", "a", 1, 15),
]
WINDOWS = {
    "TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND)": [(0, 10), (10, 20)],
    "HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND, INTERVAL '20' SECOND)": [(-10, 10), (0, 20), (10, 30)],
    "CUMULATE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND, INTERVAL '20' SECOND)": [(0, 10), (0, 20)],
    "SESSION(TABLE t PARTITION BY k, DESCRIPTOR(ts), INTERVAL '6' SECOND)": [(1, 13), (15, 21)],
}  # fmt: skip


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("function", ["TOP2_OF_ALL", "BUCKETS"])
def test_rows_of_windows_leave_at_their_close(function: str, window: str, backend: Any) -> None:
    sql = (
        f"SELECT k, window_start, window_end, {function}(v) FROM TABLE({window}) "
        "GROUP BY k, window_start, window_end"
    )
    start = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    at = lambda seconds: start + dt.timedelta(seconds=seconds)  # noqa: E731
    live = [(3, 1), (4, 7), (1, 15)]
    wanted = Counter(
        ("a", at(first), at(end), *row)
        for first, end in WINDOWS[window]
        for row in MODELS[function]([v for v, second in live if first <= second < end])
    )
    tables = {"t": "k STRING, v INT, ts TIMESTAMP"}
    with al.Harness.from_sql(sql, tables, backend=backend, watermarks={"t": ("ts", 0)}) as harness:
        for kind, key, value, second in SECONDS:
            harness.process([(kind, key, value, at(second))])
        harness.end_of_input()
        changes = harness.changes()
        assert {row[0] for row in changes} == {"+I"}
        assert Counter(tuple(row[1:]) for row in changes) == wanted


def test_a_late_row_changes_those_rows_of_a_window_that_differ() -> None:
    sql = (
        "SELECT k, window_end, TOP2_OF_ALL(v) FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND)) "
        "GROUP BY k, window_start, window_end"
    )
    start = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    at = lambda seconds: start + dt.timedelta(seconds=seconds)  # noqa: E731
    tables = {"t": "k STRING, v INT, ts TIMESTAMP"}
    with al.Harness.from_sql(
        sql, tables, backend="python", watermarks={"t": ("ts", 0)}, allow_lateness="1 min"
    ) as harness:
        harness.process([("+I", "a", 5, at(1)), ("+I", "a", 3, at(2))])
        harness.process([("+I", "b", 9, at(12))])
        harness.flush()
        harness.process([("+I", "a", 4, at(3))])
        harness.flush()
        end = at(10)
        assert harness.changes() == [
            ("+I", "a", end, 5, 1),
            ("+I", "a", end, 3, 2),
            ("-D", "a", end, 3, 2),
            ("+I", "a", end, 4, 2),
        ]


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_handler_emits_rows(backend: Any) -> None:
    spec = al.AggSpec("k STRING, v INT", ("k",), [al.AggCall("BUCKETS", "v", alias="b")])
    handler = al.load(al.generate(spec, backend=backend))()
    assert ("numba" in handler.BACKEND) == (backend == "numba")
    handler.setAccumulators(handler.createAccumulators(2), [0, 1, 0])
    handler.accumulate([("a", 3), ("b", -1), ("a", 30)])
    handler.setAccumulators(handler.getAccumulators())
    low = -(2**31)
    assert handler.emitValue() == [[(0, 1, 0.5, True), (10, 1, 0.5, True)], [(low, 1, 1.0, True)]]
    other = type(handler)()
    other.setAccumulators(other.createAccumulators())
    other.accumulate(("a", 4))
    handler.setAccumulators(handler.getAccumulators(), [0])
    handler.merge(other.getAccumulators())
    handler.retract(("a", 30))
    assert handler.emitValue() == [(0, 2, 1.0, True)]
    assert handler.getValue() == ([{"low": 0, "rows": 2, "share": 1.0, "most": True}],)


def test_a_spec_carries_the_definition() -> None:
    spec = al.AggSpec("k STRING, v INT", ("k",), [al.AggCall("BUCKETS", "v", alias="b")])
    text = spec.to_json()
    al.unregister("BUCKETS")
    again = al.AggSpec.from_json(text, trust=True)
    assert again == spec and again.digest == spec.digest
    al.register(again.functions[0])
    assert al.AggSpec.from_yaml(spec.to_yaml(), trust=True) == spec
    (definition,) = spec.functions
    with pytest.raises(SpecError, match="either `result`, or `columns`"):
        al.register({**definition, "result": "INT"})


def test_columns_of_any_type_and_nulls() -> None:
    @al.table_aggregate(
        "SHAPES",
        arguments={"v": "INT"},
        columns={"s": "STRING", "d": "DECIMAL(10,2)", "a": "ARRAY<INT>", "r": "STRUCT<x: INT>"},
    )
    class Shapes:
        def create(self):  # type: ignore[no-untyped-def]
            return 0

        def accumulate(self, state, v):  # type: ignore[no-untyped-def]
            return state + v

        def retract(self, state, v):  # type: ignore[no-untyped-def]
            return state - v

        def rows(self, state):  # type: ignore[no-untyped-def]
            return [(str(state), state, [state, None], {"x": state}), (None, None, None, None)]

    found = batches_of(
        "SELECT k, SHAPES(v) FROM t GROUP BY k", [[("+I", "a", 1)], [("+I", "a", 2)]]
    )
    al.unregister("SHAPES")
    assert [(kind, *row[1:3]) for kind, *row in found[1]] == [("-D", "1", 1), ("+I", "3", 3)]
    assert found[0][1] == ("+I", "a", None, None, None, None)


def define(rows: Any, columns: Any = None, **methods: Any) -> None:
    """Register a table aggregate WRONG of a source."""
    own = {"create": "return 0", "accumulate": "return state + v", "retract": "return state - v"}
    arguments = {"create": "", "accumulate": "state, v", "retract": "state, v"}
    lines = [f"    def {name}({arguments[name]}):\n        {body}" for name, body in own.items()]
    lines += [
        f"    def {name}(state):\n        {body}"
        for name, body in {"rows": rows, **methods}.items()
        if body
    ]
    al.register(
        {
            "name": "WRONG",
            "arguments": {"v": "INT"},
            "columns": {"x": "INT"} if columns is None else columns,
            "source": "class Wrong:\n" + "\n".join(lines) + "\n",
        },
        replace=True,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("rows", "columns", "error", "message"),
    [
        ("return 7", None, DataError, "WRONG: rows failed: TypeError"),
        ("yield 1 // 0", None, DataError, "WRONG: rows failed: ZeroDivisionError"),
        ("yield 'x'", None, DataError, "WRONG: rows gives 'x', a str, and the result is INT"),
        ("yield 2**40", None, ArithmeticOverflowError, "WRONG: rows gives 1099511627776, which does not fit INT"),
        ("yield 1, 2, 3", {"x": "INT", "y": "INT"}, DataError, r"gives \(1, 2, 3\), which is no row; give tuples of 2"),
    ],
)  # fmt: skip
def test_wrong_rows_are_errors(rows: str, columns: Any, error: Any, message: str) -> None:
    define(rows, columns)
    with pytest.raises(error, match=message):
        batches_of("SELECT k, WRONG(v) FROM t GROUP BY k", [[("+I", "a", 1)]])
    al.unregister("WRONG")


@pytest.mark.parametrize(
    ("rows", "columns", "more", "message"),
    [
        ("", None, {}, r"class Wrong has no `def rows\(state\)`"),
        ("yield 1", None, {"value": "return 1"}, "has a `value`, and a table aggregate emits rows"),
        ("yield 1", {"a b": "INT"}, {}, "'a b' cannot be the name of a column"),
        ("yield 1", [("x", "INT"), ("x", "INT")], {}, "two columns are called 'x'"),
        ("yield 1", {"x": "NUMBER"}, {}, "column 'x': 'NUMBER' is not a supported type"),
        ("yield 1", {"x": "MAP<STRING, INT>"}, {}, "column 'x' cannot be a MAP"),
    ],
)
def test_wrong_definitions_are_refused(rows: str, columns: Any, more: Any, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        define(rows, columns, **more)


def test_an_overflow_in_compiled_code_names_the_call() -> None:
    define("yield state * 2**30")
    spec = al.AggSpec("k STRING, v INT", ("k",), [al.AggCall("WRONG", "v", alias="w")])
    with (
        pytest.raises(ArithmeticOverflowError, match=r"WRONG\(v\)"),
        al.Harness(spec, backend="numba") as harness,
    ):
        harness.process([("+I", "a", 9)])
        harness.flush()
    al.unregister("WRONG")


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT k, TOP2_OF_ALL(v), BUCKETS(v) FROM t GROUP BY k", "BUCKETS beside TOP2_OF_ALL in one SELECT"),
        ("SELECT explode(ARRAY[1]), TOP2_OF_ALL(v) FROM t GROUP BY k", "TOP2_OF_ALL beside EXPLODE in one SELECT"),
        ("SELECT k, TOP2_OF_ALL(v) AS (x, y, z) FROM t GROUP BY k", "has the columns value, place, and 3 names"),
        ("SELECT k, TOP2_OF_ALL(v), COUNT(*) FROM t GROUP BY k", "make it the first or the last item"),
    ],
)  # fmt: skip
def test_queries_that_have_no_plan(sql: str, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        plan_query(sql, TABLES)


def test_a_class_without_retract_over_changes() -> None:
    sql = "SELECT k, TOP2(v) FROM t GROUP BY k"
    found = batches_of(sql, [[("+I", "a", 3), ("+I", "a", 5), ("+I", "a", 4)], [("-D", "a", 5)]])
    assert found[1] == [("-D", "a", 5, 1), ("-D", "a", 4, 2), ("+I", "a", 4, 1), ("+I", "a", 3, 2)]


@pytest.mark.parametrize("function", ["VALUES_SEEN", "EXTREMES"])
def test_what_differs_is_said_only_to_what_opens_the_rows(function: str) -> None:
    """Elsewhere an update shows whole lists."""
    changes = "append" if function in APPEND_ONLY else "retract"
    spec = al.AggSpec("k STRING, v INT", ("k",), [al.AggCall(function, "v", alias="r")], changes)
    sql = f"SELECT k, SIZE({function}(v)) AS n FROM t GROUP BY k"
    with (
        al.Harness(spec, backend="python") as lists,
        al.Harness.from_sql(sql, TABLES, input_changes=changes, backend="python") as sizes,
    ):
        for value in (3, 5, 4):
            for harness in (lists, sizes):
                harness.process([("+I", "a", value)])
                harness.flush()
        ((_, rows),) = lists.table()
        wanted = MODELS[function]([3, 5, 4])
        assert Counter(tuple(row.values()) for row in rows) == Counter(wanted)
        assert sizes.table() == [("a", len(wanted))]


def test_a_plan_says_changes_to_what_opens_the_rows() -> None:
    found = {}
    for sql in (
        "SELECT k, EXTREMES(v) FROM t GROUP BY k",
        "SELECT k, COUNT(*) AS n, EXTREMES(v) FROM t GROUP BY k",
    ):
        plan = plan_query(sql, TABLES, input_changes="append")
        found[sql] = [
            node.emits_changes for node in walk(plan.root) if isinstance(node, GroupAggregate)
        ]
    assert list(found.values()) == [[True], [False]]


@pytest.mark.parametrize(
    ("sql", "wanted"),
    [
        (
            "SELECT k, VALUES_SEEN(v) FROM t GROUP BY k HAVING SIZE(VALUES_SEEN(v)) > 1",
            [("a", 3, 1), ("a", 5, 1), ("a", 4, 1)],
        ),
        (
            "SELECT k, SIZE(VALUES_SEEN(v)) AS n, VALUES_SEEN(v) FROM t GROUP BY k",
            [("a", 3, 3, 1), ("a", 3, 5, 1), ("a", 3, 4, 1)],
        ),
    ],
)
def test_whoever_else_reads_the_list_gets_it_whole(sql: str, wanted: list[Row]) -> None:
    batches = [[("+I", "a", value)] for value in (3, 5, 4)]
    out = [change for batch in batches_of(sql, batches) for change in batch]
    assert Counter(fold(out)) == Counter(wanted)
