"""The text of a file that a user names, or a message that says why it cannot be read."""

from __future__ import annotations

from pathlib import Path

from aggloom.errors import AggloomError, SpecError


def read_text(path: Path, error: type[AggloomError] = SpecError, what: str = "") -> str:
    """The text of a file in UTF-8, without the mark that editors of Windows begin it with.

    Raises `error` naming the file, or `what` stands for it.
    """
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as e:
        why = "there is no such file" if isinstance(e, FileNotFoundError) else e.strerror or e
    except UnicodeDecodeError as e:
        why = f"it is not text in UTF-8 (byte {e.object[e.start]:#04x} at {e.start:,})"
    raise error(f"{what or path}: cannot be read: {why}")
