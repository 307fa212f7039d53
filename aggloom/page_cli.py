"""The commands `aggloom ui` and `aggloom report`: web pages about checkpoints."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from aggloom.inspect_cli import read_key
from aggloom.options_cli import SingleOption, debug_option, port_option, trust_checkpoint_option
from aggloom.writable import check_report_file

if TYPE_CHECKING:
    from aggloom.runtime.page import Checkpoints

_CHECKPOINTS = click.argument("checkpoints", nargs=-1)


@click.command(cls=SingleOption)
@_CHECKPOINTS
@port_option
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="The address to listen on; any other than the default shows the page to others.",
)
@click.option("--open", "opens", is_flag=True, help="Show the page in a browser.")
@trust_checkpoint_option
@debug_option
def ui(checkpoints: tuple[str, ...], port: int, host: str, opens: bool, trust: bool) -> None:
    """Serve a page about checkpoints, live while their queries run, and metrics for Prometheus at /metrics.

    Each is a checkpoint, or a directory with some in it; without any, the current directory.
    """
    from aggloom.runtime.page import PageServer

    known = _find_checkpoints(checkpoints, trust)
    with PageServer(known, host, port) as server:
        click.echo(f"{server.address}  (Ctrl-C ends it)")
        # On standard error: the address is the only line of standard output, which scripts read.
        if not known.all():
            click.echo("no checkpoint is there yet; the page shows each as it comes", err=True)
        if opens:
            click.launch(server.address)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            click.echo("", err=True)


@click.command(cls=SingleOption)
@_CHECKPOINTS
@click.option(
    "--output",
    "-o",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("report.html"),
    show_default=True,
    help="The file to write.",
)
@click.option(
    "--key",
    "keys",
    multiple=True,
    help="COLUMN=VALUE, once for each column: show this key too, and the changes that led to its value.",
)
@click.option(
    "--no-state",
    is_flag=True,
    help="Leave the state out. Reading it starts Spark if the checkpoint is Spark's.",
)
@trust_checkpoint_option
@debug_option
def report(
    checkpoints: tuple[str, ...], output: Path, keys: tuple[str, ...], no_state: bool, trust: bool
) -> None:
    """Write the page about checkpoints as one HTML file, without scripts."""
    if keys and no_state:
        raise click.UsageError("--key needs the state: leave out --no-state")
    key = read_key(keys) if keys else None
    from aggloom.runtime.page import BackgroundReads, write_report

    # Before the state is read, which may take long.
    check_report_file(output)
    known = _find_checkpoints(checkpoints, trust)
    write_report(known, output, key=key, reading=None if no_state else BackgroundReads())
    click.echo(str(output))


def _find_checkpoints(checkpoints: tuple[str, ...], trust: bool) -> Checkpoints:
    """The checkpoints of a command line; raises CheckpointError where a path is not there."""
    from aggloom.runtime.page import Checkpoints
    from aggloom.runtime.page.checkpoints import require_checkpoints

    return Checkpoints([require_checkpoints(path) for path in checkpoints or (".",)], trust)
