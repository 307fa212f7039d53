"""The batch that a thread works for: a table that is read with every batch is read once in it."""

from __future__ import annotations

from collections.abc import Hashable
from itertools import count
from threading import local

_calls = count()
_thread = local()
"""Each query of a process has a thread of its own."""


def working_for(batch: Hashable) -> None:
    """Say which batch the calls of this thread that follow belong to; None: each is one of its own."""
    _thread.batch = batch


def current() -> Hashable:
    """The batch, as something that equals another only if they are the same."""
    batch: Hashable = getattr(_thread, "batch", None)
    return ("call", next(_calls)) if batch is None else batch
