"""Normalise beside a plain model and DuckDB: upserts in, whole changes out, filters and keys of every kind."""

from __future__ import annotations

from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import examples

from aggloom import Harness, explain
from aggloom.codegen.planner import plan_query
from aggloom.codegen.spec.primary_key import without_primary_key
from aggloom.errors import OptionError, SpecError
from aggloom.runtime.operators.normalise import NormaliseOperator
from aggloom.runtime.values.changelog import KIND_NAMES, fold, parse_kinds
from aggloom.runtime.values.clock import Clock

ROWS = pa.schema([("id", pa.int32()), ("a", pa.string()), ("v", pa.float64())])
DDL = "id INT, a STRING, v DOUBLE, PRIMARY KEY (id) NOT ENFORCED"
Row = tuple[Any, ...]

upserts = st.tuples(
    st.sampled_from(["+I", "+U"]),
    st.sampled_from([None, 1, 2, 3]),
    st.sampled_from([None, "", "x", "z" * 40]),
    st.sampled_from([None, 0.0, -0.0, float("nan"), 1.5]),
)
deletions = st.tuples(
    st.sampled_from(["-D", "-U"]), st.sampled_from([None, 1, 2, 3]), st.none(), st.none()
)
bundles_of = st.lists(st.lists(st.one_of(upserts, deletions), max_size=8), max_size=6)


def identity(row: Row) -> tuple[str, ...]:
    """Return a value that equal rows share: NaN is NaN, -0.0 is 0.0."""
    return tuple(repr(0.0 if value == 0.0 and isinstance(value, float) else value) for value in row)


class Model:
    """The row of each key in a dict."""

    def __init__(self, update_before: bool, passes: Any = lambda row: True, ttl: int = 0) -> None:
        self.update_before, self.passes, self.ttl = update_before, passes, ttl
        self.rows: dict[Any, Row] = {}

    def told(self, old: Row | None, new: Row | None) -> list[Row]:
        if new is None:
            return [] if old is None else [("-D", *old)]
        if old is None:
            return [("+I", *new)]
        if identity(old) == identity(new) and not self.ttl:
            return []
        return [("-U", *old)] * self.update_before + [("+U", *new)]

    def take(self, changes: list[Row], per_record: bool) -> list[Row]:
        before, found, order = dict(self.rows), [], {}
        for place, (kind, *row) in enumerate(changes):
            key, old = row[0], self.rows.get(row[0])
            new = tuple(row) if kind in ("+I", "+U") and self.passes(row) else None
            found += self.told(old, new)
            if new is None:
                self.rows.pop(key, None)
            else:
                self.rows[key] = new
            order[key] = place
        if per_record:
            return found
        touched = sorted(order, key=order.__getitem__)
        return [m for key in touched for m in self.told(before.get(key), self.rows.get(key))]


def bundle(changes: list[Row], schema: pa.Schema = ROWS) -> tuple[pa.RecordBatch, Any]:
    columns = list(zip(*changes, strict=True))[1:] if changes else [[] for _ in schema]
    arrays = [pa.array(list(c), f.type) for c, f in zip(columns, schema, strict=True)]
    kinds = parse_kinds(pa.array([c[0] for c in changes], pa.string()), "t")
    return pa.RecordBatch.from_arrays(arrays, schema=schema), kinds


def messages(changes: tuple[pa.RecordBatch, Any]) -> list[Row]:
    rows = changes[0].to_pylist()
    return [(KIND_NAMES[k], *r.values()) for k, r in zip(changes[1], rows, strict=True)]


@pytest.mark.parametrize("per_record", [False, True])
@pytest.mark.parametrize("update_before", [False, True])
@pytest.mark.parametrize("filtered", [False, True])
@examples(20)
@given(bundles=bundles_of, restart=st.integers(0, 5))
def test_bundles_beside_the_model(
    per_record: bool, update_before: bool, filtered: bool, bundles: list[list[Row]], restart: int
) -> None:
    def passes(row: Any) -> bool:
        return not filtered or row[1] == "x"

    def made() -> NormaliseOperator:
        return NormaliseOperator(
            ROWS, 1, filtered=filtered, update_before=update_before, per_record=per_record
        )

    model, operator = Model(update_before, passes), made()
    for number, changes in enumerate(bundles):
        if number == restart:
            data, operator = operator.snapshot(), made()
            operator.restore(data)
        rows, kinds = bundle(changes)
        if filtered:
            flags = pa.array([None if c[2] is None else c[2] == "x" for c in changes], pa.bool_())
            rows = rows.append_column("passes", flags)
        got = messages(operator.process(rows, kinds))
        assert list(map(identity, got)) == list(map(identity, model.take(changes, per_record)))
    assert operator.keys == len(model.rows)
    kept = sorted(identity(row[1:]) for row in messages(operator.contents()))
    assert kept == sorted(map(identity, model.rows.values()))


def test_equal_rows_are_told_again_only_with_a_time_to_live() -> None:
    operator = NormaliseOperator(ROWS, 1, state_ttl_ms=10)
    row = ("+I", 1, "x", 1.5)
    assert messages(operator.process(*bundle([row]), Clock(0))) == [row]
    again = messages(operator.process(*bundle([row]), Clock(5)))
    assert again == [("-U", *row[1:]), ("+U", *row[1:])]
    assert messages(operator.process(*bundle([("-D", 1, None, None)]), Clock(15))) == []
    assert (operator.counters["expired"], operator.counters["orphans_dropped"]) == (1, 1)


def test_deleted_keys_give_their_room_back() -> None:
    operator = NormaliseOperator(ROWS, 1)
    operator.process(*bundle([("+I", n, f"text {n}", 1.0) for n in range(5_000)]))
    full = operator.state_bytes
    gone = operator.process(*bundle([("-D", n, None, None) for n in range(4_999)]))
    assert messages(gone)[7] == ("-D", 7, "text 7", 1.0)
    assert operator.state_bytes < full / 20
    assert messages(operator.contents()) == [("+I", 4_999, "text 4999", 1.0)]


@pytest.mark.parametrize("mini_batch", [False, True])
@examples(10)
@given(bundles=bundles_of, buckets=st.integers(1, 4), restart=st.integers(0, 5))
def test_sql_over_upserts_beside_duckdb(
    mini_batch: bool, bundles: list[list[Row]], buckets: int, restart: int
) -> None:
    query = "SELECT a, COUNT(*) AS n, COUNT(v) AS m, MIN(id) AS low FROM t WHERE id < 3 OR a = 'x' GROUP BY a"

    def made() -> Harness:
        return Harness.from_sql(
            query,
            {"t": DDL},
            input_changes="upsert",
            buckets=buckets,
            partitions=1,
            mini_batch_enabled=mini_batch,
            backend="python",
        )

    harness, held, told = made(), {}, []
    for number, changes in enumerate(bundles):
        if number == restart:
            data = harness.snapshot()
            harness.close()
            harness = made()
            harness.restore(data)
        harness.process(changes)
        harness.flush()
        told += harness.changes()
        for kind, *row in changes:
            held.pop(row[0], None)
            if kind in ("+I", "+U"):
                held[row[0]] = row
        db = duckdb.connect()
        db.execute("CREATE TABLE t (id INT, a VARCHAR, v DOUBLE)")
        if held:
            db.executemany("INSERT INTO t VALUES (?, ?, ?)", list(held.values()))
        wanted = db.execute(query).fetchall()
        assert sorted(fold([tuple(c) for c in told]), key=repr) == sorted(wanted, key=repr)
    harness.close()


def test_it_is_left_out_where_the_result_takes_upserts_as_they_come() -> None:
    kept = plan_query("SELECT a, id FROM t", {"t": DDL}, input_changes="upsert")
    assert kept.root.changelog == ("I", "UB", "UA", "D") and kept.key == ("id",)
    query = "SET 'update_before' = 'false'; SELECT {} FROM t"
    text = explain(query.format("a, id"), DDL, input_changes="upsert")
    assert "ChangelogNormalize" not in text
    # Without its key a row cannot be told from others, and a filter has to know the row before.
    assert "ChangelogNormalize" in explain(query.format("a"), DDL, input_changes="upsert")
    filtered = explain(query.format("a, id") + " WHERE v > 1", DDL, input_changes="upsert")
    assert "ChangelogNormalize(key=[id], condition=[`v` > 1]" in filtered
    assert "its filter must know whether the previous row passed" in filtered


def test_explain_says_why_it_is_there_and_what_it_costs() -> None:
    text = explain("SELECT a, id FROM t", DDL, input_changes="upsert")
    assert "ChangelogNormalize(key=[id], changelogMode=[I,UB,UA,D]" in text
    assert "state bounded by the number of keys: 57 bytes a key" in text
    assert "normalise fired: the result has the previous row; with update_before=false" in text


def test_upserts_as_they_come() -> None:
    with Harness.from_sql(
        "SELECT id, a FROM t", {"t": DDL}, input_changes="upsert", update_before=False
    ) as t:
        t.process([("+I", 1, "x", None), ("+U", 1, "y", None), ("-D", 1, None, None)])
        t.flush()
        assert t.changes() == [("+I", 1, "x"), ("+U", 1, "y"), ("-D", 1, None)]


def test_a_key_makes_results_unique() -> None:
    sql = "SELECT id AS k, a FROM t WHERE v > 1"
    for changes in ("append", "retract", "upsert"):
        assert plan_query(sql, {"t": DDL}, input_changes=changes).key == ("k",)
    given_ = plan_query(
        sql, {"t": "id INT, a STRING, v DOUBLE"}, input_changes="append", keys={"t": "ID"}
    )
    assert given_.key == ("k",)


@pytest.mark.parametrize(
    ("text", "rest", "key"),
    [
        ("id INT, a STRING", "id INT, a STRING", ()),
        ("id INT, a STRING, PRIMARY KEY (id) NOT ENFORCED", "id INT, a STRING", ("id",)),
        ("id INT PRIMARY KEY NOT ENFORCED, a STRING", "id INT, a STRING", ("id",)),
        ("PRIMARY KEY (a, id) NOT ENFORCED, id INT, a STRING", " id INT, a STRING", ("a", "id")),
        ("`primary key` INT, b DECIMAL(3, 1) primary key not enforced", None, ("b",)),
        ("`a, b` INT, CONSTRAINT k PRIMARY KEY (`a, b`) NOT ENFORCED", "`a, b` INT", ("a, b",)),
    ],
)
def test_keys_in_ddl(text: str, rest: str | None, key: tuple[str, ...]) -> None:
    found = without_primary_key(text)
    assert found[1] == key
    assert rest is None or found[0] == rest


@pytest.mark.parametrize(
    ("ddl", "asked", "match"),
    [
        ("id INT", {"input_changes": "upsert"}, "table t: upserts need a key"),
        ("id INT, PRIMARY KEY (id)", {}, "nothing here enforces a key"),
        ("id INT, PRIMARY KEY NOT ENFORCED", {}, "PRIMARY KEY names no columns"),
        (
            "id INT, PRIMARY KEY (ib) NOT ENFORCED",
            {},
            "its key names column 'ib'. Known: 'id'",
        ),
        ("id INT", {"keys": {"t": ["id", "id"]}}, "names a column twice"),
        ("id INT", {"keys": {"t": []}}, "its key names no column"),
        ("id INT", {"keys": {"s": "id"}}, "keys names table 's'"),
        ("id INT", {"input_changes": "upserts"}, "Did you mean 'upsert'"),
    ],
)
def test_keys_that_cannot_be(ddl: str, asked: dict[str, Any], match: str) -> None:
    with pytest.raises((SpecError, OptionError), match=match):
        plan_query("SELECT id FROM t", {"t": ddl}, **asked)


@pytest.mark.spark
def test_a_stream_of_upserts_on_spark(spark: Any, tmp_path: Any) -> None:
    import aggloom as al

    ddl = "id INT, a STRING, v DOUBLE, _change_type STRING"
    source, held = tmp_path / "in", {}
    for number in range(3):
        rows: list[Row] = [
            (n, f"a{(n + number) % 5}", float(n), "update_postimage") for n in range(40)
        ]
        rows += [(n, None, None, "delete") for n in range(number * 5)]
        for id_, a, _, kind in rows:
            held.pop(id_, None)
            if kind != "delete":
                held[id_] = a
        spark.createDataFrame(rows, ddl).coalesce(1).write.mode("append").parquet(str(source))
        t = spark.readStream.schema(ddl).parquet(str(source))
        query = "SELECT a, COUNT(*) AS n FROM t WHERE v < 30 GROUP BY a"
        out = al.sql(query, t=t, input_changes={"t": "upsert"}, keys={"t": "id"}, buckets=3)
        al.await_end(al.write_changes(out, "table", tmp_path / "state"))
    table = {row["a"]: row["n"] for row in al.read_table(tmp_path / "state").to_pylist()}
    kept = [a for id_, a in held.items() if id_ < 30]
    assert table == {a: kept.count(a) for a in set(kept)}


def test_tables_of_a_job_say_their_keys() -> None:
    from aggloom.tables import read_table_option

    table = read_table_option(
        "t=in,format=debezium-json,schema=id INT, a STRING,keys=id,changes=upsert"
    )
    assert (table.keys, table.changes, table.reader_options) == (
        ("id",),
        "upsert",
        {"keys": ("id",)},
    )
    declared = read_table_option(
        "t=in,format=jsonl,schema=id INT PRIMARY KEY NOT ENFORCED, a STRING"
    )
    assert (declared.keys, declared.columns()) == (("id",), "id INT, a STRING")
    with pytest.raises(SpecError, match="changes is 'upserts'"):
        read_table_option("t=in,format=jsonl,schema=id INT,changes=upserts")


@pytest.mark.spark
def test_debezium_without_the_rows_before(spark: Any, tmp_path: Any) -> None:
    import json

    import aggloom as al

    def envelope(op: str, before: Any, after: Any) -> str:
        return json.dumps({"op": op, "before": before, "after": after})

    folder = tmp_path / "in"
    folder.mkdir()
    lines = [
        envelope("c", None, {"id": 1, "a": "x", "v": 5}),
        envelope("r", None, {"id": 2, "a": "x", "v": 1}),
        envelope("u", None, {"id": 1, "a": "y", "v": 2}),
        envelope("d", {"id": 2}, None),
        "null",
    ]
    (folder / "1.json").write_text("\n".join(lines))
    ddl = "id INT, a STRING, v INT"
    t = al.read_changes(spark, folder, "debezium-json", ddl, streaming=False, keys="id")
    assert [row._change_type for row in t.collect()] == [
        *("update_postimage", "update_postimage", "update_postimage", "delete"),
    ]
    query = "SELECT a, SUM(v) AS s FROM t GROUP BY a"
    out = al.sql(query, t=t, input_changes="upsert", keys={"t": "id"}, buckets=2)
    assert {(row.a, row.s) for row in out.collect()} == {("y", 2)}
    once = al.deduplicate(t, "id", input_changes="upsert")
    assert [tuple(row) for row in once.collect()] == [(1, "y", 2, "insert")]
    (folder / "2.json").write_text(envelope("d", {"a": "x"}, None))
    bad = al.read_changes(spark, folder, "debezium-json", ddl, streaming=False, keys="id")
    with pytest.raises(Exception, match="a deletion has to have the columns in keys"):
        bad.collect()
