"""The commands `aggloom init` and `aggloom completion`: preparations for a first query."""

from __future__ import annotations

import shlex
from pathlib import Path

import click
from click.shell_completion import get_completion_class

from aggloom.engine_choice import name_missing
from aggloom.errors import SpecError
from aggloom.options_cli import SingleOption, debug_option
from aggloom.project import write_project

SHELLS = ("bash", "zsh", "fish")


@click.command(cls=SingleOption)
@click.argument("directory", type=click.Path(file_okay=False, path_type=Path))
@debug_option
def init(directory: Path) -> None:
    """Write a project into a new directory: a job, tests of it, and changes to run it on."""
    for path in write_project(directory):
        click.echo(str(path))
    click.echo(f"\ncd {shlex.quote(str(directory))}\naggloom test\naggloom run job.yaml")
    missing = name_missing()
    where = f"on the local engine, for {missing} is not there" if missing else "on Spark"
    click.echo(f"\nThe job runs {where}; --engine spark or --engine local decides.")


@click.command(cls=SingleOption)
@click.argument("shell", type=click.Choice(SHELLS))
@debug_option
def completion(shell: str) -> None:
    """Print the script that lets a shell complete commands and options: eval "$(aggloom completion bash)"."""
    main = click.get_current_context().find_root().command
    kind = get_completion_class(shell)
    if kind is None:
        raise SpecError(f"completion: click knows no shell {shell!r}")
    click.echo(kind(main, {}, "aggloom", "_AGGLOOM_COMPLETE").source())
