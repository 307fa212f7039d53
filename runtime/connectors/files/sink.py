"""Spark's own sink of files, with its log of what each batch has written, called batch by batch.

As a sink of a stream it is called by Spark alone, which leaves out of a batch the files that are gone and says nothing.
Called from here, each batch is looked at first, as with the other sinks. Its log knows batches by their numbers alone:
it passes over those that another checkpoint has written there. So the output says of which checkpoint it is.
"""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame

from aggloom.checkpoint_file import read_text
from aggloom.errors import SinkError, StateCorruptError
from aggloom.runtime.connectors.files.sink_log import LOG, entries, list_files
from aggloom.runtime.hosting.checkpoint_paths import batches, corrupt, is_local, local
from aggloom.runtime.spark.checkpoint import id_of
from aggloom.runtime.spark.failures import translate_failures
from aggloom.runtime.spark.release import streaming_class
from aggloom.runtime.spark.watch.repartition import batch_before
from aggloom.runtime.spark.write.each_batch import checkpoint_id

_log = logging.getLogger("aggloom")
_OWNER = "_aggloom"
_FORMATS = {"jsonl": "json.JsonFileFormat", "parquet": "parquet.ParquetFileFormat"}
WRITTEN = {
    "jsonl": {
        "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
        "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
        "timeZone": "UTC",
        "ignoreNullFields": "false",
    },
    "parquet": {},
}
"""Options of Spark's writers, which would cut times to milliseconds, and offsets to minutes, and leave out NULLs."""
_ENDINGS = {"jsonl": ".json", "parquet": ".parquet"}
_PACKAGE = "org.apache.spark.sql.execution.datasources"


@dataclass
class FileSink:
    """A function for foreachBatch that writes `jsonl` or `parquet` files; it skips a batch that its log has."""

    kind: str
    path: str
    checkpoint: str
    _sink: Any = field(default=None, repr=False)

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        """Write one batch; raises SinkError, before anything is written, if its number is taken."""
        with translate_failures(f"{self.kind} sink: {self.path}"):
            if self._sink is None:
                self._sink = self._make_sink(batch, batch_id)
            self._sink.addBatch(batch_id, batch._jdf)

    def _make_sink(self, batch: DataFrame, batch_id: int) -> Any:
        session: Any = batch.sparkSession
        jvm = session._jvm
        path = jvm.org.apache.hadoop.fs.Path(self.path)
        files = path.getFileSystem(session._jsparkSession.sessionState().newHadoopConf())
        # Spark's log of files knows whole paths only.
        path = files.makeQualified(path)
        log, mark = (jvm.org.apache.hadoop.fs.Path(path, name) for name in (LOG, _OWNER))
        self._check_kind(files, path)
        before = batch_before(self.checkpoint, batch_id, session)
        self._claim(files, log, mark, batch_id, before, checkpoint_id(batch, self.checkpoint))
        format = getattr(jvm, f"{_PACKAGE}.{_FORMATS[self.kind]}")()
        columns = jvm.PythonUtils.toSeq(jvm.java.util.ArrayList())
        parameters = jvm.java.util.HashMap()
        for name, value in WRITTEN[self.kind].items():
            parameters.put(name, value)
        options = jvm.PythonUtils.toScalaMap(parameters)
        sink = getattr(jvm, streaming_class("sinks", "FileStreamSink"))
        return sink(session._jsparkSession, path.toString(), format, columns, options)

    def _check_kind(self, files: Any, path: Any) -> None:
        """Raise SinkError for files of the other kind: no reader takes both."""
        for kind, ending in _ENDINGS.items():
            parts = () if kind == self.kind else files.globStatus(path.suffix(f"/part-*{ending}*"))
            if parts:
                name = parts[0].getPath().getName()
                raise SinkError(
                    f"sink {self.kind}: {self.path} has files of {kind}, such as {name}, and no reader takes both. "
                    "Give the output a directory of its own."
                )

    def _claim(self, files: Any, log: Any, mark: Any, batch_id: int, before: int, own: str) -> None:
        """Write into the output whose it is; raises SinkError where the batch would be passed over."""
        listed = files.listStatus(log) if files.exists(log) else ()
        numbers = [each.getPath().getName().removesuffix(".compact") for each in listed]
        newest = max((int(each) for each in numbers if each.isdigit()), default=-1)
        owner = _text(files.open(mark)) if files.exists(mark) else None
        # Elsewhere than here the last batch, if it was not committed, is still there: it is passed over rightly.
        # On this machine `delete_uncommitted` has deleted a batch without a commit before the start, so that its number
        # is free.
        is_taken = newest >= batch_id if is_local(self.path) else newest > batch_id
        where = f"sink {self.kind}: {self.path} has"
        if newest >= 0 and (is_taken if owner is None else owner != own):
            raise SinkError(
                f"{where} batches of another checkpoint, for which Spark would take those of this one. Give it a "
                "directory that is empty or not there yet, or run the query with the checkpoint that wrote them."
            )
        if is_taken:
            raise SinkError(
                f"{where} batch {newest} already, and the checkpoint continues with batch {batch_id}, which would be "
                "skipped: it was restored from an older copy. Restore the output, too, or start with an empty "
                "output and an empty checkpoint."
            )
        if newest < before:
            _log.warning(
                "%s no batch before %d of its checkpoint%s: what is written there is not the whole changelog. Batches "
                "before went elsewhere, or were deleted.",
                where,
                batch_id,
                f" after {newest}" if newest >= 0 else "",
            )
        if owner != own:
            mine = files.create(mark, True)
            mine.write(own.encode())
            mine.close()


def _text(stream: Any) -> str:
    try:
        return bytes(stream.readAllBytes()).decode()
    finally:
        stream.close()


def delete_uncommitted(output: str | Path, checkpoint: str | Path) -> None:
    """Delete from the output of Spark's file sink the batch that Spark has not committed, if it is there.

    Spark runs that batch again. Its sink would pass over it, so that there would be no state to commit. The batches of
    another checkpoint are left alone. Raises StateCorruptError, and deletes nothing, if the output's log names anything
    else than files of the output.
    """
    root, place = local(checkpoint), local(output)
    owner = place / _OWNER
    begun, done = (max(batches(root / name), default=-1) for name in ("offsets", "commits"))
    log = entries(place)
    # Only the newest batch can be begun and not committed; an older entry of the log was committed in any case.
    if begun == done or not log or max(log) != begun:
        return
    if not owner.is_file() or read_text(place, owner) != id_of(root):
        return
    last = log.pop(begun)
    sink_root = place.resolve()
    # A compacted entry names the files of all batches before it: those stay.
    known = {path for entry in log.values() for path in _list_added_files(entry, sink_root)}
    for path in _list_added_files(last, sink_root) - known:
        path.unlink(missing_ok=True)
        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
    # The entry goes last: after a kill in between the next start finds it and deletes the rest.
    last.with_name(f".{last.name}.crc").unlink(missing_ok=True)
    last.unlink()


def _list_added_files(entry: Path, root: Path) -> set[Path]:
    """The files that an entry of a file sink's log names; raises StateCorruptError for one that is not in `root`."""
    try:
        files = list_files(entry)
    except ValueError as e:
        raise corrupt(str(e)) from e
    return {_inside(root, entry, each.scheme, each.host, each.path) for each in files}


def _inside(root: Path, entry: Path, scheme: str, host: str, text: str) -> Path:
    """The file of this name; its directory is looked up, so that neither .. nor a link leads out of `root`."""
    path = Path(os.path.normpath(text))
    if (scheme, host) in (("file", ""), ("file", "localhost")) and "\0" not in text:
        resolved = path.parent.resolve() / path.name
        inner = resolved.relative_to(root).parts if resolved.is_relative_to(root) else ()
        if inner and inner[0] != LOG and not (resolved.is_dir() and not resolved.is_symlink()):
            return resolved
    raise StateCorruptError(
        f"{entry} names {text}, which is no file of {root}: nothing was deleted. Restore the output from a copy, "
        "or start over with an empty output and an empty checkpoint directory."
    )
