"""Less garbage collection while many lasting objects are created, which would be scanned in vain."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def pause_collection() -> Iterator[None]:
    """Let Python collect no garbage by itself, unless it does not anyway."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


@contextmanager
def collect_rarely() -> Iterator[None]:
    """Let Python look for garbage once in 50,000 new objects: a command imports a thousand modules, which stay."""
    thresholds = gc.get_threshold()
    gc.set_threshold(50_000, 20, 100)
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
