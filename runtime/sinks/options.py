"""Options of sinks, read from a mapping: each by its name and its type; what nobody reads is refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, TypeVar

from aggloom.errors import SpecError, nearest

T = TypeVar("T")
_WORDS = {
    "bool": "true or false",
    "int": "a whole number",
    "str": "a text",
    "str | None": "a text",
    "tuple[str, ...]": "a column, or a list of them",
    "Mapping[str, str]": "a mapping of texts",
}


def read_options(
    made: type[T],
    kind: str,
    given: Mapping[str, Any],
    needed: Mapping[str, Any],
    choices: Mapping[str, tuple[str, ...]],
) -> T:
    """The options of a sink; raises SpecError for one that nobody reads, that is missing, or that cannot be.

    made: their dataclass. needed: those that have to be there, with examples. choices: what some may be.
    """
    types = {field.name: str(field.type) for field in fields(made)}  # type: ignore[arg-type]
    for name in given:
        if name not in types:
            raise SpecError(
                f"sink {kind}: there is no option {name!r}. {nearest(str(name), types)}"
            )
    for name in needed:
        if not given.get(name):
            example = {"kind": kind, **needed}
            raise SpecError(f"sink {kind}: give it {name}, as in {example}")
    told = {name: _typed(kind, name, types[name], value) for name, value in given.items()}
    for name, allowed in choices.items():
        if name in told and told[name] not in allowed:
            raise SpecError(
                f"sink {kind}: {name} is {told[name]!r}; known are {', '.join(allowed)}"
            )
    return made(**told)


def _typed(kind: str, name: str, wanted: str, value: Any) -> Any:
    """The value of an option, which a command line or a script gives as text."""
    if wanted == "bool" and str(value).lower() in ("true", "false"):
        return str(value).lower() == "true"
    if wanted == "int" and str(value).isdigit():
        return int(value)
    if wanted == "str | None" and value is None:
        return None
    if wanted.startswith("str") and isinstance(value, str):
        return value
    if wanted.startswith("tuple"):
        listed = value.split(",") if isinstance(value, str) else value
        if isinstance(listed, list | tuple) and all(isinstance(each, str) for each in listed):
            return tuple(each.strip() for each in listed)
    if wanted.startswith("Mapping") and isinstance(value, Mapping):
        return {str(option): _text(one) for option, one in value.items()}
    raise SpecError(f"sink {kind}: {name} is {value!r}; it must be {_WORDS[wanted]}")


def _text(value: Any) -> str:
    """An option of a library, which takes texts: YAML's true is 'true'."""
    return str(value).lower() if isinstance(value, bool) else str(value)
