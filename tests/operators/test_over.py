"""Window functions over changes and by time: beside DuckDB, over restarts, what EXPLAIN says, what is refused."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from decimal import Decimal
from typing import Any

import duckdb
import numpy as np
import over_queries
import pyarrow as pa
import pytest

import aggloom as al
from aggloom import Harness
from aggloom.codegen.planner import as_text, plan_query
from aggloom.errors import DataError, OrphanRetractionError, SpecError

SCHEMA = pa.schema(
    [("g", pa.string()), ("id", pa.int32()), ("n", pa.int64()), ("ts", pa.timestamp("us"))]
)
TABLES = {"t": SCHEMA}
_START = dt.datetime(2024, 1, 1)
Row = tuple[Any, ...]


def at(seconds: int) -> dt.datetime:
    return _START + dt.timedelta(seconds=seconds)


def ms(seconds: int) -> int:
    return int(at(seconds).replace(tzinfo=dt.UTC).timestamp() * 1000)


def rows(*given: Row) -> list[Row]:
    return [("+I", *row) for row in given]


def harness(sql: str, **options: Any) -> Harness:
    return Harness.from_sql(sql, TABLES, backend="python", **options)


def outcome(sql: str, *bundles: list[Row], **options: Any) -> list[list[Row]]:
    """The changes of each bundle."""
    found = []
    with harness(sql, **options) as run:
        for bundle in bundles:
            run.process(bundle)
            run.flush()
            found.append(run.changes())
    return found


@pytest.mark.parametrize("seed", range(24))
@pytest.mark.sampled(8)
def test_random_queries_beside_duckdb(seed: int) -> None:
    over_queries.run(seed, duckdb.connect())


@pytest.mark.parametrize("seed", range(8))
def test_random_queries_by_time_beside_duckdb(seed: int) -> None:
    over_queries.run_by_time(seed, duckdb.connect())


def test_compiled_handlers_slide_too() -> None:
    over_queries.run_fixed(
        duckdb.connect(),
        "SELECT id, SUM(n) OVER (PARTITION BY g ORDER BY u ROWS 2 PRECEDING) AS s, "
        "LEAD(s) OVER (PARTITION BY g ORDER BY u) AS l FROM t",
        backend="numba",
    )


FORMS = [
    "SELECT *, ROW_NUMBER() OVER (PARTITION BY g ORDER BY n, id) AS r FROM t",
    "SELECT id, SUM(n) OVER w * 2 + 1 AS s FROM t WINDOW w AS (PARTITION BY g ORDER BY id)",
    "SELECT id, COUNT(*) OVER (w ROWS 1 PRECEDING) AS s FROM t WINDOW w AS (PARTITION BY g ORDER BY id)",
    "SELECT t.*, n - LAG(n) OVER (ORDER BY id) AS d FROM t WHERE n > 1",
    "SELECT g, SUM(n) AS s, SUM(SUM(n)) OVER (ORDER BY g NULLS FIRST) AS r FROM t GROUP BY g",
    "SELECT g, MAX(s) AS m FROM (SELECT g, SUM(n) OVER (PARTITION BY g ORDER BY id) AS s FROM t) GROUP BY g",
    "SELECT id FROM t QUALIFY SUM(n) OVER (PARTITION BY g) > 5",
    "SELECT id, SUM(n) OVER (ORDER BY id) AS s FROM t QUALIFY s > 3",
    "SELECT DISTINCT g, COUNT(*) OVER (PARTITION BY g) AS c FROM t",
    "SELECT id, ROW_NUMBER() OVER (ORDER BY id) + 1 AS r FROM t",
    "SELECT ROW_NUMBER() OVER (ORDER BY id) AS a, RANK() OVER (ORDER BY n DESC) AS b FROM t",
    "SELECT * FROM (SELECT *, RANK() OVER (PARTITION BY g ORDER BY n, id) AS r FROM t) WHERE r > 1",
    "SELECT COUNT(*) OVER () AS c FROM t",
    "SELECT id, SUM(r) OVER (ORDER BY id) AS s FROM (SELECT id, RANK() OVER (ORDER BY n) AS r FROM t)",
    "SELECT id, CASE WHEN n > AVG(n) OVER (PARTITION BY g) THEN 'over' ELSE 'under' END AS c FROM t",
    "SELECT id, s FROM (SELECT *, SUM(n) OVER (PARTITION BY g ORDER BY id) AS s FROM t) ORDER BY id LIMIT 2",
]
CHANGES = [
    rows(("a", 1, 3, at(0)), ("a", 2, 1, at(1)), ("b", 3, 4, at(2)), (None, 4, 2, at(3))),
    [("-D", "a", 1, 3, at(0)), *rows(("b", 5, 9, at(0)))],
    [("-U", "b", 3, 4, at(2)), ("+U", "a", 3, 7, at(2)), *rows(("a", 6, None, at(5)))],
]
NETS = [
    [row[1:] for row in CHANGES[0]],
    [*(row[1:] for row in CHANGES[0][1:]), CHANGES[1][1][1:]],
    [*(CHANGES[0][k][1:] for k in (1, 3)), CHANGES[1][1][1:], *(r[1:] for r in CHANGES[2][1:])],
]


@pytest.mark.parametrize("sql", FORMS)
def test_forms_beside_duckdb(sql: str) -> None:
    table: Counter[Row] = Counter()
    connection = duckdb.connect()
    connection.execute("SET default_null_order = 'nulls_first_on_asc_last_on_desc'")
    for changes, net in zip(outcome(sql, *CHANGES), NETS, strict=True):
        over_queries.fold(table, changes)
        columns = zip(*net, strict=True)
        arrays = [pa.array(list(c), f.type) for c, f in zip(columns, SCHEMA, strict=True)]
        connection.register("t", pa.table(arrays, SCHEMA.names))
        found = connection.execute(sql).fetchall()
        assert table == Counter(over_queries.plain(row) for row in found)


SUMS = "SELECT id, n, SUM(n) OVER (PARTITION BY g ORDER BY n) AS s FROM t"


def test_messages_row_by_row_are_those_of_flink() -> None:
    found = outcome(
        SUMS,
        rows(("a", 1, 1, None), ("a", 2, 5, None)),
        rows(("a", 3, 4, None)),
        [("-U", "a", 1, 1, None), ("+U", "a", 1, 2, None)],
        options={"mini_batch_enabled": False},
    )
    assert found == [
        [("+I", 1, 1, 1), ("+I", 2, 5, 6)],
        [("+I", 3, 4, 5), ("-U", 2, 5, 6), ("+U", 2, 5, 10)],
        [
            *[("-D", 1, 1, 1), ("-U", 3, 4, 5), ("+U", 3, 4, 4), ("-U", 2, 5, 10), ("+U", 2, 5, 9)],
            *[("+U", 1, 2, 2), ("-U", 3, 4, 4), ("+U", 3, 4, 6), ("-U", 2, 5, 9), ("+U", 2, 5, 11)],
        ],
    ]


def test_a_bundle_tells_the_net_difference() -> None:
    first = rows(("a", 1, 1, None), ("a", 2, 5, None))
    again = [("-U", "a", 1, 1, None), ("+U", "a", 1, 1, None), *rows(("a", 3, 0, None))]
    known = outcome(SUMS, first, again, keys={"t": "id"})
    # Nothing is told of rows whose values stay, although one of them went and came.
    assert known == [[("+I", 1, 1, 1), ("+I", 2, 5, 6)], [("+I", 3, 0, 0)]]
    moved = [("-U", "a", 1, 1, None), ("+U", "a", 1, 2, None)]
    assert outcome(SUMS, first, moved, keys={"t": "id"})[1] == [
        *[("-U", 1, 1, 1), ("+U", 1, 2, 2), ("-U", 2, 5, 6), ("+U", 2, 5, 7)]
    ]
    # A row may move to another key, whose change may come first: -U says which row goes.
    assert ("-U", 1, 1, 1) in outcome(SUMS, first, moved, keys={"t": "id"}, update_before=False)[1]
    by_both = {"keys": {"t": ["g", "id"]}, "update_before": False}
    upserts = outcome(SUMS.replace("id,", "g, id,"), first, moved, **by_both)
    assert upserts[1] == [("+U", "a", 1, 2, 2), ("+U", "a", 2, 5, 7)]


def test_a_row_is_known_again_where_null_and_one_are_both_keys() -> None:
    sql = "SELECT g, n, id, COUNT(*) OVER (PARTITION BY g) AS c FROM t"
    first = rows(("a", 1, None, None), ("a", 2, 1, None))
    moved = [
        *[("-U", "a", 1, None, None), ("-U", "a", 2, 1, None)],
        *[("+U", "a", 4, 1, None), ("+U", "a", 3, None, None)],
    ]
    found = outcome(sql, first, moved, keys={"t": ["g", "n"]}, update_before=False)
    assert sorted(found[1], key=str) == [("+U", "a", 1, 4, 2), ("+U", "a", None, 3, 2)]


@pytest.mark.parametrize(
    ("calls", "order", "match"),
    [
        ("SUM(n)", "n", "calls is 'SUM"),
        (["SUM(n)"], "n", "name each column"),
        ({"s": "SUM(n)"}, 5, "order_by is 5"),
    ],
)
def test_over_sql_refuses(calls: Any, order: Any, match: str) -> None:
    with pytest.raises(SpecError, match=match):
        al.over_sql(calls, order_by=order)


def test_only_what_a_change_touches_is_computed() -> None:
    sql = (
        "SELECT id, SUM(n) OVER (w ROWS 2 PRECEDING) AS s, LAG(n) OVER w AS l FROM t "
        "WINDOW w AS (PARTITION BY g ORDER BY id)"
    )
    with harness(sql) as run:
        run.process(rows(*(("a", k, k, None) for k in range(10, 5_000))))
        run.flush()
        run.changes()
        before = run.counters["computed"]
        run.process(rows(("a", 5, 7, None)))
        run.flush()
        assert len(run.changes()) == 5
        assert run.counters["computed"] - before == 3


def test_numbers_stop_where_as_many_rows_came_as_went() -> None:
    sql = "SELECT id, ROW_NUMBER() OVER (ORDER BY n) AS r FROM t"
    with harness(sql) as run:
        run.process(rows(*(("a", k, k, None) for k in range(2_000))))
        run.flush()
        run.changes()
        before = run.counters["computed"]
        run.process([("-D", "a", 3, 3, None), *rows(("a", 9_000, 5, None))])
        run.flush()
        assert run.counters["computed"] - before < 10
        assert len(run.changes()) == 6


def test_hostile_rows() -> None:
    ties = rows(*[("a", 1, None, None)] * 3_000)
    sql = (
        "SELECT id, LAG(n, 1 IGNORE NULLS) OVER w AS l, SUM(n) OVER (w ROWS 100000 PRECEDING) AS s, "
        "RANK() OVER w AS r FROM t WINDOW w AS (ORDER BY id)"
    )
    first, second = outcome(sql, ties, rows(("a", 0, 5, None)))
    assert Counter(first) == Counter({("+I", 1, None, None, 1): 3_000})
    assert Counter(second) == Counter(
        {
            ("+I", 0, None, 5, 1): 1,
            ("-U", 1, None, None, 1): 3_000,
            ("+U", 1, 5, 5, 2): 3_000,
        }
    )


def test_distances_beyond_the_type_reach_its_ends() -> None:
    far = 2**63 - 1
    sql = f"SELECT n, COUNT(*) OVER (ORDER BY n RANGE BETWEEN {far} PRECEDING AND {far} FOLLOWING) AS c FROM t"
    (found,) = outcome(sql, rows(("a", 1, -(2**63), None), ("a", 2, 0, None), ("a", 3, far, None)))
    assert sorted(found) == [("+I", -(2**63), 1), ("+I", 0, 2), ("+I", far, 2)] or sorted(
        found
    ) == [("+I", -(2**63), 1), ("+I", 0, 3), ("+I", far, 2)]


@pytest.mark.parametrize("way", ["ASC NULLS LAST", "DESC NULLS FIRST"])
@pytest.mark.parametrize("kind", ["TINYINT", "BIGINT", "DECIMAL(3,0)"])
def test_a_frame_that_starts_beyond_the_type_is_empty(kind: str, way: str) -> None:
    """Rows with the last value of the type lie at no distance from one another."""
    top = {"TINYINT": 127, "BIGINT": 2**63 - 1, "DECIMAL(3,0)": 999}[kind]
    values = [top, top - 2, top - 3, 0, -top, -top + 1, None]
    for start, end in ((2, 2), (-2, -2), (-9, -2), (2, 9)):
        first, last = (f"{abs(n)} {'FOLLOWING' if n > 0 else 'PRECEDING'}" for n in (start, end))
        sql = f"SELECT x, COUNT(x) OVER (ORDER BY x {way} RANGE BETWEEN {first} AND {last}) AS c FROM t"
        with Harness.from_sql(sql, {"t": f"x {kind}"}, backend="python") as harness:
            for value in values:
                decimal = value is not None and "DECIMAL" in kind
                harness.process([("+I", Decimal(value) if decimal else value)])
                harness.flush()
            found = dict(harness.table())
        sign = -1 if way.startswith("DESC") else 1
        numbers = [value for value in values if value is not None]
        for value in numbers:
            near = [other for other in numbers if start <= sign * (other - value) <= end]
            assert found[value] == len(near), (value, first, last)


def test_an_orphan_follows_the_policy() -> None:
    orphan = [("-D", "a", 1, 1, None)]
    with harness(SUMS) as run:
        run.process(orphan)
        run.flush()
        assert run.changes() == [] and run.counters["orphans_dropped"] == 1
    with (
        harness(SUMS, on_orphan_retraction="error") as run,
        pytest.raises(OrphanRetractionError, match="row 0 retracts from key g='a'"),
    ):
        run.process(orphan)
        run.flush()
    kept = outcome(
        SUMS,
        orphan,
        rows(("a", 1, 1, None), ("a", 2, 2, None)),
        on_orphan_retraction="keep",
    )
    assert kept == [[], [("+I", 2, 2, 2)]]
    with harness(SUMS, on_orphan_retraction="keep") as run:
        run.process(orphan)
        run.flush()
        run.process([("+I", *orphan[0][1:])])
        run.flush()
        assert run.changes() == [] and run.operator.keys == 0


def test_keys_are_forgotten() -> None:
    with harness(SUMS, state_ttl=10) as run:
        run.set_ttl_time(0)
        run.process(rows(("a", 1, 1, None)))
        run.flush()
        run.set_ttl_time(10)
        run.process(rows(("b", 2, 2, None)))
        run.flush()
        assert run.counters["expired"] == 1 and run.counters["keys"] == 1


BY_TIME = "SELECT id, SUM(n) OVER (PARTITION BY g ORDER BY ts {}) AS s FROM t"
ONCE = {"input_changes": "append", "over_insert_only": True}


@pytest.mark.parametrize(
    ("frame", "values"),
    [
        ("", {1: 1, 2: 6, 3: 6, 4: 14}),
        ("ROWS UNBOUNDED PRECEDING", {1: 1, 2: 3, 3: 6, 4: 14}),
        ("ROWS 1 PRECEDING", {1: 1, 2: 3, 3: 5, 4: 11}),
        ("RANGE INTERVAL '5' SECOND PRECEDING", {1: 1, 2: 6, 3: 6, 4: 8}),
    ],
)
def test_rows_by_time_come_once(frame: str, values: dict[int, int]) -> None:
    """Rows 1, 2, 3 (at one time), 4; a restart between them."""
    sql = BY_TIME.format(frame)
    run = harness(sql, **ONCE)
    run.process(rows(("a", 2, 2, at(5)), ("a", 1, 1, at(1)), ("a", 3, 3, at(5))))
    run.watermark(ms(1))
    first = run.changes()
    state = run.snapshot()
    run.close()
    with harness(sql, **ONCE) as run:
        run.restore(state)
        run.process(rows(("a", 4, 8, at(11))))
        run.watermark(ms(5))
        second = run.changes()
        run.process(rows(("a", 9, 9, at(1)), ("a", 9, 9, at(5))))
        run.watermark(ms(60))
        third = run.changes()
        assert run.counters["late_dropped"] == 2
        with pytest.raises(DataError, match="retracts a row"):
            run.operator.process(_one_row(run), np.array([3], np.int8))  # type: ignore[attr-defined]
    assert first == [("+I", 1, values[1])]
    assert second == [("+I", 2, values[2]), ("+I", 3, values[3])]
    assert third == [("+I", 4, values[4])]


def _one_row(run: Harness) -> pa.RecordBatch:
    schema = run.operator.spec.schema  # type: ignore[attr-defined]
    values = {"g": "a", "id": 1, "n": 1, "ts": at(100)}
    return pa.RecordBatch.from_pylist([values], schema=schema)


def test_late_rows_are_handed_out() -> None:
    with harness(BY_TIME.format(""), **ONCE, late_rows=True) as run:
        run.process(rows(("a", 1, 1, at(5))))
        run.watermark(ms(5))
        late = ("a", 2, 2, at(5))
        run.process(rows(late))
        run.flush()
        assert [set(row[1:]) for row in run.late()] == [set(late)]


def test_state_leaves_with_the_frame() -> None:
    with harness(BY_TIME.format("RANGE INTERVAL '5' SECOND PRECEDING"), **ONCE) as run:
        run.process(rows(*((f"k{k}", k, k, at(k)) for k in range(50))))
        run.watermark(ms(60))
        assert len(run.changes()) == 50 and run.counters["keys"] == 0
    with harness(BY_TIME.format("ROWS 2 PRECEDING"), **ONCE) as run:
        run.process(rows(*(("a", k, k, at(k)) for k in range(50))))
        run.watermark(ms(60))
        (operator,) = run.pipeline.operators
        assert len(operator.state.sorted) == 2  # type: ignore[attr-defined]


def test_by_the_clock_rows_come_at_once() -> None:
    below = "(SELECT g, id, n, PROCTIME() AS p FROM t)"
    sql = (
        f"SELECT id, SUM(n) OVER w AS s, RANK() OVER w AS r FROM {below} "
        "WINDOW w AS (PARTITION BY g ORDER BY p)"
    )
    same = ("a", 1, 1, None)
    found = outcome(sql, rows(same, same), rows(same), input_changes="append", dialect="flink")
    assert found == [[("+I", 1, 1, 1), ("+I", 1, 2, 2)], [("+I", 1, 3, 3)]]
    assert "orderBy=[PROCTIME ASC]" in as_text(plan_query(sql, TABLES, input_changes="append"))


def test_what_explain_says() -> None:
    sql = "SELECT g, SUM(n) OVER (PARTITION BY g ORDER BY id ROWS 2 PRECEDING) AS s FROM t"
    text = as_text(plan_query(sql, TABLES))
    assert (
        "OverAggregate(partitionBy=[g], orderBy=[id ASC], window=[ ROWS BETWEEN 2 PRECEDING AND CURRENT ROW ], "
        "select=[g, n, id, SUM(n) AS $w0], changelogMode=[I,UB,UA,D]" in text
    )
    assert "state bounded by the number of keys and, per key, all its rows" in text
    once = as_text(plan_query(sql.replace("id", "ts"), TABLES, input_changes="append"))
    assert "changelogMode=[I,UB,UA]" in once


def test_the_query_as_text() -> None:
    sql = al.over_sql(
        {"s": "SUM(n)", "before": "LAG(n)"}, partition_by="g", order_by="id", frame=None
    )
    assert sql == (
        "SELECT *, SUM(n) OVER (PARTITION BY `g` ORDER BY id) AS `s`, "
        "LAG(n) OVER (PARTITION BY `g` ORDER BY id) AS `before` FROM `t`"
    )
    with pytest.raises(SpecError, match="over: there is no call"):
        al.over_sql({})


@pytest.mark.parametrize(
    ("item", "match"),
    [
        (
            "SUM(n) OVER (PARTITION BY g GROUPS 2 PRECEDING)",
            "GROUPS counts rows that tie in ORDER BY",
        ),
        ("SUM(n) OVER (ORDER BY id GROUPS 1.5 PRECEDING)", "GROUPS needs a whole number"),
        ("SUM(n) OVER (ORDER BY id ROWS 1.5 PRECEDING)", "ROWS needs a whole number"),
        (
            "SUM(n) OVER (ORDER BY id, n RANGE 1 PRECEDING)",
            "RANGE with a distance needs one column",
        ),
        ("SUM(n) OVER (ORDER BY g RANGE 1 PRECEDING)", "needs a number or a time to order by"),
        ("SUM(n) OVER (ORDER BY ts RANGE 1 PRECEDING)", "needs an INTERVAL"),
        ("SUM(n) OVER (ORDER BY ts RANGE INTERVAL '1' MONTH PRECEDING)", "write days"),
        ("SUM(n) OVER (ORDER BY id RANGE 0.5 PRECEDING)", "needs a whole number"),
        ("SUM(n) OVER (ROWS BETWEEN 1 FOLLOWING AND 1 PRECEDING)", "ends before it starts"),
        ("SUM(n) OVER (ROWS BETWEEN UNBOUNDED FOLLOWING AND CURRENT ROW)", "cannot start at"),
        ("SUM(n) OVER nowhere", "there is no window 'nowhere'"),
        ("LAG(n, -1) OVER (ORDER BY id)", "LAG needs a whole number from 0 on"),
        ("LAG(n, id) OVER (ORDER BY id)", "from 0 on that is written out, not id"),
        ("LAG(n) OVER (PARTITION BY g)", "LAG needs an order"),
        ("LAG(n, 1, 'x') OVER (ORDER BY id)", "no common type"),
        ("NTILE(0) OVER (ORDER BY id)", "NTILE needs a whole number from 1 on"),
        ("RANK(n) OVER (ORDER BY id)", "RANK has no arguments"),
        ("CUME_DIST() FILTER (WHERE n > 1) OVER (ORDER BY id)", "takes no FILTER"),
        ("SUM(SUM(n) OVER ()) OVER ()", "inside another"),
        ("SUMM(n) OVER (ORDER BY id)", "Did you mean 'SUM'"),
        ("SUM(nope) OVER (ORDER BY id)", "no column 'nope'"),
    ],
)
def test_what_is_refused(item: str, match: str) -> None:
    with pytest.raises(SpecError, match=match):
        plan_query(f"SELECT id, {item} AS w FROM t", TABLES)


@pytest.mark.parametrize(
    ("kind", "default", "expected"),
    [
        ("TINYINT", "0", 0),
        ("TINYINT", "-128", -128),
        ("SMALLINT", "1.0", 1),
        ("TINYINT", "128", "LAG has the default 128, which TINYINT does not hold"),
        ("INT", "1.5", r"default 1\.5, which INT does not hold"),
        ("INT", "3000000000", "which INT does not hold"),
        ("TINYINT", "id", "LAG has a default of INT for a value of TINYINT; cast one"),
        ("DECIMAL(5,2)", "7", Decimal("7.00")),
        ("DECIMAL(5,2)", "1000", r"which DECIMAL\(5,2\) does not hold"),
        ("DECIMAL(5,2)", "0.125", r"which DECIMAL\(5,2\) does not hold"),
        ("FLOAT", "0.5", 0.5),
        ("FLOAT", "0", 0.0),
    ],
)
def test_a_default_that_is_written_out_has_the_type_of_the_value(
    kind: str, default: str, expected: Any
) -> None:
    sql = f"SELECT id, LAG(x, 1, {default}) OVER (ORDER BY id) AS w FROM t"
    tables = {"t": f"id INT, x {kind}"}
    if isinstance(expected, str):
        with pytest.raises(SpecError, match=expected) as raised:
            plan_query(sql, tables)
        assert str(raised.value).count("At line") == 1
        return
    with Harness.from_sql(sql, tables, backend="python") as harness:
        harness.process([("+I", 1, None)])
        harness.flush()
        assert harness.plan.schema.field("w").type == harness.plan.scans["t"].schema.field("x").type
        assert list(harness.table()) == [(1, expected)]
