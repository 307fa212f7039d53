"""Paths of checkpoints and the numbers of batches in them, for every engine."""

from __future__ import annotations

import json
from pathlib import Path

from aggloom.errors import CheckpointError, StateCorruptError

QUERY_FILE = "aggloom-query.json"
LOCAL_MARK_FILE = "aggloom-local.json"
"""The file that a checkpoint of the local engine has, and one of Spark's has not."""
HAND_OVER = "aggloom-handover"
"""The directory of a checkpoint that was moved from the local engine, until Spark has begun from it."""
MOVED_FILE = "aggloom-moved.json"
"""The file that says of a checkpoint that another one continues with its query."""
ORIGIN_FILE = "aggloom-origin.json"
"""The file that says of a checkpoint that the other engine began its query: up to which batch, and where that lay."""
STATE_FILES = "aggloom-state"
"""The directory of a checkpoint of Spark's that has the large rows of its state."""
FORGET_FILE = "aggloom-forget.json"
"""The file that a checkpoint has while a subject is being forgotten."""
RECEIPTS = "receipts"
"""The directory of a checkpoint that has the receipts of subjects that were forgotten."""
_LOCAL_DIRECTORIES = ("plans", "commits", "snapshots")


def local(path: str | Path) -> Path:
    """A path on a local disk; one that is not there for any other."""
    return Path(str(path).removeprefix("file://").removeprefix("file:"))


def is_local(path: str | Path) -> bool:
    """Tell whether a path is one on this machine, and no file system's of another."""
    return "://" not in str(path) or str(path).startswith("file:")


def is_local_checkpoint(root: Path) -> bool:
    """Tell whether a directory is a checkpoint of the local engine, also where its mark is missing."""
    if (root / LOCAL_MARK_FILE).is_file():
        return True
    return all((root / name).is_dir() for name in _LOCAL_DIRECTORIES)


def refuse_local_checkpoint(checkpoint: str | Path) -> None:
    """Raise CheckpointError for a checkpoint of the local engine, which Spark does not read."""
    if is_local(checkpoint) and is_local_checkpoint(local(checkpoint)):
        raise CheckpointError(
            f"{checkpoint}: this is a checkpoint of the local engine. Run the query with --engine local (aggloom.local "
            f"in Python), or move it: aggloom move {checkpoint} NEW --to spark."
        )


def refuse_repartition(checkpoint: Path) -> None:
    """Raise CheckpointError for a checkpoint of the local engine, which has no partitions."""
    if is_local_checkpoint(checkpoint):
        raise CheckpointError(
            f"{checkpoint}: this is a checkpoint of the local engine, which has no partitions: its buckets run on as "
            "many threads as there are cores. To run on more machines, move it: aggloom move "
            f"{checkpoint} NEW --to spark."
        )


def refuse_moved(root: Path) -> None:
    """Raise CheckpointError for a checkpoint whose query goes on elsewhere: two would write the same batches."""
    if _is_moved(root / MOVED_FILE):
        raise CheckpointError(
            f"{root}: this checkpoint was moved, and the query goes on with the new one ({MOVED_FILE} says where). To "
            f"go on with this one, delete the new one, then {MOVED_FILE}."
        )


def refuse_unfinished(root: Path) -> None:
    """Raise CheckpointError where a subject is half forgotten: the sink may lack rows that the state has."""
    if (root / FORGET_FILE).exists():
        raise CheckpointError(
            f"{root}: forgetting a subject was interrupted. Run `aggloom forget {root}` once more with the same --key; "
            "it goes on where it stopped."
        )


def _is_moved(mark: Path) -> bool:
    """Tell whether the mark of a move counts; one from before the new checkpoint was there does not without it."""
    try:
        about = json.loads(mark.read_text("utf-8"))
    except FileNotFoundError:
        return False
    except ValueError:
        return True  # Damaged: whoever looks at both decides.
    # A mark that names a checkpoint which was never written is of a move that failed: the query may go on here.
    return bool(about.get("whole", True)) or Path(str(about.get("to"))).exists()


def require_directory(path: str | Path) -> None:
    """Raise CheckpointError if a path on this machine is no directory."""
    if is_local(path) and not local(path).is_dir():
        raise CheckpointError(f"{path}: there is no such directory.")


def require_checkpoint(path: str | Path) -> None:
    """Raise CheckpointError if a path on this machine is no checkpoint of a query that has begun, on any engine."""
    require_directory(path)
    root = local(path)
    if not is_local(path) or is_checkpoint(root):
        return
    if (root / HAND_OVER).is_dir():
        raise CheckpointError(
            f"{path}: this checkpoint was moved from the local engine, and Spark has not begun from it yet. Run the "
            "query with --engine spark; until then the checkpoint that it was moved from can be looked at."
        )
    below = sorted(each.name for each in root.iterdir() if each.is_dir() and is_checkpoint(each))
    hint = f" There are some below it: {', '.join(below)}." if below else ""
    raise CheckpointError(
        f"{path}: there is no checkpoint in it. Give the directory that the query has as its checkpointLocation "
        f"(`aggloom run --checkpoint`).{hint}"
    )


def is_checkpoint(root: Path) -> bool:
    """Tell whether a directory is a checkpoint of a query that has begun, on any engine."""
    return is_local_checkpoint(root) or (root / "offsets").is_dir()


def batches(directory: Path) -> list[int]:
    """The numbers of the batches that a directory of a checkpoint has files of, in order."""
    return sorted(int(file.name) for file in directory.glob("*") if file.name.isdigit())


def corrupt(what: str) -> StateCorruptError:
    """The error for a checkpoint that is damaged."""
    return StateCorruptError(
        f"the checkpoint cannot be used: {what}. "
        "Restore it from a copy, or start over with an empty checkpoint directory."
    )
