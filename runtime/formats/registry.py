"""The one list of formats: those of messages by name, and those of whole files, which have readers of their own."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import pyarrow as pa

from aggloom.codegen import to_schema
from aggloom.errors import SpecError, UnknownColumnError, nearest
from aggloom.runtime.formats.base import CHOICES, Format, Settings
from aggloom.runtime.formats.canal_json import CanalJson
from aggloom.runtime.formats.debezium_json import DebeziumJson
from aggloom.runtime.formats.jsonl import JsonLines
from aggloom.runtime.formats.maxwell_json import MaxwellJson
from aggloom.runtime.formats.ogg_json import OggJson
from aggloom.runtime.formats.upsert_json import UpsertJson

MESSAGES: dict[str, type[Format]] = {
    each.name: each
    for each in (DebeziumJson, CanalJson, MaxwellJson, OggJson, UpsertJson, JsonLines)
}
FILES = ("parquet", "csv")
FORMATS = (*MESSAGES, *FILES)
"""In what a table of changes may lie."""
OPTIONS = (*CHOICES, "zone", "database", "table")
"""The options of formats of messages, beside the columns and the keys."""


def format_of(
    name: str, columns: Any, keys: str | Sequence[str] | None, options: Mapping[str, Any]
) -> Format:
    """The format of a table; raises SpecError and its kin for what it does not know, lacks, or does not read."""
    if name not in MESSAGES:
        raise SpecError(f"no format of messages {name!r}. {nearest(name, MESSAGES)}")
    kind = MESSAGES[name]
    schema = columns if isinstance(columns, pa.Schema) else to_schema(columns)
    listed = (keys,) if isinstance(keys, str) else tuple(keys or ())
    for key in listed:
        if key not in schema.names:
            hint = nearest(key, schema.names)
            raise UnknownColumnError(f"{name}: keys names column {key!r}. {hint}")
    if listed and not kind.takes_keys:
        raise SpecError(
            f"{name}: its rows say their changes themselves, so that it has no use for keys; leave them out"
        )
    if kind.needs_keys and not listed:
        raise SpecError(f"{name}: give the columns of the key as keys=")
    given = {option: value for option, value in options.items() if value is not None}
    for option, value in given.items():
        if option not in kind.options and option != "zone":
            raise SpecError(f"{name} has no option {option!r}. {nearest(option, kind.options)}")
        if option in ("database", "table"):
            _check_pattern(f"{name}: {option}", value)
        if option in CHOICES and value not in CHOICES[option]:
            known = ", ".join(CHOICES[option])
            raise SpecError(f"{name}: unknown {option} {value!r}; known are {known}")
    if "zone" in given:
        try:
            ZoneInfo(given["zone"])
        except (ValueError, ZoneInfoNotFoundError):
            raise SpecError(
                f"{name}: no time zone {given['zone']!r}; name one such as UTC or Europe/Berlin"
            ) from None
    return kind(Settings(schema, listed, **given))


def _check_pattern(what: str, pattern: Any) -> None:
    """Raise SpecError for what is no pattern of names."""
    try:
        re.compile(pattern)
    except (re.error, TypeError) as error:
        raise SpecError(f"{what} is {pattern!r}, which is no pattern of names: {error}") from None
