"""SQL that a machine has written: long, deep, or with words of its own. It is planned, or refused with a limit."""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import aggloom as al
from aggloom.codegen.planner import GroupAggregate, PlanOptions, plan_query, walk
from aggloom.codegen.scalar.expressions import parse_scalar
from aggloom.codegen.spec import agg_spec as specs
from aggloom.codegen.sql.depth import MAX_NESTING, deep
from aggloom.codegen.sql.grouping_sets import MAX_SETS
from aggloom.codegen.sql.scope import Scope
from aggloom.errors import OptionError, SqlError, UnknownFunctionError, UnsupportedSqlError

DDL = "k BIGINT, v BIGINT, s STRING"
TABLES = {"t": DDL}
LEVELS = 200
SHAPES: dict[str, Callable[[int], str]] = {
    "brackets": lambda n: f"SELECT k, SUM({'(' * n}v{')' * n}) AS x FROM t GROUP BY k",
    "functions": lambda n: f"SELECT k, SUM({'abs(' * n}v{')' * n}) AS x FROM t GROUP BY k",
    "not": lambda n: f"SELECT k, SUM(v) AS x FROM t WHERE {'NOT ' * n}v > 0 GROUP BY k",
    "minus": lambda n: f"SELECT k, SUM({'- ' * n}v) AS x FROM t GROUP BY k",
    "queries": lambda n: (
        f"SELECT k, SUM(v) AS x FROM {'(SELECT k, v FROM ' * n}t{')' * n} GROUP BY k"
    ),
    "case": lambda n: (
        f"SELECT SUM({'CASE WHEN v > 0 THEN ' * n}v{' ELSE 0 END' * n}) AS x FROM t"
    ),
}
LONG: dict[str, tuple[str, list[Any]]] = {
    "sum": (f"SELECT SUM({' + '.join(['v'] * 400)}) AS x FROM t", [800]),
    "or": (
        f"SELECT SUM(v) AS x FROM t WHERE {' OR '.join(f'v = {i}' for i in range(400))}",
        [2],
    ),
    "after": (f"SELECT {' + '.join(['SUM(v)'] * 400)} AS x FROM t", [800]),
    "texts": (f"SELECT length({' || '.join(['MAX(s)'] * 600)}) AS x FROM t", [600]),
    "queries": (SHAPES["queries"](LEVELS), [1, 2]),
    "brackets": (SHAPES["brackets"](LEVELS), [1, 2]),
}


@pytest.mark.parametrize("name", LONG)
def test_long_and_deep_queries_have_their_answer(name: str) -> None:
    sql, expected = LONG[name]
    assert "GroupAggregate" in al.explain(sql, DDL)
    with al.Harness.from_sql(sql, TABLES, backend="python") as harness:
        harness.process([("+I", 1, 2, "a")])
        harness.flush()
        rows = [tuple(change)[1:] for change in harness.changes()]
    assert [list(row) for row in rows] == [expected]


@pytest.mark.parametrize("name", SHAPES)
def test_nesting_has_a_limit_that_the_error_names(name: str) -> None:
    shape = SHAPES[name]
    assert plan_query(shape(MAX_NESTING - 10), TABLES).schema.names
    with pytest.raises(UnsupportedSqlError, match=rf"(?s){MAX_NESTING} levels.*At line 1, column"):
        plan_query(shape(20_000), TABLES)
    with pytest.raises(UnsupportedSqlError, match=f"{MAX_NESTING} levels"):
        al.AggSpec.from_sql(shape(MAX_NESTING + 1), DDL)


def test_a_deep_stack_leaves_the_process_as_it_was() -> None:
    def down(levels: int) -> int:
        return levels and 1 + down(levels - 1)

    before = sys.getrecursionlimit(), threading.stack_size()
    found: list[int] = []
    several = [
        threading.Thread(target=lambda: found.append(deep(lambda: down(20_000)))) for _ in range(3)
    ]
    for thread in several:
        thread.start()
    for thread in several:
        thread.join()
    assert found == [20_000] * 3
    with pytest.raises(ValueError, match="from within"):
        deep(lambda: down(20_000) and int("from within"))
    assert (sys.getrecursionlimit(), threading.stack_size()) == before


def test_a_cube_has_a_limit() -> None:
    keys = ", ".join(f"v + {n}" for n in range(16))
    with pytest.raises(UnsupportedSqlError, match=rf"(?s)65536 sets.*{MAX_SETS}.*At line 1"):
        plan_query(f"SELECT COUNT(*) AS n FROM t GROUP BY CUBE ({keys})", TABLES)
    with pytest.raises(UnsupportedSqlError, match="65536 sets"):
        plan_query(f"SELECT COUNT(*) AS n FROM t GROUP BY {keys} WITH CUBE", TABLES)
    sets = "GROUPING SETS ((k), (v), ()), ROLLUP (s, k), CUBE (v, s)"
    plan = plan_query(f"SELECT COUNT(*) AS n FROM t GROUP BY {sets}", TABLES)
    expands = [each for each in walk(plan.logical) if type(each).__name__ == "Expand"]
    assert len(expands[0].projects) == 3 * 3 * 4


@pytest.mark.parametrize("call", ["SUM(v + {})", "MAX(v) FILTER (WHERE v > {})", "1 + SUM(v + {})"])
def test_planning_grows_with_the_calls(call: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each call is typed, checked and parsed so many times, however many others there are."""
    counts: Counter[str] = Counter()
    check, compute = specs.spec_check.check_call, Scope.compute

    def counted_check(made: Any, schema: pa.Schema, dialect: str) -> Any:
        counts["check"] += 1
        return check(made, schema, dialect)

    def counted_compute(self: Scope, *arguments: Any) -> str:
        counts["compute"] += 1
        return compute(self, *arguments)

    monkeypatch.setattr(specs.spec_check, "check_call", counted_check)
    monkeypatch.setattr(Scope, "compute", counted_compute)
    seen = []
    for calls in (50, 200):
        counts.clear()
        items = ", ".join(f"{call.format(n)} AS c{n}" for n in range(calls))
        parse_scalar.cache_clear()
        plan_query(f"SELECT k, {items} FROM t GROUP BY k", TABLES)
        counts["parse"] = parse_scalar.cache_info().misses
        seen.append(dict(counts))
    few, many = seen
    assert all(many[name] <= 4 * few[name] for name in few), (few, many)


def test_more_than_a_thousand_hidden_calls_have_names() -> None:
    items = ", ".join(f"1 + SUM(v + {n}) AS c{n}" for n in range(1001))
    spec = al.AggSpec.from_sql(f"SELECT {items} FROM t", DDL)
    assert len({call.output_name for call in spec.calls}) == 1001


@pytest.mark.parametrize(
    "words",
    [
        *("EXPLAIN", "explain plan for", "EXPLAIN ESTIMATED_COST, CHANGELOG_MODE", "EXPLAIN COST"),
        *("EXPLAIN PLAN_ADVICE", "EXPLAIN JSON_EXECUTION_PLAN\n", "EXPLAIN FORMATTED"),
    ],
)
def test_explain_is_read(words: str) -> None:
    query = "SELECT k, SUM(v) AS x FROM t GROUP BY k"
    assert al.explain(f"{words} {query}", DDL) == al.explain(query, DDL)
    named = f"WITH a AS ({query}) SELECT x, COUNT(*) AS n FROM a GROUP BY x"
    assert al.explain(f"{words} {named}", DDL) == al.explain(named, DDL)


def test_explain_is_refused_where_the_query_is_to_run() -> None:
    script = "SET 'table.exec.state.ttl' = '1 h';\nEXPLAIN SELECT k, SUM(v) AS x FROM t GROUP BY k"
    with pytest.raises(UnsupportedSqlError, match=r"(?s)EXPLAIN.*al\.explain.*line 2, column 1:"):
        al.Harness.from_sql(script, TABLES)
    with pytest.raises(UnsupportedSqlError, match=r"EXPLAIN.*al\.explain"):
        plan_query(script, TABLES)
    assert "table.exec.state.ttl = 3600000" in al.explain(script, DDL)
    with pytest.raises(SqlError, match=r"(?s)EXPLAIN has no SIDEWAYS.*line 1"):
        al.explain("EXPLAIN SIDEWAYS SELECT k FROM t", DDL)


def test_state_ttl_is_that_of_its_block() -> None:
    """The hint says it for one aggregate, split or not; the option for the others."""
    sql = (
        "WITH a AS (SELECT /*+ STATE_TTL('o' = '1 d') */ k, COUNT(DISTINCT v) AS n FROM t AS o GROUP BY k) "
        "SELECT n, COUNT(*) AS c FROM a GROUP BY n"
    )
    options = {"state_ttl": "1 h", "distinct_agg_split_enabled": True}
    for chosen in (options, {"state_ttl": "1 h"}):
        plan = plan_query(sql, TABLES, options=PlanOptions.of(chosen))
        kept = [each for each in walk(plan.root) if hasattr(each, "state_ttl")]
        of_day = [each for each in kept if "n" not in each.spec.group_by]
        assert [plan.ttl_of(each) for each in of_day] == [86_400_000] * len(of_day)
        assert len(of_day) == len(kept) - 1
        assert plan.ttl_of(plan.root) == 3_600_000
    assert "stateTtl=[1 d]" in al.explain(sql, DDL)


def test_a_key_is_forgotten_after_its_hint() -> None:
    sql = "SELECT /*+ STATE_TTL('t' = '10 s') */ k, SUM(v) AS x FROM t GROUP BY k"
    plan = plan_query(sql, TABLES)
    assert plan.forgets and isinstance(plan.root, GroupAggregate)
    with al.Harness.from_sql(sql, TABLES, backend="python") as harness:

        def after(ms: int, *rows: tuple[int, int]) -> list[tuple[Any, ...]]:
            harness.set_ttl_time(ms)
            harness.process([("+I", k, v, "a") for k, v in rows])
            harness.flush()
            return [tuple(change) for change in harness.changes()]

        assert after(0, (1, 2), (2, 7)) == [("+I", 1, 2), ("+I", 2, 7)]
        assert after(5_000, (2, 1)) == [("-U", 2, 7), ("+U", 2, 8)]
        # A millisecond before key 1 expires it is written again; key 2, written later, has expired by then.
        assert after(9_999, (1, 3)) == [("-U", 1, 2), ("+U", 1, 5)]
        assert after(15_000, (1, 1), (2, 4)) == [("-U", 1, 5), ("+U", 1, 6), ("+I", 2, 4)]
        assert after(25_000, (1, 1)) == [("+I", 1, 1)]
        assert harness.operator.keys == 1


@pytest.mark.parametrize(
    ("hint", "rest", "error", "message"),
    [
        ("STATE_TTL('u' = '1 d')", "FROM t", OptionError, "names 'u'.*Known: 't'"),
        ("STATE_TTL('t' = '1 d')", "FROM t AS o", OptionError, "names 't'"),
        ("STATE_TTL('t' = 'soon')", "FROM t", OptionError, "'soon'.*duration"),
        ("STATE_TTL('t' = '1 d', 'T' = '2 d')", "FROM t", OptionError, "names 'T' twice"),
        ("STATE_TTL('t')", "FROM t", OptionError, "names and durations"),
        ("STATE_TLL('t' = '1 d')", "FROM t", UnsupportedSqlError, "STATE_TLL.*STATE_TTL"),
        ("BROADCAST(t)", "FROM t", UnsupportedSqlError, "hint BROADCAST.*take it out"),
    ],
)
def test_hints_that_say_nothing(hint: str, rest: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=f"(?s){message}.*At line 1, column"):
        plan_query(f"SELECT /*+ {hint} */ k, SUM(v) AS x {rest} GROUP BY k", TABLES)


def test_a_hint_without_an_aggregate_is_refused() -> None:
    with pytest.raises(UnsupportedSqlError, match=r"STATE_TTL.*GROUP BY"):
        plan_query("SELECT /*+ STATE_TTL('t' = '1 d') */ k, v + 1 AS w FROM t", TABLES)


def test_a_long_line_is_shown_around_the_fault() -> None:
    terms = " + ".join(["v"] * 5_000)
    for sql, column in (
        (f"SELECT k, SUM({terms}) AS x, NO_SUCH(v) AS y FROM t GROUP BY k", 20_020),
        (f"SELECT k, SUMM(v) AS x, SUM({terms}) AS y FROM t GROUP BY k", 11),
        (f"SELECT k, NO_SUCH({terms}) AS x FROM t GROUP BY k", 11),
    ):
        with pytest.raises(al.errors.AggloomError) as raised:
            plan_query(sql, TABLES)
        _, place, line, carets = str(raised.value).splitlines()
        assert place == f"At line 1, column {column}:"
        assert len(line) < 220 and len(carets) <= len(line)
        begin = carets.index("^")
        assert sql[column - 1 :].startswith(line[begin : begin + 5])
        assert line.endswith(("...", "BY k"))


def test_hundreds_of_chained_queries_run_in_the_harness() -> None:
    chain = "WITH a0 AS (SELECT k, SUM(v) AS v FROM t GROUP BY k)"
    for n in range(1, 250):
        chain += f", a{n} AS (SELECT k, SUM(v) AS v FROM a{n - 1} GROUP BY k)"
    with al.Harness.from_sql(f"{chain} SELECT k, v FROM a249", TABLES, backend="python") as harness:
        harness.process([("+I", 1, 5, "a"), ("+I", 1, 2, "a"), ("+I", 2, 1, "a")])
        harness.flush()
        assert harness.table() == [(1, 7), (2, 1)]
        saved = harness.snapshot()
        harness.restore(saved)
        harness.process([("-D", 2, 1, "a")])
        harness.flush()
        assert harness.table() == [(1, 7)]


def test_a_hint_of_a_block_above_its_aggregate_is_refused() -> None:
    """Though the aggregate below has the same: a projection forgets nothing."""
    hint = "/*+ STATE_TTL('t' = '1 d') */"
    inner = f"SELECT {hint} k, SUM(v) AS x FROM t GROUP BY k"
    outer = hint.replace("'t'", "'u'")
    for above in ("k, x + 1 AS w FROM", "* FROM", "k, x AS w FROM"):
        plan_query(f"SELECT {above} ({inner}) AS u", TABLES)
        with pytest.raises(UnsupportedSqlError, match=r"(?s)STATE_TTL.*GROUP BY.*take it out"):
            plan_query(f"SELECT {outer} {above} ({inner}) AS u", TABLES)
    both = f"SELECT {outer} x, COUNT(*) AS n FROM ({inner}) AS u GROUP BY x"
    assert [
        each.state_ttl for each in walk(plan_query(both, TABLES).root) if hasattr(each, "state_ttl")
    ] == [86_400_000] * 2


def test_a_spec_shows_itself_in_a_line() -> None:
    one = al.AggSpec.from_sql("SELECT k, SUM(v) AS x, COUNT(*) AS n FROM t GROUP BY k", DDL)
    assert repr(one) == f"<AggSpec {one.digest}: sum(v), count(1) by k; retract, spark>"
    items = ", ".join(f"SUM(v + {n}) AS c{n}" for n in range(50))
    many = repr(al.AggSpec.from_sql(f"SELECT k, {items} FROM t GROUP BY k", DDL))
    assert len(many) < 200 and "\n" not in many


@pytest.mark.parametrize(
    "query",
    [
        "SELECT CONUT(*) AS n FROM t",
        "SELECT k, CONUT(*) AS n FROM t GROUP BY k",
        "SELECT k, SUM(v) + CONUT(*) AS n FROM t GROUP BY k",
        "SELECT k FROM t GROUP BY k HAVING CONUT(*) > 1",
    ],
)
def test_a_misspelt_count_is_told(query: str) -> None:
    with pytest.raises(UnknownFunctionError, match=r"(?s)CONUT. Did you mean 'COUNT'.*At line 1"):
        al.explain(query, DDL)
