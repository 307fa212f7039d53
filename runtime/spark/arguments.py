"""What public functions are given, looked at before anything is asked of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from aggloom.errors import SpecError


def check_path(call: str, name: str, path: Any) -> None:
    """Raise SpecError unless it is a path, and not an empty one."""
    if not isinstance(path, str | Path) or not str(path):
        raise SpecError(f"{call}: {name} is {path!r}; it must be the path of a directory")
