"""Regular expressions, in Python's form, row by row: how often one matches, where, what, and what to put there."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

_GROUP: Final = re.compile(
    r"\\(?P<plain>.)|\$(?P<digits>\d+)|\$\{(?P<name>\w+)\}|(?P<text>[^\\$]+)", re.S
)


@lru_cache(maxsize=512)
def compile_regex(pattern: str) -> re.Pattern[str]:
    """The compiled pattern."""
    return re.compile(pattern)


def is_found(text: str, pattern: str) -> bool:
    """Tell whether a pattern matches anywhere in a text."""
    return compile_regex(pattern).search(text) is not None


def count(text: str, pattern: str) -> int:
    """The number of matches."""
    return sum(1 for _ in compile_regex(pattern).finditer(text))


def first(text: str, pattern: str) -> str | None:
    """The first match."""
    match = compile_regex(pattern).search(text)
    return None if match is None else match[0]


def place(text: str, pattern: str) -> int:
    """The place of the first match, counted from 1; 0 if there is none."""
    match = compile_regex(pattern).search(text)
    return 0 if match is None else match.start() + 1


def group(text: str, pattern: str, number: int) -> str:
    """A group of the first match; an empty text if there is none."""
    match = compile_regex(pattern).search(text)
    # A group that took no part in the match is an empty text, too.
    return "" if match is None else match[number] or ""


def groups(text: str, pattern: str, number: int) -> list[str]:
    """A group of each match."""
    return [match[number] or "" for match in compile_regex(pattern).finditer(text)]


def replace(text: str, pattern: str, new: str) -> str:
    """The text with something else in place of each match; `$1` in it is a group."""
    compiled = compile_regex(pattern)
    parts = _parts(new, compiled.groups)

    def write(match: re.Match[str]) -> str:
        return "".join(each if isinstance(each, str) else match[each] or "" for each in parts)

    return compiled.sub(write, text)


def like(text: str, pattern: str, escape: str = "\\") -> bool:
    """LIKE, with a letter that takes % and _ after it for themselves."""
    return _like_regex(pattern, escape).fullmatch(text) is not None


def ilike(text: str, pattern: str, escape: str = "\\") -> bool:
    """LIKE without regard to capitals."""
    return like(text.lower(), pattern.lower(), escape)


@lru_cache(maxsize=512)
def _like_regex(pattern: str, escape: str) -> re.Pattern[str]:
    regex, letters = "", iter(pattern)
    for letter in letters:
        if letter == escape:
            after = next(letters, "")
            if after not in ("%", "_", escape) or not after:
                raise ValueError(
                    f"in the pattern {pattern!r} the escape stands before no % and no _"
                )
            regex += re.escape(after)
        else:
            regex += {"%": ".*", "_": "."}.get(letter) or re.escape(letter)
    return re.compile(regex, re.S)


def split(text: str, pattern: str, limit: int = -1) -> list[str]:
    """The pieces between matches, at most `limit` if that is above 0."""
    pieces: list[str] = []
    end = 0
    for match in compile_regex(pattern).finditer(text):
        if match.end() == 0:
            # Nothing precedes a match without letters at the beginning.
            continue
        if 0 < limit <= len(pieces) + 1:
            break
        pieces.append(text[end : match.start()])
        end = match.end()
    return [*pieces, text[end:]]


@lru_cache(maxsize=512)
def _parts(new: str, groups: int) -> Sequence[str | int]:
    """The pieces of a replacement: texts, and numbers of groups."""
    parts: list[str | int] = []
    end = 0
    for match in _GROUP.finditer(new):
        if match.start() != end or match["name"]:
            raise ValueError("the replacement has a group by name, or a lone $")
        end = match.end()
        if match["digits"] is None:
            parts.append(match["plain"] or match["text"])
            continue
        # As many digits belong to the number as there are such groups.
        digits = match["digits"]
        size = 1
        while size < len(digits) and int(digits[: size + 1]) <= groups:
            size += 1
        if int(digits[:size]) > groups:
            raise ValueError("the replacement names a group that the pattern has not")
        parts += [int(digits[:size]), digits[size:]]
    if end != len(new):
        raise ValueError("the replacement ends in the middle")
    return parts
