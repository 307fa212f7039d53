"""The commands `aggloom state` and `aggloom why`: the contents of a checkpoint, and how a key got its value."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Literal, TypeVar

import click

from aggloom.options_cli import trust_checkpoint_option

Form = Literal["text", "json"]
Command = TypeVar("Command", bound=Callable[..., object])
_QUOTES = "'\""


def checkpoint_options(command: Command) -> Command:
    """Give a command what says which part of a checkpoint is meant, and how it is shown."""
    options = [
        click.argument("checkpoint"),
        click.option(
            "--key",
            "keys",
            multiple=True,
            help="COLUMN=VALUE, once for each column of the key; NULL is NULL, 'NULL' the text. "
            "In windows also window_start=... or window_end=....",
        ),
        click.option(
            "--operator",
            help="The operator's number: 0, or 0.1 if several share a stateful node.",
        ),
        click.option("--batch", type=int, help="As of this batch; without it, the last."),
        click.option(
            "--limit",
            type=click.IntRange(min=0),
            help="How many values of a view, or changes, to show.",
        ),
        click.option(
            "--format",
            "form",
            type=click.Choice(["text", "json"]),
            default="text",
            show_default=True,
            help="Tables, or the same as data.",
        ),
        trust_checkpoint_option,
    ]
    for option in reversed(options):
        command = option(command)
    return command


def show_state(
    checkpoint: str, keys: tuple[str, ...], limit: int | None, form: Form, **options: Any
) -> None:
    """Print what a checkpoint holds."""
    key = read_key(keys) if keys else None
    spark = session_for(checkpoint)
    from aggloom.runtime.inspection.checkpoint import state

    report = state(checkpoint, key=key, limit=limit, spark=spark, **options)
    _print(report, form, *([] if limit is None else [limit]))


def show_why(
    checkpoint: str, keys: tuple[str, ...], limit: int | None, form: Form, **options: Any
) -> None:
    """Print the changes by which a key got its value."""
    key = read_key(keys)
    spark = session_for(checkpoint)
    from aggloom.runtime.inspection.checkpoint import why

    report = why(checkpoint, key=key, spark=spark, **options)
    _print(report, form, *([] if limit is None else [limit]))


def session_for(checkpoint: str) -> Any:
    """A session to look at a checkpoint of Spark's with, if it is there; None where the local engine wrote it."""
    from aggloom.runtime.hosting.checkpoint_paths import (
        is_local,
        is_local_checkpoint,
        local,
        require_checkpoint,
    )

    require_checkpoint(checkpoint)
    if is_local(checkpoint) and is_local_checkpoint(local(checkpoint)):
        return None
    from aggloom.runtime.spark.checkpoint import check_place
    from aggloom.runtime.spark.sessions.command_session import session_to_look

    check_place(local(checkpoint))
    return session_to_look("aggloom", "aggloom.runtime.inspection.checkpoint")


def read_key(pairs: tuple[str, ...]) -> dict[str, str | None]:
    """The columns of a key as a user writes them: NULL is no value, quotes make a text of anything."""
    key: dict[str, str | None] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        name = name.strip()
        if not name or not equals:
            raise click.UsageError(f"--key is {pair!r}; it must be COLUMN=VALUE")
        if name in key:
            raise click.UsageError(f"--key names {name!r} twice; leave one out")
        quoted = len(value) > 1 and value[0] == value[-1] and value[0] in _QUOTES
        key[name] = None if value == "NULL" else value[1:-1] if quoted else value
    return key


def _print(report: Any, form: Form, *limit: int) -> None:
    if form == "json":
        click.echo(json.dumps(report.to_dict(), ensure_ascii=False, indent=2))
    else:
        click.echo(report.text(*limit), nl=False)
