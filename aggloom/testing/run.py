"""The run of a test: feed the given rows step by step, and compare the result with the expected rows."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from aggloom.errors import (
    AggloomError,
    CaseFormatError,
    DataError,
    SpecError,
    UnknownColumnError,
    nearest,
)
from aggloom.job import Job
from aggloom.job_plan import end_input, feed_table, harness_of
from aggloom.runtime.values.changelog import CHANGE_COLUMNS, KIND_NAMES, spellings
from aggloom.script import jobs_of
from aggloom.tables import relative_to, table_source
from aggloom.testing.diff import difference
from aggloom.testing.file import STEPS, Row, Test, TestFile
from aggloom.testing.values import value_of

if TYPE_CHECKING:
    from aggloom.runtime.local.harness import Harness

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_KINDS = {word: kind for number, kind in enumerate(KIND_NAMES) for word in spellings(number)}


@dataclass(frozen=True)
class TestOutcome:
    """The result of a test: lines that tell how it differs from the expected one; without lines it does not."""

    test: Test
    lines: tuple[str, ...] = ()
    dropped: str = ""
    """Rows that did not reach the result, in a line; empty: there are none."""

    @property
    def is_passed(self) -> bool:
        """True if the result is as expected."""
        return not self.lines


def run_test(file: TestFile, test: Test) -> TestOutcome:
    """Run a test of a file. Raises CaseFormatError, SpecError and their kin for a test that cannot be run."""
    expect = test.expect
    if expect.error is None:
        return _run(file, test)
    try:
        _run(file, test)
    # A test that is written wrongly must not pass because its message has the expected text in it.
    except CaseFormatError:
        raise
    except AggloomError as error:
        if expect.error in str(error):
            return TestOutcome(test)
        return TestOutcome(test, (f"expected an error with {expect.error!r}; it was:", str(error)))
    return TestOutcome(test, (f"expected an error with {expect.error!r}; there was none",))


def _run(file: TestFile, test: Test) -> TestOutcome:
    job = _job(file, test)
    with harness_of(job) as harness:
        ends = True
        for step in test.steps:
            for name, content in step.items():
                # Who moves the watermark by hand tests what has happened by then; else the input ends, and all windows
                # close.
                ends &= not (name in ("watermark", "end") and name not in harness.plan.scans)
                _step(harness, name, content, file.path.parent, test.where)
            harness.flush()
        if ends:
            end_input(harness, job)
        dropped = harness.counts.describe_dropped(by_time=False)
        return TestOutcome(test, tuple(_compare_result(harness, test)), dropped)


def _job(file: TestFile, test: Test) -> Job:
    """The query that a test is about; raises CaseFormatError where that is not clear."""
    # The options of a test go over those of its file, one by one.
    job = replace(file.job, options={**file.job.options, **test.options})
    jobs, _ = jobs_of(job, file.folder, alone=True)
    if not jobs:
        raise CaseFormatError(f"{test.where}: there is no query, but EXPLAIN.")
    if test.into is None:
        if len(jobs) > 1:
            names = ", ".join(each.into for each in jobs)
            raise CaseFormatError(
                f"{test.where}: there are {len(jobs)} queries; say which by its table: `into`, one of {names}."
            )
        return jobs[0]
    for each in jobs:
        if each.into.casefold() == test.into.casefold():
            return each
    hint = nearest(test.into, [each.into for each in jobs if each.into])
    raise CaseFormatError(f"{test.where}: no query goes into {test.into!r}. {hint}")


def _step(harness: Harness, name: str, content: Any, folder: Path, where: str) -> None:
    scans = harness.plan.scans
    # Tables first: one may be called `end` or `clock`.
    same = next((each for each in scans if each.casefold() == str(name).casefold()), None)
    if same is not None:
        _feed_rows(harness, same, content, folder, f"{where}, given {name}")
    elif name == "watermark":
        marks = content if isinstance(content, Mapping) else {None: content}
        for table, time in marks.items():
            harness.watermark(_milliseconds(time, f"{where}, watermark"), table)
    elif name == "clock":
        harness.processing_time(_milliseconds(content, f"{where}, clock"))
    elif name == "end":
        harness.end_of_input()
    else:
        known = [*scans, *STEPS]
        raise SpecError(f"{where}: the query reads no table {name!r}. {nearest(str(name), known)}")


def _feed_rows(harness: Harness, name: str, content: Any, folder: Path, where: str) -> None:
    if isinstance(content, Mapping):
        settings = dict(content)
        if "file" not in settings:
            raise CaseFormatError(f"{where}: give rows, or a mapping with `file`.")
        path = relative_to(folder, str(settings.pop("file")))
        feed_table(harness, table_source(name, {"path": path, **settings}, where))
        return
    # A table with nothing behind it is None in YAML, and means no rows.
    if not isinstance(content or [], list):
        raise CaseFormatError(f"{where}: give a list of rows, or a mapping with `file`.")
    schema = harness.plan.scans[name].schema
    rows = [_parse_row(row, schema, f"{where}, row {n}") for n, row in enumerate(content or [], 1)]
    try:
        harness.process(rows, table=name)
    except DataError as error:
        raise type(error)(f"{where}: {error}") from None


def _parse_row(row: Any, schema: pa.Schema, where: str) -> tuple[Any, ...]:
    """A row with its kind; columns that it does not say are NULL."""
    if not isinstance(row, Mapping):
        raise CaseFormatError(f"{where} is no mapping of columns to values.")
    kind, values = _kind_of(row, schema, where)
    for name in values:
        _check_column(name, schema, where)
    example = (
        value_of(values.get(each.name), each.type, f"{where}: column {each.name!r}")
        for each in schema
    )
    return (kind, *example)


def _kind_of(row: Row, schema: pa.Schema, where: str) -> tuple[str, dict[str, Any]]:
    """The kind of change that a row says, and its columns."""
    rest = dict(row)
    # `op` before `_change_type`, unless the table has a column of that name.
    for name in reversed(CHANGE_COLUMNS.values()):
        if name in rest and name not in schema.names:
            word = rest.pop(name)
            if word not in _KINDS:
                raise SpecError(f"{where}: {name} is {word!r}. {nearest(str(word), _KINDS)}")
            return _KINDS[word], rest
    return KIND_NAMES[0], rest


def _check_column(name: Any, schema: pa.Schema, where: str) -> None:
    if name not in schema.names:
        hint = nearest(str(name), schema.names)
        raise UnknownColumnError(f"{where}: there is no column {name!r}. {hint}")


def _milliseconds(value: Any, where: str) -> int:
    """A time as milliseconds: a number of them, or a time, in UTC where it names no zone."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    moment: dt.datetime = value_of(value, pa.timestamp("us", "UTC"), where)
    if moment is None:
        raise CaseFormatError(f"{where}: give a time.")
    return (moment - _EPOCH) // dt.timedelta(milliseconds=1)


def _compare_result(harness: Harness, test: Test) -> list[str]:
    lines: list[str] = []
    expect, schema = test.expect, harness.plan.schema
    if expect.changes is not None:
        changes = harness.changes()
        messages = [
            _change(row, schema, f"{test.where}, changes, row {n}")
            for n, row in enumerate(expect.changes, 1)
        ]
        lines += _compare_rows(messages, changes, changes.schema, (), f"{test.where}, changes")
    if expect.rows is not None:
        table = harness.table()
        where = f"{test.where}, expect"
        lines += _compare_rows(list(expect.rows), table, schema, harness.plan.key or (), where)
    return lines


def _change(row: Row, schema: pa.Schema, where: str) -> Row:
    kind, values = _kind_of(row, schema, where)
    return {_OP: kind, **values}


_OP = "\0kind"


def _compare_rows(
    rows: Sequence[Row],
    actual: Sequence[tuple[Any, ...]],
    schema: pa.Schema,
    key: Sequence[str],
    where: str,
) -> list[str]:
    """Compare rows with the expected ones in the columns that these name; return the differences as lines."""
    kind: str = schema.names[0]
    named = [{kind if n == _OP else n: value for n, value in row.items()} for row in rows]
    names: list[str] = list(dict.fromkeys(n for row in named for n in row)) or schema.names
    for name in names:
        _check_column(name, schema, where)
    for number, row in enumerate(named, 1):
        for name in names:
            if name not in row:
                raise CaseFormatError(
                    f"{where}, row {number} does not say {name!r}, as others do; write {name}: null if it is NULL."
                )
    # In the order of the result.
    names = [name for name in schema.names if name in names]
    kinds = [schema.field(name).type for name in names]
    expected = [
        tuple(
            value_of(row[name], each, f"{where}, row {number}: column {name!r}")
            for name, each in zip(names, kinds, strict=True)
        )
        for number, row in enumerate(named, 1)
    ]
    places = [schema.names.index(name) for name in names]
    there = [tuple(row[place] for place in places) for row in actual]
    # Without all of its key's columns two rows cannot be known as one that differs.
    whole = key if set(key) <= set(names) else ()
    return difference(names, expected, there, whole)
