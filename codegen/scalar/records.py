"""Records in texts: FROM_JSON, TO_JSON and SCHEMA_OF_JSON."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
from sqlglot import exp

from aggloom.codegen.scalar.entry import call_by_row, entry
from aggloom.codegen.scalar.lowered_expression import (
    LoweredExpression,
    call,
    quoted,
    type_text,
)
from aggloom.codegen.scalar.lowering import NEEDS_SPARK, ExpressionLowering, LoweringEntry
from aggloom.codegen.scalar.operand_types import unsupported_error
from aggloom.codegen.scalar.record_options import (
    CORRUPT,
    FORMATS,
    check_read,
    check_written,
    corrupt_column,
    is_failfast,
    lower_document,
    lower_schema,
    read_options,
    readers_of,
    record_type,
    templates_of,
    zone_text,
)
from aggloom.codegen.scalar.spark_text import spark_text
from aggloom.codegen.spec.dtypes import VARIANT, type_name

_TEXT: Final = pa.string()


def _from_json(low: ExpressionLowering, node: exp.Anonymous) -> LoweredExpression:
    if not 2 <= len(node.expressions) <= 3:
        raise unsupported_error(node, NEEDS_SPARK)
    dtype = record_type(node)
    if not pa.types.is_nested(dtype):
        raise unsupported_error(node, f"reads {type_name(dtype)}; a record is a ROW, ARRAY or MAP.")
    check_read(dtype, node)
    options = read_options(node, 2, ("mode", CORRUPT, *FORMATS))
    corrupt = corrupt_column(dtype, options, node)
    text = "scalar.json_rows.from_json({0}, {kind}, scalar.json_rows.JsonReading({zone}, {readers}, {corrupt}), {sql})"
    fails = is_failfast(options, node)
    return call(
        text,
        dtype,
        lower_document(low, node),
        kind=type_text(dtype),
        zone=zone_text(low),
        readers=readers_of(low, options, node),
        corrupt="None" if corrupt is None else quoted(corrupt),
        sql=quoted(spark_text(node)) if fails else "None",
        # Far dates are errors in each mode.
        raises=True,
    )


def _to_json(low: ExpressionLowering, node: exp.Anonymous) -> LoweredExpression:
    if not 1 <= len(node.expressions) <= 2:
        raise unsupported_error(node, NEEDS_SPARK)
    value = low.lower(node.expressions[0])
    options = read_options(node, 1, ("ignorenullfields", *FORMATS))
    if value.type == VARIANT:
        return call_by_row("variants.to_json", _TEXT, [value], node)
    if not pa.types.is_nested(value.type):
        fix = f"writes {type_name(value.type)}; give it a ROW, ARRAY, MAP or VARIANT, as STRUCT(x)."
        raise unsupported_error(node, fix)
    check_written(value.type, node)
    text = "scalar.json_writing.to_json({0}, {zone}, {keeps}, {templates})"
    keeps = options.get("ignorenullfields", "true").lower()
    if keeps not in ("true", "false"):
        raise unsupported_error(node, "has option ignoreNullFields, which is true or false.")
    return call(
        text,
        _TEXT,
        value,
        zone=zone_text(low),
        keeps=str(keeps == "false"),
        templates=templates_of(low, options, node),
    )


_JSON: Final = """'{"a": 1, "b": [1.5, null], "c": {"d": "2020-02-29"}, "e": 7}'"""
ENTRIES: Final[tuple[LoweringEntry, ...]] = (
    entry(
        "from_json",
        (
            f"from_json({_JSON}, 'a INT, b ARRAY<DOUBLE>, c STRUCT<d: DATE>, z STRING')",
            "from_json(s, 'ARRAY<INT>')",
            "from_json(s, 'a STRING, c STRING, _corrupt_record STRING')",
            f"from_json({_JSON}, 'MAP<STRING, STRING>', map('mode', 'FAILFAST'))",
        ),
        _from_json,
    ),
    entry(
        "to_json",
        (
            "to_json(e)",
            "to_json(k)",
            "to_json(struct(d, w, n, m, r, f, y))",
            "to_json(array(e), map('ignoreNullFields', 'false'))",
            "TO_JSON(CAST(a AS VARIANT))",
        ),
        _to_json,
    ),
    entry(
        "schema_of_json",
        (
            """schema_of_json('{"b": [1, 2.5, null], "a": {"c": "x", "d": 99999999999999999999}}')""",
            """from_json('{"a": [1, 2]}', schema_of_json('{"a": [], "b": 1}'))""",
        ),
        lower_schema,
    ),
)
