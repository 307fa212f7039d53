"""The words of a plan's lines: names, calls and projections, as Flink's EXPLAIN writes them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from aggloom.codegen.scalar.expressions import column_name
from aggloom.codegen.spec.agg_call import describe_call
from aggloom.codegen.spec.agg_spec import AggSpec

# Commas and brackets separate names in a plan's line. U+0085, U+2028 and U+2029 are line breaks, too:
# `str.splitlines` cuts there.
_SPECIAL = re.compile(r"[`,\[\]{}\x00-\x1f\x7f\u0085\u2028\u2029]")
_CONTROL = re.compile(r"[\x00-\x1f\x7f\u0085\u2028\u2029]+")


def one_line(text: str) -> str:
    """The text without line breaks and other control characters."""
    return _CONTROL.sub(" ", text)


def format_name(name: str) -> str:
    """A column's name on one line, in backticks if it could be mistaken for something else."""
    if name and not _SPECIAL.search(name):
        return name
    return "`" + one_line(name).replace("`", "``") + "`"


def shown_names(names: Iterable[str]) -> list[str]:
    """Columns' names, each on one line."""
    return [format_name(name) for name in names]


def shown_calls(spec: AggSpec) -> list[str]:
    """Keys and calls; those that retract rows are marked as Flink marks them, a user's own never."""
    calls = []
    for call in spec.calls:
        # The text of a call begins with its function, so that the suffix goes before the first parenthesis.
        function, _, rest = describe_call(replace(call, alias=None)).partition("(")
        if (
            spec.input_changes == "retract"
            and not call.monotonic
            and not spec.entry(call).user_defined
        ):
            function += "_RETRACT"
        calls.append(f"{function}({rest} AS {format_name(call.output_name)}")
    return [*shown_names(spec.group_by), *calls]


def shown_projection(name: str, sql: str) -> str:
    """An expression and the name that it gets."""
    column = column_name(sql)
    text = sql if column is None else format_name(column)
    return text if column == name else f"{text} AS {format_name(name)}"
