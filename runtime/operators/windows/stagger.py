"""Offsets by which the windows of a bucket are moved, so that not all fire at once."""

from __future__ import annotations

import zlib

import numpy as np

from aggloom.codegen.windows import Aligned, to_local


def stagger_offset(assigner: Aligned, now: int, digest: str, bucket: int) -> int:
    """The milliseconds that a bucket's windows are late by, whose first row arrived at `now`.

    random: by the query and the bucket, so that a restart finds the same; natural: as far as that is
    past a multiple of the size, so that without an offset the first row starts a window.
    """
    kind = getattr(assigner, "stagger", "aligned")
    if kind == "random":
        return zlib.crc32(f"{digest} {bucket}".encode()) % assigner.size_ms
    if kind == "natural":
        local = to_local(np.array([now], np.int64), assigner.zone)
        return int(local[0] % assigner.size_ms)
    return 0
