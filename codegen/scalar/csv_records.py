"""Lines of CSV in texts: FROM_CSV, TO_CSV and SCHEMA_OF_CSV."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
from sqlglot import exp

from aggloom.codegen.scalar.entry import entry
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
    SEPARATORS,
    check_read,
    corrupt_column,
    is_failfast,
    lower_document,
    lower_schema,
    read_options,
    readers_of,
    record_type,
    separator_of,
    templates_of,
    zone_text,
)
from aggloom.codegen.scalar.spark_text import spark_text
from aggloom.codegen.spec.dtypes import VARIANT, type_name

_TEXT: Final = pa.string()
_NULL: Final = "nullvalue"


def _from_csv(low: ExpressionLowering, node: exp.Anonymous) -> LoweredExpression:
    if not 2 <= len(node.expressions) <= 3:
        raise unsupported_error(node, NEEDS_SPARK)
    dtype = record_type(node)
    if not pa.types.is_struct(dtype):
        fix = "a line of CSV is a ROW; name its columns, 'a INT, b STRING'."
        raise unsupported_error(node, f"reads {type_name(dtype)}; {fix}")
    for each in dtype:
        if pa.types.is_nested(each.type):
            fix = "a field of CSV has no parts; declare it as STRING and write FROM_JSON around the field."
            raise unsupported_error(node, f"reads {type_name(each.type)}; {fix}")
    check_read(dtype, node)
    options = read_options(node, 2, ("mode", CORRUPT, _NULL, *SEPARATORS, *FORMATS))
    corrupt = corrupt_column(dtype, options, node)
    text = "scalar.csv_rows.from_csv({0}, {kind}, scalar.csv_rows.CsvReading({reading}), {sql})"
    reading = (
        *(zone_text(low), readers_of(low, options, node), repr(corrupt)),
        *(repr(separator_of(options, node)), repr(_null_of(options, node))),
    )
    fails = is_failfast(options, node)
    return call(
        text,
        dtype,
        lower_document(low, node),
        kind=type_text(dtype),
        reading=", ".join(reading),
        sql=quoted(spark_text(node)) if fails else "None",
        # Some lines and far dates are errors in each mode.
        raises=True,
    )


def _null_of(options: dict[str, str], node: exp.Expression) -> str:
    """The text of NULL; raises UnsupportedExpressionError for one with a quote."""
    text = options.get(_NULL, "")
    if '"' in text:
        raise unsupported_error(
            node, f"has nullValue {text!r}, which {NEEDS_SPARK[:-1]}; leave the quote out."
        )
    return text


def _to_csv(low: ExpressionLowering, node: exp.Anonymous) -> LoweredExpression:
    if not 1 <= len(node.expressions) <= 2:
        raise unsupported_error(node, NEEDS_SPARK)
    value = low.lower(node.expressions[0])
    if not pa.types.is_struct(value.type):
        raise unsupported_error(
            node, f"writes {type_name(value.type)}; give it a ROW, as STRUCT(x)."
        )
    for each in value.type:
        if pa.types.is_nested(each.type) or each.type in (pa.binary(), VARIANT):
            fix = "put it into the row as a text, with TO_JSON or BASE64."
            raise unsupported_error(node, f"writes a field of {type_name(each.type)}; {fix}")
    options = read_options(node, 1, (_NULL, *SEPARATORS, *FORMATS))
    return call(
        "scalar.csv_rows.to_csv({0}, {zone}, {separator}, {null}, {templates})",
        _TEXT,
        value,
        zone=zone_text(low),
        separator=repr(separator_of(options, node)),
        null=repr(_null_of(options, node)),
        templates=templates_of(low, options, node),
    )


ENTRIES: Final[tuple[LoweringEntry, ...]] = (
    entry(
        "from_csv",
        (
            """from_csv('1,"a \\\\"b\\\\"",,2020-02-29', 'a INT, b STRING, c DOUBLE, d DATE')""",
            "from_csv(s, 'a STRING, b INT, _corrupt_record STRING')",
            "from_csv('1;x', 'a INT, b STRING', map('sep', ';', 'mode', 'FAILFAST'))",
        ),
        _from_csv,
    ),
    entry(
        "to_csv",
        (
            "to_csv(e)",
            "to_csv(struct(d, w, n, m, r, f, s))",
            "to_csv(struct(s, i), map('sep', ';', 'nullValue', '-'))",
        ),
        _to_csv,
    ),
    entry(
        "schema_of_csv",
        (
            "schema_of_csv('1,2.5,x,99999999999,2020-02-29,true')",
            "from_csv('1;x', schema_of_csv('2;y', map('sep', ';')), map('sep', ';'))",
        ),
        lower_schema,
    ),
)
