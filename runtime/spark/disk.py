"""Paths on the disk of this machine, and all others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from aggloom.runtime.spark.sessions.session import is_local


def local(path: str) -> Path | None:
    """The path on this machine's disk, None for another file system's."""
    scheme, colon, rest = path.partition(":")
    if not colon or "/" in scheme or len(scheme) < 2:
        return Path(path)
    if scheme != "file":
        return None
    return Path("/" + rest.lstrip("/"))


def on_this_disk(spark: Any, path: str) -> bool:
    """Tell whether a path is one of this machine's, and the workers of a session run on it."""
    return local(path) is not None and is_local(spark) and _reads_this_disk(spark, path)


def _reads_this_disk(spark: Any, path: str) -> bool:
    """Tell whether a path without a scheme is one of this machine's for Spark, too."""
    default = spark.sparkContext._jsc.hadoopConfiguration().get("fs.defaultFS") or "file:"
    return path.startswith("file:") or str(default).startswith("file:")
