"""The kinds of views of the plain backend: their functions, and their constructors by the names of codegen/views/."""

from collections.abc import Callable
from typing import Any, Final

# Generated modules take these names from here as `rt.NAME`, so everything is exported.
from aggloom.runtime.plain.seen import *
from aggloom.runtime.plain.sketches import *
from aggloom.runtime.plain.views import *
from aggloom.runtime.plain.views import SlotDicts


def _lists(slots: int, width: int) -> list[list[Any]]:
    return [[] for _ in range(slots)]


_DICTS = ("multiset", "seen", "ordered", "ranked", "stamped", "spill")
_SKETCHES = ("bits", "hyperloglog", "quantiles", "ddsketch")
VIEW_TYPES: Final[dict[str, Callable[[int, int], Any]]] = {
    "sequence": _lists,
    **dict.fromkeys((*_DICTS, *_SKETCHES), SlotDicts),
}
