"""Bits: by slot, how many values have each bit."""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from aggloom.codegen.views.kind import ViewFunction, ViewKind
from aggloom.codegen.views.room import WORD, Room


def _room(width: int, what: str) -> Room:
    # A counter for each bit, and one for all values: a bit of BIT_AND is set where both are equal.
    return Room(WORD * (width + 1))


def _width(options: Mapping[str, Any], argument: pa.DataType) -> int:
    return int(argument.bit_width)


KIND = ViewKind(
    "bits",
    "the number of values that have each bit",
    _room,
    {
        "all_bits": ViewFunction("all_bits", "word", pool=False),
        "any_bits": ViewFunction("any_bits", "word", pool=False),
    },
    _width,
    sketch=True,
)
