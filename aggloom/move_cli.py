"""The command `aggloom move`: continue a query on the other engine where it stopped."""

from __future__ import annotations

from pathlib import Path

import click

from aggloom.options_cli import SingleOption, debug_option


@click.command(cls=SingleOption)
@click.argument("checkpoint", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.argument("target", type=click.Path(path_type=Path))
@click.option(
    "--to", type=click.Choice(("spark", "local")), required=True, help="The engine that continues."
)
@debug_option
def move(checkpoint: Path, target: Path, to: str) -> None:
    """Make TARGET, a new directory, the checkpoint with which the other engine goes on; the query must not run."""
    from aggloom.move import move_checkpoint

    batch = move_checkpoint(checkpoint, target, to)
    click.echo(
        f"{target}: batch {batch} comes next. Run the same query with --engine {to} --checkpoint {target}"
    )
