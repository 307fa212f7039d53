"""Options of sinks: a dataclass each, from which the entries of jobs and scripts follow.

They are read from a mapping, each by its name and its type; unknown entries are refused. In CREATE TABLE an option is
`sink.NAME`, unless its field has another word for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, TypeVar

from aggloom.errors import SpecError, nearest
from aggloom.runtime.avro.settings import schema_registry

T = TypeVar("T")
_WORDS = {
    "bool": "true or false",
    "int": "a whole number",
    "str": "a text",
    "str | None": "a text",
    "tuple[str, ...]": "a column, or a list of them",
    "Mapping[str, str]": "a mapping of texts",
    "Mapping[str, Any]": "a mapping",
}
_WORD = "word"
ELSEWHERE: Mapping[str, Any] = {_WORD: None}
"""The metadata of an option that CREATE TABLE gives in a way of its connector's own."""


def flink_word(word: str) -> Mapping[str, Any]:
    """Return the metadata of an option that Flink has a word for."""
    return {_WORD: word}


def sink_words(options_class: type[Any]) -> dict[str, str]:
    """The options of a sink's dataclass that CREATE TABLE gives, by name, with their words there.

    Example: the option of a class.
        >>> from dataclasses import dataclass
        >>> sink_words(dataclass(type("Options", (), {"__annotations__": {"replay": "bool"}})))
        {'replay': 'sink.replay'}
    """
    words = {
        field.name: field.metadata.get(_WORD, f"sink.{field.name}")
        for field in fields(options_class)
    }
    return {name: word for name, word in words.items() if word is not None}


def read_options(
    options_class: type[T],
    kind: str,
    entries: Mapping[str, Any],
    needed: Mapping[str, Any],
    choices: Mapping[str, tuple[str, ...]],
) -> T:
    """The options of a sink; raises SpecError for one that nobody reads, that is missing, or that cannot be.

    options_class: their dataclass. needed: those that have to be there, with examples. choices: what some may be.
    """
    types = {field.name: str(field.type) for field in fields(options_class)}  # type: ignore[arg-type]
    for name in entries:
        if name not in types:
            raise SpecError(
                f"sink {kind}: there is no option {name!r}. {nearest(str(name), types)}"
            )
    for name in needed:
        # An empty text is as good as none: it is what a variable that is not set leaves.
        if not entries.get(name):
            example = {"kind": kind, **needed}
            raise SpecError(f"sink {kind}: give it {name}, as in {example}")
    options = {
        name: _parse_option(kind, name, types[name], value) for name, value in entries.items()
    }
    for name, allowed in choices.items():
        if name in options and options[name] not in allowed:
            raise SpecError(
                f"sink {kind}: {name} is {options[name]!r}; known are {', '.join(allowed)}"
            )
    return options_class(**options)


def _parse_option(kind: str, name: str, type_name: str, value: Any) -> Any:
    """The value of an option, which a command line or a script gives as text."""
    if type_name == "bool" and str(value).lower() in ("true", "false"):
        return str(value).lower() == "true"
    # type(): YAML's `true` is an int for isinstance, and would be 1.
    if type_name == "int" and (str(value).isdigit() or type(value) is int):
        return int(value)
    if type_name == "Any":
        return value
    if type_name.startswith("SchemaRegistry"):
        return schema_registry(value)
    if type_name == "str | None" and value is None:
        return None
    if type_name.startswith("str") and isinstance(value, str):
        return value
    if type_name.startswith("tuple"):
        listed = value.split(",") if isinstance(value, str) else value
        if isinstance(listed, list | tuple) and all(isinstance(each, str) for each in listed):
            return tuple(each.strip() for each in listed)
    if type_name == "Mapping[str, Any]" and isinstance(value, Mapping):
        return dict(value)
    if type_name == "Mapping[str, str]" and isinstance(value, Mapping):
        return {str(option): _text(one) for option, one in value.items()}
    raise SpecError(f"sink {kind}: {name} is {value!r}; it must be {_WORDS[type_name]}")


def _text(value: Any) -> str:
    """An option of a library, which takes texts: YAML's true is 'true'."""
    return str(value).lower() if isinstance(value, bool) else str(value)
