"""TO_CHANGELOG and FROM_CHANGELOG beside a plain model: logs row by row, tables from logs, cuts, restarts, refusals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from queries import multiset
from strategies import examples, lawful_batches

import aggloom as al
from aggloom.codegen.planner import Calc, FromChangelog, PlanOptions, ToChangelog, plan_query, walk
from aggloom.errors import SpecError, UnknownChangeTypeError
from aggloom.runtime.operators.stateless import bare, step_data, step_from
from aggloom.runtime.values.changelog import KIND_NAMES, fold

Row = tuple[Any, ...]
TABLES = {"t": "k STRING, v INT"}
WORDS = ("INSERT", "UPDATE_BEFORE", "UPDATE_AFTER", "DELETE")
SUMS = "SELECT k, COUNT(*) AS n, SUM(v) AS s FROM t GROUP BY k HAVING COUNT(*) > 1"
LOG = f"SELECT * FROM TO_CHANGELOG(input => ({SUMS}) PARTITION BY k)"
UPSERT_LOG = LOG[:-1] + ", op_mapping => MAP['INSERT, UPDATE_AFTER', 'w', 'DELETE', 'x'])"
BACK = f"""
    SELECT * FROM FROM_CHANGELOG(
        input => ({UPSERT_LOG})
            PARTITION BY k,
        op_mapping => MAP['w', 'UPDATE_AFTER', 'x', 'DELETE'])"""
rows = st.tuples(st.sampled_from(["a", "b", None]), st.integers(0, 2))


class Sums:
    """The changes of SUMS, one row after the other."""

    def __init__(self) -> None:
        self.live: dict[Any, list[int]] = {}

    def shown(self, key: Any) -> Row | None:
        values = self.live.get(key, [])
        return (key, len(values), sum(values)) if len(values) > 1 else None

    def apply(self, change: Row) -> list[Row]:
        kind, key, value = change
        before = self.shown(key)
        values = self.live.setdefault(key, [])
        values.append(value) if kind in ("+I", "+U") else values.remove(value)
        after = self.shown(key)
        if before == after:
            return []
        if before is None or after is None:
            return [(WORDS[0], *(after or ()))] if before is None else [(WORDS[3], *before)]
        return [(WORDS[1], *before), (WORDS[2], *after)]


def feed(harness: al.Harness, batches: Sequence[Sequence[Row]]) -> list[Row]:
    """The changes that leave while batches come, each its own bundle."""
    emitted = list[Row]()
    for batch in batches:
        harness.process(batch, table="t")
        harness.flush()
        emitted += harness.changes()
    return emitted


@examples(8)
@given(batches=lawful_batches(rows, 14), data=st.data())
def test_a_log_has_the_changes_of_the_result_one_by_one(
    batches: list[list[Row]], data: st.DataObject
) -> None:
    model = Sums()
    wanted = [each for batch in batches for change in batch for each in model.apply(change)]
    half = data.draw(st.integers(0, len(batches)))
    parts = {"buckets": data.draw(st.integers(1, 3)), "backend": "python"}
    one_by_one = {**parts, "tables": TABLES, "mini_batch_enabled": False}
    with al.Harness.from_sql(LOG, **one_by_one) as harness:
        emitted = feed(harness, batches[:half])
        saved = harness.snapshot()
    with al.Harness.from_sql(LOG, **one_by_one) as harness:
        harness.restore(saved)
        emitted += feed(harness, batches[half:])
    assert {kind for kind, *_ in emitted} <= {"+I"}
    assert [(op, key, n, s) for _, key, op, n, s in emitted] == wanted


@examples(8)
@given(batches=lawful_batches(rows, 14), data=st.data())
def test_bundles_log_their_net_changes_and_a_log_is_the_table_again(
    batches: list[list[Row]], data: st.DataObject
) -> None:
    parts = {"buckets": data.draw(st.integers(1, 3)), "partitions": data.draw(st.integers(1, 2))}
    options = {**parts, "tables": TABLES, "backend": "python"}
    with al.Harness.from_sql(SUMS, **options) as harness:
        changes = feed(harness, batches)
    with al.Harness.from_sql(LOG, **options) as harness:
        log = [row[1:] for row in feed(harness, batches)]
    assert multiset((WORDS[KIND_NAMES.index(kind)], *row) for kind, *row in changes) == multiset(
        (op, key, *more) for key, op, *more in log
    )
    with al.Harness.from_sql(BACK, **options) as harness:
        again = feed(harness, batches)
        assert harness.table() == sorted(fold(again), key=lambda row: (row[0] is not None, row))
    assert multiset(fold(again)) == multiset(fold(changes))


CDC = """
    SELECT k, SUM(v) AS s FROM FROM_CHANGELOG(
        input => TABLE t, op => DESCRIPTOR(code),
        op_mapping => MAP['c, r', 'INSERT', 'ub', 'UPDATE_BEFORE', 'ua', 'UPDATE_AFTER', 'd', 'DELETE'],
        error_handling => 'SKIP')
    GROUP BY k"""
CODES = {"+I": ("c", "r"), "-U": ("ub",), "+U": ("ua",), "-D": ("d",)}


@examples(8)
@given(batches=lawful_batches(rows, 14), data=st.data())
def test_a_log_of_many_codes_becomes_changes(batches: list[list[Row]], data: st.DataObject) -> None:
    logs = [
        [
            ("+I", code, *row)
            for kind, *row in batch
            for code in (
                data.draw(st.sampled_from(["x", None, "INSERT"])),
                data.draw(st.sampled_from(CODES[kind])),
            )
        ]
        for batch in batches
    ]
    tables = {"t": "code STRING, k STRING, v INT"}
    options = {"tables": tables, "backend": "python", "input_changes": "append"}
    with al.Harness.from_sql(CDC, **options) as harness:
        feed(harness, logs)
        found = harness.table()
    sums: dict[Any, list[int]] = {}
    for kind, key, value in (change for batch in batches for change in batch):
        own = sums.setdefault(key, [])
        own.append(value) if kind in ("+I", "+U") else own.remove(value)
    assert multiset(found) == multiset((key, sum(own)) for key, own in sums.items() if own)


def emitted_of(sql: str, changes: Sequence[Row], **options: Any) -> list[Row]:
    """The changes that leave a query over t, each change its own bundle."""
    chosen = {"tables": TABLES, "backend": "python", **options}
    with al.Harness.from_sql(sql, **chosen) as harness:
        return feed(harness, [[change] for change in changes])


CHANGES = [("+I", "a", 1), ("+I", "a", 2), ("-D", "a", 1), ("-D", "a", 2)]
COUNTS = "SELECT k, COUNT(*) AS n FROM t GROUP BY k"


def test_kinds_left_out_of_the_mapping_are_dropped_and_several_have_one_code() -> None:
    sql = f"""SELECT code, n FROM TO_CHANGELOG(input => ({COUNTS}), op => DESCRIPTOR(code),
        op_mapping => MAP['INSERT, UPDATE_AFTER', 'put', 'DELETE', 'gone'])"""
    wanted = [("put", 1), ("put", 2), ("put", 1), ("gone", 1)]
    assert emitted_of(sql, CHANGES) == [("+I", *row) for row in wanted]


def test_columns_of_partition_by_come_first() -> None:
    tables = {"t": "x INT, k STRING, y INT, op STRING"}
    log = "SELECT * FROM TO_CHANGELOG(input => TABLE t PARTITION BY y, K, op => DESCRIPTOR(kind))"
    plan = plan_query(log, tables)
    assert plan.schema.names == ["y", "k", "kind", "x", "op"]
    back = "SELECT * FROM FROM_CHANGELOG(TABLE t PARTITION BY y)"
    assert plan_query(back, tables, input_changes="append").schema.names == ["y", "x", "k"]
    positions = "SELECT * FROM TO_CHANGELOG(TABLE t, DESCRIPTOR(kind), MAP('DELETE', 'd')) AS u"
    assert plan_query(positions, tables).schema.names[0] == "kind"


def test_what_stands_above_a_log_knows_that_it_only_grows() -> None:
    log = f"TO_CHANGELOG(input => ({COUNTS}))"
    plan = plan_query(f"SELECT op, COUNT(*) AS c, MAX(n) AS m FROM {log} GROUP BY op", TABLES)
    (node,) = (each for each in walk(plan.root) if isinstance(each, ToChangelog))
    assert node.appends_only and node.never_null == {"op"} and not node.unique_keys
    assert plan.root.changelog == ("I", "UB", "UA")
    text = al.explain(
        f"SELECT a.n, b.n AS m FROM {log} a JOIN {log} b ON a.op = b.op", tables=TABLES
    )
    assert "ToChangelog(op=[op], op_mapping=[INSERT=I, UPDATE_BEFORE=UB" in text
    assert " Join(" in text.splitlines()[2] and "changelogMode=[I]," in text.splitlines()[2]
    assert al.explain(f"SELECT * FROM {log}", tables=TABLES, format="svg").startswith("<svg")


def test_columns_that_nothing_reads_still_make_a_change() -> None:
    sql = f"SELECT op, COUNT(*) AS c FROM TO_CHANGELOG(input => ({COUNTS})) GROUP BY op"
    wanted = {("INSERT", 1), ("UPDATE_BEFORE", 2), ("UPDATE_AFTER", 2), ("DELETE", 1)}
    assert set(fold(emitted_of(sql, CHANGES))) == wanted
    # Of rows that are only added each is one change, whatever is read of it.
    plan = plan_query("SELECT op FROM TO_CHANGELOG(TABLE t)", TABLES, input_changes="append")
    (node,) = (each for each in walk(plan.root) if isinstance(each, ToChangelog))
    assert node.input.schema.names == ["k"]


def test_windows_ranks_and_patterns_read_logs() -> None:
    tables = {"t": "k STRING, v INT, ts TIMESTAMP"}
    last = "SELECT k, MAX(v) AS v, MAX(ts) AS ts FROM t GROUP BY k"
    log = f"TO_CHANGELOG(input => ({last}), op_mapping => MAP['INSERT, UPDATE_AFTER', 'p', 'DELETE', 'd'])"
    window = """SELECT window_start, op, COUNT(*) AS c FROM TABLE(TUMBLE(TABLE w, DESCRIPTOR(ts), INTERVAL '1' MINUTE))
        GROUP BY window_start, window_end, op"""
    plan = plan_query(f"CREATE VIEW w AS SELECT * FROM {log}; {window}", tables)
    assert plan.root.changelog == ("I",)
    pattern = """SELECT * FROM w MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES B.v AS v
        PATTERN (A B) DEFINE A AS op = 'p', B AS op = 'd')"""
    plan = plan_query(f"CREATE VIEW w AS SELECT * FROM {log}; {pattern}", tables)
    assert "over changes" not in al.explain(
        f"CREATE VIEW w AS SELECT * FROM {log}; {pattern}", tables=tables
    )
    numbered = f"""SELECT k, c FROM (SELECT k, COUNT(*) OVER (PARTITION BY k) AS c, ROW_NUMBER() OVER
        (PARTITION BY k ORDER BY v) AS r FROM {log}) WHERE r = 1"""
    over = "SELECT k, SUM(n) OVER (PARTITION BY k) AS s FROM t"
    assert plan_query(numbered, tables).schema.names == ["k", "c"]
    log = f"SELECT op, k, s FROM TO_CHANGELOG(input => ({over}))"
    changes = [("+I", "a", 1), ("+I", "a", 2)]
    found = emitted_of(log, changes, tables={"t": "k STRING, n INT"})
    assert multiset(found[1:]) == multiset(
        [("+I", "UPDATE_BEFORE", "a", 1), ("+I", "UPDATE_AFTER", "a", 3), ("+I", "INSERT", "a", 3)]
    )


UPSERTS = """SELECT k, v FROM FROM_CHANGELOG(input => TABLE t PARTITION BY k,
    op_mapping => MAP['c, r', 'INSERT', 'u', 'UPDATE_AFTER', 'd', 'DELETE'])"""
LOGGED = {"t": "op STRING, k STRING, v INT"}


def test_updates_without_the_row_before_are_completed_by_the_key() -> None:
    rows = [("c", "a", 1), ("u", "a", 2), ("r", "b", 3), ("d", "a", None), ("u", "b", 4)]
    changes = [("+I", *row) for row in rows]
    options = {"tables": LOGGED, "input_changes": "append"}
    assert emitted_of(UPSERTS, changes, **options) == [
        *(("+I", "a", 1), ("-U", "a", 1), ("+U", "a", 2)),
        *(("+I", "b", 3), ("-D", "a", 2), ("-U", "b", 3), ("+U", "b", 4)),
    ]
    # Where nobody reads the row before, upserts go on as they come.
    plan = plan_query(
        UPSERTS, LOGGED, input_changes="append", options=PlanOptions(update_before=False)
    )
    assert plan.root.changelog == ("I", "UA", "D")


def test_only_insertions_in_the_mapping_are_a_filter() -> None:
    sql = "SELECT k FROM FROM_CHANGELOG(TABLE t, op_mapping => MAP['c', 'INSERT'], error_handling => 'SKIP')"
    plan = plan_query(sql, LOGGED, input_changes="append")
    (node,) = (each for each in walk(plan.root) if isinstance(each, FromChangelog))
    assert node.appends_only and node.is_complete
    rows = [("+I", "c", "a", 1), ("+I", "d", "b", 1), ("+I", None, "c", 1)]
    assert emitted_of(sql, rows, tables=LOGGED, input_changes="append") == [("+I", "a")]


@pytest.mark.parametrize(("code", "shown"), [("z", "'z'"), (None, "NULL"), ("y" * 99, "'yyy")])
def test_an_unknown_operation_is_an_error_of_its_row(code: str | None, shown: str) -> None:
    with pytest.raises(UnknownChangeTypeError) as error:
        emitted_of(UPSERTS, [("+I", code, "a", 1)], tables=LOGGED, input_changes="append")
    message = str(error.value)
    assert f"the operation in column 'op' is {shown}" in message and len(message) < 240
    assert "known are 'c', 'r', 'u', 'd'; add it to op_mapping" in message


def test_steps_are_written_to_checkpoints_and_read() -> None:
    plan = plan_query(BACK, TABLES)
    nodes = [each for each in walk(plan.root) if isinstance(each, ToChangelog | FromChangelog)]
    assert len(nodes) == 2
    for node in nodes:
        assert step_data(step_from(step_data(bare(node)))) == step_data(bare(node))


def test_a_filter_that_spark_evaluates_is_marked_below_a_log_alone() -> None:
    plan = plan_query(f"SELECT * FROM ({LOG}) WHERE n > 2", TABLES)
    shows = [each.shows for each in walk(plan.root) if isinstance(each, Calc) and each.where]
    assert shows == [True, False]
    timed = "SELECT k, MAX(ts) AS ts FROM t GROUP BY k HAVING COUNT(*) > 1"
    window = f"TABLE(TUMBLE(({timed}), DESCRIPTOR(ts), INTERVAL '1' MINUTE))"
    log = f"SELECT op FROM TO_CHANGELOG(input => (SELECT * FROM {window} WHERE k <> 'x'))"
    plan = plan_query(log, {"t": "k STRING, ts TIMESTAMP"})
    shows = [each.shows for each in walk(plan.root) if isinstance(each, Calc) and each.where]
    assert shows == [True, True]


REFUSED = [
    ("TO_CHANGELOG(TABLE u)", "has a column 'op' already; name .* op => DESCRIPTOR"),
    ("TO_CHANGELOG(op => DESCRIPTOR(c))", "needs a table; write input => TABLE"),
    ("TO_CHANGELOG(TABLE t, op => DESCRIPTOR(a, b))", "needs one column as op"),
    ("TO_CHANGELOG(TABLE t, op => 'c')", "needs one column as op"),
    (
        "TO_CHANGELOG(TABLE t, op_mapping => MAP['UPSERT', 'u'])",
        "no kind of row 'UPSERT' in its op_mapping; known are INSERT",
    ),
    ("TO_CHANGELOG(TABLE t, op_mapping => MAP['INSERT', 'a', 'INSERT', 'b'])", "maps INSERT twice"),
    ("TO_CHANGELOG(TABLE t, op_mapping => MAP['INSERT'])", "needs texts in pairs as op_mapping"),
    ("TO_CHANGELOG(TABLE t, op_mapping => MAP['INSERT', k])", "needs texts in pairs"),
    ("TO_CHANGELOG(TABLE t, mapping => 'x')", "no argument 'mapping': Did you mean 'op_mapping'"),
    ("TO_CHANGELOG(TABLE t, op => DESCRIPTOR(a), op => DESCRIPTOR(b))", "has op twice"),
    ("TO_CHANGELOG(TABLE t, produces_full_deletes => FALSE)", "other than TRUE is not supported"),
    ("TO_CHANGELOG(TABLE t PARTITION BY z)", "no column 'z'"),
    ("FROM_CHANGELOG(TABLE t)", "no column 'op'"),
    ("FROM_CHANGELOG(TABLE t, DESCRIPTOR(v))", "op column 'v' is INT; it holds texts"),
    (
        "FROM_CHANGELOG(TABLE r, DESCRIPTOR(k))",
        "needs a table that only grows.* declare it append-only",
    ),
    ("FROM_CHANGELOG(TABLE t PARTITION BY k, DESCRIPTOR(k))", "op column 'k' in PARTITION BY"),
    ("FROM_CHANGELOG(TABLE t, DESCRIPTOR(k), MAP['c', 'UPSERT'])", "no kind of row 'UPSERT'"),
    (
        "FROM_CHANGELOG(TABLE t, DESCRIPTOR(k), MAP['c, d', 'INSERT', 'd', 'DELETE'])",
        "code 'd' twice",
    ),
    (
        "FROM_CHANGELOG(TABLE t, DESCRIPTOR(k), MAP['u', 'UPDATE_AFTER'])",
        "PARTITION BY and its col",
    ),
    (
        "FROM_CHANGELOG(TABLE t, DESCRIPTOR(k), MAP['b', 'UPDATE_BEFORE'])",
        "nothing to UPDATE_AFTER",
    ),
    ("FROM_CHANGELOG(TABLE t, DESCRIPTOR(k), error_handling => 'LOG')", "needs 'FAIL' or 'SKIP'"),
]


@pytest.mark.parametrize(("call", "message"), REFUSED)
def test_a_wrong_call_is_refused_with_its_place(call: str, message: str) -> None:
    tables = {**TABLES, "u": "OP INT", "r": "k STRING"}
    changes = {"t": "append", "u": "append", "r": "retract"}
    with pytest.raises(SpecError, match=f"(?s){message}.*At line 1") as error:
        plan_query(f"SELECT * FROM {call}", tables, input_changes=changes)
    assert len(str(error.value).splitlines()[0]) < 220
