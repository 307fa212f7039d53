"""Ranked and stamped views, and lists out of views: both backends against models, growth, memory."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aggloom.runtime.plain import views as plain_views
from aggloom.runtime.plain.kinds import VIEW_TYPES
from aggloom.runtime.storage.arena import Arena
from aggloom.runtime.storage.blocks import USED
from aggloom.runtime.storage.pool import Pool
from aggloom.runtime.storage.queued_tree import QueuedTreeView
from aggloom.runtime.views import lists, ordered, ranked, sequence, stamped
from aggloom.runtime.views.ranked import RankedView
from aggloom.runtime.views.sequence import SequenceView
from aggloom.runtime.views.stamped import StampedView

SLOTS = 3
NEUTRAL = {"sequence_accumulate": sequence.sequence_append}
COMPILED: dict[str, Any] = {
    name: function
    for module in (ordered, ranked, stamped, lists)
    for name, function in (vars(module) | NEUTRAL).items()
}
VIEWS: dict[str, Callable[[Arena], Any]] = {
    "ordered": lambda arena: QueuedTreeView(arena, "v", SLOTS, 1),
    "ranked": lambda arena: RankedView(arena, "v", SLOTS),
    "stamped": lambda arena: StampedView(arena, "v", SLOTS),
    "sequence": lambda arena: SequenceView(arena, "v", SLOTS, 1),
}
both_pooled = pytest.mark.parametrize("pooled", [False, True], ids=["numbers", "strings"])


class _Pair:
    """A compiled view and a plain one that are told the same; what is read of them must agree."""

    def __init__(self, kind: str, pooled: bool) -> None:
        self.kind, self.pooled, self.arena = kind, pooled, Arena()
        self.pool, self.view = Pool(self.arena), VIEWS[kind](self.arena)
        self.plain = VIEW_TYPES[kind](SLOTS, 1)

    def word(self, value: Any) -> int:
        if not self.pooled:
            return int(value)
        text = np.frombuffer(value, np.uint8)
        offsets = np.array([0, len(text)], np.int64)
        return int(self.pool.intern_column(text, offsets, np.ones(1, np.bool_))[0])

    def value(self, word: int) -> Any:
        p = self.pool.arrays
        start = p.offset[word] if self.pooled else 0
        return bytes(p.heap[start : start + p.length[word]]) if self.pooled else word

    def change(self, step: str, slot: int, value: Any, *more: Any) -> None:
        name, word = f"{self.kind}_{step}", self.word(value)
        self.view.reserve(1)
        COMPILED[name](self.view.arrays, self.pool.arrays, self.pooled, slot, word, *more)
        self.flush()
        getattr(plain_views, name)(self.plain, None, self.pooled, slot, value, *more)

    def merge(self, other: _Pair, slot: int, *more: Any) -> None:
        name = f"{self.kind}_merge"
        self.pool.reserve_import(other.pool)
        self.view.reserve(other.view.live)
        ours = (self.view.arrays, self.pool.arrays, self.pooled, slot)
        COMPILED[name](*ours, other.view.arrays, other.pool.arrays, slot, *more)
        self.flush()
        theirs = (other.plain, None, slot)
        getattr(plain_views, name)(self.plain, None, self.pooled, slot, *theirs, *more)

    def clear(self, slot: int) -> None:
        name = f"{self.kind}_clear"
        COMPILED[name](self.view.arrays, self.pool.arrays, self.pooled, slot)
        self.flush()
        getattr(plain_views, name)(self.plain, None, self.pooled, slot)

    def flush(self) -> None:
        """Make the changes that a view has noted."""
        if self.kind == "ordered":
            ordered.ordered_flush(self.view.arrays, self.pool.arrays, self.pooled)

    def read(self, name: str, slot: int, *more: Any) -> Any:
        """The value that a read finds, or None."""
        word, found = COMPILED[name](self.view.arrays, self.pool.arrays, self.pooled, slot, *more)
        expected = getattr(plain_views, name)(self.plain, None, self.pooled, slot, *more)
        assert (self.value(int(word)) if found else 0, found) == expected
        return expected[0] if found else None

    def give_back(self) -> None:
        """Clear everything; nothing may be left of it."""
        for slot in range(SLOTS):
            self.clear(slot)
        self.pool.sweep()
        self.view.shrink()
        arrays = self.view.arrays
        assert self.view.live == 0 and not arrays.root.any() and arrays.meta[USED] == 1
        assert len(arrays.heap) == 64 and self.pool.arrays.refs.sum() == 0


# Ranked.

changes = st.lists(
    st.tuples(st.integers(0, SLOTS - 1), st.integers(0, 120), st.integers(-3, 3)), max_size=150
)


class _Ranked(_Pair):
    """A ranked pair, with the counts that must be in it."""

    def __init__(self, pooled: bool) -> None:
        super().__init__("ranked", pooled)
        self.counts: list[Counter[Any]] = [Counter() for _ in range(SLOTS)]

    def add(self, slot: int, number: int, times: int) -> None:
        value = str(number).encode() if self.pooled else number
        if abs(times) == 1:
            self.change("accumulate" if times > 0 else "retract", slot, value)
        else:
            self.change("add", slot, value, times)
        self.counts[slot][value] += times

    def check(self, ranks: int = 1000) -> None:
        """Compare up to so many ranks of every slot, evenly spread, with a sorted list."""
        assert self.view.live == sum(c != 0 for counts in self.counts for c in counts.values())
        for slot, counts in enumerate(self.counts):
            rows = sorted(counts.elements())
            tree, pool = self.view.arrays, self.pool.arrays
            for module, view in ((ranked, tree), (plain_views, self.plain)):
                assert module.ranked_total(view, slot) == len(rows)
            for rank in range(0, len(rows), 1 + len(rows) // ranks):
                assert self.value(int(ranked.ranked_at(tree, slot, rank))) == rows[rank]
            if rows:
                middle = plain_views.ranked_at(self.plain, slot, len(rows) // 2)
                assert middle == rows[len(rows) // 2]
            place = {row: at for at, row in reversed(list(enumerate(rows)))}
            for row in list(place)[:: 1 + len(place) // ranks]:
                word = self.word(row)
                assert ranked.ranked_below(tree, pool, self.pooled, slot, word) == place[row]

    def check_absent(self, slot: int, value: Any) -> None:
        """A value that is not there has a rank too."""
        word = self.word(value)
        below = ranked.ranked_below(self.view.arrays, self.pool.arrays, self.pooled, slot, word)
        assert below == sum(row < value for row in self.counts[slot].elements())
        assert below == plain_views.ranked_below(self.plain, None, self.pooled, slot, value)


@both_pooled
@settings(max_examples=60, deadline=None)
@given(changes)
def test_ranks_are_those_of_a_sorted_list(pooled: bool, told: list[tuple[int, int, int]]) -> None:
    pair = _Ranked(pooled)
    for slot, number, times in told:
        pair.add(slot, number, times)
    pair.check()
    for absent in (-1, 61, 500):
        pair.check_absent(0, str(absent).encode() if pooled else absent)
    pair.give_back()


@both_pooled
@pytest.mark.parametrize("order", ["random", "rising", "falling"])
def test_ranks_in_a_tree_of_several_levels(order: str, pooled: bool) -> None:
    rng = random.Random(order)
    pair = _Ranked(pooled)
    numbers = list(range(2500))
    if order == "random":
        rng.shuffle(numbers)
    elif order == "falling":
        numbers.reverse()
    for number in numbers:
        pair.add(0, number, rng.choice((1, 1, 2)))
        pair.add(number % SLOTS, rng.randrange(2500), rng.choice((-2, -1, 1)))
    pair.check(200)
    for number in numbers[: len(numbers) * 9 // 10]:
        value = str(number).encode() if pooled else number
        pair.add(0, number, -pair.counts[0][value])
    pair.check(200)
    pair.give_back()


@both_pooled
@settings(max_examples=40, deadline=None)
@given(changes, changes)
def test_merging_ranked_views_adds_their_counts(
    pooled: bool, ours: list[tuple[int, int, int]], theirs: list[tuple[int, int, int]]
) -> None:
    one, two = _Ranked(pooled), _Ranked(pooled)
    for pair, told in ((one, ours), (two, theirs)):
        for slot, number, times in told:
            pair.add(slot, number, times)
    for slot in range(SLOTS):
        one.merge(two, slot)
        one.counts[slot].update(two.counts[slot])
    one.check()
    one.give_back()


def test_a_ranked_view_lives_on_in_a_snapshot() -> None:
    pair = _Ranked(False)
    for number in range(100):
        pair.add(1, number, 1)
    pair.arena.restore(pair.arena.snapshot())
    pair.pool, pair.view = Pool(pair.arena), RankedView(pair.arena, "v", SLOTS)
    for number in range(100, 300):
        pair.add(1, number, 1)
    pair.check()


# Stamped. A row is (size, name, value), ordered by name and size, each rising or falling.

rows = st.tuples(
    st.integers(0, 2), st.sampled_from(["", "a", "a\0", "b", "\0", "\1"]), st.integers(0, 2)
)
arrivals = st.lists(
    st.tuples(st.integers(0, 1), rows, st.sampled_from([True, True, True, False])), max_size=60
)
FIXED, RISING, FALLING = 2, -1, -2


def encode(row: tuple[int, str, int], widths: tuple[int, ...]) -> bytes:
    """The order key of a row, with components of these widths, and then all of the row."""
    key = b""
    for width in widths:
        if width == FIXED:
            key += bytes([1, row[0]])
        else:
            text = row[1].encode().replace(b"\0", b"\0\xff") + b"\0\0"
            key += b"\1" + (text if width == RISING else bytes(255 - b for b in text))
    return key + repr(row).encode()


def extreme(state: dict[Any, list[int]], widths: tuple[int, ...], pick: Callable[..., Any]) -> Any:
    """The row that has the smallest (`pick` is min) or greatest key and stamp of those there."""
    there = [row for row, (count, _) in state.items() if count > 0]
    for width in widths:
        component = 0 if width == FIXED else 1
        other = max if pick is min else min
        end = (other if width == FALLING else pick)((row[component] for row in there), default=0)
        there = [row for row in there if row[component] == end]
    return pick(there, key=lambda row: state[row][1], default=None)


class _Stamped(_Pair):
    """A stamped pair, with [count, stamp] by row that must be in it."""

    def __init__(self, widths: tuple[int, ...], renew: bool) -> None:
        super().__init__("stamped", True)
        self.widths, self.renew, self.clock = widths, renew, 0
        self.states: list[dict[Any, list[int]]] = [{} for _ in range(SLOTS)]

    def tell(self, slot: int, row: Any, arrives: bool) -> None:
        entry = self.states[slot].setdefault(row, [0, 0])
        entry[0] += 1 if arrives else -1
        if arrives:
            self.clock += 1
            entry[1] = self.clock if self.renew or entry[0] == 1 else entry[1]
            self.change("accumulate", slot, encode(row, self.widths), self.renew)
        else:
            self.change("retract", slot, encode(row, self.widths))

    def check(self) -> None:
        assert self.view.live == sum(c != 0 for s in self.states for c, _ in s.values())
        for slot, state in enumerate(self.states):
            for name, pick in (("earliest", min), ("latest", max)):
                row = extreme(state, self.widths, pick)
                expected = None if row is None else encode(row, self.widths)
                assert self.read(name, slot, self.widths) == expected


orders = pytest.mark.parametrize(
    "widths", [(FIXED,), (RISING,), (FALLING, FIXED), (RISING, FALLING)], ids=str
)


@orders
@pytest.mark.parametrize("renew", [False, True], ids=["first", "last"])
@settings(max_examples=40, deadline=None)
@given(arrivals)
def test_ends_in_order_are_the_first_and_last_to_come(
    widths: tuple[int, ...], renew: bool, told: list[tuple[int, Any, bool]]
) -> None:
    pair = _Stamped(widths, renew)
    for slot, row, arrives in told:
        pair.tell(slot, row, arrives)
    pair.check()
    pair.give_back()


@orders
@pytest.mark.parametrize("renew", [False, True], ids=["first", "last"])
@settings(max_examples=30, deadline=None)
@given(arrivals, arrivals)
def test_merged_rows_come_after_ours(
    widths: tuple[int, ...],
    renew: bool,
    ours: list[tuple[int, Any, bool]],
    theirs: list[tuple[int, Any, bool]],
) -> None:
    one, two, whole = (_Stamped(widths, renew) for _ in range(3))
    for pair, told in ((one, ours), (two, theirs), (whole, ours + theirs)):
        for slot, row, arrives in told:
            if arrives:
                pair.tell(slot, row, True)
    for slot in range(SLOTS):
        one.merge(two, slot, renew)
    one.states = whole.states
    one.check()
    one.give_back()


@settings(max_examples=100, deadline=None)
@given(rows, rows)
def test_keys_compare_as_their_rows(a: Any, b: Any) -> None:
    pair = _Stamped((FALLING, FIXED), False)
    texts = encode(a, pair.widths), encode(b, pair.widths)
    words = [pair.word(text) for text in texts]
    keys = (b[1].encode(), a[0]), (a[1].encode(), b[0])
    expected = (keys[0] > keys[1]) - (keys[0] < keys[1])
    assert stamped.compare_keys(pair.pool.arrays, pair.widths, *words) == expected
    assert plain_views.compare_keys(None, pair.widths, *texts) == expected
    for word, row, text in zip(words, (a, b), texts, strict=True):
        length = len(text) - len(repr(row))
        assert stamped.key_length(pair.pool.arrays, word, pair.widths) == length
        assert plain_views.key_length(None, text, pair.widths) == length


def test_copying_a_stamped_view_again_and_again_uses_up_no_stamps() -> None:
    pair = _Stamped((RISING,), False)
    for slot in range(SLOTS):
        for name in ("a", "b"):
            pair.tell(slot, (0, name, slot), True)
    clock = pair.view.arrays.meta[stamped.STAMP]
    for _ in range(3):
        copy = _Stamped((RISING,), False)
        for slot in range(SLOTS):
            copy.merge(pair, slot, False)
        copy.states, pair = pair.states, copy
    pair.check()
    assert pair.view.arrays.meta[stamped.STAMP] == clock


# Lists.


def written(pair: _Pair, name: str, *more: Any) -> list[list[tuple[Any, int]]]:
    """The lists of all slots, written by both backends as a handler does."""
    out, plain = lists.new_list_out(SLOTS), plain_views.new_list_out(SLOTS)
    for k in range(SLOTS):
        getattr(plain_views, name)(plain, k, pair.plain, None, pair.pooled, k, *more)
        while True:
            arguments = (pair.view.arrays, pair.pool.arrays, pair.pooled, k)
            COMPILED[name](out, k, *arguments, *more)
            if not out.meta[lists.FULL]:
                break
            out = lists.enlarge_list(out)
            out.meta[lists.USED] = out.ends[k - 1] if k else 0
    words, counts, offsets = lists.rows_of(out, np.arange(SLOTS))
    found = [(pair.value(w), c) for w, c in zip(words.tolist(), counts.tolist(), strict=True)]
    made = [found[offsets[k] : offsets[k + 1]] for k in range(SLOTS)]
    assert made == plain.lists
    return made


@both_pooled
@pytest.mark.parametrize("kind", ["ordered", "ranked"])
@settings(max_examples=30, deadline=None)
@given(changes, st.integers(0, 9))
def test_lists_of_an_ordered_view(
    kind: str, pooled: bool, told: list[tuple[int, int, int]], n: int
) -> None:
    pair = _Pair(kind, pooled)
    counts: list[Counter[Any]] = [Counter() for _ in range(SLOTS)]
    for slot, number, times in told:
        value = str(number).encode() if pooled else number
        counts[slot][value] += times
        for _ in range(abs(times)):
            pair.change("accumulate" if times > 0 else "retract", slot, value)
    shown = [sorted((+c).items()) for c in counts]
    top = [sorted(items, key=lambda item: -item[1]) for items in shown]
    assert written(pair, "list_ordered", False, False) == shown
    assert written(pair, "list_ordered", False, True) == [items[::-1] for items in shown]
    repeated = [[(value, 1) for value, c in items for _ in range(c)] for items in shown]
    assert written(pair, "list_ordered", True, False) == repeated
    assert written(pair, "list_top", n) == [items[:n] for items in top]
    for slot, items in enumerate(top):
        assert pair.read("mode", slot) == (items[0][0] if items else None)


@both_pooled
def test_lists_that_outgrow_their_arrays(pooled: bool) -> None:
    pair, arrived = _Pair("ordered", pooled), _Pair("sequence", pooled)
    order: list[list[tuple[Any, int]]] = [[] for _ in range(SLOTS)]
    rng = random.Random(3)
    for _ in range(3000):
        slot, number = rng.randrange(SLOTS), rng.randrange(2000)
        value = str(number).encode() if pooled else number
        pair.change("accumulate", slot, value)
        arrived.change("accumulate", slot, value)
        order[slot].append((value, 1))
    shown = [sorted(Counter(items).items()) for items in order]
    expected = [[(value, count) for (value, _), count in items] for items in shown]
    assert written(arrived, "list_sequence") == order
    assert written(pair, "list_ordered", False, False) == expected
    assert written(pair, "list_ordered", True, True) == [sorted(items)[::-1] for items in order]
    top = [sorted(items, key=lambda item: -item[1])[:500] for items in expected]
    assert written(pair, "list_top", 500) == top
    pair.give_back()


tables = st.lists(
    st.lists(st.tuples(st.integers(0, 2), st.integers(1, 2)), max_size=3), min_size=1, max_size=8
)


def table(rows: list[list[tuple[int, int]]], module: Any) -> Any:
    out = module.new_list_out(len(rows))
    for k, row in enumerate(rows):
        for word, count in row:
            module.put_element(out, word, count)
        module.end_list(out, k)
    return out


def contents(out: Any, take: list[int], module: Any) -> list[list[tuple[int, int]]]:
    words, counts, offsets = module.rows_of(out, np.array(take, np.int64))
    flat = list(zip(map(int, words), map(int, counts), strict=True))
    return [flat[offsets[k] : offsets[k + 1]] for k in range(len(take))]


@settings(max_examples=100, deadline=None)
@given(tables, tables, st.randoms(use_true_random=False))
def test_tables_of_lists(a: Any, b: Any, rng: random.Random) -> None:
    n = min(len(a), len(b))
    take = [rng.randrange(len(a) + len(b)) for _ in range(rng.randrange(6))]
    for module in (lists, plain_views):
        one, two = table(a, module), table(b, module)
        differ = module.lists_differ(one, two, n)
        assert differ.tolist() == [a[k] != b[k] for k in range(n)]
        whole = module.concatenate_lists(one, two)
        assert contents(whole, take, module) == [(a + b)[k] for k in take]
        assert contents(whole, list(range(len(a + b))), module) == a + b
