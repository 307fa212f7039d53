"""The command `aggloom test`: find test files, run the chosen tests, and show the differences."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from aggloom.codegen.spec.choices import BACKENDS, Backend
from aggloom.errors import AggloomError
from aggloom.options_cli import SingleOption, debug_option

if TYPE_CHECKING:
    from aggloom.testing.file import TestFile
    from aggloom.testing.run import TestOutcome

_SUFFIXES = (".yaml", ".yml")


@click.command("test", cls=SingleOption)
@click.argument("paths", nargs=-1, type=click.Path(exists=True, path_type=Path))
@click.option("-k", "--name", "name_part", help="Run only tests with this text in their names.")
@click.option("-x", "--exitfirst", is_flag=True, help="Stop at the first test that does not pass.")
@click.option("-q", "--quiet", is_flag=True, help="Name only the tests that do not pass.")
@click.option(
    "--backend",
    type=click.Choice(BACKENDS),
    help="Use this backend instead of that of the files (python).",
)
@debug_option
def run_tests(
    paths: tuple[Path, ...],
    name_part: str | None,
    exitfirst: bool,
    quiet: bool,
    backend: Backend | None,
) -> None:
    """Compare results with expected tables, without Spark: the tests in YAML files, or below directories (tests/).

    It ends with 0 if all passed, with 1 if results differ, with 2 if a test could not be run, or none was found.
    """
    from aggloom.testing.file import read_tests

    places = paths or ((Path("tests") if Path("tests").is_dir() else Path()),)
    tally = _Tally(quiet)
    for path in _files(places):
        tally.file(path)
        try:
            file = read_tests(path)
            if backend is not None:
                file = replace(file, job=replace(file.job, backend=backend))
        except AggloomError as error:
            tally.add_failure("", error)
            continue
        for outcome in _outcomes(file, name_part, tally):
            tally.add_outcome(outcome)
            if exitfirst and tally.failed:
                break
        if exitfirst and (tally.failed or tally.errors):
            break
    # Errors have an exit code of their own: a build that cannot run its tests must not look like one whose tests fail.
    sys.exit(tally.end(name_part, places))


def _files(places: tuple[Path, ...]) -> Iterator[Path]:
    """Files that are named, and those below directories that hold tests."""
    from aggloom.testing.file import is_test_file

    for place in places:
        if not place.is_dir():
            yield place
            continue
        for path in sorted(place.rglob("*")):
            hidden = any(part.startswith(".") for part in path.relative_to(place).parts)
            if path.suffix in _SUFFIXES and path.is_file() and not hidden:
                try:
                    holds = is_test_file(path)
                except AggloomError:
                    # It is read again, and then says what is wrong.
                    holds = True
                if holds:
                    yield path
                else:
                    click.echo(f"{path}: there is no `tests` in it; passed over", err=True)


def _outcomes(file: TestFile, name_part: str | None, tally: _Tally) -> Iterator[TestOutcome]:
    from aggloom.testing.run import run_test

    for test in file.tests:
        if name_part is not None and name_part.casefold() not in test.name.casefold():
            tally.left_out += 1
            continue
        try:
            yield run_test(file, test)
        except AggloomError as error:
            tally.add_failure(test.name, error)


class _Tally:
    """The printer of test results as they come, which counts them."""

    def __init__(self, quiet: bool) -> None:
        self.quiet = quiet
        self.passed = self.failed = self.errors = self.left_out = 0
        self._path: Path | None = None

    def file(self, path: Path) -> None:
        """The tests that follow are of this file."""
        self._path = path

    def add_outcome(self, outcome: TestOutcome) -> None:
        """Say how a test ended."""
        if outcome.is_passed:
            self.passed += 1
            if not self.quiet:
                self._line("ok", "green", outcome.test.name)
                self._echo_dropped(outcome)
            return
        self.failed += 1
        self._line("FAIL", "red", outcome.test.name)
        for line in (part for each in outcome.lines for part in each.splitlines()):
            colour = {"-": "red", "+": "green"}.get(line[:1])
            click.echo("        " + click.style(line, fg=colour))
        self._echo_dropped(outcome)

    def add_failure(self, name: str, error: AggloomError) -> None:
        """Say why a test, or a file, could not be run."""
        self.errors += 1
        self._line("ERROR", "red", name)
        for line in str(error).splitlines():
            click.echo(f"        {line}")

    def end(self, name_part: str | None, places: tuple[Path, ...]) -> int:
        """Say how many there were; the exit code."""
        counts = {
            "passed": self.passed,
            "failed": self.failed,
            "could not be run": self.errors,
            "left out": self.left_out,
        }
        parts = [f"{number} {what}" for what, number in counts.items() if number]
        if self.errors or self.failed or self.passed:
            click.echo(", ".join(parts))
            return 2 if self.errors else int(bool(self.failed))
        where = " and ".join(map(str, places))
        named = f" with {name_part!r} in its name" if name_part is not None else ""
        click.echo(f"aggloom: there is no test{named} in {where}", err=True)
        return 2

    def _echo_dropped(self, outcome: TestOutcome) -> None:
        if outcome.dropped:
            click.echo(f"        {outcome.dropped}")

    def _line(self, word: str, colour: str, name: str) -> None:
        if self._path is not None:
            click.echo(str(self._path))
            self._path = None
        click.echo(f"  {click.style(f'{word:<5}', fg=colour)} {name}".rstrip())
