"""A summary of quantiles that keeps some of the values. Its width is the accuracy."""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from aggloom.codegen.views.kind import ViewFunction, ViewKind
from aggloom.codegen.views.room import WORD, Room, tree_entry


def _most(width: int) -> int:
    return 2 * width


def _room(width: int, what: str) -> Room:
    return Room(3 * WORD, tree_entry(4, 1.6), f"some {_most(width)} of the values of {what}")


def _width(options: Mapping[str, Any], argument: pa.DataType) -> int:
    return int(options["accuracy"])


KIND = ViewKind(
    "quantiles",
    "a sketch",
    _room,
    {"summary_percentile": ViewFunction("summary_percentile", "word")},
    _width,
    numbers=3,
    most=_most,
    sketch=True,
)
