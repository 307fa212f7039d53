"""The batch that a thread works for: a table that is read with every batch is read once in it."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from itertools import count
from threading import local

_calls = count()
_thread = local()
"""Each query of a process has a thread of its own."""


def enter_batch(batch: Hashable) -> None:
    """Say which batch the calls of this thread that follow belong to; None: each is one of its own."""
    _thread.batch = batch


@contextmanager
def batch_scope(batch: Hashable) -> Iterator[None]:
    """Let the calls of this thread in a `with` block belong to a batch, and those after it to the one of before."""
    outer = getattr(_thread, "batch", None)
    enter_batch(batch)
    try:
        yield
    finally:
        enter_batch(outer)


def current_batch() -> Hashable:
    """The batch, as something that equals another only if they are the same."""
    batch: Hashable = getattr(_thread, "batch", None)
    return ("call", next(_calls)) if batch is None else batch
