"""The kinds of views, a file each, and all that follows from the list of them."""

from __future__ import annotations

from typing import Final

from aggloom.codegen.views import (
    bits,
    ddsketch,
    hyperloglog,
    multiset,
    ordered,
    quantiles,
    ranked,
    seen,
    sequence,
    spill,
    stamped,
)
from aggloom.codegen.views.kind import ViewFunction, ViewKind

_FILES = (
    multiset,
    seen,
    ordered,
    sequence,
    ranked,
    stamped,
    bits,
    hyperloglog,
    quantiles,
    ddsketch,
    spill,
)

VIEW_KINDS: Final[dict[str, ViewKind]] = {file.KIND.name: file.KIND for file in _FILES}
MULTISET, SEEN, SPILL = multiset.KIND, seen.KIND, spill.KIND
VIEW_FUNCTIONS: Final[dict[str, ViewFunction]] = {
    name: what for kind in VIEW_KINDS.values() for name, what in kind.functions.items()
}
