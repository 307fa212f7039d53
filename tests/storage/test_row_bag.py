"""The row bag against a dictionary of counters: random histories, restored, compacted, walked; hostile sizes."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from storage_model import (
    FIELDS,
    SLOTS,
    Row,
    StoredSubject,
    arrays_of,
    batch_of,
    identity_of,
    numbers,
    plain,
    rows_of,
    steps,
)

from aggloom.runtime.state.row_bag import RowBag
from aggloom.runtime.state.row_index import AGAIN, GONE, LESS, NEW, ORPHAN, REPLACED
from aggloom.runtime.storage.arena import Arena
from aggloom.runtime.storage.pool import Pool

UNIQUE = (0, 2)


class Model:
    """A bag as Python would keep it: by slot and identity the row, its count and its degree."""

    def __init__(self, unique: tuple[int, ...]) -> None:
        self.unique = unique
        self.rows: dict[tuple[int, Row], list[Any]] = {}

    def identity(self, row: Row) -> Row:
        return identity_of(row, self.unique)

    def apply(self, slot: int, row: Row, retracts: bool) -> int:
        key = slot, self.identity(row)
        there = self.rows.get(key)
        if retracts:
            if there is None:
                return ORPHAN
            there[1] -= 1
            if there[1] == 0:
                del self.rows[key]
            return LESS if there[1] else GONE
        if there is None:
            self.rows[key] = [plain(row), 1, 0]
            return NEW
        if self.unique:
            there[0] = plain(row)
            return REPLACED
        there[1] += 1
        return AGAIN

    def of(self, slot: int) -> list[tuple[Row, int, int]]:
        return [
            (row, count, degree)
            for (at, _), (row, count, degree) in self.rows.items()
            if at == slot
        ]


class Subject(StoredSubject):
    """A bag in an arena of a directory, beside its model."""

    def __init__(self, directory: Path, unique: tuple[int, ...]) -> None:
        self.arena, self.unique, self.model = Arena(directory), unique, Model(unique)
        self.pool = Pool(self.arena)
        self.open()
        self.fresh = self.arena.nbytes

    def open(self) -> None:
        self.held = RowBag(
            self.arena, self.pool, "bag", FIELDS, SLOTS, unique=self.unique, degrees=True
        )

    def turn(self) -> None:
        self.model.rows = {
            (SLOTS - 1 - slot, identity): value
            for (slot, identity), value in self.model.rows.items()
        }

    def clear(self) -> None:
        ids = numbers([i for _, found in self.held.walk(np.arange(SLOTS)) for i in found])
        self.held.take(ids)
        self.held.free(ids)
        self.model.rows.clear()

    def apply(self, changes: list[tuple[int, Row, bool]]) -> None:
        slots, batch, retracts = arrays_of(changes)
        wanted = [self.model.apply(*change) for change in changes]
        applied = self.held.apply(slots, batch, retracts)
        assert applied.outcomes.tolist() == wanted
        # What is gone can be read, and what was retracted is known, until it is freed.
        gone = applied.gone[applied.gone >= 0]
        identities = list(map(self.model.identity, rows_of(self.held.rows.gather(gone))))
        asked = [self.model.identity(changes[r][1]) for r in np.flatnonzero(applied.gone >= 0)]
        assert identities == asked
        self.held.free(gone)
        # A degree of 1 for each row there that the batch names.
        there = np.unique(self.held.find(slots, batch))
        there = there[there >= 0]
        self.held.arrays.degree[there] += 1
        for change in {(slot, self.model.identity(row)) for slot, row, _ in changes}:
            if change in self.model.rows:
                self.model.rows[change][2] += 1

    def check(self) -> None:
        asked = numbers([3, -1, 0, 1, 0, 4, 2])
        for limit in (1, 3, 1 << 16):
            found: list[list[tuple[Row, int, int]]] = [[] for _ in asked]
            for positions, ids in self.held.walk(asked, limit):
                assert 0 < len(ids) <= limit
                shown = rows_of(self.held.rows.gather(ids))
                beside = zip(
                    shown,
                    self.held.counts(ids).tolist(),
                    self.held.degrees(ids).tolist(),
                    strict=True,
                )
                for position, row in zip(positions.tolist(), beside, strict=True):
                    found[position].append(row)
            for slot, has in zip(asked.tolist(), found, strict=True):
                assert sorted(has, key=str) == sorted(self.model.of(slot), key=str)
        keys = list(self.model.rows)
        batch = batch_of([self.model.rows[key][0] for key in keys])
        ids = self.held.find(numbers([slot for slot, _ in keys]), batch)
        assert len(set(ids.tolist())) == len(keys) == len(self.held) and (ids >= 0).all()
        elsewhere = self.held.find(numbers([(slot + 1) % SLOTS for slot, _ in keys]), batch)
        there = [((slot + 1) % SLOTS, identity) in self.model.rows for slot, identity in keys]
        assert (elsewhere >= 0).tolist() == there


@settings(max_examples=20 if os.environ.get("NUMBA_DISABLE_JIT") else 40, deadline=None)
@given(steps, st.sampled_from([(), UNIQUE]))
def test_history(history: list[Any], unique: tuple[int, ...]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        subject = Subject(Path(directory) / "a", unique)
        for step in history:
            subject.step(step)
            subject.pool.sweep()
            subject.check()
        subject.step("clear")
        subject.pool.sweep()
        assert not subject.pool.arrays.refs.any() and subject.arena.nbytes <= subject.fresh


@pytest.mark.parametrize("slots", [1, 1_000_000])
def test_a_million_rows(slots: int) -> None:
    """One slot of a million rows, a million slots of one: bytes as stated, half of them gone, all compacted."""
    rows, arena = 1_000_000, Arena()
    pool = Pool(arena)
    fields = [pa.field("a", pa.int64()), pa.field("b", pa.int64())]
    bag = RowBag(arena, pool, "bag", fields, slots)
    batch = pa.RecordBatch.from_arrays(
        [np.arange(rows), -np.arange(rows)], schema=pa.schema(fields)
    )
    where = np.arange(rows) % slots
    assert (bag.insert(where, batch).outcomes == NEW).all()
    assert (bag.insert(where[:1000], batch.slice(0, 1000)).outcomes == AGAIN).all()
    assert (bag.remove(where[:1000], batch.slice(0, 1000)).outcomes == LESS).all()
    bag.trim()
    stated = rows * bag.row_bytes + 4 * slots
    assert abs(arena.nbytes / stated - 1) < 0.2
    half = batch.take(pa.array(np.arange(0, rows, 2)))
    bag.free(bag.remove(where[::2], half).gone)
    walked = list(bag.walk(np.arange(slots), 100_000))
    values = bag.rows.gather(np.concatenate([ids for _, ids in walked])).column(0).to_numpy()
    assert sorted(values) == list(range(1, rows, 2))
    assert max(len(ids) for _, ids in walked) == 100_000
    if slots > 1:
        assert (np.concatenate([at for at, _ in walked]) == values).all()
    left = bag.find(where[-10:], batch.slice(rows - 10))
    gone = np.setdiff1d(bag.rows.live(), left)
    bag.take(gone)
    bag.free(gone)
    assert bag.is_airy and len(bag) == 5
    into = Arena()
    small, moved = bag.copy_into(into, Pool(into), where[:slots] * 0, 1)
    assert into.nbytes < 20_000
    assert small.find(np.zeros(10, np.int64), batch.slice(rows - 10)).tolist() == [
        moved[row] if row >= 0 else -1 for row in left
    ]


def test_the_same_interpreted() -> None:
    """The kernels as plain Python: the histories of bag and sorted rows."""
    files = [
        str(Path(__file__).with_name(f"test_{name}.py")) for name in ("row_bag", "sorted_rows")
    ]
    settings = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-W", "ignore", "-k", "test_history", *files]
    ran = subprocess.run(command, env=settings, capture_output=True, text=True, check=False)
    assert ran.returncode == 0 and "2 passed" in ran.stdout, ran.stdout[-2000:]
