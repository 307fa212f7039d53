"""Files of messages, a line each; with a separator a line is a key and a value, as consumers of brokers print them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from aggloom.runtime.formats.base import Message, Messages
from aggloom.runtime.formats.packed_files import open_bytes
from aggloom.runtime.formats.whole_json import cut_values

NOTHING = (b"", b"null")
_MARK = b"\xef\xbb\xbf"
_AT_ONCE = 1 << 18
"""Bytes of a file that are cut into lines at once."""


def _is_nothing(text: bytes) -> bool:
    """Tell whether a text is no value: blank, or JSON's null."""
    return text.strip(b" \t\r\n") in NOTHING


def cut_line(line: bytes, separator: bytes | None, place: str) -> Message | None:
    """A line as a message; None if there is nothing on it. A line without the separator is a value without a key."""
    if separator is None:
        return None if _is_nothing(line) else Message(line, None, place)
    if not line.strip():
        return None
    key, between, value = line.partition(separator)
    if not between:
        return Message(line, None, place)
    return Message(
        None if _is_nothing(value) else value, None if key.strip() in NOTHING else key, place
    )


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


def read_blocks(
    paths: Iterable[Path], separator: str | None, whole: bool, most: int
) -> Iterator[Sequence[Message]]:
    """The messages of files as `read_lines` gives them, some at a time: at least so many, but for the last."""
    if separator or whole:
        lines = read_lines(paths, separator, whole)
        while some := list(islice(lines, most)):
            yield some
        return
    # Without keys a message is its line: it is not made an object, and its place not a text, until one asks.
    parts: list[_Lines] = []
    values: list[bytes | None] = []
    for path in paths:
        for numbers, texts in _cut_file(path):
            parts.append(_Lines(len(values), path, numbers))
            values += texts
            if len(values) >= most:
                yield _as_messages(values, parts)
                values, parts = [], []
    if values:
        yield _as_messages(values, parts)


class _Lines(NamedTuple):
    """Lines of a file: the place of the first among the messages, and the number of each in the file."""

    start: int
    path: Path
    numbers: Sequence[int]


def _cut_file(path: Path) -> Iterator[tuple[Sequence[int], list[bytes]]]:
    """The numbers of a file's lines and the lines, some at a time, without those on which there is nothing."""
    first = 1
    with open_bytes(path) as file:
        while lines := file.readlines(_AT_ONCE):
            if first == 1:
                lines[0] = lines[0].removeprefix(_MARK)
            texts = [line.rstrip(b"\r\n") for line in lines]
            numbers: Sequence[int] = range(first, first + len(lines))
            first += len(lines)
            # An object is something: the others are looked at one by one.
            if not all(text[:1] == b"{" for text in texts):
                there = [not _is_nothing(text) for text in texts]
                texts = [text for text, is_there in zip(texts, there, strict=True) if is_there]
                numbers = [n for n, is_there in zip(numbers, there, strict=True) if is_there]
            yield numbers, texts


def _as_messages(values: list[bytes | None], parts: list[_Lines]) -> Messages:
    """Lines as messages; parts: where they lie."""

    def place(at: int) -> str:
        part = parts[bisect_right(parts, at, key=lambda each: each.start) - 1]
        return f"{part.path}, line {part.numbers[at - part.start]}"

    return Messages(values, [None] * len(values), place)
