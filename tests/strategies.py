"""Hypothesis strategies: specs over every type, changelogs valid and dirty, and batch cuts."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Sequence
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st
from model import identity

from aggloom.codegen import AggCall, AggSpec

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
}
"""Column name to type and the values drawn for it: few, so that rows meet, extremes among them."""

NUMBERS = ("tiny", "small", "whole", "big", "single", "double", "money", "vast")
ORDERED = tuple(DOMAINS)
ARGUMENTS = {
    "COUNT": ORDERED,
    "SUM": NUMBERS,
    "SUM0": NUMBERS,
    "AVG": NUMBERS,
    "MIN": ORDERED,
    "MAX": ORDERED,
    "FIRST_VALUE": ORDERED,
    "LAST_VALUE": ORDERED,
}
ORDER_FREE = ("COUNT", "SUM", "SUM0", "AVG", "MIN", "MAX")


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
def specs(draw: Draw, functions: Sequence[str] = tuple(ARGUMENTS)) -> AggSpec:
    """A spec with 0 to 3 keys and 1 to 6 calls, some DISTINCT, some filtered."""
    keys = draw(st.lists(st.sampled_from(ORDERED), max_size=3, unique=True))
    calls = []
    for position in range(draw(st.integers(1, 6))):
        function = draw(st.sampled_from(["COUNT(*)", *functions]))
        condition = draw(st.sampled_from([None, None, "flag"]))
        if function == "COUNT(*)":
            calls.append(AggCall("COUNT", filter=condition, alias=f"r{position}"))
            continue
        argument = draw(st.sampled_from(ARGUMENTS[function]))
        distinct = draw(st.booleans())
        calls.append(AggCall(function, (argument,), distinct, condition, f"r{position}"))
    used = [*keys, *(a for c in calls for a in c.args), *(c.filter for c in calls if c.filter)]
    return AggSpec(
        schema=schema_of(used or ["whole"]),
        group_by=tuple(keys),
        calls=tuple(calls),
        dialect=draw(st.sampled_from(["spark", "flink"])),
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


def _fixed(keys: str, calls: Sequence[str], dialect: str = "spark") -> AggSpec:
    parsed = tuple(_call(text) for text in calls)
    used = [
        *keys.split(),
        *(a for c in parsed for a in c.args),
        *(c.filter for c in parsed if c.filter),
    ]
    return AggSpec(
        schema=schema_of(used),
        group_by=tuple(keys.split()),
        calls=parsed,
        dialect="flink" if dialect == "flink" else "spark",
    )


RICH: dict[str, AggSpec] = {
    "integers": _fixed(
        "text",
        ["SUM tiny", "SUM0 small", "AVG whole", "MIN big", "MAX tiny f", "COUNT whole d", "COUNT"],
    ),
    "distinct": _fixed(
        "whole flag",
        ["SUM big d", "AVG big d", "COUNT big d", "MAX big d", "COUNT text df", "SUM tiny df"],
    ),
    "floats": _fixed(
        "small",
        ["SUM double", "AVG double", "MIN double", "MAX single", "SUM single", "COUNT double d"],
    ),
    "decimals": _fixed(
        "day", ["SUM money", "AVG money", "MIN money", "MAX vast", "SUM vast", "AVG vast d"]
    ),
    "bytes": _fixed(
        "bytes text",
        ["MIN text", "MAX bytes", "COUNT bytes d", "MIN bytes f", "MAX text d", "COUNT"],
    ),
    "times": _fixed(
        "moment",
        ["MIN day", "MAX moment", "MIN instant", "MAX instant f", "COUNT day d", "MAX flag"],
    ),
    "first_last": _fixed(
        "text",
        [
            "FIRST_VALUE whole",
            "LAST_VALUE text",
            "FIRST_VALUE double f",
            "LAST_VALUE money d",
            "COUNT",
        ],
    ),
    "flink": _fixed(
        "single money instant",
        ["SUM tiny", "AVG small", "SUM single", "AVG money", "SUM vast", "AVG double f"],
        "flink",
    ),
    "global": _fixed(
        "", ["SUM whole", "MIN text", "MAX double", "AVG money", "COUNT", "COUNT flag d"]
    ),
}
"""Specs that between them cover every type and function: the ones compiled by Numba."""
