"""Documents of JSON as Jackson reads and writes them for Flink.

Numbers keep their digits, of fields of one name the last counts, and what follows the first value is passed over.
Objects are written with their names in order.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa

from aggloom.runtime.scalar.json_texts import escape_sign, read_first_value, refuse_constant

_CONTROL: Final = re.compile(r'[\x00-\x1f"\\]')
_DECODER: Final = json.JSONDecoder(parse_float=Decimal, parse_constant=refuse_constant)


def read_json(text: str) -> Any:
    """Read the first value of a text; raises ValueError."""
    try:
        return read_first_value(text, _DECODER)
    except (RecursionError, ArithmeticError) as error:
        raise ValueError(f"the JSON nests too deep or has too large a number ({error})") from None


def write_json(value: Any, write_number: Callable[[Any], str] = str) -> str:
    """Write a value without spaces, the names of objects in the order of their UTF-16 units.

    write_number: writes what is neither a text nor a whole number.
    """
    if isinstance(value, str):
        return f'"{_CONTROL.sub(lambda sign: escape_sign(sign[0]), value)}"'
    if isinstance(value, dict):
        fields = (
            f"{write_json(name)}:{write_json(value[name], write_number)}"
            for name in order_names(value)
        )
        return "{" + ",".join(fields) + "}"
    if isinstance(value, list):
        return "[" + ",".join(write_json(each, write_number) for each in value) + "]"
    if value is None:
        return "null"
    return scalar_text(value) if isinstance(value, int) else write_number(value)


def order_names(names: Collection[str]) -> list[str]:
    """Sort names by their UTF-16 units, as Java does."""
    if all(map(str.isascii, names)):
        return sorted(names)
    # Letters beyond U+FFFF begin with a unit below U+E000: this is not the order of code points.
    return sorted(names, key=lambda name: name.encode("utf-16-be", "surrogatepass"))


def document_converter(
    dtype: pa.DataType, convert_leaf: Callable[[pa.DataType], Callable[[Any], Any]]
) -> Callable[[Any], Any]:
    """The function that turns values of a type that are not NULL into a document's: lists, objects by name, leaves.

    convert_leaf: the function of a type without parts.
    """
    if pa.types.is_list(dtype):
        item = _nullable(document_converter(dtype.value_type, convert_leaf))
        return lambda value: [item(each) for each in value]
    if pa.types.is_map(dtype):
        entry = _nullable(document_converter(dtype.item_type, convert_leaf))
        return lambda value: {key: entry(each) for key, each in value}
    if pa.types.is_struct(dtype):
        fields = {f.name: _nullable(document_converter(f.type, convert_leaf)) for f in dtype}
        return lambda value: {name: convert(value[name]) for name, convert in fields.items()}
    return convert_leaf(dtype)


def _nullable(convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else convert(value)


def scalar_text(value: Any) -> str:
    """A text as it is, a number or a truth value as JSON has it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
