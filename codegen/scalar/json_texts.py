"""JSON in texts: the value at a path, the length of an array, the names of an object."""

from __future__ import annotations

import re
from typing import Any, Final

import pyarrow as pa
from sqlglot import exp

from aggloom.codegen.scalar.entry import by_row, entry, literal_text
from aggloom.codegen.scalar.json_paths import match_steps
from aggloom.codegen.scalar.lowered_expression import LoweredExpression, call
from aggloom.codegen.scalar.lowering import NEEDS_SPARK, ExpressionLowering, LoweringEntry
from aggloom.codegen.scalar.operand_types import unsupported_error

_TEXT: Final = pa.string()
# A name without quotes ends at a dot, a bracket or a star; nine digits keep a place within 32 bits.
_STEP: Final = re.compile(
    r"\.(?P<name>[^.\[*]+)|(?P<every>\.\*|\['\*'\])|\['(?P<quoted>[^']+)'\]|\[(?P<place>\d{1,9})\]|(?P<all>\[\*\])"
)


def path_steps(path: str) -> list[tuple[str, Any]] | None:
    """The steps of a path such as $.a[0]['b'][*]; None for what is none."""
    if not path.startswith("$"):
        return None
    matches = match_steps(_STEP, path)
    if matches is None:
        return None
    steps: list[tuple[str, Any]] = []
    for match in matches:
        if match["place"] or match["all"]:
            steps.append(("item", int(match["place"]) if match["place"] else "*"))
        else:
            steps.append(("field", "*" if match["every"] else match["name"] or match["quoted"]))
    return steps


def _get(low: ExpressionLowering, node: exp.Anonymous) -> LoweredExpression:
    document, path = node.expressions
    steps = path_steps(literal_text(path, node))
    # Of "$.*" Spark's documents say more than it does.
    if steps is None or ("field", "*") in steps:
        raise unsupported_error(node, NEEDS_SPARK)
    text = "scalar.json_texts.get_json_objects({0}, {steps})"
    return call(text, _TEXT, low.text(document), steps=repr(steps))


_JSON: Final = (
    """'{"a": {"b": [1, 2.50, {"c": "x"}]}, "d e": null, "f": "y\\\\"z", "g": [[1], [2, 3]]}'"""
)
ENTRIES: Final[tuple[LoweringEntry, ...]] = (
    entry(
        "get_json_object",
        (
            *(
                f"get_json_object({_JSON}, '{path}')"
                for path in ("$.f", "$.a", "$.a.b[1]", "$.g[*]")
            ),
            *(f"get_json_object({_JSON}, '{path}')" for path in ("$.a.b[*].c", "$.g[*][*]")),
            "get_json_object(s, '$')",
        ),
        _get,
    ),
    entry(
        "json_array_length",
        ("json_array_length('[1, [2], {}]')", "json_array_length(s)"),
        by_row("json_texts.array_length", pa.int32(), _TEXT),
    ),
    entry(
        "json_object_keys",
        (f"json_object_keys({_JSON})", "json_object_keys(s)"),
        by_row("json_texts.object_keys", pa.list_(_TEXT), _TEXT),
    ),
)
