"""Functions of Flink that Spark has under another name: they are read as Spark's, so that both evaluate them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from sqlglot import exp

Build = Callable[[list[Any]], exp.Expression]


def _call(name: str, *more: exp.Expression) -> Build:
    return lambda arguments: exp.Anonymous(this=name, expressions=[*arguments, *more])


def _from_base64(arguments: list[Any]) -> exp.Expression:
    return exp.cast(exp.Anonymous(this="UNBASE64", expressions=arguments), "string")


_OF_ONE: Final[dict[str, Build]] = {
    **{f"SHA{n}": _call("SHA2", exp.Literal.number(n)) for n in (224, 256, 384, 512)},
    "TO_BASE64": _call("BASE64"),
    "FROM_BASE64": _from_base64,
    "ARRAY_REVERSE": lambda arguments: exp.Reverse(this=arguments[0]),
    "WEEK": lambda arguments: exp.WeekOfYear(this=arguments[0]),
}


def _read(name: str) -> Build:
    def build(arguments: list[Any]) -> exp.Expression:
        if len(arguments) != 1:
            # It is refused by its name.
            return exp.Anonymous(this=name, expressions=arguments)
        return _OF_ONE[name](arguments)

    return build


def _trim(name: str, position: str) -> Build:
    """LTRIM and RTRIM of certain characters; of blanks as Spark has them."""

    def build(arguments: list[Any]) -> exp.Expression:
        # Spark's own TRIM takes the characters first, Flink's function takes them last.
        if len(arguments) != 2:
            return (
                exp.Trim(this=arguments[0], position=position)
                if len(arguments) == 1
                else _call(name)(arguments)
            )
        return exp.Trim(this=arguments[0], expression=arguments[1], position=position)

    return build


def _convert_zone(arguments: list[Any]) -> exp.Expression:
    """CONVERT_TZ: a text from one time zone into another; NULL for a text that is no time."""
    if len(arguments) != 3:
        return _call("CONVERT_TZ")(arguments)
    text, *zones = arguments
    time = exp.TryCast(
        this=text, to=exp.DataType.build("TIMESTAMP_NTZ", dialect="spark"), safe=True
    )
    moved = exp.Anonymous(this="CONVERT_TIMEZONE", expressions=[*zones, time])
    pattern = exp.Literal.string("yyyy-MM-dd HH:mm:ss")
    return exp.TimeToStr(this=exp.TimeStrToTime(this=moved), format=pattern)


def _row(arguments: list[Any]) -> exp.Expression:
    """ROW(a, b) with Flink's names of fields."""
    # The names that Flink gives to fields: EXPR$0, EXPR$1, ..
    parts = [
        part
        for place, value in enumerate(arguments)
        for part in (exp.Literal.string(f"EXPR${place}"), value)
    ]
    return exp.Anonymous(this="NAMED_STRUCT" if parts else "ROW", expressions=parts)


READ_AS_SPARKS: Final[dict[str, Build]] = {
    **{name: _read(name) for name in _OF_ONE},
    "CONVERT_TZ": _convert_zone,
    "LTRIM": _trim("LTRIM", "LEADING"),
    "ROW": _row,
    "RTRIM": _trim("RTRIM", "TRAILING"),
}
"""The readers of calls, by the name of the function in capitals."""
