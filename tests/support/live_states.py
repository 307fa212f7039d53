"""Live state of a bucket, left behind and found again."""

from __future__ import annotations

from pathlib import Path

from aggloom.runtime.spark.node.live_state import directory_of, open_live_state
from aggloom.runtime.storage.arena import Arena

QUERY = directory_of("01234567-89ab-cdef-0123-456789abcdef", 0, "0f" * 8, 4)


def leave_live_state(root: Path, token: str, bucket: int = 0, rows: int = 10_000) -> Path:
    """Leave an arena of a large and a small array behind; its directory."""
    with open_live_state(root, QUERY, bucket) as home:
        assert home is not None
        arena = Arena(home.renew())
        arena.array("x", rows, "i8")[:] = 7
        arena.array("small", 100, "i2", 3)[:] = 7
        arena.flush()
        home.mark_clean(token, [arena])
        return home.directory


def takes(root: Path, token: str, bucket: int = 0) -> bool:
    """Tell whether the live state of a bucket is recognised, and can be opened."""
    with open_live_state(root, QUERY, bucket) as home:
        assert home is not None
        if not home.take(token):
            return False
        arena = Arena(home.arena)
        arrays = dict(arena)
        assert list(arrays) == ["small", "x"] and arrays["small"].shape == (100, 3)
        return arena.reopened and all((array == 7).all() for array in arrays.values())
