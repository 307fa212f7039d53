"""Paths of checkpoints and the numbers of batches in them, for every engine."""

from __future__ import annotations

from pathlib import Path

from aggloom.errors import StateCorruptError

QUERY_FILE = "aggloom-query.json"


def local(path: str | Path) -> Path:
    """A path on a local disk; one that is not there for any other."""
    return Path(str(path).removeprefix("file://").removeprefix("file:"))


def is_local(path: str | Path) -> bool:
    """Tell whether a path is one on this machine, and no file system's of another."""
    return "://" not in str(path) or str(path).startswith("file:")


def batches(directory: Path) -> list[int]:
    """The numbers of the batches that a log of Spark's has."""
    return [int(file.name) for file in directory.glob("*") if file.name.isdigit()]


def corrupt(what: str) -> StateCorruptError:
    """The error for a checkpoint that is damaged."""
    return StateCorruptError(
        f"the checkpoint cannot be used: {what}. "
        "Restore it from a copy, or start over with an empty checkpoint directory."
    )
