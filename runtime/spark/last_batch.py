"""The end of finite input: one more batch, without rows, whose watermark is after all times, as Flink's last one is.

The batch is planned where Spark plans its own, in the checkpoint's log of offsets: it reads up to where the last one
read, and has another watermark. Spark runs what is planned and not committed when a query starts, so that a run that is
killed on the way is completed by the next one, and a sink sees the batch under one number.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from aggloom.checkpoint_file import read_file
from aggloom.runtime.hosting.checkpoint_paths import batches, is_local, local
from aggloom.runtime.spark.node.batch_context import LAST_WATERMARK

_WATERMARK, _TIME = "batchWatermarkMs", "batchTimestampMs"
_OF_ANOTHER_KIND = "controlBatchInfo"
"""Says of a batch that it was Spark's own work on the state, which is not done again."""


def plan_last_batch(spark: SparkSession, query: StreamingQuery) -> bool:
    """Plan the batch after which no row is expected; False where there is nothing to close.

    The query has ended by itself. It has nothing to close if it has never run a batch, or if its last one was this.
    """
    execution: Any = query._jsq.streamingQuery()
    log = execution.offsetLog()
    known, done = log.getLatest(), execution.commitLog().getLatestBatchId()
    # A batch without its commit has not ended: Spark repeats it first, at its next start.
    if known.isEmpty() or done.isEmpty() or known.get()._1() != done.get():
        return False
    jvm: Any = spark._jvm
    out = jvm.java.io.ByteArrayOutputStream()
    log.serialize(known.get()._2(), out)
    planned = _at_the_end(bytes(out.toByteArray()).decode())
    if planned is None:
        return False
    offsets = log.deserialize(jvm.java.io.ByteArrayInputStream(planned.encode()))
    return bool(log.add(known.get()._1() + 1, offsets))


def has_ended(checkpoint: str | Path) -> bool:
    """Tell whether a local checkpoint has its last batch behind it, or planned: rows that arrive now are late."""
    if not is_local(checkpoint):
        return False
    root = local(checkpoint)
    newest = max(batches(root / "offsets"), default=None)
    if newest is None:
        return False
    text = read_file(root, root / "offsets" / str(newest)).decode("utf-8", "replace")
    try:
        return bool(_metadata(text).get(_WATERMARK, 0) >= LAST_WATERMARK)
    except (ValueError, IndexError, AttributeError, TypeError):
        return False  # Spark says what is wrong with it.


def _at_the_end(record: str) -> str | None:
    """The record of a batch in the log of offsets, once more for one after all times; None if it is one already."""
    version, _, *offsets = record.split("\n")
    metadata = _metadata(record)
    if metadata[_WATERMARK] >= LAST_WATERMARK:
        return None
    metadata.pop(_OF_ANOTHER_KIND, None)
    metadata[_WATERMARK] = LAST_WATERMARK
    # The machine's clock may have been set back since, and the time of batches must not go back.
    metadata[_TIME] = max(metadata[_TIME], time.time_ns() // 1_000_000)
    return "\n".join([version, json.dumps(metadata), *offsets])


def _metadata(record: str) -> Any:
    return json.loads(record.split("\n")[1])
