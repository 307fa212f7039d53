"""One life of a driver: runs a workload's query from its checkpoint to the end of its files.

    python driver.py DIRECTORY SEED

What each batch gives out goes to a file of its own for every attempt at it. A query that fails is started again from
its checkpoint, and what it failed with is kept.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from chaos.workload import DDL, Workload, plain

from aggloom.errors import AggloomError
from aggloom.runtime.hosting import factory
from aggloom.runtime.hosting.factory import FragmentFactory
from aggloom.runtime.spark import await_end, check_records, read_changes, session, sql
from aggloom.runtime.values.changelog import CHANGE_TYPES, KIND_NAMES


@dataclass(frozen=True)
class BriefFactory(FragmentFactory):
    """Operators whose log is soon replaced by a snapshot, so that short runs have both."""

    log_bytes: int = 0

    def open(self, directory: Path | None, bucket: int) -> Any:
        from aggloom.runtime.hosting import bucket_store as store

        store.LOG_MINIMUM_BYTES = self.log_bytes
        return super().open(directory, bucket)


class Keeper:
    """The sink: a file for each attempt at a batch, complete or absent."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir(exist_ok=True)

    def __call__(self, df: Any, batch: int) -> None:
        """Keep one batch."""
        short = dict(zip(CHANGE_TYPES, KIND_NAMES, strict=True))
        rows = [(short[kind], *map(plain, row)) for *row, kind in df.collect()]
        name = f"{batch:04d}-{time.time_ns()}"
        scratch = self.directory / f".{name}"
        scratch.write_text(json.dumps(rows))
        scratch.rename(self.directory / f"{name}.json")


def settings(seed: int) -> dict[str, str]:
    """Spark's, some of which a seed decides: how state becomes files."""
    draw = random.Random(f"settings {seed}")
    store = "spark.sql.streaming.stateStore"
    return {
        "spark.driver.memory": "1g",
        # A busy machine is no failure.
        "spark.python.authenticate.socketTimeout": "120s",
        f"{store}.rocksdb.changelogCheckpointing.enabled": draw.choice(["true", "false"]),
        f"{store}.minDeltasForSnapshot": "2",
        f"{store}.maintenanceInterval": draw.choice(["1s", "60s"]),
        "spark.sql.streaming.minBatchesToRetain": draw.choice(["2", "100"]),
    }


def start(spark: Any, directory: Path, workload: Workload) -> Any:
    """Start the query over the files that are there, one a batch."""
    check_records(directory / "checkpoint")
    t = read_changes(spark, str(directory / "in"), workload.format, DDL, max_files_per_trigger=1)
    out = sql(
        workload.query.text, t=t, watermarks=workload.watermarks, options=workload.query.options
    )
    writer = out.writeStream.foreachBatch(Keeper(directory / "out")).trigger(availableNow=True)
    return writer.option("checkpointLocation", str(directory / "checkpoint")).start()


def main() -> None:
    """Run to the end of the files, or die; the runner sees to it that this ends."""
    directory, seed = Path(sys.argv[1]), int(sys.argv[2])
    workload = Workload.of_seed(seed)
    os.environ["AGGLOOM_STATE_DIR"] = str(directory / "live")
    log_bytes = random.Random(f"log {seed}").choice([1 << 10, 1 << 14, 4 << 20])
    factory.FragmentFactory = partial(BriefFactory, log_bytes=log_bytes)  # type: ignore[assignment, misc]
    spark = session("chaos", master="local[2,4]", **settings(seed))
    (directory / "started").touch()
    while True:
        try:
            await_end(start(spark, directory, workload))
        except AggloomError as failure:
            kept = directory / "failures" / f"{time.time_ns()}"
            kept.parent.mkdir(exist_ok=True)
            kept.write_text(f"{type(failure).__name__}: {failure}\n\n{failure.__cause__}")
            if "Java has ended" in str(failure):
                # Nothing can be started any more in this process.
                raise
        else:
            (directory / "done").touch()
            return


if __name__ == "__main__":
    main()
