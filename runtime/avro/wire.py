"""Messages in Confluent's frame: a byte 0, the id of the writer's schema in four bytes, and the body."""

from __future__ import annotations

from io import BytesIO
from typing import Any

from aggloom.errors import SpecError
from aggloom.runtime.avro.client import UnknownSchemaError, client_of
from aggloom.runtime.avro.schemas import NotASchema, WriterSchema, parse_schema
from aggloom.runtime.avro.settings import SchemaRegistry

FRAME = 5
_EIGHT = (
    "; a frame with an id of 8 bytes is another: let Apicurio's converter write Confluent's "
    "(apicurio.registry.as-confluent=true, apicurio.registry.headers.enabled=false)"
)


class NotInAvro(Exception):
    """Raised for a message without a frame, or with a body that is not of its schema; the text is the reason."""


class AvroReader:
    """Reads the messages of a topic, each by its writer's schema."""

    def __init__(self, registry: SchemaRegistry) -> None:
        self._client = client_of(registry)
        self._known: dict[int, WriterSchema] = {}
        self._read = library().schemaless_reader

    def read(self, data: bytes) -> tuple[int, WriterSchema, Any]:
        """The schema's id, the schema, and the value; raises NotInAvro and SchemaRegistryError."""
        if len(data) < FRAME:
            raise NotInAvro(f"{len(data)} bytes, which is less than the frame of Confluent's Avro")
        if data[0]:
            raise NotInAvro(f"the first byte is {data[0]}, not 0 as in Confluent's Avro")
        number = int.from_bytes(data[1:FRAME], "big")
        schema = self._known.get(number) or self._fetch_schema(number)
        body = BytesIO(data)
        body.seek(FRAME)
        try:
            value = self._read(body, schema.parsed)
        except (EOFError, IndexError):
            why = "the body ends too early"
            raise NotInAvro(f"{why}, or is not of schema {number}") from None
        except Exception as error:
            # The library raises errors of many types for invalid bytes.
            why = f"{type(error).__name__}: {error}"
            raise NotInAvro(f"the body is not of schema {number} ({why})") from None
        # The body of another schema may begin alike, and would be read as a value of this one.
        if body.tell() != len(data):
            more = len(data) - body.tell()
            raise NotInAvro(f"{more} bytes more than schema {number} has")
        return number, schema, value

    def _fetch_schema(self, number: int) -> WriterSchema:
        try:
            schema = parse_schema(*self._client.schema(number))
        except UnknownSchemaError:
            hint = _EIGHT if number == 0 else ""
            registry = self._client.registry
            raise NotInAvro(f"the registry {registry} has no schema {number}{hint}") from None
        except NotASchema as error:
            raise NotInAvro(f"schema {number}: {error}") from None
        # For as long as the process lives: a registry gives no id twice.
        self._known[number] = schema
        return schema


def library() -> Any:
    """The library for Avro; raises SpecError if it is not installed."""
    try:
        import fastavro
    except ImportError:
        raise SpecError(
            "Avro needs the package fastavro, which is not there; pip install 'aggloom[avro]', where workers run too"
        ) from None
    return fastavro
