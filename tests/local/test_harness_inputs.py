"""Wrong inputs of the harness are typed errors that name them; and a handler that is given is used."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import aggloom as al
from aggloom.errors import AggloomError, DataError, OptionError, SpecError, SqlError
from aggloom.runtime.operators.group_aggregate import GroupAggOperator

DDL = "k STRING, v INT"
SPEC = al.AggSpec(DDL, ("k",), (al.AggCall("SUM", "v", alias="s"),))
OTHER = al.AggSpec(DDL, ("k",), (al.AggCall("MAX", "v", alias="m"),))
SQL = "SELECT k, SUM(v) AS s FROM t GROUP BY k"


@pytest.mark.parametrize("name", ["buckets", "partitions"])
@pytest.mark.parametrize("parts", [0, -1, "8", None, 1.5, True])
def test_parts_are_at_least_one(name: str, parts: Any) -> None:
    makers: list[Callable[..., Any]] = [
        lambda **given: al.Harness(SPEC, backend="python", **given),
        lambda **given: al.Harness.from_sql(SQL, {"t": DDL}, backend="python", **given),
    ]
    for make in makers:
        with pytest.raises(OptionError, match=f"{name}={parts!r}: .* at least 1"):
            make(**{name: parts})


@pytest.mark.parametrize("text", [None, 7, b"SELECT 1"])
def test_sql_is_a_text(text: Any) -> None:
    kind = type(text).__name__
    with pytest.raises(SqlError, match=f"the SQL is a {kind}"):
        al.Harness.from_sql(text, {"t": DDL})
    with pytest.raises(SqlError, match=f"the SQL is a {kind}"):
        al.AggSpec.from_sql(text, DDL)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([None], "row 0 is None"),
        ([("+I", "a", 1), {"k": "a"}], "row 1 is {'k': 'a'}"),
        ([()], r"row 0 is \(\)"),
        ([(1, "a", 1)], r"row 0 is \(1, 'a', 1\)"),
        (["+I"], "row 0 is '[+]I'"),
        (None, "rows is a NoneType"),
        ("rows", "rows is a str"),
        ([(None, "a", 1)], "unknown change type NULL"),
        ([("+I", "a")], "row 0 has 1 values, the schema has 2"),
    ],
)
def test_rows_are_kinds_with_values(rows: Any, message: str) -> None:
    with al.Harness(SPEC, backend="python") as t:
        with pytest.raises(AggloomError, match=message):
            t.process(rows)
        t.process([("+I", "a", 1)])
        t.flush()
        assert t.table() == [("a", 1)]


def test_a_batch_has_a_kind_for_each_row() -> None:
    batch = pa.RecordBatch.from_pydict({"k": ["a"], "v": pa.array([1], pa.int32())})
    with (
        al.Harness(SPEC, backend="python") as t,
        pytest.raises(DataError, match="1 rows with 2 kinds"),
    ):
        t.process(batch, np.zeros(2, np.int8))


def test_a_handler_that_is_given_is_used(tmp_path: Path) -> None:
    source = al.generate(SPEC, "python", tmp_path, "given")
    handler = al.load(source)
    for given in (handler, source.path):
        with al.Harness(SPEC, handler=given) as t:
            assert source.path == t.handler.SOURCE_PATH
            t.process([("+I", "a", 3)])
            t.flush()
            assert t.table() == [("a", 3)]


def test_a_handler_of_another_spec_is_refused() -> None:
    handler = al.load(al.generate(SPEC, "python"))
    with pytest.raises(SpecError, match="generated from another spec"):
        al.Harness(OTHER, handler=handler)
    with pytest.raises(SpecError, match="is a handler already"):
        al.Harness(handler, handler=handler)
    with pytest.raises(SpecError, match="no generated handler class"):
        al.Harness(SPEC, handler=int)


N, C = pa.array(["a"]), pa.array([1], pa.int32())
WHOLE = {"k": N, "v": C}


@pytest.mark.parametrize(
    ("given", "kinds", "rows"),
    [
        (WHOLE, None, [("a", 1)]),
        ({"v": C, "k": N}, None, [("a", 1)]),
        ({"K": N, "more": N, "V": pa.array([1])}, None, [("a", 1)]),
        ({"k": N.dictionary_encode(), "v": C, "K": C}, None, [("a", 1)]),
        (WHOLE | {"op": ["-D"]}, None, []),
        (WHOLE | {"OP": ["delete"]}, None, []),
        (WHOLE, [3], []),
        (WHOLE, ["+I"], [("a", 1)]),
        (WHOLE | {"v": pa.nulls(1)}, None, [("a", None)]),
    ],
)
@pytest.mark.parametrize("form", [pa.table, pa.RecordBatch.from_pydict, "pandas"])
def test_tables_go_by_names(form: Any, given: Any, kinds: Any, rows: Any) -> None:
    made = pa.table(given).to_pandas(integer_object_nulls=True) if form == "pandas" else form(given)
    with al.Harness(SPEC, backend="python") as t:
        t.process(made, kinds)
        t.flush()
        assert t.table() == rows


@pytest.mark.parametrize(
    ("given", "kinds", "message"),
    [
        ({"k": N}, None, "there is no column 'v'"),
        ({"k": N, "w": C}, None, "there is no column 'v'. Known: 'k', 'w'"),
        ({"k": N, "V": C, "v ": C}, [0, 0], "1 rows with 2 kinds"),
        ({"K": N, "k": N, "v": C}, [9], "kind 9; kinds are 0 to 3"),
        (WHOLE, [-1], "kind -1"),
        (WHOLE, [0.5], "kind 0.5"),
        (WHOLE, [None], "kind None"),
        (WHOLE, ["+X"], "unknown change type '[+]X'"),
        (WHOLE | {"op": [None]}, None, "not STRING|unknown change type NULL"),
        (WHOLE | {"op": ["+I"]}, [0], "kinds are given, and in column 'op'"),
        (WHOLE | {"op": ["+I"], "_change_type": ["insert"]}, None, "both '_change_type' and 'op'"),
        (WHOLE | {"__op": ["d"]}, None, "'__op' marks what became of a row"),
        ({"K": N, "k ": N, "V": C, "v ": C, "vV": C}, [1.0], "kind 1.0"),
        ({"k": N, "v": pa.array([1.5])}, None, "'v' is INT, not double"),
        ({"k": N, "v": N}, None, "'v' is INT, not string"),
        ({"k": C, "v": C}, None, "'k' is STRING, not int32"),
        ({"k": N, "v": pa.array([1 << 40])}, None, "'v' is INT, and not all of it fits"),
    ],
)
def test_tables_that_are_not_the_schemas(given: Any, kinds: Any, message: str) -> None:
    with al.Harness(SPEC, backend="python") as t:
        with pytest.raises(AggloomError, match=message):
            t.process(pa.table(given), kinds)
        assert not t.table()


def test_a_column_twice_and_a_number_with_a_fraction() -> None:
    twice = pa.RecordBatch.from_arrays([N, C, C], names=["k", "v", "v"])
    with al.Harness(SPEC, backend="python") as t:
        with pytest.raises(DataError, match="'v' is there twice"):
            t.process(twice)
        with pytest.raises(AggloomError, match=r"column 'v' is INT: 1.5 is no whole number"):
            t.process([("+I", "a", 1.5)])
        with pytest.raises(DataError, match="kinds go with Arrow's rows"):
            t.process([("+I", "a", 1)], [0])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"watermarks": {"x": ("ts", "1 s")}}, "watermarks names table 'x', which is not given"),
        ({"watermarks": {"t": ("ts", "soon")}}, "'soon'"),
        ({"watermarks": {"t": ("ts", "-1 s")}}, "-1 s"),
        ({"watermarks": {"t": ("k", "1 s")}}, "'k', which is STRING, and no TIMESTAMP"),
        ({"watermarks": {"t": 3}}, "'t' is 3; give the column"),
        ({"watermarks": ["t"]}, "watermarks is .*name the table"),
        ({"dialect": "oracle"}, "dialect is 'oracle'"),
    ],
)
def test_what_a_plan_may_not_be_given(given: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        al.explain("SELECT k FROM t", tables={"t": "k STRING, ts TIMESTAMP"}, **given)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"database": "("}, "database is '\\(', which is no pattern"),
        ({"key_separator": 3}, "key_separator is 3"),
        ({"keys": "k"}, "no option 'keys' in a harness"),
    ],
)
def test_options_of_formats_in_a_harness(given: dict[str, Any], message: str) -> None:
    with al.Harness(SPEC, backend="python") as t, pytest.raises(SpecError, match=message):
        t.read(__file__, "canal-json", **given)


def test_an_operator_finds_its_columns_by_name() -> None:
    """A filter is a computed column, which the operator does not compute."""
    filtered = al.AggSpec(DDL, ("k",), (al.AggCall("SUM", "v", filter="v > 1", alias="s"),))
    kinds = np.zeros(2, np.int8)
    rows = pa.record_batch({"v": pa.array([1, 2], pa.int32()), "k": ["a", "a"]})
    operator = GroupAggOperator(al.Harness(filtered, backend="python").handler)
    with pytest.raises(DataError, match="GROUP BY k: the rows have no column 'v > 1'"):
        operator.process(rows, kinds)
    computed = rows.append_column("v > 1", pa.array([False, True]))
    assert operator.process(computed, kinds)[0].to_pylist() == [{"k": "a", "s": 2}]
    plain = GroupAggOperator(al.Harness(SPEC, backend="python").handler)
    assert plain.process(rows, kinds)[0].to_pylist() == [{"k": "a", "s": 3}]


def test_a_restored_harness_says_which_rows_it_does_not_have() -> None:
    harness = al.Harness.from_sql("SELECT v + 1 AS w FROM t", {"t": DDL})
    harness.process([("+I", "a", 1)])
    harness.restore(harness.snapshot())
    harness.process([("-D", "a", 1)])
    harness.flush()
    assert harness.changes() == [("-D", 2)]
    with pytest.raises(DataError, match=r"-D of a row that is not there.* was restored"):
        harness.table()


@pytest.mark.parametrize("days", [-800_000, 3_000_000])
def test_a_date_outside_of_pythons_years_names_its_column(days: int) -> None:
    query = "SELECT MAX(DATE_FROM_UNIX_DATE(v)) AS d FROM t"
    harness = al.Harness.from_sql(query, {"t": DDL})
    harness.process([("+I", "a", days)])
    with pytest.raises(DataError, match="column 'd': a time lies outside the years 1 to 9999"):
        harness.flush()
