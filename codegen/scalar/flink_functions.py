"""Functions of Flink that Spark has under another name: they are read as Spark's, so that both evaluate them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from sqlglot import exp

Build = Callable[[list[Any]], exp.Expression]


def _call(name: str, *more: exp.Expression) -> Build:
    return lambda given: exp.Anonymous(this=name, expressions=[*given, *more])


def _from_base64(given: list[Any]) -> exp.Expression:
    return exp.cast(exp.Anonymous(this="UNBASE64", expressions=given), "string")


_OF_ONE: Final[dict[str, Build]] = {
    **{f"SHA{n}": _call("SHA2", exp.Literal.number(n)) for n in (224, 256, 384, 512)},
    "TO_BASE64": _call("BASE64"),
    "FROM_BASE64": _from_base64,
    "ARRAY_REVERSE": lambda given: exp.Reverse(this=given[0]),
    "WEEK": lambda given: exp.WeekOfYear(this=given[0]),
}


def _read(name: str) -> Build:
    def build(given: list[Any]) -> exp.Expression:
        if len(given) != 1:
            # It is refused by its name.
            return exp.Anonymous(this=name, expressions=given)
        return _OF_ONE[name](given)

    return build


READ_AS_SPARKS: Final[dict[str, Build]] = {name: _read(name) for name in _OF_ONE}
"""The readers of calls, by the name of the function in capitals."""
