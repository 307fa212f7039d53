"""The batch that a task works for, and the watermark of a last one."""

from __future__ import annotations

from aggloom.runtime.lookup.batch import enter_batch
from aggloom.runtime.platform.memory_reuse import keep_memory

LAST_WATERMARK = (2**63 - 1) // 1000
"""Spark's watermark, in milliseconds, of a batch after which no row is expected: its last in microseconds."""
_BATCH_ID = "streaming.sql.batchId"
_QUERY_ID = "sql.streaming.queryId"
_PARTS: dict[tuple[str, int], int] = {}


def batch_number() -> int | None:
    """The number of the batch that this task works for; None outside of a streaming query."""
    from pyspark import TaskContext

    context = TaskContext.get()
    number = context.getLocalProperty(_BATCH_ID) if context else None
    return None if number is None else int(number)


def work_for_this_batch() -> None:
    """Let lookup tables that are read with every batch know which one this task works for."""
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is None:
        return
    keep_memory()
    number, query = batch_number(), context.getLocalProperty(_QUERY_ID)
    # Without a streaming query a stage is what a batch would be: its tasks see one state of the tables.
    enter_batch(("stage", context.stageId()) if number is None else (query, number))


def part_name(token: str) -> str:
    """The name of what a task writes next to a side table: the same when the task runs again."""
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is None:
        return "0"
    # Tasks of one stage may run one after the other in this worker: an attempt's own number tells them apart.
    attempt = (token, int(context.taskAttemptId()))
    part = _PARTS.get(attempt, -1) + 1
    # A worker runs one task at a time; those before are over.
    for old in [each for each in _PARTS if each[1] != attempt[1]]:
        del _PARTS[old]
    _PARTS[attempt] = part
    query, batch = (context.getLocalProperty(name) for name in (_QUERY_ID, _BATCH_ID))
    return f"{query or 'batch'}-{batch or 0}-{context.partitionId()}-{part}"
