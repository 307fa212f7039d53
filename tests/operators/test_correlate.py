"""Table functions beside a plain model: UNNEST, generators and series over random changes, cuts and restarts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from itertools import zip_longest
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from queries import PER_RECORD, TWO_PHASE, multiset
from strategies import examples, lawful_batches, net_rows

import aggloom as al
from aggloom.codegen.planner import Stateful, plan_query, walk
from aggloom.runtime.values.changelog import fold

Row = tuple[Any, ...]
TABLES = {
    "t": "id INT, n INT, a ARRAY<INT>, b ARRAY<STRING>, r ARRAY<STRUCT<x INT, y STRING>>, m MAP<STRING, INT>"
}
NO_VALUE: list[Row] = [()]


def unnest(row: Row) -> list[Row]:
    return [(each,) for each in row[2] or ()]


def number(rows: Iterable[Row], first: int) -> list[Row]:
    return [(*each, place) for place, each in enumerate(rows, first)]


def open_rows(row: Row) -> list[Row]:
    return [(None, None) if each is None else (each["x"], each["y"]) for each in row[4] or ()]


def padded(rows: list[Row], width: int) -> list[Row]:
    return rows or [(None,) * width]


def count_to(row: Row) -> list[Row]:
    return [(each,) for each in range(0, row[1] + 1, 2)] if row[1] is not None else []


QUERIES: dict[str, tuple[str, Callable[[Row], list[Row]]]] = {
    "array": ("SELECT id, e FROM t CROSS JOIN UNNEST(a) AS u(e)", unnest),
    "numbered": (
        "SELECT id, e, o FROM t, UNNEST(t.a) WITH ORDINALITY AS u(e, o)",
        lambda row: number(unnest(row), 1),
    ),
    "left": (
        "SELECT id, e, o FROM t LEFT JOIN UNNEST(a) WITH ORDINALITY AS u(e, o) ON TRUE",
        lambda row: padded(number(unnest(row), 1), 2),
    ),
    "filtered": (
        "SELECT id, e FROM t LEFT JOIN UNNEST(a) AS u(e) ON TRUE WHERE e > 1 AND n IS NOT NULL",
        lambda row: [
            (e,) for (e,) in unnest(row) if e is not None and e > 1 and row[1] is not None
        ],
    ),
    "rows": (
        "SELECT id, u.* FROM t LEFT JOIN UNNEST(r) AS u ON TRUE",
        lambda row: padded(open_rows(row), 2),
    ),
    "map": ("SELECT id, k, v FROM t, UNNEST(m) AS u(k, v)", lambda row: list(row[5] or ())),
    "multiset": (
        "SELECT id, k FROM t, UNNEST(m) AS u(k)",
        lambda row: [(key,) for key, times in row[5] or () for _ in range(times or 0)],
    ),
    "zipped": (
        "SELECT id, e, s, x, y, o FROM t, UNNEST(a, b, r) WITH ORDINALITY AS u(e, s, x, y, o)",
        lambda row: [
            (e, s, *xy, place)
            for place, (e, s, xy) in enumerate(
                zip_longest(row[2] or (), row[3] or (), open_rows(row), fillvalue=None),
                1,
            )
            for xy in [xy or (None, None)]
        ],
    ),
    "explode": ("SELECT id, explode(a) FROM t", unnest),
    "posexplode_outer": (
        "SELECT id, posexplode_outer(b) AS (p, s) FROM t",
        lambda row: padded([(p, s) for p, s in enumerate(row[3] or ())], 2),
    ),
    "inline": (
        "SELECT id, x, y FROM t LATERAL VIEW OUTER inline(r) i",
        lambda row: padded(open_rows(row), 2),
    ),
    "twice": (
        "SELECT id, e, s FROM t LATERAL VIEW explode(a) AS e LATERAL VIEW posexplode(b) q AS p, s WHERE p < 1",
        lambda row: [(e, s) for (e,) in unnest(row) for s in (row[3] or ())[:1]],
    ),
    "stack": (
        "SELECT id, stack(3, id, 'a', n, 'b', 7) FROM t",
        lambda row: [(row[0], "a"), (row[1], "b"), (7, None)],
    ),
    "series": ("SELECT id, e FROM t, generate_series(0, n, 2) AS g(e)", count_to),
    "range": (
        "SELECT id, e FROM t, LATERAL range(n, 0, -2) AS g(e)",
        lambda row: [(e,) for e in range(row[1] if row[1] is not None else 0, 0, -2)],
    ),
}
"""Queries by name, whose first column is the id, each with a model of the other columns of the rows that one makes."""

texts = st.sampled_from([None, "", "p", "ä" * 20])
numbers = st.none() | st.integers(-1, 5)
structs = st.fixed_dictionaries({"x": numbers, "y": texts})
rows_ = st.tuples(
    st.integers(0, 3),
    numbers,
    st.none() | st.lists(numbers, max_size=4),
    st.none() | st.lists(texts, max_size=3),
    st.none() | st.lists(st.none() | structs, max_size=3),
    st.none()
    | st.dictionaries(st.sampled_from(["k", "l", "ö"]), numbers, max_size=3).map(
        lambda d: list(d.items())
    ),
)


@pytest.mark.parametrize("name", QUERIES)
@examples(8)
@given(data=st.data())
def test_rows_are_those_of_a_plain_model(name: str, data: st.DataObject) -> None:
    sql, model = QUERIES[name]
    retracts = data.draw(st.booleans())
    batches = data.draw(lawful_batches(rows_, 12, retracts))
    dialect = data.draw(st.sampled_from(["spark", "flink"]))
    parts = {"partitions": data.draw(st.integers(1, 3)), "backend": "python"}
    plan = plan_query(
        sql, TABLES, input_changes="retract" if retracts else "append", dialect=dialect
    )
    assert plan.root.changelog == (("I", "D") if retracts else ("I",))
    so_far, out = list[Row](), list[Row]()
    changes = "retract" if retracts else "append"
    with al.Harness.from_sql(
        sql, tables=TABLES, input_changes=changes, dialect=dialect, **parts
    ) as harness:
        for batch in batches:
            so_far += batch
            harness.process(batch, table="t")
            harness.flush()
            out += harness.changes()
            wanted = [(row[0], *more) for row in net_rows(so_far) for more in model(row)]
            assert multiset(fold(out)) == multiset(wanted)


AGGREGATES = {
    "counts": (
        "SELECT e, COUNT(*) AS c, SUM(id) AS s FROM t LEFT JOIN UNNEST(a) AS u(e) ON TRUE GROUP BY e",
        lambda rows: {
            e: (len(own), sum(own))
            for e, own in group((e, row[0]) for row in rows for (e,) in padded(unnest(row), 1))
        },
    ),
    "first": (
        "SELECT id, e, o FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY id ORDER BY o DESC, e, n) AS p FROM t, "
        "UNNEST(a) WITH ORDINALITY AS u(e, o)) WHERE p = 1",
        None,
    ),
}


def group(pairs: Iterable[tuple[Any, Any]]) -> list[tuple[Any, list[Any]]]:
    found: dict[Any, list[Any]] = {}
    for key, value in pairs:
        found.setdefault(key, []).append(value)
    return list(found.items())


@examples(8)
@given(data=st.data())
def test_aggregates_and_ranks_over_unnested_rows(data: st.DataObject) -> None:
    batches = data.draw(lawful_batches(rows_, 12))
    way = data.draw(st.sampled_from([PER_RECORD, TWO_PHASE]))
    options = {
        "options": way.plan_options,
        "buckets": data.draw(st.integers(1, 3)),
        "backend": "python",
    }
    counts, first = AGGREGATES["counts"][0], AGGREGATES["first"][0]
    with (
        al.Harness.from_sql(counts, tables=TABLES, **options) as summed,
        al.Harness.from_sql(first, tables=TABLES, **options) as ranked,
    ):
        so_far: list[Row] = []
        for batch in batches:
            so_far += batch
            for harness in (summed, ranked):
                harness.process(batch, table="t")
                harness.flush()
            rows = net_rows(so_far)
            pairs = [(e, row[0]) for row in rows for (e,) in padded(unnest(row), 1)]
            assert Counter(summed.table()) == Counter(
                (e, len(own), sum(own)) for e, own in group(pairs)
            )
            last = {
                key: max(o for _, o in own)
                for key, own in group(
                    (row[0], each) for row in rows for each in number(unnest(row), 1)
                )
            }
            assert {row[0]: row[2] for row in ranked.table()} == last


def test_a_table_function_between_two_operators_shares_their_node_and_survives_a_restart() -> None:
    sql = (
        "SELECT id, e, COUNT(*) AS c FROM (SELECT id, COLLECT_LIST(n) AS a FROM t GROUP BY id) AS s "
        "CROSS JOIN UNNEST(a) AS u(e) GROUP BY id, e"
    )
    plan = plan_query(sql, TABLES)
    nodes = [node for node in walk(plan.root) if isinstance(node, Stateful)]
    assert [type(node).__name__ for node in nodes] == ["GroupAggregate", "GroupAggregate"]
    rows = [
        (1, 5, None, None, None, None),
        (1, 6, None, None, None, None),
        (2, 5, None, None, None, None),
    ]
    with al.Harness.from_sql(sql, tables=TABLES, backend="python") as harness:
        assert len(harness.pipeline.fragments) == 1
        harness.process([("+I", *row) for row in rows], table="t")
        harness.flush()
        data = harness.snapshot()
    with al.Harness.from_sql(sql, tables=TABLES, backend="python") as harness:
        harness.restore(data)
        harness.process([("-D", *rows[1]), ("+I", *rows[0])], table="t")
        harness.flush()
        assert Counter(harness.table()) == Counter([(1, 5, 2), (2, 5, 1)])


# Facts of Flink's own tests of UNNEST: (types, rows, query, result).
