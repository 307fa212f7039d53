"""The commands `aggloom ask` and `aggloom serve`: SQL over the live tables of checkpoints."""

from __future__ import annotations

import ipaddress
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from aggloom import __version__
from aggloom.display import FORMS, Form
from aggloom.errors import SpecError
from aggloom.options_cli import SingleOption, debug_option, port_option, trust_checkpoint_option

if TYPE_CHECKING:
    from aggloom.runtime.asking.snapshot import Snapshot

_SECONDS = click.option(
    "--seconds",
    type=click.FloatRange(0, min_open=True),
    default=60.0,
    show_default=True,
    help="How many seconds a query may take.",
)
_MEMORY = click.option(
    "--memory",
    default="1GB",
    show_default=True,
    help="How much memory a query may use, in DuckDB's form.",
)


@click.command(cls=SingleOption)
@click.argument("checkpoint")
@click.argument("sql", required=False)
@click.option(
    "--tables", is_flag=True, help="List the tables, and what they are, instead of a query."
)
@click.option("--format", "form", type=click.Choice(FORMS), default="table", show_default=True)
@_SECONDS
@_MEMORY
@trust_checkpoint_option
@debug_option
def ask(
    checkpoint: str,
    sql: str | None,
    tables: bool,
    form: Form,
    seconds: float,
    memory: str,
    trust: bool,
) -> None:
    """Answer a query over the tables of CHECKPOINT after its last commit, while its query runs or not.

    `result` is the table of sink `table`, operator_0 and so on are the rows that the operators hold.
    """
    if tables == (sql is not None):
        raise click.UsageError("give a query, or --tables")
    from aggloom.runtime.asking.database import ask_live
    from aggloom.runtime.asking.snapshot import LiveSnapshots, with_own_names
    from aggloom.terminal_table import show_rows

    live = LiveSnapshots({schema_name(checkpoint): checkpoint}, trust)
    if tables:
        for snapshot in live.current().values():
            _list_tables(snapshot, form)
        return
    assert sql is not None
    answer = ask_live(live, sql, seconds=seconds, memory=memory)
    if form == "json":
        answer = with_own_names(answer)
    columns = [column.to_pylist() for column in answer.columns]
    show_rows(answer.column_names, list(zip(*columns, strict=True)), form)


def schema_name(checkpoint: str) -> str:
    """The name of a checkpoint as a schema: that of its directory."""
    return Path(checkpoint.rstrip("/") or "/").absolute().name or "checkpoint"


def _list_tables(snapshot: Snapshot, form: Form) -> None:
    """Print the tables of a snapshot, with their columns."""
    from aggloom.terminal_table import show_rows

    rows = []
    for each in snapshot.list_tables():
        schema = snapshot.table(each.name).schema
        columns = ", ".join(f"{field.name} {field.type}" for field in schema)
        rows.append((each.name, each.description, columns))
    show_rows(("table", "of", "columns"), rows, form)


@click.command(cls=SingleOption)
@click.argument("checkpoints", nargs=-1, required=True)
@port_option
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="The address to listen on; any other than the default needs --user.",
)
@click.option(
    "--user", help="The user who may run queries; the password is in the variable AGGLOOM_PASSWORD."
)
@click.option(
    "--tls-cert",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A certificate, in PEM.",
)
@click.option(
    "--tls-key",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Its key, in PEM.",
)
@_SECONDS
@_MEMORY
@trust_checkpoint_option
@debug_option
def serve(
    checkpoints: tuple[str, ...],
    port: int,
    host: str,
    user: str | None,
    tls_cert: Path | None,
    tls_key: Path | None,
    seconds: float,
    memory: str,
    trust: bool,
) -> None:
    """Serve the live tables of CHECKPOINTS to the drivers of Arrow Flight SQL (ADBC, JDBC), while their queries run.

    Of several checkpoints the tables of each are in a schema of its directory's name.
    """
    if (tls_cert is None) != (tls_key is None):
        raise click.UsageError("--tls-cert and --tls-key come together")
    import pyarrow as pa

    from aggloom.runtime.asking.credentials import Credentials
    from aggloom.runtime.asking.flight_server import FlightSqlServer
    from aggloom.runtime.asking.snapshot import LiveSnapshots

    password = os.environ.get("AGGLOOM_PASSWORD")
    if user is not None and not password:
        raise click.UsageError("--user needs its password in the variable AGGLOOM_PASSWORD")
    if user is None and not _is_loopback(host):
        raise click.UsageError(
            f"--host {host} is open to others: give --user, and AGGLOOM_PASSWORD"
        )
    if user is not None and tls_cert is None and not _is_loopback(host):
        click.echo("note: without --tls-cert passwords and rows can be read on the way", err=True)
    names = {schema_name(each): each for each in checkpoints}
    if len(names) < len(checkpoints):
        raise click.UsageError(
            "two checkpoints have directories of one name, and would be one schema"
        )
    snapshots = LiveSnapshots(names, trust)
    # Whatever is wrong with a checkpoint is said now.
    snapshots.current()
    server_limits: dict[str, Any] = {}
    if user is not None:
        server_limits["credentials"] = Credentials(user, password or "")
    if tls_cert is not None and tls_key is not None:
        _check_certificate(tls_cert, tls_key)
        server_limits["tls"] = (tls_cert.read_bytes(), tls_key.read_bytes())
    limits: dict[str, Any] = {"seconds": seconds, "memory": memory}
    try:
        server = FlightSqlServer(
            snapshots, version=__version__, host=host, port=port, **server_limits, **limits
        )
    except pa.ArrowException as error:
        raise SpecError(
            f"serve: {host}:{port} cannot be listened on: {str(error).splitlines()[0]}"
        ) from None
    click.echo(f"{server.address}  (Ctrl-C ends it)")
    with server:
        server.serve()


def _check_certificate(certificate: Path, key: Path) -> None:
    """Raise UsageError unless two files are a certificate and its key, which gRPC would only say on its own log."""
    import ssl

    try:
        # A key with a passphrase would ask for it on the terminal.
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, password="")
    except (OSError, ValueError) as error:
        raise click.UsageError(
            f"--tls-cert {certificate} and --tls-key {key} are no certificate and its key, in PEM and without a "
            f"passphrase ({getattr(error, 'reason', None) or error})"
        ) from None


def _is_loopback(host: str) -> bool:
    """Tell whether an address is of this machine alone."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
