"""The schema of a registry's subject, compared with the schema of a sink.

A registry compares types by Avro's rules, which ignore logical types: a reader with its own schema would read
microseconds as milliseconds, or a decimal with another scale, without an error. So fields that both schemas have must
mean the same.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from aggloom.errors import SinkError
from aggloom.runtime.avro.client import client_of
from aggloom.runtime.avro.schemas import NotASchema
from aggloom.runtime.avro.settings import SchemaRegistry
from aggloom.runtime.avro.wire import library

ENVELOPE, ROWS = "Envelope", ("before", "after")
"""The name of the record of a change, and its fields that are rows."""
_IN_SQL = {
    "boolean": "BOOLEAN",
    "int": "INT",
    "long": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "bytes": "BINARY",
    "string": "STRING",
    "date": "DATE",
    "time-micros": "TIME(6)",
    "timestamp-micros": "TIMESTAMP",
    "local-timestamp-micros": "TIMESTAMP_NTZ",
}
"""Types of SQL whose values are written by these of Avro."""


def check_subject(registry: SchemaRegistry, subject: str, schema: Mapping[str, Any]) -> None:
    """Raise SinkError where a schema is incompatible with a subject's newest one; nothing is registered.

    Raises SchemaRegistryError if the registry does not answer.
    """
    client = client_of(registry)
    where = f"schema registry {registry}: subject {subject}"
    try:
        newest = client.newest(subject)
        if newest is None:
            return
        registered = _read_schema(*newest)
    except NotASchema as error:
        raise SinkError(
            f"{where}: its schema cannot be read ({error}). Write to another topic, or delete the subject"
        ) from None
    # Each once: an envelope has the fields of a row twice.
    differences = dict.fromkeys(_differences(_expand_names(schema, {}), registered, ""))
    if differences:
        raise SinkError(
            f"{where} has another schema than the result: {'; '.join(differences)}. Or write to another topic, or "
            "register a version of the subject that has the result's types"
        )
    reason = client.find_conflict(subject, schema)
    if reason is not None:
        raise incompatible(registry, subject, reason)


def incompatible(registry: SchemaRegistry, subject: str, reason: str) -> SinkError:
    """The error for a schema that a registry refuses for a subject, with its reason."""
    return SinkError(
        f"schema registry {registry}: subject {subject} does not take the schema of the result ({reason}). Keep to "
        "what its compatibility allows, loosen that, or write to another topic."
    )


def _read_schema(text: str, before: Iterable[str]) -> Any:
    """The schema of a text with its named types expanded; before: the schemas that it references. Raises NotASchema."""
    try:
        named: dict[str, Any] = {}
        for each in before:
            library().parse_schema(json.loads(each), named_schemas=named)
        return _expand_names(json.loads(text), named)
    except Exception as error:
        # The library raises errors of many types for an invalid schema.
        raise NotASchema(f"{type(error).__name__}: {error}") from None


def _expand_names(schema: Any, named: dict[str, Any]) -> Any:
    """A schema with its named types expanded where they are used."""
    return library().parse_schema(schema, named_schemas=named, expand=True, _write_hint=False)


def _differences(own: Any, registered: Any, path: str) -> Iterator[str]:
    """Yield the differences of the fields that two schemas share, with the fix; path: of the field."""
    own, own_null = _without_null(own)
    registered, registered_null = _without_null(registered)
    field = f"field {path!r}" if path else "the whole"
    if _type_name(own) != _type_name(registered):
        kind = _IN_SQL.get(_type_name(registered)) or _decimal_in_sql(registered)
        fix = f": CAST({path} AS {kind}) in the query" if kind and path and "." not in path else ""
        yield f"{field} is {_type_name(registered)} there and {_type_name(own)} in the result{fix}"
        return
    if own_null and not registered_null:
        yield (
            f"{field} may be NULL in the result and is not nullable there: register a version in which it is "
            f'["null", {json.dumps(own)}]'
        )
        return
    kind = own["type"] if isinstance(own, dict) else own
    if kind == "record":
        # The registry's own rules are about fields that only one side has.
        others = {each["name"]: each["type"] for each in registered["fields"]}
        for each in own["fields"]:
            if each["name"] in others:
                # The rows of an envelope are the result's: messages name their columns as the query does.
                is_row = own["name"].rpartition(".")[2] == ENVELOPE and each["name"] in ROWS
                inner = "" if is_row else f"{path}.{each['name']}" if path else each["name"]
                yield from _differences(each["type"], others[each["name"]], inner)
    elif kind in ("array", "map"):
        part = "items" if kind == "array" else "values"
        yield from _differences(own[part], registered[part], f"{path}.{part}")


def _without_null(schema: Any) -> tuple[Any, bool]:
    """The type beside null in a union, and whether it is such a union; other unions stay as they are."""
    if not isinstance(schema, list):
        return schema, False
    others = [each for each in schema if each != "null"]
    return (others[0] if len(others) == 1 else others), len(others) < len(schema)


def _type_name(schema: Any) -> str:
    """The name of a type with everything that changes the meaning of its values, such as the digits of a decimal."""
    if isinstance(schema, list):
        return f"one of {', '.join(map(_type_name, schema))}"
    if isinstance(schema, str):
        return schema
    kind, logical = schema["type"], schema.get("logicalType") or schema.get("connect.name")
    if logical == "decimal":
        carrier = "" if kind == "bytes" else f" in {kind}({schema.get('size')})"
        return f"decimal({schema.get('precision')}, {schema.get('scale', 0)}){carrier}"
    if kind in ("record", "array", "map", "string") or logical is None:
        return str(kind)
    return str(logical)


def _decimal_in_sql(schema: Any) -> str | None:
    """The type of SQL for a decimal in bytes; None for any other type."""
    name = _type_name(schema)
    return (
        name.upper().replace(" ", "")
        if name.startswith("decimal(") and name.endswith(")")
        else None
    )
