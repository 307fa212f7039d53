"""The views of the plain backend, a dict or a list for each slot, and the lists that are results of them.

A word is a Python value here (an integer, a string, bytes), and the pool is None.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from aggloom.runtime.storage.arena import Array, NumberArray

Counter = dict[Any, int]


class SlotDicts(list[dict[Any, Any]]):
    """A dict for each slot; the meaning of `width` depends on the kind of view."""

    def __init__(self, slots: int, width: int) -> None:
        super().__init__({} for _ in range(slots))
        self.width = width


def change_count(counts: Counter, value: Any, change: int) -> None:
    counts[value] = counts.get(value, 0) + change
    # A zero count is no entry: a map is empty exactly where nothing is counted.
    if counts[value] == 0:
        del counts[value]


def ordered_accumulate(view: list[Counter], pool: None, pooled: bool, s: int, word: Any) -> None:
    change_count(view[s], word, 1)


def ordered_retract(view: list[Counter], pool: None, pooled: bool, s: int, word: Any) -> None:
    change_count(view[s], word, -1)


def ordered_merge(
    view: list[Counter],
    pool: None,
    pooled: bool,
    s: int,
    other: list[Counter],
    other_pool: None,
    other_slot: int,
) -> None:
    for word, count in other[other_slot].items():
        change_count(view[s], word, count)


def ordered_clear(view: list[Any], pool: None, pooled: bool, s: int) -> None:
    view[s].clear()


def least(view: list[Counter], pool: None, pooled: bool, s: int) -> tuple[Any, bool]:
    live = [word for word, _ in _list_positive(view[s])]
    return (min(live), True) if live else (0, False)


def greatest(view: list[Counter], pool: None, pooled: bool, s: int) -> tuple[Any, bool]:
    live = [word for word, _ in _list_positive(view[s])]
    return (max(live), True) if live else (0, False)


def _orphan(word: Any) -> tuple[str, Any]:
    """Return the entry for a retraction that arrived before its row; it is stored in snapshots."""
    return ("ahead", word)


def _list_live(sequence: list[Any]) -> list[Any]:
    return [word for word in sequence if not isinstance(word, tuple)]


def sequence_accumulate(view: list[list[Any]], pool: None, pooled: bool, s: int, word: Any) -> None:
    # A row and its earlier retraction cancel out.
    if _orphan(word) in view[s]:
        view[s].remove(_orphan(word))
    else:
        view[s].append(word)


def sequence_retract(view: list[list[Any]], pool: None, pooled: bool, s: int, word: Any) -> None:
    if word in view[s]:
        view[s].remove(word)
    else:
        view[s].append(_orphan(word))


def sequence_merge(
    view: list[list[Any]],
    pool: None,
    pooled: bool,
    s: int,
    other: list[list[Any]],
    other_pool: None,
    other_slot: int,
) -> None:
    for word in other[other_slot]:
        if isinstance(word, tuple):
            sequence_retract(view, pool, pooled, s, word[1])
        else:
            sequence_accumulate(view, pool, pooled, s, word)


def sequence_merge_multiset(
    view: list[list[Any]],
    pool: None,
    pooled: bool,
    s: int,
    other: list[list[Any]],
    other_pool: None,
    other_slot: int,
    counts: SlotDicts,
    column: int,
) -> None:
    for word in other[other_slot]:
        # A list keeps the places of retracted values. The counts show which values exist.
        is_live = word in counts[s] and counts[s][word][column] > 0
        if is_live and word not in view[s]:
            view[s].append(word)


sequence_clear = multiset_clear = ordered_clear


def oldest(view: list[list[Any]], pool: None, pooled: bool, s: int) -> tuple[Any, bool]:
    live = _list_live(view[s])
    return (live[0], True) if live else (0, False)


def newest(view: list[list[Any]], pool: None, pooled: bool, s: int) -> tuple[Any, bool]:
    live = _list_live(view[s])
    return (live[-1], True) if live else (0, False)


# A multiset maps a value to one count for each call that shares it; an entry is (slot, value).
Entry = tuple[int, Any]


def multiset_entry(view: SlotDicts, pool: None, pooled: bool, s: int, word: Any) -> Entry:
    view[s].setdefault(word, [0] * view.width)
    return s, word


def multiset_change(view: SlotDicts, entry: Entry, column: int, change: int) -> int:
    counts: list[int] = view[entry[0]][entry[1]]
    counts[column] += change
    return counts[column]


def multiset_count(view: SlotDicts, entry: Entry, column: int) -> int:
    count: int = view[entry[0]][entry[1]][column]
    return count


def multiset_word(view: SlotDicts, entry: Entry) -> Any:
    return entry[1]


def multiset_first(view: SlotDicts, s: int) -> Entry | None:
    # In the order of the dict, in which values arrived.
    return next(((s, word) for word in view[s]), None)


def multiset_after(view: SlotDicts, pool: None, s: int, entry: Entry) -> Entry | None:
    # By search, and not by an iterator: a caller may change the dict between two entries.
    words = list(view[entry[0]])
    place = words.index(entry[1]) + 1
    return (entry[0], words[place]) if place < len(words) else None


def multiset_prune(view: SlotDicts, pool: None, pooled: bool, s: int, entry: Entry) -> None:
    # An entry is needed as long as any of the calls has a count.
    if not any(view[entry[0]][entry[1]]):
        del view[entry[0]][entry[1]]


multiset_found, multiset_prune_added = multiset_entry, multiset_prune


def ranked_add(
    view: list[Counter], pool: None, pooled: bool, s: int, word: Any, times: int
) -> None:
    change_count(view[s], word, times)


ranked_accumulate, ranked_retract = ordered_accumulate, ordered_retract
ranked_merge, ranked_clear = ordered_merge, ordered_clear


def ranked_total(view: list[Counter], s: int) -> int:
    return sum(count for _, count in _list_positive(view[s]))


def ranked_at(view: list[Counter], s: int, rank: int) -> Any:
    for word, count in sorted(_list_positive(view[s])):
        if rank < count:
            return word
        rank -= count
    raise IndexError("a rank is below the total")


def ranked_below(view: list[Counter], pool: None, pooled: bool, s: int, word: Any) -> int:
    return sum(count for other, count in _list_positive(view[s]) if other < word)


Stamped = dict[bytes, list[int]]


def _stamp(stamped: Stamped, word: bytes, change: int, renew: bool) -> None:
    """Add to a value's count; `renew` makes it the slot's newest. A stamp orders arrivals, and is no time."""
    entry = stamped.setdefault(word, [0, 0])
    entry[0] += change
    if renew:
        entry[1] = 1 + max(stamp for _, stamp in stamped.values())
    if entry[0] == 0:
        del stamped[word]


def stamped_accumulate(
    view: list[Stamped], pool: None, pooled: bool, s: int, word: bytes, latest: bool
) -> None:
    # A value without rows arrives anew; for others `latest`, an option of the call, decides.
    _stamp(view[s], word, 1, latest or view[s].get(word, [0, 0])[0] == 0)


def stamped_retract(view: list[Stamped], pool: None, pooled: bool, s: int, word: bytes) -> None:
    _stamp(view[s], word, -1, False)


def stamped_merge(
    view: list[Stamped],
    pool: None,
    pooled: bool,
    s: int,
    other: list[Stamped],
    other_pool: None,
    other_slot: int,
    latest: bool,
) -> None:
    # In the order of their stamps, so that merged values stay in their order.
    for word, (count, _) in sorted(other[other_slot].items(), key=lambda item: item[1][1]):
        absent = view[s].get(word, [0, 0])[0] <= 0
        _stamp(view[s], word, count, count > 0 and (latest or absent))


stamped_clear = ordered_clear


def key_length(pool: None, word: bytes, widths: tuple[int, ...]) -> int:
    """The bytes of a word that are its sort key; widths: bytes of each part, -1 a text, -2 one in descending order."""
    at = 0
    # Texts are escaped and end with 00 00, or with FF FF where they are inverted for DESC.
    for width in widths:
        if width >= 0:
            at += width
        else:
            # The search begins behind the flag, which may look like a byte of the end mark.
            at = word.index(b"\0\0" if width == -1 else b"\xff\xff", at + 1) + 2
    return min(at, len(word))


def compare_keys(pool: None, widths: tuple[int, ...], a: bytes, b: bytes) -> int:
    a_key, b_key = (word[: key_length(pool, word, widths)] for word in (a, b))
    return (a_key > b_key) - (a_key < b_key)


def _arrivals(stamped: Stamped, widths: tuple[int, ...]) -> Iterator[tuple[bytes, int, bytes]]:
    """(sort key, stamp, value) of each value with rows."""
    for word, (count, stamp) in stamped.items():
        if count > 0:
            yield word[: key_length(None, word, widths)], stamp, word


def earliest(
    view: list[Stamped], pool: None, pooled: bool, s: int, widths: tuple[int, ...]
) -> tuple[Any, bool]:
    arrival = min(_arrivals(view[s], widths), default=None)
    return (arrival[2], True) if arrival else (0, False)


def latest(
    view: list[Stamped], pool: None, pooled: bool, s: int, widths: tuple[int, ...]
) -> tuple[Any, bool]:
    arrival = max(_arrivals(view[s], widths), default=None)
    return (arrival[2], True) if arrival else (0, False)


class PlainLists:
    """The result of a call that returns lists. lists: by row (word, count); open: those of the row being written."""

    def __init__(self, lists: list[list[tuple[Any, int]]]) -> None:
        self.lists = lists
        self.open: list[tuple[Any, int]] = []


def put_element(out: PlainLists, word: Any, count: int) -> None:
    out.open.append((word, count))


def end_list(out: PlainLists, k: int) -> None:
    # The next row gets a list of its own.
    out.lists[k], out.open = out.open, []


def _list_positive(entries: dict[Any, Any]) -> Iterator[tuple[Any, int]]:
    """(value, count) of each value with rows: a negative count is of retractions that arrived before their rows.

    entries: by value its count, or a list that begins with it.
    """
    for word, entry in entries.items():
        count = entry if isinstance(entry, int) else entry[0]
        if count > 0:
            yield word, count


def list_sequence(
    out: PlainLists, k: int, view: list[list[Any]], pool: None, pooled: bool, s: int
) -> None:
    for word in _list_live(view[s]):
        put_element(out, word, 1)
    end_list(out, k)


def list_ordered(
    out: PlainLists,
    k: int,
    view: list[dict[Any, Any]],
    pool: None,
    pooled: bool,
    s: int,
    repeat: bool,
    backwards: bool,
) -> None:
    # The dict is in order of arrival; results are in order of value, whatever arrived first.
    for word, count in sorted(_list_positive(view[s]), reverse=backwards):
        for _ in range(count if repeat else 1):
            put_element(out, word, 1 if repeat else count)
    end_list(out, k)


def _by_frequency(entries: dict[Any, Any]) -> list[tuple[Any, int]]:
    # Two stable sorts: by value, then by count. Equal counts stay in the order of values.
    return sorted(sorted(_list_positive(entries)), key=lambda item: -item[1])


def list_top(
    out: PlainLists, k: int, view: list[dict[Any, Any]], pool: None, pooled: bool, s: int, n: int
) -> None:
    for word, count in _by_frequency(view[s])[: max(n, 0)]:
        put_element(out, word, count)
    end_list(out, k)


def mode(view: list[dict[Any, Any]], pool: None, pooled: bool, s: int) -> tuple[Any, bool]:
    ranking = _by_frequency(view[s])
    return (ranking[0][0], True) if ranking else (0, False)


def new_list_out(n: int) -> PlainLists:
    return PlainLists([[] for _ in range(n)])


def rows_of(out: PlainLists, take: NumberArray) -> tuple[list[Any], list[int], list[int]]:
    lists = [out.lists[k] for k in take]
    flat = [element for row in lists for element in row]
    offsets = [0]
    for row in lists:
        offsets.append(offsets[-1] + len(row))
    return [word for word, _ in flat], [count for _, count in flat], offsets


def lists_differ(a: PlainLists, b: PlainLists, n: int) -> Array:
    return np.array([a.lists[k] != b.lists[k] for k in range(n)], np.bool_)


def concatenate_lists(a: PlainLists, b: PlainLists) -> PlainLists:
    return PlainLists(a.lists + b.lists)
