"""Blocks: many messages of JSON that Arrow reads all at once, where nothing in them is odd.

What is read here is what the reader of single messages would read. Whatever it takes to know that, and is not there,
leaves a message, or all of them, to that reader, which knows the rules.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pt
from pyarrow import json as pa_json

from aggloom.runtime.values.changelog import CHANGE_TYPES

_OPEN, _CLOSE = b"{", b"}"
_LONG, _DEEP = 2_048, 256
"""Messages of more bytes are looked at for how deep they may go, as Arrow reads by recursion."""
_EXPONENT = re.compile(rb"[eE][+-]?\d{5}")
"""Exponents that make 0 of a number for some, and are too much for others."""
Places = npt.NDArray[np.int64]  # int64[n]


@cache
def kind_words() -> pa.Array:
    """The words of changes, by the number of their kind; made late, for Arrow imports pandas with the first array."""
    return pa.array(CHANGE_TYPES, pa.string())


class MessageBlock(NamedTuple):
    """The content of some messages, in their order.

    owners: the message of each change. words: the changes' kinds. columns: their rows. left: the messages of which
    nothing is known yet.
    """

    owners: Places  # int64[changes]
    words: pa.Array
    columns: list[pa.Array]
    left: npt.NDArray[np.bool_]  # bool[messages]


def is_whole(text: bytes) -> bool:
    """Tell whether a text may be one object and nothing else, so that a next one cannot be within it."""
    return text[:1] == _OPEN and text[-1:] == _CLOSE


def all_whole(texts: Sequence[bytes | None]) -> bool:
    """Tell whether all texts may be one object each, without looking at each; False where it would take that."""
    if not texts or None in texts:
        return False
    # The texts as one: three searches in it take the place of a loop over messages.
    text, between = b"\n".join(texts), len(texts) - 1  # type: ignore[arg-type]
    return (
        is_whole(text)
        and text.count(b"\n") == between
        and text.count(_CLOSE + b"\n" + _OPEN) == between
    )


def make_token(name: str) -> bytes | None:
    """A name in front of its value; None for one that may look like something else."""
    plain = not set(name) & set('\\",:') and name.isprintable()
    return f'"{name}":'.encode() if plain else None


def has_names(text: bytes, own: bytes | None, times: int) -> bool:
    """Tell whether it is sure that the objects of a text have a name so many times. own: its token.

    A quote without a backslash before it begins or ends a text, and where one ends, a comma or a colon comes before the
    next: so the token is a name with its value. One behind a backslash is within a text.
    """
    return own is not None and text.count(own) - text.count(b"\\" + own) == times


def join_texts(texts: Sequence[bytes]) -> bytes | None:
    """Whole texts as one; None if one of them may be no UTF-8, or deeper than Arrow can go."""
    if any(len(each) > _LONG and each.count(b"[") + each.count(_OPEN) > _DEEP for each in texts):
        return None
    text = b"\n".join(texts)
    try:
        text.decode()
    except UnicodeDecodeError:
        return None
    return text


def read_block(text: bytes, count: int, columns: pa.Schema, others: str) -> pa.Table | None:
    """A row for each of so many texts that are joined; None if one of them is not one object of these columns.

    What follows an object that is not closed, or another in the same text, is no JSON, or makes other rows than there
    are texts. others: "error" or "infer", of fields that are no columns.
    """
    try:
        table = pa_json.read_json(
            pa.BufferReader(text),
            pa_json.ReadOptions(use_threads=False, block_size=len(text) + 1),
            pa_json.ParseOptions(explicit_schema=columns, unexpected_field_behavior=others),
        )
    except (pa.ArrowException, UnicodeDecodeError, OverflowError):
        return None
    # What no double holds comes out infinite, and is left to the reader of single messages, which refuses it.
    numbers = [each for column in table.columns for each in _floats(column)]
    if table.num_rows != count or not all(np.isfinite(each).all() for each in numbers):
        return None
    # A number too small for any double has become 0.
    if any((each == 0).any() for each in numbers) and _EXPONENT.search(text):
        return None
    return table.combine_chunks()


def _floats(column: pa.ChunkedArray) -> list[npt.NDArray[np.float64]]:
    """All numbers of a column that may have a point."""
    if pt.is_floating(column.type):
        return [column.drop_null().to_numpy()]
    if pt.is_list(column.type):
        inner = [each.flatten() for each in column.chunks]
        return _floats(pa.chunked_array(inner, column.type.value_type))
    if pt.is_struct(column.type):
        return [numbers for each in column.flatten() for numbers in _floats(each)]
    return []
