"""The step that asks: rows in, and out either the joined rows or the rows with the list of their answers."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from aggloom.codegen import lower_calc
from aggloom.codegen.planner import Lookup, LookupJoin, LookupQuestion
from aggloom.errors import LookupAnswerError
from aggloom.runtime.lookup.request import Key, Request
from aggloom.runtime.lookup.tables import Answer, open_table, prepare_table
from aggloom.runtime.operators.steps import Rows, has_values
from aggloom.runtime.storage.arena import Array, FlagArray, NumberArray
from aggloom.runtime.values.changelog import is_retraction

_PASSES = pa.schema([("passes", pa.bool_())])
_PAIRS = 131_072
"""Pairs that a condition is tested for at a time: rows with many answers would fill the memory."""


class FoundAnswers(NamedTuple):
    """Answers, one after the other: by answer where its rows begin, how many there are, whether it could not be had."""

    rows: pa.RecordBatch
    starts: Array  # int64[answers]
    counts: Array  # int64[answers]
    unsaid: Array  # bool[answers]


class AnswerPairs(NamedTuple):
    """Rows and their answers: the number of the row, that of the answer among `answers`, -1 where it is padded.

    They are in the order of the rows. left_out: whether a row is left out altogether.
    """

    rows: Array  # int64[pairs]
    places: Array  # int64[pairs]
    answers: pa.RecordBatch
    left_out: Array  # bool[rows]


def prepare_lookup(node: Lookup | LookupJoin, zone: str) -> Lookup | LookupJoin:
    """Return the node with a table whose options are checked; zone: where its times are that name none.

    Raises SpecError for options that the table's files do not have.
    """
    return replace(
        node, question=replace(node.question, table=prepare_table(node.question.table, zone))
    )


def join_answers(node: LookupJoin, rows: Rows) -> Rows:
    """Each row with each of its answers; all rows are insertions, and what stands for their kinds goes along."""
    batch, kinds = rows
    pairs = pair_answers(node.question, batch, np.ones(batch.num_rows, np.bool_))
    return combine_columns(node, batch, pairs), kinds[pairs.rows]


def combine_columns(node: LookupJoin, batch: pa.RecordBatch, pairs: AnswerPairs) -> pa.RecordBatch:
    """The columns of a lookup join for pairs of rows and answers."""
    columns = _take_columns(batch, pairs, node.schema.names)
    return pa.RecordBatch.from_arrays(columns, schema=node.schema)


def attach_lists(node: Lookup, rows: Rows) -> Rows:
    """Each row with the list of its answers; rows that are retracted have none."""
    batch, kinds = rows
    pairs = pair_answers(node.question, batch, ~is_retraction(kinds))
    return with_lists(node, batch, pairs), kinds


def with_lists(node: Lookup, batch: pa.RecordBatch, pairs: AnswerPairs) -> pa.RecordBatch:
    """The columns of a lookup for rows and their answers."""
    counts = np.bincount(pairs.rows, minlength=batch.num_rows)
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    kind = node.schema.types[-1].value_type
    # A struct has to have a field, also where nothing of the answer is read.
    parts = _take_columns(batch, pairs, node.answer.names) or [pa.array(pairs.places >= 0)]
    structs = pa.StructArray.from_arrays(parts, fields=list(kind))
    lists = pa.ListArray.from_arrays(pa.array(offsets), structs)
    own = [batch.column(name) for name in node.order]
    return pa.RecordBatch.from_arrays([*own, lists.cast(node.schema.types[-1])], schema=node.schema)


def pair_answers(question: LookupQuestion, batch: pa.RecordBatch, comes: FlagArray) -> AnswerPairs:
    """The rows that arrive, each with what the table says to it; raises LookupFailedError."""
    numbers = np.flatnonzero(asks(question, batch, comes))
    keys, which = _distinct(question, batch, numbers)
    answers = _Named(question).answers(keys) if keys else []
    return match_answers(
        question, batch, comes, numbers, which, _tabulate_answers(question, answers)
    )


def pair_lists(question: LookupQuestion, batch: pa.RecordBatch, lists: pa.ListArray) -> AnswerPairs:
    """Rows with the lists of answers that an engine has put beside them, NULL for none."""
    numbers = np.flatnonzero(asks(question, batch, np.ones(batch.num_rows, np.bool_)))
    lists = lists.take(pa.array(numbers)).fill_null([])
    counts = np.diff(lists.offsets.to_numpy()).astype(np.int64)
    if question.meets_one and (counts > 1).any():
        row = int(numbers[np.argmax(counts > 1)])
        key = tuple(batch.column(name)[row].as_py() for name in question.keys)
        raise LookupAnswerError(
            f"lookup table {question.name}, key {request_of(question).format_key(key)}: {counts.max()} rows, and "
            f"{', '.join(question.table.key)} is declared to be its key; take the key away, or the rows"
        )
    flat = lists.flatten()
    parts = [c.cast(f.type) for c, f in zip(flat.flatten(), question.answers, strict=False)]
    rows = pa.RecordBatch.from_arrays(parts, schema=question.answers)
    which, none = np.arange(len(numbers)), np.zeros(len(numbers), np.bool_)
    answer_lists = FoundAnswers(rows, np.cumsum(counts) - counts, counts, none)
    return match_answers(
        question, batch, np.ones(batch.num_rows, np.bool_), numbers, which, answer_lists
    )


def asks(question: LookupQuestion, batch: pa.RecordBatch, comes: FlagArray) -> Array:
    """Return which of the rows that arrive ask: those with a key that pass what they have to."""
    # A NULL in a key equals nothing, so the table is not asked.
    asking = comes & has_values(batch, question.keys)
    return asking if question.before is None else asking & _holds(question.before, batch)


def match_answers(
    question: LookupQuestion,
    batch: pa.RecordBatch,
    comes: FlagArray,
    numbers: NumberArray,
    which: NumberArray,
    answers: FoundAnswers,
) -> AnswerPairs:
    """Pairs of rows with those of the answers that pass the condition, rows without any padded if they are to be.

    numbers: the rows that have question. which: of each the place of its answer.
    """
    table, mine = answers.rows, answers.counts[which]
    rows = np.repeat(numbers, mine)
    # Where the answers of a row begin, less the pairs of the rows before it: pairs of a row then count on.
    first = np.repeat(answers.starts[which] - (np.cumsum(mine) - mine), mine)
    places = first + np.arange(len(rows))
    left_out = np.zeros(batch.num_rows, np.bool_)
    left_out[numbers[answers.unsaid[which]]] = True
    if question.condition is not None and len(rows):
        passes = np.concatenate(
            [
                _test_condition(
                    question, batch, table, rows[at : at + _PAIRS], places[at : at + _PAIRS]
                )
                for at in range(0, len(rows), _PAIRS)
            ]
        )
        rows, places = rows[passes], places[passes]
    if question.kind == "left":
        is_paired = np.zeros(batch.num_rows, np.bool_)
        is_paired[rows] = True
        # A row whose answer could not be had is left out: padded, it would look like one without a match.
        alone = np.flatnonzero(comes & ~is_paired & ~left_out)
        rows = np.concatenate([rows, alone])
        places = np.concatenate([places, np.full(len(alone), -1, np.int64)])
        # Stable: the pairs of a row stay in the order of its answers.
        order = np.argsort(rows, kind="stable")
        rows, places = rows[order], places[order]
    return AnswerPairs(rows, places, table, left_out)


def request_of(question: LookupQuestion) -> Request:
    """Return the request of a lookup join to its table. Its columns are read under the names of the joined rows."""
    columns = tuple(right for _, right in question.pairs)
    read = pa.schema([question.table.columns.field(name) for _, name in question.names])
    more = [question.table.columns.field(n) for n in dict.fromkeys(columns) if n not in read.names]
    return Request(
        question.name, question.table, columns, pa.schema([*read, *more]), question.pushed
    )


class _Named:
    """An open table whose rows have the columns that the joined rows read, and no others."""

    def __init__(self, question: LookupQuestion) -> None:
        request = request_of(question)
        self._table, self._width = open_table(request), len(question.names)
        self._is_wider = len(request.read) > self._width

    def answers(self, keys: Sequence[Key]) -> list[Answer]:
        answers = self._table.answers(keys)
        if not self._is_wider:
            return answers
        # Columns that only the key or a pushed condition needs follow the others.
        return [rows and [row[: self._width] for row in rows] for rows in answers]


def _tabulate_answers(question: LookupQuestion, answers: Sequence[Answer]) -> FoundAnswers:
    """Answers as columns."""
    flat = [row for rows in answers for row in rows or ()]
    width = len(question.answers)
    columns = [[row[place] for row in flat] for place in range(width)]
    arrays = [pa.array(v, f.type) for v, f in zip(columns, question.answers, strict=True)]
    counts = np.array([len(rows or ()) for rows in answers], np.int64)
    unsaid = np.array([rows is None for rows in answers], np.bool_)
    table = pa.RecordBatch.from_arrays(arrays, schema=question.answers)
    return FoundAnswers(table, np.cumsum(counts) - counts, counts, unsaid)


def _distinct(
    question: LookupQuestion, batch: pa.RecordBatch, numbers: Array
) -> tuple[list[Key], Array]:
    """The different keys of some rows, as they come, and for each row which it is."""
    picked = pa.array(numbers)
    columns = [batch.column(name).take(picked).to_pylist() for name in question.keys]
    known: dict[Hashable, int] = {}
    keys: list[Key] = []
    which = np.empty(len(numbers), np.int64)
    for place, key in enumerate(zip(*columns, strict=True)):
        # What cannot be hashed (a list, a dict) is known by its text; NaN is the same as itself.
        name: Hashable = key
        try:
            number = known.get(key)
        except TypeError:
            name = repr(key)
            number = known.get(name)
        if number is None:
            number = known[name] = len(keys)
            keys.append(key)
        which[place] = number
    return keys, which


def _test_condition(
    question: LookupQuestion,
    batch: pa.RecordBatch,
    table: pa.RecordBatch,
    rows: Array,
    places: Array,
) -> Array:
    """Tell whether pairs pass the condition."""
    pairs = AnswerPairs(rows, places, table, rows)
    names = [*batch.schema.names, *table.schema.names]
    schema = pa.schema([*batch.schema, *table.schema])
    both = pa.RecordBatch.from_arrays(_take_columns(batch, pairs, names), schema=schema)
    assert question.condition is not None
    return _holds(question.condition, both)


def _holds(condition: str, batch: pa.RecordBatch) -> Array:
    """Tell whether rows pass a condition; NULL is no."""
    calc = lower_calc(None, (("passes", condition),), _PASSES, batch.schema)
    passing, _ = calc.run(batch, np.zeros(batch.num_rows, np.int8))
    flags = pc.fill_null(passing.column(0), False)
    return np.asarray(flags.to_numpy(zero_copy_only=False), np.bool_)


def _take_columns(
    batch: pa.RecordBatch, pairs: AnswerPairs, names: Sequence[str]
) -> list[pa.Array]:
    """Columns of pairs, by name, those of the row and of the answer."""
    own = set(batch.schema.names)
    rows = pa.array(pairs.rows)
    places = pa.array(pairs.places, mask=pairs.places < 0)
    return [
        batch.column(name).take(rows) if name in own else pairs.answers.column(name).take(places)
        for name in names
    ]
