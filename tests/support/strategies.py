"""Hypothesis strategies: specs over every type, changelogs valid and dirty, and batch cuts."""

from __future__ import annotations

import datetime as dt
import math
import os
from collections.abc import Sequence
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pyarrow as pa
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from reference import identity

from aggloom.codegen import AggCall, AggSpec
from aggloom.codegen.catalogue.entry import Aggregate, Option
from aggloom.codegen.catalogue.registry import CATALOGUE

Row = tuple[Any, ...]
Change = tuple[Any, ...]
Draw = st.DrawFn

_MOMENTS = [
    dt.datetime(1970, 1, 1),
    dt.datetime(1969, 12, 31, 23, 59, 59, 999999),
    dt.datetime(2013, 6, 30, 12, 0, 0, 1),
    dt.datetime(1, 1, 1),
    dt.datetime(9999, 12, 31, 23, 59, 59, 999999),
]
_SINGLES = [0.0, -0.0, 1.5, -2.25, 0.125, 65536.0, math.nan, math.inf, -math.inf]


def examples(count: int) -> settings:
    """So many examples, and twenty times as many in a soak."""
    times = 20 if os.environ.get("AGGLOOM_EXAMPLES") == "other" else 1
    checks = list(HealthCheck)
    return settings(max_examples=count * times, deadline=None, suppress_health_check=checks)


def _integers(bits: int) -> list[int]:
    # Sums of the largest values must stay inside BIGINT: overflow has tests of its own.
    top = min(2 ** (bits - 1) - 1, 2**55)
    return [0, 1, -1, 2, 3, 7, 100, top, -top]


def _decimals(precision: int, scale: int) -> list[Decimal]:
    # Two digits of room: sums of these values fit the result.
    top = Decimal(10 ** max(precision - 3, 1)).scaleb(-scale)
    step = Decimal(1).scaleb(-scale)
    return [Decimal(0).scaleb(-scale), step, -step, step * 7, top, -top, top + step]


DOMAINS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "flag": (pa.bool_(), [True, False]),
    "tiny": (pa.int8(), [*_integers(8), -128]),
    "small": (pa.int16(), [*_integers(16), -(2**15)]),
    "whole": (pa.int32(), [*_integers(32), -(2**31)]),
    "big": (pa.int64(), _integers(64)),
    "single": (pa.float32(), [0.0 if math.isnan(v) else v for v in _SINGLES[:6]] + _SINGLES[6:]),
    "double": (pa.float64(), [*_SINGLES, 1e150, -1e150, 1e-300, 3.3]),
    "money": (pa.decimal128(10, 2), _decimals(10, 2)),
    "vast": (pa.decimal128(38, 6), _decimals(30, 6)),
    "text": (
        pa.string(),
        ["", "a", "b", "aa", "ä", "größe", "日本", "a\u0301", "'", '"', "z" * 40],
    ),
    "bytes": (pa.binary(), [b"", b"\x00", b"a", b"\xff\xfe", b"a\x00b"]),
    "day": (pa.date32(), [m.date() for m in _MOMENTS]),
    "moment": (pa.timestamp("us"), _MOMENTS),
    "instant": (pa.timestamp("us", "UTC"), [m.replace(tzinfo=dt.UTC) for m in _MOMENTS]),
    "clock": (pa.time64("us"), [m.time() for m in _MOMENTS[1:3]] + [dt.time(0), dt.time(12, 0, 1)]),
    "list": (pa.list_(pa.int32()), [[], [1], [1, 2], [None], [1, None], [0, 5, -1]]),
    "record": (
        pa.struct([("a", pa.int32()), ("b", pa.string())]),
        [{"a": a, "b": b} for a, b in [(1, "x"), (1, "y"), (None, "x"), (2, None), (None, None)]],
    ),
}
"""Column name to type and the values drawn for it: few, so that rows meet, extremes among them."""

NESTED = ("list", "record")
SCALARS = tuple(name for name in DOMAINS if name not in NESTED)
INTEGERS = ("tiny", "small", "whole", "big")
NUMBERS = (*INTEGERS, "single", "double", "money", "vast")
FITTING = {
    "any": tuple(DOMAINS),
    "scalar": tuple(name for name in SCALARS if name != "bytes"),
    "number": NUMBERS,
    "integer": INTEGERS,
    "boolean": ("flag",),
}
"""Columns that each kind of argument allows."""
ARGUMENTS = {
    name: tuple(FITTING[argument.kind] for argument in entry.arguments)
    for name, entry in CATALOGUE.items()
}
"""Columns for each argument of each function."""
ERRS = ("SINGLE_VALUE",)
"""Functions that are errors over most groups."""
REGULAR = tuple(name for name, e in CATALOGUE.items() if name not in ERRS and not e.instead)


def samples(option: Option) -> list[Any]:
    """Values for an option of a call; one that bounds a sketch stays as it is."""
    return {
        "text": ["", "; "],
        "choice": list(option.choices),
        "fractions": [0.25, (0.0, 0.5, 1.0)],
        "whole": [1, 3] if option.name == "k" else [],
        "fraction": [],
    }[option.kind]


def required(entry: Aggregate) -> dict[str, Any]:
    """The options without which there is no call."""
    return {o.name: samples(o)[0] for o in entry.options if o.required}


def schema_of(names: Sequence[str]) -> pa.Schema:
    """The named columns, each once."""
    return pa.schema([(name, DOMAINS[name][0]) for name in dict.fromkeys(names)])


def values_of(name: str) -> st.SearchStrategy[Any]:
    """Values of a column: mostly its domain, sometimes NULL."""
    domain = st.sampled_from(DOMAINS[name][1])
    return st.one_of(domain, domain, domain, st.none())


def rows_of(schema: pa.Schema) -> st.SearchStrategy[Row]:
    """Rows of a schema whose columns carry the names of `DOMAINS`."""
    return st.tuples(*(values_of(name) for name in schema.names))


@st.composite
def _calls(draw: Draw, entry: Aggregate, alias: str) -> AggCall:
    """A call of a function with whatever it takes."""
    least = sum(not a.optional for a in entry.arguments)
    fitting = ARGUMENTS[entry.name][: draw(st.integers(max(least, 1), len(entry.arguments)))]
    args = tuple(draw(st.sampled_from(names)) for names in fitting)
    given = {argument.name for argument in entry.arguments[: len(args)]}
    options = required(entry)
    for option in entry.options:
        if samples(option) and option.name not in given and draw(st.booleans()):
            options[option.name] = draw(st.sampled_from(samples(option)))
    distinct = draw(st.booleans()) and "frequency" not in given
    order: list[str] = []
    if entry.ordered is not None and not set(args) & set(NESTED) and draw(st.booleans()):
        keys = args[:1] if distinct else SCALARS
        order = draw(st.lists(st.sampled_from(keys), min_size=1, max_size=2, unique=True))
        order = [key + draw(st.sampled_from(["", " DESC", " NULLS LAST"])) for key in order]
    return AggCall(
        entry.name,
        args,
        distinct,
        draw(st.sampled_from([None, None, "flag"])),
        alias,
        tuple(order),  # type: ignore[arg-type]
        draw(st.sampled_from([None, "ignore", "respect"])) if entry.nulls else None,
        tuple(options.items()),
    )


@st.composite
def specs(draw: Draw, functions: Sequence[str] = REGULAR) -> AggSpec:
    """A spec with 0 to 3 keys and 1 to 6 calls, some DISTINCT, some filtered, some ordered."""
    keys = draw(st.lists(st.sampled_from(tuple(DOMAINS)), max_size=3, unique=True))
    calls = []
    for position in range(draw(st.integers(1, 6))):
        function, alias = draw(st.sampled_from(["COUNT(*)", *functions])), f"r{position}"
        if function == "COUNT(*)":
            condition = draw(st.sampled_from([None, "flag"]))
            calls.append(AggCall("COUNT", filter=condition, alias=alias))
        else:
            calls.append(draw(_calls(CATALOGUE[function], alias)))
    return spec_over(calls, keys, draw(st.sampled_from(["spark", "flink"])))


def spec_over(
    calls: Sequence[AggCall],
    keys: Sequence[str] = (),
    dialect: str = "spark",
    changes: str = "retract",
) -> AggSpec:
    """A spec of calls over the columns that they name."""
    used = [*keys]
    for call in calls:
        used += [*call.args, *(key.column for key in call.order_by)]
        used += [call.filter] if call.filter else []
    return AggSpec(
        schema=schema_of(used or ["whole"]),
        group_by=tuple(keys),
        calls=tuple(calls),
        input_changes="append" if changes == "append" else "retract",
        dialect="flink" if dialect == "flink" else "spark",
    )


@st.composite
def changelogs(
    draw: Draw, spec: AggSpec, max_size: int = 30, orphans: str = "none"
) -> list[Change]:
    """Changes in which every retraction names a live row.

    With orphans="keys" some retract from keys without a live row, with "any" also from others.
    """
    schema = spec.schema
    places = [schema.names.index(name) for name in spec.group_by]
    steps = draw(
        st.lists(
            st.tuples(st.integers(0, 7), st.integers(0, 1000), rows_of(schema)), max_size=max_size
        )
    )
    live: list[Row] = []
    out: list[Change] = []
    for action, choice, row in steps:
        if orphans != "none" and action == 7:
            keys = {tuple(identity(r[i]) for i in places) for r in live}
            if orphans == "any" or tuple(identity(row[i]) for i in places) not in keys:
                out.append(("-D" if choice % 2 else "-U", *row))
        elif action <= 3 or not live:
            live.append(row)
            out.append(("+I" if action else "+U", *row))
        else:
            old = live.pop(choice % len(live))
            if action <= 5:
                out.append(("-D", *old))
            else:
                live.append(row)
                out += [("-U", *old), ("+U", *row)]
    return out


@st.composite
def lawful_batches(
    draw: Draw, rows: st.SearchStrategy[Row], most: int, retracts: bool = True
) -> list[list[Change]]:
    """Batches of at most so many changes, each of which takes back rows that are there, if any does."""
    live: list[Row] = []
    batches: list[list[Change]] = [[]]
    for row in draw(st.lists(rows, max_size=most)):
        action = draw(st.integers(0, 5)) if retracts and live else 0
        if draw(st.integers(0, 3)) == 0:
            batches.append([])
        if action <= 2:
            live.append(row)
            batches[-1].append(("+I", *row))
            continue
        old = live.pop(draw(st.integers(0, len(live) - 1)))
        if action == 3:
            batches[-1].append(("-D", *old))
            continue
        live.append(row)
        batches[-1] += [("-U", *old), ("+U", *row)]
    return batches


def net_rows(changes: Sequence[Change]) -> list[Row]:
    """The rows that a valid changelog leaves."""
    live: list[tuple[str, Row]] = []
    for kind, *values in changes:
        mark = repr(tuple(values))
        if kind in ("+I", "+U"):
            live.append((mark, tuple(values)))
        else:
            del live[[m for m, _ in live].index(mark)]
    return [row for _, row in live]


@st.composite
def cut(draw: Draw, changes: Sequence[Change]) -> list[list[Change]]:
    """The changes in consecutive batches, some of them empty."""
    ends = sorted(draw(st.lists(st.integers(0, len(changes)), max_size=4)))
    bounds = [0, *ends, len(changes)]
    return [list(changes[a:b]) for a, b in pairwise(bounds)]


def largest(changes: Sequence[Change]) -> float:
    """The largest finite float among the rows: what rounding errors are measured against."""
    floats = [abs(v) for c in changes for v in c[1:] if isinstance(v, float) and math.isfinite(v)]
    return max(floats, default=0.0)


def _call(text: str) -> AggCall:
    """`SUM whole`, `COUNT`, `MAX text d`: function, argument, then d(istinct), f(iltered)."""
    function, *rest = text.split()
    argument = tuple(rest[:1])
    marks = rest[1] if len(rest) > 1 else ""
    condition = "flag" if "f" in marks else None
    return AggCall(function, argument, "d" in marks, condition, text.replace(" ", "_"))


def _fixed_spec(keys: str, calls: Sequence[str], dialect: str = "spark") -> AggSpec:
    return spec_over([_call(text) for text in calls], keys.split(), dialect)


RICH: dict[str, AggSpec] = {
    "integers": _fixed_spec(
        "text",
        ["SUM tiny", "SUM0 small", "AVG whole", "MIN big", "MAX tiny f", "COUNT whole d", "COUNT"],
    ),
    "distinct": _fixed_spec(
        "whole flag",
        ["SUM big d", "AVG big d", "COUNT big d", "MAX big d", "COUNT text df", "SUM tiny df"],
    ),
    "floats": _fixed_spec(
        "small",
        ["SUM double", "AVG double", "MIN double", "MAX single", "SUM single", "COUNT double d"],
    ),
    "decimals": _fixed_spec(
        "day", ["SUM money", "AVG money", "MIN money", "MAX vast", "SUM vast", "AVG vast d"]
    ),
    "bytes": _fixed_spec(
        "bytes text",
        ["MIN text", "MAX bytes", "COUNT bytes d", "MIN bytes f", "MAX text d", "COUNT"],
    ),
    "times": _fixed_spec(
        "moment",
        ["MIN day", "MAX moment", "MIN instant", "MAX instant f", "COUNT day d", "MAX flag"],
    ),
    "first_last": _fixed_spec(
        "text",
        [
            "FIRST_VALUE whole",
            "LAST_VALUE text",
            "FIRST_VALUE double f",
            "LAST_VALUE money d",
            "COUNT",
        ],
    ),
    "flink": _fixed_spec(
        "single money instant",
        ["SUM tiny", "AVG small", "SUM single", "AVG money", "SUM vast", "AVG double f"],
        "flink",
    ),
    "global": _fixed_spec(
        "", ["SUM whole", "MIN text", "MAX double", "AVG money", "COUNT", "COUNT flag d"]
    ),
}
"""Specs that between them cover every type and function: the ones compiled by Numba."""
