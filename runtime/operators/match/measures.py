"""The values of MEASURES: which row each takes its value from, and aggregates by the generated handler."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from aggloom.runtime.operators.match.search import Matches
from aggloom.runtime.operators.match.settings import MatchSettings, MeasureColumn
from aggloom.runtime.operators.over.sliding import slide
from aggloom.runtime.storage.arena import Array, NumberArray
from aggloom.runtime.values.batches import empty_columns


@dataclass(frozen=True)
class MatchedRows:
    """The rows of matches, one match after the other, and the rows of the result.

    rows: their numbers in the batch; matches, classes: the match and the variable of each. firsts, lasts: by row of the
    result its match's first and the row that it looks back from, as places here; ends: the last of its match.
    floors: by row of the result the first row of its key in the batch.
    """

    batch: pa.RecordBatch
    rows: Array  # int64[matched]
    matches: Array  # int64[matched]
    classes: Array  # int64[matched]
    firsts: Array  # int64[results]
    lasts: Array  # int64[results]
    ends: Array  # int64[results]
    floors: Array  # int64[results]

    @classmethod
    def of(
        cls, batch: pa.RecordBatch, matches: Matches, starts: Array, *, all_rows: bool
    ) -> MatchedRows:
        """The rows of matches; starts: by key its first row (int64[keys]). all_rows: each is a row of the result."""
        ends = np.cumsum(matches.sizes)
        opens = ends - matches.sizes
        match_of_row = np.repeat(np.arange(len(matches.sizes)), matches.sizes)
        # The rows of a match stand side by side in the batch, so the first of them and a distance name each.
        rows = matches.firsts[match_of_row] + np.arange(len(match_of_row)) - opens[match_of_row]
        of_result = match_of_row if all_rows else np.arange(len(matches.sizes))
        last = ends[of_result] - 1
        return cls(
            batch,
            rows,
            match_of_row,
            matches.classes,
            firsts=opens[of_result],
            lasts=np.arange(len(match_of_row)) if all_rows else last,
            ends=last,
            floors=starts[matches.keys[of_result]],
        )

    def belongs(self, variables: tuple[int, ...]) -> Array:
        """Tell whether each row is mapped to one of these variables; none: to any."""
        if not variables:
            return np.ones(len(self.rows), np.bool_)
        return np.isin(self.classes, variables)

    def locate(self, measure: MeasureColumn) -> Array:
        """The number of the row in the batch that each value is of (int64[results]); -1: there is none."""
        lasts = self.ends if measure.final else self.lasts
        flags = self.belongs(measure.variables)
        places = np.flatnonzero(flags)
        # By place the number of such rows before it: two of these bound the rows of any range.
        before = np.r_[0, np.cumsum(flags)]
        least, most = before[self.firsts], before[lasts + 1]
        positions = least + measure.offset
        if measure.function == "LAST":
            positions = most - 1 - measure.offset
        there = (positions >= least) & (positions < most)
        rows = np.full(len(lasts), -1)
        # PREV may leave the match, backwards, and must not reach the rows of another key.
        rows[there] = self.rows[places[positions[there]]] - measure.back
        return np.where(there & (rows >= self.floors), rows, -1)


def measure_columns(
    settings: MatchSettings,
    handler: Any,
    matched: MatchedRows,
    numbers: NumberArray,
    place: Callable[[int], str],
) -> list[pa.Array]:
    """The values of all measures.

    numbers: by row of the result the number of its match among those of its key (int64[results]).

    place: how messages name the key of a match.
    """
    columns: list[Any] = [None] * len(settings.measures)
    aggregates: list[int] = []
    for number, measure in enumerate(settings.measures):
        if measure.function == "MATCH_NUMBER":
            columns[number] = pa.array(numbers)
        elif measure.function == "CLASSIFIER":
            names = pa.array(settings.definition.automaton.variables, pa.string())
            lasts = matched.ends if measure.final else matched.lasts
            columns[number] = names.take(pa.array(matched.classes[lasts]))
        elif measure.function:
            rows = matched.locate(measure)
            column = matched.batch.column(measure.column)
            columns[number] = column.take(pa.array(rows, mask=rows < 0))
        else:
            aggregates.append(number)
    if aggregates:
        results = _add_up(settings, handler, matched, aggregates, place)
        for number, column in zip(aggregates, results, strict=True):
            columns[number] = column
    return columns


def _add_up(
    settings: MatchSettings,
    handler: Any,
    matched: MatchedRows,
    aggregates: list[int],
    place: Callable[[int], str],
) -> list[pa.Array]:
    """The values of the aggregates, by the handler of all of them."""
    batch = _handler_rows(settings, matched, aggregates)
    fields = [settings.fields[number] for number in aggregates]
    count = int(matched.matches[-1]) + 1 if len(matched.matches) else 0
    columns: list[Any] = [None] * len(aggregates)
    # RUNNING and FINAL aggregates end at other rows, so that the handler slides once for each kind there is.
    for final in {settings.measures[number].final for number in aggregates}:
        lasts = matched.ends if final else matched.lasts
        lines = (matched.matches[matched.firsts], matched.firsts, lasts + 1)
        results = slide(handler, batch, count, lines, fields, place)
        for position, number in enumerate(aggregates):
            if settings.measures[number].final == final:
                columns[position] = results[position]
    return columns


def _handler_rows(
    settings: MatchSettings, matched: MatchedRows, aggregates: list[int]
) -> pa.RecordBatch:
    """The columns that the handler reads of the matched rows; its filters say which rows each aggregate reads."""
    rows = pa.array(matched.rows)
    filters = {}
    for position, number in enumerate(aggregates):
        measure = settings.measures[number]
        passes = matched.belongs(measure.variables)
        if measure.filter >= 0:
            own = matched.batch.column(measure.filter).take(rows).fill_null(False)
            passes = passes & own.to_numpy(zero_copy_only=False)
        filters[filter_name(position)] = pa.array(passes)
    schema = settings.spec.handler_schema
    arrays = [
        filters[name] if name in filters else matched.batch.column(name).take(rows)
        for name in schema.names
    ]
    # COUNT(*) reads no column.
    if not arrays:
        return empty_columns(len(rows))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def filter_name(position: int) -> str:
    """The name of the column that says which rows an aggregate reads; no table's column starts so."""
    return f"$rows of {position}"
