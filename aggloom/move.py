"""The move of a query's checkpoint from one engine to the other, into a directory that is complete or absent."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import time

from aggloom.durable_files import ASIDE, make_directory, sync_directory, write_whole
from aggloom.errors import CheckpointError, SpecError
from aggloom.job_note import JOB_FILE
from aggloom.runtime.connectors.files.table_file import TABLE_FILE, read_table_file
from aggloom.runtime.engine.checkpoint import LocalCheckpoint
from aggloom.runtime.engine.hand_over import states_of, take_over, write_checkpoint
from aggloom.runtime.hosting.checkpoint_paths import (
    HAND_OVER,
    MOVED_FILE,
    ORIGIN_FILE,
    QUERY_FILE,
    RECEIPTS,
    is_local,
    is_local_checkpoint,
    refuse_moved,
    require_checkpoint,
)
from aggloom.runtime.hosting.journal_files import BEAT_SECONDS, PROGRESS_FILE, read_progress

_BESIDE = (TABLE_FILE, QUERY_FILE, PROGRESS_FILE, JOB_FILE)
"""Files that both engines have in the same form."""
_SILENT_SECONDS = 4 * BEAT_SECONDS


def move_checkpoint(source: Path, target: Path, to: str) -> int:
    """Make `target` the checkpoint of the query at `source`, for another engine; the number of its next batch.

    to: `spark` or `local`. Raises CheckpointError, before anything is written, where the other engine cannot go on, and
    StateCorruptError for damage.
    """
    for path in (source, target):
        if not is_local(str(path)):
            raise SpecError(f"move: {path} is not on this machine; give directories that are")
    # Before the question of whose it is: what was handed over is a checkpoint of neither engine yet.
    if (source / HAND_OVER).is_dir():
        raise CheckpointError(
            f"{source}: it was moved to Spark, which has not begun from it. Delete it, and {MOVED_FILE} in the "
            "directory that it was moved from, to continue there."
        )
    require_checkpoint(source)
    refuse_moved(source)
    _check_target(target)
    here = "local" if is_local_checkpoint(source) else "spark"
    if here == to:
        raise SpecError(f"move: {source} is a checkpoint of --engine {to} already")
    batch = _to_spark(source, target) if to == "spark" else _to_local(source, target)
    return batch + 1


def _check_target(target: Path) -> None:
    """Raise CheckpointError unless the target is an empty directory, or not there yet."""
    if target.exists() and not (target.is_dir() and not any(target.iterdir())):
        raise CheckpointError(
            f"{target}: this is there already. Name a directory that is empty or not there yet."
        )


def _to_spark(source: Path, target: Path) -> int:
    """Write the directory from which Spark begins; the last batch."""
    # Its lock keeps a run out while files are copied; a checkpoint of Spark has none (`_check_rest`).
    with LocalCheckpoint(source) as locked:
        facts = take_over(locked)
        with _made_whole(source, target, facts.batch) as draft:
            _copy_beside(source, draft)
            write_checkpoint(draft / HAND_OVER, facts, states_of(source))
    return facts.batch


def _to_local(source: Path, target: Path) -> int:
    """Write a checkpoint of the local engine; the last batch."""
    try:
        from aggloom.runtime.spark.moving import take_over as spark
    except ImportError:
        raise SpecError(
            "move: the state of a checkpoint of Spark is read by Spark: pip install 'aggloom[spark]', and Java 17"
        ) from None
    _check_rest(source)
    facts = spark.take_over(source)
    with _made_whole(source, target, facts.batch) as draft:
        _copy_beside(source, draft)
        write_checkpoint(draft, facts, spark.states_after(source, facts.batch))
    return facts.batch


def _check_rest(source: Path) -> None:
    """Raise CheckpointError if the query of a checkpoint seems to run: Spark's has no lock."""
    progress = read_progress(source)
    runs = "start" in progress.run and "end" not in progress.run
    if runs and progress.beat is not None and time() - progress.beat < _SILENT_SECONDS:
        raise CheckpointError(
            f"{source}: its query runs, or was killed less than {_SILENT_SECONDS:.0f} seconds ago. Stop it, and wait "
            "so long if it was killed."
        )


def _copy_beside(source: Path, draft: Path) -> None:
    """Copy what both engines have in the same form; raises StateCorruptError for a damaged table."""
    for name in _BESIDE:
        if (source / name).is_file():
            # Read once: a damaged table would be noticed only by the first run of the other engine, when the copy is
            # all there is.
            if name == TABLE_FILE:
                read_table_file(source / name)
            write_whole(draft / name, [(source / name).read_bytes()])
    if (source / RECEIPTS).is_dir():
        shutil.copytree(source / RECEIPTS, draft / RECEIPTS)


@contextmanager
def _made_whole(source: Path, target: Path, batch: int) -> Iterator[Path]:
    """A directory beside the target, which is renamed into its place in the end; what a killed move left goes.

    The source is marked as moved: two runs would write the same batches. The first mark counts only once the target is
    there, so that a kill between any two steps leaves one checkpoint with which the query goes on.
    """
    draft = target.absolute().with_name(target.absolute().name + ASIDE)
    shutil.rmtree(draft, ignore_errors=True)
    make_directory(draft)
    try:
        yield draft
        origin = {"from": str(source.absolute()), "batch": batch}
        # Rename comes after sync: a directory that has its name must have its files, also after a loss of power.
        write_whole(draft / ORIGIN_FILE, [json.dumps(origin).encode()])
        sync_directory(draft)
        _mark(source, target, batch, is_whole=False)
        draft.replace(target.absolute())
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise
    sync_directory(draft.parent)
    _mark(source, target, batch, is_whole=True)


def _mark(source: Path, target: Path, batch: int, is_whole: bool) -> None:
    """Note in a checkpoint that its query continues with another one; is_whole: the other one is there."""
    about = {"to": str(target.absolute()), "batch": batch, "whole": is_whole}
    write_whole(source / MOVED_FILE, [json.dumps(about).encode()])
