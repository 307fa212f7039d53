"""Calls that need the same state keep it once."""

from __future__ import annotations

from aggloom.codegen import AggSpec, generate, load, plan_of
from aggloom.runtime.local.harness import Harness

SCHEMA = "k INT, x INT, d DOUBLE, s STRING, " + ", ".join(f"f{i} BOOLEAN" for i in range(70))


def state_of(calls: str, changes: str = "retract") -> tuple[list[str], list[str]]:
    """The names of a plan's fields (without the record counter) and of its views."""
    spec = AggSpec.from_sql(f"SELECT k, {calls} FROM t GROUP BY k", SCHEMA, changes)  # type: ignore[arg-type]
    plan = plan_of(spec)
    return [f.attr for f in plan.fields if f.attr != "records"], [v.attr for v in plan.views]


def test_sums_share_their_sum_and_counter() -> None:
    assert state_of("SUM(x), AVG(x), COUNT(x), SUM0(x)") == (["count_x", "sum_x"], [])


def test_moments_share_sums_with_sum_itself() -> None:
    fields, views = state_of("SUM(d), AVG(d), VAR_POP(d), STDDEV_SAMP(d), SKEWNESS(d)")
    assert fields == ["count_d", "sum_d", "squares_d", "cubes_d"]
    assert views == ["spill"]


def test_regressions_share_their_five_sums() -> None:
    fields, _ = state_of(
        "CORR(d, x), REGR_SLOPE(d, x), REGR_R2(d, x), COVAR_POP(d, x), REGR_SXY(d, x)"
    )
    assert len(fields) == 6


def test_ordered_functions_share_one_view() -> None:
    calls = "MIN(x), MAX(x), MODE(x), COLLECT_SET(x), HISTOGRAM(x), TOP_K(x, 3)"
    assert state_of(calls) == ([], ["ordered_x"])


def test_percentiles_share_one_view() -> None:
    calls = "MEDIAN(x), PERCENTILE(x, 0.9), PERCENTILE_CONT(0.1) WITHIN GROUP (ORDER BY x)"
    assert state_of(calls) == ([], ["ranked_x"])


def test_lists_share_one_sequence() -> None:
    calls = "LISTAGG(s, ','), LISTAGG(s, ';'), FIRST_VALUE(s), LAST_VALUE(s), ARRAY_AGG(s), JSON_ARRAYAGG(s)"
    assert state_of(calls) == ([], ["sequence_s"])


def test_both_ends_by_another_column_share_one_view() -> None:
    assert state_of("MIN_BY(s, x), MAX_BY(s, x)") == ([], ["ordered_x_s"])


def test_a_row_count_is_the_record_counter() -> None:
    assert state_of("COUNT(*)") == ([], [])


def test_seventy_distinct_calls_share_one_view() -> None:
    calls = ", ".join(f"SUM(DISTINCT x) FILTER (WHERE f{i}) AS r{i}" for i in range(70))
    fields, views = state_of(calls)
    assert views == ["distinct_x"]
    assert len(fields) == 140


def test_seventy_distinct_calls_are_right() -> None:
    calls = ", ".join(f"SUM(DISTINCT x) FILTER (WHERE f{i}) AS r{i}" for i in range(70))
    spec = AggSpec.from_sql(f"SELECT k, {calls} FROM t GROUP BY k", SCHEMA)
    rows = [(1, x % 3, 0.0, "", *(x % (i + 1) == 0 for i in range(70))) for x in range(8)]
    with Harness(spec, backend="python") as harness:
        harness.process([("+I", *row) for row in rows])
        harness.process([("-D", *row) for row in rows[5:]])
        harness.flush()
        [result] = harness.table()
    kept = rows[:5]
    wanted = [sum({row[1] for row in kept if row[4 + i]}) for i in range(70)]
    assert list(result[1:]) == wanted


def test_one_text_for_one_spec() -> None:
    spec = AggSpec.from_sql("SELECT k, MODE(x), CORR(d, x) FROM t GROUP BY k", SCHEMA)
    assert load(generate(spec)) is load(generate(spec))
