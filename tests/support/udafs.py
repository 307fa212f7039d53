"""Functions of users for the tests: how to define and to call them."""

from __future__ import annotations

from typing import Any

import aggloom as al

SCHEMA = "k STRING, x INT, y INT"


COUNT = al.Field("count", "count", "count + 1", "count + other_count", "count - 1")


PRODUCT = al.Field("p", "double", "p * x", "p * other_p", "p / x", initial=1.0)


BACKENDS = ["python", "numba"]


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


CHANGES = [
    ("+I", "a", 3, 2),
    ("+I", "a", None, 1),
    ("+I", "a", 5, 1),
    ("+I", "b", 7, None),
    ("+I", "a", 3, 2),
    ("-D", "a", 3, 2),
    ("+I", "b", -2, 3),
]
