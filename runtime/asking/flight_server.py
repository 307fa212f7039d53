"""Arrow Flight SQL over live tables: drivers of ADBC and JDBC send queries, DuckDB evaluates them over the last commit.

The server has no state of a client: a handle contains the query and its parameters, so that no client can read or
drop those of another. An error of a request reaches its client alone.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
from pyarrow import flight

from aggloom.errors import AggloomError, SqlError
from aggloom.runtime.asking.credentials import CheckCredentials, Credentials, OpenHandshake
from aggloom.runtime.asking.database import MEMORY, SECONDS, ask_live, describe_query
from aggloom.runtime.asking.flight_messages import read_message, write_message, write_plain
from aggloom.runtime.asking.flight_tables import answer, is_about_tables, schema_of
from aggloom.runtime.asking.snapshot import LiveSnapshots

LOCAL = "127.0.0.1"
_MAX_QUERY = 1 << 20
_CREATE, _CLOSE = "CreatePreparedStatement", "ClosePreparedStatement"


class FlightSqlServer(flight.FlightServerBase):  # type: ignore[misc]
    """Serves snapshots; port 0: a free one.

    credentials: of clients; None: no authentication. tls: certificate and key, in PEM. seconds, memory: the limits of a
    query.
    """

    def __init__(
        self,
        snapshots: LiveSnapshots,
        *,
        version: str,
        host: str = LOCAL,
        port: int = 0,
        credentials: Credentials | None = None,
        tls: tuple[bytes, bytes] | None = None,
        seconds: float = SECONDS,
        memory: str = MEMORY,
    ) -> None:
        self._snapshots, self._version = snapshots, version
        self._limits = {"seconds": seconds, "memory": memory}
        scheme = "grpc+tls" if tls else "grpc"
        # The colons of an IPv6 address are not the one before the port.
        address = f"[{host}]" if ":" in host else host
        options: dict[str, Any] = {}
        if credentials is not None:
            options = {"auth_handler": OpenHandshake()}
            options["middleware"] = {"credentials": CheckCredentials(credentials)}
        if tls is not None:
            options["tls_certificates"] = [tls]
        super().__init__(f"{scheme}://{address}:{port}", **options)
        # The port is known only once the server listens, as 0 lets the system choose.
        self.address = f"{scheme}://{address}:{self.port}"

    def get_flight_info(self, context: Any, descriptor: Any) -> Any:
        """The columns of an answer, and the ticket that fetches it."""
        with _errors_of_client():
            name, message = read_message(bytes(descriptor.command or b""))
            if is_about_tables(name):
                ticket, schema = bytes(descriptor.command), schema_of(name, message)
            else:
                handle = _handle_of(name, message)
                # The columns are known without running the query, which the ticket will do.
                schema, _ = describe_query(self._snapshots.current(), _read_handle(handle)[0])
                ticket = write_message("TicketStatementQuery", statement_handle=handle)
            endpoint = flight.FlightEndpoint(flight.Ticket(ticket), [])
            # The numbers of rows and bytes: -1, as they are not known before the query has run.
            return flight.FlightInfo(schema, descriptor, [endpoint], -1, -1)

    def get_schema(self, context: Any, descriptor: Any) -> Any:
        """The columns of an answer."""
        return flight.SchemaResult(self.get_flight_info(context, descriptor).schema)

    def do_get(self, context: Any, ticket: Any) -> Any:
        """The rows of an answer, all of one commit of each checkpoint."""
        with _errors_of_client():
            name, message = read_message(ticket.ticket)
            if is_about_tables(name):
                rows = answer(name, message, self._snapshots.current(), self._version)
            else:
                sql, parameters = _read_handle(_handle_of(name, message))
                rows = ask_live(self._snapshots, sql, parameters, **self._limits)
            return flight.RecordBatchStream(rows)

    def do_action(self, context: Any, action: Any) -> Iterator[Any]:
        """Prepare a statement, or close it, which needs no work."""
        with _errors_of_client():
            if action.type not in (_CREATE, _CLOSE):
                raise SqlError(f"Flight SQL: there is no action {action.type[:80]!r} here")
            _, message = read_message(action.body.to_pybytes())
            if action.type == _CLOSE:
                # A handle contains the whole query, so there is nothing to release.
                return iter(())
            sql = str(getattr(message, "query", ""))
            schema, count = describe_query(self._snapshots.current(), sql)
            # The type of a parameter is that of its value, so the columns have none yet.
            inputs = pa.schema([(f"parameter_{n + 1}", pa.null()) for n in range(count)])
            reply = write_message(
                "ActionCreatePreparedStatementResult",
                prepared_statement_handle=_write_handle(sql, []),
                dataset_schema=schema.serialize().to_pybytes(),
                parameter_schema=inputs.serialize().to_pybytes() if count else b"",
            )
            return iter([flight.Result(reply)])

    def do_put(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:
        """Bind the parameters of a prepared statement: they are in its new handle."""
        with _errors_of_client():
            name, message = read_message(bytes(descriptor.command or b""))
            if name != "CommandPreparedStatementQuery":
                raise SqlError(
                    "Flight SQL: checkpoints are only read; nothing can be put into them"
                )
            sql, _ = _read_handle(message.prepared_statement_handle)
            table = reader.read_all()
            if table.num_rows != 1:
                raise SqlError(f"give one row of parameters; these are {table.num_rows}")
            handle = _write_handle(sql, table)
            result = write_plain("DoPutPreparedStatementResult", prepared_statement_handle=handle)
            writer.write(pa.py_buffer(result))

    def list_actions(self, context: Any) -> list[tuple[str, str]]:
        """The supported actions."""
        return [(_CREATE, "prepare a query"), (_CLOSE, "close a prepared query")]


def _handle_of(name: str, message: Any) -> bytes:
    """The handle of a command's query; raises SqlError for a command without one."""
    if name == "CommandStatementQuery":
        return _write_handle(message.query, [])
    if name == "CommandPreparedStatementQuery":
        return bytes(message.prepared_statement_handle)
    if name == "TicketStatementQuery":
        return bytes(message.statement_handle)
    raise SqlError(f"Flight SQL: {name} is not supported; checkpoints are read by queries")


def _write_handle(sql: str, parameters: pa.Table | list[Any]) -> bytes:
    """A query and its parameters, a table of one row, as bytes."""
    data = ""
    if isinstance(parameters, pa.Table):
        out = pa.BufferOutputStream()
        with pa.ipc.new_stream(out, parameters.schema) as stream:
            stream.write_table(parameters)
        data = base64.b64encode(out.getvalue().to_pybytes()).decode()
    # The server stores no statements: they cannot pile up, and a handle is valid after a restart.
    return json.dumps([sql, data]).encode()


def _read_handle(handle: bytes) -> tuple[str, list[Any]]:
    """The query of a handle, and the values of its parameters; raises SqlError for an invalid handle."""
    try:
        sql, data = json.loads(handle)
        # The handle comes back from a client, who may have changed it: it is checked as any other text.
        if not isinstance(sql, str) or not isinstance(data, str) or len(sql) > _MAX_QUERY:
            raise ValueError("no query")
        if not data:
            return sql, []
        table = pa.ipc.open_stream(base64.b64decode(data, validate=True)).read_all()
        # Arrow does not check offsets by itself, and a wrong one reads foreign memory.
        table.validate(full=True)
        return sql, [column[0].as_py() for column in table.columns]
    except (ValueError, TypeError, IndexError, RecursionError, pa.ArrowException):
        raise SqlError("Flight SQL: the handle does not belong to this server") from None


@contextmanager
def _errors_of_client() -> Iterator[None]:
    """Turn an AggloomError into an error of Arrow that a driver shows; of any other error the class alone."""
    try:
        yield
    except AggloomError as error:
        # Errors of Arrow itself would carry the traceback to the client.
        raise flight.FlightServerError(str(error)) from None
    except flight.FlightError:
        raise
    except Exception as error:
        raise flight.FlightServerError(f"{type(error).__name__} in the server") from None
