"""The command `aggloom verify`: compare a checkpoint with a new run of its query over its source."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from aggloom.inspect_cli import Form, session_for
from aggloom.options_cli import (
    SingleOption,
    debug_option,
    form_option,
    pairs_of,
    settings_option,
    trust_checkpoint_option,
)


@click.command(cls=SingleOption)
@click.argument("checkpoint")
@click.argument("job", required=False, type=click.Path(dir_okay=False, path_type=Path))
@click.option("--sql", help="The query, if the checkpoint does not contain its job.")
@click.option("--table", "tables", multiple=True, help="Its tables, as in `aggloom run`.")
@click.option("--sink", help="Its sink, as in `aggloom run`.")
@settings_option
@click.option(
    "--limit",
    type=click.IntRange(0),
    default=20,
    show_default=True,
    help="How many differences to show.",
)
@form_option
@trust_checkpoint_option
@debug_option
@click.pass_context
def verify(
    ctx: click.Context,
    /,
    checkpoint: str,
    job: Path | None,
    limit: int,
    form: Form,
    trust: bool,
    **options: Any,
) -> None:
    """Run the query of CHECKPOINT once more over what it has read, and compare its state and its sink, key by key.

    JOB: a script or job file, if the checkpoint does not contain it. Exit code 0: equal, 1: different, 2: it cannot be
    verified.
    """
    spark = session_for(checkpoint)
    from aggloom.verify import verify as verify_checkpoint

    report = verify_checkpoint(
        checkpoint,
        read_given_job(job, Path(checkpoint), options),
        trust=trust,
        limit=limit,
        spark=spark,
    )
    if form == "json":
        click.echo(
            json.dumps({**report.to_dict(), "equal": report.is_equal}, ensure_ascii=False, indent=2)
        )
    else:
        click.echo(report.text(limit), nl=False)
    ctx.exit(0 if report.is_equal else 1)


def read_given_job(file: Path | None, checkpoint: Path, more: dict[str, Any]) -> Any:
    """The job that a command line says, of a script the one of this checkpoint; None if it says none."""
    from aggloom.job import complete, read_job
    from aggloom.script import jobs_of
    from aggloom.tables import read_table_option
    from aggloom.text_file import read_text

    tables = tuple(map(read_table_option, more.pop("tables")))
    options = pairs_of("--set", "OPTION=VALUE", more.pop("settings"))
    entries = {name: value for name, value in more.items() if value is not None}
    if file is None and "sql" not in entries:
        if tables or options or entries:
            raise click.UsageError("--table, --sink and --set are of a query: give --sql too")
        return None
    entries |= {"tables": tables, "options": options, "checkpoint": checkpoint}
    folder = None if file is None else file.parent
    if file is not None and file.suffix.lower() != ".sql":
        draft_job = read_job(file, **entries)
    else:
        if file is not None:
            entries["sql"] = read_text(file)
        draft_job = complete({k: v for k, v in entries.items() if v not in (None, ())}, "verify")
    jobs, _ = jobs_of(draft_job, folder)
    # `aggloom run` gives each query of a script a directory below the checkpoint, with the name of the table it fills.
    named = [each for each in jobs if each.into == checkpoint.name]
    if len(jobs) > 1 and len(named) != 1:
        names = ", ".join(each.into for each in jobs)
        raise click.UsageError(
            f"the script has several queries ({names}): give the checkpoint of one of them"
        )
    # With one query its checkpoint may have any name, as its user chose it.
    return next(iter(named or jobs), None)
