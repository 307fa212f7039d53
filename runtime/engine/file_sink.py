"""Sinks `jsonl` and `parquet` of the local engine: a file a batch, named in the log that Spark's file sink keeps.

A reader that heeds the log, as ours and Spark's do, sees a batch as a whole or not at all. The output says of which
checkpoint it is, since the log knows batches by their numbers alone.
"""

from __future__ import annotations

import io
import json
import logging
import uuid
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from aggloom.checkpoint_file import read_text
from aggloom.durable_files import make_directory, sync_directory, write_whole
from aggloom.errors import SinkError
from aggloom.runtime.connectors.files.sink_log import LOG, entries, read_committed
from aggloom.runtime.connectors.kafka.json_rows import object_writer
from aggloom.runtime.values.changelog import CHANGE_COLUMNS, PROFILES, Kinds

_log = logging.getLogger("aggloom")
_OWNER = "_aggloom"
_ENDINGS = {"jsonl": ".json", "parquet": ".parquet"}
_COMPACT_EVERY = 10
"""Spark reads the log from the last entry of ten on, which names all files before it, too."""
_PROFILE = "spark"


class FileBatches:
    """Writes the changes of each batch into a file of a directory; a batch that its log has is passed over.

    kind: `jsonl` or `parquet`. checkpoint: the id of the query's checkpoint.
    """

    def __init__(self, kind: str, path: Path, checkpoint: str) -> None:
        self._kind, self._path, self._checkpoint = kind, path, checkpoint
        self._is_claimed = False

    def write(self, rows: pa.Table, kinds: Kinds, batch: int) -> None:
        """Write a batch; raises SinkError, before anything is written, for the output of another query."""
        log = self._path / LOG
        make_directory(log)
        numbers = entries(self._path)
        if not self._is_claimed:
            self._claim(max(numbers, default=-1), batch)
        if batch in numbers or max(numbers, default=-1) >= batch:
            return
        ending = _ENDINGS[self._kind]
        self._delete_unnamed(list(self._path.glob(f"part-{batch:05d}-*{ending}")))
        name = f"part-{batch:05d}-{uuid.uuid4()}{ending}"
        file = (self._path / name).absolute()
        # Before the log that names it: killed between the two, the batch runs again and deletes this file.
        write_whole(file, [self._encode(rows, kinds)])
        self._note(batch, file, numbers)

    def _delete_unnamed(self, files: list[Path]) -> None:
        """Delete the file of a run that was killed before the log named it: not all readers know the log.

        Spark numbers the files of one batch, so that one of an earlier batch of Spark's may have this number.
        """
        named = read_committed(self._path) if files else None
        for file in files:
            if named is None or not named.has(Path(file.name)):
                file.unlink()

    def _claim(self, newest: int, batch: int) -> None:
        """Write into the output whose it is; raises SinkError where another query has written there.

        An output that lacks earlier batches of the checkpoint is only reported: they may be elsewhere on purpose.
        """
        for kind, ending in _ENDINGS.items():
            first_file = next(self._path.glob(f"part-*{ending}*"), None)
            if kind != self._kind and first_file is not None:
                raise SinkError(
                    f"sink {self._kind}: {self._path} has files of {kind}, such as {first_file.name}, and no reader "
                    "takes both. Give the output a directory of its own."
                )
        mark = self._path / _OWNER
        owner = read_text(self._path, mark) if mark.is_file() else None
        if owner != self._checkpoint and newest >= 0:
            raise SinkError(
                f"sink {self._kind}: {self._path} has batches of another checkpoint. Give it a directory that is empty "
                "or not there yet, or run the query with the checkpoint that wrote them."
            )
        if newest > batch:
            raise SinkError(
                f"sink {self._kind}: {self._path} has batch {newest} already, and the checkpoint continues with batch "
                f"{batch}, which would be skipped: it was restored from an older copy. Restore the output, too, or "
                "start with an empty output and an empty checkpoint."
            )
        if newest < batch - 1:
            _log.warning(
                "sink %s: %s has no batch before %d of its checkpoint%s: what is written there is not the whole "
                "changelog. Batches before went elsewhere, or were deleted.",
                self._kind,
                self._path,
                batch,
                f" after {newest}" if newest >= 0 else "",
            )
        if owner != self._checkpoint:
            write_whole(mark, [self._checkpoint.encode()])
        self._is_claimed = True

    def _encode(self, rows: pa.Table, kinds: Kinds) -> bytes:
        """The bytes of a file: the columns of the result, then the change column."""
        words = pa.array(PROFILES[_PROFILE]).take(pa.array(kinds))
        whole = rows.append_column(CHANGE_COLUMNS[_PROFILE], words)
        if self._kind == "parquet":
            out = io.BytesIO()
            pq.write_table(whole, out, compression="snappy")
            return out.getvalue()
        write = object_writer(whole.schema)
        columns = [column.to_pylist() for column in whole.columns]
        return "".join(f"{write(row)}\n" for row in zip(*columns, strict=True)).encode()

    def _note(self, batch: int, file: Path, numbers: dict[int, Path]) -> None:
        """Name a file in the log, in the form of Spark's file sink."""
        status = file.stat()
        line = {
            "path": file.as_uri(),
            "size": status.st_size,
            "isDir": False,
            "modificationTime": status.st_mtime_ns // 1_000_000,
            "blockReplication": 1,
            "blockSize": 33_554_432,
            "action": "add",
        }
        lines, name = [json.dumps(line, separators=(",", ":"))], str(batch)
        if (batch + 1) % _COMPACT_EVERY == 0:
            lines, name = [*self._read_lines(numbers), *lines], f"{batch}.compact"
        # The log must not name a file whose own name a loss of power can still undo.
        sync_directory(self._path)
        text = "\n".join(["v1", *lines])
        write_whole(self._path / LOG / name, [text.encode()])

    def _read_lines(self, numbers: dict[int, Path]) -> list[str]:
        """The lines of the log so far, from the last entry that has all before it."""
        first = max((n for n, file in numbers.items() if file.suffix == ".compact"), default=-1)
        texts = [read_text(self._path, numbers[n]) for n in sorted(numbers) if n >= first]
        return [line for text in texts for line in text.splitlines()[1:]]
