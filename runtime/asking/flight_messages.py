"""The messages of Arrow Flight SQL that the server understands, with the field numbers of its specification.

Only the fields that the server reads are declared; protobuf skips others.
https://arrow.apache.org/docs/format/FlightSql.html
"""

from __future__ import annotations

from functools import cache
from typing import Any

from google.protobuf import any_pb2, descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

from aggloom.errors import SqlError

_PACKAGE = "arrow.flight.protocol.sql"
_URL = f"type.googleapis.com/{_PACKAGE}."
_FIELD = descriptor_pb2.FieldDescriptorProto
_BYTES, _TEXT, _BOOL, _NUMBER = (
    *(_FIELD.TYPE_BYTES, _FIELD.TYPE_STRING, _FIELD.TYPE_BOOL),
    _FIELD.TYPE_UINT32,
)
_MESSAGES: dict[str, dict[str, tuple[int, int, bool]]] = {
    "CommandStatementQuery": {"query": (1, _TEXT, False)},
    "CommandPreparedStatementQuery": {"prepared_statement_handle": (1, _BYTES, False)},
    "TicketStatementQuery": {"statement_handle": (1, _BYTES, False)},
    "CommandGetCatalogs": {},
    "CommandGetDbSchemas": {"db_schema_filter_pattern": (2, _TEXT, False)},
    "CommandGetTables": {
        "db_schema_filter_pattern": (2, _TEXT, False),
        "table_name_filter_pattern": (3, _TEXT, False),
        "table_types": (4, _TEXT, True),
        "include_schema": (5, _BOOL, False),
    },
    "CommandGetTableTypes": {},
    "CommandGetSqlInfo": {"info": (1, _NUMBER, True)},
    "CommandGetPrimaryKeys": {},
    "CommandGetExportedKeys": {},
    "CommandGetImportedKeys": {},
    "ActionCreatePreparedStatementRequest": {"query": (1, _TEXT, False)},
    "ActionCreatePreparedStatementResult": {
        "prepared_statement_handle": (1, _BYTES, False),
        "dataset_schema": (2, _BYTES, False),
        "parameter_schema": (3, _BYTES, False),
    },
    "ActionClosePreparedStatementRequest": {"prepared_statement_handle": (1, _BYTES, False)},
    "DoPutPreparedStatementResult": {"prepared_statement_handle": (1, _BYTES, False)},
}
"""The fields of each message: (number, type, is repeated)."""


@cache
def _classes() -> dict[str, Any]:
    """The class of each message; proto2 distinguishes an empty value from a missing field."""
    file = descriptor_pb2.FileDescriptorProto(
        # Described at run time, so that the build needs no compiler of protobuf.
        name="aggloom/flight_sql.proto",
        package=_PACKAGE,
        syntax="proto2",
    )
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, (number, kind, repeated) in fields.items():
            label = _FIELD.LABEL_REPEATED if repeated else _FIELD.LABEL_OPTIONAL
            message.field.add(name=field, number=number, type=kind, label=label)
    # A pool of our own: the default one fails if another library of the process has the same package.
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    descriptors = {name: pool.FindMessageTypeByName(f"{_PACKAGE}.{name}") for name in _MESSAGES}
    return {name: message_factory.GetMessageClass(each) for name, each in descriptors.items()}


def read_message(data: bytes) -> tuple[str, Any]:
    """The name and the fields of a message in protobuf's Any; raises SqlError for one that is not understood."""
    wrapped = any_pb2.Any()
    try:
        wrapped.ParseFromString(data)
        name = wrapped.type_url.removeprefix(_URL)
        if not wrapped.type_url.startswith(_URL) or name not in _MESSAGES:
            # Cut, since the client's text goes into an error message and perhaps a log.
            what = wrapped.type_url.rpartition(".")[2][:80]
            raise SqlError(
                f"Flight SQL: {what!r} is not supported; checkpoints are read by queries"
            )
        message = _classes()[name]()
        message.ParseFromString(wrapped.value)
    except DecodeError:
        raise SqlError("Flight SQL: the message is not valid protobuf") from None
    return name, message


def write_message(name: str, **fields: Any) -> bytes:
    """A message in protobuf's Any.

    Example:
        >>> read_message(write_message("CommandStatementQuery", query="SELECT 1"))[1].query
        'SELECT 1'
    """
    wrapped = any_pb2.Any(type_url=_URL + name, value=write_plain(name, **fields))
    return bytes(wrapped.SerializeToString())


def write_plain(name: str, **fields: Any) -> bytes:
    """A message without the frame of Any."""
    return bytes(_classes()[name](**fields).SerializeToString())
