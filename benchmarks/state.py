"""State: bytes a key in memory and on disk, and what recovery takes when live state is gone."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import click
import pyarrow as pa
import pyarrow.parquet as pq
from matrix import BATCHES, LOOM, OWN
from measure import spread
from pyspark.sql import SparkSession
from rows import EPOCH, TAIL_ROWS, Rows
from streams import Files, Stream, batch_seconds, loom, own, start
from workloads import BASIC

HEADER = (
    "keys",
    "contender",
    "live, bytes a key",
    "checkpoint, bytes a key",
    "first batch, live state there, s",
    "gone, s",
    "rebuilding, s",
)
NOTES = (
    f"{BASIC.name} by BIGINT key, append-only, each key once, in {BATCHES} batches. Live: what the arenas "
    "take of the disk that they are mapped from. Checkpoint: the files under `state`, older versions "
    f"among them. Then the query starts again from its checkpoint for one batch of {TAIL_ROWS:,} rows, in "
    "turn with the live state that it left and with that deleted, so that it is rebuilt from snapshot and"
    " log; rebuilding is the difference within a round. All in one session: Python workers and Spark's "
    "own state stores are warm in both. Medians (least..greatest) of {rounds} rounds. Spark's own keeps"
    " no live state that could be deleted alone."
)


@dataclass
class Footprint:
    """Figures of one contender at one number of keys."""

    keys: int
    contender: str
    checkpoint: int
    live: int = 0
    there: list[float] = field(default_factory=list)
    gone: list[float] = field(default_factory=list)


def disk_bytes(folder: Path) -> int:
    """Add up the bytes of disk that the files under a folder take."""
    return sum(path.stat().st_blocks * 512 for path in folder.rglob("*") if path.is_file())


def measure(spark: SparkSession, counts: Sequence[int], rounds: int) -> list[Footprint]:
    """Footprints at each number of keys."""
    made: list[Footprint] = []
    for keys in counts:
        rows = Rows(keys, keys, "once")
        for name, stream in ((LOOM, loom(BASIC.sql)), (OWN, own(BASIC.sql))):
            with tempfile.TemporaryDirectory(prefix="bench-") as scratch:
                query = _Query(spark, rows, stream, Path(scratch))
                query.step()
                each = Footprint(keys, name, query.checkpoint_bytes)
                if name == LOOM:
                    each.live = disk_bytes(query.live)
                    _recover(query, each, rounds)
                made.append(each)
    return made


def _recover(query: _Query, each: Footprint, rounds: int) -> None:
    query.step(more=1)
    for number in range(1, rounds + 1):
        each.there.append(query.step(more=2 * number))
        shutil.rmtree(query.live)
        each.gone.append(query.step(more=2 * number + 1))
        if disk_bytes(query.live) < each.live / 2:
            raise click.ClickException(f"{each.keys:,} keys: live state was not rebuilt")
        click.echo(
            f"{each.keys:,} keys, round {number} of {rounds}: first batch {each.there[-1]:.1f} s with live state, "
            f"{each.gone[-1]:.1f} s without",
            err=True,
        )


class _Query:
    """A query that is started again and again from one checkpoint, with more files each time."""

    def __init__(self, spark: SparkSession, rows: Rows, stream: Stream, scratch: Path) -> None:
        self._spark = spark
        self._stream = stream
        self._scratch = scratch
        self._files = replace(Files.of(rows), folder=scratch / "input")
        shutil.copytree(rows.folder, self._files.folder)
        self.live = scratch / "live"

    @property
    def checkpoint_bytes(self) -> int:
        """The bytes of the state in the checkpoint."""
        return disk_bytes(self._scratch / "checkpoint" / "state")

    def step(self, more: int = 0) -> float:
        """Run over what is new, and first write one more file if asked to; seconds of the first batch."""
        if more:
            keys = pa.array(range(more, more + TAIL_ROWS), pa.int64())
            values = pa.array([more] * TAIL_ROWS, pa.int32())
            file = self._files.folder / f"more-{more:03}.parquet"
            pq.write_table(pa.table({"k": keys, "v": values}), file)
            os.utime(file, (EPOCH + 1000 + more, EPOCH + 1000 + more))
        out = self._stream.build(self._spark, self._files, self.live)
        query = start(
            out.writeStream.format("noop").outputMode(self._stream.output_mode), self._scratch
        )
        return batch_seconds(query)[0]


def cells(made: Sequence[Footprint]) -> Iterator[tuple[str, ...]]:
    """The rows of the table."""
    for each in made:
        rebuilding = [gone - there for there, gone in zip(each.there, each.gone, strict=True)]
        yield (
            f"{each.keys:,}",
            each.contender,
            f"{each.live / each.keys:.0f}" if each.live else "",
            f"{each.checkpoint / each.keys:.0f}",
            spread(each.there),
            spread(each.gone),
            spread(rebuilding),
        )
