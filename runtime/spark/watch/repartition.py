"""The number of shuffle partitions of a checkpoint: Spark keeps the one that it was written with until it is rewritten.

Buckets are finer than partitions and their keys do not depend on the number, so that state moves as it is.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from aggloom.checkpoint_file import read_file
from aggloom.errors import AggloomError
from aggloom.runtime.spark.arguments import check_path, check_session
from aggloom.runtime.spark.checkpoint import is_local, local
from aggloom.runtime.spark.failures import explain_failure
from aggloom.runtime.spark.release import SPARK, require

_PARTITIONS = "spark.sql.shuffle.partitions"
_SINCE = (4, 3)


def repartition(spark: SparkSession, checkpoint: str | Path, partitions: int) -> None:
    """Rewrite the state of a checkpoint for another number of shuffle partitions, by Spark's own means.

    The query must not be running, and its last batch must have ended. Where it is started again its buckets are as many
    as before. Raises AggloomError if Spark cannot do it.
    """
    check_session("repartition", spark)
    check_path("repartition", "checkpoint", checkpoint)
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
    batches = [path for path in offsets.glob("*") if path.name.isdigit()]
    if not batches:
        return None
    newest = max(batches, key=lambda path: int(path.name))
    return _partitions_in(_read_text(root, newest))


def batch_before(checkpoint: str | Path, batch: int, spark: SparkSession | None) -> int:
    """The number of the last batch before one that a sink has seen, -1 for none.

    A repartition takes a number as well, and brings no rows to a sink. Spark's log of offsets has it with another
    number of partitions than the batch before, which no batch of a query has. spark: reads what is not on this machine.
    """
    before = batch - 1
    while before > 0:
        now, then = (
            _partitions_in(_offsets(checkpoint, number, spark)) for number in (before, before - 1)
        )
        if now is None or then is None or now == then:
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
    known, asked = partitions_of(checkpoint), spark.conf.get(_PARTITIONS, None)
    if known is None or asked is None or str(known) == asked:
        return ""
    kept = f"{checkpoint} was written with {known} shuffle partitions and keeps them"
    if SPARK < _SINCE:
        return kept
    return f"{kept}; for {asked}, stop the query and run `aggloom repartition {checkpoint} --partitions {asked}`"
