"""The schema of a message's writer: the form by which the library reads bodies, and the meaning of each value.

The library gets types without logical types, so that it returns bare numbers and bytes: the times and decimals that it
would make of them are not of the column's type, and Python has no value for some of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

PRIMITIVE = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
_LOGICAL = {
    "decimal": "org.apache.kafka.connect.data.Decimal",
    "date": "io.debezium.time.Date",
    "time-millis": "io.debezium.time.Time",
    "time-micros": "io.debezium.time.MicroTime",
    **dict.fromkeys(("timestamp-millis", "local-timestamp-millis"), "io.debezium.time.Timestamp"),
    **dict.fromkeys(
        ("timestamp-micros", "local-timestamp-micros"), "io.debezium.time.MicroTimestamp"
    ),
    **dict.fromkeys(("timestamp-nanos", "local-timestamp-nanos"), "io.debezium.time.NanoTimestamp"),
}
"""Kafka Connect's names of Avro's logical types: the same numbers mean the same."""
_CARRIED = {
    "decimal": ("bytes", "fixed"),
    "date": ("int",),
    "time-millis": ("int",),
}
"""The types that may have a logical type; for others it is long. On any other type it is ignored, as in Avro."""


class NotASchema(Exception):
    """Raised for a schema by which no message can be read; the text is the reason."""


@dataclass(frozen=True)
class SchemaNode:
    """A type of Avro and its meaning.

    kind: Avro's word for it; a union of a type and null is that type, "union" one of several types. name: Kafka
    Connect's name of its meaning. scale: of a decimal. items: of an array or a map. fields: of a record, by name.
    """

    kind: str
    name: str | None = None
    scale: int = 0
    items: SchemaNode | None = None
    fields: Mapping[str, SchemaNode] = field(default_factory=dict)


@dataclass(frozen=True)
class WriterSchema:
    """A writer's schema. node: the meaning of its values. parsed: the form by which the library reads them."""

    node: SchemaNode
    parsed: Any


def parse_schema(text: str, before: Iterable[str] = ()) -> WriterSchema:
    """Parse a schema; before: the schemas that it references. Raises NotASchema."""
    from fastavro import parse_schema

    try:
        names = _Names()
        for each in before:
            names.collect(json.loads(each), "")
        bare, node = names.walk(json.loads(text), "")
        return WriterSchema(node, parse_schema(bare))
    except NotASchema:
        raise
    except RecursionError:
        raise NotASchema("a schema of Avro that is nested too deep") from None
    except Exception as error:
        # The library raises errors of many types for an invalid schema.
        raise NotASchema(f"no schema of Avro ({type(error).__name__}: {error})") from None


class _Names:
    """The named types of a schema: those of the schemas that it references, and its own."""

    def __init__(self) -> None:
        self._others: dict[str, tuple[Any, str]] = {}
        self._types: dict[str, tuple[str, SchemaNode]] = {}
        # The records around the current type: a recursive one has no end as columns.
        self._open: set[str] = set()

    def collect(self, schema: Any, space: str) -> None:
        """Collect the named types of a referenced schema."""
        if isinstance(schema, list):
            for each in schema:
                self.collect(each, space)
        elif isinstance(schema, dict):
            kind = schema.get("type")
            if kind in ("record", "error", "enum", "fixed"):
                full = _full(schema["name"], schema.get("namespace", space))
                self._others[full] = schema, space
                space = full.rpartition(".")[0]
                for each in schema.get("fields") or ():
                    self.collect(each["type"], space)
            elif kind in ("array", "map"):
                self.collect(schema.get("items", schema.get("values")), space)
            else:
                self.collect(kind, space)

    def walk(self, schema: Any, space: str) -> tuple[Any, SchemaNode]:
        """The schema without logical types, and its meaning."""
        if isinstance(schema, list):
            return self._union(schema, space)
        if isinstance(schema, str):
            return (
                (schema, SchemaNode(schema))
                if schema in PRIMITIVE
                else self._find_type(schema, space)
            )
        kind = schema["type"]
        if not isinstance(kind, str):
            return self.walk(kind, space)
        if kind in ("record", "error"):
            return self._record(schema, space)
        name, scale = _find_meaning(schema)
        if kind == "array":
            bare, node = self.walk(schema["items"], space)
            return {"type": "array", "items": bare}, SchemaNode("array", name, items=node)
        if kind == "map":
            bare, node = self.walk(schema["values"], space)
            return {"type": "map", "values": bare}, SchemaNode("map", name, items=node)
        if kind in ("enum", "fixed"):
            own = {key: schema[key] for key in ("symbols", "size") if key in schema}
            # An enum's values come as the texts of its symbols.
            like = SchemaNode("string" if kind == "enum" else "bytes", name, scale)
            full = _full(schema["name"], schema.get("namespace", space))
            return self._define(full, {"type": kind, **own}, like), like
        if kind in PRIMITIVE:
            return kind, SchemaNode(kind, name, scale)
        return self._find_type(kind, space)

    def _union(self, branches: list[Any], space: str) -> tuple[Any, SchemaNode]:
        pairs = [self.walk(each, space) for each in branches]
        # Null in a union means that a value may be NULL, as in every column.
        valued = [node for _, node in pairs if node.kind != "null"]
        several = SchemaNode("union") if valued else SchemaNode("null")
        return [bare for bare, _ in pairs], valued[0] if len(valued) == 1 else several

    def _record(self, schema: Mapping[str, Any], space: str) -> tuple[Any, SchemaNode]:
        full = _full(schema["name"], schema.get("namespace", space))
        if full in self._open:
            raise NotASchema(f"a schema whose {full} is in itself")
        self._open.add(full)
        inner = full.rpartition(".")[0]
        types = {each["name"]: self.walk(each["type"], inner) for each in schema["fields"]}
        # Open only while it is walked: the same record may be in two fields of another.
        self._open.discard(full)
        fields = [{"name": name, "type": bare} for name, (bare, _) in types.items()]
        nodes = {name: node for name, (_, node) in types.items()}
        node = SchemaNode("record", _find_meaning(schema)[0], fields=nodes)
        return self._define(full, {"type": "record", "fields": fields}, node), node

    def _define(self, full: str, bare: dict[str, Any], node: SchemaNode) -> dict[str, Any]:
        """Define a type under a name of ours: the library may refuse the writer's name."""
        own = f"N{len(self._types)}"
        self._types[full] = own, node
        return {"name": own, **bare}

    def _find_type(self, name: str, space: str) -> tuple[Any, SchemaNode]:
        """The type of a name, which is in the same namespace, or in none."""
        for full in dict.fromkeys((_full(name, space), name)):
            if full in self._open:
                raise NotASchema(f"a schema whose {full} is in itself")
            if full in self._types:
                return self._types[full]
            if full in self._others:
                # Walked where it is first used, but by the namespace in which it was defined.
                return self.walk(*self._others[full])
        raise NotASchema(f"a schema without its type {name!r}")


def _full(name: str, space: str | None) -> str:
    return name if "." in name or not space else f"{space}.{name}"


def _find_meaning(schema: Mapping[str, Any]) -> tuple[str | None, int]:
    """Return Kafka Connect's name of the meaning of a type's values, and the scale of a decimal."""
    name, logical = schema.get("connect.name"), schema.get("logicalType")
    # Kafka Connect's name is more exact than Avro's, which does not distinguish Debezium's types.
    if name is None and schema["type"] in _CARRIED.get(str(logical), ("long",)):
        name = _LOGICAL.get(str(logical))
    parameters = schema.get("connect.parameters") or {}
    return name, int(parameters.get("scale", schema.get("scale", 0)))
