"""SQL becomes the spec that one would write by hand; what cannot, is refused with its place."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest

import aggloom as al
from aggloom.codegen.planner import plan_query
from aggloom.codegen.spec.agg_spec import AggCall, AggSpec, Computed
from aggloom.errors import (
    DuplicateNameError,
    NotRetractableError,
    SpecError,
    SqlError,
    TypeMismatchError,
    UnknownColumnError,
    UnknownFunctionError,
    UnsupportedSqlError,
)

SCHEMA = (
    "name STRING, a INT, b INT, c STRING, ok BOOLEAN, d DECIMAL(10,2), ts TIMESTAMP, "
    "x INT, `class` INT, `a\"); import os; (` INT, `größe` INT, `'` INT"
)


def spec_of(sql: str, dialect: str = "spark") -> AggSpec:
    spec = AggSpec.from_sql(sql, SCHEMA, dialect=dialect)  # type: ignore[arg-type]
    assert AggSpec.from_json(spec.to_json()) == spec
    return spec


def test_the_example_of_the_front_page() -> None:
    spec = spec_of(
        "SELECT name, SUM(a) AS total, MAX(a) FILTER (WHERE a > 0) AS top FROM t GROUP BY name"
    )
    assert spec.group_by == ("name",)
    assert spec.calls == (
        AggCall("SUM", ("a",), alias="total"),
        AggCall("MAX", ("a",), filter="(a > 0)", alias="top"),
    )
    assert spec.computed == (Computed("(a > 0)", "`a` > 0", pa.bool_()),)
    assert spec.select is None
    assert spec.output_schema.names == ["name", "total", "top"]


@pytest.mark.parametrize(
    ("item", "call"),
    [
        ("COUNT(*)", AggCall("COUNT")),
        ("count(1)", AggCall("COUNT")),
        ("COUNT('x')", AggCall("COUNT")),
        ("COUNT(t.A)", AggCall("COUNT", ("a",))),
        ("SUM(DISTINCT a)", AggCall("SUM", ("a",), distinct=True)),
        ("$SUM0(a)", AggCall("SUM0", ("a",))),
        ("SUM0(a)", AggCall("SUM0", ("a",))),
        ("FIRST_VALUE(a) IGNORE NULLS", AggCall("FIRST_VALUE", ("a",), nulls="ignore")),
        ("LAST_VALUE(a)", AggCall("LAST_VALUE", ("a",))),
        ("AVG(a) FILTER (WHERE ok)", AggCall("AVG", ("a",), filter="ok")),
        ('MAX(`a"); import os; (`)', AggCall("MAX", ('a"); import os; (',))),
        ("MIN(`'`)", AggCall("MIN", ("'",))),
        ("MIN(größe)", AggCall("MIN", ("größe",))),
        ("MAX(`class`) AS `'`", AggCall("MAX", ("class",), alias="'")),
    ],
)
def test_calls(item: str, call: AggCall) -> None:
    spec = spec_of(f"SELECT {item} FROM t")
    assert spec.calls == (call,)
    assert spec.select is None


@pytest.mark.parametrize(
    ("item", "computed"),
    [
        ("SUM(DISTINCT (a * 3))", Computed("(a * 3)", "`a` * 3", pa.int32())),
        (
            "COUNT(DISTINCT SUBSTRING(c FROM 1 FOR 2))",
            Computed("SUBSTRING(c, 1, 2)", "SUBSTRING(`c`, 1, 2)", pa.string()),
        ),
        ("MAX(d * 2)", Computed("(d * 2)", "`d` * 2", pa.decimal128(12, 2))),
        (
            "SUM(CAST(a AS DECIMAL(32, 8)))",
            Computed(
                "CAST(a AS DECIMAL(32, 8))", "CAST(`a` AS DECIMAL(32, 8))", pa.decimal128(32, 8)
            ),
        ),
        (
            'MAX(`größe` + `a"); import os; (`)',
            Computed('(größe + `a"); import os; (`)', '`größe` + `a"); import os; (`', pa.int32()),
        ),
        ("SUM(1)", Computed("1", "1", pa.int32())),
    ],
)
def test_computed_arguments(item: str, computed: Computed) -> None:
    spec = spec_of(f"SELECT {item} FROM t")
    assert spec.computed == (computed,)
    assert spec.calls[0].args == (computed.name,)


def test_equal_expressions_are_computed_once() -> None:
    spec = spec_of(
        "SELECT a + 1, SUM(a+1), MAX(t.a + 1), MIN(b) FILTER (WHERE a > 1) FROM t GROUP BY 1"
    )
    assert [column.sql for column in spec.computed] == ["`a` + 1", "`a` > 1"]
    assert spec.group_by == ("(a + 1)",)


@pytest.mark.parametrize(
    ("sql", "keys", "names"),
    [
        ("SELECT 'ALL', COUNT(*) FROM t GROUP BY 'ALL'", ("ALL",), ["ALL", "count(1)"]),
        ("SELECT d * 2 AS d2, COUNT(*) n FROM t GROUP BY d * 2", ("d2",), ["d2", "n"]),
        ("SELECT upper(name) AS u, COUNT(*) n FROM t GROUP BY u", ("u",), ["u", "n"]),
        ("SELECT name, b, COUNT(*) n FROM t GROUP BY 1, 2", ("name", "b"), ["name", "b", "n"]),
        ("SELECT name, COUNT(*) n, b FROM t GROUP BY ALL", ("name", "b"), ["name", "n", "b"]),
        ("SELECT DISTINCT a, b FROM t", ("a", "b"), ["a", "b"]),
        ("SELECT COUNT(*) n FROM t GROUP BY a", ("a",), ["n"]),
        ("SELECT a AS k, SUM(b) AS a FROM t GROUP BY t.a", ("a",), ["k", "a"]),
        ("SELECT u.name, COUNT(*) n FROM db.t AS u GROUP BY u.name", ("name",), ["name", "n"]),
    ],
)
def test_keys(sql: str, keys: tuple[str, ...], names: list[str]) -> None:
    spec = spec_of(sql)
    assert spec.group_by == keys
    assert spec.output_schema.names == names


@pytest.mark.parametrize("number", ["1.5", "1.0", "7.0", "1e0"])
def test_a_key_that_is_no_whole_number_is_a_constant(number: str) -> None:
    spec = spec_of(f"SELECT name, COUNT(*) AS n FROM t GROUP BY name, {number}")
    assert len(spec.group_by) == 2
    with pytest.raises(SqlError, match="SELECT has items 1 to 2"):
        spec_of("SELECT name, COUNT(*) AS n FROM t GROUP BY name, 7")


def test_expressions_over_aggregates() -> None:
    spec = spec_of(
        "SELECT a, SUM(b) / COUNT(*) AS r, SUM(b) AS s, CAST(AVG(b) AS DOUBLE) AS m FROM t "
        "WHERE c LIKE 'x%' GROUP BY a HAVING r > 2 AND MAX(x) < 4 AND a > 1"
    )
    assert spec.where == "`c` LIKE 'x%'"
    assert spec.select == (
        ("a", "`a`"),
        ("r", "`s` / `_agg0`"),
        ("s", "`s`"),
        ("m", "CAST(`_agg1` AS DOUBLE)"),
    )
    assert spec.having == "(`s` / `_agg0`) > 2 AND `_agg2` < 4 AND `a` > 1"
    assert [call.output_name for call in spec.calls] == ["s", "_agg0", "_agg1", "_agg2"]
    assert spec.output_schema.types == [pa.int32(), pa.float64(), pa.int64(), pa.float64()]


def test_hidden_names_avoid_the_users() -> None:
    spec = spec_of("SELECT SUM(a) + 1 AS s, MAX(b) AS _agg0 FROM t")
    assert [call.alias for call in spec.calls] == ["_agg0", "_agg1"]
    assert spec.select == (("s", "`_agg1` + 1"), ("_agg0", "`_agg0`"))


def test_flink_divides_integers_to_integers_and_has_its_own_timestamp() -> None:
    spec = spec_of(
        "SELECT MAX(a / b), MIN(CAST(c AS TIMESTAMP)), SUM(a) / COUNT(*) FROM t", "flink"
    )
    assert spec.computed[0] == Computed("(a / b)", "CAST(`a` DIV `b` AS INT)", pa.int32())
    assert spec.computed[1].type == pa.timestamp("us")
    assert spec.output_schema.types[2] == pa.int64()
    assert spec_of("SELECT MAX(a / b) FROM t").computed[0].type == pa.float64()


def test_a_column_of_an_unsupported_type_may_lie_unused() -> None:
    spec = AggSpec.from_sql("SELECT SUM(a) FROM t", "a INT, m MAP<INT,INT>")
    assert spec.handler_schema.names == ["a"]
    with pytest.raises(TypeMismatchError, match="MAP<INT,INT>"):
        AggSpec.from_sql("SELECT MAX(m) FROM t", "a INT, m MAP<INT,INT>")


@pytest.mark.parametrize(
    ("sql", "error", "message", "underlined"),
    [
        ("SELECT a FROM t GROUP BY a ORDER BY a", UnsupportedSqlError, "ORDER BY", "ORDER BY"),
        ("SELECT a FROM t GROUP BY a LIMIT 3", UnsupportedSqlError, "LIMIT", "LIMIT"),
        ("SELECT SUM(b) OVER () FROM t", UnsupportedSqlError, "OVER", "SUM(b"),
        ("SELECT * FROM t", UnsupportedSqlError, "SELECT *", "*"),
        ("SELECT t.* FROM t", UnsupportedSqlError, "SELECT *", "t.*"),
        (
            "SELECT SUM(t.a) FROM t JOIN u ON t.a = u.a",
            UnsupportedSqlError,
            "join",
            "u ON t.a = u.a",
        ),
        ("SELECT SUM(a) FROM t, u", UnsupportedSqlError, "join", "u"),
        ("SELECT SUM(a) FROM (SELECT a FROM t)", UnsupportedSqlError, "subquery", "a FROM t)"),
        ("SELECT a FROM t UNION SELECT b FROM t", UnsupportedSqlError, "UNION", "UNION"),
        ("WITH u AS (SELECT 1) SELECT SUM(a) FROM u", UnsupportedSqlError, "WITH", "WITH"),
        (
            "SELECT SUM(a) FROM t WHERE a IN (SELECT b FROM u)",
            UnsupportedSqlError,
            "subquery",
            "b FROM u",
        ),
        (
            "SELECT a FROM t GROUP BY GROUPING SETS ((a), (b))",
            UnsupportedSqlError,
            "grouping set",
            "a), (b",
        ),
        ("SELECT a FROM t GROUP BY ROLLUP (a)", UnsupportedSqlError, "grouping set", "a"),
        ("SELECT a FROM t GROUP BY CUBE (a)", UnsupportedSqlError, "grouping set", "a"),
        ("SELECT SUM(SUM(a)) FROM t", UnsupportedSqlError, "two steps", "SUM(a)"),
        ("SELECT SUM(a) FROM t WHERE MAX(a) > 1", UnsupportedSqlError, "HAVING", "MAX(a)"),
        ("SELECT MAX(a + rand()) FROM t", UnsupportedSqlError, "RAND", "rand()"),
        ("DELETE FROM t", UnsupportedSqlError, "only SELECT", "DELETE"),
        ("SELECT a, SUM(b) FROM t", SqlError, "'a' is neither grouped nor aggregated", "a"),
        ("SELECT SUM(a FROM t", SqlError, "cannot be read", "FROM"),
        ("SELECT SUM(a) FROM t GROUP BY 2", SqlError, "items 1 to 1", "2"),
        ("SELECT SUM(a) FROM t HAVING b > 1", SqlError, "HAVING.*'b'", "b"),
        ("SELECT a,\n\tSUM(nme) FROM t GROUP BY a", UnknownColumnError, "'nme'.*'name'", "nme"),
        ("SELECT SUM(z.a) FROM t", UnknownColumnError, "'z.a'", "z.a"),
        ("SELECT SUMM(b) FROM t", UnknownFunctionError, "SUMM.*'SUM'", "SUMM(b)"),
        ("SELECT GROUPING(c) FROM t", UnsupportedSqlError, "GROUPING", "GROUPING(c)"),
        ("SELECT ROW_NUMBER() FROM t", UnknownFunctionError, "with OVER", "ROW_NUMBER()"),
        ("SELECT LAG(b) FROM t", UnknownFunctionError, "LAG.*OVER", "LAG(b)"),
        ("SELECT SUM(name) FROM t", TypeMismatchError, r"sum\(name\)", "SUM(name)"),
        ("SELECT SUM(a, b) FROM t", TypeMismatchError, "SUM takes one", "SUM(a, b)"),
        ("SELECT COUNT(DISTINCT *) FROM t", UnsupportedSqlError, "plain column", "*"),
        ("SELECT SUM(a) FILTER (WHERE b) FROM t", TypeMismatchError, "FILTER of SUM.*INT", "b"),
        ("SELECT SUM(a) FROM t WHERE a", TypeMismatchError, "WHERE.*INT", "a"),
        ("SELECT SUM(a) AS n, MAX(b) AS n FROM t", DuplicateNameError, "'n'", "MAX(b)"),
        (
            "SELECT SUM(my(a)) FROM t",
            UnknownFunctionError,
            "no?r the catalogue has a function my",
            "my(a)",
        ),
    ],
)
def test_refusals_underline_their_place(
    sql: str, error: type[SpecError], message: str, underlined: str
) -> None:
    with pytest.raises(error, match=message) as caught:
        spec_of(sql)
    *_, line, carets = str(caught.value).split("\n")
    start, width = carets.index("^"), carets.count("^")
    assert line[start : start + width].startswith(underlined) or underlined.startswith(
        line[start : start + width]
    )
    assert "line " in str(caught.value)
    assert carets.strip() == "^" * width


@pytest.mark.parametrize(
    "sql",
    [
        "",
        "SELECT SUM(a)",
        "SELECT 'open FROM t",
        "SELECT SUM(a) FROM t; SELECT 1",
        "SELECT 1 FROM t",
    ],
)
def test_refusals_without_a_place(sql: str) -> None:
    with pytest.raises(SqlError):
        spec_of(sql)


def test_functions_that_only_add_are_read_in_either_dialect() -> None:
    for dialect in ("spark", "flink"):
        spec = AggSpec.from_sql("SELECT APPROX_COUNT_DISTINCT(a) / 2 AS n FROM t", "a INT", "append", dialect)  # type: ignore[arg-type]
        assert spec.output_schema.names == ["n"]
    with pytest.raises(NotRetractableError):
        AggSpec.from_sql("SELECT APPROX_COUNT_DISTINCT(a) AS n FROM t", "a INT", "retract", "flink")


FIELDS = {
    "SELECT s.a FROM t": (["a"], [(1,), (5,), (None,)]),
    "SELECT t.s.b.c AS x FROM t WHERE S.a < 5": (["x"], [("x",)]),
    "SELECT s.a, COUNT(*) AS n FROM t GROUP BY s.a HAVING s.a > 1": (["a", "n"], [(5, 1)]),
    "SELECT k, SUM(t.s.a) AS x, MAX(s.b.c) AS m FROM t GROUP BY k": (
        ["k", "x", "m"],
        [("p", 6, "x"), ("q", None, None)],
    ),
    "SELECT s.a, LAG(s.a) OVER (ORDER BY s.a) AS o FROM t": (
        ["a", "o"],
        [(None, None), (1, None), (5, 1)],
    ),
    "SELECT s.a FROM t ORDER BY s.a DESC LIMIT 1": (["a"], [(5,)]),
    "SELECT s.k FROM (SELECT k, s FROM t) AS s WHERE s.s.a = 1": (["k"], [("p",)]),
}


@pytest.mark.parametrize("sql", FIELDS)
def test_fields_are_read_by_dots(sql: str) -> None:
    """A table's column comes before a field of a column with the table's name."""
    names, expected = FIELDS[sql]
    table = "k STRING, s STRUCT<a INT, b STRUCT<c STRING>>"
    with al.Harness.from_sql(sql, {"t": table}, backend="python") as harness:
        nested = [("p", {"a": 1, "b": {"c": "x"}}), ("p", {"a": 5, "b": None}), ("q", None)]
        harness.process([("+I", *row) for row in nested])
        harness.flush()
        assert Counter(harness.table()) == Counter(expected)
        assert harness.plan.schema.names == names


def test_a_field_that_is_not_there_is_named() -> None:
    for sql, match in (("s.c", "no field 'c'"), ("k.a", r"no column 'k\.a'")):
        with pytest.raises(UnknownColumnError, match=match):
            plan_query(f"SELECT {sql} FROM t", {"t": "k STRING, s STRUCT<a INT>"})
