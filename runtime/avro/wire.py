"""Messages in Confluent's frame: a byte 0, the id of the schema that they were written with, and the body."""

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
    """A message that is not what its frame says, or has none; the text is the reason."""


class AvroReader:
    """Reads the messages of a topic, each by the schema that it was written with."""

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
            # The library says what is wrong with bytes in as many ways as there are types.
            why = f"{type(error).__name__}: {error}"
            raise NotInAvro(f"the body is not of schema {number} ({why})") from None
        # The record of another schema may begin alike: its first values would pass for this one's.
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
    """The library for Avro; raises SpecError where it is not there."""
    try:
        import fastavro
    except ImportError:
        raise SpecError(
            "Avro needs the package fastavro, which is not there; pip install 'aggloom[avro]', where workers run too"
        ) from None
    return fastavro
