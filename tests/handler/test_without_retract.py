"""Classes without `retract` over changes: the result is the class folded over the live rows, derived or kept."""

# mypy: disable-error-code="no-untyped-def,misc"

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from queries import ONE_PHASE, PER_RECORD, TWO_PHASE
from strategies import examples, lawful_batches, net_rows

import aggloom as al
from aggloom.codegen.user.inverse import DECIMAL, INTEGER, OTHER, derive_retract
from aggloom.codegen.user.source import parse
from aggloom.runtime.values.changelog import fold

Row = tuple[Any, ...]
SCHEMA = "k STRING, v INT, w BIGINT, d DECIMAL(10,2), f DOUBLE, s STRING, a ARRAY<INT>, b BOOLEAN"
ARGUMENTS = {"v": "INT", "w": "BIGINT", "d": "DECIMAL(10,2)", "f": "DOUBLE", "s": "STRING"}


def class_of(create: str, accumulate: str, value: str, arguments: str, more: str = "") -> str:
    """The source of a class; the bodies of its methods stand after `:` or in lines of their own."""
    methods = {
        "create": ("", create),
        "accumulate": (f"s_, {arguments}", accumulate),
        "value": ("s_", value),
    }
    lines = [f"    {line}" for line in more.splitlines()]
    for name, (given_, body) in methods.items():
        lines += [f"    def {name}({given_}):", *(f"        {line}" for line in body.splitlines())]
    return "class Own:\n" + "\n".join(lines) + "\n"


DERIVED = {
    "number": ("return 0", "return s_ + v", "return s_", "v"),
    "number in place": ("return 0", "s_ += v * w\nreturn s_", "return s_", "v, w"),
    "swapped": ("return (0, 1)", "return (v + s_[0] - w, s_[1])", "return s_[0] * s_[1]", "v, w"),
    "taken apart": (
        "return (0, 0)",
        "n, t = s_\nn += 1\nt = t - v\nreturn n, t",
        "return s_[1] - s_[0]",
        "v",
    ),
    "list": (
        "return [0, 0]",
        "s_[0] += 1\ns_[1] += abs(v) // 2",
        "return s_[0] * 100 + s_[1]",
        "v",
    ),
    "dict": (
        "return {'n': 0, 'odd': 0}",
        "s_['n'] += 1\nif v % 2:\n    s_['odd'] += v\nelse:\n    s_['odd'] -= 1",
        "return s_['n'] - s_['odd']",
        "v",
    ),
    "early": (
        "return (0, 0)",
        "n, t = s_\nif v < 0:\n    return s_\nn += 1\nreturn (n, t + v ** 2)",
        "return s_[0] + s_[1]",
        "v",
    ),
    "local": (
        "return (0, 0)",
        "x = max(v, 2)\nif w > 1 or s.startswith('p'):\n    x = 7\nreturn (s_[0] + x, s_[1] + len(s))",
        "return s_[0] - s_[1]",
        "v, w, s",
    ),
    "truths": (
        "return (0, 0)",
        "return (s_[0] + (f > 0.25), s_[1] + (1 if s in ('p', 'q') else -2))",
        "return s_[0] * 10 + s_[1]",
        "f, s",
    ),
    "from a float": ("return 0", "return s_ + int(f * 10)", "return s_", "f"),
    "decimal": (
        "return (0, 0)",
        "return (s_[0] + d, s_[1] + 1)",
        "return int(s_[0] * 100) + s_[1]",
        "d",
    ),
    "several": (
        "return (0,)",
        "n, = s_\nn += v\nn -= w\nn += 3\nreturn (n,)",
        "return s_[0]",
        "v, w",
    ),
}
KEPT = {
    "largest": ("return None", "return v if s_ is None else max(s_, v)", "return s_", "v"),
    "float sum": ("return 0.0", "return s_ + f", "return int(s_ * 4)", "f"),
    "state in an amount": (
        "return (0, 0)",
        "return (s_[0] + v, s_[1] + s_[0])",
        "return s_[0]",
        "v",
    ),
    "state in a condition": (
        "return (0, 0)",
        "n, t = s_\nif n < 3:\n    t += v\nreturn (n + 1, t)",
        "return s_[0]",
        "v",
    ),
    "product": ("return 1", "return s_ * v", "return int(s_ != 0)", "v"),
    "texts": ("return {}", "s_[s] = s_.get(s, 0) + 1", "return len(s_)", "s"),
    "array": ("return set()", "s_.update(x for x in a if x is not None)", "return len(s_)", "a"),
    "overwritten": ("return (0, 0)", "n, t = s_\nn = v\nreturn (n, t + 0)", "return s_[1]", "v"),
    "a loop": ("return 0", "for _ in range(2):\n    s_ += v\nreturn s_", "return s_", "v"),
    "float and integer": (
        "return (0, 0)",
        "return (s_[0] + 1, s_[1] + v / 2)",
        "return int(s_[1] * 2)",
        "v",
    ),
    "another place": (
        "return (0, 0)",
        "n, t = s_\nreturn (t + v, n + v)",
        "return s_[0] + s_[1]",
        "v",
    ),
}


def register(
    case: tuple[str, str, str, str], more: str = "", **entry: Any
) -> Callable[[list[Row]], Any]:
    """Register OWN of a case, and return the model: the class folded over rows of its arguments."""
    create, accumulate, value, names = case
    types = {**ARGUMENTS, "a": "ARRAY<INT>"}
    source = class_of(create, accumulate, value, names, more)
    arguments = {name: types[name] for name in names.split(", ")}
    al.register(
        {"name": "OWN", "arguments": arguments, "result": "BIGINT", "source": source, **entry},
        replace=True,
    )
    scope: dict[str, Any] = {"math": math}
    exec(source, scope)
    own = scope["Own"]

    def model(rows: list[Row]) -> Any:
        state = own.create()
        for row in rows:
            given_ = own.accumulate(state, *row)
            state = state if given_ is None else given_
        result = own.value(state)
        return None if result is None else int(result)

    return model


row_ = st.tuples(
    st.sampled_from(["x", "y"]),
    st.none() | st.sampled_from([-3, -1, 0, 1, 2, 40]),
    st.none() | st.sampled_from([-(2**40), 0, 1, 2, 5]),
    st.none() | st.sampled_from([Decimal("-1.25"), Decimal("0.00"), Decimal("99999999.99")]),
    st.none() | st.sampled_from([-0.5, 0.0, 0.25, 1.5, 2.0**40]),
    st.none() | st.sampled_from(["", "p", "q", "pq"]),
    st.none() | st.lists(st.none() | st.integers(0, 3), max_size=3),
    st.booleans(),
)


def expected(names: str, model: Callable[[list[Row]], Any], rows: Iterable[Row]) -> dict[Any, Any]:
    columns = ["k", "v", "w", "d", "f", "s", "a", "b"]
    places = [columns.index(name) for name in names.split(", ")]
    found: dict[Any, list[Row]] = {}
    for row in rows:
        values = tuple(row[place] for place in places)
        found.setdefault(row[0], []).extend([values] if None not in values else [])
    return {key: model(own) for key, own in found.items()}


@pytest.mark.parametrize("name", [*DERIVED, *KEPT])
@examples(8)
@given(data=st.data())
@pytest.mark.sampled(8)
def test_the_result_is_the_class_folded_over_the_live_rows(name: str, data: st.DataObject) -> None:
    case = {**DERIVED, **KEPT}[name]
    model, names = register(case), case[3]
    batches = data.draw(lawful_batches(row_, 14))
    way = data.draw(st.sampled_from([PER_RECORD, ONE_PHASE, TWO_PHASE]))
    options = {
        "options": way.plan_options,
        # What Numba makes of a class takes seconds.
        "backend": "numba" if name in COMPILED and way is ONE_PHASE else "python",
        "buckets": data.draw(st.integers(1, 2)),
    }
    sql = f"SELECT k, OWN({names}) AS r FROM t GROUP BY k"
    restart = data.draw(st.integers(0, len(batches)))
    harness = al.Harness.from_sql(sql, {"t": SCHEMA}, **options)
    so_far, out = list[Row](), list[Row]()
    for number, batch in enumerate(batches):
        if number == restart:
            kept = harness.snapshot()
            harness.close()
            harness = al.Harness.from_sql(sql, {"t": SCHEMA}, **options)
            harness.restore(kept)
        so_far += batch
        harness.process(batch)
        harness.flush()
        out += harness.changes()
        assert dict(fold(out)) == expected(names, model, net_rows(so_far))
    harness.close()
    al.unregister("OWN")


@pytest.mark.parametrize("name", DERIVED)
def test_what_is_derived(name: str) -> None:
    register(DERIVED[name])
    text = al.explain(f"SELECT k, OWN({DERIVED[name][3]}) AS r FROM t GROUP BY k", SCHEMA)
    assert "retract is derived: accumulate with the opposite signs" in text
    assert "live rows" not in text
    al.unregister("OWN")


@pytest.mark.parametrize("name", KEPT)
def test_what_is_kept(name: str) -> None:
    register(KEPT[name])
    names = KEPT[name][3]
    text = al.explain(f"SELECT k, OWN({names}) AS r FROM t GROUP BY k", SCHEMA)
    assert "no retract, and none is derived" in text
    assert f"so each key keeps its live rows, each distinct ({names}) with its count" in text
    assert f"per key, the different values of {names}" in text
    append = al.explain(
        f"SELECT k, OWN({names}) AS r FROM t GROUP BY k", SCHEMA, input_changes="append"
    )
    assert "retract" not in append.partition("your functions")[2].partition("plan")[0]
    al.unregister("OWN")


COMPILED = ("taken apart", "truths")
"""Cases that run compiled, too."""
REFUSED = {
    "return s_ + f": "adds what need not be an integer",
    "return s_ + d * d": "adds what need not be an integer",
    "return s_ + v / 1": "adds what need not be an integer",
    "return s_ + Own.BASE[0]": "depends on more than the arguments",
    "return s_ + s_": "depends on more than the arguments",
    "return v - s_": "does more than add",
    "return s_ - (s_ - v)": "depends on more than the arguments",
    "return -s_ + v": "does more than add",
    "s_ *= 2\nreturn s_": "does more than add",
    "s_ = v\nreturn s_": "does more than add",
    "v = 3\nreturn s_ + v": "gives a new meaning to a name",
    "x = s_\nreturn x + v": "depends on more than the arguments",
    "if s_ > 2:\n    return s_\nreturn s_ + v": "depends on more than the arguments",
    "if (x := v):\n    pass\nreturn s_ + v": "computes something else",
    "while v:\n    return s_ + 1\nreturn s_": "does more than add",
    "return s_ + sum([v])": "adds what need not be an integer",
    "return s_ + Own.weigh(v)": "computes something else",
    "return s_ + (v or f)": "adds what need not be an integer",
    "return s_ + (v if v > 1 else f)": "adds what need not be an integer",
    "return s_ + v ** v": "adds what need not be an integer",
    "x = v\nif v > 1:\n    x = f\nreturn s_ + x": "adds what need not be an integer",
    "return None": "returns no state",
    "return (s_ + v, 1)": "does more than add",
    "try:\n    return s_ + v\nfinally:\n    pass": "does more than add",
    "return s_ + max(v, f)": "adds what need not be an integer",
    "return s_ + [v][0]": "adds what need not be an integer",
    "x = 1\nx += 1\nreturn s_ + x": "changes what is no number of the state",
    "return s_ + (lambda: v)()": "computes something else",
}


@pytest.mark.parametrize("accumulate", REFUSED)
def test_no_inverse_is_derived_where_the_source_does_not_prove_one(accumulate: str) -> None:
    more = "BASE = [1]\ndef weigh(v):\n    return v"
    source = parse(class_of("return 0", accumulate, "return s_", "v, d, f", more), "OWN")
    found = derive_retract(source, {"v": INTEGER, "d": DECIMAL, "f": OTHER})
    assert isinstance(found, str) and REFUSED[accumulate] in found, found


@pytest.mark.parametrize(
    ("create", "accumulate", "message"),
    [
        ("return 0.0", "return s_ + v", "its state is a float"),
        ("return (0, None)", "return s_", "does not begin with integers alone"),
        ("return (0, True)", "return s_", "does not begin with integers alone"),
        ("x = 0\nreturn x", "return s_ + v", "create does not return a constant"),
        ("return ()", "return s_", "its state is a tuple"),
        ("return (0, 0)", "return (s_[1] + v, s_[0])", "does more than add"),
        ("return (0, 0)", "return (s_[0] + v,)", "returns another state"),
        ("return (0, 0)", "s_[0] += v\nreturn s_", "changes what is no number of the state"),
        ("return (0, 0)", "a, b = s_\na += v\nreturn (s_[0] + v, b)", "does more than add"),
        ("return (0, 0)", "a, *b = s_\nreturn (a, 0)", "takes the state apart in another way"),
        ("return [0, 0]", "return [s_[0] + v, s_[1]]", "returns another state"),
        ("return [0, 0]", "s_.append(v)", "does more than add"),
        ("return [0, 0]", "s_[v] += 1", "changes what is no number of the state"),
        ("return [0, 0]", "s_[-1] += v", "changes what is no number of the state"),
    ],
)
def test_states_of_which_no_inverse_is_derived(create: str, accumulate: str, message: str) -> None:
    source = parse(class_of(create, accumulate, "return 0", "v"), "OWN")
    found = derive_retract(source, {"v": INTEGER})
    assert isinstance(found, str) and message in found, found


def test_a_type_decides() -> None:
    """An INT that is taken as a DOUBLE is a float, and a DECIMAL of many digits is rounded."""
    for dtype, column, derives in (
        ("number", "w", True),
        ("number", "d", True),
        ("number", "f", False),
        ("DOUBLE", "v", False),
        ("DECIMAL(38,2)", "big", False),
        ("any", "b", True),
    ):
        source = class_of("return 0", "return s_ + x", "return int(s_)", "x")
        al.register(
            {"name": "OWN", "arguments": {"x": dtype}, "result": "BIGINT", "source": source},
            replace=True,
        )
        text = al.explain(
            f"SELECT k, OWN({column}) AS r FROM t GROUP BY k", f"{SCHEMA}, big DECIMAL(38,2)"
        )
        assert ("retract is derived" in text) == derives, (dtype, column)
    al.unregister("OWN")


def test_two_calls_of_a_function_may_take_rows_back_in_two_ways() -> None:
    source = class_of("return 0", "return s_ + x", "return int(s_ * 4)", "x")
    al.register({"name": "OWN", "arguments": {"x": "number"}, "result": "BIGINT", "source": source})
    sql = "SELECT k, OWN(v) AS r, OWN(f) AS q FROM t GROUP BY k"
    rows = [("x", 1, 0, None, 0.25, "", None, True), ("x", 2, 0, None, 1e300, "", None, True)]
    with al.Harness.from_sql(sql, {"t": SCHEMA}) as harness:
        harness.process([("+I", *rows[0]), ("+I", *rows[1]), ("-D", *rows[1])])
        harness.flush()
        assert harness.table() == [("x", 4, 1)]
    al.unregister("OWN")


def test_nulls_that_are_respected_orphans_that_are_kept_and_no_arguments() -> None:
    source = class_of("return []", "s_.append(v)", "return len(s_) * 10 + s_.count(None)", "v")
    entry = {
        "name": "OWN",
        "arguments": {"v": "INT"},
        "result": "BIGINT",
        "source": source,
        "nulls": "respect",
    }
    al.register(entry, replace=True)
    sql = "SELECT k, OWN(v) AS r FROM t GROUP BY k"
    with al.Harness.from_sql(
        sql, {"t": "k STRING, v INT"}, on_orphan_retraction="keep", backend="python"
    ) as harness:
        steps = [
            ("-D", 5),
            ("+I", None),
            ("+I", 7),
            ("+I", 5),
            ("+I", 5),
            ("-D", None),
            ("-D", 5),
            ("-D", 7),
        ]
        found = []
        for kind, value in steps:
            harness.process([(kind, "a", value)])
            harness.flush()
            found.append(harness.table())
        wanted = [None, None, 21, 21, 31, 20, 10, None]
        assert [rows[0][1] if rows else None for rows in found] == wanted
        assert harness.snapshot() is not None
    al.register(
        {
            "name": "OWN",
            "arguments": {},
            "result": "BIGINT",
            "source": class_of("return 1", "return s_ * 2", "return s_", ""),
        },
        replace=True,
    )
    with al.Harness.from_sql(
        "SELECT k, OWN() AS r FROM t GROUP BY k", {"t": "k STRING"}
    ) as harness:
        harness.process([("+I", "a"), ("+I", "a"), ("+I", "a"), ("-D", "a")])
        harness.flush()
        assert harness.table() == [("a", 4)]
    al.unregister("OWN")


def test_names_of_a_class_that_collide() -> None:
    source = """
class Own:
    def create(self):
        return [0]

    def own_accumulate(self, state, count):
        state[0] = max(state[0], count)

    def accumulate(self, state, count):
        self.own_accumulate(state, count)

    def fold_row(self, values):
        return values[0]

    def value(self, state):
        return self.fold_row(state)
"""
    entry = {"name": "OWN", "arguments": {"count": "INT"}, "result": "INT", "source": source}
    al.register(entry, replace=True)
    with al.Harness.from_sql("SELECT OWN(v) AS r FROM t", {"t": "v INT"}) as harness:
        harness.process([("+I", 3), ("+I", 9), ("-D", 9)])
        harness.flush()
        assert harness.table() == [(3,)]
    al.unregister("OWN")


def test_windows_and_distinct() -> None:
    model = register(KEPT["largest"])
    sql = (
        "SELECT window_end, OWN(DISTINCT v) AS r FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND)) "
        "GROUP BY window_start, window_end"
    )
    instants = pa.array([1_000_000, 2_000_000, 11_000_000], pa.timestamp("us", "UTC")).to_pylist()
    with al.Harness.from_sql(
        sql, {"t": "v INT, ts TIMESTAMP"}, watermarks={"t": ("ts", 0)}, backend="python"
    ) as harness:
        changes = [
            ("+I", 5, 0),
            ("+I", 9, 1),
            ("+I", 9, 1),
            ("-D", 9, 1),
            ("-D", 9, 1),
            ("+I", 2, 2),
        ]
        harness.process([(kind, v, instants[at]) for kind, v, at in changes])
        harness.end_of_input()
        assert [row[-1] for row in harness.table()] == [model([(5,)]), model([(2,)])]
    al.unregister("OWN")


def test_a_table_aggregate_without_retract() -> None:
    @al.table_aggregate("OWN_TOP", arguments={"v": "INT"}, columns={"value": "INT"}, replace=True)
    class OwnTop:
        def create():
            return (0, False, 0)

        def accumulate(state, v):  # noqa: N805
            return (max(state[0], v) if state[1] else v, True, state[2])

        def rows(state):  # noqa: N805
            if state[1]:
                yield state[0]

        def changes(state):  # noqa: N805
            yield True, state[0]

        def mark_emitted(state):  # noqa: N805
            return state

    with al.Harness.from_sql(
        "SELECT k, OWN_TOP(v) FROM t GROUP BY k", {"t": "k STRING, v INT"}
    ) as harness:
        harness.process([("+I", "a", 3), ("+I", "a", 9)])
        harness.flush()
        harness.process([("-D", "a", 9)])
        harness.flush()
        assert harness.changes() == [("+I", "a", 9), ("-D", "a", 9), ("+I", "a", 3)]
    al.unregister("OWN_TOP")


def test_the_derived_text_is_python() -> None:
    source = parse(class_of(*DERIVED["early"]), "OWN")
    found = derive_retract(source, {"v": INTEGER})
    assert isinstance(found, ast.FunctionDef)
    assert ast.unparse(found).splitlines()[-2:] == ["    n -= 1", "    return (n, t - v ** 2)"]


STEP = 3


def test_an_inverse_uses_self_and_constants() -> None:
    @al.aggregate("OWN", arguments={"v": "INT"}, result="BIGINT", replace=True)
    class Own:
        WEIGHT = 2

        def create(self):
            return (0, 0)

        def accumulate(self, state, v):
            """Count the even values, and add the others up to 50."""
            count, total = state
            if v % 2 == 0:
                count += self.WEIGHT * STEP
            elif v > 50:
                return state
            total = total + v
            return count, total

        @staticmethod
        def value(state):
            return state[0] * 1000 + state[1]

    sql, rows = "SELECT OWN(v) AS r FROM t", [
        ("+I", 4),
        ("+I", 51),
        ("+I", 7),
        ("-D", 4),
        ("+I", 2),
        ("-D", 51),
    ]
    assert "retract is derived" in al.explain(sql, "v INT")
    with al.Harness.from_sql(sql, {"t": "v INT"}, backend="python") as harness:
        harness.process(rows)
        harness.flush()
        assert harness.table() == [(6009,)]
    al.unregister("OWN")
