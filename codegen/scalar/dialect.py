"""Spark's scalar SQL as sqlglot reads it, except that patterns of dates stay as they were written."""

from __future__ import annotations

from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.dialects.spark import Spark


def _to_date(given: list[Any], dialect: Any) -> exp.Expression:
    """TO_DATE with its pattern kept: Spark reads a text by it exactly, and without one leniently."""
    if len(given) < 2:
        found: exp.Expression = Spark.Parser.FUNCTIONS["TO_DATE"](given, dialect)
        return found
    return exp.Anonymous(this="TO_DATE", expressions=given)


class ScalarSpark(Spark):  # type: ignore[misc]
    """Spark's dialect. sqlglot's takes Y for y, which Spark refuses, and leaves out a pattern that is the usual one."""

    TIME_MAPPING: ClassVar[dict[str, str]] = {}

    class Parser(Spark.Parser):  # type: ignore[misc]
        FUNCTIONS: ClassVar = {**Spark.Parser.FUNCTIONS, "TO_DATE": _to_date}
