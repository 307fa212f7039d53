"""The command line: `aggloom generate`, `inspect`, `explain`, `run`, `why` and the rest that `aggloom --help` lists.

A typed error is one short message on stderr and exit code 2; `--debug` shows where it was raised.
"""

from __future__ import annotations

import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import click

from aggloom import __version__
from aggloom.analyze_cli import analyze
from aggloom.ask_cli import ask, serve
from aggloom.codegen.spec.choices import BACKENDS, DIALECTS, MODES, TABLE_CHANGES, Mode
from aggloom.docs_cli import show_docs
from aggloom.errors import AggloomError, IgnoredOptionWarning
from aggloom.forget_cli import forget
from aggloom.garbage_pause import collect_rarely
from aggloom.inspect_cli import Form, checkpoint_options, show_state, show_why
from aggloom.interpreted_start import interpret_few_rows
from aggloom.masking import mask_secrets
from aggloom.move_cli import move
from aggloom.options_cli import (
    SingleOption,
    args_option,
    debug_option,
    form_option,
    pairs_of,
    settings_option,
    values_of,
)
from aggloom.page_cli import report, ui
from aggloom.pandas_on_demand import put_off_pandas
from aggloom.project_cli import completion, init
from aggloom.sample_cli import show_sample
from aggloom.shell_cli import sql_shell
from aggloom.spec_cli import explain, generate, inspect, refresh
from aggloom.testing.cli import run_tests
from aggloom.text_file import read_text
from aggloom.verify_cli import verify

_CLICKS = (click.ClickException, click.exceptions.Exit, click.Abort, BrokenPipeError)
"""Errors that click reports itself; where a pipe is broken, whoever read what is printed has seen enough."""


class _Group(click.Group):
    """A group of commands that says what is wrong without a traceback."""

    command_class = SingleOption

    def invoke(self, ctx: click.Context) -> object:
        try:
            with _warnings_as_notes(), collect_rarely(), interpret_few_rows():
                return super().invoke(ctx)
        except KeyboardInterrupt:
            click.echo("aggloom: interrupted", err=True)
            ctx.exit(130)
        except Exception as error:
            message = _message(error)
            if isinstance(error, _CLICKS):
                raise
            if message is None or ctx.meta.get("debug"):
                click.echo(mask_secrets(traceback.format_exc()), err=True)
                ctx.exit(1)
            click.echo(f"aggloom: {mask_secrets(message)}", err=True)
            ctx.exit(2)


@contextmanager
def _warnings_as_notes() -> Iterator[None]:
    """Let each warning of aggloom's be a line, once, without the place in the code that it comes from."""
    show, texts_shown = warnings.showwarning, set[str]()

    def show_note(message: Any, category: Any, *place: Any, **more: Any) -> None:
        if issubclass(category, IgnoredOptionWarning):
            if str(message) not in texts_shown:
                click.echo(f"note: {message}", err=True)
            texts_shown.add(str(message))
        else:
            show(message, category, *place, **more)

    with warnings.catch_warnings():
        warnings.showwarning = show_note
        yield


def _message(error: Exception) -> str | None:
    """Describe an error in a few lines; None if it is neither the user's fault nor Spark's, but a fault of the
    package.
    """
    if isinstance(error, AggloomError | OSError | UnicodeDecodeError):
        return str(error)
    if type(error).__module__.partition(".")[0] in ("pyspark", "py4j"):
        from aggloom.runtime.spark.failures import explain_failure

        return str(explain_failure(error))
    return None


@click.group(
    cls=_Group, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(__version__, prog_name="aggloom")
def main() -> None:
    """Streaming aggregates over changes: generate them, read them, run them on Spark or in one process."""


for _command in (
    generate,
    refresh,
    inspect,
    explain,
    init,
    move,
    sql_shell,
    run_tests,
    completion,
    ui,
    report,
    verify,
    ask,
    serve,
    forget,
    show_docs,
    analyze,
):
    main.add_command(_command)


@main.command()
@click.option("--sql", required=True, help="A query, after SET and CREATE VIEW if it needs them.")
@click.option(
    "--sample",
    "samples",
    multiple=True,
    required=True,
    help="Rows of a table: a Parquet, CSV or JSON lines file, or NAME=FILE for each of several tables; of CSV with"
    " options, as in t=f.csv,sep=;.",
)
@click.option("--table", "tables", multiple=True, help='The columns of a table, "name=DDL".')
@click.option("--rows", type=click.IntRange(1), help="The number of rows of the whole input.")
@click.option("--keys", type=click.IntRange(1), help="The number of keys, if you know it.")
@click.option("--buckets", type=click.IntRange(1), help="As in group_aggregate.")
@settings_option
@form_option
@debug_option
def estimate(
    sql: str,
    samples: tuple[str, ...],
    tables: tuple[str, ...],
    settings: tuple[str, ...],
    form: Literal["text", "json"],
    **sizes: int | None,
) -> None:
    """Estimate how much memory a query will need, from a sample of its rows."""
    from aggloom.sample_files import estimate_query

    options = pairs_of("--set", "OPTION=VALUE", settings)
    estimate_of_query = estimate_query(
        sql, pairs_of("--table", '"name=DDL"', tables), samples, options=options, **sizes
    )
    click.echo(estimate_of_query.to_json() if form == "json" else str(estimate_of_query))


@main.command()
@click.argument("directory", type=click.Path(path_type=Path))
@debug_option
def sample(directory: Path) -> None:
    """Write three small files of changes into a new directory, to try aggloom with."""
    show_sample(directory)


@main.command()
@click.argument("job", required=False, type=click.Path(dir_okay=False, path_type=Path))
@click.option("--sql", help="A query, after SET and CREATE VIEW if it needs them.")
@click.option(
    "--table",
    "tables",
    multiple=True,
    help="t=PATH[,format=debezium-json|jsonl|csv|parquet|...][,schema=DDL][,option=value ...] (docs/formats.md)",
)
@click.option(
    "--sink",
    help="console (default), table (the folded result), jsonl:PATH, parquet:PATH, or a kind with options: "
    "database,table=totals,connect=dbname=shop (docs/sinks.md).",
)
@click.option(
    "--checkpoint",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where progress and state are kept; a later run with it continues. Without one nothing is kept.",
)
@click.option(
    "--engine",
    type=click.Choice(["spark", "local"]),
    help="Spark (default where it is installed), or this process alone, without Java (docs/engines.md).",
)
@click.option("--changes", type=click.Choice(TABLE_CHANGES))
@click.option("--backend", type=click.Choice(BACKENDS))
@click.option("--dialect", type=click.Choice(DIALECTS))
@click.option(
    "--mode",
    type=click.Choice(MODES),
    help="One change for a key in a batch (default), or one for every row.",
)
@settings_option
@args_option
@click.option("--continuous", is_flag=True, help="Wait for more files instead of stopping.")
@click.option(
    "--keep-open",
    is_flag=True,
    help="Leave windows open at the end of the files, for files that a later run adds.",
)
@click.option(
    "--json", is_flag=True, help="Print counters and the folded table as JSON at the end."
)
@debug_option
def run(
    job: Path | None,
    tables: tuple[str, ...],
    mode: Mode | None,
    settings: tuple[str, ...],
    args: tuple[str, ...],
    **entries: Any,
) -> None:
    """Run queries over changes, on Spark or in one process: a script (job.sql), a job (job.yaml), or options."""
    put_off_pandas()
    from aggloom.job import complete, read_job
    from aggloom.run import run as run_jobs
    from aggloom.script import jobs_of
    from aggloom.tables import read_table_option

    options: dict[str, Any] = dict(pairs_of("--set", "OPTION=VALUE", settings))
    if mode is not None:
        options["mini_batch_enabled"] = mode == "mini_batch"
    entries["tables"] = tuple(read_table_option(text) for text in tables)
    entries["options"] = options
    entries["args"] = values_of(args) or None
    folder = None if job is None else job.parent
    if job is not None and job.suffix.lower() == ".sql":
        if entries["sql"] is not None:
            raise click.UsageError("the script is the query: leave out --sql")
        entries["sql"] = text = read_text(job)
        if not text.strip():
            raise click.UsageError(f"{job}: the script is empty")
        job = None
    if job is not None:
        draft_job = read_job(job, **entries)
    else:
        draft_job = complete({key: v for key, v in entries.items() if v not in (None, ())}, "run")
    jobs, plans = jobs_of(draft_job, folder)
    for plan in plans:
        click.echo(plan)
    if jobs:
        run_jobs(*jobs)


@main.command()
@checkpoint_options
@debug_option
def state(
    checkpoint: str, keys: tuple[str, ...], limit: int | None, form: Form, **options: Any
) -> None:
    """Show the contents of a checkpoint: operators, sizes and, with --key, the accumulators of a key."""
    put_off_pandas()
    show_state(checkpoint, keys, limit, form, **options)


@main.command()
@checkpoint_options
@debug_option
def why(
    checkpoint: str, keys: tuple[str, ...], limit: int | None, form: Form, **options: Any
) -> None:
    """Replay the changes of a key since the last snapshot, each with the value before and after."""
    put_off_pandas()
    show_why(checkpoint, keys, limit, form, **options)


@main.command()
@click.argument("checkpoint", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option(
    "--partitions", type=click.IntRange(1), required=True, help="The new number of partitions."
)
@debug_option
def repartition(checkpoint: Path, partitions: int) -> None:
    """Rewrite a checkpoint of Spark for another number of shuffle partitions; its query must not be running."""
    from aggloom.runtime.hosting.checkpoint_paths import refuse_repartition

    refuse_repartition(checkpoint)
    from aggloom.runtime.spark.sessions.command_session import session_to_look

    spark = session_to_look("aggloom repartition")
    from aggloom.runtime.spark.watch.repartition import repartition as rewrite

    rewrite(spark, checkpoint.resolve(), partitions)
    click.echo(f"{checkpoint}: the state has {partitions} partitions now")


if __name__ == "__main__":
    main()
