"""The files that a query on Spark has read, by its batches, as far as its checkpoint still says which batch it was."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from aggloom.checkpoint_file import read_text
from aggloom.errors import UnverifiableError
from aggloom.runtime.connectors.files.source_log import list_read_files
from aggloom.runtime.engine.file_log import ListedFile
from aggloom.runtime.hosting.checkpoint_paths import batches
from aggloom.runtime.spark.moving.source_lines import read_lines
from aggloom.runtime.spark.moving.take_over import file_size


def files_by_batch(root: Path) -> tuple[dict[str, list[ListedFile]], int]:
    """The files by table, in the order of batches, and the number of the last batch with input.

    Batches whose offsets Spark has deleted have numbers below those that are there, in the order of one table. Raises
    UnverifiableError where several tables would have to be put in order so.
    """
    lines = read_lines(root) or []
    numbers = batches(root / "offsets")
    offsets = {number: _offsets_of(root, number) for number in numbers}
    last = numbers[-1]
    files_by_source: dict[str, list[ListedFile]] = {}
    for place, line in enumerate(lines):
        logged = {n: _log_number(each[place]) for n, each in offsets.items()}
        if line.table in files_by_source or logged[last] is None:
            continue
        files_by_source[line.table] = []
        for each in list_read_files(root, line.source, int(logged[last] or 0)):
            batch = next(n for n, end in logged.items() if end is not None and each.number <= end)
            if batch == numbers[0] and batch > 0:
                # Earlier ones of this table alone: their order is that of the source's log.
                batch = each.number - int(logged[batch] or 0) + batch
            files_by_source[line.table].append(
                ListedFile(each.path, each.time, file_size(each.path), batch)
            )
    if numbers[0] > 0 and len(files_by_source) > 1:
        raise UnverifiableError(
            f"{root}: Spark has deleted the log of its batches before {numbers[0]}, so that nobody knows which files "
            f"of {', '.join(sorted(files_by_source))} were in one batch. Run the query on with more "
            "spark.sql.streaming.minBatchesToRetain from an empty checkpoint, to be able to verify it."
        )
    with_input = min(number for number in numbers if offsets[number] == offsets[last])
    return files_by_source, with_input


def _offsets_of(root: Path, batch: int) -> list[str]:
    """The lines of a batch in the log of offsets, one for each source."""
    return read_text(root, root / "offsets" / str(batch)).splitlines()[2:]


def _log_number(text: str) -> int | None:
    """The number of a source of files in its own log; None for other sources, and before the first file."""
    offset: Any = json.loads(text) if text != "-" else None
    if isinstance(offset, dict) and set(offset) == {"logOffset"}:
        return int(offset["logOffset"])
    return None
