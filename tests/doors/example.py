"""Examples with which every door is tried, and the damage done to their bytes."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from aggloom.runtime.values.changelog import CHANGE_TYPES, spellings

DDL = "name STRING, cnt INT"
BAD = 0.12
DAMAGED = 0.2
"""Share of the examples that have a bad message; the same share of the others is damaged."""

KINDS = {word: CHANGE_TYPES[kind] for kind in range(4) for word in spellings(kind)}
"""Kinds that the words of a change column mean."""
Row = tuple[str | None, int | None, str]


@dataclass
class Example:
    """A file; rows: what is to be read, None where it has to fail; damaged: an oracle says what is to come of it."""

    content: bytes
    rows: list[Row] | None
    damaged: bool = False
    about: str = ""


@dataclass
class Verdict:
    """The contents of a file by an independent reading: rows, the fault if it is bad, the lines that it cannot be
    sure of.
    """

    rows: list[Row] = field(default_factory=list)
    bad: str = ""
    unsure: int = 0


def damaged(r: random.Random, content: bytes) -> bytes:
    """The bytes, hurt in one place or two."""
    for _ in range(r.choice([1, 1, 1, 2])):
        place = r.randrange(len(content) + 1)
        junk = r.choice(
            [
                b"",
                bytes([r.randrange(256)]),
                r.randbytes(3),
                *(bytes([c]) for c in b'\n\r{}",\\:\0 '),
            ]
        )
        rest = content[place + r.randrange(3) :]
        other = r.randrange(len(content) + 1)
        slice_ = content[min(place, other) : max(place, other)]
        kind = r.randrange(8)
        if kind < 5:
            content = content[:place] + junk + rest
        elif kind == 5 and place < len(content):
            flipped = content[place] ^ (1 << r.randrange(8))
            content = content[:place] + bytes([flipped]) + content[place + 1 :]
        elif kind == 6:
            content = content[:place]
        else:
            content = content[:place] + slice_ + content[place:]
    return content
