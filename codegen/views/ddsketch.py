"""DDSketch: how many values are in each bin. Its width is one over the relative error."""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from aggloom.codegen.views.kind import ViewFunction, ViewKind
from aggloom.codegen.views.room import WORD, Room, tree_entry


def _room(width: int, what: str) -> Room:
    entries = f"the bins in use of {what}, each within an error of 1/{width}"
    return Room(WORD, tree_entry(3), entries)


def _width(options: Mapping[str, Any], argument: pa.DataType) -> int:
    # A width is a whole number; below 2 the bins would overlap.
    return int(max(2, round(1 / options["error"])))


KIND = ViewKind(
    "ddsketch",
    "the number of values in each bin",
    _room,
    {"binned_percentile": ViewFunction("binned_percentile", "float")},
    _width,
    sketch=True,
)
