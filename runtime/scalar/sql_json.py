"""JSON of standard SQL as Flink has it: JSON_VALUE, JSON_QUERY, JSON_EXISTS, IS JSON, JSON_LENGTH, JSON_TYPE."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from typing import Any, Final, TypeAlias

import pyarrow as pa

from aggloom.runtime.scalar.decimals import fit
from aggloom.runtime.scalar.json_documents import read_json, scalar_text, write_json
from aggloom.runtime.scalar.values import Value, by_row_with_nulls

Path: TypeAlias = tuple[str, bool, tuple[tuple[str, tuple[Any, ...], bool], ...]]
"""A path as generated text has it: "strict" or "lax", whether it leads to one place, steps (kind, values, deep)."""
_NUMBER: Final = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_FLOAT_END: Final = 3.4028235677973366e38
"""The least number that rounds to infinity in 32 bits."""
_TRUE: Final = ("true", "t", "yes", "1")
_FALSE: Final = ("false", "f", "no", "0")
_EMPTY: Final = {"EMPTY ARRAY": "[]", "EMPTY OBJECT": "{}", "NULL": None}


def find_value(document: Any, path: Path) -> Any:
    """The value at a path, or the list of what a path to several places finds; None if a lax path finds nothing.

    Raises LookupError where a strict path leads nowhere, or to null.
    """
    mode, is_definite, steps = path
    if document is None:
        raise LookupError("the document is null")
    value: Any = list(_walk(document, steps, is_strict=mode == "strict"))
    if is_definite:
        value = value[0] if value else None
    if value is None and mode == "strict":
        raise LookupError("the path leads nowhere, or to null")
    return value


def _walk(value: Any, steps: Sequence[Any], *, is_strict: bool) -> Iterator[Any]:
    """Yield what steps find below a value; is_strict: the steps so far are definite ones of a strict path."""
    if not steps:
        yield value
        return
    (kind, values, deep), *rest = steps
    if is_strict and not deep:
        _check_step(value, kind, values, is_last=not rest)
    definite = not deep and kind in ("names", "places") and len(values) == 1
    for each in _values_below(value) if deep else (value,):
        for child in _select_children(each, kind, values):
            yield from _walk(child, rest, is_strict=is_strict and definite)


def _check_step(value: Any, kind: str, values: Sequence[Any], is_last: bool) -> None:
    """Raise LookupError if a strict path cannot go on; a last step and a place beyond the end just find nothing."""
    if kind == "names" and isinstance(value, dict):
        if len(values) == 1 and values[0] not in value and not is_last:
            raise LookupError(f"there is no field {values[0]!r}")
    elif kind == "names":
        raise LookupError(f"there is no object with a field {values[0]!r}")
    elif kind != "every" and not isinstance(value, list):
        raise LookupError("there is no array")


def _select_children(value: Any, kind: str, values: Sequence[Any]) -> Iterable[Any]:
    if isinstance(value, dict):
        if kind == "every":
            return value.values()
        return [value[name] for name in values if name in value] if kind == "names" else ()
    if not isinstance(value, list) or kind == "names":
        return ()
    if kind == "places":
        return [value[place] for place in values if -len(value) <= place < len(value)]
    return value if kind == "every" else value[slice(*values)]


def _values_below(value: Any) -> Iterator[Any]:
    """Yield a value and all that it holds, outer ones first."""
    yield value
    if isinstance(value, dict | list):
        for child in value.values() if isinstance(value, dict) else value:
            yield from _values_below(child)


def _find_in(text: str, path: Path) -> Any:
    """The value at a path of a text; None if a lax path finds nothing, or the text is no JSON for it."""
    try:
        document = read_json(text)
    except ValueError:
        if path[0] == "lax":
            return None
        raise
    return find_value(document, path)


def json_exists(text: str, path: Path, on_error: str) -> bool | None:
    """JSON_EXISTS; on_error: "TRUE", "FALSE", "UNKNOWN" or "ERROR", which raises ValueError."""
    try:
        return _find_in(text, path) is not None
    except (ValueError, LookupError) as error:
        if on_error == "ERROR":
            raise ValueError(str(error)) from None
        return {"TRUE": True, "FALSE": False, "UNKNOWN": None}[on_error]


def json_value(
    value: Value,
    path: Path,
    dtype: pa.DataType,
    on_empty: str,
    on_error: str,
    *defaults: Value,
    sql: str,
) -> Value:
    """JSON_VALUE of each text as a type; on_empty, on_error: "NULL", "ERROR" or "DEFAULT".

    defaults: the values for empty and for errors, one each where the word is DEFAULT.
    """

    def find(text: str | None, *default_values: Any) -> Any:
        if text is None:
            return None
        # Only words that are DEFAULT have a value: the first is that of ON EMPTY, the last that of ON ERROR.
        empty = default_values[0] if on_empty == "DEFAULT" else None
        try:
            item = _find_in(text, path)
            # To a lax path an object is as good as nothing, to a strict one it is an error.
            if item is None or (path[0] == "lax" and isinstance(item, dict | list)):
                if on_empty == "ERROR":
                    raise _EmptyResultError("JSON_VALUE finds nothing, and ERROR ON EMPTY is asked")
                return empty
            if isinstance(item, dict | list):
                raise ValueError("JSON_VALUE finds an object or an array; JSON_QUERY returns these")
            return convert_scalar(item, dtype)
        except _EmptyResultError:
            # It is a ValueError too, and must not be taken for an error that ON ERROR answers.
            raise
        except (ValueError, LookupError) as error:
            if on_error == "ERROR":
                raise ValueError(str(error)) from None
            return default_values[-1] if on_error == "DEFAULT" else None

    return by_row_with_nulls(find, dtype, value, *defaults, sql=sql)


class _EmptyResultError(ValueError):
    """Nothing is found where ERROR ON EMPTY is asked; ON ERROR does not catch it."""


def json_query(
    text: str, path: Path, dtype: pa.DataType, wrapper: str, on_empty: str, on_error: str
) -> Any:
    """JSON_QUERY as a text, or as an array of its items' type.

    wrapper: "WITHOUT", "CONDITIONAL" or "UNCONDITIONAL". on_empty, on_error: "NULL", "ERROR", "EMPTY ARRAY" or
    "EMPTY OBJECT". Raises ValueError where the word is ERROR.
    """
    try:
        value = _find_in(text, path)
        if value is not None and (
            wrapper == "UNCONDITIONAL" or (wrapper == "CONDITIONAL" and not isinstance(value, list))
        ):
            value = [value]
        if value is not None and isinstance(value, dict | list):
            return _query_result(value, dtype)
        if value is not None and path[0] == "strict":
            raise ValueError(
                "JSON_QUERY finds a scalar; JSON_VALUE returns these, a WRAPPER makes it an array"
            )
    except (ValueError, LookupError) as error:
        if on_error == "ERROR":
            raise ValueError(str(error)) from None
        return _empty_result(on_error, dtype)
    if on_empty == "ERROR":
        raise ValueError("JSON_QUERY finds nothing, and ERROR ON EMPTY is asked")
    return _empty_result(on_empty, dtype)


def _query_result(value: Any, dtype: pa.DataType) -> Any:
    if not pa.types.is_list(dtype):
        return write_json(value)
    if not isinstance(value, list):
        raise ValueError("JSON_QUERY finds an object where an array is asked for")
    items = dtype.value_type
    if items == pa.string():
        return [
            write_json(item) if isinstance(item, dict | list) else convert_scalar(item, items)
            for item in value
        ]
    return [convert_scalar(item, items) for item in value]


def _empty_result(word: str, dtype: pa.DataType) -> Any:
    return [] if word == "EMPTY ARRAY" and pa.types.is_list(dtype) else _EMPTY[word]


def convert_scalar(value: Any, dtype: pa.DataType) -> Any:
    """A scalar of a document as a type: fractions are cut for integers; raises ValueError for what does not fit."""
    if value is None or dtype == pa.string():
        return None if value is None else scalar_text(value)
    if isinstance(value, dict | list):
        raise ValueError(f"{write_json(value)[:80]} is no {dtype}")
    if dtype == pa.bool_():
        return _as_boolean(value)
    if isinstance(value, bool) or (isinstance(value, str) and not _NUMBER.fullmatch(value)):
        raise ValueError(f"{scalar_text(value)!r} is no number")
    number = _fit_number(Decimal(value), dtype)
    if number is None:
        raise ValueError(f"{value} does not fit into {dtype}")
    return number


def _fit_number(number: Decimal, dtype: pa.DataType) -> Decimal | int | float | None:
    """A number as a type: rounded half up for decimals, without its fraction for integers; None if it is too large."""
    if pa.types.is_decimal(dtype):
        return fit(number, dtype)
    if pa.types.is_integer(dtype):
        half = 1 << dtype.bit_width - 1
        # 1e999999999 as an int would fill the memory; a number of more than 20 digits fits no type.
        whole = int(number) if number.adjusted() < 20 else half
        return whole if -half <= whole < half else None
    real = float(number)
    return real if abs(real) < (_FLOAT_END if dtype == pa.float32() else math.inf) else None


def _as_boolean(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    word = value.strip().lower() if isinstance(value, str) else None
    if word not in (*_TRUE, *_FALSE):
        raise ValueError(f"{value!r} is no BOOLEAN")
    return word in _TRUE


def is_json(text: str, kind: str) -> bool:
    """IS JSON; kind: "VALUE", "SCALAR", "ARRAY" or "OBJECT"."""
    kind_of_text = json_type(text)
    if kind == "SCALAR":
        return kind_of_text not in (None, "object", "array")
    return kind_of_text is not None if kind == "VALUE" else kind_of_text == kind.lower()


def json_type(text: str, path: Path | None = None) -> str | None:
    """JSON_TYPE: "object", "array", "string", "number", "boolean" or "null".

    None if the text is no JSON, or the path finds no single value.
    """
    values = _find_single(text, path)
    return _type_of(values[0]) if values else None


def json_length(text: str, path: Path | None = None) -> int | None:
    """JSON_LENGTH: the number of fields or items, 1 for a scalar; None as for `json_type`."""
    values = _find_single(text, path)
    return (len(values[0]) if isinstance(values[0], dict | list) else 1) if values else None


def _find_single(text: str, path: Path | None) -> list[Any] | None:
    """The one value that a path finds, in a list; None if it finds none or several, or the text is no JSON."""
    try:
        document = read_json(text)
    except ValueError:
        return None
    values = list(_walk(document, path[2] if path else (), is_strict=False))
    return values if len(values) == 1 else None


def _type_of(value: Any) -> str:
    names = {dict: "object", list: "array", str: "string", bool: "boolean"}
    return "null" if value is None else names.get(type(value), "number")
