"""A disk that loses power: what was not synced may be there, in part, or not at all.

What a file holds outlives a loss once the file was synced; that a directory has a name, once the directory was. The
rest is drawn: of each name what it was or what it is, of each file its old bytes, its new ones, or some of them.
"""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest


class Killed(BaseException):
    """The end of a process, played."""


class SimulatedDisk:
    """A directory whose files may be lost. Calls that change it are counted, and a process dies at one of them."""

    def __init__(self, root: Path, draws: random.Random) -> None:
        root.mkdir()
        self.root, self._draws = root.resolve(), draws
        self._left = 0
        self._dead = False
        self._bytes: dict[int, bytes] = {}
        """The content of each file when it was synced, by its inode."""
        self._names: dict[int, dict[str, int]] = {}
        """The inode of each name of a directory that was synced, by the inode of the directory."""
        self._open: dict[int, int] = {}
        """Descriptors of files that have no name any more, so that no other file gets their inodes."""
        self._take_as_synced()

    @contextmanager
    def dying_after(self, calls: int) -> Iterator[None]:
        """Let a process run and die at so many calls that change the disk; Killed is raised then."""
        self._left, self._dead = calls, False
        with pytest.MonkeyPatch.context() as patch:
            for owner, name in ((os, "fsync"), (Path, "unlink"), (Path, "replace")):
                patch.setattr(owner, name, self._watch(getattr(owner, name), name))
            patch.setattr(Path, "mkdir", self._watch(Path.mkdir, "mkdir"))
            yield

    def lose_power(self) -> None:
        """Leave of the directory what outlives a loss of power."""
        now = self._list_names(self.root)
        files = {status.st_ino: path for path, status in self._walk()}
        kept = self._survive(self.root.stat().st_ino, now, files)
        for path in self.root.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        _write(self.root, kept)
        self._take_as_synced()

    def _watch(self, call: Callable[..., Any], name: str) -> Callable[..., Any]:
        """A call that is counted, and noted where it is on this disk; it does nothing once the process is dead."""

        def watched(*given: Any, **named: Any) -> Any:
            path = Path(f"/proc/self/fd/{given[0]}").readlink() if name == "fsync" else given[0]
            if not path.absolute().is_relative_to(self.root):
                return call(*given, **named)
            self._step()
            if name == "fsync":
                self._sync(path)
            else:
                if name != "mkdir":
                    self._keep(Path(given[1]) if name == "replace" else path)
                call(*given, **named)
            self._step()
            return Path(given[1]) if name == "replace" else None

        return watched

    def _step(self) -> None:
        """Count a call; raises Killed at the one at which the process dies, and ever after."""
        self._left -= 1
        self._dead = self._dead or self._left == 0
        if self._dead:
            raise Killed

    def _sync(self, path: Path) -> None:
        status = path.stat()
        if path.is_dir():
            self._names[status.st_ino] = self._list_names(path)
        else:
            self._bytes[status.st_ino] = path.read_bytes()

    def _keep(self, path: Path) -> None:
        """Keep a file that is about to lose its name, under which it may be found after a loss."""
        if path.is_file():
            self._open[path.stat().st_ino] = os.open(path, os.O_RDONLY)

    def _list_names(self, directory: Path) -> dict[str, int]:
        return {each.name: each.stat().st_ino for each in directory.iterdir()}

    def _walk(self) -> Iterator[tuple[Path, os.stat_result]]:
        return ((path, path.stat()) for path in sorted(self.root.rglob("*")))

    def _take_as_synced(self) -> None:
        """Take all that is there for synced, as it is when a machine has started."""
        for descriptor in self._open.values():
            os.close(descriptor)
        self._open.clear()
        self._bytes.clear()
        self._names.clear()
        self._sync(self.root)
        for path, _ in self._walk():
            self._sync(path)

    def _survive(
        self, directory: int, now: dict[str, int], files: dict[int, Path]
    ) -> dict[str, Any]:
        """The bytes, or directories, by name of a directory after a loss. now: its names; files: by inode."""
        synced = self._names.get(directory, {})
        kept: dict[str, Any] = {}
        for name in sorted({*synced, *now}):
            before, after = synced.get(name), now.get(name)
            inode = before if before == after else self._draws.choice([before, after])
            if inode is None:
                continue
            path = files.get(inode)
            if inode in self._names or (path is not None and path.is_dir()):
                names = self._list_names(path) if path is not None else {}
                kept[name] = self._survive(inode, names, files)
            else:
                kept[name] = self._bytes_of(inode, path)
        return kept

    def _bytes_of(self, inode: int, path: Path | None) -> bytes:
        """The content of a file after a loss."""
        synced = self._bytes.get(inode)
        if path is None:
            with os.fdopen(os.dup(self._open[inode]), "rb") as file:
                file.seek(0)
                now = file.read()
        else:
            now = path.read_bytes()
        if now == synced:
            return now
        part = now[: self._draws.randint(0, len(now))]
        return self._draws.choice([synced or b"", now, part, b""])


def _write(directory: Path, kept: dict[str, Any]) -> None:
    """Write files and directories."""
    for name, held in kept.items():
        if isinstance(held, dict):
            (directory / name).mkdir()
            _write(directory / name, held)
        else:
            (directory / name).write_bytes(held)
