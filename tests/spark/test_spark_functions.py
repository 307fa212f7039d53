"""Functions against Spark's own, in the spark dialect: values and result types, of every type, in one query each."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pytest
from handlers import Row, fed
from model import is_moment, same_row
from strategies import ARGUMENTS, DOMAINS, NESTED, required, spec_over
from variants import rows_for
from versions import about_newest

import aggloom as al
from aggloom.codegen import AggCall, AggSpec, type_name
from aggloom.codegen.catalogue.registry import CATALOGUE
from aggloom.errors import AggloomError, UnknownTypeError

pytestmark = pytest.mark.spark

MOMENTS = (
    *("VAR_POP", "VAR_SAMP", "STDDEV_POP", "STDDEV_SAMP", "SKEWNESS", "KURTOSIS"),
    *("COVAR_POP", "COVAR_SAMP", "CORR", "REGR_COUNT", "REGR_AVGX", "REGR_AVGY", "REGR_SXX"),
    *("REGR_SYY", "REGR_SXY", "REGR_SLOPE", "REGR_INTERCEPT", "REGR_R2"),
)
SAME = (
    *("COUNT", "COUNT_IF", "SUM", "AVG", "MIN", "MAX", "BOOL_AND", "BOOL_OR", "BIT_AND", "BIT_OR"),
    *("BIT_XOR", "MEDIAN", "APPROX_COUNT_DISTINCT", *MOMENTS),
)
SPARK = {name: f"{name.lower()}({{args}})" for name in SAME} | {
    "MODE": "mode() WITHIN GROUP (ORDER BY {args})",
    "LISTAGG": "listagg({args}, '-') WITHIN GROUP (ORDER BY {args})",
    "COLLECT_LIST": "sort_array(collect_list({args}))",
    "COLLECT_SET": "sort_array(collect_set({args}))",
    "PERCENTILE": "percentile({args}, 0.25)",
    "PERCENTILE_CONT": "percentile_cont(0.25) WITHIN GROUP (ORDER BY {args})",
    "PERCENTILE_DISC": "percentile_disc(0.25) WITHIN GROUP (ORDER BY {args})",
    "APPROX_PERCENTILE": "approx_percentile({args}, 0.25)",
}
"""Spark's calls of each function that it has with the same meaning, whatever the order of rows."""
COLUMNS = [name for name in DOMAINS if name not in NESTED and name != "clock"]
SORTED = ("LISTAGG", "COLLECT_LIST")


def tame(value: Any) -> bool:
    return value is None or (math.isfinite(value) and (value == 0 or 1e-3 < abs(value) < 1000))


def bounded(value: Any) -> Any:
    return None if isinstance(value, float) and math.isinf(value) else value


def call_of(name: str, column: str) -> AggCall | None:
    fitting = ARGUMENTS[name]
    if column not in fitting[0]:
        return None
    if name == "PERCENTILE_DISC" and column not in ARGUMENTS["SUM"][0]:
        # Spark has it of numbers only.
        return None
    if name.startswith("REGR_AVG") and column in ("money", "vast"):
        # There Spark gives a DECIMAL, as AVG does.
        return None
    second = len(fitting) > 1 and not CATALOGUE[name].arguments[1].optional
    args = (column, "whole") if second else (column,)
    options = required(CATALOGUE[name]) | ({"separator": "-"} if name == "LISTAGG" else {})
    order = (column,) if name in SORTED else ()
    return AggCall(name, args, order_by=order, options=tuple(options.items()), alias=f"{name}_{column}")  # type: ignore[arg-type]


def spec_of(moments: bool) -> AggSpec:
    calls = [
        call
        for name in SPARK
        for column in COLUMNS
        if is_moment(CATALOGUE[name]) == moments and (call := call_of(name, column))
    ]
    return spec_over(calls, (), "spark", "append")


@about_newest
@pytest.mark.parametrize("moments", [True, False])
def test_spark_gives_the_same(spark: Any, moments: bool) -> None:
    spec = spec_of(moments)
    # Between an infinity and a number Spark's percentiles see NaN.
    rows: list[Row] = [tuple(map(bounded, row)) for row in rows_for(spec, 11, 25)]
    if moments:
        rows = [tuple(v if tame(v) else None for v in row) for row in rows]
    table = pa.Table.from_pylist(
        [dict(zip(spec.schema.names, row, strict=True)) for row in rows], schema=spec.schema
    )
    frame = spark.createDataFrame(table)
    if "moment" in frame.columns:
        frame = frame.withColumn("moment", frame.moment.cast("timestamp_ntz"))
    frame.createOrReplaceTempView("function_rows")
    parts = [SPARK[c.function].format(args=", ".join(c.args)) for c in spec.calls]
    named = [f"{text} AS `{call.alias}`" for text, call in zip(parts, spec.calls, strict=True)]
    answer = spark.sql(f"SELECT {', '.join(named)} FROM function_rows")
    types = [field.dataType.simpleString().upper() for field in answer.schema.fields]
    declared = [type_name(kind) for kind in spec.aggregate_schema.types]
    differing = {
        c.text: (a, b) for c, a, b in zip(spec.calls, types, declared, strict=True) if a != b
    }
    assert differing == {}
    found = fed(spec, rows).getValue()
    expected = answer.toArrow().to_pylist()[0].values()
    wrong = [
        problem
        for call, x, y in zip(spec.calls, found, expected, strict=True)
        if (problem := same_row(spec_over([call], (), "spark", "append"), (x,), (y,), 1e6))
    ]
    assert wrong == []


def test_an_active_session_tells_types_and_values(
    spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = "SELECT k, SUM(from_xml(v, 'x INT').x) AS s FROM t GROUP BY k"
    tables = {"t": "k STRING, v STRING"}
    assert AggSpec.from_sql(query, tables["t"])
    assert al.explain(query, tables["t"])
    with al.Harness.from_sql(query, tables, backend="python") as t:
        t.process([("+I", "a", "<r><x>12</x></r>"), ("+I", "a", "<r><x>30</x></r>")])
        t.flush()
        assert t.table() == [("a", 42)]
    monkeypatch.setattr(type(spark), "getActiveSession", lambda: None)
    with pytest.raises(UnknownTypeError, match="CAST"):
        al.Harness.from_sql(query, tables)


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("xpath_int(CONCAT('<', k), 'a')", r"Error loading expression|XML"),
    ],
)
def test_what_fails_in_an_active_session_is_a_typed_error(
    spark: Any, expression: str, said: str
) -> None:
    query = f"SELECT k, MAX({expression}) AS s FROM t GROUP BY k"
    harness = al.Harness.from_sql(query, {"t": "k STRING"}, backend="python")
    with harness, pytest.raises(AggloomError, match=rf"^the query failed: .*{said}[^\n]*$"):
        harness.process([("+I", "a")])
        harness.flush()
