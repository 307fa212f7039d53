"""Users' functions as expressions: what they give, how they begin, and what is refused."""

from __future__ import annotations

import math
import re
from decimal import Decimal
from typing import Any

import pytest
from udafs import BACKENDS, CHANGES, COUNT, PRODUCT, define, entry, one, source, spec_of, table

import aggloom as al
from aggloom.codegen.catalogue.registry import USER_DEFINED
from aggloom.errors import ArithmeticOverflowError, SpecError, TypeMismatchError

pytestmark = pytest.mark.usefixtures("registry")


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
    ([COUNT], "med(count)", "there is no function 'med'. Known: 'min'"),
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
    ([al.View("ddsketch")], "1", "is not possible; known are"),
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
    assert not USER_DEFINED


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
