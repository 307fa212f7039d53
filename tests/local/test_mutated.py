"""Snapshots with right checksums and wrong contents are refused, or used: no process dies of one, and none hangs.

`make test-all` tries some; `make mutations` 10,000. Most of the time goes into compiling every operator.
"""

from __future__ import annotations

import os
import random
from inspect import isabstract

import numpy as np
import pyarrow as pa
import pytest
from mutated.mutations import mutate
from mutated.queries import feed, made
from mutated.run import CHECKPOINT, play

from aggloom.errors import StateCorruptError
from aggloom.runtime.hosting.blobs import with_kinds, write_blob
from aggloom.runtime.hosting.bucket_store import Blob, gather
from aggloom.runtime.operators.base import Operator
from aggloom.runtime.storage.pool import HEAP_LIVE, HEAP_USED, PoolArrays, hash_bytes
from aggloom.runtime.storage.pool import _rehash as rehash

COUNT = int(os.environ.get("AGGLOOM_MUTATIONS", "160"))
SEED = int(os.environ.get("AGGLOOM_MUTATIONS_SEED", "0"))


@pytest.mark.slow
@pytest.mark.thorough
def test_mutated_snapshots_neither_end_nor_hang_a_process() -> None:
    outcomes, failures = play(list(made()), SEED, COUNT, 1 if COUNT < 1000 else 2)
    assert failures == []
    assert sum(outcomes.values()) == COUNT
    assert outcomes["refused"] > COUNT // 2


@pytest.mark.slow
@pytest.mark.thorough
def test_mutated_parts_of_checkpoints_are_refused_in_words() -> None:
    names = [f"{CHECKPOINT}{name}" for name in made()]
    outcomes, failures = play(names, SEED, COUNT, 1 if COUNT < 1000 else 2)
    assert failures == []
    assert sum(outcomes.values()) == COUNT
    assert outcomes["refused"] > COUNT // 2


def test_every_operator_is_mutated() -> None:
    harnesses = [make() for make in made().values()]
    found = {type(each) for one in harnesses for each in one.pipeline.operators}
    assert {each for each in _below(Operator) if not isabstract(each)} == found


def _below(kind: type) -> set[type]:
    """All classes that derive from one in the tree."""
    own = {each for each in kind.__subclasses__() if each.__module__.startswith("aggloom.")}
    return own | {deeper for each in own for deeper in _below(each)}


@pytest.mark.parametrize("name", ["two keys", "sequences", "rank", "nested keys", "joins"])
def test_strings_of_a_snapshot_are_values_of_their_types(name: str) -> None:
    harness = made()[name]()
    feed(harness, random.Random(1), {}, False, 30)
    arena = next(each for each in harness.pipeline.operators[0].arenas if "pool.heap" in each)
    pool = PoolArrays(*(arena.array(f"pool.{each}", 0, "i8") for each in PoolArrays._fields))
    for text in np.flatnonzero(pool.length > 0):
        start, length = int(pool.offset[text]), int(pool.length[text])
        pool.heap[start : start + length] = 0xFF
        pool.code[text] = hash_bytes(pool.heap, start, length)
    pool.table[:] = 0
    rehash(pool)
    with pytest.raises(StateCorruptError):
        made()[name]().restore(harness.snapshot())


def test_strings_that_share_bytes_are_refused_before_they_are_hashed() -> None:
    harness = made()["two keys"]()
    harness.process([("+I", f"k{n}" * 9, 0, n, *[None] * 6) for n in range(40)], table="t")
    harness.flush()
    (arena,) = harness.pipeline.operators[0].arenas
    meta = arena.array("pool.meta", 0, "i8")
    meta[HEAP_LIVE] = meta[HEAP_USED] + 1
    with pytest.raises(StateCorruptError, match="pool"):
        made()["two keys"]().restore(harness.snapshot())


def test_a_refusal_names_what_is_wrong_and_what_to_do() -> None:
    harness = made()["rank"]()
    feed(harness, random.Random(1), {}, False)
    snapshot, said = harness.snapshot(), set()
    for seed in range(40):
        try:
            made()["rank"]().restore(mutate(snapshot, random.Random(seed)))
        except StateCorruptError as error:
            said.add(str(error).partition(": ")[2])
            assert "Restart from an older checkpoint" in str(error)
    assert len(said) > 5


@pytest.mark.parametrize("rows", [0, 2])
def test_a_log_of_right_rows_is_read_and_one_of_unknown_kinds_refused(rows: int) -> None:
    schema = pa.schema([("k", pa.int64())])
    batch = pa.RecordBatch.from_arrays([pa.array(range(rows), pa.int64())], schema=schema)
    for kind, right in ((3, True), (4, rows == 0), (-1, rows == 0)):
        whole = with_kinds(batch, np.full(rows, kind, np.int8))
        given = [Blob(0, 0, 0, write_blob(whole.schema, [(whole, b"")]))]
        if right:
            assert gather(given, [schema], check=True).bundles[0].batch.num_rows == rows
            continue
        with pytest.raises(StateCorruptError, match="kinds"):
            gather(given, [schema], check=True)
