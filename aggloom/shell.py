"""A session of SQL without Spark: tables, views and settings that statements leave behind, and what each one shows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import click

from aggloom.codegen import Statement, read_script, type_name
from aggloom.codegen.planner import PlanOptions
from aggloom.connectors import source_of
from aggloom.display import Form
from aggloom.errors import (
    OptionError,
    SpecError,
    SqlError,
    UnknownTableError,
    UnsupportedExpressionError,
    nearest,
)
from aggloom.job import Job
from aggloom.job_plan import feed_job, plan_of_job
from aggloom.runtime.connectors.registry import destination
from aggloom.script import jobs_of
from aggloom.shell_files import file_table, files_read, is_file_name
from aggloom.shell_result import show_result, sort_rows
from aggloom.shell_shows import show_objects
from aggloom.shell_words import refuse_command
from aggloom.tables import TableSource
from aggloom.terminal_table import show_rows

HELP = """\
SELECT .. ;                        runs a query over all that the files hold, and shows its table
SELECT .. FROM 'orders.csv';       reads a file, a directory or a pattern
EXPLAIN SELECT .. ;                shows its plan
CREATE TABLE t (..) WITH (..);     a table in files, in Flink's words (docs/scripts.md)
CREATE VIEW v AS SELECT .. ;       a query under a name; DROP VIEW, DROP TABLE
CREATE FUNCTION f(x INT) RETURN x + 1;                  an expression under a name
SHOW TABLES; DESCRIBE t;           what there is; VIEWS, FUNCTIONS, COLUMNS FROM t, CREATE TABLE t; \\d, \\d t
SET 'option' = 'value'; SET; RESET;
SET 'sql-client.execution.result-mode' = 'changelog';   shows changes instead of tables
HISTORY; QUIT;                     what was typed; \\s and \\q"""
_NEEDS_SESSION = "give the harness a Spark session."
_SESSION = "start the shell with --session, and a local Spark computes it."
_MODE = "sql-client.execution.result-mode"
_MODES = {"table": False, "tableau": False, "changelog": True}
_QUERIES = ("SELECT", "WITH", "VALUES", "FROM", "(")
_WRITTEN = ("print", "blackhole", "jdbc")
"""Connectors of tables that are not read, or asked alone."""
_INSERTS = ("INSERT", "EXECUTE", "BEGIN")


@dataclass
class Shell:
    """The tables, views and settings that statements have made, and the form of the results.

    job: all other settings of every query: tables in files, options, the dialect. session: a Spark session, for
    expressions that only Spark evaluates. created: the statements that make tables and views, by name (folded). typed:
    the statements so far.
    """

    job: Job
    form: Form = "table"
    changes: bool = False
    folder: Path | None = None
    session: Any = None
    created: dict[str, tuple[str, str]] = field(default_factory=dict)
    functions: dict[str, tuple[str, str]] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)
    typed: list[str] = field(default_factory=list)
    ended: bool = False
    _files: dict[str, TableSource] = field(default_factory=dict)

    def run(self, statement: Statement) -> None:
        """Do what a statement says; raises AggloomError."""
        self.typed.append(statement.text)
        word = statement.words[0].upper().split()[0]
        if word in _QUERIES:
            self._query(statement)
        elif word in _INSERTS:
            self._insert(statement)
        elif word in _COMMANDS:
            _COMMANDS[word](self, statement)
        elif word.startswith("\\"):
            raise refuse_command(statement.words[0])
        else:
            known = [*_QUERIES[:3], "INSERT", *_COMMANDS]
            raise SqlError(
                f"a statement begins with {word}. {nearest(word, known)} HELP; says more"
            )

    def names(self) -> list[str]:
        """The tables and views there are."""
        return sorted([*(table.name for table in self.job.tables), *(n for n, _ in self._texts())])

    def _query(self, statement: Statement) -> None:
        jobs, plans = jobs_of(self._job(statement.text), self.folder, alone=True)
        for plan in plans:
            click.echo(plan)
        for job in jobs:
            self._show(job)

    def _show(self, job: Job) -> None:
        try:
            harness = feed_job(job, ordered=not (self.changes or job.into), session=self.session)
        except UnsupportedExpressionError as error:
            if _NEEDS_SESSION not in str(error):
                raise
            raise type(error)(str(error).replace(_NEEDS_SESSION, _SESSION)) from None
        with harness:
            changes = harness.changes()
            if dropped := harness.counts.describe_dropped(any(t.is_by_time for t in job.tables)):
                click.echo(dropped, err=True)
            if notices := harness.counts.describe_notices():
                click.echo(notices, err=True)
            if job.tables and (empty := harness.counts.describe_empty(False)):
                click.echo(empty, err=True)
            plan = harness.plan
            if self.changes or not (plan.has_old_rows or plan.key):
                show_result(changes.schema, changes, self.form)
                return
            table = harness.table()
            places = [table.columns.index(name) for name in plan.key or ()]
            # By the key first, where it does not come first.
            rows = table if places == sorted(places) else _by(table, places)
            rows = sort_rows(rows, table.columns, plan.order)
            show_result(table.schema, rows, self.form, len(plan.order.hidden))

    def _insert(self, statement: Statement) -> None:
        jobs, _ = jobs_of(self._job(statement.text), self.folder, alone=True)
        for job in jobs:
            kind, _, _ = destination(job.sink)
            if kind not in ("console", "print", "blackhole"):
                raise SpecError(
                    f"INSERT INTO {job.into}: this shell writes only to 'print' and 'blackhole'; `aggloom run` writes, "
                    "with the statement in a script"
                )
            if kind == "blackhole":
                feed_job(job, session=self.session).close()
            else:
                self._show(job)

    def _create(self, statement: Statement) -> None:
        if statement.has_no_effect:
            return self._pass_over(statement)
        if statement.makes_function:
            return self._create_function(statement)
        if statement.fills_table:
            return self._insert(statement)
        name, kind = self._parse_create(statement)
        if name.casefold() in (table.name.casefold() for table in self.job.tables):
            raise SpecError(f"table {name!r} was given with --table; choose another name.")
        before = self.created.pop(name.casefold(), None)
        try:
            # Whatever is wrong with it is said now.
            quoted = f"`{name.replace('`', '``')}`"
            text = f"{statement.text};\nSELECT * FROM {quoted}"
            if kind == "VIEW":
                plan_of_job(jobs_of(self._job(text), self.folder, alone=True)[0][0])
            else:
                self._check_table(text, name)
        except Exception:
            if before is not None:
                self.created[name.casefold()] = before
            raise
        self.created[name.casefold()] = (name, statement.text)
        return None

    def _create_function(self, statement: Statement) -> None:
        name = statement.created_name
        # Whatever is wrong with it is said now.
        read_script(f"{statement.text};\nSELECT 1")
        self.functions[name.casefold()] = (name, statement.text)

    def _check_table(self, text: str, name: str) -> None:
        script = read_script(text)
        if name not in script.lookups and script.created[name].connector not in _WRITTEN:
            source_of(script.created[name], self.folder, self.job.dialect)

    def _parse_create(self, statement: Statement) -> tuple[str, str]:
        """The name and the kind of what CREATE makes."""
        words = [word.upper() for word in statement.words]
        kind = next((word for word in words[1:5] if word in ("TABLE", "VIEW")), None)
        if kind is None:
            raise SqlError("CREATE makes a TABLE or a VIEW here.")
        at = words.index(kind) + 1
        if words[at : at + 3] == ["IF", "NOT", "EXISTS"]:
            at += 3
        # The last part of a name with dots is the table's, as the planner has it.
        while words[at + 1 : at + 2] == ["."]:
            at += 2
        if at >= len(words):
            raise SqlError(f"CREATE {kind} needs a name.")
        # Not of `words`, which are in capitals.
        return statement.words[at], kind

    def _drop(self, statement: Statement) -> None:
        if statement.has_no_effect:
            return self._pass_over(statement)
        kind, name, may_lack = statement.read_drop()
        objects = self.functions if kind == "FUNCTION" else self.created
        if name.casefold() not in objects and not may_lack:
            known = [each for each, _ in objects.values()]
            raise UnknownTableError(
                f"there is no {kind.lower()} {name!r} to drop. {nearest(name, known)}"
            )
        objects.pop(name.casefold(), None)
        return None

    def _pass_over(self, statement: Statement) -> None:
        """Take a statement that has no effect here, of which a note says so."""
        read_script(f"{statement.text}; SELECT 1")

    def _set_option(self, statement: Statement) -> None:
        if len(statement.words) == 1:
            values = {**self.settings, _MODE: "changelog" if self.changes else "table"}
            show_rows(("option", "value"), sorted(values.items()), self.form)
            return
        settings = read_script(f"{statement.text}; SELECT 1").settings
        for name, value in settings.items():
            if name.lower() == _MODE:
                if value.lower() not in _MODES:
                    raise OptionError(f"{name} is {value!r}. {nearest(value, _MODES)}")
                self.changes = _MODES[value.lower()]
                continue
            PlanOptions.of({name: value})
            self.settings[name] = value

    def _reset(self, statement: Statement) -> None:
        names = statement.words[1:] or tuple(self.settings)
        for name in names:
            self.settings.pop(name, None)
        if not statement.words[1:]:
            self.changes = False

    def _list(self, statement: Statement) -> None:
        show_objects(self, " ".join(statement.words[1:]).split())

    def _describe(self, statement: Statement) -> None:
        words = [word for word in statement.words[1:] if word.upper() not in ("TABLE", "EXTENDED")]
        if len(words) != 1:
            raise SqlError("write DESCRIBE name.")
        self.describe(words[0])

    def describe(self, words: str) -> None:
        """Show the columns of a table, a view or a file."""
        name = next((n for n in self.names() if n.casefold() == words.casefold()), None)
        if name is None and is_file_name(words):
            name = words
        if name is None:
            raise _unknown(words, self.names())
        quoted = name.replace("`", "``")
        jobs, _ = jobs_of(self._job(f"SELECT * FROM `{quoted}`"), self.folder, alone=True)
        plan = plan_of_job(jobs[0])
        key = plan.key or ()
        rows = [(f.name, type_name(f.type), "yes" if f.name in key else "no") for f in plan.schema]
        show_rows(("column", "type", "key"), rows, self.form)

    def _list_typed(self, _: Statement) -> None:
        for text in self.typed[:-1]:
            click.echo(text if text.startswith("\\") else f"{text};")

    def _help(self, _: Statement) -> None:
        click.echo(HELP)

    def _quit(self, _: Statement) -> None:
        self.ended = True

    def _texts(self) -> list[tuple[str, str]]:
        return list(self.created.values())

    def _job(self, text: str) -> Job:
        """A statement with all that was said before; it comes first, so that places in it are true."""
        # Tables that only other statements read need not be there.
        creates = [text for _, text in (*self._texts(), *self.functions.values())]
        options = {**self.job.options, **self.settings}
        sql = ";\n".join([text, *creates])
        files = [self._file(name) for name in files_read(sql, self.names())]
        return replace(self.job, sql=sql, tables=(*self.job.tables, *files), options=options)

    def _file(self, name: str) -> TableSource:
        """The table of a file; what is inferred of its columns is printed the first time."""
        if name not in self._files:
            table = file_table(name, self.folder)
            if line := table.describe_inferred():
                click.echo(line, err=True)
            self._files[name] = table
        return self._files[name]


def describe_inferred_tables(tables: Sequence[TableSource]) -> list[str]:
    """Describe the columns of each table that were inferred from its files."""
    return [line for table in tables if (line := table.describe_inferred())]


def _by(rows: Sequence[tuple[Any, ...]], places: list[int]) -> list[tuple[Any, ...]]:
    from aggloom.runtime.values.changelog import sort_key

    return sorted(rows, key=lambda row: [sort_key(row[place]) for place in places])


def _unknown(name: str, known: Sequence[str]) -> UnknownTableError:
    return UnknownTableError(f"there is no table {name!r}. {nearest(name, known)}")


_COMMANDS: dict[str, Callable[[Shell, Statement], None]] = {
    "CREATE": Shell._create,
    "DROP": Shell._drop,
    "SET": Shell._set_option,
    "RESET": Shell._reset,
    "SHOW": Shell._list,
    "DESCRIBE": Shell._describe,
    "DESC": Shell._describe,
    "USE": Shell._pass_over,
    "ADD": Shell._pass_over,
    "REMOVE": Shell._pass_over,
    "LOAD": Shell._pass_over,
    "UNLOAD": Shell._pass_over,
    "ALTER": Shell._pass_over,
    "ANALYZE": Shell._pass_over,
    "CACHE": Shell._pass_over,
    "UNCACHE": Shell._pass_over,
    "REFRESH": Shell._pass_over,
    "EXPLAIN": Shell._query,
    "HISTORY": Shell._list_typed,
    "HELP": Shell._help,
    "QUIT": Shell._quit,
    "EXIT": Shell._quit,
}
