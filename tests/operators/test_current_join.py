"""FOR SYSTEM_TIME AS OF processing time of a changing table beside a plain model: cuts, restarts, buckets, refusals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from queries import multiset
from strategies import examples, lawful_batches, net_rows

import aggloom as al
from aggloom.codegen.operators import CurrentJoin
from aggloom.codegen.planner import plan_query, walk
from aggloom.errors import OrphanRetractionError, UnsupportedSqlError

Row = tuple[Any, ...]
TABLES = {"o": "id INT, k STRING, v INT", "d": "k STRING, lo INT"}
CHANGES = {"o": "append", "d": "retract"}
SQL = """
    SELECT o.id, o.k, o.v, d.lo FROM o {} JOIN d FOR SYSTEM_TIME AS OF PROCTIME() ON o.k {} d.k AND d.lo <= o.v"""
keys = st.sampled_from(["a", "b", None])
dims = st.tuples(keys, st.integers(0, 2))
rows = st.tuples(keys, st.integers(0, 2))


def join(lefts: Sequence[Row], rights: Sequence[Row], outer: bool, safe: bool) -> list[Row]:
    """The joined rows of these rows of both sides."""
    found: list[Row] = []
    for number, key, value in lefts:
        met = [lo for k, lo in rights if k == key and (safe or key is not None) and lo <= value]
        found += [(number, key, value, lo) for lo in (met or ([None] if outer else []))]
    return found


@examples(10)
@given(batches=lawful_batches(dims, 14), data=st.data())
def test_rows_meet_the_table_as_it_is_after_their_batch(
    batches: list[list[Row]], data: st.DataObject
) -> None:
    outer, safe = data.draw(st.booleans()), data.draw(st.booleans())
    sql = SQL.format("LEFT" if outer else "", "<=>" if safe else "=")
    options = {
        "buckets": data.draw(st.integers(1, 3)),
        "partitions": data.draw(st.integers(1, 2)),
        "mini_batch_enabled": data.draw(st.booleans()),
    }
    half, number = data.draw(st.integers(0, len(batches))), 0
    so_far: list[Row] = []

    def make() -> al.Harness:
        return al.Harness.from_sql(sql, tables=TABLES, input_changes=CHANGES, **options)

    harness = make()
    for place, changes in enumerate(batches):
        if place == half:
            saved = harness.snapshot()
            harness = make()
            harness.restore(saved)
        lefts = []
        for key, value in data.draw(st.lists(rows, max_size=4)):
            number += 1
            lefts.append((number, key, value))
        feed(harness, lefts, changes, bool(data.draw(st.booleans())), options["mini_batch_enabled"])
        so_far += changes
        emitted = harness.changes()
        assert {kind for kind, *_ in emitted} <= {"+I"}
        wanted = join(lefts, net_rows(so_far), outer, safe)
        assert multiset(row[1:] for row in emitted) == multiset(wanted)


def feed(
    harness: al.Harness, lefts: list[Row], changes: list[Row], first: bool, bundled: bool
) -> None:
    """Give the rows of a batch; where a bundle is a row, those of the right first."""
    parts = [("o", [("+I", *row) for row in lefts]), ("d", changes)]
    for table, batch in parts if first and bundled else parts[::-1]:
        for change in [batch] if bundled else [[each] for each in batch]:
            harness.process(change, table=table)
    harness.flush()


def test_what_is_known_of_the_result() -> None:
    sql = "SELECT o.id, d.lo FROM o JOIN d FOR SYSTEM_TIME AS OF PROCTIME() ON o.k = d.k"
    unique = {"o": "id", "d": "k"}
    plan = plan_query(sql, TABLES, input_changes=CHANGES, keys=unique)
    (node,) = (each for each in walk(plan.root) if isinstance(each, CurrentJoin))
    assert plan.root.changelog == ("I",) and plan.root.unique_keys == (("id",),)
    assert node.input_spec(1) == "JoinKeyContainsUniqueKey" and plan.follows_batches
    assert plan_query(sql, TABLES, input_changes=CHANGES).root.unique_keys == ()
    text = al.explain(sql, tables=TABLES, input_changes=CHANGES, keys=unique)
    assert "TemporalJoin(joinType=[InnerJoin], where=[(k = d.k)], asOf=[the batch]" in text
    assert "its rows of the right" in text and "its rows of the left" not in text
    upserts = {"o": "append", "d": "upsert"}
    plan_query(sql, TABLES, input_changes=upserts, keys=unique)


def test_the_time_may_be_a_column_and_the_table_a_view_or_a_join() -> None:
    sql = """
        CREATE VIEW p AS SELECT *, PROCTIME() AS at FROM o;
        CREATE VIEW sums AS SELECT k, COUNT(*) AS n FROM d GROUP BY k;
        SELECT p.id, s.n, t.lo FROM p JOIN sums FOR SYSTEM_TIME AS OF p.at AS s ON p.k = s.k
        LEFT JOIN d FOR SYSTEM_TIME AS OF p.at AS t ON p.k = t.k"""
    with al.Harness.from_sql(sql, tables=TABLES, input_changes=CHANGES) as harness:
        harness.process([("+I", "a", 1), ("+I", "a", 2)], table="d")
        harness.process([("+I", 1, "a", 0), ("+I", 2, "b", 0)], table="o")
        harness.flush()
        assert multiset(harness.table()) == multiset([(1, 2, 1), (1, 2, 2)])
        harness.process([("-D", "a", 1)], table="d")
        harness.flush()
        assert len(harness.table()) == 2


def test_a_key_that_is_not_written_to_is_forgotten() -> None:
    sql = "SELECT o.id, d.lo FROM o LEFT JOIN d FOR SYSTEM_TIME AS OF PROCTIME() ON o.k = d.k"
    options = {"tables": TABLES, "input_changes": CHANGES, "state_ttl": 1000}
    with al.Harness.from_sql(sql, **options) as harness:
        harness.processing_time(1000)
        harness.process([("+I", "a", 1)], table="d")
        harness.process([("+I", 1, "a", 0)], table="o")
        harness.flush()
        harness.processing_time(1900)
        harness.process([("+I", 2, "a", 0)], table="o")
        harness.flush()
        harness.processing_time(2500)
        harness.process([("+I", 3, "a", 0)], table="o")
        harness.flush()
        assert multiset(harness.table()) == multiset([(1, 1), (2, 1), (3, None)])


def test_orphans_of_the_table_are_dealt_with() -> None:
    sql = "SELECT o.id FROM o JOIN d FOR SYSTEM_TIME AS OF PROCTIME() ON o.k = d.k"
    options = {"tables": TABLES, "input_changes": CHANGES, "on_orphan_retraction": "error"}
    with al.Harness.from_sql(sql, **options) as harness:
        harness.process([("-D", "a", 1)], table="d")
        with pytest.raises(OrphanRetractionError):
            harness.flush()


REFUSED = [
    (
        "FROM d JOIN o FOR SYSTEM_TIME AS OF PROCTIME() ON o.k = d.k",
        "may be retracted is not .*JOIN alone",
    ),
    (
        "FROM o RIGHT JOIN d FOR SYSTEM_TIME AS OF PROCTIME() ON o.k = d.k",
        "RIGHT JOIN is not .*LEFT",
    ),
    (
        "/*+ STATE_TTL('o' = '1d') */ FROM o JOIN d FOR SYSTEM_TIME AS OF PROCTIME() ON o.k = d.k",
        "STATE_TTL",
    ),
]


@pytest.mark.parametrize(("text", "message"), REFUSED)
def test_what_no_row_could_mean_is_refused(text: str, message: str) -> None:
    hint, _, rest = text.rpartition("FROM")
    with pytest.raises(UnsupportedSqlError, match=f"(?s){message}"):
        plan_query(f"SELECT {hint} o.id FROM{rest}", TABLES, input_changes=CHANGES)
