"""The sketches of the plain backend: a dict for each slot, empty at first, with the hashes of the compiled one."""

from __future__ import annotations

import math
from bisect import bisect_left
from typing import Any

import numpy as np

from aggloom.runtime.plain.views import SlotDicts, change_count
from aggloom.runtime.storage.byte_kernels import hash_bytes
from aggloom.runtime.storage.hashing import mix
from aggloom.runtime.views.ddsketch import bin_of, bin_value
from aggloom.runtime.views.hyperloglog import MOST_ENTRIES, RANKED_BITS, entry_of, estimate_from

Slot = dict[Any, Any]


def bits_clear(view: SlotDicts, pool: None, pooled: bool, s: int) -> None:
    view[s].clear()


hyperloglog_clear = ddsketch_clear = quantiles_clear = bits_clear


def _count_bits(view: SlotDicts, s: int, word: int, change: int) -> None:
    """Add to the counts of the bits of a word, by their numbers, and to that of the values, as one more bit."""
    for b in range(view.width):
        if (word >> b) & 1:
            change_count(view[s], b, change)
    # AND compares the count of a bit with the count of values.
    change_count(view[s], view.width, change)


def bits_accumulate(view: SlotDicts, pool: None, pooled: bool, s: int, word: int) -> None:
    _count_bits(view, s, word, 1)


def bits_retract(view: SlotDicts, pool: None, pooled: bool, s: int, word: int) -> None:
    _count_bits(view, s, word, -1)


def bits_merge(
    view: SlotDicts,
    pool: None,
    pooled: bool,
    s: int,
    other: SlotDicts,
    other_pool: None,
    other_slot: int,
) -> None:
    for key, count in other[other_slot].items():
        change_count(view[s], key, count)


def bits_none(view: SlotDicts, pool: None, pooled: bool, s: int) -> bool:
    # Below zero where retractions arrived before their rows: there is no value then either.
    return view[s].get(view.width, 0) <= 0


def _number(view: SlotDicts, bits: list[bool]) -> int:
    """The number with these bits, the lowest first; the last one is the sign."""
    value = sum(1 << b for b, is_set in enumerate(bits) if is_set)
    return value - (1 << view.width) if bits[-1] else value


def all_bits(view: SlotDicts, s: int, count: int) -> int:
    return _number(view, [view[s].get(b, 0) == count for b in range(view.width)])


def any_bits(view: SlotDicts, s: int) -> int:
    return _number(view, [view[s].get(b, 0) > 0 for b in range(view.width)])


def _hash(word: Any, pooled: bool) -> int:
    """The hash of a word, the same as in the compiled backend."""
    if not pooled:
        return int(mix(int(word)))
    # Wide decimals are pooled as 16 bytes in compiled state, shifted so that bytes order as numbers do.
    if isinstance(word, int):
        word = (word + (1 << 127)).to_bytes(16, "big")
    raw = word.encode() if isinstance(word, str) else word
    return int(hash_bytes(np.frombuffer(raw, np.uint8), 0, len(raw)))


def _to_registers(view: SlotDicts, s: int) -> None:
    entries = view[s].pop("entries", [])
    view[s].setdefault("ranks", {})
    # An entry is a hash without its rank above six bits that have the rank.
    for entry in entries:
        _raise(view, s, (entry >> 6) % view.width, entry & 63)


def _raise(view: SlotDicts, s: int, register: int, rank: int) -> None:
    ranks = view[s]["ranks"]
    ranks[register] = max(ranks.get(register, 0), rank)


def _enter(view: SlotDicts, s: int, entry: int) -> None:
    """Add an entry to the list of a small sketch, or raise its register."""
    if "ranks" not in view[s]:
        # Few entries are stored as they are, which makes small counts exact.
        entries = sorted({*view[s].get("entries", []), entry})
        if len(entries) <= min(view.width // 4, MOST_ENTRIES):
            view[s]["entries"] = entries
            return
        _to_registers(view, s)
    _raise(view, s, (entry >> 6) % view.width, entry & 63)


def hyperloglog_accumulate(view: SlotDicts, pool: None, pooled: bool, s: int, word: Any) -> None:
    _enter(view, s, int(entry_of(_hash(word, pooled))))


def hyperloglog_merge(
    view: SlotDicts,
    pool: None,
    pooled: bool,
    s: int,
    other: SlotDicts,
    other_pool: None,
    other_slot: int,
) -> None:
    for entry in other[other_slot].get("entries", []):
        _enter(view, s, entry)
    # Registers cannot become entries again: a merge with registers always gives registers.
    if "ranks" in other[other_slot]:
        _to_registers(view, s)
        for register, rank in other[other_slot]["ranks"].items():
            _raise(view, s, register, rank)


def hyperloglog_none(view: SlotDicts, pool: None, pooled: bool, s: int) -> bool:
    return not view[s]


def estimate(view: SlotDicts, s: int) -> int:
    if "ranks" not in view[s]:
        return len(view[s].get("entries", []))
    # Only registers that were raised are in the dict; all others are at rank zero.
    ranks = view[s]["ranks"].values()
    full = sum(rank > RANKED_BITS for rank in ranks)
    total = sum(1 << (RANKED_BITS - rank) for rank in ranks if rank <= RANKED_BITS)
    return int(estimate_from(view.width, view.width - len(ranks), full, total))


def ddsketch_accumulate(view: SlotDicts, pool: None, pooled: bool, s: int, word: int) -> None:
    change_count(view[s], int(bin_of(word, view.width)), 1)


def ddsketch_retract(view: SlotDicts, pool: None, pooled: bool, s: int, word: int) -> None:
    change_count(view[s], int(bin_of(word, view.width)), -1)


ddsketch_merge = bits_merge


def ddsketch_none(view: SlotDicts, pool: None, pooled: bool, s: int) -> bool:
    return all(count <= 0 for count in view[s].values())


def binned_percentile(view: SlotDicts, pool: None, pooled: bool, s: int, fraction: float) -> float:
    bins = sorted((number, count) for number, count in view[s].items() if count > 0)
    # The rank is rounded half up; Python's `round` rounds half to even.
    rank = math.floor(fraction * (sum(count for _, count in bins) - 1) + 0.5)
    for number, count in bins:
        if rank < count:
            return float(bin_value(number, view.width))
        rank -= count
    return math.nan


# An entry of a quantile summary is [word, g, same, spread]; see runtime/views/quantiles.py.
Entry = list[Any]


def _summary(view: SlotDicts, s: int) -> Slot:
    if not view[s]:
        view[s].update(rows=0, fresh=0, entries=[])
    return view[s]


def _gap(entries: list[Entry], at: int) -> int:
    # No row can lie behind the last entry.
    if at == len(entries):
        return 0
    _, g, same, spread = entries[at]
    return int(g - same + spread)


def _place(entries: list[Entry], word: Any) -> int:
    """Return the place of the first entry that is not before a word."""
    return bisect_left(entries, word, key=lambda entry: entry[0])


def _take(summary: Slot, word: Any, counts: list[int], gap: int) -> None:
    """Add to the counts of a word's entry; gap: the number of rows that may lie before a new entry."""
    entries = summary["entries"]
    at = _place(entries, word)
    if at == len(entries) or entries[at][0] != word:
        entries.insert(at, [word, 0, 0, gap])
        summary["fresh"] += 1
    entries[at][1:] = [a + b for a, b in zip(entries[at][1:], counts, strict=True)]


def quantiles_accumulate(view: SlotDicts, pool: None, pooled: bool, s: int, word: Any) -> None:
    summary = _summary(view, s)
    entries = summary["entries"]
    _take(summary, word, [1, 1, 0], _gap(entries, _place(entries, word)))
    summary["rows"] += 1
    _compress(summary, view.width)


def _compress(summary: Slot, accuracy: int) -> None:
    # Dropping entries visits all of them, so it waits until enough are new.
    if summary["fresh"] < max(accuracy, 32):
        return
    summary["fresh"] = 0
    entries = summary["entries"]
    # The first and the last entry stay: they are the least and the greatest value, exactly.
    for at in range(len(entries) - 2, 0, -1):
        if entries[at][1] + _gap(entries, at + 1) <= 2 * (summary["rows"] // accuracy):
            entries[at + 1][1] += entries[at][1]
            del entries[at]


def quantiles_merge(
    view: SlotDicts,
    pool: None,
    pooled: bool,
    s: int,
    other: SlotDicts,
    other_pool: None,
    other_slot: int,
) -> None:
    if not other[other_slot]:
        return
    summary = _summary(view, s)
    is_copy = summary["rows"] == 0
    # Gaps are those before the merge. Entries that it adds would make them smaller than they were.
    before = [list(entry) for entry in summary["entries"]]
    theirs = other[other_slot]["entries"]
    for entry in summary["entries"]:
        at = _place(theirs, entry[0])
        if at == len(theirs) or theirs[at][0] != entry[0]:
            entry[3] += _gap(theirs, at)
    for word, *counts in theirs:
        _take(summary, word, counts, _gap(before, _place(before, word)))
    summary["rows"] += other[other_slot]["rows"]
    # A merge into an empty summary is a copy, which drops entries when the original would.
    if is_copy:
        summary["fresh"] = other[other_slot]["fresh"]
    _compress(summary, view.width)


def quantiles_none(view: SlotDicts, pool: None, pooled: bool, s: int) -> bool:
    return not view[s]


def summary_percentile(view: SlotDicts, pool: None, pooled: bool, s: int, fraction: float) -> Any:
    if not view[s]:
        return 0
    target = max(math.ceil(fraction * view[s]["rows"]), 1)
    best, least, below = 0, view[s]["rows"] + 1, 0
    entries = view[s]["entries"]
    for at, (word, g, _, _) in enumerate(entries):
        error = max(target - below - g, below + _gap(entries, at) + 1 - target)
        if error < least and least > 0:
            best, least = word, error
        below += g
    return best
