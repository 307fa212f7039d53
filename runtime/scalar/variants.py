"""Functions of VARIANT, row by row: PARSE_JSON, paths, schemas, TO_JSON, and values of SQL as VARIANT."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, Final, TypeAlias

import pyarrow as pa

from aggloom.runtime.scalar import variant_documents as documents
from aggloom.runtime.scalar.json_documents import document_converter, order_names
from aggloom.runtime.scalar.values import Value, by_row, row_by_row
from aggloom.runtime.scalar.variant_documents import parse_document, read_document, write_document

VARIANT: Final = pa.json_(pa.string())
Step = str | int
"""The name of a field, or the place of an item from 0."""
_PLAIN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_DIGITS: Final = 38
_BIGINT: Final = (20, 0)
"""BIGINT as a DECIMAL's digits, and those of them behind the point."""
MISSING: Final = object()
"""The mark of a path that leads nowhere."""


def parse_json(text: str) -> str:
    """PARSE_JSON; raises ValueError for what is no JSON."""
    try:
        return write_document(parse_document(text))
    except ValueError as error:
        raise ValueError(f"MALFORMED JSON ({error}); TRY_PARSE_JSON has NULL for it") from None


def try_parse_json(text: str) -> str | None:
    """TRY_PARSE_JSON: NULL for what is no JSON."""
    try:
        return write_document(parse_document(text))
    except ValueError:
        return None


def find_value(value: Any, steps: Sequence[Step]) -> Any:
    """The part of a value at a path; `MISSING` if there is none."""
    for step in steps:
        if isinstance(step, str):
            if not isinstance(value, dict) or step not in value:
                return MISSING
        elif not isinstance(value, list) or step >= len(value):
            return MISSING
        value = value[step]
    return value


def find_part(value: Value, steps: Sequence[Step]) -> Value:
    """The VARIANT of each row at the end of these steps."""

    def follow(text: str) -> str | None:
        part = find_value(read_document(text), steps)
        return None if part is MISSING else write_document(part)

    return row_by_row(follow, VARIANT, value)


def get_item(text: str, key: Step) -> str | None:
    """The field of a name, or the item at a place from 0."""
    part = MISSING if isinstance(key, int) and key < 0 else find_value(read_document(text), [key])
    return None if part is MISSING else write_document(part)


def is_valid(text: str) -> bool:
    """IS_VALID_VARIANT: every VARIANT here was read from a document, or made of a value."""
    return True


def is_null(text: str | None) -> bool:
    """IS_VARIANT_NULL: whether a VARIANT is JSON's null; of NULL it is not."""
    return text == "null"


def to_json(text: str) -> str:
    """TO_JSON and JSON_STRING of a VARIANT."""
    return documents.to_json(read_document(text))


def schema_of(text: str) -> str:
    """SCHEMA_OF_VARIANT."""
    return _spell(_schema(read_document(text)))


def from_values(value: Value, sql: str) -> Value:
    """CAST(value AS VARIANT) and TO_VARIANT_OBJECT; raises InvalidCastError for a DOUBLE that is no number."""
    convert = document_converter(value.type, _leaf_converter)
    return by_row(lambda item: write_document(convert(item)), VARIANT, value, sql=sql)


def _leaf_converter(dtype: pa.DataType) -> Callable[[Any], Any]:
    return read_document if dtype == VARIANT else lambda value: value


Schema: TypeAlias = str | tuple[str, Any]
"""A schema: a name, ("DECIMAL", (digits, scale)), ("ARRAY", items) or ("OBJECT", fields by name)."""


def _schema(value: Any) -> Schema:
    if isinstance(value, list):
        return "ARRAY", _merge_all(value)
    if isinstance(value, dict):
        return "OBJECT", {name: _schema(each) for name, each in value.items()}
    if isinstance(value, Decimal):
        return "DECIMAL", _decimal_digits(value)
    if value is None or isinstance(value, bool):
        return "VOID" if value is None else "BOOLEAN"
    return {int: "BIGINT", float: "DOUBLE", str: "STRING"}[type(value)]


def _merge_all(values: list[Any]) -> Schema:
    merged: Schema = "VOID"
    for value in values:
        merged = _merge(merged, _schema(value))
    return merged


def _decimal_digits(value: Decimal) -> tuple[int, int]:
    """The digits of a DECIMAL without the zeros at its end, and how many of them follow the point."""
    whole, _, fraction = documents.decimal_text(value).lstrip("-").partition(".")
    return max(len((whole + fraction).lstrip("0")), len(fraction), 1), len(fraction)


def _merge(one: Any, other: Any) -> Schema:
    """The schema of items of an array that are of one, and of those that are of another."""
    if one == other or other == "VOID":
        return one
    if one == "VOID":
        return other
    if one[0] == other[0] == "ARRAY":
        return "ARRAY", _merge(one[1], other[1])
    if one[0] == other[0] == "OBJECT":
        names = [*one[1], *(name for name in other[1] if name not in one[1])]
        pairs = ((name, one[1].get(name, "VOID"), other[1].get(name, "VOID")) for name in names)
        return "OBJECT", {name: _merge(left, right) for name, left, right in pairs}
    numbers = [_number_digits(each) for each in (one, other)]
    if None in numbers:
        return "VARIANT"
    if "DOUBLE" in (one, other):
        return "DOUBLE"
    (p1, s1), (p2, s2) = numbers
    scale, whole = max(s1, s2), max(p1 - s1, p2 - s2)
    return "DOUBLE" if whole + scale > _DIGITS else ("DECIMAL", (whole + scale, scale))


def _number_digits(schema: Schema) -> Any:
    if schema == "DOUBLE":
        return (0, 0)
    return _BIGINT if schema == "BIGINT" else schema[1] if schema[0] == "DECIMAL" else None


def _spell(schema: Schema) -> str:
    if isinstance(schema, str):
        return schema
    kind, parts = schema
    if kind == "DECIMAL":
        return f"DECIMAL({parts[0]},{parts[1]})"
    if kind == "ARRAY":
        return f"ARRAY<{_spell(parts)}>"
    fields = (f"{_quote(name)}: {_spell(parts[name])}" for name in order_names(parts))
    return f"OBJECT<{', '.join(fields)}>"


def _quote(name: str) -> str:
    return name if _PLAIN.fullmatch(name) else "`" + name.replace("`", "``") + "`"
