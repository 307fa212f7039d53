"""Scalar expressions as generated Arrow calls: the text, its errors, lazy branches, two inputs, hostile names."""

from __future__ import annotations

import ast
import itertools
import pickle
from decimal import Decimal
from pathlib import Path
from typing import Any

import black
import numpy as np
import pyarrow as pa
import pytest
from scalar_oracle import lowered
from writers import coverage, expressions, spark_alone
from writers.sample_table import sample_table

from aggloom import Harness
from aggloom.codegen import LoweredCalc, lower_calc
from aggloom.codegen.scalar.calc import calculate
from aggloom.codegen.scalar.dialect import ScalarSpark
from aggloom.codegen.scalar.expressions import parse_scalar
from aggloom.codegen.scalar.functions import BY_NODE, FAMILIES
from aggloom.codegen.scalar.module import format_module, load_module, lower, module_text
from aggloom.errors import (
    ArithmeticOverflowError,
    DivisionByZeroError,
    InvalidCastError,
    RaisedError,
    UnknownColumnError,
    UnsupportedExpressionError,
)
from aggloom.runtime.operators.stateless import run_steps

PAGE = Path(__file__).parents[2] / "docs" / "expressions.md"
SAMPLES = sample_table()
ROWS = {"rows": SAMPLES.schema}
HOSTILE = 'a"]); import os; (["\n'


def text_of(sql: str) -> str:
    return lower(sql, ROWS).text


@pytest.mark.parametrize(
    ("sql", "text"),
    [
        ("i > l", 'pc.greater(pc.cast(rows["i"], pa.int64()), rows["l"])'),
        ("f > g", 'scalar.greater(rows["f"], rows["g"])'),
        ("p AND NOT q", 'pc.and_kleene(rows["p"], pc.invert(rows["q"]))'),
        ("s = 'abc'", 'pc.equal(rows["s"], pa.scalar("abc"))'),
        ("i IN (1, 2)", 'scalar.is_in(rows["i"], pa.array([1, 2], pa.int32()))'),
        ("l + 1", 'scalar.add(rows["l"], pa.scalar(1), "l + 1")'),
        ("d > '2020-01-01'", 'pc.greater(rows["d"], pa.scalar("2020-01-01").cast(pa.date32()))'),
    ],
)
def test_text_reads_like_pyarrow(sql: str, text: str) -> None:
    assert text_of(sql) == text


def test_module_is_stable_under_black_and_names_what_it_computes() -> None:
    schema = pa.schema([("x", pa.int64()), ("half", pa.float64())])
    raw = module_text("i > 0", [("x", "l + 1"), ("half", "f / 2")], schema, ROWS)
    text = format_module(raw)
    assert ast.dump(ast.parse(text)) == ast.dump(ast.parse(raw))
    assert black.format_str(text, mode=black.Mode(line_length=100)) == text
    functions = [node.name for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)]
    assert functions == ["where", "select"]
    assert "# i > 0" in text and "# l + 1" in text
    module = load_module(text)
    assert module.where(SAMPLES).to_pylist() == [True, False, False, True, False, True, True, False]
    assert module.select(SAMPLES).schema == schema
    assert lower("l + i", ROWS).columns == {("rows", "l"), ("rows", "i")}


@pytest.mark.parametrize(
    ("days", "text"),
    [
        (2_932_896, "9999-12-31"),
        (2_932_897, "+10000-01-01"),
        (7_932_896, "+23689-07-13"),
        (-719_163, "0000-12-31"),
        (-719_662, "-0001-08-20"),
    ],
)
def test_the_text_of_a_far_date_is_that_of_spark(days: int, text: str) -> None:
    for rows, day in ({"n": [days]}, "date_from_unix_date(n)"), (
        {"n": [1]},
        f"DATE '1970-01-01' + {days}",
    ):
        batch = pa.record_batch({name: pa.array(n, pa.int32()) for name, n in rows.items()})
        for sql, form in (
            (f"CAST({day} AS STRING)", "{}"),
            (f"CAST(CAST({day} AS TIMESTAMP_NTZ) AS STRING)", "{} 00:00:00"),
            (f"CAST(ARRAY({day}) AS STRING)", "[{}]"),
        ):
            schema = pa.schema([("x", pa.string())])
            module = load_module(module_text(None, [("x", sql)], schema, {"rows": batch.schema}))
            assert module.select(batch).to_pydict() == {"x": [form.format(text)]}, sql


def test_condition_of_a_join_reads_two_inputs() -> None:
    left = pa.record_batch({"k": [1, 2, None], "price": [5, 6, 7]})
    right = pa.record_batch({"k": [1, 3, None], "low": [4, 9, 1]})
    inputs = {"left": left.schema, "right": right.schema}
    sql = "left.k = right.k AND price > low AND 10 DIV (price - 5 + left.k) > 0"
    text = module_text(sql, [("low", "low")], pa.schema([("low", pa.int64())]), inputs)
    assert 'pc.greater(left["price"], right["low"])' in text
    module = load_module(text)
    assert module.where(left, right).to_pylist() == [True, False, False]
    assert module.select(left, right).to_pydict() == {"low": [4, 9, 1]}
    with pytest.raises(UnknownColumnError, match=r"left and in right.*left\.k or right\.k"):
        lower("k = 1", inputs)
    with pytest.raises(UnknownColumnError, match=r"'prise'.*'price'"):
        lower("prise = 1", inputs)


@pytest.mark.parametrize("name", [HOSTILE, "'", "{0}", "\\", "ß\u2028"])
def test_no_name_leaves_its_quotes(name: str) -> None:
    batch = pa.record_batch({name: pa.array([1, 2], pa.int32())})
    column = "`" + name.replace("`", "``") + "`"
    out, _ = calculate(
        f"{column} > 1",
        [(name, f"{column} + 1"), ("t", "'{x}' || '\"); import os'")],
        pa.schema([(name, pa.int32()), ("t", pa.string())]),
        batch,
        np.zeros(2, np.int8),
    )
    assert out.to_pydict() == {name: [3], "t": ['{x}"); import os']}


@pytest.mark.parametrize(
    ("sql", "error", "message"),
    [
        ("i + 2147483647", ArithmeticOverflowError, r"i \+ 2147483647: at 1, 2147483647: overflow"),
        ("CAST(i AS TINYINT)", InvalidCastError, r"CAST\(i AS TINYINT\): at 2000000: .*int8"),
        ("l % i", DivisionByZeroError, "l % i: at 9, 0: division by zero"),
        ("m / 0", DivisionByZeroError, r"m / 0: at 1.25, 0: division by zero"),
        ("f / (i - i)", DivisionByZeroError, r"at 1.5, 0.0"),
        ("CAST(s AS INT)", InvalidCastError, r"CAST\(s AS INT\): at 'abc'"),
        ("CAST(s AS DATE)", InvalidCastError, "at 'abc': the text is no date32"),
        ("CAST('1e400' AS DECIMAL(9,2))", InvalidCastError, r"1e400.*DECIMAL\(9,2\)"),
        ("CAST(f AS INT)", InvalidCastError, "at nan"),
        ("CAST(m AS DECIMAL(3,2))", InvalidCastError, r"at 12.30: .*DECIMAL\(3,2\)"),
        ("CAST(x38 AS DECIMAL(38,37)) * 10000", ArithmeticOverflowError, "at 1000000.125"),
        ("CAST(99 AS DECIMAL(38,0)) * 1e36BD * 9.9", ArithmeticOverflowError, "does not fit"),
        (
            "make_time(24, 0, 0)",
            InvalidCastError,
            "at 24, 0, 0.000000: there is no such time of day",
        ),
        ("to_time(s)", InvalidCastError, r"TO_TIME\(s\): at 'abc': the text is no time of day"),
        ("time_from_millis(-1)", InvalidCastError, "a day has no such time"),
        (
            "to_number(s, '9')",
            InvalidCastError,
            "'abc': the text does not have the form of the format",
        ),
        ("n + make_interval(2147483647)", ArithmeticOverflowError, "the interval is too large"),
        ("n + make_dt_interval(2147483647)", ArithmeticOverflowError, "beyond the last time"),
        ("d + make_interval(0, 0, 0, 0, 1)", ArithmeticOverflowError, "a date takes no hours"),
        ("d + make_ym_interval(100000000)", ArithmeticOverflowError, "beyond the last date"),
        (
            "CASE WHEN i > 1 THEN raise_error('large') ELSE i END",
            RaisedError,
            r"\('large'\): large; filter",
        ),
        ("assert_true(i < 7, 'i is ' || i) IS NULL", RaisedError, r"i\): NULL; filter"),
        ("make_date(2021, 2, 29)", InvalidCastError, "2021, 2, 29: day"),
        ("-CAST(-128 AS TINYINT)", ArithmeticOverflowError, "at -128"),
        ("CAST(-9223372036854775808 AS BIGINT) DIV -1", ArithmeticOverflowError, "overflow"),
    ],
)
def test_error_names_expression_and_value(sql: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        lowered(sql, SAMPLES)


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("i <> 0 AND 10 DIV i > 1", [True, None, False, False, False, True, True, False]),
        ("i = 0 OR 10 DIV i > 1", [True, None, False, False, True, True, True, False]),
        ("IF(i = 0, -1, 10 DIV i)", [10, None, -1, 0, -1, 2, 5, -5]),
        (
            "CASE WHEN i = 0 THEN 0 WHEN 10 DIV i > 1 THEN 1 END",
            [1, None, None, None, 0, 1, 1, None],
        ),
        ("COALESCE(NULLIF(i, 0), CAST(s AS INT) + 1, 9)", None),
    ],
)
def test_branch_is_computed_only_where_it_is_reached(sql: str, expected: list[Any] | None) -> None:
    if expected is None:
        with pytest.raises(InvalidCastError, match="at ''"):
            lowered(sql, SAMPLES)
        return
    assert lowered(sql, SAMPLES).to_pylist() == expected
    assert lowered(sql, SAMPLES.slice(0, 0)).to_pylist() == []


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("4 | 2 & 1", 4),
        ("1 ^ 3 & 1 | 8", 8),
        ("6 ^ 3 | 1", 5),
        ("1 + 1 & 2 + 4", 2),
        ("4 | 2 = 6 AND 5 & 4 = 4", True),
        ("2 + 3 || 'a' || 2 * 3", "5a6"),
        ("'it''s'", "it's"),
        ("''''", "'"),
        ("'''a''''b'''", "'a''b'"),
        ('"say ""a"""', 'say "a"'),
        ("\"it''s\"", "it''s"),
        ("'a' 'b'", "ab"),
        (r"'a\'b''c'", "a'b'c"),
    ],
)
def test_texts_and_operators_are_read_as_spark_reads_them(sql: str, expected: Any) -> None:
    """The operator & binds tighter than ^, and that than |. A quote in a text may be doubled."""
    assert lowered(sql, SAMPLES.slice(0, 1)).to_pylist() == [expected]
    query = f"SELECT {sql} AS x FROM t"
    with Harness.from_sql(query, {"t": "i INT"}, backend="python") as harness:
        harness.process([("+I", 1)])
        harness.flush()
        assert harness.table() == [(expected,)]


@pytest.mark.parametrize(
    ("flink", "spark"),
    [
        ("TO_TIMESTAMP_LTZ(n, 3)", "TIMESTAMP_MILLIS(n)"),
        ("to_timestamp_ltz(n + 1, 0)", "TIMESTAMP_SECONDS(n + 1)"),
        ("TO_TIMESTAMP_LTZ(s, 'yyyy')", "TO_TIMESTAMP_LTZ(s, 'yyyy')"),
        ("TO_TIMESTAMP_LTZ(s)", "TO_TIMESTAMP_LTZ(s)"),
    ],
)
def test_instants_of_numbers_are_read_as_flink_says_them(flink: str, spark: str) -> None:
    assert parse_scalar(flink).sql(dialect=ScalarSpark) == spark


@pytest.mark.parametrize(
    ("flink", "spark"),
    [
        ("SHA256(s)", "SHA2(s, 256)"),
        ("FROM_BASE64(s)", "CAST(UNBASE64(s) AS STRING)"),
        ("ARRAY_CONCAT(a, c)", "CONCAT(a, c)"),
        ("week(d)", "WEEKOFYEAR(d)"),
        ("SHA256(s, 1)", "SHA256(s, 1)"),
    ],
)
def test_functions_of_flink_are_read_as_spark_s(flink: str, spark: str) -> None:
    assert parse_scalar(flink).sql(dialect=ScalarSpark) == spark


def test_texts_are_joined_as_tightly_as_numbers_are_added() -> None:
    assert parse_scalar("s || i + 1").key == "add"
    with pytest.raises(UnsupportedExpressionError, match=r"s \|\| i \+ 1"):
        lowered("s || i + 1", SAMPLES)


@pytest.mark.parametrize("sql", ["trunc(d, 'Q')", "date_trunc('M', w)", "DATE_TRUNC('D', n)"])
def test_a_unit_that_spark_lacks_is_left_to_it(sql: str) -> None:
    """Spark gives NULL; the parser would take M for a minute."""
    with pytest.raises(UnsupportedExpressionError, match="Spark session"):
        lowered(sql, SAMPLES)


def test_division_rounds_as_spark_for_any_digits() -> None:
    """Fast decimals and those computed row by row agree with exact fractions."""
    numbers = ["1", "2", "-7.5", "0.000001", "99999999.999999", "-3.333333", "1e-9", "123456789012"]
    for left, right in itertools.product(numbers, numbers):
        for wide in ("DECIMAL(24,12)", "DECIMAL(38,18)"):
            sql = f"CAST('{left}' AS DECIMAL(24,12)) / CAST('{right}' AS {wide})"
            value = lower(sql, ROWS)
            got = lowered(f"CAST({sql} AS STRING)", SAMPLES.slice(0, 1))[0].as_py()
            scale = value.type.scale
            exact = Decimal(left) * 10 ** (scale + 1) / Decimal(right)
            expected = (exact.to_integral_value("ROUND_DOWN") / 10).to_integral_value(
                "ROUND_HALF_UP"
            )
            assert Decimal(got) == expected.scaleb(-scale), sql


def test_zone_is_the_session_s() -> None:
    berlin = lower("hour(w)", ROWS, "Europe/Berlin")
    schema = pa.schema([("h", berlin.type)])
    module = load_module(module_text(None, [("h", "hour(w)")], schema, ROWS, "Europe/Berlin"))
    assert module.select(SAMPLES).column(0).to_pylist()[:2] == [0, 4]
    for sql in ("date_trunc('hour', w)", "w + INTERVAL 1 DAY"):
        with pytest.raises(UnsupportedExpressionError):
            lower(sql, ROWS, "Europe/Berlin")
        lower(sql, ROWS)


def test_lowered_calc_turns_pairs_where_it_is_shown() -> None:
    batch = pa.record_batch({"v": pa.array([1, 6, 7, 2], pa.int64())})
    kinds = np.array([1, 2, 1, 2], np.int8)
    schema = pa.schema([("w", pa.int64())])
    plain = lower_calc("v > 5", (("w", "v * 2"),), schema, batch.schema)
    shown = lower_calc("v > 5", (("w", "v * 2"),), schema, batch.schema, is_shown=True)
    told = [
        (out.column(0).to_pylist(), kept.tolist())
        for out, kept in (plain.run(batch, kinds), shown.run(batch, kinds))
    ]
    assert told == [([12, 14], [2, 1]), ([12, 14], [0, 3])]


def test_lowered_calc_is_a_step_on_packed_rows() -> None:
    batch = pa.record_batch({"v": pa.array([1, 6, None], pa.int64())})
    schema = pa.schema([("w", pa.int64()), ("t", pa.string())])
    select = (("w", "v * 2"), ("t", "CAST(v AS STRING)"))
    step = pickle.loads(pickle.dumps(lower_calc("v > 5", select, schema, batch.schema)))
    out, kinds = run_steps((step, step_of_none(schema)), (batch, np.array([0, 3, 0], np.int8)))
    assert (out.num_rows, out.num_columns, kinds.tolist()) == (1, 0, [3])


def step_of_none(schema: pa.Schema) -> LoweredCalc:
    return lower_calc("t = '6'", (), pa.schema([]), schema)


def test_deep_chains_are_lowered_and_deep_trees_refused() -> None:
    chain = " OR ".join(f"i = {number}" for number in range(300))
    assert lowered(chain, SAMPLES).to_pylist() == [
        True,
        None,
        False,
        False,
        True,
        True,
        True,
        False,
    ]
    with pytest.raises(UnsupportedExpressionError, match="nested too deep"):
        lowered("i" + " + 1" * 100, SAMPLES)


def test_page_is_what_the_table_says() -> None:
    assert PAGE.read_text(encoding="utf-8") == expressions.page(), "run 'make docs'"


def test_each_function_that_only_spark_has_is_listed_with_a_reason() -> None:
    listed = [name for reason in spark_alone.REASONS for name in reason.names.split()]
    assert sorted(listed) == coverage.missing_of_spark()
    assert len(coverage.missing_of_flink()) <= 10


@pytest.mark.parametrize("family", FAMILIES)
def test_every_entry_is_shown_and_is_what_lowers_its_samples(family: str) -> None:
    for entry in FAMILIES[family]:
        assert entry.samples
        for sql in entry.samples:
            nodes = list(parse_scalar(sql).walk())
            kinds = {type(node) for node in nodes} | {str(node.this).lower() for node in nodes}
            assert kinds & set(entry.nodes), sql
            assert lowered(sql, SAMPLES.slice(0, 0)).to_pylist() == []
    assert sum(len(entry.nodes) for entries in FAMILIES.values() for entry in entries) == len(
        BY_NODE
    )


@pytest.mark.parametrize("sign", ["", "-"])
def test_a_literal_keeps_all_its_digits(sign: str) -> None:
    number = f"{sign}12345678901234567890.123456789012345678"
    assert number in lower(number, {"rows": pa.schema([])}).text
    assert number in lower(f"CAST({number} AS DECIMAL(38,18))", {"rows": pa.schema([])}).text
