"""Texts, counted in characters as Spark counts them."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from aggloom.errors import DataError
from aggloom.runtime.scalar.values import Value, row_by_row

_MOST_BYTES = (1 << 31) - 1


def upper(value: Value) -> Value:
    """The text in capitals."""
    return _change_case(value, pc.ascii_upper, str.upper)


def lower(value: Value) -> Value:
    """The text in small letters."""
    return _change_case(value, pc.ascii_lower, str.lower)


def substring(value: Value, start: int, length: int | None = None) -> Value:
    """Return `length` characters from a place on, which counts from 1, or from the end if it is negative."""
    if start >= 0:
        first = max(start - 1, 0)
        stop = None if length is None else first + max(length, 0)
        return pc.utf8_slice_codeunits(value, first, stop)

    # A start before the text eats into the length, as Spark's does, so it depends on each row.
    def cut(text: str) -> str:
        first = len(text) + start
        last = len(text) if length is None else first + length
        return text[max(first, 0) : max(last, 0)]

    return row_by_row(cut, pa.string(), value)


def position(value: Value, substring: str) -> Value:
    """Return the place at which a text first occurs in another, counted in characters from 1; 0 if it does not."""
    if pc.all(pc.string_is_ascii(value)).as_py() is not False and substring.isascii():
        return pc.add(pc.find_substring(value, substring), pa.scalar(1, pa.int32()))
    return row_by_row(lambda text: text.find(substring) + 1, pa.int32(), value)


def repeat(value: Value, times: Value) -> Value:
    """The text so many times; nothing for a negative number.

    Raises DataError where the texts of the rows take more than an array of Arrow has room for.
    """
    number = pc.max_element_wise(times, pa.scalar(0, times.type), skip_nulls=False)
    try:
        return pc.binary_repeat(value, number)
    except pa.ArrowCapacityError:
        lengths = pc.cast(pc.binary_length(value), pa.int64())
        sizes = pc.multiply(lengths, pc.cast(number, pa.int64()))
        size = sizes.as_py() if isinstance(sizes, pa.Scalar) else pc.sum(sizes).as_py()
        raise DataError(
            f"REPEAT: the texts of one batch take {size:,} bytes, of {_MOST_BYTES:,} that an array has room for. "
            "Repeat them less often, or read fewer rows in a batch."
        ) from None


def join_texts(separator: str, *values: Value) -> Value:
    """concat_ws: the texts that are not NULL, and those in arrays, with a separator between them."""
    # Arrow's own join that skips NULLs leaves out the rows in which all are NULL.
    nothing, before = pa.scalar(""), pa.scalar(separator)

    def join_items(items: list[str | None]) -> str:
        return "".join(f"{separator}{item}" for item in items if item is not None)

    def join_behind(value: Value) -> Value:
        """The texts of a value, each behind a separator."""
        if pa.types.is_list(value.type):
            return row_by_row(join_items, pa.string(), value)
        return pc.binary_join_element_wise(before, value, nothing)

    pieces = [pc.coalesce(join_behind(value), nothing) for value in values]
    whole = pc.binary_join_element_wise(*pieces, nothing)
    return pc.utf8_slice_codeunits(whole, len(separator))


def _change_case(
    value: Value, kernel: Callable[[Value], Value], by_hand: Callable[[str], str]
) -> Value:
    if pc.all(pc.string_is_ascii(value)).as_py() is not False:
        return kernel(value)
    # Arrow maps one code point to one; Spark, like Python, makes "SS" of "ß".
    return row_by_row(by_hand, pa.string(), value)
