"""A checkpoint directory, and Spark's own records in it, looked at before a query starts.

Spark writes a checksum beside each of them on a local disk, and does not read it: a batch number in which a bit is
flipped would be another history, and the table wrong without a word. File systems of clusters check by themselves.
"""

from __future__ import annotations

import json
import re
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

from aggloom.checkpoint_file import check_files, open_file, read_file, read_text
from aggloom.errors import CheckpointError, StateMismatchError
from aggloom.runtime.connectors.files.table_file import TABLE_FILE
from aggloom.runtime.hosting.checkpoint_paths import (
    HAND_OVER,
    QUERY_FILE,
    batches,
    corrupt,
    is_local,
    local,
    refuse_local_checkpoint,
    refuse_moved,
)

_RECORDS = ("metadata", "offsets/*", "commits/*", "sources/*/*", "state/*/_*/**/*")
# Hadoop's layout: four letters, the number of bytes in a chunk, then a CRC-32 of each chunk, all big-endian.
_HEADER = struct.Struct(">4si")
_SUM = struct.Struct(">I")
TOPICS_FILE = "aggloom-topics.json"
REPARTITIONS_FILE = "aggloom-repartitions.json"
# The state variables that operators here declare to Spark, and no others do.
_STATE, _FORMER_STATE = (b"commit", b"log"), (b"head", b"log")
_SHOWN = 5
_LARGEST_STATE = 1 << 36
_PLACED = re.compile(r'"((?:file:)?/[^"]*?)/(state/[0-9]+/_stateSchema/[^"]+)"')
"""A file of Spark's in a checkpoint, as Spark names it there: by the whole path."""
_OWN = "Give the query a checkpoint directory of its own: one that is empty, or not there yet."


def check_directory(checkpoint: str | Path) -> None:
    """Raise CheckpointError unless a local checkpoint is nowhere yet, an empty directory, or one of ours."""
    root = local(checkpoint)
    if not is_local(checkpoint) or not root.exists():
        return
    if not root.is_dir():
        raise CheckpointError(
            f"{checkpoint}: a checkpoint is a directory, and this is a file. {_OWN}"
        )
    # These errors name the cause, where the last one below would only say that this is no checkpoint of a query's.
    refuse_local_checkpoint(root)
    refuse_moved(root)
    names = sorted(path.name for path in root.iterdir())
    _check_version(root)
    check_place(root)
    if not names or {QUERY_FILE, TABLE_FILE, HAND_OVER} & set(names) or _has_our_state(root):
        return
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    what = "the checkpoint of another query of Spark's" if "offsets" in names else "no checkpoint"
    raise CheckpointError(
        f"{checkpoint}: this is {what}; found there: {', '.join(names[:_SHOWN])}{more}. Nothing was written. {_OWN}"
    )


def check_place(root: Path) -> None:
    """Raise CheckpointError where a checkpoint was moved: Spark looks for its files where they were written.

    Raises it also for what is no regular file: Spark follows links and waits for pipes.
    """
    check_files(root)
    for place, name in _find_absolute_files(root):
        if not (place / name).exists() and (root / name).exists():
            raise CheckpointError(
                f"{root}: this checkpoint was written at {place} and has been moved, and Spark keeps whole "
                "paths in it. Move it back, or make the old path a link to the new one."
            )


def copied_from(checkpoint: str | Path) -> Path | None:
    """Return the path to which a local checkpoint was written, if it is a copy beside the one that is still there."""
    root = local(checkpoint)
    for place, name in _find_absolute_files(root):
        both = (place / name).exists() and (root / name).exists()
        # The same file means a link from the old path, which `check_place` itself advises, and no copy.
        if both and not (place / name).samefile(root / name):
            return place
    return None


def _find_absolute_files(root: Path) -> Iterator[tuple[Path, str]]:
    """The files that Spark names in a checkpoint by whole paths: the checkpoint that they are in, and where in it."""
    for path in root.glob("state/*/_metadata/v*/[0-9]*"):
        for place, name in _PLACED.findall(read_file(root, path).decode("utf-8", "replace")):
            yield local(place), name


def _check_version(root: Path) -> None:
    """Raise StateMismatchError where the state of an operator of ours lies as an earlier version left it."""
    for path in root.glob("state/*/_metadata/v*/[0-9]*"):
        text = read_file(root, path)
        if all(_names(text, name) for name in _FORMER_STATE):
            raise StateMismatchError(
                f"{root}: written by an earlier version of aggloom, whose state lies otherwise. "
                "Run the version that wrote it, or start over with an empty checkpoint directory."
            )


def _has_our_state(root: Path) -> bool:
    """Tell whether Spark's list of the state in a checkpoint has that of an operator of ours, of this version."""
    listed = [read_file(root, path) for path in root.glob("state/*/_metadata/v*/[0-9]*")]
    return any(all(_names(text, name) for name in _STATE) for text in listed)


def _names(text: bytes, variable: bytes) -> bool:
    """Tell whether a record of Spark's names a state variable."""
    # The record is JSON whose values are JSON in turn, so that quotes follow backslashes.
    return b'\\"%s\\"' % variable in text


def check_records(checkpoint: str | Path) -> None:
    """Raise StateCorruptError if Spark's records under a local checkpoint are damaged, or some are missing."""
    root = local(checkpoint)
    check_files(root)
    if (root / HAND_OVER).is_dir():
        raise CheckpointError(
            f"{checkpoint}: it was moved from the local engine, and Spark begins with it where the query is started "
            "with al.write_changes, or with `aggloom run --engine spark`."
        )
    for pattern in _RECORDS:
        for file in root.glob(pattern):
            # Hadoop's checksums are beside the files, hidden behind a dot.
            if file.name[0] == "." or not file.is_file():
                continue
            sums = file.with_name(f".{file.name}.crc")
            # A machine that stops may leave the name of a file whose bytes it had not written yet.
            if not file.stat().st_size:
                raise corrupt(f"{file.relative_to(root)} is empty")
            if sums.is_file() and not _matches(root, file, sums):
                raise corrupt(f"{file.relative_to(root)} is damaged: its checksum does not match")
    planned, done = batches(root / "offsets"), batches(root / "commits")
    for name, numbers in (("offsets", planned), ("commits", done)):
        # Spark deletes the oldest records, so the first number may be any. A gap after it is damage.
        missing = set(range(min(numbers, default=0), max(numbers, default=0))) - set(numbers)
        if missing:
            raise corrupt(f"{name}/{min(missing)} is missing")
    # Spark writes a batch's offsets before it runs and its commit after it: one batch at most is between the two.
    if done and max(done) > max(planned, default=-1):
        raise corrupt(f"offsets/{max(done)} is missing, a batch that is committed")
    if planned and max(planned) > max(done, default=-1) + 1:
        raise corrupt(f"commits/{max(planned) - 1} is missing, and a batch was begun after it")


def id_of(checkpoint: Path) -> str:
    """The id that Spark has given to a local checkpoint, which no other has."""
    return str(json.loads(read_text(checkpoint, checkpoint / "metadata"))["id"])


def _matches(root: Path, file: Path, sums: Path) -> bool:
    """Tell whether a file has the checksums of Hadoop's that lie beside it: one for each chunk."""
    noted_sums = read_file(root, sums)
    if len(noted_sums) < _HEADER.size:
        return False
    magic, chunk = _HEADER.unpack_from(noted_sums)
    if magic != b"crc\0" or chunk <= 0:
        return False
    with open_file(root, file, _LARGEST_STATE) as data:
        page_sums = [_SUM.pack(zlib.crc32(part)) for part in iter(lambda: data.read(chunk), b"")]
    return noted_sums[_HEADER.size :] == b"".join(page_sums)


def require_directory(path: str) -> None:
    """Raise CheckpointError if a path on this machine is no directory, or was moved; others are Spark's to look at."""
    if "://" not in path and not Path(path.removeprefix("file:")).is_dir():
        raise CheckpointError(f"{path}: there is no such directory.")
    check_place(local(path))
