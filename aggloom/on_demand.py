"""Names that are imported on first use, for packages of which no command needs everything."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module


def names_on_demand(
    package: str, homes: Mapping[str, Sequence[str]]
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return the `__getattr__` and the `__dir__` of a package.

    homes: by module, as ".spec.dtypes" in the package or in full, the names in it; "name as other" gives a name another
    one. What is imported is remembered in the package.
    """
    places: dict[str, tuple[str, str]] = {}
    for module, names in homes.items():
        for name in names:
            inner, _, outer = name.partition(" as ")
            places[outer or inner] = (module, inner)

    def import_name(name: str) -> object:
        if name not in places:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module, inner = places[name]
        value: object = getattr(import_module(module, package), inner)
        setattr(sys.modules[package], name, value)
        return value

    return import_name, lambda: sorted({*places, *vars(sys.modules[package])})
