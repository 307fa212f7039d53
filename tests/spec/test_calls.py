"""Every form that SQL has for an aggregate call becomes the AggCall that one would write, and comes back as text."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from aggloom.codegen.catalogue.entry import Aggregate, Option
from aggloom.codegen.catalogue.registry import CATALOGUE
from aggloom.codegen.spec.agg_call import AggCall, SortKey
from aggloom.codegen.spec.agg_spec import AggSpec
from aggloom.errors import (
    SpecError,
    SqlError,
    TypeMismatchError,
    UnknownColumnError,
    UnknownFunctionError,
    UnsupportedSqlError,
)

SCHEMA = (
    "name STRING, c STRING, a INT, b BIGINT, f DOUBLE, ok BOOLEAN, ts TIMESTAMP, "
    "l ARRAY<INT>, m MAP<INT,INT>, key STRING, value INT, `a b` INT"
)

# The constructor takes more forms than its fields' types say.
Call: Any = AggCall


def parsed(item: str) -> AggSpec:
    spec = AggSpec.from_sql(f"SELECT {item} FROM t", SCHEMA, "append")
    assert AggSpec.from_json(spec.to_json()) == spec
    assert AggSpec.from_yaml(spec.to_yaml()) == spec
    return spec


@pytest.mark.parametrize(
    ("item", "call"),
    [
        ("COUNT(a, c)", Call("COUNT", ("a", "c"))),
        ("COUNT(DISTINCT a, c)", Call("COUNT", ("a", "c"), distinct=True)),
        ("COUNT(ALL a)", Call("COUNT", "a")),
        ("`sum`(a)", Call("SUM", "a")),
        ("ANY(ok)", Call("BOOL_OR", "ok")),
        ("SOME(ok)", Call("BOOL_OR", "ok")),
        ("EVERY(ok) FILTER (WHERE ok)", Call("BOOL_AND", "ok", filter="ok")),
        ("STDDEV(a)", Call("STDDEV_SAMP", "a")),
        ("CORR(a, f)", Call("CORR", ("a", "f"))),
        ("REGR_SLOPE(a, f)", Call("REGR_SLOPE", ("a", "f"))),
        ("MIN_BY(c, ts)", Call("MIN_BY", ("c", "ts"))),
        ("FIRST(a, TRUE)", Call("FIRST_VALUE", "a", nulls="ignore")),
        ("LAST(a, false)", Call("LAST_VALUE", "a", nulls="respect")),
        ("ANY_VALUE(a, true)", Call("ANY_VALUE", "a", nulls="ignore")),
        ("FIRST_VALUE(a IGNORE NULLS)", Call("FIRST_VALUE", "a", nulls="ignore")),
        ("FIRST_VALUE(a) RESPECT NULLS", Call("FIRST_VALUE", "a", nulls="respect")),
        (
            "LAST_VALUE(a) FILTER (WHERE ok) IGNORE NULLS",
            Call("LAST_VALUE", "a", filter="ok", nulls="ignore"),
        ),
        (
            "LAST_VALUE(a) IGNORE NULLS FILTER (WHERE ok)",
            Call("LAST_VALUE", "a", filter="ok", nulls="ignore"),
        ),
        ("FIRST_VALUE(a, ts)", Call("FIRST_VALUE", "a", order_by="ts")),
        (
            "LAST_VALUE(a ORDER BY ts DESC, b NULLS LAST RESPECT NULLS)",
            Call("LAST_VALUE", "a", order_by=("ts DESC", "b NULLS LAST"), nulls="respect"),
        ),
        ("ARRAY_AGG(a ORDER BY `a b`)", Call("ARRAY_AGG", "a", order_by="`a b`")),
        (
            "ARRAY_AGG(a) WITHIN GROUP (ORDER BY t.TS DESC NULLS FIRST)",
            Call("ARRAY_AGG", "a", order_by="ts DESC NULLS FIRST"),
        ),
        ("COLLECT_LIST(a ORDER BY ts)", Call("COLLECT_LIST", "a", order_by="ts")),
        ("LISTAGG(c)", Call("LISTAGG", "c")),
        ("STRING_AGG(c, ';')", Call("LISTAGG", "c", options={"separator": ";"})),
        ("LISTAGG(c, name)", Call("LISTAGG", ("c", "name"))),
        ("LISTAGG(c, separator => '')", Call("LISTAGG", "c", options={"separator": ""})),
        (
            "LISTAGG(DISTINCT c, ', ') WITHIN GROUP (ORDER BY c DESC)",
            Call("LISTAGG", "c", distinct=True, order_by="c DESC", options={"separator": ", "}),
        ),
        (
            "GROUP_CONCAT(c ORDER BY a SEPARATOR '\\n')",
            Call("LISTAGG", "c", order_by="a", options={"separator": "\n"}),
        ),
        ("MODE() WITHIN GROUP (ORDER BY a)", Call("MODE", "a")),
        ("PERCENTILE(a, 0.5)", Call("PERCENTILE", "a", options={"fraction": 0.5})),
        ("PERCENTILE(a, 0.5, b)", Call("PERCENTILE", ("a", "b"), options={"fraction": 0.5})),
        (
            "PERCENTILE(a, frequency => b, fraction => 1)",
            Call("PERCENTILE", ("a", "b"), options={"fraction": 1.0}),
        ),
        (
            "PERCENTILE(a, array(0, 0.25BD, CAST('0.5' AS DOUBLE), 1e-3))",
            Call("PERCENTILE", "a", options={"fraction": [0.0, 0.25, 0.5, 0.001]}),
        ),
        (
            "PERCENTILE(a, ARRAY[0.1, .5D])",
            Call("PERCENTILE", "a", options={"fraction": (0.1, 0.5)}),
        ),
        (
            "PERCENTILE_CONT(0.25) WITHIN GROUP (ORDER BY f)",
            Call("PERCENTILE_CONT", "f", options={"fraction": 0.25}),
        ),
        (
            "PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY f DESC)",
            Call("PERCENTILE_CONT", "f", options={"fraction": 0.1}),
        ),
        (
            "PERCENTILE_CONT(array(0.9, 0.3)) WITHIN GROUP (ORDER BY f DESC) FILTER (WHERE ok)",
            Call("PERCENTILE_CONT", "f", filter="ok", options={"fraction": (0.1, 0.7)}),
        ),
        (
            "PERCENTILE_DISC(0.25) WITHIN GROUP (ORDER BY c)",
            Call("PERCENTILE_DISC", "c", options={"fraction": 0.25}),
        ),
        (
            "PERCENTILE_APPROX(DISTINCT a, 0.5, 100)",
            Call(
                "APPROX_PERCENTILE",
                "a",
                distinct=True,
                options={"fraction": 0.5, "accuracy": 100},
            ),
        ),
        ("APPROX_COUNT_DISTINCT(c)", Call("APPROX_COUNT_DISTINCT", "c")),
        (
            "APPROX_COUNT_DISTINCT(c, 0.01)",
            Call("APPROX_COUNT_DISTINCT", "c", options={"error": 0.01}),
        ),
        ("TOP_K(c, (3))", Call("TOP_K", "c", options={"k": 3})),
        ("APPROX_TOP_K(c, 3L, 100)", Call("APPROX_TOP_K", "c", options={"k": 3, "max_items": 100})),
        ("APPROX_TOP_K(c, max_items => 9)", Call("APPROX_TOP_K", "c", options={"max_items": 9})),
        ("JSON_ARRAYAGG(c)", Call("JSON_ARRAYAGG", "c")),
        ("JSON_ARRAYAGG(c NULL ON NULL)", Call("JSON_ARRAYAGG", "c", options={"on_null": "null"})),
        (
            "JSON_ARRAYAGG(c ORDER BY a ABSENT ON NULL)",
            Call("JSON_ARRAYAGG", "c", order_by="a", options={"on_null": "absent"}),
        ),
        ("JSON_OBJECTAGG(c, a)", Call("JSON_OBJECTAGG", ("c", "a"))),
        ("JSON_OBJECTAGG(c : a)", Call("JSON_OBJECTAGG", ("c", "a"))),
        ("JSON_OBJECTAGG(c VALUE a)", Call("JSON_OBJECTAGG", ("c", "a"))),
        ("JSON_OBJECTAGG(key VALUE a)", Call("JSON_OBJECTAGG", ("key", "a"))),
        ("JSON_OBJECTAGG(key, value)", Call("JSON_OBJECTAGG", ("key", "value"))),
        ("JSON_OBJECTAGG(KEY value VALUE value)", Call("JSON_OBJECTAGG", ("value", "value"))),
        (
            "JSON_OBJECTAGG(KEY c VALUE value ABSENT ON NULL)",
            Call("JSON_OBJECTAGG", ("c", "value"), options={"on_null": "absent"}),
        ),
    ],
)
def test_forms(item: str, call: AggCall) -> None:
    spec = parsed(item)
    assert spec.calls == (call,)
    assert spec.computed == ()
    assert spec.select is None
    assert parsed(call.text).calls == (call,)


def test_expressions_inside_a_call_are_columns_computed_once() -> None:
    spec = parsed(
        "LISTAGG(DISTINCT upper(c), chr(10) ORDER BY upper(c) DESC) FILTER (WHERE a > 1) AS l, "
        "FIRST_VALUE(a + 1, b * 2)"
    )
    assert spec.calls == (
        AggCall(
            "LISTAGG",
            ("UPPER(c)", "CHR(10)"),
            distinct=True,
            filter="(a > 1)",
            alias="l",
            order_by=(SortKey("UPPER(c)", descending=True),),
        ),
        AggCall("FIRST_VALUE", ("(a + 1)",), order_by=(SortKey("(b * 2)"),)),
    )
    assert [column.sql for column in spec.computed] == [
        "CASE WHEN `a` > 1 THEN UPPER(`c`) END",
        "CHR(10)",
        "`a` > 1",
        "`a` + 1",
        "`b` * 2",
    ]
    assert {"UPPER(c)", "(b * 2)"} <= set(spec.handler_schema.names)


def test_a_call_is_found_again_however_it_is_written() -> None:
    spec = AggSpec.from_sql(
        "SELECT a, SIZE(ARRAY_AGG(b ORDER BY ts)) AS n FROM t GROUP BY a "
        "HAVING SIZE(array_agg(b) WITHIN GROUP (ORDER BY ts)) > 1 AND ANY(ok)",
        SCHEMA,
    )
    assert [call.function for call in spec.calls] == ["ARRAY_AGG", "BOOL_OR"]


def test_any_and_some_still_compare() -> None:
    spec = AggSpec.from_sql("SELECT COUNT(*) FROM t WHERE c LIKE ANY ('a%', 'b%')", SCHEMA)
    assert spec.where == "((`c` LIKE 'a%') OR (`c` LIKE 'b%'))"
    with pytest.raises(UnsupportedSqlError, match="subquery"):
        AggSpec.from_sql("SELECT COUNT(*) FROM t WHERE a = ANY (SELECT 1)", SCHEMA)


@pytest.mark.parametrize(
    ("item", "error", "message", "underlined"),
    [
        ("SUM(a ORDER BY b)", SpecError, "SUM takes no ORDER BY", "SUM(a ORDER BY b)"),
        ("JSON_OBJECTAGG(c, a ORDER BY b)", SpecError, "takes no ORDER BY, .*arrival", "JSON"),
        ("SUM(a) WITHIN GROUP (ORDER BY b)", SqlError, "SUM takes no WITHIN GROUP", "b"),
        ("SUM(a) IGNORE NULLS", SpecError, "no IGNORE NULLS.*FILTER .WHERE a IS NOT", "SUM(a) I"),
        ("MAX(a RESPECT NULLS)", SpecError, "MAX takes no RESPECT NULLS", "MAX(a R"),
        ("SUM(a NULL ON NULL)", SqlError, "SUM takes no NULL ON NULL", "SUM(a N"),
        (
            "LISTAGG(DISTINCT c, ',' ORDER BY a)",
            SpecError,
            "DISTINCT, ORDER BY must be the argument itself, not 'a'; write ORDER BY c",
            "LISTAGG(DISTINCT c, ',' ORDER BY a)",
        ),
        (
            "LISTAGG(DISTINCT c, name ORDER BY name)",
            SpecError,
            "must be the argument itself, not 'name'",
            "LISTAGG(",
        ),
        ("ARRAY_AGG(a ORDER BY l)", TypeMismatchError, "'l' is ARRAY<INT>.*sorted", "ARRAY_AGG"),
        ("ARRAY_AGG(a ORDER BY m)", TypeMismatchError, "'m' is MAP<INT,INT>", "ARRAY_AGG"),
        ("ARRAY_AGG(a ORDER BY cc)", UnknownColumnError, "'cc'.*'c'", "cc"),
        ("FIRST_VALUE(a, 1)", SqlError, "sorts by a constant", "1"),
        ("ARRAY_AGG(a ORDER BY SUM(a))", UnsupportedSqlError, "two steps", "SUM(a)"),
        ("ARRAY_AGG(a ORDER BY b) WITHIN GROUP (ORDER BY c)", SqlError, "two ORDER BY", "c"),
        ("FIRST_VALUE(a, b ORDER BY ts)", SqlError, "two orders", "b"),
        ("FIRST_VALUE(a, b, ts)", TypeMismatchError, "one argument, got 3", "FIRST_VALUE(a"),
        ("FIRST(a, TRUE) IGNORE NULLS", SqlError, "says twice what NULLs do", "FIRST(a, TRUE)"),
        ("MODE() WITHIN GROUP (ORDER BY a DESC)", SqlError, "no DESC.*take DESC out", "a"),
        ("MODE() WITHIN GROUP (ORDER BY a, b)", SqlError, "one column in WITHIN GROUP", "b"),
        (
            "PERCENTILE_DISC(0.9) WITHIN GROUP (ORDER BY f DESC)",
            SqlError,
            "no DESC.*1 minus the fraction",
            "f",
        ),
        ("PERCENTILE_CONT(0.5) WITHIN GROUP (f)", SqlError, "Expected ORDER BY", "f"),
        (
            "PERCENTILE(a, b + 1)",
            SqlError,
            r"constant for fraction, argument 2, such as 0.5 or array.*; \(b \+ 1\) is none",
            "b + 1",
        ),
        ("TOP_K(c, k => a)", SqlError, "constant for k", "a"),
        ("TOP_K(c, NULL)", SqlError, "constant for k", "TOP_K(c, NULL)"),
        ("TOP_K(c, kk => 3)", SqlError, "no argument 'kk': Did you mean 'k'", "kk => 3"),
        ("TOP_K(c, 3, k => 3)", SqlError, "has k twice", "k => 3"),
        ("TOP_K(c, 1, 2)", SqlError, r"at most 2 arguments \(x, k\), got 3", "2"),
        ("TOP_K(c, 0)", SpecError, "'k' must be an integer of at least 1", "TOP_K(c, 0)"),
        ("PERCENTILE(a)", SpecError, "'fraction'", "PERCENTILE(a)"),
        ("PERCENTILE(a, 1.5)", SpecError, "'fraction' must be a number from 0", "PERCENTILE(a"),
        ("SUM(a, b)", TypeMismatchError, "SUM takes one argument, got 2", "SUM(a, b)"),
        ("MODE()", TypeMismatchError, "MODE takes one argument", "MODE()"),
        ("MAX(*)", UnsupportedSqlError, "plain column", "*"),
        ("COUNT(t.*)", UnsupportedSqlError, "plain column", "t.*"),
        ("JSON_OBJECTAGG(KEY c)", SqlError, "Expected VALUE", ")"),
        ("SUM(a,)", SqlError, "Expected an argument", ")"),
        ("COUNT(DISTINCT)", SqlError, "Expected an argument", ")"),
        ("TOP_K(c, k => )", SqlError, "Expected a value", ")"),
        ("GROUP_CONCAT(c SEPARATOR)", SqlError, "Expected a separator", ")"),
        ("ARRAY_AGG(a ORDER BY)", SqlError, "cannot be read", ")"),
        ("MODE() WITHIN GROUP (ORDER BY)", SqlError, "cannot be read", ")"),
        ("SUM(a) FILTER (WHERE)", SqlError, "Expected a condition", ")"),
        ("SUM(a LIMIT 3)", SqlError, "cannot be read", "LIMIT"),
        ("SUM(a) FILTER (WHERE ok) FILTER (WHERE ok)", SqlError, "FILTER is given twice", ")"),
        ("FIRST(a IGNORE NULLS) RESPECT NULLS", SqlError, "NULLS is given twice", "NULLS"),
        ("ARRAY_AGG(a) OVER (ORDER BY b)", UnsupportedSqlError, "OVER", "ARRAY_AGG(a)"),
        ("GROUPING(a)", UnsupportedSqlError, "GROUPING", "GROUPING(a)"),
        ("MYAGG(a) FILTER (WHERE ok)", UnknownFunctionError, "MYAGG", "MYAGG(a) FILTER (WHERE ok)"),
        ("LEAD(a, 1)", UnknownFunctionError, "LEAD.*with OVER", "LEAD(a, 1)"),
    ],
)
def test_refusals_underline_their_place(
    item: str, error: type[SpecError], message: str, underlined: str
) -> None:
    with pytest.raises(error, match=message) as caught:
        parsed(item)
    *_, line, carets = str(caught.value).split("\n")
    start, end = carets.index("^"), len(carets)
    assert line[start:end].startswith(underlined)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            Call("SUM", "a", order_by="b"),
            SpecError,
            r"call sum\(a ORDER BY b\): SUM takes no ORDER",
        ),
        (Call("SUM", "a", nulls="ignore"), SpecError, "SUM takes no IGNORE NULLS"),
        (Call("ARRAY_AGG", "a", nulls="ignor"), SpecError, "'ignor'.*'ignore'"),
        (Call("ARRAY_AGG", "a", order_by="bb"), UnknownColumnError, "ORDER BY.*'bb'"),
        (Call("ARRAY_AGG", "a", order_by="l"), TypeMismatchError, "ARRAY<INT>"),
        (Call("ARRAY_AGG", "a", distinct=True, order_by="b"), SpecError, "write ORDER BY a"),
        (Call("TOP_K", "a", options={"kk": 1}), SpecError, "'kk'.*'k'"),
        (Call("SUM", "a", options={"k": 1}), SpecError, "SUM has no option 'k'"),
        (
            Call("LISTAGG", ("a", "c"), options={"separator": ","}),
            SpecError,
            "separator is given as a column and as a constant",
        ),
    ],
)
def test_calls_made_by_hand_are_checked_alike(
    call: AggCall, error: type[SpecError], message: str
) -> None:
    with pytest.raises(error, match=message):
        AggSpec(SCHEMA, calls=(call,))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("order_by: {ts: DESC}", "order_by is {'ts': 'DESC'}; it must be a text such as"),
        ("order_by: [ts, 1]", "order_by is .*list of them"),
        ("order_by: ['']", "order_by ''"),
        ("options: [1]", "options is .*mapping"),
        ("options: {k: {a: 1}}", "options is .*constants"),
        ("options: {1: 1}", "options is .*mapping"),
        ("nulls: 1", "nulls is 1; it must be 'ignore'"),
        ("nulls: never", "'never'"),
        ("distinct: 1", "distinct is 1; it must be true or false"),
        ("args: {a: 1}", "args is .*a list of columns"),
        ("orderby: ts", "'orderby'.*'order_by'"),
    ],
)
def test_wrong_shapes_in_yaml(entry: str, message: str) -> None:
    text = f"schema: {{a: INT, ts: INT}}\ncalls:\n- {{function: ARRAY_AGG, args: a}}\n  {entry}\n"
    text = text.replace("}\n  ", f", {entry}}}\n#")
    with pytest.raises(SpecError, match=message):
        AggSpec.from_yaml(text)


def test_yaml_of_a_call_with_everything() -> None:
    text = (
        "schema: {a: INT, c: STRING, ts: TIMESTAMP}\n"
        "calls:\n"
        "- function: listagg\n"
        "  args: c\n"
        "  order_by: [ts desc nulls first, a]\n"
        "  options: {separator: ', '}\n"
        "- {function: PERCENTILE, args: a, options: {fraction: [0.25, 0.75]}}\n"
        "- {function: FIRST, args: a, order_by: ts, nulls: RESPECT}\n"
    )
    spec = AggSpec.from_yaml(text)
    assert spec.calls == (
        Call("LISTAGG", "c", order_by=("ts DESC NULLS FIRST", "a"), options={"separator": ", "}),
        Call("PERCENTILE", "a", options={"fraction": (0.25, 0.75)}),
        Call("FIRST_VALUE", "a", order_by="ts", nulls="respect"),
    )
    assert AggSpec.from_yaml(spec.to_yaml()) == AggSpec.from_json(spec.to_json()) == spec


def test_json_of_plain_calls_has_only_what_they_have() -> None:
    assert '"calls":[{"args":["a"],"function":"SUM"}]' in parsed("SUM(a)").to_json()
    full = parsed("FIRST_VALUE(a ORDER BY `a b` DESC IGNORE NULLS) AS f").to_json()
    assert (
        '{"alias":"f","args":["a"],"function":"FIRST_VALUE","nulls":"ignore","order_by":["`a b` DESC"]}'
        in full
    )


_OF_KIND = {
    "any": ("a", "b", "c", "f", "ts", "ok", "name"),
    "number": ("a", "b", "f"),
    "integer": ("a", "b"),
    "boolean": ("ok",),
    "scalar": ("c", "name"),
}


def _arguments(random: Random, entry: Aggregate, options: dict[str, object]) -> tuple[str, ...]:
    found = []
    for argument in entry.arguments:
        if argument.name in options or (argument.optional and random.random() < 0.5):
            break
        count = random.randint(1, 3) if argument.many else 1
        found += [random.choice(_OF_KIND[argument.kind]) for _ in range(count)]
    return tuple(found)


def _value(random: Random, option: Option) -> object:
    fractions = [0.0, 0.125, 0.5, 1e-05, 1.0]
    if option.kind == "fractions" and random.random() < 0.5:
        return tuple(random.choice(fractions) for _ in range(random.randint(1, 3)))
    return {
        "text": random.choice([", ", "", "it's", '"', "\\", "\n\t", "ß", "%", "--", "/*"]),
        "whole": random.randint(option.least, 10**6),
        "fraction": random.choice(fractions[1:4]),
        "fractions": random.choice(fractions),
        "choice": random.choice(option.choices or ("",)),
    }[option.kind]


def _any_call(random: Random) -> AggCall:
    entry = random.choice(list(CATALOGUE.values()))
    given = [each for each in entry.options if each.required or random.random() < 0.5]
    options = {option.name: _value(random, option) for option in given}
    args = _arguments(random, entry, options)
    weighted = entry.name == "PERCENTILE" and len(args) > 1
    distinct = bool(args) and not weighted and random.random() < 0.3
    keys: list[SortKey] = []
    if entry.ordered is not None and random.random() < 0.6:
        columns = args[:1] if distinct else _OF_KIND["any"]
        keys = [
            SortKey(random.choice(columns), random.random() < 0.5, random.random() < 0.5)
            for _ in range(random.randint(1, 3))
        ]
    return Call(
        random.choice((entry.name, *entry.aliases)),
        args,
        distinct,
        random.choice([None, "ok"]),
        None,
        keys,
        None if entry.nulls is None else random.choice([None, "ignore", "respect"]),
        options,
    )


def test_any_call_comes_back_from_its_text() -> None:
    random = Random(7)
    calls = [_any_call(random) for _ in range(400)]
    assert {call.function for call in calls} == set(CATALOGUE)
    for call in calls:
        spec = parsed(call.text)
        assert spec.calls == (call,), call.text
        again = AggSpec(SCHEMA, (), (call,), "append", select=spec.select)  # type: ignore[arg-type]
        assert spec == again
        assert spec.digest == AggSpec.from_json(spec.to_json()).digest


@pytest.mark.parametrize(
    "name", ["a", "a b", "DESC", "a DESC", "`", "a`b", "NULLS FIRST", "ß", "1"]
)
def test_sort_keys_come_back_from_their_text(name: str) -> None:
    for descending in (False, True):
        for first in (False, True, None):
            key = SortKey(name, descending, first)
            assert SortKey.parse(key.text) == key
