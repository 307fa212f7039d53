"""The command `aggloom forget`: remove a subject from a checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import click

from aggloom.inspect_cli import read_key
from aggloom.options_cli import SingleOption, debug_option, form_option, settings_option


@click.command(cls=SingleOption)
@click.argument("checkpoint")
@click.argument("job", required=False, type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--key",
    "keys",
    multiple=True,
    required=True,
    help="COLUMN=VALUE of the subject, once for each column; NULL is NULL, 'NULL' the text.",
)
@click.option("--sql", help="The query, if the checkpoint does not contain its job.")
@click.option("--table", "tables", multiple=True, help="Its tables, as in `aggloom run`.")
@click.option("--sink", help="Its sink, as in `aggloom run`.")
@settings_option
@form_option
@debug_option
def forget(
    checkpoint: str,
    job: Path | None,
    keys: tuple[str, ...],
    form: Literal["text", "json"],
    **options: object,
) -> None:
    """Remove a subject from the state, the logs and the table of CHECKPOINT, and write a receipt.

    The query must not run. JOB: a script or job file, if the checkpoint does not contain it.
    """
    from aggloom.forget import forget as forget_subject
    from aggloom.verify_cli import read_given_job

    receipt = forget_subject(
        checkpoint, read_key(keys), read_given_job(job, Path(checkpoint), dict(options))
    )
    if form == "json":
        click.echo(receipt.to_json(), nl=False)
        return
    click.echo(f"forgotten with batch {receipt.batch}; {receipt.deleted} older files are deleted")
    for each in receipt.removed:
        click.echo(f"  {each.place}: {each.keys} removed, {each.retracted} rows retracted")
    click.echo("not reached:")
    for line in receipt.not_reached:
        click.echo(f"  {line}")
    click.echo(f"receipt: {Path(checkpoint) / 'receipts' / f'forget-{receipt.batch}.json'}")
