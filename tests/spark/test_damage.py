"""Damage to every kind of file under a checkpoint: repaired or refused in a few words, never a wrong table.

The ordinary suite tries a few; `make damage` all.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import StructType

from aggloom.errors import CheckpointError, StateCorruptError, StateError

pytest.importorskip("pyspark")

from chaos.damage import DAMAGES, KINDS, Patient, by_kind
from chaos.workload import DDL, QUERIES, Workload, by_duckdb, folded, write_file

from aggloom.runtime.connectors.files.table_file import TABLE_FILE
from aggloom.runtime.spark import (
    await_end,
    explain_failure,
    read_changes,
    read_table,
    sql,
    write_changes,
)
from aggloom.runtime.spark.checkpoint import REPARTITIONS_FILE
from aggloom.runtime.spark.watch.repartition import batch_before, note_repartitions
from aggloom.runtime.spark.write.sinks import TableSink

# What is cured: Spark runs a batch again whose commit is gone; the page alone reads the last changes.
CURED = {("commits", "delete"), ("last changes", "truncate")}
FEW = [
    ("query id", "truncate"),
    ("offsets", "empty"),
    ("offsets", "delete"),
    ("commits", "flip"),
    ("commits", "delete"),
    ("source log", "delete"),
    ("operator metadata", "delete"),
    ("state schema", "truncate"),
    ("state manifest", "delete"),
    ("state table", "flip"),
    ("state rows", "flip"),
    ("state rows", "delete"),
    ("state changes", "truncate"),
    ("table", "flip"),
    ("query", "flip"),
    ("last changes", "truncate"),
]
ALL = [(kind, damage) for kind in KINDS for damage in DAMAGES]


@pytest.fixture(scope="module")
def patient(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Patient:
    return Patient(spark, tmp_path_factory.mktemp("damage"))


@pytest.mark.spark
def test_every_kind_of_file_is_there(patient: Patient) -> None:
    assert set(by_kind(patient.checkpoint)) == set(KINDS)


@pytest.mark.spark
@pytest.mark.parametrize(
    ("kind", "damage"), ALL if os.environ.get("AGGLOOM_DAMAGES") == "all" else FEW
)
@pytest.mark.sampled(5)
def test_damage_is_cured_or_refused(patient: Patient, kind: str, damage: str) -> None:
    refused = patient.treat(kind, damage)
    if (kind, damage) in CURED:
        assert refused is None
    if refused is not None:
        text = str(refused)
        assert isinstance(refused, StateError), text
        assert re.search("Restore|Run the query|start again", text)
        assert len(text) < 700
        assert text.count("\n") < 5


@pytest.mark.spark
def test_a_file_sink_whose_batch_was_not_committed(spark: Any, tmp_path: Path) -> None:
    query, batches = QUERIES["grouped"], Workload(0, "grouped", 3).changes()

    def run() -> None:
        t = read_changes(spark, str(tmp_path / "in"), "jsonl", DDL, max_files_per_trigger=1)
        out = sql(query.text, t=t, output_profile="flink")
        await_end(write_changes(out, f"jsonl:{tmp_path}/o ut", tmp_path / "checkpoint"))

    for number, changes in enumerate(batches):
        write_file(tmp_path / "in", number, changes)
        if number:
            run()
            for last in (str(number), f".{number}.crc"):
                # The driver was killed after the sink had the batch, and before Spark knew.
                (tmp_path / "checkpoint" / "commits" / last).unlink()
    run()
    lines = [
        line
        for file in (tmp_path / "o ut").glob("*.json")
        for line in file.read_text().splitlines()
    ]
    names = ("op", "a", "b", "s", "m", "n", "d")
    got = Counter(tuple(map(json.loads(line).get, names)) for line in lines)
    assert folded([got]) == by_duckdb(query.oracle, [row for batch in batches for row in batch])


class Batch(SimpleNamespace):
    """A DataFrame as the table sink sees it."""

    schema = StructType()

    def toArrow(self) -> pa.Table:  # noqa: N802
        return self.table


def make_batch(number: int) -> Batch:
    columns = {
        "name": pa.array([f"a{number}", None, "b"]),
        "list": pa.array([[number, None], None, []]),
        "_change_type": ["insert"] * 3,
    }
    return Batch(table=pa.table(columns))


def filled(directory: Path) -> TableSink:
    sink = TableSink(directory)
    for number in range(3):
        sink(make_batch(number), number)
    return sink


def test_a_table_in_which_a_bit_is_flipped(tmp_path: Path) -> None:
    filled(tmp_path)
    table, file = read_table(tmp_path), tmp_path / TABLE_FILE
    whole, refused = file.read_bytes(), 0
    for bit in range(0, 8 * len(whole), 5):
        data = bytearray(whole)
        data[bit // 8] ^= 1 << bit % 8
        file.write_bytes(data)
        try:
            # Some bytes of a file mean nothing.
            assert read_table(tmp_path).equals(table)
        except StateCorruptError:
            refused += 1
    assert refused > len(whole) // 2


def test_a_table_that_is_cut_or_gone(tmp_path: Path) -> None:
    sink = filled(tmp_path)
    file = tmp_path / TABLE_FILE
    whole = file.read_bytes()
    for length in range(0, len(whole), 97):
        file.write_bytes(whole[:length])
        with pytest.raises(StateCorruptError, match="is damaged"):
            read_table(tmp_path)
    file.unlink()
    with pytest.raises(StateCorruptError, match="is missing"):
        sink(make_batch(3), 3)


def write_offsets(checkpoint: Path, partitions: tuple[int, ...]) -> None:
    """Spark's log of offsets, as far as it has the number of partitions of each batch."""
    (checkpoint / "offsets").mkdir(exist_ok=True)
    for batch, count in enumerate(partitions):
        record = {"conf": {"spark.sql.shuffle.partitions": str(count)}}
        (checkpoint / "offsets" / f"{batch}").write_text(f"v1\n{json.dumps(record)}\n{{}}")


@pytest.mark.parametrize(
    ("partitions", "number", "refused"),
    [
        ((2, 2, 2, 2), 2, False),
        ((2, 2, 2, 2), 3, False),
        ((2, 2, 2, 2, 2), 4, True),
        ((2, 2, 2, 5, 5), 4, False),
        ((2, 2, 2, 5, 3, 3), 5, False),
        ((2, 2, 2, 2, 5, 5), 5, True),
        ((2, 2, 2, 5, 5, 5), 5, True),
        ((), 4, True),
    ],
)
def test_a_table_of_an_older_copy(
    tmp_path: Path, partitions: tuple[int, ...], number: int, refused: bool
) -> None:
    """A batch is taken once, in its order; only numbers that repartitions took may be missing before it."""
    sink = filled(tmp_path)
    write_offsets(tmp_path, partitions)
    table = read_table(tmp_path)
    again = Batch(table=table.append_column("_change_type", pa.array(["insert"] * table.num_rows)))
    if refused:
        with pytest.raises(
            CheckpointError, match=rf"has batch 2, and the checkpoint's next batch is {number}"
        ):
            sink(again, number)
    else:
        sink(again, number)
    rows = table.num_rows * (2 if number > 2 and not refused else 1)
    assert read_table(tmp_path).num_rows == rows


@pytest.mark.parametrize(
    ("partitions", "number", "kept", "refused"),
    [
        # Of the log there is what a query with minBatchesToRetain=1 keeps, and less.
        ((2, 2, 2, 5, 5), 4, 2, False),
        ((2, 2, 2, 5, 3, 3), 5, 2, False),
        ((2, 2, 2, 5, 3, 3), 5, 1, False),
        ((2, 2, 2, 2, 2), 4, 2, True),
        ((2, 2, 2, 5, 5, 5), 5, 2, True),
        ((2, 2, 2, 2, 5, 5), 5, 2, True),
        ((2, 2, 5, 5, 5), 4, 2, True),
    ],
)
def test_a_repartition_that_the_log_has_lost(
    tmp_path: Path, partitions: tuple[int, ...], number: int, kept: int, refused: bool
) -> None:
    sink = filled(tmp_path)
    changes = read_table(tmp_path)
    changes = changes.append_column("_change_type", pa.array(["insert"] * changes.num_rows))
    write_offsets(tmp_path, partitions[:-1])
    note_repartitions(tmp_path)
    write_offsets(tmp_path, partitions)
    for batch in range(len(partitions) - kept):
        (tmp_path / "offsets" / f"{batch}").unlink()
    # After a kill the query starts again, with what is left of the log.
    for _ in range(2):
        note_repartitions(tmp_path)
        assert (batch_before(tmp_path, number, None) > 2) == refused
    if refused:
        with pytest.raises(CheckpointError, match=rf"has batch 2, and .* next batch is {number}"):
            sink(Batch(table=changes), number)
    else:
        sink(Batch(table=changes), number)


def test_a_note_of_repartitions_that_the_log_contradicts(tmp_path: Path) -> None:
    write_offsets(tmp_path, (2, 2, 2, 5, 5))
    note_repartitions(tmp_path)
    assert batch_before(tmp_path, 4, None) == 2
    # The last batches were deleted by hand, and batch 3 is a query's now; or it has not been run yet.
    write_offsets(tmp_path, (2, 2, 2, 2, 2))
    note_repartitions(tmp_path)
    assert batch_before(tmp_path, 4, None) == 3
    write_offsets(tmp_path, (2, 2, 2, 5))
    note_repartitions(tmp_path)
    for batch in (3, 4):
        (tmp_path / "offsets" / f"{batch}").unlink()
    note_repartitions(tmp_path)
    (tmp_path / "offsets" / "2").unlink()
    assert batch_before(tmp_path, 4, None) == 3
    (tmp_path / REPARTITIONS_FILE).write_text("00000000 [3]\n")
    with pytest.raises(StateCorruptError, match=r"aggloom-repartitions\.json is damaged"):
        batch_before(tmp_path, 4, None)


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (
            "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: "
            "assertion failed: CheckpointInfo length: 0, numPartitions: 2 SQLSTATE: XXKST\n\tat x",
            "the sink did not run its batch",
        ),
        (
            "An error occurred while calling o7.start.\n: java.JsonEOFException: Unexpected end-of-input\n at [Source]",
            r"the checkpoint cannot be read \(java.JsonEOFException: Unexpected end-of-input\). Restore",
        ),
        (
            "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: [FOREACH_BATCH_USER_FUNCTION_ERROR] "
            "An error. Reason: Traceback (most recent call last):\n  File x\n    y\nOSError: no room\n\tat z",
            "the query failed: OSError: no room",
        ),
        (
            "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception:  SQLSTATE: XXKST\n=== Query ===",
            "Spark does not say why.* Start again from the same checkpoint; .* Restore",
        ),
    ],
)
def test_the_cause_comes_first(said: str, expected: str) -> None:
    assert re.match(expected, str(explain_failure(Exception(said))))
