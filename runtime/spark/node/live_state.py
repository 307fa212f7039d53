"""Live state that outlives the Python worker: a bucket's arena, memory-mapped in a directory of the host.

Spark gives a bucket to whichever idle worker is next, so state in a worker's own memory would be missed in most
batches. The directory is never trusted, only recognised: its token must name the version that the state store holds,
this boot of the host, and every file as it was left. Anything else is deleted and rebuilt from the state store. A lock
keeps a zombie attempt out.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import logging
import os
import re
import shutil
import tempfile
import time
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

from aggloom.errors import OptionError
from aggloom.runtime.storage.arena import Identity
from aggloom.runtime.storage.checksums import with_checksum, without_checksum, write_anew

STALE_SECONDS = 24 * 3600
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_TOKEN, _LOCK = "token", "lock"
_DOOMED = ".deleted-"
_OWNER = re.compile(r"[0-9a-f-]{36}-\d+-[0-9a-f]+-\d+")
_SIZE = re.compile(r"(\d+)\s*([kmgt]?)(i?b)?", re.IGNORECASE)
_UNITS = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}
_ATTEMPTS = 16

_log = logging.getLogger("aggloom")
_warned: set[tuple[Path, str]] = set()
_growth: dict[Path, int] = {}


class Mapped(Protocol):
    """The operator as an arena needs it: where it says what its files hold, if they hold all of it."""

    listing: tuple[Path, Identity] | None

    @property
    def nbytes(self) -> int: ...


def default_root() -> Path:
    """The directory for live state on this host.

    $AGGLOOM_STATE_DIR outlives an executor, so that a restarted one continues with what it finds. Without it, Spark's
    own local directory is taken, which Spark deletes when the executor ends.
    """
    configured = os.environ.get("AGGLOOM_STATE_DIR")
    if configured:
        # The first of Spark's directories: a bucket's worker must find the same one again.
        return Path(configured)
    of_spark = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0]
    if of_spark:
        return Path(of_spark) / "aggloom"
    return Path(tempfile.gettempdir()) / f"aggloom-{os.getuid()}"


def directory_of(query: str, place: int, digest: str, buckets: int) -> str:
    """The name of the directory for one operator of a query."""
    return f"{query}-{place}-{digest}-{buckets}"


def make_root(root: Path) -> Path:
    """Create the directory, for this user alone, and refuse one that belongs to somebody else."""
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    me = os.getuid()
    # Links are followed by `stat`: both the link and what it leads to have to be ours, or root's.
    if root.stat().st_uid != me or root.lstat().st_uid not in (me, 0):
        raise PermissionError(errno.EACCES, "belongs to another user", str(root))
    return root


def _boot_id() -> str | None:
    """Return the id that changes when the host restarts: mapped pages that never reached the disk are lost then."""
    return _BOOT_ID.read_text().strip() if _BOOT_ID.exists() else None


class LiveState:
    """One bucket's directory, locked for this process.

    An arena lies in a directory of its own in it, which no two attempts ever share.
    """

    def __init__(self, directory: Path, lock: int) -> None:
        self.directory = directory
        self._lock = lock
        self._arena, self._size = "", 0
        self.grown = 0
        """Number of bytes by which the arena has grown."""

    @property
    def arena(self) -> Path:
        """Return the directory in which the operator maps its arrays."""
        return self.directory / self._arena

    def holds(self, token: str) -> bool:
        """True if the arena is, whole, the version that `token` names."""
        try:
            token_data = json.loads(without_checksum((self.directory / _TOKEN).read_bytes()))
            # Without a boot id nobody knows whether mapped pages ever reached the disk.
            if (token_data["token"], token_data["boot"]) != (token, _boot_id()) or token_data[
                "boot"
            ] is None:
                return False
            for listing, identity in token_data["listings"]:
                if Identity.of(self.directory / listing) != Identity(*identity):
                    return False
            self._arena, self._size = token_data["arena"], token_data["size"]
        except (OSError, ValueError, TypeError, KeyError):
            return False
        return True

    def take(self, token: str) -> bool:
        """Tell whether it `holds` a token, and if so hand the arena to the caller to change: until `mark_clean`, nobody
        will recognise it."""
        try:
            is_whole = self.holds(token)
            # Marked even if it is not whole: whatever happens to it from here on, nobody may take it for a version.
            self.mark_dirty()
        except OSError:
            return False
        return is_whole

    def renew(self) -> Path | None:
        """A directory for a new arena, in which nothing ever was; None if it cannot be had."""
        try:
            self.wipe()
        except OSError:
            return None
        self._arena, self._size = f"arena-{uuid.uuid4().hex[:12]}", 0
        return self.arena

    def mark_dirty(self) -> None:
        """Say that the arena is about to change: until `mark_clean`, nobody will recognise it."""
        (self.directory / _TOKEN).unlink(missing_ok=True)

    def mark_clean(self, token: str, arenas: Sequence[Mapped]) -> None:
        """Say that the arenas are now the version that `token` names, unless part of it is elsewhere."""
        places = []
        # An array in memory alone: the files are not the whole state.
        for arena in arenas:
            if arena.listing is None:
                return
            path, identity = arena.listing
            places.append((str(path.relative_to(self.directory)), identity))
        # What the files take was seen before the batch: only growth since then can make room scarce.
        size = sum(arena.nbytes for arena in arenas)
        self.grown = max(0, size - self._size)
        token_data = {
            "token": token,
            "boot": _boot_id(),
            "arena": self._arena,
            "size": size,
            "listings": places,
        }
        # Somebody may have deleted the directory; it is only a cache.
        with contextlib.suppress(OSError):
            write_anew(self.directory / _TOKEN, with_checksum(json.dumps(token_data)).encode())

    def wipe(self) -> None:
        """Delete every arena that there is."""
        self.mark_dirty()
        for path in self.directory.iterdir():
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)

    def release(self) -> None:
        """Give up the lock."""
        os.close(self._lock)


@contextlib.contextmanager
def open_live_state(
    root: Path, owner: str, bucket: int, limit: int | None = None
) -> Iterator[LiveState | None]:
    """The bucket's directory while the context lasts; None if another attempt has it locked, or if there can be none.

    limit: as in `make_room`, which is called once the directory has grown by a hundredth of it.
    """
    try:
        live = _enter(make_root(root) / owner / str(bucket))
    except OSError as e:
        _warn(
            root,
            f"live state in {root}: {e.strerror or e}; it stays in memory, and is rebuilt for each batch. "
            "Set AGGLOOM_STATE_DIR to a directory of your own that can be written.",
        )
        live = None
    if live is None:
        yield None
        return
    try:
        yield live
    finally:
        live.release()
        with contextlib.suppress(OSError):
            _grew(root, live.grown, limit)


def _enter(directory: Path) -> LiveState | None:
    """The live state in a directory, made if need be; None while somebody else has it."""
    for _ in range(_ATTEMPTS):
        # A clean-up may delete it between any two of these.
        with contextlib.suppress(FileNotFoundError):
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            # Not a blocking lock: a zombie attempt may hold it for long, and memory does as well.
            lock = _try_lock(directory, os.O_CREAT)
            return None if lock is None else LiveState(directory, lock)
    return None


def _try_lock(directory: Path, create: int = 0) -> int | None:
    """The descriptor of a bucket directory's lock, or None while another process holds it.

    Raises FileNotFoundError if the directory, or without O_CREAT the lock, is not there.
    """
    path = directory / _LOCK
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | create, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # The lock of a file that has been deleted meanwhile keeps nobody out.
            if os.path.samestat(os.fstat(descriptor), path.stat()):
                return descriptor
        except BlockingIOError:
            os.close(descriptor)
            return None
        except FileNotFoundError:
            pass
        except OSError:
            os.close(descriptor)
            raise
        os.close(descriptor)


def default_limit() -> int | None:
    """Return the bytes that live state may take on this host, by $AGGLOOM_STATE_LIMIT; None: see `make_room`."""
    configured = os.environ.get("AGGLOOM_STATE_LIMIT")
    return size_of(configured) if configured else None


def size_of(size: str | int) -> int:
    """A number of bytes, given as one or with a unit, such as 20g.

    Raises OptionError.
    """
    match = _SIZE.fullmatch(str(size).strip())
    if match is None:
        raise OptionError(
            f"state limit {size!r} is no size; give a number of bytes, or one such as 500m or 20g"
        )
    return int(match[1]) << _UNITS[match[2].lower()]


def _free(root: Path) -> int:
    """The free bytes of the file system that a directory is on, or would be."""
    for place in (root, *root.parents):
        with contextlib.suppress(FileNotFoundError):
            return shutil.disk_usage(place).free
    return 0


def make_room(root: Path, limit: int | None = None) -> int:
    """Delete what was not used for longest until live state takes no more than `limit` bytes; how many buckets.

    Without a limit it may take half of what its file system would have free without it. What somebody holds stays.
    """
    buckets = []
    for bucket in (bucket for owner in _owners(root) for bucket in _buckets(owner)):
        with contextlib.suppress(OSError):
            buckets.append((bucket.stat().st_mtime_ns, _size(bucket), bucket))
    total = sum(size for _, size, _ in buckets)
    if limit is None:
        limit = (total + _free(root)) // 2
    deleted = 0
    # Oldest first, by the time of the last write into the directory.
    for _, size, bucket in sorted(buckets):
        if total <= limit:
            break
        if _delete(bucket):
            total -= size
            deleted += 1
    if deleted:
        _warn(
            root,
            f"live state in {root} is over its limit of {limit:,} bytes: {deleted} buckets were deleted, and are "
            "rebuilt when they are needed. Raise AGGLOOM_STATE_LIMIT, or set AGGLOOM_STATE_DIR to a larger disk.",
        )
    return deleted


def _grew(root: Path, more: int, limit: int | None) -> None:
    """Make room where live state has grown by much since this process looked last."""
    if not more:
        return
    _growth[root] = _growth.get(root, 0) + more
    # Looking at all directories takes time: only once a hundredth has been added.
    if 100 * _growth[root] > (_free(root) if limit is None else limit):
        _growth[root] = 0
        make_room(root, limit)


def clean_up(root: Path, older_than: float = STALE_SECONDS) -> int:
    """Delete the directories of queries that nobody has touched for a day and nobody holds; how many."""
    deleted = 0
    for rest in _entries(root):
        # A clean-up that was cut short left renamed directories, which nobody can want.
        if rest.name.startswith(_DOOMED):
            shutil.rmtree(rest, ignore_errors=True)
    for owner in _owners(root):
        with contextlib.suppress(OSError):
            buckets = _buckets(owner)
            touched = max(path.stat().st_mtime for path in (owner, *buckets))
            if time.time() - touched < older_than:
                continue
            for bucket in buckets:
                _delete(bucket)
            owner.rmdir()
            deleted += 1
    return deleted


def _delete(bucket: Path) -> bool:
    """Delete a bucket's directory unless somebody holds it; renamed first, so that nobody ever meets half of it."""
    doomed = bucket.parent.parent / f"{_DOOMED}{uuid.uuid4().hex}"
    try:
        lock = _try_lock(bucket)
        if lock is None:
            return False
        try:
            bucket.rename(doomed)
        finally:
            os.close(lock)
    except OSError:
        return False
    shutil.rmtree(doomed, ignore_errors=True)
    return True


def _owners(root: Path) -> list[Path]:
    """The directories of queries; whatever else lies there is not ours."""
    return [path for path in _entries(root) if _OWNER.fullmatch(path.name) and _is_ours(path)]


def _buckets(owner: Path) -> list[Path]:
    """The directories of an operator's buckets; none if there is anything among them that we did not make."""
    buckets = _entries(owner)
    # A foreign entry among them: the directory is left alone as a whole.
    return buckets if all(path.name.isdecimal() and _is_ours(path) for path in buckets) else []


def _is_ours(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _entries(directory: Path) -> list[Path]:
    try:
        return list(directory.iterdir())
    except OSError:
        return []


def _size(directory: Path) -> int:
    """The bytes on disk below a directory."""
    return sum(path.lstat().st_blocks * 512 for path in directory.rglob("*"))


def _warn(root: Path, text: str) -> None:
    """Say it once for each directory and process."""
    if (root, text[:40]) not in _warned:
        _warned.add((root, text[:40]))
        _log.warning(text)
