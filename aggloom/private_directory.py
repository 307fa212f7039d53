"""Directories from which code may be loaded: only those in which nobody else can write.

Python loads compiled code from `__pycache__` beside a module, and Numba unpickles what it keeps there or in a cache
of its own. A directory in which others may create files is therefore not allowed for modules, sticky or not.

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
    """Raise GeneratedSourceError unless a module or directory, with its `__pycache__`, is the user's or root's.

    Links are followed: what they lead to, and all directories on both ways, must be such that nobody else can put
    something else there.
    """
    # Windows has no owner and no modes in this sense.
    if not hasattr(os, "getuid"):
        return
    directory = place if place.is_dir() else place.parent
    compiled = directory / "__pycache__"
    loaded = [place, directory, compiled]
    if place != directory:
        # Python prefers a file in `__pycache__` to the source, so whoever may write there decides what runs. Only those
        # of this module are asked: the directory may have files of others.
        prefix = f"{place.stem}."
        # Texts, not paths: a cache has thousands of files.
        names = os.listdir(compiled) if compiled.is_dir() else ()  # noqa: PTH208
        loaded += [compiled / name for name in names if name.startswith(prefix)]
    for each in dict.fromkeys(loaded):
        if each.exists():
            _refuse(each)
            if each.is_symlink():
                _refuse(each.resolve())
    for above in dict.fromkeys((*directory.absolute().parents, *directory.resolve().parents)):
        if above.exists():
            _refuse_above(directory, above.stat(), above)


def own_directory(chosen: Path) -> Path:
    """A directory for code of the user alone, made if it is not there; raises GeneratedSourceError for others' ones.

    It is `chosen`, or where anyone may make files there, as in /tmp, a directory of the user's own in it.
    """
    chosen.mkdir(parents=True, exist_ok=True, mode=0o700)
    own = chosen
    if hasattr(os, "getuid") and chosen.stat().st_mode & stat.S_IWOTH:
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


def _refuse_above(directory: Path, status: os.stat_result, above: Path) -> None:
    """Raise GeneratedSourceError if others can put another directory in the place of one that lies in `above`."""
    if status.st_uid not in _owners():
        raise GeneratedSourceError(
            f"{directory} is in {above}, which belongs to another user; {_OWN}"
        )
    if status.st_mode & stat.S_ISVTX:
        return
    if status.st_mode & stat.S_IWOTH:
        raise GeneratedSourceError(f"{directory} is in {above}, which anyone can write to; {_OWN}")
    if _is_group_writable(status):
        raise GeneratedSourceError(
            f"{directory} is in {above}, which the group {status.st_gid} can write to; {_OWN}. Run `chmod g-w {above}`"
        )


def _owners() -> tuple[int, ...]:
    """Users whose files are trusted: this one, root, and the owner of `/`: root, by another id in a container."""
    return os.getuid(), 0, Path("/").stat().st_uid


def _refuse(place: Path) -> None:
    status = place.lstat()
    if status.st_uid not in _owners():
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
