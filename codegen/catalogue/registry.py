"""The catalogue: every aggregate function is one entry of a family, and nothing elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from aggloom.codegen.catalogue import basic as catalogue_basic
from aggloom.codegen.catalogue import collection as catalogue_collections
from aggloom.codegen.catalogue import sketches as catalogue_sketches
from aggloom.codegen.catalogue import statistical as catalogue_statistics
from aggloom.codegen.catalogue.entry import Aggregate, Argument

if TYPE_CHECKING:
    pass

_FAMILIES = (catalogue_basic, catalogue_statistics, catalogue_collections, catalogue_sketches)

CATALOGUE: dict[str, Aggregate] = {
    entry.name: entry for family in _FAMILIES for entry in family.ENTRIES
}

USER_DEFINED: dict[str, Aggregate] = {}
"""Functions that users registered in this process, by name."""

# A context and no global: specs are read in several threads, each with definitions of its own.
_CAPTURED: ContextVar[Mapping[str, Aggregate]] = ContextVar(
    "captured", default=MappingProxyType({})
)

ALIASES = {alias: entry.name for entry in CATALOGUE.values() for alias in entry.aliases}

_OVER = "it numbers or shifts the rows of a window: write it with OVER (...), not as an aggregate of a group"
REFUSED: dict[str, str] = dict.fromkeys(
    (
        "LAG",
        "LEAD",
        "ROW_NUMBER",
        "RANK",
        "DENSE_RANK",
        "NTILE",
        "CUME_DIST",
        "PERCENT_RANK",
        "NTH_VALUE",
    ),
    _OVER,
)


def canonical(function: str) -> str:
    """The catalogue's spelling of a function name."""
    name = function.upper()
    # A user's function hides an alias of a built-in one.
    return name if name in _CAPTURED.get() or name in USER_DEFINED else ALIASES.get(name, name)


def find(function: str) -> Aggregate | None:
    """The entry of a function, by any of its names; None if there is none."""
    name = canonical(function)
    # What a spec brought along comes first: it was made with that definition.
    return _CAPTURED.get().get(name) or USER_DEFINED.get(name) or CATALOGUE.get(name)


def list_functions() -> list[str]:
    """Every name that a call may use, but for those that only plans use, which begin with $."""
    names = [*CATALOGUE, *ALIASES, *USER_DEFINED, *_CAPTURED.get()]
    return [name for name in names if not name.startswith("$")]


@contextmanager
def use_definitions(captured: Mapping[str, Aggregate]) -> Iterator[None]:
    """Let these definitions, which a spec brought along, come before what is registered here."""
    token = _CAPTURED.set(captured)
    try:
        yield
    finally:
        _CAPTURED.reset(token)


def options_of(entry: Aggregate, options: Mapping[str, Any], dialect: str) -> dict[str, Any]:
    """Every option of a call: the given ones, else their defaults."""
    # Defaults are filled in, so that a call with a default and one that says it are the same plan.
    return {o.name: options.get(o.name, o.default_in(dialect)) for o in entry.options}


def arguments_of(entry: Aggregate, count: int) -> tuple[Argument, ...]:
    """Return the declared argument for each of the given ones."""
    repeated = entry.arguments[-1:] if entry.arguments and entry.arguments[-1].many else ()
    # The last argument may be given any number of times, as in COUNT(DISTINCT a, b).
    return (entry.arguments + repeated * count)[:count]
