"""Faults of a directory for live state, at any moment."""

from __future__ import annotations

import os
import random
import shutil
import time
from collections.abc import Callable
from pathlib import Path

from aggloom.runtime.spark.node.live_state import clean_up, make_room


def disturb(rng: random.Random, root: Path, idle: bool, attic: Path) -> str:
    """Do something to it, and say what. idle: nobody has anything of it mapped. attic: where things wait to come back.

    What is mapped is never cut or written to: no program survives that, or could notice.
    """
    happens = rng.choice(_WHEN_IDLE if idle and rng.random() < 0.5 else _ANY_TIME)
    try:
        happens(rng, root, attic)
    except OSError as e:
        return f"{happens.__name__[1:]}: {e.strerror}"
    return happens.__name__[1:].replace("_", " ")


def lose_pages(rng: random.Random, root: Path) -> None:
    """Lose pages that never reached the disk, as a crash of the host does: nothing shows it."""
    for path in (*root.rglob("*.bin"), *root.rglob("arrays")):
        if rng.random() < 0.5:
            found = path.stat()
            path.write_bytes(bytes(found.st_size))
            os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))


Event = Callable[[random.Random, Path, Path], None]


def _delete_everything(rng: random.Random, root: Path, attic: Path) -> None:
    shutil.rmtree(root, ignore_errors=True)
    if root.is_file():
        root.unlink()


def _empty_a_directory(rng: random.Random, root: Path, attic: Path) -> None:
    for path in _some(rng, root, directories=True).iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def _delete_a_file(rng: random.Random, root: Path, attic: Path) -> None:
    _some(rng, root).unlink()


def _delete_half_of_the_files(rng: random.Random, root: Path, attic: Path) -> None:
    for path in _files(root):
        if rng.random() < 0.5:
            path.unlink()


def _replace_a_file(rng: random.Random, root: Path, attic: Path) -> None:
    path = _some(rng, root)
    other = path.with_suffix(".other")
    other.write_bytes(rng.randbytes(path.stat().st_size))
    other.replace(path)


def _spoil_a_token(rng: random.Random, root: Path, attic: Path) -> None:
    tokens = [path for path in _files(root) if path.name == "token"]
    if tokens:
        other = root / "spoilt"
        other.write_text(rng.choice(["", "{}", "[1]", '{"token": "x"}', "null", "\0" * 90]))
        other.replace(rng.choice(tokens))


def _move_a_bucket_away(rng: random.Random, root: Path, attic: Path) -> None:
    bucket = rng.choice(_buckets(root) or [root / "none"])
    bucket.rename(attic / f"{bucket.parent.name} {bucket.name} {rng.randrange(10**9)}")


def _bring_a_bucket_back(rng: random.Random, root: Path, attic: Path) -> None:
    kept = rng.choice(sorted(attic.iterdir()) or [attic / "no such bucket"])
    owner, bucket, _ = kept.name.split(" ")
    there = root / owner / bucket
    if there.is_dir():
        shutil.rmtree(there)
    kept.rename(there)


def _clean_up(rng: random.Random, root: Path, attic: Path) -> None:
    clean_up(root, older_than=-1)


def _make_room(rng: random.Random, root: Path, attic: Path) -> None:
    make_room(root, rng.choice([0, 1 << 16, 1 << 20]))


def _put_a_file_in_its_place(rng: random.Random, root: Path, attic: Path) -> None:
    shutil.rmtree(root, ignore_errors=True)
    root.write_text("no directory")


def _cut_a_file(rng: random.Random, root: Path, attic: Path) -> None:
    path = _some(rng, root)
    os.truncate(path, rng.randint(0, path.stat().st_size))
    _later(path)


def _write_into_files(rng: random.Random, root: Path, attic: Path) -> None:
    for path in [path for path in _files(root) if rng.random() < 0.3]:
        path.write_bytes(rng.randbytes(path.stat().st_size))
        _later(path)


_ANY_TIME: list[Event] = [
    _delete_everything,
    _empty_a_directory,
    _delete_a_file,
    _delete_half_of_the_files,
    _replace_a_file,
    _spoil_a_token,
    _move_a_bucket_away,
    _bring_a_bucket_back,
    _clean_up,
    _make_room,
]
_WHEN_IDLE: list[Event] = [
    _cut_a_file,
    _write_into_files,
    _write_into_files,
    _put_a_file_in_its_place,
]


def _later(path: Path) -> None:
    """Let it have happened later than a clock tick after what went before."""
    at = time.time_ns() + 10**9
    os.utime(path, ns=(at, at))


def _files(root: Path) -> list[Path]:
    return sorted(path for path in root.rglob("*") if path.is_file())


def _buckets(root: Path) -> list[Path]:
    return sorted(root.glob("*/[0-9]*"))


def _some(rng: random.Random, root: Path, directories: bool = False) -> Path:
    found = sorted(p for p in root.rglob("*") if p.is_dir()) if directories else _files(root)
    return rng.choice(found or [root / "none"])
