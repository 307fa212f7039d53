"""The command `aggloom sql`: statements typed, piped, or from a file, over tables in files, without Spark."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from aggloom.codegen.spec.choices import (
    BACKENDS,
    DIALECTS,
    MODES,
    TABLE_CHANGES,
    Backend,
    Dialect,
    Mode,
    TableChanges,
)
from aggloom.display import FORMS, Form
from aggloom.errors import AggloomError
from aggloom.options_cli import SingleOption, debug_option, pairs_of, settings_option
from aggloom.text_file import read_text

if TYPE_CHECKING:
    from aggloom.codegen import Statement
    from aggloom.shell import Shell

_PROMPT, _MORE = "aggloom> ", "    ...> "
_WORDS = (
    *("SELECT", "FROM", "WHERE", "GROUP BY", "HAVING", "JOIN", "CREATE TABLE", "CREATE VIEW"),
    *("EXPLAIN", "SHOW TABLES", "DESCRIBE", "DROP TABLE", "DROP VIEW", "SET", "RESET", "QUIT"),
    *("ORDER BY", "LIMIT", "HISTORY", "HELP"),
)


@click.command("sql", cls=SingleOption)
@click.argument("script", required=False, type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    *("-c", "--command", "--sql", "text"),
    help="Statements to run, instead of typed or piped ones.",
)
@click.option("--table", "tables", multiple=True, help="A table in files, as in `aggloom run`.")
@click.option("--changes", type=click.Choice(TABLE_CHANGES), default="retract")
@click.option("--dialect", type=click.Choice(DIALECTS), default="spark", show_default=True)
@click.option(
    "--backend",
    type=click.Choice(BACKENDS),
    default="python",
    show_default=True,
    help="numba compiles each new query, which pays from about a million rows.",
)
@click.option("--format", "form", type=click.Choice(FORMS), default="table", show_default=True)
@click.option("--json", is_flag=True, help="The same as --format json.")
@click.option(
    "--mode",
    type=click.Choice(MODES),
    help="One change for a key of the whole input (default), or one for every row.",
)
@click.option(
    "--session", is_flag=True, help="Start a local Spark, for expressions that only it evaluates."
)
@click.option("--changelog", is_flag=True, help="Show the changes of results instead of tables.")
@settings_option
@click.option("--keep-going", is_flag=True, help="Continue after a statement that fails.")
@debug_option
def sql_shell(
    script: Path | None,
    text: str | None,
    tables: tuple[str, ...],
    changes: TableChanges,
    dialect: Dialect,
    backend: Backend,
    form: Form,
    json: bool,
    mode: Mode | None,
    session: bool,
    changelog: bool,
    settings: tuple[str, ...],
    keep_going: bool,
) -> None:
    """Run SQL over tables in files, in this process, without Spark: a prompt, or statements from a pipe or a SCRIPT."""
    if json and form == "csv":
        raise click.UsageError("--json and --format csv are two forms; give one")
    if script is not None and text is not None:
        raise click.UsageError("a SCRIPT and --command are two; give one")
    if script is not None and not script.exists():
        raise click.UsageError(
            f"there is no file {str(script)!r}; statements themselves go after -c"
        )
    # Imported only now: `--help` and wrong options must not wait for Arrow, sqlglot and the generator.
    from aggloom.job import Job, check_names
    from aggloom.shell import Shell, describe_inferred_tables
    from aggloom.shell_words import cut_whole
    from aggloom.tables import read_table_option

    sources = tuple(map(read_table_option, tables))
    check_names(sources, "sql")
    options: dict[str, Any] = dict(pairs_of("--set", "OPTION=VALUE", settings))
    if mode is not None:
        options["mini_batch_enabled"] = mode == "mini_batch"
    job = Job("", sources, changes=changes, dialect=dialect, backend=backend, options=options)
    folder = None if script is None else script.parent
    spark = _start_session() if session else None
    shell = Shell(job, "json" if json else form, changelog, folder, spark)
    for description in describe_inferred_tables(sources):
        click.echo(description, err=True)
    if script is not None:
        text = read_text(script)
    # Only a person gets a prompt. With a pipe, a prompt would be written between the results that a program reads.
    if text is None and sys.stdin.isatty():
        _prompt_statements(shell)
        return
    whole = sys.stdin.read() if text is None else text
    # With --keep-going, too: the output is all there, but a script must see that a statement failed.
    failed = _run(shell, cut_whole(whole), keep_going)
    if failed:
        sys.exit(2)


def _start_session() -> Any:
    from aggloom.runtime.spark.sessions.command_session import session_to_look

    click.echo("starting Spark", err=True)
    return session_to_look("aggloom sql")


def _run(shell: Shell, statements: list[Statement], keep_going: bool) -> int:
    """Run statements one by one; how many failed, of which without keep_going the first ends all."""
    failed = 0
    for statement in statements:
        if shell.ended:
            break
        try:
            shell.run(statement)
        except AggloomError as error:
            if not keep_going:
                raise
            failed += 1
            click.echo(f"aggloom: {error}", err=True)
    return failed


def _prompt_statements(shell: Shell) -> None:
    """Statements from a terminal, until QUIT or the end of the input."""
    click.echo("Statements end with a semicolon. HELP; lists them, QUIT; ends.", err=True)
    history = _enable_editing(shell)
    begun = ""
    while not shell.ended:
        try:
            begun += input(_MORE if begun.strip() else _PROMPT) + "\n"
        except EOFError:
            click.echo()
            break
        except KeyboardInterrupt:
            click.echo()
            begun = ""
            continue
        begun = _answer_text(shell, begun)
    if history is not None:
        _keep(history)


def _answer_text(shell: Shell, begun: str) -> str:
    """Run what is whole of a text, and give back the rest; errors are said, and end nothing."""
    from aggloom.shell_words import cut_typed

    word = begun.strip().upper()
    if word in ("QUIT", "EXIT", "HELP"):
        begun = f"{word};"
    rest = ""
    try:
        statements, rest = cut_typed(begun)
        if statements:
            _remember(begun)
        _run(shell, statements, keep_going=True)
    except KeyboardInterrupt:
        click.echo("aggloom: interrupted", err=True)
    except (AggloomError, OSError) as error:
        click.echo(f"aggloom: {error}", err=True)
    return rest if rest.strip() else ""


def _enable_editing(shell: Shell) -> Path | None:
    """Let lines be edited, completed and remembered, where Python has readline; the file of the history."""
    try:
        import readline
    except ImportError:
        return None

    def complete(begin: str, number: int) -> str | None:
        matches = [
            w for w in (*_WORDS, *shell.names()) if w.casefold().startswith(begin.casefold())
        ]
        return matches[number] if number < len(matches) else None

    readline.set_completer(complete)
    editline = "libedit" in (readline.__doc__ or "")
    readline.parse_and_bind("bind ^I rl_complete" if editline else "tab: complete")
    file = history_file()
    with suppress(OSError):
        readline.read_history_file(file)
    return file


def _remember(text: str) -> None:
    """Make one entry of the history of the lines of a statement, so that one key brings it back whole."""
    readline = sys.modules.get("readline")
    lines = text.splitlines()
    if readline is None or len(lines) < 2:
        return
    last = readline.get_current_history_length()
    for line in reversed(lines):
        if last and readline.get_history_item(last) == line:
            readline.remove_history_item(last - 1)
            last -= 1
    readline.add_history(" ".join(line.strip() for line in lines if line.strip()))


def _keep(history: Path) -> None:
    """Write the history into a file that only the user reads: statements may hold passwords."""
    import readline

    readline.set_history_length(1_000)
    with suppress(OSError):
        history.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        readline.write_history_file(history)
        history.chmod(0o600)


def history_file() -> Path:
    """Return the file that remembers the lines typed."""
    base: Any = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base) / "aggloom" / "sql_history"
