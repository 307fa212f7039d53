"""Sets that calls share, of the plain backend: by slot a map from a value to its count and a bit for each call.

Count and bits are one number, as in compiled state (runtime/views/seen.py).
"""

from __future__ import annotations

from typing import Any

from aggloom.runtime.plain.views import (
    Counter,
    Entry,
    multiset_after,
    multiset_first,
    multiset_word,
    ordered_clear,
)
from aggloom.runtime.views.seen import BITS, MOST_MET

Seen = list[Counter]

seen_first, seen_after, seen_word, seen_clear = (
    multiset_first,
    multiset_after,
    multiset_word,
    ordered_clear,
)


def seen_times(view: Seen, entry: Entry) -> int:
    return view[entry[0]][entry[1]] >> BITS


def seen_has(view: Seen, entry: Entry, column: int) -> bool:
    return view[entry[0]][entry[1]] >> column & 1 != 0


def seen_mark(view: Seen, entry: Entry, column: int) -> bool:
    is_new = not seen_has(view, entry, column)
    view[entry[0]][entry[1]] |= 1 << column
    return is_new


def seen_meet(view: Seen, pool: None, pooled: bool, s: int, word: Any, times: int) -> Entry:
    marks = view[s].get(word, 0)
    # The count stops at the largest that fits beside the bits, as in the compiled backend.
    view[s][word] = marks + (min(times, MOST_MET - (marks >> BITS)) << BITS)
    return s, word


def sequence_merge_seen(
    view: list[list[Any]],
    pool: None,
    pooled: bool,
    s: int,
    other: list[list[Any]],
    other_pool: None,
    other_slot: int,
    marks: Seen,
    column: int,
) -> None:
    for word in other[other_slot]:
        # The bits show which calls have met a value. The list of a call takes only its own values, each once.
        if marks[s].get(word, 0) >> column & 1 and word not in view[s]:
            view[s].append(word)
