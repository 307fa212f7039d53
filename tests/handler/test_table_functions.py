"""Users' table functions: registered, called in FROM, checked; what may not travel, and what fails as it runs."""

from __future__ import annotations

import datetime
import math
import random
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import aggloom as al
from aggloom.codegen.planner import Correlate, UserRows, plan_query, walk
from aggloom.errors import DataError, SpecError, UnknownFunctionError

MOST = 2
TABLES = {"t": "id INT, s STRING, n INT, d DECIMAL(10,2), a ARRAY<INT>"}


@pytest.fixture(autouse=True)
def functions() -> Iterator[None]:
    """The functions of this module, registered for a test."""

    @al.table_function(
        "WORDS",
        arguments={"text": "STRING", "by": "STRING"},
        columns={"word": "STRING", "size": "BIGINT"},
    )
    def words(text: str, by: str) -> Iterator[tuple[str, int]]:
        for word in text.split(by)[:MOST]:
            yield word, math.floor(len(word))

    @al.table_function(
        "HALVES", arguments={"n": "BIGINT"}, columns={"x": "DOUBLE"}, nulls="respect"
    )
    class Halves:
        PART = 2

        def rows(n: int | None) -> list[float | None]:  # noqa: N805
            return [None] if n is None else [Halves.halve(each) for each in range(n)]

        def halve(n: int) -> float:  # noqa: N805
            return n / Halves.PART

    @al.table_function("BROKEN", arguments={"n": "INT"}, columns={"x": "INT", "y": "INT"})
    def broken(n: int) -> list[Any]:
        return {1: [(1,)], 2: [(1, "a")], 3: [(2**40, 1)], 4: [7]}.get(n) or [(1, 1 // 0)]

    yield
    for name in ("WORDS", "HALVES", "BROKEN"):
        al.unregister(name)


def table_of(sql: str, *changes: tuple[Any, ...]) -> Counter[Any]:
    with al.Harness.from_sql(sql, tables=TABLES, backend="python") as harness:
        if changes:
            harness.process(list(changes), table="t")
        harness.flush()
        return Counter(harness.table())


ROWS = (
    ("+I", 1, "a bb c", 2, None, None),
    ("+I", 2, None, None, None, None),
    ("+I", 3, "d", 0, None, None),
    ("+I", 4, "x y", 1, None, None),
    ("-D", 4, "x y", 1, None, None),
)


@pytest.mark.parametrize(
    ("sql", "wanted"),
    [
        (
            "SELECT id, word, size FROM t, LATERAL TABLE(words(s, ' ')) AS u",
            [(1, "a", 1), (1, "bb", 2), (3, "d", 1)],
        ),
        (
            "SELECT id, w FROM t CROSS JOIN LATERAL TABLE(WORDS(s, ' ')) AS u(w, l) WHERE l > 1",
            [(1, "bb")],
        ),
        (
            "SELECT id, w FROM t LEFT JOIN LATERAL words(s, ' ') AS u(w, l) ON TRUE",
            [(1, "a"), (1, "bb"), (2, None), (3, "d")],
        ),
        (
            "SELECT w, COUNT(*) FROM t LATERAL VIEW words(s, ' ') v AS w, l GROUP BY w",
            [("a", 1), ("bb", 1), ("d", 1)],
        ),
        ("SELECT id, x FROM t, LATERAL TABLE(halves(n)) AS u(x)", [(1, 0.0), (1, 0.5), (2, None)]),
        ("SELECT * FROM TABLE(words('a b c', ' '))", [("a", 1), ("b", 1)]),
    ],
)
def test_rows_are_those_of_the_function(sql: str, wanted: list[Any]) -> None:
    assert table_of(sql, *([] if "FROM TABLE" in sql else ROWS)) == Counter(wanted)


def test_arguments_become_wider_and_columns_have_their_types() -> None:
    plan = plan_query("SELECT * FROM t, LATERAL TABLE(halves(n + 1)) AS u", TABLES)
    (node,) = (each for each in walk(plan.root) if isinstance(each, Correlate))
    assert [str(each) for each in node.call.answers.types] == ["double"]
    assert str(node.input.schema.field(node.call.arguments[0]).type) == "int64"


def test_explain_names_it_and_it_stays_out_of_stateful_nodes() -> None:
    sql = (
        "SELECT n, w, COUNT(*) AS c FROM (SELECT n, MAX(s) AS m FROM t GROUP BY n) AS g, "
        "LATERAL TABLE(words(m, ' ')) AS u(w, l) GROUP BY n, w"
    )
    text = str(al.explain(sql, tables=TABLES))
    assert "Correlate(invocation=[WORDS(" in text
    assert "WORDS: a table function of your own, row by row in Python" in text
    assert "WORDS, a table function of your own, is between them" in text
    assert table_of(sql, *ROWS) == Counter([(2, "a", 1), (2, "bb", 1), (0, "d", 1)])


def test_another_definition_is_another_lineage() -> None:
    sql = "SELECT word FROM t, LATERAL TABLE(words(s, ' ')) AS u"

    def lineage_of() -> str:
        return next(
            each.lineage
            for each in walk(plan_query(sql, TABLES).root)
            if isinstance(each, Correlate)
        )

    before = lineage_of()

    def other(text: str, by: str) -> list[tuple[str, int]]:
        return [(text + by, 1)]

    parts = {
        "arguments": {"text": "STRING", "by": "STRING"},
        "columns": {"word": "STRING", "size": "BIGINT"},
    }
    with pytest.raises(SpecError, match="WORDS is registered already with another definition"):
        al.table_function("words", **parts)(other)
    al.table_function("words", **parts, replace=True)(other)
    assert lineage_of() != before


def calls_now(n: int) -> list[Any]:
    return [datetime.datetime.now().year + n]


def calls_random(n: int) -> list[Any]:
    return [random.random() + n]


def takes_two(n: int, m: int) -> list[Any]:
    return [n + m]


def calls_another(n: int) -> list[Any]:
    return takes_two(n, n)


REFUSED: list[tuple[Callable[..., Any], dict[str, Any], str]] = [
    (calls_now, {}, "rows uses 'now', which gives another value when it runs again"),
    (
        calls_random,
        {},
        "rows uses 'random', a module of the module around it, which does not travel",
    ),
    (takes_two, {}, "rows must take 1 arguments"),
    (calls_another, {}, "rows uses 'takes_two', a function of the module around it"),
    (calls_now, {"columns": {}}, "columns is empty"),
    (calls_now, {"arguments": {"n": "INTT"}}, "argument 'n': 'INTT' is not a supported type"),
    (calls_now, {"nulls": "skip"}, "nulls is 'skip'"),
    (calls_now, {"name": "UNNEST"}, "rows uses 'now'"),
    (calls_now, {"name": "a b"}, "the name is 'a b'; give a plain word"),
    (lambda n: [n], {}, "give a function that `def` makes"),
    (len, {}, "decorates a function or a class"),
]


@pytest.mark.parametrize(("function", "more", "message"), REFUSED)
def test_what_may_not_be_registered(
    function: Callable[..., Any], more: dict[str, Any], message: str
) -> None:
    given = {"name": "F", "arguments": {"n": "INT"}, "columns": {"x": "INT"}, **more}
    with pytest.raises(SpecError, match=message):
        al.table_function(given.pop("name"), **given)(function)


def test_a_built_in_name_is_taken() -> None:
    def same(n: int) -> list[int]:
        return [n]

    with pytest.raises(SpecError, match="EXPLODE is a built-in table function"):
        al.table_function("explode", arguments={"n": "INT"}, columns={"x": "INT"})(same)


@pytest.mark.parametrize(
    ("n", "message"),
    [
        (1, r"BROKEN\(1\) gives \(1,\) as a row; give tuples of 2 values \(x, y\)"),
        (2, "BROKEN: a value of its column 'y' is no INT"),
        (3, "BROKEN: a value of its column 'x' is no INT"),
        (4, r"BROKEN\(4\) gives 7 as a row"),
        (5, r"BROKEN\(5\) fails: ZeroDivisionError"),
    ],
)
def test_errors_of_a_call_name_it_and_its_arguments(n: int, message: str) -> None:
    sql = "SELECT id, x, y FROM t, LATERAL TABLE(broken(id)) AS u"
    with pytest.raises(DataError, match=message):
        table_of(sql, ("+I", n, "", 1, None, None))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("words(s)", "WORDS takes 2 arguments, not 1"),
        ("halves(s)", "HALVES needs BIGINT, not STRING"),
        ("wordz(s, s)", "there is no table function WORDZ. Did you mean 'WORDS'"),
    ],
)
def test_calls_that_do_not_fit_are_underlined(call: str, message: str) -> None:
    with pytest.raises(SpecError) as error:
        plan_query(f"SELECT id FROM t, LATERAL TABLE({call}) AS u", TABLES)
    assert str(error.value).startswith(message)
    assert "^" in str(error.value).splitlines()[-1]


def test_a_name_that_is_forgotten_is_unknown() -> None:
    with pytest.raises(UnknownFunctionError, match="no function NOBODY is registered"):
        al.unregister("nobody")


def test_a_plan_carries_the_source() -> None:
    plan = plan_query("SELECT word FROM t, LATERAL TABLE(words(s, ' ')) AS u", TABLES)
    (call,) = (each.call for each in walk(plan.root) if isinstance(each, Correlate))
    assert isinstance(call, UserRows)
    assert call.source.startswith("import math\nMOST = 2\n")
