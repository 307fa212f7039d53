"""The number of shuffle partitions of a checkpoint: Spark keeps the one that it was written with until it is rewritten.

Buckets are finer than partitions and their keys do not depend on the number, so that state moves as it is.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from aggloom.checkpoint_file import read_file, replace_file
from aggloom.errors import AggloomError
from aggloom.runtime.hosting.arguments import check_checkpoint
from aggloom.runtime.hosting.checkpoint_paths import batches, corrupt, is_local, local
from aggloom.runtime.spark.arguments import check_session
from aggloom.runtime.spark.checkpoint import REPARTITIONS_FILE
from aggloom.runtime.spark.failures import explain_failure
from aggloom.runtime.spark.release import SPARK, require
from aggloom.runtime.storage.checksums import with_checksum, without_checksum

_PARTITIONS = "spark.sql.shuffle.partitions"
_SINCE = (4, 3)


def repartition(spark: SparkSession, checkpoint: str | Path, partitions: int) -> None:
    """Rewrite the state of a checkpoint for another number of shuffle partitions, by Spark's own means.

    spark: the session. checkpoint: of a query that is not running and whose last batch has ended. partitions: the new
    number. Where it is started again its buckets are as many as before. Raises AggloomError if Spark cannot do it.

    Example: see `write_changes`.
    """
    check_session("repartition", spark)
    check_checkpoint("repartition", checkpoint)
    require("repartition", _SINCE, spark)
    if type(partitions) is not int or partitions < 1:
        raise AggloomError(f"partitions={partitions}: at least one is needed")
    known = partitions_of(checkpoint)
    if known == partitions:
        raise AggloomError(
            f"{checkpoint}: the state has {known} partitions already; start the query as it is"
        )
    manager: Any = getattr(spark, "_streamingCheckpointManager", None)
    if manager is None:
        raise AggloomError("repartition: this takes a classic session, and none over Connect")
    try:
        manager.repartition(str(checkpoint), partitions)
    except Exception as failure:
        # Spark has no class of its own for all of them.
        cause = str(explain_failure(failure)).removeprefix("the query failed: ")
        raise AggloomError(f"{checkpoint} cannot be repartitioned: {cause}") from failure


def partitions_of(checkpoint: str | Path) -> int | None:
    """The number of partitions that a checkpoint's state has; None if there is no state, or none on this machine."""
    root = Path(checkpoint)
    offsets = root / "offsets"
    numbers = batches(offsets)
    return _partitions_in(_read_text(root, offsets / str(max(numbers)))) if numbers else None


def note_repartitions(checkpoint: str | Path) -> None:
    """Note in a local checkpoint the numbers that repartitions took, as Spark's log of offsets still has them.

    A query that runs deletes old records (`spark.sql.streaming.minBatchesToRetain`), so that the log may have lost them
    when a sink asks. What is noted stays as long as the log cannot say otherwise.
    """
    if not is_local(checkpoint):
        return
    root = local(checkpoint)
    numbers = batches(root / "offsets")
    in_log = {each: _partitions_in(_offsets(checkpoint, each, None)) for each in numbers}
    noted = _noted_repartitions(root)
    partitions_by_operator = {
        number
        for number in {*numbers, *noted}
        if number <= max(numbers, default=-1)
        and _is_repartition(in_log.get(number - 1), in_log.get(number), number in noted)
    }
    if partitions_by_operator != noted:
        replace_file(
            root / REPARTITIONS_FILE, with_checksum(json.dumps(sorted(partitions_by_operator)))
        )


def _noted_repartitions(root: Path) -> set[int]:
    """The numbers that a checkpoint's file has; raises StateCorruptError if it is damaged."""
    file = root / REPARTITIONS_FILE
    if not file.is_file():
        return set()
    try:
        numbers = json.loads(without_checksum(read_file(root, file)))
        return {int(number) for number in numbers}
    except (ValueError, TypeError) as error:
        raise corrupt(f"{REPARTITIONS_FILE} is damaged: {error}") from error


def _is_repartition(before: int | None, now: int | None, noted: bool) -> bool:
    """Tell whether a number was a repartition's, by the partitions before and with it; None: not in the log."""
    return noted if before is None or now is None else before != now


def batch_before(checkpoint: str | Path, batch: int, spark: SparkSession | None) -> int:
    """The number of the last batch before one that a sink has seen, -1 for none.

    A repartition takes a number as well, and brings no rows to a sink. Spark's log of offsets has it with another
    number of partitions than the batch before, which no batch of a query has; what the log has deleted since is noted
    in the checkpoint, if that is on this machine. spark: reads what is not.
    """
    noted = _noted_repartitions(local(checkpoint)) if is_local(checkpoint) else set()
    before = batch - 1
    while before > 0:
        then, now = (
            _partitions_in(_offsets(checkpoint, number, spark)) for number in (before - 1, before)
        )
        if not _is_repartition(then, now, before in noted):
            break
        before -= 1
    return before


def _offsets(checkpoint: str | Path, number: int, spark: SparkSession | None) -> str:
    """The record of a batch in Spark's log of offsets; "" if there is none."""
    if is_local(checkpoint):
        root = local(checkpoint)
        file = root / "offsets" / str(number)
        return _read_text(root, file) if file.is_file() else ""
    try:
        assert spark is not None
        rows = spark.read.text(f"{checkpoint}/offsets/{number}").collect()
    except PySparkException:
        return ""
    return "\n".join(row[0] for row in rows)


def _read_text(root: Path, file: Path) -> str:
    return read_file(root, file).decode("utf-8", "replace")


def _partitions_in(offsets: str) -> int | None:
    """The number of partitions in a record of Spark's log of offsets; None if there is none."""
    try:
        _, metadata, *_ = offsets.splitlines()
        return int(json.loads(metadata)["conf"][_PARTITIONS])
    except (ValueError, KeyError, TypeError):
        # Damaged, or written by a Spark that keeps it elsewhere: Spark says more of it.
        return None


def hint(spark: SparkSession, checkpoint: str | Path) -> str:
    """Return the advice on a checkpoint whose partitions are not those of the session; "" if they are."""
    known, configured = partitions_of(checkpoint), spark.conf.get(_PARTITIONS, None)
    if known is None or configured is None or str(known) == configured:
        return ""
    sentence = f"{checkpoint} was written with {known} shuffle partitions and keeps them"
    if SPARK < _SINCE:
        return sentence
    fix = f"`aggloom repartition {checkpoint} --partitions {configured}`"
    return f"{sentence}; for {configured}, stop the query and run {fix}"
