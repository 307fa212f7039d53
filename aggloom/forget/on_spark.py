"""Forgetting on Spark: the query moves to the local engine, forgets there, and moves back into its own directory.

Spark's store keeps old versions of the state in files of its own, from which nothing can be removed. A move makes new
files. Meanwhile there are two directories beside the checkpoint, whose names end in `.forgetting` and `.forgotten`.
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aggloom.durable_files import make_directory, sync_directory, write_whole
from aggloom.errors import CheckpointError, SpecError
from aggloom.forget.in_local import forget_in_local
from aggloom.forget.note import Intent, Receipt, list_files, list_receipts, read_intent, sha256_of
from aggloom.job_frames import changes_of, settings_of
from aggloom.job_note import noted_job
from aggloom.move import move_checkpoint
from aggloom.runtime.connectors.files.table_file import TABLE_FILE
from aggloom.runtime.hosting.checkpoint_paths import (
    FORGET_FILE,
    HAND_OVER,
    MOVED_FILE,
    RECEIPTS,
    STATE_FILES,
    is_local,
    refuse_moved,
)
from aggloom.runtime.hosting.recent_changes import drop_changes

if TYPE_CHECKING:
    from aggloom.job import Job

_OLD_STATE = ("state", STATE_FILES, "offsets", "commits", "sources")
_NEW_STATE = ("state/", f"{STATE_FILES}/", "offsets/", "commits/", "sources/", TABLE_FILE)


def forget_on_spark(root: Path, key: dict[str, str | None], job: Job | None) -> Receipt:
    """Remove a subject from a checkpoint of Spark's whose query does not run, and return the receipt.

    Raises as `aggloom.forget`, of which it is the part for Spark.
    """
    if not is_local(str(root)):
        raise CheckpointError(
            f"{root}: forgetting needs the checkpoint on this machine. Copy it here, forget, and copy it back."
        )
    intent = read_intent(root, key)
    if intent is None:
        refuse_moved(root)
    job = job or noted_job(root)
    # Absolute: Spark keeps whole paths of its files.
    root = root.absolute()
    spark = _open_session(root, job)
    if intent is None:
        intent = Intent(dict(key))
        _check_free(root)
        intent.write(root)
    # Each step is noted before the next begins: a second call skips those that are done.
    if intent.batch < 0:
        intent.batch = _forget_aside(root, key, job).batch
        intent.write(root)
    if (root / MOVED_FILE).exists():
        _put_back(root, intent, job, spark)
    for directory in (_local(root), _moved_back(root)):
        shutil.rmtree(directory, ignore_errors=True)
    (root / FORGET_FILE).unlink()
    sync_directory(root)
    return list_receipts(root)[f"forget-{intent.batch}.json"]


def _local(root: Path) -> Path:
    """The checkpoint of the local engine in which the subject is forgotten."""
    return root.with_name(f"{root.name}.forgetting")


def _moved_back(root: Path) -> Path:
    """The directory from which Spark begins."""
    return root.with_name(f"{root.name}.forgotten")


def _check_free(root: Path) -> None:
    """Raise CheckpointError where a directory stands that forgetting needs."""
    for directory in (_local(root), _moved_back(root)):
        if directory.exists():
            raise CheckpointError(
                f"{directory}: this is there already, and forgetting needs the place. Delete or rename it."
            )


def _open_session(root: Path, job: Job) -> Any:
    """The session that is there, or a new one; raises CheckpointError for one of a cluster."""
    from aggloom.runtime.spark.sessions.command_session import session_to_run
    from aggloom.runtime.spark.sessions.session import is_local as is_on_one_machine

    with session_to_run("aggloom forget", True, **settings_of([job])) as session:
        spark = session()
    if not is_on_one_machine(spark):
        raise CheckpointError(
            f"{root}: the workers of a cluster do not see the directories of a move. Forget in a session with "
            "master=local[*]; the cluster goes on from there."
        )
    return spark


def _forget_aside(root: Path, key: dict[str, str | None], job: Job) -> Receipt:
    """Forget in a copy of the checkpoint that is one of the local engine; a refusal leaves all as it was."""
    local_copy = _local(root)
    if not local_copy.exists():
        refuse_moved(root)
    try:
        if not local_copy.exists():
            move_checkpoint(root, local_copy, "local")
        # A kill may have come after the subject was forgotten, and before that was noted.
        before, after = list_receipts(root), list_receipts(local_copy)
        new = [receipt for name, receipt in after.items() if name not in before]
        # A receipt is written before the note is deleted: with both, the second call has to finish.
        is_done = bool(new) and not (local_copy / FORGET_FILE).exists()
        return new[0] if is_done else forget_in_local(local_copy, key, job)
    except (CheckpointError, SpecError):
        if not (local_copy / FORGET_FILE).exists():
            shutil.rmtree(local_copy, ignore_errors=True)
            (root / MOVED_FILE).unlink(missing_ok=True)
            (root / FORGET_FILE).unlink()
        raise


def _put_back(root: Path, intent: Intent, job: Job, spark: Any) -> None:
    """Have Spark make its checkpoint anew, in the same directory, and write the receipt; a second call begins anew."""
    from aggloom.runtime.spark.moving.begin import begin_handed_over
    from aggloom.runtime.spark.moving.source_lines import note_lines
    from aggloom.runtime.spark.plan.lower import find_lowering

    aside, back = _local(root), _moved_back(root)
    name = f"forget-{intent.batch}.json"
    receipt = list_receipts(aside)[name]
    # A killed call may have marked the copy as moved; the move begins anew, and would be refused.
    (aside / MOVED_FILE).unlink(missing_ok=True)
    shutil.rmtree(back, ignore_errors=True)
    move_checkpoint(aside, back, "spark")
    shutil.rmtree(root / HAND_OVER, ignore_errors=True)
    (back / HAND_OVER).replace(root / HAND_OVER)
    if (back / TABLE_FILE).exists():
        write_whole(root / TABLE_FILE, [(back / TABLE_FILE).read_bytes()])
    drop_changes(root)
    # Counted before Spark writes its new state over them.
    old = sum(1 for each in _OLD_STATE for _ in list_files(root / each))
    changes = changes_of(spark, job)
    lowering = find_lowering(changes)
    begin_handed_over(changes, lowering, root)
    assert lowering is not None, "begin_handed_over refuses it"
    note_lines(root, changes, lowering)
    checksums = {
        name: sha256_of(root / name)
        for name in sorted(str(each.relative_to(root)) for each in list_files(root))
        if name.startswith(_NEW_STATE)
    }
    final = replace(receipt, checkpoint=str(root), checksums=checksums, deleted=old)
    make_directory(root / RECEIPTS)
    write_whole(root / RECEIPTS / name, [final.to_json().encode()])
    (root / MOVED_FILE).unlink()
