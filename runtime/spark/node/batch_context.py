"""The batch that a task works for, and the watermark of a last one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from aggloom.runtime.hosting.checkpoint_paths import is_local, local
from aggloom.runtime.lookup.batch import enter_batch
from aggloom.runtime.platform.memory_reuse import keep_memory

if TYPE_CHECKING:
    from pyspark import TaskContext

LAST_WATERMARK = (2**63 - 1) // 1000
"""Spark's watermark, in milliseconds, of a batch after which no row is expected: its last in microseconds."""
_BATCH_ID = "streaming.sql.batchId"
_QUERY_ID = "sql.streaming.queryId"
_KEPT: Final = "spark.sql.streaming.minBatchesToRetain"
_KEPT_BY_DEFAULT: Final = 100
CHECKPOINT_PROPERTY: Final = "aggloom.checkpoint"
"""The property of a query's tasks that has its checkpoint, as the driver sets it where the query starts."""
_PARTS: dict[tuple[str, int], int] = {}


def _task() -> TaskContext | None:
    """The task that runs; None on the driver, and in tests."""
    from pyspark import TaskContext

    return TaskContext.get()


def batch_number() -> int | None:
    """The number of the batch that this task works for; None outside of a streaming query."""
    task = _task()
    number = None if task is None else task.getLocalProperty(_BATCH_ID)
    return None if number is None else int(number)


def query_id() -> str | None:
    """The id of the streaming query that this task works for; None in a batch query and on the driver."""
    task = _task()
    return None if task is None else task.getLocalProperty(_QUERY_ID)


def checkpoint_root() -> Path | None:
    """The checkpoint of the query that this task works for; None where it is not known, or on no local disk."""
    task = _task()
    root = None if task is None else task.getLocalProperty(CHECKPOINT_PROPERTY)
    return local(root) if root is not None and is_local(root) else None


def batches_kept() -> int:
    """The number of batches to which the query of this task may go back, as its setting says."""
    task = _task()
    number = None if task is None else task.getLocalProperty(_KEPT)
    return _KEPT_BY_DEFAULT if number is None else int(number)


def map_partition() -> int:
    """The number of the partition that this task maps; 0 outside of a task."""
    task = _task()
    return 0 if task is None else int(task.partitionId())


def work_for_this_batch() -> None:
    """Let lookup tables that are read with every batch know which one this task works for."""
    task = _task()
    if task is None:
        return
    keep_memory()
    number = batch_number()
    # Without a streaming query a stage is what a batch would be: its tasks see one state of the tables.
    enter_batch(("stage", task.stageId()) if number is None else (query_id(), number))


def part_name(token: str) -> str:
    """The name of what a task writes next to a side table: the same when the task runs again."""
    task = _task()
    if task is None:
        return "0"
    # Tasks of one stage may run one after the other in this worker: an attempt's own number distinguishes them.
    attempt = (token, int(task.taskAttemptId()))
    part = _PARTS.get(attempt, -1) + 1
    # A worker runs one task at a time; those before are over.
    for old in [each for each in _PARTS if each[1] != attempt[1]]:
        del _PARTS[old]
    _PARTS[attempt] = part
    return f"{query_id() or 'batch'}-{batch_number() or 0}-{map_partition()}-{part}"
