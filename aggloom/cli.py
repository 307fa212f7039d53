"""The command line: `aggloom generate`, `inspect`, `explain`, `run`, `why` and the rest that `aggloom --help` lists.

A typed error is one short message on stderr and exit code 2; `--debug` shows where it came from.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, TypeVar

import click

from aggloom import __version__
from aggloom.codegen import AggSpec, GeneratedSource
from aggloom.errors import AggloomError, SpecError
from aggloom.inspect_cli import Form, checkpoint_options, show_state, show_why
from aggloom.sample_cli import show_sample

Changes = Literal["append", "retract", "upsert"]
Dialect = Literal["spark", "flink"]
Backend = Literal["numba", "python"]
Mode = Literal["mini_batch", "per_record"]
Command = TypeVar("Command", bound=Callable[..., object])


class _Group(click.Group):
    """A group of commands that says what is wrong without a traceback."""

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            click.echo("aggloom: interrupted", err=True)
            ctx.exit(130)
        except Exception as error:
            told = _told(error)
            if told is None or ctx.meta.get("debug"):
                raise
            click.echo(f"aggloom: {told}", err=True)
            ctx.exit(2)


def _told(error: Exception) -> str | None:
    """What is wrong in a few lines; None of what is neither the user's fault nor Spark's, but ours."""
    if isinstance(error, BrokenPipeError):
        # Whoever read what is printed has seen enough; click ends quietly.
        return None
    if isinstance(error, AggloomError | OSError | UnicodeDecodeError):
        return str(error)
    if type(error).__module__.partition(".")[0] in ("pyspark", "py4j"):
        from aggloom.runtime.spark.failures import explained

        return str(explained(error))
    return None


def _remember(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    ctx.meta["debug"] = value


def debug_option(command: Command) -> Command:
    """Give a command the switch that turns short messages into tracebacks."""
    switch = click.option(
        "--debug", is_flag=True, expose_value=False, callback=_remember, help="Show tracebacks."
    )
    return switch(command)


def trust_option() -> Callable[[Command], Command]:
    """The switch by which Python source that comes with a spec may run."""
    return click.option(
        "--trust", is_flag=True, help="Run the Python source of functions that the spec carries."
    )


def spec_options(command: Command) -> Command:
    """Give a command the options that describe a query."""
    options = [
        click.option("--sql", help="One SELECT with GROUP BY over one table."),
        click.option("--schema", help='Input columns as DDL: "name STRING, cnt INT".'),
        click.option(
            "--changes",
            type=click.Choice(["retract", "append", "upsert"]),
            default="retract",
            show_default=True,
            help="Whether the input takes rows back, only adds them, or sends them by key.",
        ),
        click.option(
            "--yaml",
            "yaml_file",
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
            help="A spec file, instead of --sql and --schema.",
        ),
        trust_option(),
        click.option(
            "--backend",
            type=click.Choice(["numba", "python"]),
            default="numba",
            show_default=True,
            help="Compiled kernels, or plain Python to read and step through.",
        ),
        click.option(
            "--dialect",
            type=click.Choice(["spark", "flink"]),
            default="spark",
            show_default=True,
            help="Whose result types and overflow rules to follow.",
        ),
    ]
    for option in reversed(options):
        command = option(command)
    return debug_option(command)


def described(
    sql: str | None,
    schema: str | None,
    changes: Changes,
    yaml_file: Path | None,
    dialect: Dialect,
    trust: bool,
) -> AggSpec:
    """Build the spec that the options describe."""
    if yaml_file is not None:
        if sql is not None or schema is not None:
            raise click.UsageError("--yaml already holds the query: leave out --sql and --schema")
        return AggSpec.from_yaml(yaml_file.read_text(encoding="utf-8"), trust=trust)
    if sql is None or schema is None:
        raise click.UsageError("a query is --sql with --schema, or --yaml FILE")
    if changes == "upsert":
        raise click.UsageError(
            "a single spec has no table with a key; upserts go with explain --table"
        )
    return AggSpec.from_sql(sql, schema, input_changes=changes, dialect=dialect)


@click.group(
    cls=_Group, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(__version__, prog_name="aggloom")
def main() -> None:
    """Streaming aggregates over changes: generate them, read them, run them on Spark."""


@main.command()
@spec_options
@click.option(
    "-o",
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    help="The directory to write into; without it, the per-user cache.",
)
@click.option("--name", help="The module's name, instead of one made of its digest.")
def generate(
    sql: str | None,
    schema: str | None,
    changes: Changes,
    yaml_file: Path | None,
    trust: bool,
    backend: Backend,
    dialect: Dialect,
    output: Path | None,
    name: str | None,
) -> None:
    """Write the handler module of a query and print where it is."""
    spec = described(sql, schema, changes, yaml_file, dialect, trust)
    source = _generate(spec, backend, output, name)
    click.echo(str(source.path))
    click.echo(f"class {source.class_name}, digest {source.digest}, {source.backend}", err=True)
    if source.untrusted:
        names = ", ".join(source.untrusted)
        click.echo(
            f"{names}: not tried whether it compiles, for that runs it; --trust does", err=True
        )


@main.command()
@click.argument(
    "modules", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path)
)
@trust_option()
@debug_option
def refresh(modules: tuple[Path, ...], trust: bool) -> None:
    """Write modules that have a name again, each from its own spec, as after an upgrade."""
    from aggloom.codegen.handler.emit import refresh as write_again

    for module in modules:
        click.echo(str(write_again(module, trust=trust).path))


@main.command()
@click.argument("target", required=False)
@spec_options
@click.option("--plan", is_flag=True, help="Print the layout of the accumulators instead.")
@click.option(
    "-o",
    "--output",
    "directory",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("generated"),
    show_default=True,
    help="The directory in which a digest is looked up first.",
)
def inspect(
    target: str | None,
    sql: str | None,
    schema: str | None,
    changes: Changes,
    yaml_file: Path | None,
    trust: bool,
    backend: Backend,
    dialect: Dialect,
    plan: bool,
    directory: Path,
) -> None:
    """Show the source of a query, of a digest, or of a generated file."""
    spec: AggSpec | None
    if target is None:
        spec = described(sql, schema, changes, yaml_file, dialect, trust)
        text = "" if plan else _generate(spec, backend, None).text
    elif sql is not None or schema is not None or yaml_file is not None:
        raise click.UsageError("name a digest or file, or describe a query, not both")
    else:
        path = _find(target, directory)
        text = path.read_text(encoding="utf-8")
        spec = _spec_of(path) if plan else None
    if plan and spec is not None:
        from aggloom.codegen.handler.plan import plan_of

        click.echo(plan_of(spec).describe())
    else:
        show(text)


@main.command()
@spec_options
@click.option(
    "--table",
    "tables",
    multiple=True,
    help='A table of the query, "name=DDL"; give it once for each, instead of --schema.',
)
@click.option(
    "--set",
    "settings",
    multiple=True,
    help="An option of the planner, NAME=VALUE, by Flink's name or its keyword; may be repeated.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json", "svg"]),
    default="text",
    show_default=True,
    help="A tree with notes, the same as data, or a picture.",
)
def explain(
    sql: str | None,
    schema: str | None,
    changes: Changes,
    yaml_file: Path | None,
    trust: bool,
    backend: Backend,
    dialect: Dialect,
    tables: tuple[str, ...],
    settings: tuple[str, ...],
    form: Literal["text", "json", "svg"],
) -> None:
    """Say what a query becomes: its plan and why, calls and types, a key's state, what is compiled."""
    from aggloom.codegen import explain as explained

    if tables and (sql is None or schema is not None or yaml_file is not None):
        raise click.UsageError("--table goes with --sql, instead of --schema or --yaml")
    query: AggSpec | str
    if sql is None or yaml_file is not None or not (tables or schema is not None):
        query, schema = described(sql, schema, changes, yaml_file, dialect, trust), None
    else:
        query = sql
    text = explained(
        query,
        schema,
        tables=_pairs("--table", '"name=DDL"', tables) or None,
        input_changes=changes,
        dialect=dialect,
        backend=backend,
        format=form,
        options=_pairs("--set", "NAME=VALUE", settings),
    )
    click.echo(text, nl=not text.endswith("\n"))


@main.command()
@click.option("--sql", required=True, help="A query, after SET and CREATE VIEW if it needs them.")
@click.option(
    "--sample",
    "samples",
    multiple=True,
    required=True,
    help="Rows of a table: a Parquet, CSV or JSON lines file, or NAME=FILE for each of several tables.",
)
@click.option("--table", "tables", multiple=True, help='A table\'s types, "name=DDL".')
@click.option("--rows", type=click.IntRange(1), help="The rows of the whole input.")
@click.option("--keys", type=click.IntRange(1), help="The keys that there will be, if you know.")
@click.option("--buckets", type=click.IntRange(1), help="As in group_aggregate.")
@click.option("--set", "settings", multiple=True, help="A planner option: OPTION=VALUE.")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text")
@debug_option
def estimate(
    sql: str,
    samples: tuple[str, ...],
    tables: tuple[str, ...],
    settings: tuple[str, ...],
    form: Literal["text", "json"],
    **sizes: int | None,
) -> None:
    """Say how much a query will remember, from a sample of its rows."""
    from aggloom.sampled import estimated

    options = _pairs("--set", "OPTION=VALUE", settings)
    found = estimated(
        sql, _pairs("--table", '"name=DDL"', tables), samples, options=options, **sizes
    )
    click.echo(found.to_json() if form == "json" else str(found))


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
    help="t=PATH[,format=debezium-json|jsonl|parquet|csv][,schema=DDL][,option=value ...]",
)
@click.option(
    "--sink", help="console (default), table (the folded result), jsonl:PATH, parquet:PATH."
)
@click.option(
    "--checkpoint",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where progress and state are kept; run again with it to go on.",
)
@click.option("--changes", type=click.Choice(["retract", "append", "upsert"]))
@click.option("--backend", type=click.Choice(["numba", "python"]))
@click.option("--dialect", type=click.Choice(["spark", "flink"]))
@click.option(
    "--mode",
    type=click.Choice(["mini_batch", "per_record"]),
    help="One change for a key in a batch (default), or one for every row.",
)
@click.option("--set", "settings", multiple=True, help="A planner option: OPTION=VALUE.")
@click.option("--continuous", is_flag=True, help="Wait for more files instead of stopping.")
@click.option(
    "--json", is_flag=True, help="Say what was counted, and the folded table, as JSON at the end."
)
@debug_option
def run(
    job: Path | None,
    tables: tuple[str, ...],
    mode: Mode | None,
    settings: tuple[str, ...],
    **given: Any,
) -> None:
    """Run a query over files of changes on a local Spark: a job file, or its parts as options."""
    from aggloom.job import complete, read_job
    from aggloom.run import run as run_job
    from aggloom.tables import read_table_option

    options: dict[str, Any] = dict(_pairs("--set", "OPTION=VALUE", settings))
    if mode is not None:
        options["mini_batch_enabled"] = mode == "mini_batch"
    given["tables"] = tuple(read_table_option(text) for text in tables)
    given["options"] = options
    if job is not None:
        run_job(read_job(job, **given))
        return
    run_job(complete({key: v for key, v in given.items() if v not in (None, ())}, "run"))


@main.command()
@checkpoint_options
@debug_option
def state(
    checkpoint: str, keys: tuple[str, ...], limit: int | None, form: Form, **given: Any
) -> None:
    """Show what a checkpoint holds: operators, sizes and, with --key, a key's accumulators."""
    show_state(checkpoint, keys, limit, form, **given)


@main.command()
@checkpoint_options
@debug_option
def why(
    checkpoint: str, keys: tuple[str, ...], limit: int | None, form: Form, **given: Any
) -> None:
    """Replay the changes of a key since the last snapshot, each with the value before and after."""
    show_why(checkpoint, keys, limit, form, **given)


@main.command()
@click.argument("checkpoint", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option(
    "--partitions", type=click.IntRange(1), required=True, help="As many as there will be."
)
@debug_option
def repartition(checkpoint: Path, partitions: int) -> None:
    """Rewrite a checkpoint for another number of shuffle partitions; its query must not be running."""
    from aggloom.runtime.spark import session
    from aggloom.runtime.spark.repartition import repartition as rewrite

    spark = session("aggloom repartition", **{"spark.log.level": "OFF"})
    rewrite(spark, checkpoint.resolve(), partitions)
    click.echo(f"{checkpoint}: the state has {partitions} partitions now")


def _generate(
    spec: AggSpec, backend: Backend, directory: Path | None, name: str | None = None
) -> GeneratedSource:
    from aggloom.codegen import generate as emit

    return emit(spec, backend=backend, directory=directory, name=name)


def _pairs(option: str, form: str, given: tuple[str, ...]) -> dict[str, str]:
    """The names and values of a repeated option."""
    pairs = {}
    for each in given:
        name, equals, value = (part.strip() for part in each.partition("="))
        if not name or not equals:
            raise click.UsageError(f"{option} is {each!r}; it must be {form}")
        if name in pairs:
            raise click.UsageError(f"{option} names {name!r} twice; leave one out")
        pairs[name] = value
    return pairs


def _find(target: str, directory: Path) -> Path:
    """Resolve a file name or a digest to a generated module."""
    if Path(target).is_file():
        return Path(target)
    from aggloom.codegen.handler.emit import cache_directory

    places = [directory, cache_directory()]
    found = [path for place in places for path in sorted(place.glob(f"*{target}*.py"))]
    if not found:
        looked = " and ".join(str(place) for place in places)
        raise SpecError(
            f"inspect: no file {target!r}, and no module with that digest in {looked}.\n"
            "Describe the query with --sql and --schema to generate it."
        )
    return found[0]


def _spec_of(path: Path) -> AggSpec:
    from aggloom.codegen.handler.emit import stated_spec

    return stated_spec(path)


def show(text: str) -> None:
    """Print Python source, in colours when a person is looking."""
    if sys.stdout.isatty():
        from rich.console import Console
        from rich.syntax import Syntax

        Console().print(Syntax(text, "python", background_color="default", word_wrap=True))
    else:
        click.echo(text, nl=not text.endswith("\n"))


if __name__ == "__main__":
    main()
