"""HyperLogLog: about how many distinct values arrived. Its width is the number of registers."""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from aggloom.codegen.views.kind import ViewFunction, ViewKind
from aggloom.codegen.views.room import CELL, Room

_LEAST, _MOST = 16, 2**18


def registers_for(error: float) -> int:
    """Return the number of registers that gives this relative standard error: a power of two."""
    registers = _LEAST
    # The relative standard error of HyperLogLog is 1.04 / sqrt(registers).
    while registers < _MOST and registers * error**2 < 1.04**2:
        registers *= 2
    return registers


def _room(width: int, what: str) -> Room:
    return Room(width + CELL)


def _width(options: Mapping[str, Any], argument: pa.DataType) -> int:
    return registers_for(options["error"])


KIND = ViewKind(
    "hyperloglog",
    "a sketch",
    _room,
    {"estimate": ViewFunction("estimate", "word", pool=False)},
    _width,
    sketch=True,
)
