"""Calls that expressions of a module share are made once, and the values are those of each expression by itself."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from scalar_oracle import lowered
from writers.sample_table import sample_table

from aggloom.codegen import lower_calc
from aggloom.codegen.scalar.calc import calculate
from aggloom.codegen.scalar.module import module_text
from aggloom.codegen.scalar.shared_calls import columns_of_rows
from aggloom.errors import DivisionByZeroError
from aggloom.runtime.scalar import patterns

SAMPLES = sample_table()
ROWS = {"rows": SAMPLES.schema}
TEXTS = pa.schema([("x", pa.string()), ("y", pa.string())])


def test_a_call_that_stands_twice_is_made_once() -> None:
    select = [("x", "upper(trim(s))"), ("y", "concat(trim(s), upper(trim(s)))")]
    text = module_text(None, select, TEXTS, ROWS)
    assert (text.count("utf8_trim"), text.count("scalar.upper(")) == (1, 1)


def test_a_filter_and_columns_share_what_is_of_all_rows() -> None:
    select = (("x", "upper(s)"), ("y", "IF(length(upper(s)) > 1, lower(s), upper(s))"))
    calc = lower_calc("upper(s) <> 'B' AND s IS NOT NULL", select, TEXTS, SAMPLES.schema)
    assert calc.text.count("scalar.upper(") == 1
    assert 'READ = ["value 1", "s"]' in calc.text
    rows, kinds = calc.run(SAMPLES, np.arange(SAMPLES.num_rows, dtype=np.int8))
    upper, lower = (lowered(f"{name}(s)", SAMPLES).to_pylist() for name in ("upper", "lower"))
    passing = [n for n, text in enumerate(upper) if text not in (None, "B")]
    assert kinds.tolist() == passing
    assert rows.column("x").to_pylist() == [upper[n] for n in passing]
    assert rows.column("y").to_pylist() == [
        lower[n] if len(upper[n]) > 1 else upper[n] for n in passing
    ]


def test_what_only_some_rows_reach_stays_with_them() -> None:
    guarded = "i <> 0 AND 10 DIV i > 0"
    schema = pa.schema([("x", pa.int64()), ("y", pa.int64())])
    select = [("x", "10 DIV i"), ("y", "IF(i = 1, 10 DIV i, 0)")]
    batch = pa.record_batch({"i": pa.array([0, 1, 2, None], pa.int32())})
    rows, _ = calculate(guarded, select, schema, batch, np.zeros(4, np.int8))
    assert rows.to_pydict() == {"x": [10, 5], "y": [10, 0]}
    with pytest.raises(DivisionByZeroError):
        calculate("10 DIV i > 0", select, schema, batch, np.zeros(4, np.int8))


def test_a_column_of_the_shared_name_is_another() -> None:
    batch = pa.record_batch({"value 1": ["a", "b"], "s": ["c", "d"]})
    select = [("x", "upper(s)"), ("y", "`value 1`")]
    rows, _ = calculate("upper(s) <> 'C'", select, TEXTS, batch, np.zeros(2, np.int8))
    assert rows.to_pydict() == {"x": ["D"], "y": ["b"]}


@pytest.mark.parametrize(
    ("texts", "read"),
    [
        (['f(rows["a"])', 'rows["b"]'], ["a", "b"]),
        (["part_1(rows)", 'rows["b"]'], None),
        (['f(lambda rows: rows["a"])'], None),
        (["pa.scalar(1)"], None),
    ],
)
def test_columns_are_known_where_rows_are_read_by_name(
    texts: list[str], read: list[str] | None
) -> None:
    assert columns_of_rows(texts, "rows") == read


@pytest.mark.parametrize("separator", ["/", "aa", "ß", "aba"])
@pytest.mark.parametrize("number", [1, 2, 3, -1, -2])
def test_pieces_are_those_of_python(separator: str, number: int) -> None:
    draw = np.random.default_rng(abs(number))
    texts = ["".join(draw.choice(list("abß/"), draw.integers(0, 12))) for _ in range(60)]
    column = pa.array(["left out", *texts, None, "", "left out"])[1:-1]
    pieces = patterns.split_part(column, separator, number)
    pieces.validate(full=True)
    split = [text.split(separator) for text in [*texts, ""]]
    at = [number - 1 if number > 0 else len(each) + number for each in split]
    wanted = [each[n] if 0 <= n < len(each) else "" for n, each in zip(at, split, strict=True)]
    assert pieces.to_pylist() == [*wanted[:-1], None, wanted[-1]]
