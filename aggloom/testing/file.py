"""A file of tests: its query, and for each test the given and the expected rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from aggloom.errors import CaseFormatError, nearest
from aggloom.job import Job, OnceEach, complete, read_job
from aggloom.tables import TableSource, relative_to, table_source
from aggloom.text_file import read_text

Row = Mapping[str, Any]
_FILE = ("job", "sql", "tables", "dialect", "changes", "options", "backend", "tests")
_TEST = ("name", "description", "into", "given", "expect", "options")
_EXPECT = ("rows", "changes", "error")
STEPS = ("watermark", "clock", "end")
"""Steps that are no rows of a table."""


@dataclass(frozen=True)
class Expected:
    """The result that a test expects: rows of the table, changes, or an error whose message has this text."""

    rows: tuple[Row, ...] | None = None
    changes: tuple[Row, ...] | None = None
    error: str | None = None


@dataclass(frozen=True)
class Test:
    """A test: steps that are fed one after the other, and what is expected then; where: how messages name it.

    into: which query of a script it is about, by the table that it writes.
    """

    # pytest is not to take it for one of its own.
    __test__ = False

    name: str
    where: str
    steps: tuple[Mapping[str, Any], ...]
    expect: Expected
    into: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class TestFile:
    """The tests of a file, and the job that they are about; folder: to what paths in scripts are relative."""

    __test__ = False

    path: Path
    job: Job
    folder: Path
    tests: tuple[Test, ...]


def is_test_file(path: Path) -> bool:
    """Tell whether a YAML file has tests; raises CaseFormatError for a file that is no YAML."""
    content = _content(path)
    return isinstance(content, Mapping) and "tests" in content


def read_tests(path: Path) -> TestFile:
    """The tests of a YAML file; raises CaseFormatError and SpecError with the file and the entry."""
    content = _content(path)
    if not isinstance(content, Mapping):
        raise CaseFormatError(
            f"{path}: a file of tests is a mapping with `job`, or `sql`, and `tests`."
        )
    _check_names(content, _FILE, str(path))
    if "tests" not in content:
        raise CaseFormatError(f"{path}: there is no `tests`.")
    listed = content["tests"]
    if not isinstance(listed, list) or not listed:
        raise CaseFormatError(f"{path}: `tests` must be a list of tests.")
    job, folder = _job(content, path)
    tests = tuple(_test(each, path, number) for number, each in enumerate(listed, 1))
    names = [test.name for test in tests]
    for name in names:
        if names.count(name) > 1:
            raise CaseFormatError(f"{path}: two tests are named {name!r}; rename one.")
    return TestFile(path, job, folder, tests)


def _content(path: Path) -> Any:
    try:
        return yaml.load(read_text(path, CaseFormatError), OnceEach)
    except yaml.YAMLError as error:
        raise CaseFormatError(f"{path}: the file cannot be read: {error}") from None


def _job(content: Mapping[str, Any], path: Path) -> tuple[Job, Path]:
    """The job of a file: of a script, of a job file, or said here."""
    if ("job" in content) == ("sql" in content):
        raise CaseFormatError(f"{path}: give either `job`, a script or a job file, or `sql`.")
    folder = path.parent
    entries: dict[str, Any] = {
        n: content[n] for n in ("dialect", "changes", "options", "backend") if n in content
    }
    # Compiling a handler takes longer than most tests run.
    entries.setdefault("backend", "python")
    tables = _tables(content.get("tables") or {}, path)
    if "sql" in content:
        sql = content["sql"]
    else:
        place = Path(relative_to(folder, str(content["job"])))
        if place.suffix.lower() != ".sql":
            draft = read_job(place, **entries)
            tables_by_name = {table.name: table for table in draft.tables} | {
                t.name: t for t in tables
            }
            return replace(draft, tables=tuple(tables_by_name.values())), place.parent
        sql, folder = read_text(place, CaseFormatError, f"{path}, `job` {place}"), place.parent
    if not isinstance(sql, str):
        raise CaseFormatError(f"{path}: `sql` must be a text.")
    return complete({**entries, "sql": sql, "tables": tables}, str(path)), folder


def _tables(entries: Any, path: Path) -> tuple[TableSource, ...]:
    """The tables of a file: columns by name, or a mapping as in job files, without a path."""
    if not isinstance(entries, Mapping):
        raise CaseFormatError(f"{path}: `tables` must be a mapping of names to columns.")
    tables = []
    for name, about in entries.items():
        settings = {"schema": about} if isinstance(about, str) else about
        where = f"{path}, table {name}"
        if not isinstance(settings, Mapping) or "schema" not in settings:
            raise CaseFormatError(f'{where}: give its columns, as in "name STRING, cnt INT".')
        known = ("schema", "keys", "changes", "watermark")
        _check_names(settings, known, where)
        # A path that nobody reads: rows come from the steps of a test.
        tables.append(table_source(name, {"path": "-", "format": "jsonl", **settings}, where))
    return tuple(tables)


def _test(entries: Any, path: Path, number: int) -> Test:
    where = f"{path}, test {number}"
    if not isinstance(entries, Mapping):
        raise CaseFormatError(f"{where}: a test is a mapping with `name`, `given` and `expect`.")
    name = entries.get("name")
    if not isinstance(name, str) or not name.strip():
        raise CaseFormatError(f"{where}: give it a `name`.")
    # From here on the name tells the place: it survives when tests are moved in the file, and a number does not.
    where = f"{path}: {name}"
    _check_names(entries, _TEST, where)
    for entry in ("given", "expect"):
        if entry not in entries:
            raise CaseFormatError(f"{where}: there is no `{entry}`.")
    # `given:` with nothing behind it is None in YAML, and means no rows.
    steps = entries["given"] or []
    steps = [steps] if isinstance(steps, Mapping) else steps
    if not isinstance(steps, list) or not all(isinstance(step, Mapping) for step in steps):
        raise CaseFormatError(
            f"{where}: `given` must be tables with rows, or a list of such steps."
        )
    options = entries.get("options") or {}
    if not isinstance(options, Mapping):
        raise CaseFormatError(f"{where}: `options` must be a mapping of names to values.")
    expect = _parse_expected(entries["expect"], where)
    return Test(name, where, tuple(steps), expect, entries.get("into"), options)


def _parse_expected(content: Any, where: str) -> Expected:
    if content is None or isinstance(content, list):
        return Expected(_rows(content or [], f"{where}, expect"))
    if not isinstance(content, Mapping) or not content:
        raise CaseFormatError(f"{where}: `expect` must be rows, or one of {', '.join(_EXPECT)}.")
    _check_names(content, _EXPECT, f"{where}, expect")
    error = content.get("error")
    # A query that is refused has no rows; a test that expects both would pass by one of them unseen.
    if error is not None and (not isinstance(error, str) or len(content) > 1):
        raise CaseFormatError(f"{where}: `error` must be a text, alone.")
    entries = {
        entry: _rows(content[entry] or [], f"{where}, {entry}")
        for entry in ("rows", "changes")
        if entry in content
    }
    return Expected(**entries, error=error)


def _rows(content: Any, where: str) -> tuple[Row, ...]:
    if not isinstance(content, list) or not all(isinstance(row, Mapping) for row in content):
        raise CaseFormatError(f"{where}: rows must be a list of mappings of columns to values.")
    return tuple(content)


def _check_names(entries: Mapping[str, Any], known: tuple[str, ...], where: str) -> None:
    for entry in entries:
        if entry not in known:
            raise CaseFormatError(
                f"{where}: there is no entry {entry!r}. {nearest(str(entry), known)}"
            )
