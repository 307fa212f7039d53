"""Options that several commands share, and their values."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from aggloom.codegen.spec.choices import BACKENDS, DIALECTS, TABLE_CHANGES, Dialect, TableChanges
from aggloom.text_file import read_text

if TYPE_CHECKING:
    from aggloom.codegen import AggSpec

Command = TypeVar("Command", bound=Callable[..., object])


class SingleOption(click.Command):
    """A command that refuses an option which is given twice and means one thing: click takes the last."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse as click does, unless an option is doubled."""
        if args and not ctx.resilient_parsing:
            options_in_order = self.make_parser(ctx).parse_args(list(args))[2]
            for option in options_in_order:
                if _is_single(option) and options_in_order.count(option) > 1:
                    ctx.fail(f"{option.opts[0]} is given twice; leave one out")
        return super().parse_args(ctx, args)


def _is_single(option: click.Parameter) -> bool:
    """Tell whether a second value of an option would replace the first."""
    return isinstance(option, click.Option) and not option.multiple and not option.is_flag


def _remember(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    ctx.meta["debug"] = value


def debug_option(command: Command) -> Command:
    """Give a command the switch that turns short messages into tracebacks."""
    switch = click.option(
        "--debug", is_flag=True, expose_value=False, callback=_remember, help="Show tracebacks."
    )
    return switch(command)


trust_option = click.option(
    "--trust", is_flag=True, help="Allow the Python source of functions in the spec to run."
)
trust_checkpoint_option = click.option(
    "--trust", is_flag=True, help="Allow the Python source of functions in the checkpoint to run."
)
form_option = click.option(
    "--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True
)
settings_option = click.option(
    "--set", "settings", multiple=True, help="A planner option: OPTION=VALUE."
)


args_option = click.option(
    "--arg",
    "args",
    multiple=True,
    help="The value of a parameter of the query: NAME=VALUE, for :NAME. Numbers, true, null, dates and lists are what "
    "YAML makes of them; quotes make a text.",
)


def values_of(args: tuple[str, ...]) -> dict[str, Any]:
    """The values of `--arg`, by name."""
    import yaml

    values = {}
    for name, text in pairs_of("--arg", "NAME=VALUE", args).items():
        if not text:
            # YAML reads nothing as null.
            raise click.UsageError(
                f"--arg {name} is empty; write null for NULL, '' for an empty text"
            )
        try:
            values[name] = yaml.safe_load(text)
        except yaml.YAMLError:
            raise click.UsageError(
                f"--arg {name} is {text!r}, which is no YAML; write a text in quotes"
            ) from None
    return values


def spec_options(command: Command) -> Command:
    """Give a command the options that describe a query."""
    options = [
        click.option(
            "--sql", help="A query; for one spec, one SELECT with GROUP BY over one table."
        ),
        click.option("--schema", help='Input columns as DDL: "name STRING, cnt INT".'),
        click.option(
            "--changes",
            type=click.Choice(TABLE_CHANGES),
            default="retract",
            show_default=True,
            help="Whether the input retracts rows, only adds them, or sends upserts by key.",
        ),
        click.option(
            "--yaml",
            "yaml_file",
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
            help="A spec file, instead of --sql and --schema.",
        ),
        trust_option,
        click.option(
            "--backend",
            type=click.Choice(BACKENDS),
            default="numba",
            show_default=True,
            help="Compiled kernels, or plain Python to read and step through.",
        ),
        click.option(
            "--dialect",
            type=click.Choice(DIALECTS),
            default="spark",
            show_default=True,
            help="Whose result types and overflow rules to follow.",
        ),
    ]
    for option in reversed(options):
        command = option(command)
    return debug_option(command)


def build_spec(
    sql: str | None,
    schema: str | None,
    changes: TableChanges,
    yaml_file: Path | None,
    dialect: Dialect,
    trust: bool,
) -> AggSpec:
    """Build the spec that the options describe."""
    from aggloom.codegen import AggSpec

    if yaml_file is not None:
        if sql is not None or schema is not None:
            raise click.UsageError("--yaml already holds the query: leave out --sql and --schema")
        return AggSpec.from_yaml(read_text(yaml_file), trust=trust)
    if sql is None or schema is None:
        raise click.UsageError("a query is --sql with --schema, or --yaml FILE")
    if changes == "upsert":
        raise click.UsageError(
            "--changes upsert: a handler takes changes that are whole; a query over upserts is for `aggloom run`"
        )
    return AggSpec.from_sql(sql, schema, input_changes=changes, dialect=dialect)


def pairs_of(option: str, form: str, texts: tuple[str, ...]) -> dict[str, str]:
    """The names and values of a repeated option."""
    pairs = {}
    for each in texts:
        name, equals, value = (part.strip() for part in each.partition("="))
        if not name or not equals:
            raise click.UsageError(f"{option} is {each!r}; it must be {form}")
        if name in pairs:
            raise click.UsageError(f"{option} names {name!r} twice; leave one out")
        pairs[name] = value
    return pairs


port_option = click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    show_default=True,
    help="The port to listen on; 0 takes a free one.",
)
