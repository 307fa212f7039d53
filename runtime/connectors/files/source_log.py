"""The files of a stream's sources: those that a batch has, by Spark's own log, and the order in which they come.

Spark notes in a checkpoint which files a batch has, and looks for them again when it runs the batch. One that is not
there any more it passes over without a word: files are missing for it only where a task opens them.
"""

from __future__ import annotations

import inspect
import json
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from functools import partial, wraps
from glob import has_magic
from pathlib import Path
from typing import NamedTuple, ParamSpec
from urllib.parse import unquote
from weakref import WeakKeyDictionary

from pyspark.sql import DataFrame

from aggloom.checkpoint_file import read_text
from aggloom.errors import DataError, FileOrderError, MissingFileError, SinkError, SpecError
from aggloom.runtime.connectors.files.discovery import (
    check_name_order,
    files_at,
    files_in,
    format_paths,
    which,
)
from aggloom.runtime.hosting.checkpoint_paths import batches, corrupt, is_local, local

P = ParamSpec("P")
_IGNORE = "spark.sql.files.ignoreMissingFiles"
_CAPS = {"maxfilespertrigger", "maxbytespertrigger"}
_log = logging.getLogger("aggloom")
_SOURCES: WeakKeyDictionary[DataFrame, FileSourceNote] = WeakKeyDictionary()


class FileSourceNote(NamedTuple):
    """The place of a DataFrame's files; in_parts: whether a batch may have some of them only; deep: at any depth.

    names: a pattern of their names. by_name: they are ordered by their paths alone.
    """

    path: str
    in_parts: bool
    deep: bool
    names: str = "*"
    by_name: bool = False

    def files(self) -> set[str]:
        """The paths of its files on this machine."""
        try:
            return {str(path) for path in files_at(local(self.path), self.names, self.deep)}
        except (SpecError, DataError):
            return set()

    def own(self, paths: Iterable[str]) -> list[str]:
        """The paths, of some, that are of its files on this machine, whether they are there or not."""
        root, there = local(self.path), self.files()
        named = partial(fnmatchcase, pat=self.names)
        return [p for p in paths if p in there or (Path(p).parent == root and named(Path(p).name))]


class Listed(NamedTuple):
    """A file in a source's log: under which number, and when it was written, in milliseconds."""

    path: str
    number: int
    time: int


def note_files(read: Callable[P, DataFrame]) -> Callable[P, DataFrame]:
    """A reader that notes of the DataFrame that it makes where its files lie."""
    signature = inspect.signature(read)

    @wraps(read)
    def read_and_note(*args: P.args, **kwargs: P.kwargs) -> DataFrame:
        frame = read(*args, **kwargs)
        arguments = signature.bind(*args, **kwargs).arguments
        options = arguments.get("options", {})
        set_options = {name.lower() for name, value in options.items() if value}
        in_parts = bool(arguments.get("max_files_per_trigger") or set_options & _CAPS)
        # Where Python is may change until the query starts.
        path = str(arguments["path"])
        path = str(local(path).absolute()) if is_local(path) else path
        of, by_name = which(options), arguments.get("order") == "name"
        _SOURCES[frame] = FileSourceNote(path, in_parts, of["deep"], of["names"], by_name)
        return frame

    return read_and_note


def same_files(df: DataFrame, derived: DataFrame) -> DataFrame:
    """The derived DataFrame, known to have the files of the other."""
    if df in _SOURCES:
        _SOURCES[derived] = _SOURCES[df]
    return derived


def read_files(checkpoint: str | Path) -> dict[str, int]:
    """The local files that a query has read, or will with its next batch, each with its time as it was listed then."""
    root = local(checkpoint)
    # Sources of other kinds have logs as well; which are of files their offsets say.
    sources = _offsets(root, max(batches(root / "offsets"), default=-1))
    logs = [root / "sources" / str(source) for source in sources]
    return {each.path: each.time for log in logs for each in _entries(log)}


def list_read_files(root: Path, source: int, last: int) -> list[Listed]:
    """The local files that a source has read up to a number of its log, each once, in their order."""
    listed = (each for each in _entries(root / "sources" / str(source)) if each.number <= last)
    return sorted(set(listed), key=lambda each: (each.number, each.time, each.path))


def check_order(name: str, df: DataFrame, read: Mapping[str, int]) -> None:
    """Raise FileOrderError if a stream's files on this machine have equal times and may come in several batches.

    Spark sorts files by their times alone; equal ones come as a local disk lists them, which is no order. read: the
    files that have been read.
    """
    source = _SOURCES.get(df)
    if source is None or not source.in_parts or not df.isStreaming:
        return
    times: dict[int, Path] = {}
    for path, time in _files(local(source.path), source.deep):
        if str(path) in read:
            continue
        if time in times:
            raise FileOrderError(
                f"table {name}: {times[time]} and {path} were written at the same millisecond, so that Spark may read "
                "them in either order if not in one batch, and the result depends on it. Read all files in one batch "
                "(no maxFilesPerTrigger, no maxBytesPerTrigger), or give the files times of their own."
            )
        times[time] = path


def find_by_name(tables: Mapping[str, DataFrame]) -> dict[str, FileSourceNote]:
    """The sources, of some tables, whose files on this machine are ordered by their paths alone."""
    sources = {name: _SOURCES[df] for name, df in tables.items() if df in _SOURCES}
    return {n: each for n, each in sources.items() if each.by_name and is_local(each.path)}


def check_names(
    sources: Mapping[str, FileSourceNote], new: Iterable[str], read: Iterable[str]
) -> None:
    """Raise FileOrderError if a new file of a source that is ordered by name precedes one that has been read."""
    new, read = list(new), list(read)
    for name, source in sources.items():
        check_name_order(name, source.own(new), source.own(read))


def check_batch_names(
    checkpoint: str | Path, batch: int, sources: Mapping[str, FileSourceNote]
) -> None:
    """Raise FileOrderError if a file of a batch stands by name before one that a batch before has read."""
    root = local(checkpoint)
    if sources and batch:
        new = set(_list_planned_files(root, batch))
        check_names(sources, new, read_files(checkpoint).keys() - new)


def check_output(output: str, tables: Mapping[str, DataFrame]) -> None:
    """Raise SinkError for an output on this machine whose files a table of the query would read."""
    if not is_local(output):
        return
    place = local(output).resolve()
    for name, df in tables.items():
        source = _SOURCES.get(df)
        if source is None or not is_local(source.path):
            continue
        root = local(source.path).resolve()
        if root.is_file():
            root = root.parent
        inside = source.deep and place.is_relative_to(root)
        matched = (fnmatchcase(str(path), str(root)) for path in (place, place / "part.json"))
        if inside or place == root or (has_magic(str(root)) and any(matched)):
            raise SinkError(
                f"sink {output}: table {name} is read from {source.path}, so that the query would read what it writes. "
                "Give the output a directory of its own."
            )


def warn_changed(checkpoint: str | Path, read: Mapping[str, int]) -> None:
    """Warn of files on this machine that were written again after a query had read them: it reads a file once."""
    changed = [path for path, time in read.items() if _time(Path(path)) not in (time, None)]
    if changed:
        _log.warning(
            "%s: written again since they were read: %s. A stream reads a file once: what is new in them is not in the "
            "result. Put new rows into new files.",
            checkpoint,
            format_paths(changed),
        )


def warn_renamed(name: str, df: DataFrame, read: Mapping[str, int]) -> None:
    """Warn of files on this machine that were not read, and are as old as one that was read and is gone.

    To Spark a file that was renamed, or moved within its table, is another one: its rows count twice.
    """
    source = _SOURCES.get(df)
    gone = {time: path for path, time in read.items() if not os.path.lexists(path)}
    if source is None or not is_local(source.path) or not gone:
        return
    files = _files(local(source.path), source.deep)
    again = [str(path) for path, time in files if time in gone and str(path) not in read]
    if again:
        _log.warning(
            "table %s: read once more, as new files: %s. Of the same time was what has been read and is gone: %s. If "
            "files were renamed, their rows count twice.",
            name,
            format_paths(again),
            format_paths([gone[time] for path, time in files if str(path) in again]),
        )


def check_files(checkpoint: str | Path, batch: int, ignore: bool) -> None:
    """Raise MissingFileError if files that a batch has, by Spark's log, are no longer on this machine.

    ignore: say how many they are in a warning instead.
    """
    planned = dict.fromkeys(_list_planned_files(local(checkpoint), batch))
    gone = [path for path in planned if not os.path.lexists(path)]
    if not gone:
        return
    named = f"batch {batch}: {len(gone)} of its source files are gone: {format_paths(gone)}"
    if not ignore:
        raise MissingFileError(
            f"{named}. Put them back, or set {_IGNORE}=true in the session to continue without their rows."
        )
    _log.warning("%s; the query continues without their rows (%s)", named, _IGNORE)


def ignores_missing(df: DataFrame) -> bool:
    """Tell whether a DataFrame's session ignores files that are missing."""
    return str(df.sparkSession.conf.get(_IGNORE, "false")).lower() == "true"


def _list_planned_files(root: Path, batch: int) -> Iterator[str]:
    """The paths of the local files that a batch has, by the logs of its sources."""
    after, before = _offsets(root, batch), _offsets(root, batch - 1)
    for source, end in after.items():
        batches_to_list = range(before.get(source, -1) + 1, end + 1)
        log = root / "sources" / str(source)
        yield from (
            each.path for each in _entries(log, batches_to_list) if each.number in batches_to_list
        )


def _offsets(root: Path, batch: int) -> dict[int, int]:
    """Return how far each file source of a batch, by number, reads in its log."""
    file = root / "offsets" / str(batch)
    if batch not in batches(root / "offsets"):
        return {}
    offsets = {}
    # Two lines of version and metadata precede a line for each source.
    for source, line in enumerate(read_text(root, file).splitlines()[2:]):
        try:
            offsets[source] = int(json.loads(line)["logOffset"])
        except (ValueError, KeyError, TypeError):
            # No source of files, or nothing of it yet.
            continue
    return offsets


def _entries(log: Path, batches: range | None = None) -> Iterator[Listed]:
    """The local files that a source's log names; batches: under these numbers only."""
    root = log.parents[1]
    for file in log.glob("[0-9]*"):
        try:
            number = int(file.name.removesuffix(".compact"))
            # A compacted entry has the number of its last batch, and those before it inside: higher numbers have to be
            # read.
            if batches is not None and (not batches or number < batches[0]):
                continue
            entries = list(map(json.loads, read_text(root, file).splitlines()[1:]))
            fields = [(str(e["path"]), int(e["batchId"]), int(e["timestamp"])) for e in entries]
        except (ValueError, KeyError, TypeError) as e:
            raise corrupt(f"sources/{log.name}/{file.name} cannot be read ({e})") from e
        for path, batch, time in fields:
            if is_local(path):
                # Spark writes URLs; names with blanks or percent signs are escaped in them.
                yield Listed(os.path.normpath(local(unquote(path))), batch, time)


def _files(directory: Path, deep: bool) -> list[tuple[Path, int]]:
    """The files under a directory that Spark would read, by path, with the milliseconds at which they were written."""
    timed_paths = ((path, _time(path)) for path in files_in(directory.absolute(), deep=deep).read)
    return sorted((path, time) for path, time in timed_paths if time is not None)


def _time(path: Path) -> int | None:
    """The millisecond at which a file was written; None if it is gone."""
    try:
        return path.stat().st_mtime_ns // 1_000_000
    except FileNotFoundError:
        return None
