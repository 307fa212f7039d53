"""One life of a query on the local engine, in a process of its own that may be killed at any moment.

A server of processes imports this module once and runs each query a little, so that a life begins within milliseconds.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from chaos.workload import DDL, QUERIES, Workload

from aggloom.job import Job, complete
from aggloom.run_local import open_query
from aggloom.runtime.engine import checkpoint
from aggloom.runtime.hosting import bucket_store
from aggloom.tables import table_source

WARM = "AGGLOOM_CHAOS_WARM"
"""Set in the server of processes alone."""


@dataclass(frozen=True)
class Life:
    """The query of a seed: where its changes come from, where its checkpoint lies, and the sink.

    source: the entries of the table, with its place.
    """

    seed: int
    directory: Path
    source: Mapping[str, Any]
    sink: Any

    def job(self) -> Job:
        """The job; windows stay open at its end, for files that are added later."""
        workload = Workload.of_seed(self.seed)
        entries = {"schema": DDL, **self.source}
        if workload.query.windowed:
            entries["watermark"] = "ts 5 seconds"
        return complete(
            {
                "sql": workload.query.text,
                "tables": (table_source("t", entries, "a kill run"),),
                "sink": self.sink,
                "checkpoint": self.directory / "checkpoint",
                "options": dict(workload.query.options),
                "keep_open": True,
                "engine": "local",
            },
            "a kill run",
        )


def live(life: Life) -> None:
    """Run to the end of the input; what it fails with is noted in the directory."""
    draw = random.Random(f"log {life.seed}")
    # Short runs have logs, snapshots, and snapshots in files of their own.
    bucket_store.LOG_MINIMUM_BYTES = draw.choice([1 << 10, 1 << 14, 4 << 20])
    checkpoint.IN_COMMIT = draw.choice([1 << 8, 1 << 20])
    checkpoint._RENEWED_AFTER = draw.choice([2, 400])
    job = life.job()
    assert job.checkpoint is not None
    try:
        query = open_query(job, job.checkpoint)
        try:
            query.run()
        finally:
            query.close()
    except BaseException as failure:
        name = life.directory / "failures" / str(time.time_ns())
        name.parent.mkdir(exist_ok=True)
        name.write_text(f"{type(failure).__name__}: {failure}")
        raise
    (life.directory / "done").touch()


def _warm_up() -> None:
    """Run each query a little, so that its code is there when a life begins."""
    with TemporaryDirectory() as place:
        for seed in range(len(QUERIES)):
            directory = Path(place) / str(seed)
            directory.mkdir()
            Workload(seed, list(QUERIES)[seed], batches=1).write(directory / "in")
            source = {"path": str(directory / "in"), "format": "jsonl"}
            live(Life(seed, directory, source, "table"))


if os.environ.get(WARM):
    _warm_up()
