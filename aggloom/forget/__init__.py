"""Forget a subject: remove its keys from the state, logs, snapshots and the table of a checkpoint, with a receipt."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from aggloom.errors import SpecError
from aggloom.forget.in_local import forget_in_local
from aggloom.forget.note import ForgottenPart, Receipt
from aggloom.runtime.hosting.checkpoint_paths import (
    FORGET_FILE,
    is_local_checkpoint,
    require_checkpoint,
)

if TYPE_CHECKING:
    from aggloom.job import Job

__all__ = ["ForgottenPart", "Receipt", "forget"]


def forget(
    checkpoint: str | Path, key: Mapping[str, str | None], job: Job | None = None
) -> Receipt:
    """Remove a subject from a checkpoint whose query does not run, and return the receipt.

    key: values by column, as text that is read as the column's type; None is NULL. job: with which the query runs
    (None: as the checkpoint has noted it).

    Raises CheckpointError, before anything is changed, where an operator cannot lose the subject, and SpecError for a
    key that no operator has.
    """
    root = Path(checkpoint)
    if not key:
        raise SpecError("forget: the key has no column; give COLUMN=VALUE")
    if not (root / FORGET_FILE).exists():
        require_checkpoint(root)
    if is_local_checkpoint(root):
        return forget_in_local(root, key, job)
    from aggloom.forget.on_spark import forget_on_spark

    return forget_on_spark(root, dict(key), job)
