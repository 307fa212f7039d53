"""Every kind of view in plain Python, by the name of its descriptor (codegen/views/): its functions, and new ones."""

from collections.abc import Callable
from typing import Any, Final

# Generated modules take these names from here as `rt.NAME`, so everything is exported.
from aggloom.runtime.plain.seen import *
from aggloom.runtime.plain.sketches import *
from aggloom.runtime.plain.sketches import Sketch
from aggloom.runtime.plain.views import *
from aggloom.runtime.plain.views import Multiset


def _dicts(slots: int, width: int) -> list[dict[Any, Any]]:
    return [{} for _ in range(slots)]


def _lists(slots: int, width: int) -> list[list[Any]]:
    return [[] for _ in range(slots)]


VIEW_TYPES: Final[dict[str, Callable[[int, int], Any]]] = {
    "multiset": Multiset,
    "seen": _dicts,
    "ordered": _dicts,
    "sequence": _lists,
    "ranked": _dicts,
    "stamped": _dicts,
    "bits": Sketch,
    "hyperloglog": Sketch,
    "quantiles": Sketch,
    "ddsketch": Sketch,
    "spill": _dicts,
}
