"""The one list of formats: those of messages by name, and those of whole files, which have readers of their own."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from aggloom.codegen import WHOLE_IMAGES, spell_zone, to_schema
from aggloom.errors import SpecError, UnknownColumnError, nearest
from aggloom.runtime.avro.settings import schema_registry
from aggloom.runtime.formats.avro_confluent import AvroConfluent
from aggloom.runtime.formats.base import CHOICES, FLAT, Format, FormatSettings
from aggloom.runtime.formats.canal_json import CanalJson
from aggloom.runtime.formats.debezium_avro import DebeziumAvro
from aggloom.runtime.formats.debezium_json import DebeziumJson
from aggloom.runtime.formats.jsonl import JsonLines
from aggloom.runtime.formats.maxwell_json import MaxwellJson
from aggloom.runtime.formats.ogg_json import OggJson
from aggloom.runtime.formats.upsert_avro import UpsertAvro
from aggloom.runtime.formats.upsert_json import UpsertJson
from aggloom.runtime.values.change_column import NEEDS_KEYS, ChangeWords

MESSAGES: dict[str, type[Format]] = {
    each.name: each
    for each in (
        *(DebeziumJson, DebeziumAvro, CanalJson, MaxwellJson, OggJson),
        *(UpsertJson, UpsertAvro, JsonLines, AvroConfluent),
    )
}
FILES = ("parquet", "csv")
FORMATS = (*MESSAGES, *FILES)
"""The formats in which a table of changes may be stored."""
LINES = tuple(name for name, each in MESSAGES.items() if each.in_lines)
"""Those of messages that files can hold, a message a line."""
OPTIONS = (*CHOICES, "zone", "database", "table", "registry", *FLAT)
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
    settings = {option: value for option, value in options.items() if value is not None}
    words = ChangeWords.of(settings, name)
    words.check_declared(schema.names, name)
    if listed and not (kind.takes_keys or words.lacks_before):
        raise SpecError(
            f"{name}: its rows say their changes themselves, so that it has no use for keys; leave them out"
        )
    if kind.needs_keys and not listed:
        raise SpecError(f"{name}: give the columns of the key as keys=")
    if words.lacks_before and not listed:
        raise SpecError(f"{name}: {NEEDS_KEYS}")
    for option, value in settings.items():
        if option not in kind.options and option not in ("zone", "inferred"):
            raise SpecError(f"{name} has no option {option!r}. {nearest(option, kind.options)}")
        if option in ("database", "table"):
            _check_pattern(f"{name}: {option}", value)
        if option in CHOICES and value not in CHOICES[option]:
            known = ", ".join(CHOICES[option])
            raise SpecError(f"{name}: unknown {option} {value!r}; known are {known}")
    if settings.get("images") == "partial":
        _check_partial(name, listed, settings)
    if "zone" in settings:
        try:
            settings["zone"] = spell_zone(settings["zone"])
        except SpecError as error:
            raise SpecError(f"{name}: {error}") from None
    if "registry" in kind.options:
        if "registry" not in settings:
            raise SpecError(
                f"{name}: its schemas are in a registry; say where: registry='https://registry:8081'"
            )
        settings["registry"] = schema_registry(settings["registry"])
    return kind(FormatSettings(schema, listed, **settings))


def check_in_lines(name: str, where: str) -> None:
    """Raise SpecError for a format of messages that lines of files cannot hold."""
    if name in MESSAGES and not MESSAGES[name].in_lines:
        raise SpecError(
            f"{where}: {name} is bytes, which lines of files cannot hold; read a topic (read_kafka), or messages in a "
            "column (read_messages)"
        )


def _check_partial(name: str, keys: Sequence[str], settings: Mapping[str, Any]) -> None:
    """Raise SpecError where rows that leave columns out cannot be completed."""
    if not keys:
        raise SpecError(
            f'{name}: images="partial" needs the key of the table, by which a row is completed; give keys= (PRIMARY '
            f"KEY (..) NOT ENFORCED) and changes=upsert, or {WHOLE_IMAGES}"
        )
    if MESSAGES[name].needs_keys and settings.get("missing") == "null":
        raise SpecError(
            f'{name}: missing="null" reads as NULL what images="partial" keeps; leave one out'
        )


def _check_pattern(what: str, pattern: Any) -> None:
    """Raise SpecError for what is no pattern of names."""
    try:
        re.compile(pattern)
    except (re.error, TypeError) as error:
        raise SpecError(f"{what} is {pattern!r}, which is no pattern of names: {error}") from None
