"""Updates that leave columns out, beside a dict of rows: what was known stays known, however the rows are cut."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import examples

from aggloom import Harness, explain
from aggloom.codegen.planner import plan_query
from aggloom.errors import DataError, SpecError, TypeMismatchError

DDL = "id INT, a STRING, v BIGINT, w DOUBLE, _absent_columns STRING, PRIMARY KEY (id) NOT ENFORCED"
NAMES = ("a", "v", "w")
Row = tuple[Any, ...]


def partial(id_: int, **values: Any) -> Row:
    """An update of some columns."""
    absent = [name for name in NAMES if name not in values]
    return ("+U", id_, *map(values.get, NAMES), json.dumps(absent) if absent else None)


ids = st.sampled_from([1, 2, 3])
values = {
    "a": st.sampled_from([None, "", "x", "z" * 40]),
    "v": st.sampled_from([None, 0, 7, -(2**40)]),
    "w": st.sampled_from([None, 0.0, 1.5]),
}
updates = st.builds(
    lambda id_, told: partial(id_, **told), ids, st.fixed_dictionaries({}, optional=values)
)
changes = st.one_of(
    updates,
    st.builds(lambda id_, told: partial(id_, **told), ids, st.fixed_dictionaries(values)),
    st.builds(lambda id_: ("-D", id_, None, None, None, None), ids),
)


def fold_by_key(rows: list[Row]) -> tuple[dict[int, Row], int]:
    """The row of each key after the changes, and how many of them are of keys that have none."""
    found: dict[int, Row] = {}
    orphans = 0
    for kind, id_, *told, absent in rows:
        left = json.loads(absent or "[]")
        if kind == "-D" or (left and id_ not in found):
            orphans += found.pop(id_, None) is None
            continue
        old = found.get(id_, (None,) * len(NAMES))
        found[id_] = tuple(
            was if name in left else new for name, was, new in zip(NAMES, old, told, strict=True)
        )
    return found, orphans


@pytest.mark.parametrize("backend", ["python", "numba"])
@pytest.mark.parametrize("mini_batch", [False, True])
@pytest.mark.parametrize("update_before", [False, True])
@examples(12)
@given(
    rows=st.lists(changes, max_size=20),
    cuts=st.sets(st.integers(0, 20)),
    restart=st.integers(0, 20),
    buckets=st.integers(1, 3),
)
def test_the_table_beside_a_dict_however_it_is_cut(
    backend: str,
    mini_batch: bool,
    update_before: bool,
    rows: list[Row],
    cuts: set[int],
    restart: int,
    buckets: int,
) -> None:
    def made(query: str) -> Harness:
        return Harness.from_sql(
            query,
            {"t": DDL},
            input_changes="upsert",
            backend=backend,  # type: ignore[arg-type]
            buckets=buckets,
            update_before=update_before,
            mini_batch_enabled=mini_batch,
        )

    kept, orphans = fold_by_key(rows)
    wanted = {
        "SELECT * FROM t": [(id_, *row) for id_, row in kept.items()],
        # A filter is asked of completed rows: one that does not pass is remembered all the same.
        "SELECT id, w FROM t WHERE a = 'x'": [(n, r[2]) for n, r in kept.items() if r[0] == "x"],
    }
    for query, answer in wanted.items():
        harness, dropped = made(query), 0
        for number, row in enumerate(rows):
            if number == restart:
                data, dropped = harness.snapshot(), harness.counters["orphans_dropped"]
                table = harness.table()
                harness.close()
                harness = made(query)
                harness.restore(data)
                if "WHERE" not in query:
                    assert harness.table() == table
            harness.process([row])
            if number in cuts:
                harness.flush()
        harness.flush()
        assert harness.counters["orphans_dropped"] + dropped == orphans
        if restart >= len(rows) or "WHERE" not in query:
            assert sorted(harness.table(), key=repr) == sorted(answer, key=repr)
        harness.close()


def test_columns_that_the_query_does_not_read_do_not_matter() -> None:
    with Harness.from_sql("SELECT id, v FROM t", {"t": DDL}, input_changes="upsert") as t:
        t.process([partial(1, a="x", v=2, w=1.0), partial(1, a="y"), partial(2, v=1)])
        t.flush()
        # Without its `a` the second row is of a key that nobody knows, though `a` is not asked for.
        assert t.table() == [(1, 2)] and t.counters["orphans_dropped"] == 1
        t.process([partial(1, v=None)])
        t.flush()
        assert t.table() == [(1, None)]


def test_the_plan_keeps_its_normalise_and_says_why() -> None:
    query = "SET 'update_before' = 'false'; SELECT id, a FROM t WHERE v > 1"
    text = explain(query, DDL, input_changes="upsert")
    assert "ChangelogNormalize(key=[id], images=[partial]" in text
    assert "rows omit columns, which keep their previous values" in text
    plan = plan_query(query, {"t": DDL}, input_changes="upsert")
    assert plan.schema.names == ["id", "a"]


@pytest.mark.parametrize(
    ("ddl", "asked", "match"),
    [
        (DDL, {"input_changes": "retract"}, "which only upserts may; say changes=upsert"),
        ("id INT, _absent_columns STRING", {"input_changes": "append"}, "binlog_row_image=FULL"),
        ("id INT, _absent_columns STRING", {"input_changes": "upsert"}, "upserts need a key"),
        (
            DDL.replace("_absent_columns STRING", "_absent_columns INT"),
            {"input_changes": "upsert"},
            "is INT; it is a STRING, the JSON list of columns",
        ),
        (
            DDL.replace("w DOUBLE", "w TIMESTAMP"),
            {"input_changes": "upsert", "watermarks": {"t": ("w", "5 s")}},
            "its watermark goes by 'w', which a row may leave out",
        ),
    ],
)
def test_tables_of_partial_rows_that_cannot_be(ddl: str, asked: Any, match: str) -> None:
    with pytest.raises((SpecError, TypeMismatchError), match=match):
        plan_query("SELECT id FROM t", {"t": ddl}, **asked)


@pytest.mark.parametrize("text", ["a", '{"a": 1}', "[1]", '["a"'])
def test_a_list_of_columns_that_is_none(text: str) -> None:
    with Harness.from_sql("SELECT id, a FROM t", {"t": DDL}, input_changes="upsert") as t:
        t.process([("+U", 1, "x", 1, 1.0, text)])
        with pytest.raises(DataError, match="it is a JSON list of the columns that a row leaves"):
            t.flush()


def test_partial_rows_are_no_versions() -> None:
    query = "SELECT o.id, r.v FROM o JOIN t FOR SYSTEM_TIME AS OF o.ts AS r ON o.id = r.id"
    tables = {"o": "id INT, ts TIMESTAMP", "t": DDL.replace("w DOUBLE", "w TIMESTAMP")}
    with pytest.raises(SpecError, match="its rows leave columns out"):
        plan_query(
            query,
            tables,
            input_changes={"o": "append", "t": "upsert"},
            watermarks={"o": ("ts", "5 s")},
        )
