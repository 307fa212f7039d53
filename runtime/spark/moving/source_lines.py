"""The tables that the lines of Spark's log of offsets are of, in a file of the checkpoint.

Spark numbers the sources of a query in the order in which its plan reads them, and names none of them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.sql import DataFrame

from aggloom.checkpoint_file import read_file, replace_file
from aggloom.runtime.hosting.checkpoint_paths import corrupt, is_local, local
from aggloom.runtime.spark.plan.lower import SparkLowering
from aggloom.runtime.spark.sessions.session import is_here
from aggloom.runtime.storage.checksums import with_checksum, without_checksum

SOURCES_FILE = "aggloom-sources.json"


class SourceLine(NamedTuple):
    """A line of the log: the table, and the number of the source, which two lines may share."""

    table: str
    source: int


def find_lines(df: DataFrame, lowering: SparkLowering) -> list[SourceLine] | None:
    """The lines of a query that is to start; None over Connect, and where a table is made from several streams."""
    if not is_here(df.sparkSession):
        return None
    frame: Any = df
    leaf_list = frame._jdf.queryExecution().analyzed().collectLeaves()
    leaves = [leaf for leaf in map(leaf_list.apply, range(leaf_list.size())) if leaf.isStreaming()]
    if len(leaves) != len(lowering.scans):
        return None
    # Spark reads equal leaves of a plan as one source, which has one line.
    numbers = [next(n for n, other in enumerate(leaves) if other.equals(leaf)) for leaf in leaves]
    sources = sorted(set(numbers))
    pairs = zip(lowering.scans, numbers, strict=True)
    return [SourceLine(table, sources.index(number)) for table, number in pairs]


def note_lines(checkpoint: str | Path, df: DataFrame, lowering: SparkLowering) -> None:
    """Note in a local checkpoint which tables the lines of a query are of."""
    lines = find_lines(df, lowering) if is_local(checkpoint) else None
    if lines is None:
        return
    root = local(checkpoint)
    text = with_checksum(json.dumps(lines))
    file = root / SOURCES_FILE
    root.mkdir(parents=True, exist_ok=True)
    if not file.is_file() or read_file(root, file) != text.encode():
        replace_file(file, text)


def read_lines(root: Path) -> list[SourceLine] | None:
    """The lines that a checkpoint has noted; None without a note. Raises StateCorruptError."""
    file = root / SOURCES_FILE
    if not file.is_file():
        return None
    try:
        data = json.loads(without_checksum(read_file(root, file)))
        return [SourceLine(str(table), int(source)) for table, source in data]
    except (ValueError, TypeError, RecursionError) as error:
        raise corrupt(f"{SOURCES_FILE} is damaged: {error}") from None
