"""The bytes that parts of a state take in memory, which views and fields add up."""

from __future__ import annotations

from typing import Final, NamedTuple

WORD: Final = 8
CELL: Final = 4
TABLE: Final = 5 * CELL // 2
"""The cells of anything else in its table, which has 4/3 to 16/3 as the table fills up."""
_TREE_ROOM: Final = 1.8
"""Room in blocks for each entry: with many entries a key 1.5 times what it takes, with twenty 2.3."""


class Room(NamedTuple):
    """The bytes of a key; where they grow with the values, also those of an entry, and what an entry is."""

    key: int
    entry: int = 0
    entries: str = ""


def tree_entry(words: int, room: float = _TREE_ROOM) -> int:
    """The bytes of an entry of so many words in a tree."""
    # B+tree blocks are partly empty, so that an entry takes more than its words.
    return round(WORD * words * room)
