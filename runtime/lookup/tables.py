"""Lookup tables of a process: each is opened when it is first asked, and asked through its cache."""

from __future__ import annotations

import atexit
import logging
import os
from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from aggloom.codegen import Database, Files, Function, GivenRows, LookupTable
from aggloom.errors import AggloomError, LookupAnswerError, LookupFailedError
from aggloom.masking import mask_secrets
from aggloom.runtime.connectors.database.lookup import DatabaseSource
from aggloom.runtime.connectors.files.lookup import FileSource, prepare_files
from aggloom.runtime.lookup.cache import Partial, Whole
from aggloom.runtime.lookup.function import FunctionSource
from aggloom.runtime.lookup.memory_rows import GivenSource
from aggloom.runtime.lookup.request import (
    Asked,
    Key,
    LookupSource,
    Outcome,
    ReadWhole,
    Request,
    Row,
    Times,
)
from aggloom.runtime.lookup.rows import fit_rows, shaped_row

SOURCES: dict[type[Any], Callable[[Request], LookupSource]] = {
    GivenRows: GivenSource,
    Files: FileSource,
    Database: DatabaseSource,
    Function: FunctionSource,
}
"""The one list of sources."""

_LOG = logging.getLogger("aggloom.lookup")
_MOST = 64
Answer = list[Row] | None
"""The rows of a key; None if the table could not be asked, and rows that ask are to be left out."""


def prepare_table(table: LookupTable, zone: str) -> LookupTable:
    """Return a table with its options checked, and with the zone of times that name none; raises SpecError."""
    return prepare_files(table, zone) if isinstance(table.source, Files) else table


class OpenTable:
    """A table as one query asks it. counters: what it has counted, by name."""

    def __init__(self, request: Request, times: Times | None = None) -> None:
        self.request, self.times = request, times or Times()
        self.counters: Counter[str] = Counter()
        table = request.table
        self._source = SOURCES[type(table.source)](request)
        self._asking = table.asking
        self._places = [request.read.names.index(name) for name in request.key_columns]
        # Unique only if all columns of the key are asked by: a part of a key may have several rows.
        self._is_unique = bool(table.key) and set(table.key) <= set(request.key_columns)
        cache_settings = table.cache
        self._partial = (
            Partial(cache_settings, self.times) if cache_settings.kind == "partial" else None
        )
        self._whole = (
            Whole(cache_settings, self.times, self._all, self._key)
            if cache_settings.kind == "full"
            else None
        )

    def answers(self, keys: Sequence[Key]) -> list[Answer]:
        """The rows of each key, no two of which are the same; raises LookupFailedError."""
        self.counters["lookups"] += len(keys)
        if self._whole is not None:
            return self._from_whole(keys)
        answers: dict[Key, Answer] = {}
        if self._partial is not None:
            answers = {key: rows for key in keys if (rows := self._partial.get(key)) is not None}
            self.counters["lookup_cache_hits"] += len(answers)
        left = [key for key in keys if key not in answers]
        if left:
            answers |= self._ask_source(left)
        return [answers[key] for key in keys]

    def close(self) -> None:
        """Give back what the source holds."""
        self._source.close()

    def _from_whole(self, keys: Sequence[Key]) -> list[Answer]:
        assert self._whole is not None
        error: Exception | None = None
        for attempt in range(self._asking.attempts):
            if attempt:
                self.times.sleep(self._asking.delay / 1000)
            try:
                self._whole.refresh()
            except Exception as failure:
                error = failure
            else:
                return [self._once(key, self._whole.get(key)) for key in keys]
        assert error is not None
        return [self._answer_failure(key, error) for key in keys]

    def _ask_source(self, keys: list[Key]) -> dict[Key, Answer]:
        """The answers of the source: what fails and what finds nothing is asked again as often as is said."""
        outcomes: dict[Key, Outcome] = {}
        self._ask(keys, outcomes)
        asking = self._asking
        # Failures first: a key that could not be asked may still turn out to be missing.
        self._again(outcomes, _is_failure, asking.attempts, asking.delay)
        self._again(outcomes, _is_miss, asking.misses, asking.miss_delay)
        answers: dict[Key, Answer] = {}
        for key, outcome in outcomes.items():
            if isinstance(outcome, Exception):
                answers[key] = self._answer_failure(key, outcome)
                continue
            rows = self._once(key, list(outcome))
            answers[key] = rows
            if self._partial is not None:
                self._partial.put(key, rows)
        return answers

    def _again(
        self,
        outcomes: dict[Key, Outcome],
        is_poor: Callable[[Outcome], bool],
        attempts: int,
        delay: int,
    ) -> None:
        """Ask once more for the keys whose outcomes are poor, until none is or it was often enough."""
        for _ in range(attempts - 1):
            keys = [key for key, outcome in outcomes.items() if is_poor(outcome)]
            if not keys:
                return
            self.times.sleep(delay / 1000)
            self.counters["lookup_retries"] += len(keys)
            self._ask(keys, outcomes)

    def _ask(self, keys: list[Key], outcomes: dict[Key, Outcome]) -> None:
        """Ask the source, and bring rows into the table's types."""
        # One call for all keys, so that a source can ask in one statement.
        assert isinstance(self._source, Asked)
        answer = self._source.ask(keys)
        outcomes.update(zip(keys, answer, strict=True))
        answered = [
            (key, rows)
            for key, rows in zip(keys, answer, strict=True)
            if not isinstance(rows, Exception) and rows
        ]
        try:
            outcomes.update(self._fit_answers(answered))
        except LookupAnswerError:
            # Taken one by one, they say which key it is of.
            for key, rows in answered:
                outcomes[key] = self._fitted_alone(key, rows)

    def _fit_answers(self, answered: list[tuple[Key, Sequence[Any]]]) -> dict[Key, Outcome]:
        """The rows of answers in the table's types; raises LookupAnswerError."""
        shaped = [shaped_row(self.request, row, key) for key, rows in answered for row in rows]
        values = iter(fit_rows(self.request, shaped, None))
        fitted: dict[Key, Outcome] = {}
        for key, rows in answered:
            fitted[key] = mine = [next(values) for _ in rows]
            # Answers are joined by the key that was asked, so a row of another key would join wrongly.
            other = next((row for row in mine if self._key(row) != key), None)
            if other is not None:
                raise LookupAnswerError(
                    f"lookup table {self.request.name}, key {self.request.format_key(key)}: a row of the answer has "
                    f"{self.request.format_key(self._key(other))}; give rows of the key that is asked for"
                )
        return fitted

    def _fitted_alone(self, key: Key, rows: Sequence[Any]) -> Outcome:
        try:
            fit_rows(self.request, [shaped_row(self.request, row, key) for row in rows], key)
            return self._fit_answers([(key, rows)])[key]
        except LookupAnswerError as error:
            return error

    def _once(self, key: Key, rows: list[Row]) -> list[Row]:
        """The rows of a key; raises LookupAnswerError if there are several of a key that is declared to be unique."""
        if self._is_unique and len(rows) > 1:
            raise LookupAnswerError(
                f"lookup table {self.request.name}, key {self.request.format_key(key)}: {len(rows)} rows, and "
                f"{', '.join(self.request.table.key)} is declared to be its key; take the key away, or the rows"
            )
        return rows

    def _answer_failure(self, key: Key, error: Exception) -> Answer:
        """Return the stand-in for the answer to a key that could not be had."""
        if isinstance(error, LookupAnswerError):
            raise error
        name, policy = self.request.name, self._asking.on_error
        if policy == "fail":
            message = str(error).strip() or "no reason"
            kind = "" if isinstance(error, AggloomError) else f"{type(error).__name__}: "
            raise LookupFailedError(
                f"lookup table {name}, key {self.request.format_key(key)}: {kind}{message}. "
                "Set attempts and delay to ask again, or on_error='null' or 'skip' to go on without an answer"
            ) from error
        self.counters[f"lookup_errors_{policy}"] += 1
        number = self.counters[f"lookup_errors_{policy}"]
        # The first, the second, the fourth and so on: a table that is away must not fill the log.
        if number & (number - 1) == 0:
            what = "goes on without an answer" if policy == "null" else "is left out"
            _LOG.warning(
                "lookup table %s, key %s: %s; the row %s (%d so far)",
                *(name, self.request.format_key(key), mask_secrets(repr(error)), what, number),
            )
        return [] if policy == "null" else None

    def _all(self) -> list[Row]:
        assert isinstance(self._source, ReadWhole)
        self.counters["lookup_table_reads"] += 1
        rows = [shaped_row(self.request, row, None) for row in self._source.read()]
        return fit_rows(self.request, rows, None)

    def _key(self, row: Row) -> Key:
        return tuple(row[place] for place in self._places)


def _is_failure(outcome: Outcome) -> bool:
    # What is no answer at all will not be one when it is asked for again.
    return isinstance(outcome, Exception) and not isinstance(outcome, LookupAnswerError)


def _is_miss(outcome: Outcome) -> bool:
    return not isinstance(outcome, Exception) and not outcome


_open: OrderedDict[Any, OpenTable] = OrderedDict()
_process: list[int] = []


def open_table(request: Request) -> OpenTable:
    """A table of this process; those that were not asked for longest are closed."""
    if _process != [os.getpid()]:
        # Connections and threads of the process that this one was forked from are not its own.
        _open.clear()
        _process[:] = [os.getpid()]
    # The settings are a part of it: a hint may say others.
    known = (request.table.identity, request.name, request.key_columns, tuple(request.read.names))
    known = (*known, request.pushed, request.table.asking)  # type: ignore[assignment]
    if known not in _open:
        _open[known] = OpenTable(request)
        while len(_open) > _MOST:
            _open.popitem(last=False)[1].close()
    _open.move_to_end(known)
    return _open[known]


def close_all() -> None:
    """Close the tables of this process."""
    while _process == [os.getpid()] and _open:
        with suppress(Exception):
            _open.popitem()[1].close()


atexit.register(close_all)
