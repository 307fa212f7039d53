"""Places that code may be loaded from: only where nobody else can have put it.

Python loads what is compiled from `__pycache__` beside a module, and Numba unpickles what it keeps there or in a cache
of its own. A directory in which others may make files is therefore no place for modules, sticky or not.

Members of a group are others, unless the group is the user's own: that with the user's id, in which systems that make
files group-writable (umask 002) put each user alone, and root's.
"""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

from aggloom.errors import GeneratedSourceError
from aggloom.writable import writing_cache

_OWN = "code is loaded only from your own files and directories"


def refuse_foreign(place: Path) -> None:
    """Raise GeneratedSourceError unless a module or directory, with its `__pycache__`, is the user's or root's."""
    if not hasattr(os, "getuid"):
        return
    directory = place if place.is_dir() else place.parent
    loaded = dict.fromkeys((place, directory, directory / "__pycache__"))
    for each in loaded:
        if each.exists():
            _refuse(each)
    for above in filter(Path.exists, directory.resolve().parents):
        mode = above.stat().st_mode
        if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
            raise GeneratedSourceError(
                f"{directory} is in {above}, which anyone can write to; {_OWN}"
            )


def own_directory(chosen: Path) -> Path:
    """A directory for code of the user alone, made if it is not there.

    It is `chosen`, or where anyone may make files there, as in /tmp, a directory of the user's own in it.
    """
    chosen.mkdir(parents=True, exist_ok=True, mode=0o700)
    if not hasattr(os, "getuid") or not chosen.stat().st_mode & stat.S_IWOTH:
        return chosen
    own = chosen / f"aggloom-{os.getuid()}"
    own.mkdir(exist_ok=True, mode=0o700)
    refuse_foreign(own)
    return own


def cache_directory() -> Path:
    """$AGGLOOM_CACHE, or the user's cache directory, made for the user alone (`own_directory`).

    A user whose home cannot be written, as in images of containers, has one among the temporary files.
    """
    chosen = os.environ.get("AGGLOOM_CACHE")
    if chosen:
        with writing_cache(Path(chosen)):
            return own_directory(Path(chosen))
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    try:
        return own_directory(base / "aggloom")
    except OSError:
        among = Path(tempfile.gettempdir())
        with writing_cache(among):
            return own_directory(among)


def _refuse(place: Path) -> None:
    status = place.lstat()
    if status.st_uid not in (os.getuid(), 0):
        raise GeneratedSourceError(f"{place} belongs to another user; {_OWN}")
    if stat.S_ISLNK(status.st_mode):
        return
    if status.st_mode & stat.S_IWOTH:
        raise GeneratedSourceError(
            f"{place} can be written by anyone; {_OWN}. Move it, or let AGGLOOM_CACHE name another directory"
        )
    if _is_group_writable(status):
        raise GeneratedSourceError(
            f"{place} can be written by the group {status.st_gid}; {_OWN}. Run `chmod g-w {place}`, or "
            "let AGGLOOM_CACHE name another directory"
        )


def _is_group_writable(status: os.stat_result) -> bool:
    return bool(status.st_mode & stat.S_IWGRP) and status.st_gid not in (os.getuid(), 0)
