"""Users' functions as classes: sources, arguments, states, results, and what is compiled."""

from __future__ import annotations

import datetime as dt
import json
import math
import re
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from udafs import (
    BACKENDS,
    CHANGES,
    COUNT,
    RETRACT,
    define,
    entry,
    my_avg,
    one,
    source,
    spec_of,
    table,
)

import aggloom as al
from aggloom.codegen.catalogue.registry import USER_DEFINED
from aggloom.errors import ArithmeticOverflowError, DataError, SpecError, TypeMismatchError

pytestmark = pytest.mark.usefixtures("registry")

LIMIT = 3


@pytest.mark.parametrize(
    "name",
    ['a"); import os; (', "a b", "", "1a", "_a", "größe", "a.b", "a\nb", "a-b", "ß", 3, None],
)
def test_hostile_names_are_refused(name: Any) -> None:
    for make in (
        lambda: entry(name, [COUNT], "count"),
        lambda: al.register(
            {"name": name, "arguments": [], "result": "INT", "source": "class A: pass"}
        ),
        lambda: al.aggregate(name, arguments={}, result="INT")(type("A", (), {})),
    ):
        with pytest.raises(SpecError):
            make()


@pytest.mark.parametrize(
    "name", ['x"); import os; (', "class", "state", "other_x", "x y", "__x", "rt", ""]
)
def test_hostile_arguments_are_refused(name: str) -> None:
    with pytest.raises(SpecError, match="name of an argument"):
        entry("G", [COUNT], "count", arguments=(al.Argument(name, "number"),))
    with pytest.raises(SpecError, match="name of an argument"):
        define_source([[name, "INT"]], "def create(): return 0")


def define_source(arguments: Any, body: str, before: str = "") -> None:
    text = before + source(body)
    al.register({"name": "F", "arguments": arguments, "result": "BIGINT", "source": text})


STEPS = (
    "def create(): return 0\ndef accumulate(state, x): return {}\ndef value(state): return state"
)


@pytest.mark.parametrize(
    ("body", "before", "message"),
    [
        ("def create(", "", "is not Python"),
        ("x = open('/etc/passwd')", "", "may not stand in class"),
        (STEPS.format("state"), "import os\n", "may not stand beside the class"),
        (STEPS.format("state"), "print('hi')\n", "may not stand beside the class"),
        (STEPS.format("state"), "X = print('hi')\n", "may not stand beside the class"),
        (STEPS.format("eval('1')"), "", "reaches outside"),
        (STEPS.format("open('f').read()"), "", "reaches outside"),
        (STEPS.format("__import__('os')"), "", "reaches outside"),
        (STEPS.format("os.getpid()"), "", "'os', which is neither"),
        (STEPS.format("().__class__"), "", "Python's own"),
        (STEPS.format("help_me(x)"), "", "make it a method or a constant"),
        (STEPS.format("value(state)"), "", r"write F\.value"),
        (STEPS.format("F"), "", "by itself"),
        (STEPS.format("F.other(x)"), "", "uses `F.other`"),
        ("def create(): return 0", "", "has no `def accumulate"),
        (STEPS.format("state").replace("state, x", "state"), "", "must take 2 arguments"),
        (STEPS.format("state").replace("state, x", "state, *x"), "", "must take 2 arguments"),
        ("@property\n" + STEPS.format("state"), "", "no decorator but @staticmethod"),
        ("def __init__(self): pass\n" + STEPS.format("state"), "", "Python's own"),
        ("def f(x=open): pass\n" + STEPS.format("state"), "", "default that is no constant"),
        ("def f():\n    import os\n" + STEPS.format("state"), "", "says `import os`"),
        (STEPS.format("state"), "class G:\n    pass\n", "must hold one class, not 2"),
        (STEPS.format("[math for math in (x,)][0] + math.pi"), "import math\n", "hides another"),
        (STEPS.format("state").replace("0", "1 // 0"), "", "create fails: ZeroDivisionError"),
        (STEPS.format("state").replace("0", "print"), "", "cannot be saved"),
        ("def create(): return 0\ndef accumulate(state, x): state += x\ndef value(state): return 1", "",
         "accumulate returns nothing"),
    ],
)  # fmt: skip
def test_hostile_and_wrong_sources_are_refused(body: str, before: str, message: str) -> None:
    with pytest.raises(SpecError, match=message) as caught:
        define_source([["x", "INT"]], body, before)
    assert str(caught.value).startswith("F: ")
    assert not USER_DEFINED


def test_a_base_class_or_a_wrong_definition_is_refused() -> None:
    wrong: list[Any] = [42, {}, {"name": "F"}, {"name": "F", "foo": 1}, {"name": "F", "source": 1}]
    wrong += [
        {"name": "F", "arguments": [["x"]], "result": "INT", "source": source(STEPS.format("x"))}
    ]
    wrong += [
        {"name": "F", "arguments": [], "result": "INT", "source": "class F(dict):\n    x = 1"}
    ]
    for definition in wrong:
        with pytest.raises(SpecError):
            al.register(definition)
        with pytest.raises(SpecError):
            content = {
                "schema": {"x": "INT"},
                "calls": [{"function": "COUNT"}],
                "functions": [definition],
            }
            al.AggSpec.from_json(json.dumps(content))


def test_what_a_class_takes_along() -> None:
    scale = 10

    @al.aggregate("SCALED", arguments={"x": "INT"}, result="DOUBLE")
    class Scaled:
        OFFSET = 0.5

        def create(self) -> float:
            return 0.0

        def accumulate(self, state: float, x: int) -> float:
            return self.scaled(state, x)

        @staticmethod
        def scaled(state: float, x: int) -> float:
            limited: int = min(x, LIMIT)
            return state + math.sqrt(np.float64(limited) * scale) + Scaled.OFFSET

        def value(self, state: float) -> float:
            return state

    text = USER_DEFINED["SCALED"].code.source  # type: ignore[union-attr]
    for line in ("LIMIT = 3", "import math", "import numpy as np", "scale = 10"):
        assert line in text
    assert "@" not in text.partition("class")[0]
    for backend in BACKENDS:
        expected = math.sqrt(20) + math.sqrt(30) + 1
        assert al.generate(spec_of("SCALED(x)", changes="append"), backend).backend == backend  # type: ignore[arg-type]
        assert one("SCALED(x)", (2, 9), changes="append", backend=backend) == pytest.approx(
            expected
        )


def test_what_a_class_may_not_take_along() -> None:
    def helper(x: int) -> int:
        return x

    with pytest.raises(
        SpecError, match="F: accumulate uses 'helper', a function of the module around it"
    ):

        @al.aggregate("F", arguments={"x": "INT"}, result="INT")
        class Uses:
            def create():  # type: ignore[no-untyped-def,misc]
                return 0

            def accumulate(state, x):  # type: ignore[no-untyped-def]  # noqa: N805
                return state + helper(x)

            def value(state):  # type: ignore[no-untyped-def]  # noqa: N805
                return state

    space: dict[str, Any] = {"al": al}
    text = "@al.aggregate('F', arguments={}, result='INT')\n" + source(STEPS.format("state"))
    with pytest.raises(SpecError, match="not at hand; define the class in a file"):
        exec(text, space)


@pytest.mark.parametrize(
    ("dtype", "value", "kind"),
    [
        ("BIGINT", 2**40, "int"),
        ("DOUBLE", 0.5, "float"),
        ("FLOAT", 0.5, "float"),
        ("BOOLEAN", True, "bool"),
        ("STRING", "ä'\"", "str"),
        ("BINARY", b"\0\xff", "bytes"),
        ("DECIMAL(10,2)", Decimal("1.50"), "Decimal"),
        ("DECIMAL(38,2)", Decimal("-123456789012345678901234567.50"), "Decimal"),
        ("DATE", dt.date(2020, 2, 29), "date"),
        ("TIMESTAMP_NTZ", dt.datetime(2020, 2, 29, 1, 2, 3, 4), "datetime"),
        ("TIMESTAMP", dt.datetime(2020, 2, 29, 1, 2, 3, 4, dt.UTC), "datetime"),
        ("ARRAY<INT>", [1, None], "list"),
        ("STRUCT<a INT, b STRING>", {"a": 1, "b": None}, "dict"),
    ],
)
def test_arguments_are_ordinary_python_values(dtype: str, value: Any, kind: str) -> None:
    define("SAME", "[]", "state.append(x)", "state[0]", "argument")
    calls = "SAME(x) AS s, SAME(DISTINCT x) AS d, SAME(DISTINCT x) FILTER (WHERE k = 'k') AS f"
    got = one(calls, (value, value, None), dtype, changes="append")
    assert got == (value,) * 3
    assert all(type(each).__name__ == kind for each in got)
    if dtype != "TIMESTAMP":
        define("SHOWN", "[]", "state.append(repr(x))", "state[0]", "STRING")
        calls = "SHOWN(x) AS s, SHOWN(DISTINCT x) AS d"
        assert one(calls, (value,), dtype, changes="append") == (repr(value),) * 2


def test_states_of_any_shape_survive_a_snapshot() -> None:
    state = (
        "{'list': [], 1: (2, [3.5]), 'set': set(), 'none': None, (1, 'a'): frozenset([1]), 'b': b'x',"
        " 'f': float('nan'), 'i': float('-inf'), 'd': decimal.Decimal('1.50'), 'day': datetime.date(2020, 1, 2),"
        " 'at': datetime.datetime(2020, 1, 2, 3), 't': datetime.time(4), 'span': datetime.timedelta(5, 6, 7)}"
    )
    text = "import datetime\nimport decimal\n" + source(
        f"def create(): return {state}\n"
        "def accumulate(state, x):\n    state['list'].append(x)\n    state['set'].add(str(x))\n"
        "def value(state): return str([(k, sorted(v) if k == 'set' else v) for k, v in state.items()])"
    )
    al.register({"name": "DEEP", "arguments": {"x": "any"}, "result": "STRING", "source": text})
    spec = spec_of("DEEP(x) AS d", changes="append")
    with al.Harness(spec, backend="python") as harness:
        harness.process([("+I", "a", 1, 0), ("+I", "b", 2, 0), ("+I", "a", 3, 0)])
        saved, shown = harness.snapshot(), harness.table()
    assert "Decimal('1.50')" in shown[0][1] and "nan" in shown[0][1]
    with al.Harness(spec, backend="python") as harness:
        harness.restore(saved)
        assert harness.table() == shown
        harness.process([("+I", "a", 4, 0)])
        harness.flush()
        assert "[1, 3, 4]" in harness.table()[0][1]


@pytest.mark.parametrize(
    ("value", "result", "values", "expected"),
    [
        ("state", "BIGINT", (2**40,), 2**40),
        ("float(state)", "DOUBLE", (3,), 3.0),
        ("state", "DOUBLE", (3,), 3.0),
        ("state > 2", "BOOLEAN", (3,), True),
        ("str(state)", "STRING", (3,), "3"),
        ("decimal.Decimal(state) / 8", "DECIMAL(5,2)", (3,), Decimal("0.38")),
        ("state", "DECIMAL(5,2)", (3,), Decimal("3.00")),
        ("datetime.date(2020, 1, state)", "DATE", (3,), dt.date(2020, 1, 3)),
        ("[state, None]", "ARRAY<INT>", (3,), [3, None]),
        ("{'a': state}", "STRUCT<a INT>", (3,), {"a": 3}),
        ("None", "STRING", (3,), None),
        ("np.int64(state)", "BIGINT", (3,), 3),
        ("np.float64(state)", "DOUBLE", (3,), 3.0),
    ],
)
def test_results(value: str, result: str, values: Any, expected: Any) -> None:
    typed(value, result)
    assert one("F(x)", values, "BIGINT", changes="append") == expected


def typed(value: str, result: str) -> None:
    text = "import datetime\nimport decimal\nimport numpy as np\n" + source(
        f"def create(): return 0\ndef accumulate(state, x): return state + x\ndef value(state): return {value}"
    )
    al.register({"name": "F", "arguments": {"x": "BIGINT"}, "result": result, "source": text})


@pytest.mark.parametrize(
    ("value", "result", "message"),
    [
        ("state / 2", "BIGINT", "F: value gives 1.5, a float, and the result is BIGINT"),
        ("state > 2", "BIGINT", "F: value gives True, a bool, and the result is BIGINT"),
        ("'x'", "DOUBLE", "F: value gives 'x', a str, and the result is DOUBLE"),
        ("state", "STRING", "F: value gives 3, a int, and the result is STRING"),
        ("state", "BOOLEAN", "F: value gives 3, a int, and the result is BOOLEAN"),
        ("1.5", "DECIMAL(5,2)", "F: value gives 1.5, a float"),
        ("datetime.datetime(2020, 1, 1)", "DATE", "a datetime, and the result is DATE"),
        ("'x'", "ARRAY<INT>", "which is no ARRAY<INT>"),
        ("state // 0", "BIGINT", "F.* failed: ZeroDivisionError"),
        ("state.foo", "BIGINT", "F: value failed: AttributeError"),
    ],
)
@pytest.mark.parametrize("backend", BACKENDS)
def test_wrong_results_are_data_errors(value: str, result: str, message: str, backend: Any) -> None:
    typed(value, result)
    with pytest.raises(DataError, match=message):
        one("F(x)", (3,), "BIGINT", changes="append", backend=backend)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dialect", ["spark", "flink"])
def test_a_result_that_does_not_fit_is_an_overflow(backend: Any, dialect: Any) -> None:
    typed("state", "TINYINT")
    spec = al.AggSpec("x INT", (), [al.AggCall("F", "x")], "append", dialect)
    with al.Harness(spec, backend=backend) as harness:
        harness.process([("+I", 127)])
        harness.flush()
        assert harness.table() == [(127,)]
        harness.process([("+I", 1)])
        with pytest.raises(ArithmeticOverflowError, match="does not fit TINYINT"):
            harness.flush()


def test_nulls() -> None:
    define("SEEN", "[]", "state.append(x)", "str(state)", "STRING", nulls="respect")
    define("NOT_NULL", "[]", "state.append(x)", "str(state)", "STRING")
    calls = "SEEN(x) AS s, NOT_NULL(x) AS n, SEEN(DISTINCT x) AS d, SEEN(x) IGNORE NULLS AS i"
    got = one(calls, (None, 1, None, 2), changes="append")
    assert got == ("[None, 1, None, 2]", "[1, 2]", "[None, 1, 2]", "[1, 2]")
    assert one(calls, (None,), changes="append") == ("[None]", "[]", "[None]", "[]")
    with pytest.raises(SpecError, match="NOT_NULL takes no RESPECT NULLS"):
        spec_of("NOT_NULL(x) RESPECT NULLS", changes="append")
    with pytest.raises(SpecError, match="nulls is 'keep'"):
        define("F", "0", "return 0", "0", "INT", nulls="keep")


def test_arguments_are_checked() -> None:
    my_avg()
    for call, message in [
        ("MY_AVG(x)", "MY_AVG takes two arguments, got 1"),
        ("MY_AVG(k, x)", "MY_AVG needs BIGINT, got STRING"),
        ("MY_AVG(x, CAST(x AS BIGINT))", "MY_AVG needs INT, got BIGINT"),
        ("MY_AVG(x, 1.5)", "MY_AVG needs INT, got DECIMAL"),
    ]:
        with pytest.raises(TypeMismatchError, match=re.escape(message)):
            spec_of(call)
    with pytest.raises(SpecError, match=r"neither a kind nor a type\. Did you mean 'number'"):
        define("F", "0", "return 0", "0", "INT", "numbr")
    with pytest.raises(SpecError, match="not a supported type"):
        define("F", "0", "return 0", "0", "INTT")


def test_narrower_numbers_become_what_is_declared() -> None:
    define("HALVES", "[]", "state.append(x)", "str(state)", "STRING", "DOUBLE")
    assert one("HALVES(x)", (1, 2), "SMALLINT", changes="append") == "[1.0, 2.0]"
    define("WITH_NULLS", "[]", "state.append(x)", "str(state)", "STRING", "DOUBLE", nulls="respect")
    assert one("WITH_NULLS(x)", (1, None), changes="append") == "[1.0, None]"


def test_no_two_keys_share_a_constant() -> None:
    text = "EMPTY = []\n" + source(
        "def create(): return EMPTY\ndef accumulate(state, x): state.append(x)\ndef value(state): return state"
    )
    al.register({"name": "KEPT", "arguments": {"x": "INT"}, "result": "ARRAY<INT>", "source": text})
    assert table("KEPT(x) AS s", [("+I", "a", 1, 0), ("+I", "b", 2, 0)], changes="append") == [
        ("a", [1]),
        ("b", [2]),
    ]


def test_a_class_that_compiles_and_ones_that_do_not() -> None:
    my_avg()
    text = al.explain("SELECT MY_AVG(x, y) AS m FROM t", "x INT, y INT")
    assert "state1_my_avg_x_y                int      8 bytes a key" in text
    assert "backend compiled by Numba" in text
    assert "my_avg(x, y): compiled" in text
    define(
        "LISTED",
        "[]",
        "state.append(x)",
        "len(state)",
        "BIGINT",
        "INT",
        methods={"retract(state, x)": "state.remove(x)"},
    )
    define("SORTS", "0", "return sorted([state, x])[0]", "state", "BIGINT", "INT", methods=RETRACT)
    define("TEXTS", "0", "return state + len(str(x))", "state", "BIGINT", "INT", methods=RETRACT)
    define("WRONG", "0", "return state + x", "state / 2", "BIGINT", "INT", methods=RETRACT)
    for name, reason in [
        ("LISTED", "create: its state is a list"),
        ("SORTS", "accumulate: .* in `return sorted"),
        ("TEXTS", "accumulate: No implementation of function .*str.*in `return state"),
        ("WRONG", "value: it gives double, and the result is BIGINT"),
    ]:
        text = al.explain(f"SELECT {name}(x), MAX(x) FROM t", "x INT")
        assert re.search(rf"{name.lower()}\(x\): Python, not compiled: {reason}", text), text
        assert f"backend plain Python, because {name} cannot be compiled" in text
    assert al.generate(spec_of("LISTED(x), SUM(x)")).backend == "python"
    assert table("LISTED(x) AS n, SUM(x) AS s", CHANGES, backend="numba") == [
        ("a", 2, 8),
        ("b", 2, 5),
    ]


def test_integers_become_floats_where_a_step_makes_them_so() -> None:
    define(
        "MEAN_OF",
        "(0, 0)",
        "return (state[0] + x, state[1] + 1)",
        "state[0] / state[1]",
        "DOUBLE",
        "DOUBLE",
    )
    for backend in ("python", "numba"):
        assert one("MEAN_OF(x)", (0.5, 1.5), "DOUBLE", changes="append", backend=backend) == 1.0


def test_a_state_that_cannot_be_saved_is_told_when_it_is_saved() -> None:
    define("ODD", "[]", "state.append(range(x))", "len(state)", "BIGINT", "INT")
    with al.Harness(spec_of("ODD(x) AS o", changes="append"), backend="python") as harness:
        harness.process([("+I", "a", 3, 4)])
        with pytest.raises(
            DataError, match="state_odd_x: a state holds a range, which cannot be saved"
        ):
            harness.snapshot()
