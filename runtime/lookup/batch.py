"""The batch that calls work for: a table that is read with every batch is read once in it."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import count

_calls = count()
_batch: ContextVar[Hashable] = ContextVar("aggloom_batch", default=None)
"""Each query of a process has a thread of its own, and gives others that work for it its context."""


def enter_batch(batch: Hashable) -> None:
    """Say which batch the calls of this thread that follow belong to; None: each is one of its own."""
    _batch.set(batch)


@contextmanager
def batch_scope(batch: Hashable) -> Iterator[None]:
    """Let the calls of this thread in a `with` block belong to a batch, and those after it to the one of before."""
    outer = _batch.get()
    enter_batch(batch)
    try:
        yield
    finally:
        enter_batch(outer)


def current_batch() -> Hashable:
    """The batch, as something that equals another only if they are the same."""
    batch = _batch.get()
    return ("call", next(_calls)) if batch is None else batch
