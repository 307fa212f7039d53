"""Every type and function through Spark, for several partitions, buckets and modes, against exact Python."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from changelog_laws import check_laws
from model import GroupModel, same_table
from strategies import DOMAINS, RICH, largest

from aggloom.codegen import AggCall, AggSpec
from aggloom.runtime.values.changelog import CHANGE_TYPES, KIND_NAMES, fold

pytestmark = pytest.mark.spark

from aggloom.runtime.connectors.files.table_file import read_table  # noqa: E402
from aggloom.runtime.hosting.bucket_store import Head  # noqa: E402
from aggloom.runtime.spark import read_changes, write_changes  # noqa: E402
from aggloom.runtime.spark.api.group_aggregate import group_aggregate  # noqa: E402

Change = tuple[Any, ...]
SETTINGS = [(1, 1, "mini_batch"), (2, 5, "per_record"), (7, 7, "mini_batch"), (7, 3, "per_record")]


def changelog(spec: AggSpec, rows: int, seed: int) -> list[Change]:
    """A valid changelog: insertions, deletions and updates of rows that are there."""
    draw = random.Random(seed)
    live: list[tuple[Any, ...]] = []
    changes: list[Change] = []
    while len(changes) < rows:
        row = tuple(
            None if draw.random() < 0.1 else draw.choice(DOMAINS[name][1])
            for name in spec.schema.names
        )
        if live and draw.random() < 0.5:
            old = live.pop(draw.randrange(len(live)))
            if draw.random() < 0.5:
                changes.append(("-D", *old))
                continue
            changes.append(("-U", *old))
            changes.append(("+U", *row))
        else:
            changes.append(("+I", *row))
        live.append(row)
    return changes


def write(path: Path, number: int, spec: AggSpec, changes: list[Change]) -> None:
    """One Parquet file of changes; file times follow the numbers, since Spark reads files in order of time."""
    path.mkdir(exist_ok=True)
    file = path / f"{number:03}.parquet"
    columns = [
        pa.array([change[place + 1] for change in changes], field.type)
        for place, field in enumerate(spec.schema)
    ]
    kinds = pa.array([CHANGE_TYPES[KIND_NAMES.index(change[0])] for change in changes])
    names = [*spec.schema.names, "_change_type"]
    pq.write_table(pa.table([*columns, kinds], names=names), file)
    os.utime(file, (1_700_000_000 + number, 1_700_000_000 + number))


def expected(spec: AggSpec, changes: list[Change]) -> list[tuple[Any, ...]]:
    model = GroupModel(spec)
    model.process(changes)
    return model.table()


def as_rows(table: pa.Table, schema: pa.Schema) -> list[tuple[Any, ...]]:
    """Rows as the harness gives them."""
    columns = [table.column(i).cast(field.type) for i, field in enumerate(schema)]
    return list(zip(*(column.to_pylist() for column in columns), strict=True))


@pytest.mark.parametrize("number", range(len(RICH)))
def test_a_batch_dataframe_of_every_type(spark: Any, tmp_path: Path, number: int) -> None:
    spec = list(RICH.values())[number]
    partitions, buckets, mode = SETTINGS[number % len(SETTINGS)]
    changes = changelog(spec, 400, number)
    write(tmp_path / "in", 0, spec, changes)
    source = read_changes(spark, str(tmp_path / "in"), "parquet", spec.schema, streaming=False)
    spark.conf.set("spark.sql.shuffle.partitions", partitions)
    try:
        found = group_aggregate(source, spec, buckets=buckets, mode=mode).toArrow()
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", 2)
    kinds = [
        KIND_NAMES[CHANGE_TYPES.index(kind)]
        for kind in found.column(found.num_columns - 1).to_pylist()
    ]
    out = [
        (kind, *row) for kind, row in zip(kinds, as_rows(found, spec.output_schema), strict=True)
    ]
    check_laws(out, len(spec.group_by), mode == "mini_batch")
    assert same_table(spec, fold(out), expected(spec, changes), largest(changes)) is None


@pytest.mark.parametrize(
    ("name", "partitions", "buckets", "mode"),
    [
        ("bytes", 1, 3, "mini_batch"),
        ("distinct", 7, 2, "per_record"),
        ("decimals", 2, 7, "mini_batch"),
        ("first_last", 7, 5, "mini_batch"),
    ],
)
@pytest.mark.sampled(4)
def test_a_stream_of_every_view(
    spark: Any, tmp_path: Path, name: str, partitions: int, buckets: int, mode: Any
) -> None:
    spec, changes = RICH[name], changelog(RICH[name], 600, 1)
    for file, start in enumerate(range(0, 600, 200)):
        write(tmp_path / "in", file, spec, changes[start : start + 200])
    changes = changes[:600]
    spark.conf.set("spark.sql.shuffle.partitions", partitions)
    try:
        source = read_changes(
            spark, str(tmp_path / "in"), "parquet", spec.schema, max_files_per_trigger=1
        )
        out = group_aggregate(source, spec, buckets=buckets, mode=mode)
        write_changes(out, "table", tmp_path / "checkpoint").awaitTermination()
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", 2)
    found = as_rows(read_table(tmp_path / "checkpoint"), spec.output_schema)
    assert same_table(spec, found, expected(spec, changes), largest(changes)) is None


def test_a_snapshot_takes_the_place_of_a_long_log(spark: Any, tmp_path: Path) -> None:
    calls = (AggCall("MAX", ("text",)), AggCall("COUNT", ("text",), distinct=True))
    spec = AggSpec("k INT, text STRING", ("k",), calls)
    changes: list[Change] = []

    def run(directory: str) -> list[tuple[Any, ...]]:
        source = read_changes(
            spark, str(tmp_path / "in"), "parquet", spec.schema, max_files_per_trigger=1
        )
        out = group_aggregate(source, spec, buckets=1, state_directory=tmp_path / directory)
        write_changes(out, "table", tmp_path / "checkpoint").awaitTermination()
        return as_rows(read_table(tmp_path / "checkpoint"), spec.output_schema)

    # What is hard to compress: the log is weighed as it is written.
    texts = [random.Random(number).randbytes(500_000).hex() for number in range(8)]
    for number, text in enumerate(texts):
        batch: list[Change] = [("+I", 1, text), ("+I", number, text + "!"), ("+I", None, "")]
        if number:
            batch.append(("-D", number - 1, texts[number - 1] + "!"))
        if number > 1:
            batch.append(("-D", 1, texts[number - 2]))
        write(tmp_path / "in", number, spec, batch)
        changes += batch
    found = run("first")
    assert same_table(spec, found, expected(spec, changes)) is None
    head = spark.read.format("statestore").option("stateVarName", "commit")
    (row,) = head.load(str(tmp_path / "checkpoint")).select("value.head").collect()
    assert Head.of(row.head).snapshot_chunks > 0
    last: Change = ("-D", 1, max(texts[-2:]))
    write(tmp_path / "in", 8, spec, [last])
    found = run("second")
    assert same_table(spec, found, expected(spec, [*changes, last])) is None
