"""The files of a directory, a pattern or a path: the same ones that Spark's sources read, on every engine.

Spark reads the files of a directory, and none of the directories in it. Where one of these is called as a column with
a value (`day=1/`) it reads all that are, at any depth, and passes over the files beside them. It says neither. Of the
output of a stream it reads the files that its log names; a pattern stands for all that match.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from glob import glob, has_magic
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

from aggloom.errors import FileOrderError, InputFormatError, MissingFileError, SpecError, nearest
from aggloom.runtime.connectors.files.sink_log import LOG, Committed, read_committed

NAMES, DEEP = "pathGlobFilter", "recursiveFileLookup"
"""Spark's options that say which files of a directory are read: those of some names, those at any depth."""
ORDERS = ("time", "name")
"""Orders of files: by time of modification, then path; or by path alone, character by character."""
_CAPS = {"maxfilespertrigger", "max_files_per_trigger", "maxbytespertrigger"}
_SHOWN = 3
_log = logging.getLogger("aggloom")


class Which(TypedDict):
    """The files of a directory that are read: `names` is a pattern of their names; `deep`: those at any depth."""

    names: str
    deep: bool


class FoundFiles(NamedTuple):
    """The content of a directory: the files that Spark reads, and those that it passes over though they are not hidden.

    log: that of an output, if the directory is one and its log is heeded; files that it does not name are neither.
    """

    read: list[Path]
    passed: list[Path]
    log: Committed | None


def which(options: Mapping[str, Any]) -> Which:
    """Return the choice of files that Spark's options, in any case, ask for."""
    lowered = {name.lower(): value for name, value in options.items()}
    deep = str(lowered.get(DEEP.lower(), "false")).lower() == "true"
    return {"names": str(lowered.get(NAMES.lower(), "*")), "deep": deep}


def is_by_name(order: object, where: str) -> bool:
    """Tell whether an option `order` asks for the order of paths; raises SpecError for a value not in ORDERS."""
    if order not in ORDERS:
        raise SpecError(f"{where}: order is {order!r}. {nearest(str(order), ORDERS)}")
    return order == "name"


def check_one_batch(order: object, options: Mapping[str, Any], where: str) -> None:
    """Refuse order by name of files that may come in several batches; raises SpecError."""
    caps = [name for name, value in options.items() if value and name.lower() in _CAPS]
    if is_by_name(order, where) and caps:
        raise SpecError(
            f"{where}: order is 'name', and {caps[0]} cuts the files into batches, which Spark fills by time of "
            f"modification. Leave {caps[0]} out, so that all files come in one batch."
        )


def check_caps(options: Mapping[str, Any], where: str) -> None:
    """Refuse a number of files or bytes of a batch that Spark cannot take; raises SpecError."""
    for name, value in options.items():
        if value is None or name.lower() not in _CAPS:
            continue
        largest = 2**63 - 1 if "bytes" in name.lower() else 2**31 - 1
        if isinstance(value, bool) or not (
            str(value).isdecimal() and 0 < int(str(value)) <= largest
        ):
            raise SpecError(
                f"{where}: {name} is {value!r}; it must be a whole number from 1 to {largest}, or be left out to read "
                "all files."
            )


def check_name_order(table: str, new: Iterable[str], read: Iterable[str]) -> None:
    """Raise FileOrderError if a new file of a table that is read by name precedes one that has been read."""
    first, last = min(new, default=""), max(read, default="")
    if first and first < last:
        raise FileOrderError(
            f"table {table}: {first} is new, and by name it stands before {last}, which has been read, so that "
            "order=name cannot be kept. Give new files names that stand after those of all before them, or start "
            "over with an empty checkpoint directory, so that all files come in one batch."
        )


def format_paths(paths: Sequence[str]) -> str:
    """The first of some paths, and how many more there are."""
    more = f" and {len(paths) - _SHOWN} more" if len(paths) > _SHOWN else ""
    return f"{', '.join(paths[:_SHOWN])}{more}"


def is_hidden(name: str) -> bool:
    """Tell whether Spark passes over a file or directory of this name."""
    return name[0] == "." or (name[0] == "_" and "=" not in name) or name.endswith("._COPYING_")


def files_at(
    path: str | Path,
    names: str = "*",
    deep: bool = False,
    *,
    checked: bool = False,
    by_name: bool = False,
) -> list[Path]:
    """The files of a directory, of a pattern, or one file, by time and name as streams take them; raises SpecError.

    names: a pattern of the names of files in directories. deep: those of directories in them, too. checked: warn of
    files of a directory that are not read, as `check_passed` does. by_name: order them by their paths alone.
    """
    place = Path(path)
    is_pattern = not place.exists()
    # Path.glob takes no absolute patterns.
    roots = map(Path, glob(str(path), recursive=True)) if is_pattern else [place]  # noqa: PTH207
    files: list[Path] = []
    over: list[Path] = []
    # A pattern may reach a directory in two ways; a file that is read twice would count twice.
    for root in dict.fromkeys(roots):
        if not root.is_dir():
            files += [root] if root.is_file() else []
            continue
        found_files = files_in(root, names, deep, logged=not is_pattern)
        there = [each for each in found_files.read if each.is_file()]
        if checked and not is_pattern:
            _check_passed(root, found_files)
        if found_files.log is not None:
            _check_there(root, names, found_files.log, there + found_files.passed)
        files += there
        over += found_files.passed
    if not files:
        hint = (
            f", but in directories there: {over[0]}. {_FIX}"
            if over
            else _explain_uncommitted(place)
        )
        if is_pattern and not has_magic(str(path)):
            hint = f".{suggest_sibling(place)}"
        raise SpecError(f"there is no file at {str(path)!r}{hint}")
    if by_name:
        return sorted(set(files), key=str)
    # In milliseconds, as Spark has times: files that differ below them are equal to it, and ordered by path.
    return sorted(set(files), key=lambda each: (each.stat().st_mtime_ns // 1_000_000, str(each)))


def _check_there(directory: Path, names: str, log: Committed, listed_paths: list[Path]) -> None:
    """Raise MissingFileError if the log of a directory names files that are not there."""
    gone = log.find_missing(path.relative_to(directory) for path in listed_paths)
    gone = [path for path in gone if fnmatchcase(Path(path).name, names)]
    if gone:
        raise MissingFileError(
            f"{directory}: {gone[0]}{f' and {len(gone) - 1} more' if len(gone) > 1 else ''} of what {LOG} names is not "
            f"there. Put it back, or delete the directory {LOG} to read all files that there are."
        )


def suggest_sibling(place: Path) -> str:
    """The end of a message about a path that is not there: what has a name like it."""
    try:
        names = sorted(each.name for each in place.parent.iterdir())
    except OSError:
        return f" Nor is there a directory {str(place.parent)!r}."
    return f" {nearest(place.name, names)}" if names else " Its directory is empty."


def _explain_uncommitted(place: Path) -> str:
    """The end of a message about a directory without files to read: there may be a log that names none."""
    if not (place / LOG).is_dir():
        return ""
    return f" that its {LOG} names, which has those that a batch has committed. To read all, delete {LOG}."


def files_in(
    directory: Path, names: str = "*", deep: bool = False, logged: bool = True
) -> FoundFiles:
    """The files of a directory; logged: heed the log of an output, if it is one."""
    paths = [path for path in _below(directory) if fnmatchcase(path.name, names)]
    log = read_committed(directory) if logged else None
    if log is not None:
        # Files that a killed batch left behind hold rows that its next run has written again.
        paths = [path for path in paths if log.has(path.relative_to(directory))]
    columns = {path for path in paths if _has_column(path.relative_to(directory).parent.parts)}
    read = [p for p in paths if deep or (p in columns if columns else p.parent == directory)]
    known = set(read)
    return FoundFiles(read, [path for path in paths if path not in known], log)


def check_passed(directory: Path, names: str = "*", deep: bool = False) -> None:
    """Warn of files in directories of a directory, which are not read.

    Raises InputFormatError for those beside directories that are columns: Spark notes that it has read them, and does
    not.
    """
    # Most directories have none in them, and may have very many files.
    if any(each.is_dir() and not is_hidden(each.name) for each in directory.iterdir()):
        _check_passed(directory, files_in(directory, names, deep))


def _check_passed(directory: Path, listing: FoundFiles) -> None:
    read, passed, _ = listing
    if not passed:
        return
    first = f"{passed[0]}{f' and {len(passed) - 1} more' if len(passed) > 1 else ''}"
    if any(_has_column(path.relative_to(directory).parent.parts) for path in read):
        raise InputFormatError(
            f"{directory}: {first} would be passed over, for Spark takes the directory to be made of those that are "
            f"columns, as {read[0].relative_to(directory).parent} is. Move one or the other elsewhere, or say "
            f"{DEEP}=true to read all of them without such columns."
        )
    _log.warning("%s: not read, for it lies in a directory there: %s. %s", directory, first, _FIX)


_FIX = f"Name the directory, give a pattern (in/*/*.json), or say {DEEP}=true to read all that there is."


def _has_column(parts: Iterable[str]) -> bool:
    return any("=" in part for part in parts)


def _below(directory: Path) -> Iterator[Path]:
    """The files below a directory that are not hidden, in order; links to directories are followed, as by Spark."""
    for place, inner, names in os.walk(directory, followlinks=True):
        here = Path(place)
        inner[:] = sorted(name for name in inner if not is_hidden(name) and _leads_on(here / name))
        yield from (here / name for name in sorted(names) if not is_hidden(name))


def _leads_on(directory: Path) -> bool:
    """Tell whether a directory is not a link to one that it lies in."""
    if not directory.is_symlink():
        return True
    # Followed, such a link would lead round for ever.
    return not directory.parent.resolve().is_relative_to(directory.resolve())
