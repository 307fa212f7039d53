"""Names that are imported on first use, for packages of which no command needs everything."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any


def names_on_demand(package: str) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return the `__getattr__` and the `__dir__` of a package that imports its names below `if TYPE_CHECKING:`.

    Each name is listed there once. Type checkers read these imports; Python imports a name when it is first used, and
    stores it in the package.
    """

    @cache
    def read_homes() -> dict[str, str]:
        loader: Any = sys.modules[package].__loader__
        return _read_homes(loader.get_source(package))

    def import_name(name: str) -> object:
        homes = read_homes()
        if name == "__all__":
            return sorted(homes)
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        # A module of the package itself is no attribute of it before it is imported.
        is_module = homes[name] == package
        home = import_module(f"{package}.{name}" if is_module else homes[name])
        value: object = home if is_module else getattr(home, name)
        setattr(sys.modules[package], name, value)
        return value

    return import_name, lambda: sorted({*read_homes(), *vars(sys.modules[package])})


def _read_homes(source: str) -> dict[str, str]:
    """The module from which each name is imported below `if TYPE_CHECKING:`."""
    blocks = (node for node in ast.parse(source).body if isinstance(node, ast.If))
    imports = (node for block in blocks for node in block.body if isinstance(node, ast.ImportFrom))
    return {alias.name: f"{node.module}" for node in imports for alias in node.names}
