"""Files of messages, a line each; with a separator a line is a key and a value, as consumers of brokers print them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from aggloom.runtime.formats.base import Message
from aggloom.runtime.formats.packed_files import open_bytes
from aggloom.runtime.formats.whole_json import cut_values

NOTHING = (b"", b"null")
_MARK = b"\xef\xbb\xbf"


def cut_line(line: bytes, separator: bytes | None, place: str) -> Message | None:
    """A line as a message; None if there is nothing on it. A line without the separator is a value without a key."""
    if separator is None:
        return None if line.strip(b" \t\r\n") in NOTHING else Message(line, None, place)
    if not line.strip():
        return None
    key, between, value = line.partition(separator)
    if not between:
        return Message(line, None, place)
    nothing = value.strip(b" \t\r\n") in NOTHING
    return Message(None if nothing else value, None if key.strip() in NOTHING else key, place)


def cut_lines(text: bytes) -> list[bytes]:
    """The lines of a file that has been read, as `read_lines` reads them from one."""
    lines = text.removeprefix(_MARK).split(b"\n")
    # A last line without its end counts; behind an end there is no line.
    return [line.rstrip(b"\r") for line in (lines if lines[-1] else lines[:-1])]


def read_lines(
    paths: Iterable[Path], separator: str | None, whole: bool = False
) -> Iterator[Message]:
    """The messages of files, in the order of the files; whole: each file is JSON as a whole, and has no separators."""
    between = separator.encode() if separator else None
    for path in paths:
        if whole:
            with open_bytes(path) as file:
                text = file.read()
            for number, value in enumerate(cut_values(text), 1):
                message = cut_line(value, None, f"{path}, value {number}")
                if message is not None:
                    yield message
            continue
        with open_bytes(path) as file:
            for number, line in enumerate(file, 1):
                # The mark of a byte order stands at the start of a file and nowhere else.
                bare = line.removeprefix(_MARK) if number == 1 else line
                message = cut_line(bare.rstrip(b"\r\n"), between, f"{path}, line {number}")
                if message is not None:
                    yield message
