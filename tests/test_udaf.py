"""Users' own functions: entries of expressions and classes, their definitions in specs, and what is refused."""

from __future__ import annotations

import contextlib
import datetime as dt
import io
import json
import math
import re
import subprocess
import sys
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aggloom as al
from aggloom.codegen.catalogue import OWN
from aggloom.errors import (
    AggloomError,
    ArithmeticOverflowError,
    DataError,
    NotMergeableError,
    NotRetractableError,
    SpecError,
    TypeMismatchError,
    UnknownFunctionError,
)

DOCS = Path(__file__).parent.parent / "docs" / "user-functions.md"
SCHEMA = "k STRING, x INT, y INT"
LIMIT = 3
COUNT = al.Field("count", "count", "count + 1", "count + other_count", "count - 1")
BACKENDS = ["python", "numba"]


@pytest.fixture(autouse=True)
def registry() -> Iterator[None]:
    before = dict(OWN)
    yield
    OWN.clear()
    OWN.update(before)


def entry(
    name: str, fields: Any, value: str, empty: str | None = None, **more: Any
) -> al.Aggregate:
    given = {"arguments": (al.Argument("x", "number"),), "result": "DOUBLE", **more}
    let = given.pop("let", ())
    return al.register(
        al.Aggregate(name, append=al.Shape(tuple(fields), value, empty, let), **given)
    )


def spec_of(calls: str, schema: str = SCHEMA, changes: Any = "retract") -> al.AggSpec:
    return al.AggSpec.from_sql(f"SELECT k, {calls} FROM t GROUP BY k", schema, changes)


def table(
    calls: str, rows: Any, schema: str = SCHEMA, changes: Any = "retract", **more: Any
) -> Any:
    with al.Harness(spec_of(calls, schema, changes), **{"backend": "python", **more}) as harness:
        harness.process([row if isinstance(row[0], str) else ("+I", *row) for row in rows])
        harness.flush()
        return harness.table()


def one(calls: str, values: Any, dtype: str = "INT", **more: Any) -> Any:
    """The results over the values of x, one group."""
    rows = [("+I", "k", value) for value in values]
    (row,) = table(calls, rows, f"k STRING, x {dtype}", **more)
    return row[1] if len(row) == 2 else row[1:]


def my_avg() -> None:
    @al.aggregate("MY_AVG", arguments={"value": "BIGINT", "weight": "INT"}, result="BIGINT")
    class MyAvg:
        """The weighted mean."""

        def create():  # type: ignore[no-untyped-def,misc]
            return (0, 0)

        def accumulate(state, value, weight):  # type: ignore[no-untyped-def]  # noqa: N805
            return (state[0] + value * weight, state[1] + weight)

        def retract(state, value, weight):  # type: ignore[no-untyped-def]  # noqa: N805
            return (state[0] - value * weight, state[1] - weight)

        def merge(state, other):  # type: ignore[no-untyped-def]  # noqa: N805
            return (state[0] + other[0], state[1] + other[1])

        def value(state):  # type: ignore[no-untyped-def]  # noqa: N805
            return state[0] // state[1] if state[1] else None


def source(body: str, name: str = "F") -> str:
    return f"class {name}:\n" + "\n".join(f"    {line}" for line in body.strip().splitlines())


def define(
    name: str, state: str, step: str, value: str, result: str, dtype: str = "any", **more: Any
) -> None:
    """A class of one argument, from the texts of what its methods return."""
    lines = [f"def create(): return {state}", f"def accumulate(state, x): {step}"]
    lines += [f"def {method}: {text}" for method, text in more.pop("methods", {}).items()]
    text = source("\n".join([*lines, f"def value(state): return {value}"]))
    definition = {"name": name, "arguments": [["x", dtype]], "result": result, "source": text}
    replacing = more.pop("replace", False)
    al.register({**definition, **more}, replace=replacing)


def define_sum(name: str = "MY_SUM", **methods: str) -> None:
    define(name, "0", "return state + x", "state", "BIGINT", "BIGINT", methods=methods)


RETRACT = {"retract(state, x)": "return state - x"}
MERGE = {"merge(state, other)": "return state + other"}
CHANGES = [
    ("+I", "a", 3, 2),
    ("+I", "a", None, 1),
    ("+I", "a", 5, 1),
    ("+I", "b", 7, None),
    ("+I", "a", 3, 2),
    ("-D", "a", 3, 2),
    ("+I", "b", -2, 3),
]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("mode", ["mini_batch", "per_record"])
def test_a_class_in_sql(backend: str, mode: Any) -> None:
    my_avg()
    calls = "MY_AVG(x, y) AS m, my_avg(DISTINCT x, y) AS d, MY_AVG(x, y) FILTER (WHERE x > 3) AS f"
    got = table(calls, CHANGES, backend=backend, mode=mode)
    assert got == [("a", 3, 3, 5), ("b", -2, -2, None)]


def test_a_class_in_calls_yaml_and_json() -> None:
    my_avg()
    spec = al.AggSpec(SCHEMA, ["k"], [al.AggCall("my_avg", ["x", "y"], alias="m")])
    assert spec.calls[0].function == "MY_AVG"
    assert spec == spec_of("MY_AVG(x, y) AS m")
    for text in (spec.to_json(), spec.to_yaml()):
        al.unregister("MY_AVG")
        again = al.AggSpec.from_json(text) if text[0] == "{" else al.AggSpec.from_yaml(text)
        assert again == spec
        assert again.digest == spec.digest
        al.register(again.functions[0])
    assert json.loads(spec.to_json())["functions"] == [dict(spec.functions[0])]


def test_sql_in_yaml_brings_its_functions_along() -> None:
    my_avg()
    function = dict(spec_of("MY_AVG(x, y) AS m").functions[0])
    al.unregister("MY_AVG")
    text = {"sql": "SELECT MY_AVG(x, y) AS m FROM t", "schema": {"x": "INT", "y": "INT"}}
    spec = al.AggSpec.from_json(json.dumps({**text, "functions": [function]}))
    assert spec.functions == (function,)
    with pytest.raises(UnknownFunctionError):
        al.AggSpec.from_json(json.dumps(text))


@pytest.mark.parametrize("backend", ["python", "numba"])
def test_a_spec_and_its_module_work_where_nothing_is_registered(
    tmp_path: Path, backend: Any
) -> None:
    my_avg()
    entry("TWICE", [COUNT], "count * 2", result="BIGINT")
    source = al.generate(spec_of("MY_AVG(x, y) AS m, TWICE(x) AS t"), backend, tmp_path)
    script = (
        "import sys, aggloom as al\n"
        "from aggloom.codegen.catalogue import OWN\n"
        "with al.Harness(sys.argv[1]) as harness:\n"
        "    harness.process([('+I', 'a', 3, 2), ('+I', 'a', 9, 1)])\n"
        "    harness.flush()\n"
        "    print(harness.table(), OWN, harness.handler.spec().digest)"
    )
    command = [sys.executable, "-c", script, str(source.path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    digest = al.AggSpec.from_json(al.load(source).SPEC_JSON).digest
    assert done.stdout.strip() == f"[('a', 5, 4)] {{}} {digest}", done.stderr


def test_two_definitions_under_one_name_are_two_specs() -> None:
    define_sum()
    first = spec_of("MY_SUM(x) AS s", changes="append")
    call = al.AggCall("MY_SUM", "x")
    al.unregister("MY_SUM")
    define("MY_SUM", "0", "return state - x", "state", "BIGINT")
    second = spec_of("MY_SUM(x) AS s", changes="append")
    assert first != second
    assert first.digest != second.digest
    assert al.AggSpec.from_json(first.to_json()) == first
    for spec, total in ((first, 3), (al.AggSpec.from_json(first.to_json()), 3), (second, -3)):
        with al.Harness(spec, backend="python") as harness:
            harness.process([("+I", "a", 3, 0)])
            harness.flush()
            assert harness.table() == [("a", total)]
    with pytest.raises(SpecError, match="two definitions"):
        al.AggSpec(SCHEMA, ["k"], [call, al.AggCall("MY_SUM", "y")], "append")


def test_a_call_may_be_older_than_its_function() -> None:
    call = al.AggCall("MY_SUM", "x")
    define_sum()
    assert al.AggSpec(SCHEMA, ["k"], [call], "append").functions[0]["name"] == "MY_SUM"


def test_names() -> None:
    define_sum()
    define_sum()
    with pytest.raises(
        SpecError, match="registered already with another definition; say replace=True"
    ):
        define("MY_SUM", "0", "return state - x", "state", "BIGINT")
    define("MY_SUM", "0", "return state - x", "state", "BIGINT", replace=True)
    al.unregister("my_sum")
    with pytest.raises(UnknownFunctionError, match="MY_SUM"):
        al.unregister("MY_SUM")
    with pytest.raises(UnknownFunctionError, match="no aggregate function MY_SUM"):
        spec_of("MY_SUM(x)")
    for taken in ("SUM", "mean", "ROW_NUMBER"):
        with pytest.raises(SpecError, match="built-in function"):
            entry(taken, [COUNT], "count")
    for word in ("COUNT", "UPPER", "CASE", "SELECT", "IF"):
        with pytest.raises(SpecError, match="word of SQL"):
            al.register(
                al.Aggregate(word, append=al.Shape((COUNT,), "count"), result="BIGINT"),
                replace=True,
            )


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
    assert not OWN


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

    text = OWN["SCALED"].code.source  # type: ignore[union-attr]
    for line in ("LIMIT = 3", "import math", "import numpy as np", "scale = 10"):
        assert line in text
    assert "@" not in text.partition("class")[0]
    for backend in ("python", "numba"):
        expected = math.sqrt(20) + math.sqrt(30) + 1
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


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_compiled_state_survives_a_snapshot(backend: Any) -> None:
    my_avg()
    entry("PROD", [COUNT, PRODUCT], "p", "count == 0")
    spec = spec_of("MY_AVG(x, y) AS m, PROD(x) AS p")
    with al.Harness(spec, backend=backend) as harness:
        harness.process(CHANGES)
        saved, shown = harness.snapshot(), harness.table()
        assert backend == harness.handler.BACKEND
    with al.Harness(spec, backend=backend) as harness:
        harness.restore(saved)
        harness.process([("+I", "c", 9, 1), ("+I", "a", 10, 1)])
        harness.flush()
        assert harness.table() == [("a", 5, 150.0), ("b", -2, -14.0), ("c", 9, 9.0)]
    assert shown[0] == ("a", 3, 15.0)


PRODUCT = al.Field("p", "double", "p * x", "p * other_p", "p / x", initial=1.0)


@pytest.mark.parametrize("backend", BACKENDS)
def test_initial_values(backend: Any) -> None:
    entry("PROD", [COUNT, PRODUCT], "p")
    entry(
        "SPREAD",
        [al.Field("n", "count", "n + 2", "n + other_n - 7", "n - 2", initial=7)],
        "n",
        result="INT",
    )
    define("FROM_TEN", "(10, 0.5)", "return (state[0] + x, state[1])", "state[0] + state[1]", "DOUBLE", "INT",
           methods={"retract(state, x)": "return (state[0] - x, state[1])"})  # fmt: skip
    calls = "PROD(x) AS p, SPREAD(x) AS s, FROM_TEN(x) AS t"
    rows: list[Any] = [("+I", f"k{n:03}", n, 0) for n in range(1, 200)]
    spec = spec_of(calls)
    with al.Harness(spec, backend=backend) as harness:
        harness.process(rows)
        harness.flush()
        assert harness.table() == [(f"k{n:03}", float(n), 9, 10.5 + n) for n in range(1, 200)]
        harness.process([("-D", *row[1:]) for row in rows])
        harness.flush()
        assert harness.table() == []
        harness.process([("+I", "k001", 3, 0), ("+I", "k001", None, 0), ("-D", "k001", 3, 0)])
        harness.flush()
        assert harness.table() == [("k001", 1.0, 7, 10.5)]
    handler = harness.handler()
    handler.setAccumulators(handler.createAccumulators())
    for row in (("a", 5, 0), ("a", 2, 0)):
        handler.accumulate(row)
    assert handler.getValue() == (10.0, 11, 17.5)
    handler.resetAccumulators()
    assert handler.getAccumulators() == handler.createAccumulators()


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


def test_a_class_without_arguments() -> None:
    text = source(
        "def create(): return 0\ndef accumulate(state): return state + 2\ndef value(state): return state"
    )
    al.register({"name": "PAIRS", "arguments": [], "result": "BIGINT", "source": text})
    for backend in ("python", "numba"):
        assert one("PAIRS() AS p, COUNT(*) AS n", (1, None), changes="append", backend=backend) == (
            4,
            2,
        )


def test_what_cannot_take_rows_back_is_refused_over_a_retracting_input() -> None:
    define_sum()
    message = r"MY_SUM cannot take rows back; give its class `def retract\(state, x\)`, or say input_changes='append'"
    for calls in ("MY_SUM(x)", "MY_SUM(DISTINCT x)"):
        with pytest.raises(NotRetractableError, match=message):
            spec_of(calls)
    assert one("MY_SUM(DISTINCT x)", (1, 1, 2), changes="append") == 3
    entry("TOP", [al.Field("top", "double", "max(top, x)", "max(top, other_top)")], "top")
    with pytest.raises(
        NotRetractableError, match="TOP cannot take rows back, for its field 'top' has no"
    ):
        spec_of("TOP(x)")
    shape = al.Shape((al.View("ranked", "real"),), "percentile(ranked, 1.0)", "none(ranked)")
    entry(
        "TOP2",
        [al.Field("top", "double", "max(top, x)", "max(top, other_top)")],
        "top",
        retract=shape,
    )
    assert table("TOP2(x) AS t", CHANGES) == [("a", 5.0), ("b", 7.0)]


def handlers(calls: str, backend: str, *batches: Any) -> list[Any]:
    made = []
    for rows in batches:
        handler = al.load(al.generate(spec_of(calls, changes="append"), backend))()  # type: ignore[arg-type]
        handler.setAccumulators(handler.createAccumulators())
        for row in rows:
            handler.accumulate(row)
        made.append(handler)
    return made


@pytest.mark.parametrize("backend", BACKENDS)
def test_merging(backend: str) -> None:
    my_avg()
    entry("PROD", [COUNT, PRODUCT], "p")
    calls = "MY_AVG(x, y) AS m, MY_AVG(DISTINCT x, y) AS d, PROD(x) AS p, PROD(DISTINCT x) AS q"
    rows = [("a", 3, 2), ("a", 5, 1), ("a", 3, 2)]
    ours, theirs = handlers(calls, backend, rows[:2], rows[2:])
    ours.merge(theirs.getAccumulators())
    assert ours.getValue() == (17 // 5, 11 // 3, 45.0, 15.0)
    assert theirs.getValue() == (3, 3, 3.0, 3.0)


def test_merging_objects_shares_nothing() -> None:
    define(
        "ALL_OF",
        "[]",
        "state.append(x)",
        "state",
        "ARRAY<INT>",
        methods={"merge(state, other)": "return state or other"},
    )
    ours, theirs = handlers("ALL_OF(x) AS a", "python", [], [("a", 1, 0)])
    ours.merge(theirs.getAccumulators())
    ours.accumulate(("a", 2, 0))
    assert (ours.getValue(), theirs.getValue()) == (([1, 2],), ([1],))


def test_no_two_keys_share_a_constant() -> None:
    text = "EMPTY = []\n" + source(
        "def create(): return EMPTY\ndef accumulate(state, x): state.append(x)\ndef value(state): return state"
    )
    al.register({"name": "KEPT", "arguments": {"x": "INT"}, "result": "ARRAY<INT>", "source": text})
    assert table("KEPT(x) AS s", [("+I", "a", 1, 0), ("+I", "b", 2, 0)], changes="append") == [
        ("a", [1]),
        ("b", [2]),
    ]


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_cannot_be_merged(backend: str) -> None:
    define_sum(**RETRACT)
    ours, theirs = handlers("MY_SUM(x) AS s", backend, [("a", 1, 0)], [("a", 2, 0)])
    with pytest.raises(
        NotMergeableError, match=r"MY_SUM has no merge; give its class `def merge\(state, other\)`"
    ):
        ours.merge(theirs.getAccumulators())
    assert ours.getValue() == (1,)
    # DISTINCT merges by accumulating what is new.
    ours, theirs = handlers(
        "MY_SUM(DISTINCT x) AS s", backend, [("a", 1, 0)], [("a", 2, 0), ("a", 1, 0)]
    )
    ours.merge(theirs.getAccumulators())
    assert ours.getValue() == (3,)


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_operator_without_merge_does_not_compact(backend: Any) -> None:
    define_sum(**RETRACT)
    with al.Harness(spec_of("MY_SUM(x) AS s, COUNT(DISTINCT x) AS n"), backend=backend) as harness:
        rows = [("+I", f"k{n}", n, 0) for n in range(6000)]
        harness.process(rows)
        harness.flush()
        harness.process([("-D", *row[1:]) for row in rows[1:]])
        harness.flush()
        assert not harness.handler.COMPACTS
        assert harness.table() == [("k0", 0, 1)]


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
        assert f"backend plain Python, for {name} cannot be compiled" in text
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


ROWS = [("+I", "a", v, w) for v, w in ((3, 1), (None, 2), (5, 2), (5, 2), (8, 4))] + [
    ("-D", "a", 5, 2)
]


@pytest.mark.parametrize(
    ("fields", "value", "more", "expected"),
    [
        ([COUNT], "count * 2 - 1 // 2 + count % 2", {"result": "BIGINT"}, 7),
        ([COUNT], "count > 2 and not count == 4", {"result": "BOOLEAN"}, True),
        ([COUNT], "count", {"result": "DOUBLE"}, 3.0),
        ([COUNT], "count / 2", {"result": "DECIMAL(5,1)"}, Decimal("1.5")),
        ([COUNT], "2 ** count + pow(count, 2) + abs(-count)", {}, 20.0),
        ([COUNT], "max(count, 1.5) - min(count, 2, 7)", {}, 1.0),
        ([COUNT], "log(exp(count)) + sqrt(count + 1)", {}, 5.0),
        ([COUNT], "a + b", {"let": (("a", "count + 1"), ("b", "a * 2"))}, 12.0),
        ([al.View("ranked", "real")], "percentile(ranked, 1) - percentile(ranked, 0)", {}, 5.0),
        ([al.View("ordered")], "greatest(ordered)", {"result": "argument"}, 8),
    ],
)
def test_expressions(fields: Any, value: str, more: Any, expected: Any) -> None:
    entry("G", fields, value, **more)
    assert table("G(x) AS g", ROWS) == [("a", expected)]


SUM = al.Field("s", "number", "add(s, x)", "combine(s, other_s)", "subtract(s, x)")
TOTALS = [SUM, al.Field("t", "number", "add(t, y)", "combine(t, other_t)", "subtract(t, y)")]


@pytest.mark.parametrize("dtype", ["INT", "BIGINT", "DOUBLE", "DECIMAL(10,2)", "DECIMAL(30,4)"])
def test_sums_of_two_arguments(dtype: str) -> None:
    arguments = (al.Argument("x", "number"), al.Argument("y", "number"))
    entry(
        "TWO",
        [COUNT, *TOTALS],
        "total(s) + average(t, count) * 3",
        "count == 0",
        arguments=arguments,
    )
    schema = f"k STRING, x {dtype}, y INT"
    calls = "TWO(x, y) AS a, TWO(y, x) AS b, TWO(DISTINCT x, y) AS d"
    number = float if dtype == "DOUBLE" else Decimal if "DEC" in dtype else int
    rows = [(op, k, None if x is None else number(x), y) for op, k, x, y in ROWS]
    assert table(calls, rows, schema) == [("a", 16 + 7.0, 7 + 16.0, 16 + 7.0)]


def test_functions_of_expressions_are_as_exact_as_built_in_ones() -> None:
    entry("EXACT", [COUNT, SUM], "total(s)", "count == 0", result="argument")
    for dtype, values in [("DOUBLE", (1e300, 1.0, -1e300)), ("BIGINT", (2**62, 2**62, -(2**62)))]:
        assert one("EXACT(x) = SUM(x)", values, dtype) is True
    with pytest.raises(ArithmeticOverflowError):
        one("EXACT(x)", (2**62, 2**62), "BIGINT")


def test_options() -> None:
    entry("Q", [al.View("ranked", "real")], "percentile(ranked, p) * times", "none(ranked)",
          options=(al.Option("p", "fraction", 0.5), al.Option("times", "whole", 1)))  # fmt: skip
    got = table("Q(x) AS a, Q(x, 0.25) AS b, Q(x, times => 2) AS c", ROWS)
    assert got == [("a", 5.0, 4.0, 10.0)]
    spec = spec_of("Q(x, 0.25)")
    al.unregister("Q")
    assert al.AggSpec.from_json(spec.to_json()) == spec
    assert spec.calls[0].output_name == "q(x, 0.25)"


FIELD = al.Field
WRONG: list[tuple[Any, str, str]] = [
    ([COUNT], "cnt", "G: value, 'cnt': there is no 'cnt'. Did you mean 'count'"),
    ([COUNT], "x + 1", "It sees no arguments"),
    ([COUNT], "med(count)", "there is no word 'med'. Known: 'min'"),
    ([COUNT], "count.real", "is not possible here"),
    ([COUNT], "[count][0]", "is not possible here"),
    ([COUNT], "__import__('os').system('x')", "is not possible here"),
    ([COUNT], "count if count else 0", "'count' is no condition; compare it"),
    ([COUNT], "(count", "it is no expression"),
    ([COUNT], "'x'", "is no number"),
    ([COUNT], "count << 2", "this operator is not possible"),
    ([SUM], "s / 2", "an exact sum, not a number; write total(...)"),
    ([SUM], "sqrt(total(s), 2)", "sqrt takes 1 value, not 2"),
    ([SUM], "deviation(s, s, s, 3)", "takes fields of kind 'real'"),
    ([al.View("ordered")], "least(ordered) + 1", "can only be the whole of a value"),
    ([al.View("ordered")], "percentile(ordered, 0.5)", "takes View('ranked', 'real')"),
    ([al.View("bins")], "1", "is not possible; known are"),
    (
        [FIELD("c", "count", "c + 0.5", "c + other_c")],
        "c",
        "gives a double, and a count is an integer",
    ),
    ([FIELD("c", "count", "c + x", "c + other_c")], "c", "takes integer or boolean"),
    ([FIELD("c", "count", "c + 1", "c + x")], "c", "there is no 'x'"),
    ([FIELD("c", "count", "c + d", "c + other_c"), COUNT], "c", "there is no 'd'"),
    ([FIELD("s", "number", "s + x", "s")], "1", "is an exact sum, not a number"),
    ([FIELD("s", "number", "add(s, x * 2)", "s")], "1", "as a sum takes it"),
    ([FIELD("s", "number", "x", "s")], "1", "an exact sum is changed by add"),
    ([FIELD("s", "real", "add(s, x)", "combine(s, s)")], "1", "write combine(s, other_s)"),
    ([FIELD("w", "word", "x if x > w else w", "w")], "w", "words are ordered by before"),
    ([FIELD("w", "word", "1", "w")], "w", "gives a int, and the field is of kind word"),
    ([FIELD("p", "double", "p", "p", initial="1")], "p", "no value of its kind"),
    ([FIELD("p", "count", "p", "p", initial=1.5)], "p", "no value of its kind"),
    (
        [FIELD("p", "number", "add(p, x)", "p", initial=1)],
        "1",
        "only fields of kind count and double",
    ),
    ([FIELD("p", "dbl", "p", "p")], "p", "kind 'dbl'. Did you mean 'double'"),
    ([FIELD("x", "double", "x", "x")], "x", "'x' is used twice"),
    ([COUNT], "", "says what it keeps and gives"),
]


@pytest.mark.parametrize(("fields", "value", "message"), WRONG)
def test_wrong_expressions_are_refused_with_their_place(
    fields: Any, value: str, message: str
) -> None:
    with pytest.raises(SpecError, match=re.escape(message)) as caught:
        entry("G", fields, value)
    assert str(caught.value).startswith("G: ")
    assert not OWN


def test_results_that_no_value_fits_are_refused() -> None:
    for result, error in [
        ("STRIN", SpecError),
        ("MAP<INT,INT>", SpecError),
        ("STRING", TypeMismatchError),
    ]:
        with pytest.raises(error, match="G: "):
            entry("G", [COUNT], "count", result=result)
    with pytest.raises(SpecError, match="must be a type such as 'DOUBLE'"):
        entry("G", [COUNT], "count", result=lambda *_: None)
    entry(
        "G",
        [FIELD("c", "count", "c + x", "c + other_c", "c - x")],
        "c",
        arguments=(al.Argument("x", "integer"),),
        result="BIGINT",
    )
    assert one("G(x)", (1, 2)) == 3


def test_a_built_in_function_may_be_replaced_and_comes_back() -> None:
    plain = spec_of("AVG(x) AS m")
    shape = al.Shape((COUNT,), "count")
    al.register(
        al.Aggregate("MEAN", append=shape, result="BIGINT", arguments=(al.Argument("x"),)),
        replace=True,
    )
    mine = spec_of("MEAN(x) AS m, AVG(x) AS a")
    assert [call.function for call in mine.calls] == ["MEAN", "AVG"]
    al.register(
        al.Aggregate("AVG", append=shape, result="BIGINT", arguments=(al.Argument("x"),)),
        replace=True,
    )
    assert table("AVG(x) AS m", CHANGES) == [("a", 2), ("b", 2)]
    al.unregister("AVG")
    al.unregister("MEAN")
    again = al.AggSpec.from_json(mine.to_json())
    assert again == mine
    assert [call.function for call in again.calls] == ["MEAN", "AVG"]
    assert spec_of("MEAN(x) AS m") == plain


def test_names_in_generated_code_never_clash() -> None:
    names = ("reset", "real", "others", "number", "merge", "value", "kept", "user")
    fields = [
        FIELD(name, "count", f"{name} + 1", f"{name} + other_{name}", f"{name} - 1")
        for name in names[:1]
    ]
    fields += [FIELD(n, "double", f"{n} + x", f"{n} + other_{n}", f"{n} - x") for n in names[1:]]
    entry("CLASH", fields, " + ".join(names))
    for column in ("row", "slots", "f_x", "x"):
        schema = f"k STRING, {column} INT"
        got = table(
            f"CLASH({column}) AS c, SUM({column}) AS s", [("+I", "a", 2), ("+I", "a", 3)], schema
        )
        assert got == [("a", 2 + 7 * 5.0, 5)]
    for name, helper in (("A_B", "c"), ("A", "b_c"), ("A_", "b")):
        body = f"def create(): return 0\ndef accumulate(state, x): return F.{helper}(state) + x\n"
        body += f"def {helper}(state): return state + {len(name)}\ndef value(state): return state"
        text = source(body)
        al.register({"name": name, "arguments": {"x": "INT"}, "result": "BIGINT", "source": text})
    for backend in ("python", "numba"):
        assert one(
            "A_B(x) AS a, A(x) AS b, A_(x) AS c", (1,), changes="append", backend=backend
        ) == (4, 2, 3)


def test_explain_on_the_command_line(tmp_path: Path) -> None:
    from click.testing import CliRunner

    from aggloom.cli import main

    my_avg()
    path = tmp_path / "query.yaml"
    path.write_text(spec_of("MY_AVG(x, y) AS m").to_yaml())
    al.unregister("MY_AVG")
    shown = CliRunner().invoke(main, ["explain", "--yaml", str(path), "--backend", "python"])
    assert shown.exit_code == 0, shown.output
    assert "MY_AVG(x, y) AS m: BIGINT" in shown.output
    shown = CliRunner().invoke(
        main, ["explain", "--sql", "SELECT SUM(x) AS s FROM t", "--schema", "x INT"]
    )
    assert "SUM(x) AS s: BIGINT" in shown.output
    with pytest.raises(SpecError, match="SQL needs a schema"):
        al.explain("SELECT 1")


def test_sql_after_registering_and_unregistering() -> None:
    for _ in range(2):
        with pytest.raises(AggloomError):
            spec_of("MY_SUM(x)", changes="append")
        define_sum()
        assert spec_of("MY_SUM(x)", changes="append").calls[0].function == "MY_SUM"
        al.unregister("MY_SUM")


def test_the_page_for_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every block of Python prints what the block of text after it says."""
    blocks = re.findall(r"```(python|text)\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.S)
    assert len(blocks) > 8
    space: dict[str, Any] = {"__name__": "user_functions"}
    printed = io.StringIO()
    for number, (kind, text) in enumerate(blocks):
        if kind == "text":
            assert printed.getvalue() == text
            continue
        path = tmp_path / f"block{number}.py"
        path.write_text(text, encoding="utf-8")
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(text, str(path), "exec"), space)


@pytest.mark.spark
def test_on_spark(spark: Any) -> None:
    from aggloom.runtime.spark import group_aggregate

    my_avg()
    define("JOINED", "[]", "state.append(x)", "'|'.join(sorted(state))", "STRING", "STRING",
           methods={"retract(state, x)": "state.remove(x)"})  # fmt: skip
    entry("PROD", [COUNT, PRODUCT], "p", "count == 0")
    rows = [
        ("a", 10, 1, "x", "+I"),
        ("a", 40, 2, "y", "+I"),
        ("b", 7, 1, "z", "+I"),
        ("a", 10, 1, "x", "-D"),
    ]
    df = spark.createDataFrame(rows, "k STRING, x INT, y INT, s STRING, op STRING").coalesce(1)
    for calls, expected in [
        ("MY_AVG(x, y) AS m, PROD(x) AS p", [("a", 40, 40.0), ("b", 7, 7.0)]),
        ("MY_AVG(x, y) AS m, JOINED(s) AS j", [("a", 40, "y"), ("b", 7, "z")]),
    ]:
        spec = spec_of(calls, "k STRING, x INT, y INT, s STRING")
        out = group_aggregate(df, spec, output_profile="flink").collect()
        assert sorted(tuple(row)[:-1] for row in out) == expected


def test_initial_values_may_be_infinite() -> None:
    fields = [
        al.Field("lo", "double", "min(lo, x)", "min(lo, other_lo)", initial=math.inf),
        al.Field("hi", "double", "max(hi, x)", "max(hi, other_hi)", initial=-math.inf),
    ]
    entry("WIDTH", fields, "hi - lo")
    define("LOWEST", "float('inf')", "return min(state, x)", "state", "DOUBLE", "DOUBLE")
    spec = spec_of("WIDTH(x) AS w, LOWEST(y) AS l", changes="append")
    assert al.AggSpec.from_json(spec.to_json()) == spec
    for backend in ("python", "numba"):
        with al.Harness(spec, backend=backend) as harness:  # type: ignore[arg-type]
            harness.process([("+I", "a", 3, 4), ("+I", "a", 9, None), ("+I", "b", None, None)])
            saved = harness.snapshot()
            assert harness.table() == [("a", 6.0, 4.0), ("b", -math.inf, math.inf)]
        with al.Harness(spec, backend=backend) as harness:  # type: ignore[arg-type]
            harness.restore(saved)
            assert harness.table() == [("a", 6.0, 4.0), ("b", -math.inf, math.inf)]
            handler = harness.handler()
        handler.setAccumulators(handler.createAccumulators())
        handler.accumulate(("a", 3, 4))
        handler.resetAccumulators()
        handler.accumulate(("a", 5, 6))
        assert handler.getValue() == (0.0, 6.0)


def test_a_view_over_rows() -> None:
    arguments = (al.Argument("x"), al.Argument("y"))
    view = [al.View("ordered")]
    entry(
        "LOWEST_BY", view, "least(ordered)", arguments=arguments, row=("y", "x"), result="argument"
    )
    got = table("LOWEST_BY(x, y) AS l, MIN_BY(x, y) AS m", CHANGES)
    # MIN_BY keeps the NULL that is lowest; a user's function never sees it.
    assert got == [("a", 5, None), ("b", -2, -2)]
    with pytest.raises(SpecError, match="row names no argument 'z'"):
        entry("F", view, "least(ordered)", arguments=arguments, row=("z",), result="argument")
    with pytest.raises(SpecError, match=r"say row=\(\.\.\.\)"):
        entry("F", view, "least(ordered)", arguments=arguments, result="argument")
    for more in ({"skips": ("x",)}, {"nulls": ("ignore", "ignore")}, {"returns": "array"}):
        with pytest.raises(SpecError, match="is for built-in functions"):
            entry("F", [COUNT], "count", **more)


def test_a_state_that_cannot_be_saved_is_told_when_it_is_saved() -> None:
    define("ODD", "[]", "state.append(range(x))", "len(state)", "BIGINT", "INT")
    with al.Harness(spec_of("ODD(x) AS o", changes="append"), backend="python") as harness:
        harness.process([("+I", "a", 3, 4)])
        with pytest.raises(
            DataError, match="state_odd_x: a state holds a range, which cannot be saved"
        ):
            harness.snapshot()
