"""Spark's own records in a checkpoint, and in the output of its file sink, looked at before a query starts.

Spark writes a checksum beside each of them on a local disk, and does not read it: a batch number in which a bit is
flipped would be another history, and the table wrong without a word. File systems of clusters check by themselves.
"""

from __future__ import annotations

import json
import struct
import zlib
from pathlib import Path
from urllib.parse import unquote, urlparse

from aggloom.errors import StateCorruptError

_RECORDS = ("metadata", "offsets/*", "commits/*", "sources/*/*", "state/*/_*/**/*")
_HEADER = struct.Struct(">4si")
_SUM = struct.Struct(">I")


def check_records(checkpoint: str | Path) -> None:
    """Raise StateCorruptError if Spark's records under a local checkpoint are damaged, or some are missing."""
    root = _local(checkpoint)
    for pattern in _RECORDS:
        for file in root.glob(pattern):
            if file.name[0] == "." or not file.is_file():
                continue
            sums = file.with_name(f".{file.name}.crc")
            if not file.stat().st_size:
                raise _corrupt(f"{file.relative_to(root)} is empty")
            if sums.is_file() and not _matches(file, sums):
                raise _corrupt(f"{file.relative_to(root)} is damaged: its checksum does not match")
    planned, done = _numbers(root / "offsets"), _numbers(root / "commits")
    for name, numbers in (("offsets", planned), ("commits", done)):
        missing = set(range(min(numbers, default=0), max(numbers, default=0))) - set(numbers)
        if missing:
            raise _corrupt(f"{name}/{min(missing)} is missing")
    if done and max(done) > max(planned, default=-1):
        raise _corrupt(f"offsets/{max(done)} is missing, a batch that is committed")
    if planned and max(planned) > max(done, default=-1) + 1:
        raise _corrupt(f"commits/{max(planned) - 1} is missing, and a batch was begun after it")


def take_back(output: str | Path, checkpoint: str | Path) -> None:
    """Delete from the output of Spark's file sink the batch that Spark has not committed, if it is there.

    Spark runs that batch again. Its sink would pass over it, so that there would be no state to commit.
    """
    root, log = _local(checkpoint), _local(output) / "_spark_metadata"
    begun, done = (max(_numbers(root / name), default=-1) for name in ("offsets", "commits"))
    entries = {int(file.name.removesuffix(".compact")): file for file in log.glob("[0-9]*")}
    if begun == done or not entries or max(entries) != begun:
        return
    last = entries.pop(begun)
    for path in _added(last).difference(*map(_added, entries.values())):
        path.unlink(missing_ok=True)
        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
    last.with_name(f".{last.name}.crc").unlink(missing_ok=True)
    last.unlink()


def _added(entry: Path) -> set[Path]:
    """The files that an entry of a file sink's log names."""
    lines = entry.read_text(encoding="utf-8").splitlines()[1:]
    return {Path(unquote(urlparse(json.loads(line)["path"]).path)) for line in lines}


def _local(path: str | Path) -> Path:
    """A path on a local disk; one that is not there for any other."""
    return Path(str(path).removeprefix("file://").removeprefix("file:"))


def _numbers(directory: Path) -> list[int]:
    return [int(file.name) for file in directory.glob("*") if file.name.isdigit()]


def _matches(file: Path, sums: Path) -> bool:
    """Whether a file has the checksums of Hadoop's that lie beside it: one for each chunk."""
    data, found = file.read_bytes(), sums.read_bytes()
    if len(found) < _HEADER.size:
        return False
    magic, chunk = _HEADER.unpack_from(found)
    if magic != b"crc\0" or chunk <= 0:
        return False
    wanted = [_SUM.pack(zlib.crc32(data[at : at + chunk])) for at in range(0, len(data), chunk)]
    return found[_HEADER.size :] == b"".join(wanted)


def _corrupt(what: str) -> StateCorruptError:
    return StateCorruptError(
        f"the checkpoint cannot be used: {what}. "
        "Restore it from a copy, or start over with an empty checkpoint directory."
    )
