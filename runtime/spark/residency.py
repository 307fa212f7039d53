"""Live state that outlives the Python worker: a bucket's arena, memory-mapped in a directory of the host.

Spark gives a bucket to whichever idle worker is next, so state in a worker's own memory would be missed in most
batches. The directory is never trusted, only recognised: its header must hold the token that the state store holds,
no dirty mark and this boot's id. Anything else is deleted and rebuilt from the state store. A lock keeps a zombie
attempt out.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

STALE_SECONDS = 24 * 3600
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def default_root() -> Path:
    """The directory for live state on this host.

    $AGGLOOM_STATE_DIR outlives an executor, so that a restarted one goes on with what it finds. Without it, Spark's
    own local directory is taken, which Spark deletes when the executor ends.
    """
    configured = os.environ.get("AGGLOOM_STATE_DIR")
    if configured:
        return Path(configured)
    of_spark = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0]
    if of_spark:
        return Path(of_spark) / "aggloom"
    return Path(tempfile.gettempdir()) / f"aggloom-{os.getuid()}"


def make_root(root: Path) -> Path:
    """Create the directory, for this user alone, and refuse one that belongs to somebody else."""
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    if root.stat().st_uid != os.getuid():
        raise PermissionError(
            f"state directory {root} belongs to another user; set AGGLOOM_STATE_DIR to one of your own"
        )
    return root


def _boot_id() -> str:
    """What changes when the host restarts: mapped pages that never reached the disk are lost then."""
    return _BOOT_ID.read_text().strip() if _BOOT_ID.exists() else "unknown"


class Residence:
    """One bucket's directory, locked for this process."""

    def __init__(self, directory: Path, lock: int) -> None:
        self.directory = directory
        self._lock = lock

    @property
    def arena(self) -> Path:
        """Where the operator maps its arrays."""
        return self.directory / "arena"

    def holds(self, token: str) -> bool:
        """True if the arena is, whole, the version that `token` names."""
        try:
            found = (self.directory / "token").read_text()
        except OSError:
            return False
        return found == f"{token} {_boot_id()}"

    def mark_dirty(self) -> None:
        """Say that the arena is about to change: until `mark_clean`, nobody will recognise it."""
        (self.directory / "token").unlink(missing_ok=True)

    def mark_clean(self, token: str) -> None:
        """Say that the arena is now the version that `token` names."""
        scratch = self.directory / "token.new"
        scratch.write_text(f"{token} {_boot_id()}")
        scratch.replace(self.directory / "token")

    def wipe(self) -> None:
        """Delete the arena."""
        self.mark_dirty()
        shutil.rmtree(self.arena, ignore_errors=True)

    def release(self) -> None:
        """Give up the lock."""
        os.close(self._lock)


def _try_lock(directory: Path) -> int | None:
    """The descriptor of a bucket directory's lock, or None while another process holds it."""
    descriptor = os.open(directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


@contextlib.contextmanager
def residence(root: Path, owner: str, bucket: int) -> Iterator[Residence | None]:
    """The bucket's directory while the context lasts; None if another attempt has it locked."""
    directory = make_root(root) / owner / str(bucket)
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = _try_lock(directory)
    if lock is None:
        yield None
        return
    home = Residence(directory, lock)
    try:
        yield home
    finally:
        home.release()


def clean_up(root: Path, older_than: float = STALE_SECONDS) -> int:
    """Delete the directories of queries that nobody has touched for a day and nobody holds; how many."""
    deleted = 0
    if not root.is_dir():
        return 0
    for owner in root.iterdir():
        buckets = [path for path in owner.iterdir() if path.is_dir()] if owner.is_dir() else []
        touched = max((path.stat().st_mtime for path in (owner, *buckets)), default=0.0)
        if not owner.is_dir() or time.time() - touched < older_than:
            continue
        locks = [_try_lock(bucket) for bucket in buckets]
        if None not in locks:
            shutil.rmtree(owner, ignore_errors=True)
            deleted += 1
        for lock in locks:
            if lock is not None:
                os.close(lock)
    return deleted
