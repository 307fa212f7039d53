"""Parts of the tests of lake sinks: batches, a plain model of the table, faults at every step of a write."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from aggloom.errors import AggloomError
from aggloom.runtime.lakes.pieces import Lake, Piece
from aggloom.runtime.lakes.sink import Conflict, LakeSink

SCHEMA = pa.schema([("k", pa.int64()), ("f", pa.float64()), ("v", pa.string())])
WORDS = {"+I": 0, "-U": 1, "+U": 2, "-D": 3}
SHORT = dict(zip(("insert", "update_preimage", "update_postimage", "delete"), WORDS, strict=True))
"""Short words for those of a column."""
Row = tuple[Any, ...]
Changes = list[tuple[str, Row]]


def batch(changes: Iterable[tuple[str, Row]], schema: pa.Schema = SCHEMA) -> tuple[pa.Table, Any]:
    """A table of changes, and their kinds."""
    listed = list(changes)
    columns = list(zip(*(row for _, row in listed), strict=True)) or [()] * len(schema)
    arrays = [pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)]
    kinds = np.array([WORDS[word] for word, _ in listed], np.int8)
    return pa.table(arrays, schema=schema), kinds


def random_batches(seed: int, count: int) -> Iterator[tuple[Changes, list[Row]]]:
    """Batches of changes by the key (k, f), each with the table's rows after it."""
    rng = random.Random(seed)
    floats = (0.0, -0.0, float("nan"), None, 1.5)
    there: dict[Any, Row] = {}
    for _ in range(count):
        told: Changes = []
        for _ in range(rng.choice((0, 1, 5, 12))):
            key = (rng.choice((None, *range(4))), rng.choice(floats))
            same = repr((key[0], 0.0 if key[1] == 0 else key[1]))
            new = (*key, rng.choice((None, "", "a'b", "é", str(rng.randrange(99)))))
            old = there.pop(same, None)
            if old is None:
                there[same] = new
                told.append(("+I", new))
            elif rng.random() < 0.4:
                told.append(("-D", old))
            else:
                there[same] = new
                told += [("-U", old), ("+U", new)]
        yield told, list(there.values())


def folded(changes: Iterable[tuple[str, Row]]) -> list[str]:
    """The rows that a changelog leaves, in words that can be compared."""
    left: dict[str, int] = {}
    for word, row in changes:
        name = repr(plain(row))
        left[name] = left.get(name, 0) + (-1 if word[0] == "-" else 1)
    assert all(count >= 0 for count in left.values()), left
    return sorted(name for name, count in left.items() for _ in range(count))


def plain(row: Iterable[Any]) -> Row:
    """A row in which -0.0 is 0.0, as keys are, and instants are in UTC."""
    return tuple(map(_plain, row))


def _plain(value: Any) -> Any:
    if isinstance(value, dt.datetime) and value.tzinfo is not None:
        return f"{value.astimezone(dt.UTC).replace(tzinfo=None).isoformat()}Z"
    return value + 0.0 if isinstance(value, float) else value


def in_words(rows: Iterable[Iterable[Any]]) -> list[str]:
    """Rows in words that can be compared."""
    return sorted(repr(plain(row)) for row in rows)


class Struck(Exception):
    """A process would have been killed here."""


def strike_once(sink: LakeSink, fault: str, elsewhere: Any) -> LakeSink:
    """A sink that is struck once at a step: before its commit, after it, or by a commit of others in between."""
    commit, opened = sink._commit, sink._open_table

    def struck(table: Any, change: Any, note: Any) -> None:
        sink._commit = commit  # type: ignore[method-assign]
        if fault == "before":
            raise Struck
        if fault == "conflict":
            elsewhere()
        commit(table, change, note)
        if fault == "after":
            raise Struck
        if fault == "unheard":
            # It is there, and the store says that somebody else was first.
            raise Conflict("the answer was lost")

    def no_look(schema: Any) -> Any:
        found = opened(schema)
        sink._open_table = opened  # type: ignore[method-assign]
        if fault == "opened":
            raise Struck
        return found

    sink._commit, sink._open_table = struck, no_look  # type: ignore[method-assign]
    sink.pause = lambda seconds: None
    return sink


FAULTS = ("", "opened", "before", "after", "conflict", "unheard", "doubled")


def driven(make: Any, seed: int, count: int, elsewhere: Any, look: Any) -> int:
    """Write random batches with faults at every step, each from a new sink after a fault; how often it was struck.

    look: is called with the rows that the table has to have after each batch.
    """
    rng = random.Random(~seed)
    strikes = 0
    sink = make()
    for number, (changes, rows) in enumerate(random_batches(seed, count)):
        fault = rng.choice(FAULTS)
        strike_once(sink, fault, elsewhere)
        try:
            sink.write(*batch(changes), number, "c1")
        except Struck:
            strikes += 1
            sink = make()
            again = list(changes)
            rng.shuffle(again)
            wrote = sink.write(*batch(again), number, "c1")
            assert wrote == (fault != "after")
        if fault == "doubled":
            assert not make().write(*batch(changes), number, "c1")
        look(rows)
    return strikes


def raised(call: Any) -> AggloomError:
    """The typed error of a call."""
    try:
        call()
    except AggloomError as error:
        return error
    raise AssertionError("it raised nothing")


def read(made: Lake, start: Any, end: Any) -> list[tuple[str, Row]]:
    """The changes between two offsets, each piece through its text, as a task gets it."""
    found = []
    for piece in made.pieces(start, end):
        for rows, words in made.rows(Piece.of(piece.text)):
            assert rows.schema.equals(made.schema)
            columns = [column.to_pylist() for column in rows.columns]
            values = list(zip(*columns, strict=True)) if columns else [()] * rows.num_rows
            found += list(zip([SHORT[w] for w in words.to_pylist()], values, strict=True))
    return found


def sound(told: list[tuple[str, Row]]) -> None:
    """No row goes that is not there, in the order in which changes come."""
    left: dict[str, int] = {}
    for word, row in told:
        name = repr(plain(row))
        left[name] = left.get(name, 0) + (-1 if word[0] == "-" else 1)
        assert left[name] >= 0
