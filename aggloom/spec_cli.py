"""The commands about one query: `aggloom generate`, `refresh`, `inspect`, `explain`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from aggloom.codegen.spec.choices import Backend, Dialect, TableChanges
from aggloom.errors import SpecError
from aggloom.options_cli import (
    SingleOption,
    build_spec,
    debug_option,
    pairs_of,
    spec_options,
    trust_option,
)
from aggloom.text_file import read_text

if TYPE_CHECKING:
    from aggloom.codegen import AggSpec, GeneratedSource


@click.command(cls=SingleOption)
@spec_options
@click.option(
    "-o",
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    help="The directory to write into; without it, the per-user cache.",
)
@click.option("--name", help="The name of the module; by default it follows from the digest.")
def generate(
    sql: str | None,
    schema: str | None,
    changes: TableChanges,
    yaml_file: Path | None,
    trust: bool,
    backend: Backend,
    dialect: Dialect,
    output: Path | None,
    name: str | None,
) -> None:
    """Write the handler module of a query and print where it is."""
    spec = build_spec(sql, schema, changes, yaml_file, dialect, trust)
    source = _generate(spec, backend, output, name)
    click.echo(str(source.path))
    click.echo(f"class {source.class_name}, digest {source.digest}, {source.backend}", err=True)
    if source.untrusted:
        names = ", ".join(source.untrusted)
        click.echo(
            f"{names}: not tried whether it compiles, for that runs it; --trust does", err=True
        )


@click.command(cls=SingleOption)
@click.argument(
    "modules", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path)
)
@trust_option
@debug_option
def refresh(modules: tuple[Path, ...], trust: bool) -> None:
    """Write modules that have a name again, each from its own spec, as after an upgrade."""
    from aggloom.codegen.handler.emit import refresh as write_again

    for module in modules:
        click.echo(str(write_again(module, trust=trust).path))


@click.command(cls=SingleOption)
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
    changes: TableChanges,
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
        spec = build_spec(sql, schema, changes, yaml_file, dialect, trust)
        text = "" if plan else _generate(spec, backend, None).text
    elif sql is not None or schema is not None or yaml_file is not None:
        raise click.UsageError("name a digest or file, or describe a query, not both")
    else:
        path = _find(target, directory)
        text = read_text(path)
        spec = _spec_of(path) if plan else None
    if plan and spec is not None:
        from aggloom.codegen.handler.plan import plan_of

        click.echo(plan_of(spec).describe())
    else:
        show(text)


@click.command(cls=SingleOption)
@spec_options
@click.option(
    "--table",
    "tables",
    multiple=True,
    help='A table of the query, "name=DDL" or name=PATH; give it once for each, instead of --schema.',
)
@click.option(
    "--watermark",
    "watermarks",
    multiple=True,
    help='The column that a table\'s watermark goes by, "name=column"; may be repeated.',
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
    type=click.Choice(["text", "flink", "source", "json", "svg"]),
    default="text",
    show_default=True,
    help="A tree with notes, the sections of Flink's EXPLAIN, the generated modules, data, or a picture.",
)
def explain(
    sql: str | None,
    schema: str | None,
    changes: TableChanges,
    yaml_file: Path | None,
    trust: bool,
    backend: Backend,
    dialect: Dialect,
    tables: tuple[str, ...],
    watermarks: tuple[str, ...],
    settings: tuple[str, ...],
    form: Literal["text", "flink", "source", "json", "svg"],
) -> None:
    """Explain the plan of a query: its reasons, calls and types, the state of a key, the compiled kernels."""
    from aggloom.codegen import explain as explained

    if tables and (sql is None or schema is not None or yaml_file is not None):
        raise click.UsageError("--table goes with --sql, instead of --schema or --yaml")
    query: AggSpec | str
    if sql is None or yaml_file is not None or not (tables or schema is not None):
        # A spec has its schema. Given beside it, `explain` would take it for the tables of a query.
        query, schema = build_spec(sql, schema, changes, yaml_file, dialect, trust), None
    else:
        query = sql
    schemas, kinds = _tables(tables, changes)
    text = explained(
        query,
        schema,
        tables=schemas or None,
        input_changes=kinds or changes,
        dialect=dialect,
        backend=backend,
        format=form,
        watermarks=pairs_of("--watermark", '"name=column"', watermarks) or None,
        options=pairs_of("--set", "NAME=VALUE", settings),
    )
    click.echo(text, nl=not text.endswith("\n"))


def _tables(
    tables: tuple[str, ...], changes: TableChanges
) -> tuple[dict[str, Any], dict[str, TableChanges]]:
    """The columns of each table of --table, and the kinds of changes that it sends: by its DDL, or by its files."""
    from aggloom.tables import read_table_option

    schemas: dict[str, Any] = dict(pairs_of("--table", '"name=DDL"', tables))
    kinds: dict[str, Any] = dict.fromkeys(schemas, changes)
    for name, text in schemas.items():
        if _is_path(text):
            table = read_table_option(f"{name}={text}")
            schemas[name], kinds[name] = table.columns(), table.sends or changes
    return schemas, kinds


def _is_path(text: str) -> bool:
    """Return whether --table names files: DDL has a type after the name of its first column."""
    first = text.partition(",")[0].strip()
    # A path may have blanks, too, so the file itself is asked for first.
    return Path(first).exists() or (len(first.split()) == 1 and ("." in first or "/" in first))


def _generate(
    spec: AggSpec, backend: Backend, directory: Path | None, name: str | None = None
) -> GeneratedSource:
    from aggloom.codegen import generate as emit

    return emit(spec, backend=backend, directory=directory, name=name)


def _find(target: str, directory: Path) -> Path:
    """Resolve a file name or a digest to a generated module."""
    if Path(target).is_file():
        return Path(target)
    from aggloom.private_directory import cache_directory

    # The given directory first: what was generated there is what its user means, also where the cache has the same
    # digest.
    places = [directory, cache_directory()]
    matches = [path for place in places for path in sorted(place.glob(f"*{target}*.py"))]
    if not matches:
        looked = " and ".join(str(place) for place in places)
        raise SpecError(
            f"inspect: no file {target!r}, and no module with that digest in {looked}.\n"
            "Describe the query with --sql and --schema to generate it."
        )
    return matches[0]


def _spec_of(path: Path) -> AggSpec:
    from aggloom.codegen.handler.emit import stated_spec

    return stated_spec(path)


def show(text: str) -> None:
    """Print Python source, in colours when a person is looking."""
    # Colours are control characters, which would be in the file of `inspect > handler.py`.
    if sys.stdout.isatty():
        from rich.console import Console
        from rich.syntax import Syntax

        Console().print(Syntax(text, "python", background_color="default", word_wrap=True))
    else:
        click.echo(text, nl=not text.endswith("\n"))
