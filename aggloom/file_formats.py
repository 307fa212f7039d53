"""The format of files by their names, and the options that follow from it."""

from __future__ import annotations

from glob import glob, has_magic
from pathlib import Path
from typing import Any

from aggloom.errors import SpecError
from aggloom.runtime.connectors.files.discovery import suggest_sibling
from aggloom.runtime.formats.packed_files import format_suffix
from aggloom.runtime.formats.registry import FORMATS
from aggloom.table_inference import is_here, sniff_format

_SUFFIXES = {
    ".parquet": "parquet",
    ".csv": "csv",
    ".tsv": "csv",
    ".tab": "csv",
    ".json": "jsonl",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
}


def guess_format(path: str, where: str) -> str:
    """Tell the format from the suffix of the path, or of the files in it; of JSON files, from what they hold.

    Raises SpecError if there is nothing on this machine, or nothing that tells it.
    """
    place = Path(path)
    # Path.glob takes no absolute patterns.
    matched = [] if place.exists() else glob(path, recursive=True)  # noqa: PTH207
    names = sorted(place.iterdir()) if place.is_dir() else [*map(Path, matched)] or [place]
    suffixes = {format_suffix(name) for name in names}
    formats = {_SUFFIXES[suffix] for suffix in suffixes if suffix in _SUFFIXES}
    if len(formats) != 1:
        is_missing = not place.exists() and not matched and ":" not in path and not has_magic(path)
        if is_missing:
            raise SpecError(
                f"{where}: there is no file or directory {path!r}.{suggest_sibling(place)}"
            )
        why = (
            f"there is no file in {path!r} that tells it"
            if not formats
            else f"files in {path!r} have {len(formats)}"
        )
        raise SpecError(f"{where}: add the format, one of {', '.join(FORMATS)}; {why}.")
    (format,) = formats
    return (is_here(path) and format == "jsonl" and sniff_format(path)) or format


def set_separator(options: dict[str, Any], path: str) -> None:
    """Put the separator of CSV files into the options as a character: of .tsv and .tab files a tab, and of \\t."""
    named = [name for name in options if name.lower() in ("sep", "delimiter")]
    for name in named:
        options[name] = str(options[name]).replace("\\t", "\t")
    if not named and format_suffix(Path(path)) in (".tsv", ".tab"):
        options["sep"] = "\t"
