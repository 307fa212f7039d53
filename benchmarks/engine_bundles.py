"""Latency of the local engine: what a committed bundle of 1,000 rows takes once the state holds 100,000 keys.

python benchmarks/engine_bundles.py --bundles 1000 > benchmarks/results/engine_bundles.md
"""

from __future__ import annotations

import argparse
import gc
import resource
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa

from aggloom.codegen.planner import plan_query
from aggloom.runtime.engine.query import LocalQuery, QuerySettings
from aggloom.runtime.engine.sinks import FunctionBatches
from aggloom.runtime.local.message_reader import Read

KEYS, ROWS, SETTLING = 100_000, 1_000, 20
SQL = "SELECT k, COUNT(*) AS n, SUM(v) AS s, MAX(v) AS m FROM t GROUP BY k"
SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.int64())])


class RandomRows:
    """A source whose first batch has a row of each key, and each later one rows of random keys."""

    ends = True
    backlog: Mapping[str, int] = {}

    def __init__(self, bundles: int) -> None:
        self._bundles = bundles

    def plan(self, batch: int, position: Any) -> Any:
        """The number of the batch; None after the last."""
        return batch if batch <= self._bundles else None

    def read(self, planned: Any) -> Iterator[Read]:
        """Yield the rows of a batch."""
        draw = np.random.default_rng(planned)
        keys = draw.integers(0, KEYS, ROWS) if planned else np.arange(KEYS)
        columns = [pa.array(keys), pa.array(draw.integers(0, 1000, len(keys)))]
        yield pa.RecordBatch.from_arrays(columns, schema=SCHEMA), np.zeros(len(keys), "i1"), [], 0

    def end(self, planned: Any) -> Any:
        """The position after a batch."""
        return planned


def measure(place: Path, bundles: int) -> Iterator[tuple[float, float, int, int, int]]:
    """Yield seconds and seconds of processor time of each bundle, and kilobytes of memory, files and bytes after it."""
    # Of rows that are never taken back MAX keeps one value a key: the state stays as it is.
    plan = plan_query(SQL, {"t": SCHEMA}, input_changes="append")
    settings = QuerySettings(FunctionBatches(lambda rows, batch: None))
    query = LocalQuery(plan, lambda *_: RandomRows(bundles), place, settings)
    query.journal.begin(plan, SQL, query._host)
    try:
        for _ in range(1 + SETTLING):
            query.run_batch()
        gc.collect()
        while True:
            began, worked = time.perf_counter(), time.process_time()
            if not query.run_batch():
                return
            took = time.perf_counter() - began, time.process_time() - worked
            files = [each.stat().st_size for each in place.rglob("*") if each.is_file()]
            yield *took, _memory(), len(files), sum(files)
    finally:
        query.journal.end(None)
        query.close()


def _memory() -> int:
    """Kilobytes of memory that the process has now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() // 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bundles", type=int, default=1000)
    parser.add_argument(
        "--directory", help="where the checkpoint lies, on the disk that is measured"
    )
    given = parser.parse_args()
    with TemporaryDirectory(dir=given.directory) as place:
        found = list(measure(Path(place) / "checkpoint", SETTLING + given.bundles))
    print("# A committed bundle on the local engine\n")
    print(
        f"`{SQL}`: {len(found):,} bundles of {ROWS:,} appended rows over {KEYS:,} keys, "
        "each synced to the disk, after\n"
        f"{SETTLING} that do not count. Processor time is of all threads; a busy "
        "machine adds to the time that passes.\n"
    )
    print("| | median, ms | 99th percentile, ms | longest, ms |\n| --- | --- | --- | --- |")
    for name, place in (("processor time", 1), ("time", 0)):
        values = 1e3 * np.array([each[place] for each in found])
        shown = [np.median(values), np.percentile(values, 99), values.max()]
        print(f"| {name} | {' | '.join(f'{each:.1f}' for each in shown)} |")
    print("\n| after | memory, MB | files | MB on the disk |\n| --- | --- | --- | --- |")
    for at in sorted({0, *range(0, len(found), max(1, len(found) // 5)), len(found) - 1}):
        _, _, memory, files, size = found[at]
        print(f"| bundle {at + 1:,} | {memory / 1024:.0f} | {files} | {size / 2**20:.1f} |")


if __name__ == "__main__":
    main()
