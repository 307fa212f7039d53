"""Documents of JSON as Jackson reads and writes them for Flink.

Numbers keep their digits, of fields of one name the last counts, and what stands behind the first value is passed over.
Objects are written with their names in order.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from decimal import Decimal
from typing import Any, Final

from aggloom.runtime.scalar.json_texts import escape_sign, read_first_value, refuse_constant

_CONTROL: Final = re.compile(r'[\x00-\x1f"\\]')
_DECODER: Final = json.JSONDecoder(parse_float=Decimal, parse_constant=refuse_constant)


def read_json(text: str) -> Any:
    """Read the first value of a text; raises ValueError."""
    try:
        return read_first_value(text, _DECODER)
    except (RecursionError, ArithmeticError) as error:
        raise ValueError(f"the JSON nests too deep or has too large a number ({error})") from None


def write_json(value: Any) -> str:
    """Write a value without spaces, the names of objects in the order of their UTF-16 units."""
    if isinstance(value, str):
        return f'"{_CONTROL.sub(lambda sign: escape_sign(sign[0]), value)}"'
    if isinstance(value, dict):
        fields = (f"{write_json(name)}:{write_json(value[name])}" for name in order_names(value))
        return "{" + ",".join(fields) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(write_json, value)) + "]"
    return "null" if value is None else scalar_text(value)


def order_names(names: Iterable[str]) -> list[str]:
    """Sort names by their UTF-16 units, as Java does."""
    # Letters beyond U+FFFF begin with a unit below U+E000: this is not the order of code points.
    return sorted(names, key=lambda name: name.encode("utf-16-be", "surrogatepass"))


def scalar_text(value: Any) -> str:
    """A text as it is, a number or a truth value as JSON has it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
