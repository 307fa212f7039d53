"""Stored rows in more columns than they were stored in: the same ids and texts, NULL where there was no column."""

from __future__ import annotations

import numpy as np

from aggloom.runtime.state.row_store import RowStore
from aggloom.runtime.storage.arena import Arena


def lay_out(arena: Arena, new: RowStore, old: RowStore) -> tuple[str, ...]:
    """Lay the rows of a store out in an arena as another has them; return the names of the arrays that this makes.

    new: the store whose columns they get, by name. A column of its that the old one lacks is NULL in every row.
    """
    rows, ids = old.arrays, old.capacity
    words = arena.array(f"{new.name}.words", ids, "i8", len(new.schema))
    flags = arena.array(f"{new.name}.flags", ids, "u1", len(new.schema) // 8 + 1)
    arena.array(f"{new.name}.texts", len(new.schema), "u1")[:] = new.is_text
    live = rows.flags[:, 0] & 1
    flags[:, 0] = live
    for c, name in enumerate(new.schema.names):
        # The word of a NULL is 0, and its flag distinguishes it from the value that has this word.
        null = live
        if name in old.schema.names:
            was = old.schema.names.index(name)
            words[:, c] = rows.words[:, was]
            null = rows.flags[:, (was + 1) >> 3] >> ((was + 1) & 7) & 1
        flags[:, (c + 1) >> 3] |= (null << ((c + 1) & 7)).astype(np.uint8)
    # The first word of a free row names the next one that is free.
    words[:, 0] = np.where(live == 1, words[:, 0], rows.words[:, 0])
    return tuple(f"{new.name}.{part}" for part in ("words", "flags", "texts"))
