"""Sketches against exact models, and the two backends against each other: error bounds, merging, taking back."""

from __future__ import annotations

import math
import random
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aggloom.codegen.views.hyperloglog import registers_for
from aggloom.runtime.plain import sketches as plain_sketches
from aggloom.runtime.plain.kinds import VIEW_TYPES
from aggloom.runtime.storage.arena import Arena, Array
from aggloom.runtime.storage.blocks import USED
from aggloom.runtime.storage.jit import kernel
from aggloom.runtime.storage.pool import Pool
from aggloom.runtime.storage.tree import tree_start, tree_step
from aggloom.runtime.values.scalars import float_words
from aggloom.runtime.views import bits, quantiles
from aggloom.runtime.views import ddsketch as bins
from aggloom.runtime.views import hyperloglog as registers

SLOTS = 3
OWNERS: dict[str, Any] = {
    "bits": (bits, bits.BitsView, "any_bits"),
    "hyperloglog": (registers, registers.HyperLogLogView, "estimate"),
    "ddsketch": (bins, bins.DDSketchView, "binned_percentile"),
    "quantiles": (quantiles, quantiles.QuantilesView, "summary_percentile"),
}


class _Subject:
    """A compiled view; with `plain`, the plain backend's beside it, given the same."""

    def __init__(self, kind: str, width: int, pooled: bool = False, plain: bool = True) -> None:
        self.kind, self.pooled, self.arena = kind, pooled, Arena()
        self.module, owner, self.reader = OWNERS[kind]
        self.pool = Pool(self.arena)
        self.view = owner(self.arena, "v", SLOTS, width)
        self.plain = VIEW_TYPES[kind](SLOTS, width) if plain else None

    def word(self, value: Any) -> int:
        if not self.pooled:
            return int(value)
        text = np.frombuffer(value.encode() if isinstance(value, str) else value, np.uint8)
        ends = np.array([0, len(text)], np.int64)
        return int(self.pool.intern_column(text, ends, np.ones(1, np.bool_))[0])

    def value(self, word: int) -> Any:
        if not self.pooled:
            return word
        p = self.pool.arrays
        return bytes(p.heap[p.offset[word] : p.offset[word] + p.length[word]]).decode()

    def both(
        self, name: str, slot: int, ours: Any = (), plain: Any = (), of_pool: bool = True
    ) -> list[Any]:
        """Call a function in each backend; return the results."""
        pool = (self.pool.arrays, self.pooled) if of_pool else ()
        given = [getattr(self.module, name)(self.view.arrays, *pool, slot, *ours)]
        if self.plain is not None:
            pool = (None, self.pooled) if of_pool else ()
            given.append(getattr(plain_sketches, name)(self.plain, *pool, slot, *plain))
        return given

    def step(self, name: str, slot: int, values: Any) -> None:
        for value in values:
            word = self.word(value)
            self.view.reserve(1)
            self.both(f"{self.kind}_{name}", slot, (word,), (value,))

    def add(self, slot: int, *values: Any) -> None:
        self.step("accumulate", slot, values)

    def retract(self, slot: int, *values: Any) -> None:
        self.step("retract", slot, values)

    def add_words(self, slot: int, words: Array) -> None:
        """Many at once, to the compiled view only."""
        loop, at = LOOPS[self.kind], 0
        while at < len(words):
            rows = self.view.affordable(len(words) - at)
            self.view.reserve(rows)
            loop(self.view.arrays, self.pool.arrays, slot, words[at : at + rows])
            at += rows

    def merge(self, slot: int, other: _Subject, other_slot: int) -> None:
        self.pool.reserve_import(other.pool)
        self.view.reserve(other.view.live)
        theirs = (other.view.arrays, other.pool.arrays, other_slot)
        self.both(f"{self.kind}_merge", slot, theirs, (other.plain, None, other_slot))

    def clear(self, slot: int) -> None:
        self.both(f"{self.kind}_clear", slot)

    def none(self, slot: int) -> bool:
        """Tell whether a slot has no value; both backends must agree."""
        (none,) = {bool(none) for none in self.both(f"{self.kind}_none", slot)}
        return none

    def read(self, name: str, slot: int, *parameters: Any) -> Any:
        """A result; both backends must give the same."""
        result, *plain = self.both(name, slot, parameters, parameters, "percentile" in name)
        result = self.value(result) if name == "summary_percentile" else result
        assert all(result == p or (result != result and p != p) for p in plain)
        return result


@kernel
def _add_registers(view: Any, pool: Any, slot: int, words: Array) -> None:
    for word in words:
        registers.hyperloglog_accumulate(view, pool, False, slot, word)


@kernel
def _add_quantiles(view: Any, pool: Any, slot: int, words: Array) -> None:
    for word in words:
        quantiles.quantiles_accumulate(view, pool, False, slot, word)


LOOPS: dict[str, Any] = {"hyperloglog": _add_registers, "quantiles": _add_quantiles}
changes = st.lists(st.tuples(st.booleans(), st.integers(-128, 127)), max_size=40)


def _signed(value: int, width: int) -> int:
    value &= (1 << width) - 1
    return value - (1 << width) if value >> (width - 1) else value


@settings(max_examples=60, deadline=None)
@given(changes, st.sampled_from((8, 16, 32, 64)))
def test_bits_are_those_of_what_is_left(changes: list[tuple[bool, int]], width: int) -> None:
    subject, other, whole = (_Subject("bits", width) for _ in range(3))
    model: Counter[int] = Counter()
    for k, (adds, small) in enumerate(changes):
        value = _signed(small * 0x0101010101010101, width)
        for target in (whole, subject if k % 2 else other):
            (target.add if adds else target.retract)(1, value)
        model[value] += 1 if adds else -1
    subject.merge(1, other, 1)
    counts = [sum(n for v, n in model.items() if (v >> b) & 1) for b in range(width)]
    for view in (subject, whole):
        for count in (model.total(), 1, -1, 0):
            every = sum(1 << b for b in range(width) if counts[b] == count)
            assert view.read("all_bits", 1, count) == _signed(every, width)
        some = sum(1 << b for b in range(width) if counts[b] > 0)
        assert view.read("any_bits", 1) == _signed(some, width)
        assert view.none(1) == (model.total() <= 0)
    assert subject.plain == whole.plain
    for adds, small in changes:
        value = _signed(small * 0x0101010101010101, width)
        (subject.retract if adds else subject.add)(1, value)
    assert not subject.view.arrays.counts.any() and subject.plain == [{}, {}, {}]


def test_registers_for_an_error() -> None:
    wanted = {0.9: 16, 0.26: 16, 0.25: 32, 0.05: 512, 0.01: 16384, 1e-9: 2**18, 0.0: 2**18}
    assert {error: registers_for(error) for error in wanted} == wanted


@pytest.mark.parametrize("width", [16, 512, 16384])
def test_distinct_counts_are_near_and_small_ones_exact(width: int) -> None:
    subject = _Subject("hyperloglog", width, plain=False)
    few = min(width // 4, registers.MOST_ENTRIES)
    assert subject.none(0) and subject.read("estimate", 0) == 0
    for n in range(1, few + 1):
        subject.add(0, n * n, n * n, 1)
        assert subject.read("estimate", 0) == n
    for n in (10, 1000, 100_000):
        for start in (0, -(10**9), 10**15):
            subject.clear(1)
            subject.add_words(1, np.arange(start, start + n, dtype=np.int64) * 7)
            error = abs(subject.read("estimate", 1) - n) / n
            assert error <= max(4 * 1.04 / math.sqrt(width), 0.5 / n)
    assert not subject.none(1)


def test_the_mean_error_of_distinct_counts_is_as_said() -> None:
    rng = np.random.default_rng(5)
    subject, errors = _Subject("hyperloglog", 256, plain=False), []
    for n in (65, 100, 300, 1000, 30_000) * 20:
        subject.clear(0)
        subject.add_words(0, rng.integers(-(2**62), 2**62, n))
        errors.append((subject.read("estimate", 0) - n) / n)
    assert abs(np.mean(errors)) < 3 * 0.065 / math.sqrt(len(errors))
    assert np.std(errors) < 0.065 * 1.2


words = st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(0, 30), max_size=60)


@settings(max_examples=40, deadline=None)
@given(words, words, st.sampled_from((16, 64)))
def test_merging_distinct_counts_is_the_union(a: list[int], b: list[int], width: int) -> None:
    one, two, whole = (_Subject("hyperloglog", width) for _ in range(3))
    one.add(0, *a)
    two.add(2, *b)
    whole.add(0, *b, *a)
    one.merge(0, two, 2)
    assert (one.view.arrays.cells == whole.view.arrays.cells).all()
    assert (one.view.arrays.filled == whole.view.arrays.filled).all()
    assert one.plain == whole.plain
    assert one.read("estimate", 0) == whole.read("estimate", 0)
    one.clear(0)
    assert one.none(0) and not one.view.arrays.cells.any() and one.plain == [{}, {}, {}]


@pytest.mark.parametrize("width", [16, 512])
def test_distinct_texts_count_alike_in_both_backends(width: int) -> None:
    one, two = (_Subject("hyperloglog", width, pooled=True) for _ in range(2))
    for n in range(300):
        (one if n % 2 else two).add(0, f"näme {n % 150}")
    one.merge(0, two, 0)
    assert abs(one.read("estimate", 0) - 150) < 150 * 4.2 / math.sqrt(width)


def test_wide_decimals_have_the_hashes_of_their_bytes() -> None:
    subject = _Subject("hyperloglog", 16, pooled=True)
    for n in range(100):
        number = (n - 50) * 10**30
        subject.add(0, (number + (1 << 127)).to_bytes(16, "big"))
        plain_sketches.hyperloglog_accumulate(subject.plain, None, True, 1, number)
    subject.read("estimate", 0)
    assert subject.plain[0] == subject.plain[1]


def _float_word(value: float) -> int:
    return int(float_words(np.array([value]))[0])


doubles = st.lists(
    st.floats(width=64)
    | st.sampled_from((0.0, -0.0, 1e-320, 5e-324, 1.7976931348623157e308, math.inf, math.nan)),
    min_size=1,
    max_size=30,
)


def _near(estimate: float, exact: float, alpha: float) -> bool:
    if math.isnan(exact):
        return math.isnan(estimate)
    if exact == 0 or math.isinf(exact):
        return estimate == exact
    return abs(estimate - exact) <= alpha * abs(exact) * (1 + 1e-9) + 5e-324


@settings(max_examples=60, deadline=None)
@given(doubles, doubles, st.sampled_from((2, 20, 100, 10_000)), st.floats(0, 1))
def test_binned_percentiles_are_within_the_relative_error(
    kept: list[float], gone: list[float], width: int, fraction: float
) -> None:
    one, two, whole = (_Subject("ddsketch", width) for _ in range(3))
    for k, x in enumerate(kept):
        for target in (whole, one if k % 2 else two):
            target.add(0, _float_word(x))
    one.retract(0, *map(_float_word, gone))
    two.add(0, *map(_float_word, gone))
    one.merge(0, two, 0)
    ordered = sorted(kept, key=_float_word)
    exact = ordered[math.floor(fraction * (len(kept) - 1) + 0.5)]
    assert _near(one.read("binned_percentile", 0, fraction), exact, 1 / width)
    assert one.plain == whole.plain and one.view.live == whole.view.live == len(whole.plain[0])
    one.retract(0, *map(_float_word, kept))
    assert one.none(0) and one.view.live == 0 and one.plain == [{}, {}, {}]
    assert math.isnan(one.read("binned_percentile", 0, fraction))


def test_powers_of_ten_and_small_integers_come_back_within_the_error() -> None:
    values = [float(n) for n in range(1, 1001)] + [10.0**n for n in range(-300, 300)]
    for width in (2, 100, 1000, 10**6):
        for value in values:
            for signed in (value, -value):
                number = bins.bin_of(_float_word(signed), width)
                assert _near(bins.bin_value(number, width), signed, 1 / width)


def _entries(subject: _Subject, slot: int) -> list[list[Any]]:
    tree, found = subject.view.arrays.tree, []
    leaf, entry = tree_start(tree, slot, 0)
    while entry:
        word, *counts = tree.heap[entry : entry + 4].tolist()
        found.append([subject.value(word), *counts])
        leaf, entry = tree_step(tree, subject.pool.arrays, subject.pooled, slot, leaf, entry, 1)
    return found


def _worst(subject: _Subject, slot: int, values: Array) -> int:
    """Return the number of ranks by which a percentile is off, at most."""
    ordered, worst = np.sort(values), 0
    for fraction in np.linspace(0, 1, 301):
        word = subject.read("summary_percentile", slot, fraction)
        rank = max(1, math.ceil(fraction * len(values)))
        first = int(np.searchsorted(ordered, word, "left")) + 1
        last = int(np.searchsorted(ordered, word, "right"))
        assert first <= last, "a value that never came"
        worst = max(worst, first - rank, rank - last)
    return worst


ROWS = 200_000
INPUTS = {
    "random": lambda rng: rng.integers(-(2**62), 2**62, ROWS),
    "sorted": lambda rng: np.arange(ROWS),
    "reversed": lambda rng: np.arange(ROWS)[::-1].copy(),
    "frequent": lambda rng: rng.zipf(1.3, ROWS).clip(0, 2**40).astype(np.int64),
    "few": lambda rng: rng.integers(0, 50, ROWS),
    "converging": lambda rng: np.arange(ROWS)[::-1] * (-1) ** np.arange(ROWS),
}


@pytest.mark.parametrize("order", list(INPUTS))
@pytest.mark.sampled(2)
def test_summaries_are_within_their_bound_and_bounded(order: str) -> None:
    values = INPUTS[order](np.random.default_rng(3))
    whole, merged = (_Subject("quantiles", 100, plain=False) for _ in range(2))
    whole.add_words(0, values)
    bound, most = {"few": (0, 51), "converging": (ROWS // 100, 600)}.get(order, (ROWS // 100, 200))
    assert _worst(whole, 0, values) <= bound
    assert whole.view.live < most
    for part in np.array_split(values, 8):
        one = _Subject("quantiles", 100, plain=False)
        one.add_words(1, part)
        merged.merge(0, one, 1)
    assert _worst(merged, 0, values) <= bound
    assert merged.view.live < 2 * most
    assert merged.view.arrays.tree.meta[USED] < 2 * most * 32
    whole.clear(0)
    whole.view.shrink()
    assert whole.none(0) and whole.view.arrays.tree.meta[USED] == 1
    assert not any(array.any() for array in whole.view.arrays[1:3])


def test_merging_in_a_tree_of_uneven_parts_keeps_the_bound() -> None:
    rng, values, parts = random.Random(11), [], []
    for k in range(32):
        part = np.array([rng.gauss(k % 5, 1) * 1e9 for _ in range(rng.choice((3, 50, 3000)))])
        values.append(part.astype(np.int64))
        parts.append(_Subject("quantiles", 50, plain=False))
        parts[-1].add_words(0, values[-1])
    while len(parts) > 1:
        rng.shuffle(parts)
        parts[0].merge(0, parts.pop(), 0)
    whole = np.concatenate(values)
    assert _worst(parts[0], 0, whole) <= len(whole) // 50


def test_few_rows_have_exact_percentiles() -> None:
    subject = _Subject("quantiles", 100)
    subject.add(0, 4, 3, 8, 9)
    found = [subject.read("summary_percentile", 0, f) for f in (0, 0.25, 0.26, 0.5, 0.51, 1)]
    assert found == [3, 3, 4, 4, 8, 9]
    numbers = random.Random(1).choices(range(40), k=95)
    subject.add(0, *numbers)
    assert _worst(subject, 0, np.array([4, 3, 8, 9, *numbers])) == 0


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 999), max_size=250), st.sampled_from((1, 5, 40)), st.booleans())
def test_both_backends_keep_one_summary(values: list[int], accuracy: int, pooled: bool) -> None:
    one, two, copy = (_Subject("quantiles", accuracy, pooled) for _ in range(3))
    named = [f"é{v}" if pooled else v for v in values]
    one.add(0, *named[: len(named) // 2])
    two.add(1, *named[len(named) // 2 :])
    one.merge(0, two, 1)
    copy.merge(2, one, 0)
    for subject, slot in ((one, 0), (two, 1), (copy, 2)):
        kept = subject.plain[slot]
        assert _entries(subject, slot) == kept.get("entries", [])
        assert subject.view.arrays.rows[slot] == kept.get("rows", 0)
        assert subject.view.arrays.fresh[slot] == kept.get("fresh", 0)
    for subject, slot in ((one, 0), (copy, 2)):
        subject.add(slot, *named[:40])
        for fraction in (0.0, 0.1, 0.5, 0.99, 1.0) if values else ():
            subject.read("summary_percentile", slot, fraction)
    assert one.plain[0] == copy.plain[2]
    one.clear(0)
    assert one.view.live == 0 and one.plain == [{}, {}, {}]
    assert not pooled or not one.pool.arrays.refs.any()


@pytest.mark.parametrize("kind", list(OWNERS))
def test_slots_come_and_go_and_state_is_in_the_arena(kind: str) -> None:
    subject = _Subject(kind, 64)
    subject.add(1, *range(40))
    subject.view.reserve_slots(50)
    subject.plain.extend(VIEW_TYPES[kind](47, 64))
    subject.add(49, *range(30))
    parameters = (0.5,) if "percentile" in subject.reader else ()
    before = [subject.read(subject.reader, slot, *parameters) for slot in (1, 49)]
    copy = Arena()
    copy.restore(subject.arena.snapshot())
    subject.view = OWNERS[kind][1](copy, "v", 50, 64)
    assert [subject.read(subject.reader, slot, *parameters) for slot in (1, 49)] == before
    subject.add(49, 77)
    subject.clear(1)
    subject.clear(49)
    assert all(subject.none(slot) for slot in range(50))
    subject.view.shrink()
    subject.view.trim()
    assert subject.view.live == 0 and not subject.view.is_airy
