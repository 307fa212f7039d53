"""A schema as it was written: what the library reads bodies by, and what each value in them means.

The library gets the bare types alone, so that it hands out numbers and bytes as they are: a time or a decimal it would
make of them is not of the column's type, and some there are none of in Python.
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
"""Avro's own logical types, by the names that Kafka Connect has for the same numbers."""
_CARRIED = {
    "decimal": ("bytes", "fixed"),
    "date": ("int",),
    "time-millis": ("int",),
}
"""Types that carry some logical types; the others are carried by long. Elsewhere the word means nothing, as in Avro."""


class NotASchema(Exception):
    """Raised for a schema by which no message can be read; the text is the reason."""


@dataclass(frozen=True)
class SchemaNode:
    """A type: its kind by Avro's word, the name of what it means, and what it is made of.

    kind: a union of a type and null is that type; "union" is one of several. scale: of a decimal. items: of an array
    or a map. fields: of a record, by name.
    """

    kind: str
    name: str | None = None
    scale: int = 0
    items: SchemaNode | None = None
    fields: Mapping[str, SchemaNode] = field(default_factory=dict)


@dataclass(frozen=True)
class WriterSchema:
    """A schema: what values mean by it, and what the library reads them by."""

    node: SchemaNode
    parsed: Any


def parse_schema(text: str, before: Iterable[str] = ()) -> WriterSchema:
    """A schema as text; before: those that it refers to. Raises NotASchema for what is none that can be read."""
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
        # What is no schema fails in as many ways as there are.
        raise NotASchema(f"no schema of Avro ({type(error).__name__}: {error})") from None


class _Names:
    """The named types of a schema: those that others defined, and those that it defines itself."""

    def __init__(self) -> None:
        self._others: dict[str, tuple[Any, str]] = {}
        self._types: dict[str, tuple[str, SchemaNode]] = {}
        # Records on the way down to here: one that is within itself has no end as columns.
        self._open: set[str] = set()

    def collect(self, schema: Any, space: str) -> None:
        """Take in the named types of a schema that is referred to."""
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
        """A schema in bare types, and what it means."""
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
        # A union with null says that a value may be NULL, which every column may be.
        valued = [node for _, node in pairs if node.kind != "null"]
        several = SchemaNode("union") if valued else SchemaNode("null")
        return [bare for bare, _ in pairs], valued[0] if len(valued) == 1 else several

    def _record(self, schema: Mapping[str, Any], space: str) -> tuple[Any, SchemaNode]:
        full = _full(schema["name"], schema.get("namespace", space))
        if full in self._open:
            raise NotASchema(f"a schema whose {full} is in itself")
        self._open.add(full)
        inner = full.rpartition(".")[0]
        types_of_fields = {
            each["name"]: self.walk(each["type"], inner) for each in schema["fields"]
        }
        # Only while it is walked: the same record may be in two fields of another.
        self._open.discard(full)
        fields = [{"name": name, "type": bare} for name, (bare, _) in types_of_fields.items()]
        node = SchemaNode(
            "record",
            _find_meaning(schema)[0],
            fields={n: one for n, (_, one) in types_of_fields.items()},
        )
        return self._define(full, {"type": "record", "fields": fields}, node), node

    def _define(self, full: str, bare: dict[str, Any], node: SchemaNode) -> dict[str, Any]:
        """A type under a name of its own: the writer's need not be one that the library takes."""
        own = f"N{len(self._types)}"
        self._types[full] = own, node
        return {"name": own, **bare}

    def _find_type(self, name: str, space: str) -> tuple[Any, SchemaNode]:
        """A type by its name, which is in the same namespace, or in none."""
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
    """Return the meaning of a type's values, by Kafka Connect's name for it, and the scale of a decimal."""
    name, logical = schema.get("connect.name"), schema.get("logicalType")
    # A name of Kafka Connect's says more than Avro's own, which cannot tell Debezium's types apart.
    if name is None and schema["type"] in _CARRIED.get(str(logical), ("long",)):
        name = _LOGICAL.get(str(logical))
    parameters = schema.get("connect.parameters") or {}
    return name, int(parameters.get("scale", schema.get("scale", 0)))
