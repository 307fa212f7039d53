"""Files that are JSON as a whole, as `multiLine` says: an array of objects, or objects over several lines.

Each object becomes a message on one line, with its numbers as they are written.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from aggloom.errors import SpecError

OPTION = "multiLine"
"""The option, by Spark's name; any case will do."""
_SPACE = " \t\r\n"
_DECODER = json.JSONDecoder()
_LINES = str.maketrans("\r\n", "  ")


def take_option(
    options: Mapping[str, Any], separator: str | None, where: str
) -> tuple[bool, dict[str, Any]]:
    """Return whether files are read whole, and the other options; raises SpecError. separator: of keys, if given."""
    left = {name: value for name, value in options.items() if name.lower() != OPTION.lower()}
    words = [str(value).lower() for name, value in options.items() if name not in left]
    if any(word not in ("true", "false") for word in words):
        raise SpecError(f"{where}: {OPTION} is {words[0]!r}; it is true or false")
    if "true" in words and separator is not None:
        raise SpecError(f"{where}: {OPTION} and key_separator exclude each other; leave one out")
    return "true" in words, left


def cut_values(text: bytes) -> Iterator[bytes]:
    """The objects of a file; what cannot be cut comes as it is, for its reader to say what is wrong with it."""
    try:
        whole = text.decode("utf-8-sig")
    except UnicodeDecodeError:
        yield text
        return
    at = _skip(whole, 0)
    while at < len(whole):
        first = at
        try:
            if whole[at] != "[":
                end = _end(whole, at)
                yield _line(whole[at:end])
                at = _skip(whole, end)
                continue
            at = _skip(whole, at + 1)
            while whole[at : at + 1] != "]":
                end = _end(whole, at)
                yield _line(whole[at:end])
                at = first = _skip(whole, end)
                if whole[at : at + 1] == ",":
                    at = first = _skip(whole, at + 1)
                    # Nothing may follow a comma but a value.
                    _end(whole, at)
                elif whole[at : at + 1] != "]":
                    raise ValueError(at)
            at = _skip(whole, at + 1)
        except (ValueError, RecursionError):
            # What was read before stays read; the rest is one message, which is refused with its text.
            yield _line(whole[first:]) or b"an array without its end"
            return


def _skip(text: str, at: int) -> int:
    while at < len(text) and text[at] in _SPACE:
        at += 1
    return at


def _end(text: str, at: int) -> int:
    return _DECODER.raw_decode(text, at)[1]


def _line(text: str) -> bytes:
    # Line breaks stand between values; in a text of JSON they are escaped.
    return text.translate(_LINES).encode()
