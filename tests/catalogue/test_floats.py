"""Float sums and moments against fractions: any exponents, any order, retractions, merges, special values.

Sums, averages, variances and covariances must be the nearest double, so they are compared bit for bit, which
is stricter than the bounds promised (1 ulp for sums, 4 for the others).
"""

from __future__ import annotations

import itertools
import math
import random
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit

from aggloom.runtime.arithmetic import floats, moments
from aggloom.runtime.arithmetic.superaccumulator import BINS
from aggloom.runtime.plain import floats as plain_floats
from aggloom.runtime.storage.arena import Arena

X, Y, XY, XX, X3, X4 = range(6)
ZERO = (0.0,) * 7
Row = tuple[float, float]


def same(a: float, b: float) -> bool:
    """Tell whether two doubles are the same, or both NaN."""
    return (a != a and b != b) or (a == b and math.copysign(1, a) == math.copysign(1, b))


def near(a: float, b: float, ulps: int) -> bool:
    return same(a, b) or abs(a - b) <= ulps * math.ulp(b)


class Sums:
    """All sums of one slot in both backends, which must agree after every change."""

    def __init__(self, view: floats.SpillView | None = None, slot: int = 0) -> None:
        self.view = view or floats.SpillView(Arena(), "v", 2, 6)
        self.slot = slot
        self.fast: list[Any] = [ZERO] * 6
        self.plain: list[Any] = [plain_floats.ZERO_SUM] * 6

    @property
    def spill(self) -> floats.Spill:
        return self.view.arrays

    def _step(self, field: int, operation: str, *args: Any) -> None:
        self.view.reserve(1)
        for module, spill, sums in (
            (floats, self.spill, self.fast),
            (plain_floats, None, self.plain),
        ):
            step = getattr(module, operation)
            sums[field] = step(spill, self.slot, field, sums[field], *args)

    def change(self, value: float, sign: str) -> None:
        self._step(X, f"{sign}_float", value)

    def change_row(self, row: Row, sign: str) -> None:
        x, y = row
        self._step(X, f"{sign}_float", x)
        self._step(Y, f"{sign}_float", y)
        self._step(XY, f"{sign}_product", x, y)
        self._step(XX, f"{sign}_product", x, x)

    def change_powers(self, x: float, sign: str) -> None:
        self._step(X3, f"{sign}_power", x, 3)
        self._step(X4, f"{sign}_power", x, 4)

    def merge(self, other: Sums) -> None:
        self.view.reserve_blocks(other.view.live)
        for f in range(6):
            self.fast[f] = floats.combine_float(
                self.spill, self.slot, f, self.fast[f], other.spill, other.slot, other.fast[f]
            )
            self.plain[f] = plain_floats.combine_float(
                None, 0, f, self.plain[f], None, 0, other.plain[f]
            )

    def clear(self) -> None:
        floats.spill_clear(self.spill, None, False, self.slot)
        self.fast, self.plain = [ZERO] * 6, [plain_floats.ZERO_SUM] * 6

    def total(self, field: int = X) -> float:
        return float(floats.float_total(self.spill, self.slot, field, self.fast[field]))

    def check(self, fields: int = 1, counts: tuple[int, ...] = (1, -7, 10**6, 2**62 + 1)) -> None:
        for f in range(fields):
            wanted = plain_floats.float_total(None, 0, f, self.plain[f])
            assert same(self.total(f), wanted)
            for count in counts:
                average = floats.float_average(self.spill, self.slot, f, self.fast[f], count)
                assert same(average, plain_floats.float_average(None, 0, f, self.plain[f], count))

    def _moment(self, name: str, fields: tuple[int, ...], n: int) -> tuple[float, float]:
        found = []
        for module, spill, sums in (
            (moments, self.spill, self.fast),
            (plain_floats, None, self.plain),
        ):
            pairs = [part for f in fields for part in (f, sums[f])]
            found.append(getattr(module, name)(spill, self.slot, *pairs, n))
        return found[0], found[1]

    def check_deviations(self, n: int) -> None:
        for fields in ((X, Y, XY), (X, X, XX)):
            assert same(*self._moment("deviation", fields, n))

    def check_shape(self, n: int) -> None:
        assert near(*self._moment("skewness", (X, XX, X3), n), 4)
        assert near(*self._moment("kurtosis", (X, XX, X3, X4), n), 4)


def scaled(least: int, greatest: int) -> st.SearchStrategy[float]:
    """Doubles of every exponent between two with equal chances."""
    mantissas = st.integers(-(2**53), 2**53)
    return st.builds(lambda m, e: math.ldexp(m, e - 53), mantissas, st.integers(least, greatest))


MAGNITUDES = [sign * 10.0**e for e in range(-320, 309, 57) for sign in (1, -1)]
EXTREMES = [5e-324, -5e-324, 2.2250738585072014e-308, 1e-308, 1.7976931348623157e308, -1e308, 0.0]
FINITE = st.one_of(
    scaled(-1074, 1023),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(MAGNITUDES + EXTREMES),
    st.integers(-1000, 1000).map(float),
)
ANY = st.one_of(FINITE, st.sampled_from([math.nan, math.inf, -math.inf]))
# What to add, and which of the live values to retract instead.
STEPS = st.lists(st.tuples(ANY, st.none() | st.integers(0, 50)), max_size=40)


def run(sums: Sums, steps: list[tuple[float, int | None]]) -> list[float]:
    """Apply steps; what is live in the end."""
    live: list[float] = []
    for value, place in steps:
        if place is not None and live:
            sums.change(live.pop(place % len(live)), "subtract")
        else:
            live.append(value)
            sums.change(value, "add")
    return live


@settings(max_examples=100, deadline=None)
@given(STEPS, STEPS)
def test_sums_and_averages_are_rounded_once(
    first: list[tuple[float, int | None]], second: list[tuple[float, int | None]]
) -> None:
    sums = Sums()
    live = run(sums, first)
    sums.check()
    live += run(sums, second)
    sums.check()
    for value in live:
        sums.change(value, "subtract")
    assert sums.total() == 0.0
    sums.clear()
    assert sums.view.live == 0 and not sums.spill.blocks.any()


@settings(max_examples=100, deadline=None)
@given(st.lists(FINITE, max_size=25), st.randoms(use_true_random=False))
def test_an_orphan_retraction_is_a_negative_row(values: list[float], rnd: random.Random) -> None:
    sums = Sums()
    for value in values:
        sums.change(value, rnd.choice(["add", "subtract"]))
    sums.check()


@settings(max_examples=100, deadline=None)
@given(STEPS, STEPS, st.booleans())
def test_merging_adds(
    left: list[tuple[float, int | None]], right: list[tuple[float, int | None]], shared: bool
) -> None:
    a = Sums()
    b = Sums(a.view if shared else None, 1)
    live = run(a, left) + run(b, right)
    a.merge(b)
    a.check()
    for value in live:
        a.change(value, "subtract")
    assert a.total() == 0.0
    a.clear()
    b.clear()
    assert a.view.live == b.view.live == 0


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(ANY, ANY), max_size=12), st.randoms(use_true_random=False))
def test_products_are_exact(rows: list[Row], rnd: random.Random) -> None:
    sums = Sums()
    for row in rows:
        sums.change_row(row, "add")
    sums.check(4)
    gone = rnd.sample(rows, len(rows) // 2)
    for row in gone:
        sums.change_row(row, "subtract")
    sums.check(4)
    sums.check_deviations(max(1, len(rows) - len(gone)))


CLOSE = st.one_of(
    st.floats(0, 1).map(lambda x: 1e9 + x),
    st.integers(0, 9).map(lambda k: 1.0 + k * 2.0**-52),
    st.integers(0, 9).map(lambda k: 1.7976931348623157e308 - k * 2.0**971),
    st.integers(0, 9).map(lambda k: k * 5e-324),
    scaled(-3, 3),
)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(CLOSE, CLOSE), min_size=1, max_size=12)
    | st.lists(st.tuples(FINITE, FINITE), min_size=1, max_size=8)
)
def test_deviations_are_rounded_once(rows: list[Row]) -> None:
    sums = Sums()
    for row in rows:
        sums.change_row(row, "add")
    sums.check_deviations(len(rows))
    exact = [(Fraction(x), Fraction(y)) for x, y in rows]
    mean_x, mean_y = (sum(c, Fraction(0)) / len(rows) for c in zip(*exact, strict=True))
    wanted = sum(((x - mean_x) * (y - mean_y) for x, y in exact), Fraction(0))
    found = moments.deviation(
        sums.spill, 0, X, sums.fast[X], Y, sums.fast[Y], XY, sums.fast[XY], len(rows)
    )
    if abs(wanted) < Fraction(2) ** 1023:
        assert same(found, float(wanted) + 0.0)


def test_of_one_value_in_a_million_rows_nothing_deviates() -> None:
    sums = Sums()
    for _ in range(20):  # Doubling by merging into itself from another slot.
        sums.change_row((0.1, 1e-5), "add")
        other = Sums(sums.view, 1)
        other.merge(sums)
        sums.merge(other)
        other.clear()
    n = 2**21 - 2
    sums.check(4, (n,))
    sums.check_deviations(n)
    assert moments.deviation(sums.spill, 0, *[X, sums.fast[X]] * 2, XX, sums.fast[XX], n) == 0.0


@settings(max_examples=60, deadline=None)
@given(
    st.lists(scaled(-150, 150), min_size=1, max_size=10)
    | st.lists(CLOSE.filter(lambda x: abs(x) < 1e70), min_size=1, max_size=10)
    | st.lists(st.integers(-9, 9).map(float), min_size=1, max_size=10)
    | st.lists(st.sampled_from([1e-140, -3e-139, 1e75, -2e76, 5.0, 0.1]), min_size=1, max_size=8)
)
def test_shapes_are_those_of_exact_moments(values: list[float]) -> None:
    sums = Sums()
    for x in [*values, 1e76, -3.25]:
        sums.change_row((x, 0.0), "add")
        sums.change_powers(x, "add")
    for x in (1e76, -3.25):
        sums.change_row((x, 0.0), "subtract")
        sums.change_powers(x, "subtract")
    if all(x == 0.0 or abs(x) > 1e-145 for x in values):
        sums.check(6)
        sums.check_shape(len(values))


@pytest.mark.parametrize("x", [math.inf, -math.inf, math.nan, 1e200, -1e200])
def test_powers_without_a_finite_double_come_and_go(x: float) -> None:
    sums = Sums()
    sums.change_powers(2.0, "add")
    sums.change_powers(x, "add")
    sums.check(6)
    assert not math.isfinite(sums.total(X3)) and not math.isfinite(sums.total(X4))
    sums.change_powers(x, "subtract")
    assert (sums.total(X3), sums.total(X4)) == (8.0, 16.0)


@settings(max_examples=100, deadline=None)
@given(st.tuples(*[scaled(-1074, 1023).map(abs)] * 2), scaled(-1074, 1023))
def test_correlation_survives_extremes(squares: Row, product: float) -> None:
    found = moments.correlation(*squares, product)
    assert same(found, plain_floats.correlation(*squares, product))
    if min(squares) > 0:
        square = Fraction(product) ** 2 / Fraction(squares[0]) / Fraction(squares[1])
        assert -1.0 <= found <= 1.0
        assert square > 1 or near(abs(found), _root(square), 2)


def _root(square: Fraction) -> float:
    """The square root of a fraction up to 1, which may be less than any double's square."""
    scale = max(0, square.denominator.bit_length() - square.numerator.bit_length()) // 2
    return math.ldexp(math.sqrt(square * 4**scale), -scale)


def test_an_overflowing_sum_has_an_average() -> None:
    sums = Sums()
    for _ in range(100):
        sums.change(1.5e308, "add")
    assert sums.total() == math.inf
    assert floats.float_average(sums.spill, 0, X, sums.fast[X], 100) == 1.5e308
    for _ in range(99):
        sums.change(1.5e308, "subtract")
    assert sums.total() == 1.5e308 and sums.view.live == 0


def test_many_magnitudes_leave_what_is_live() -> None:
    sums = Sums()
    values = [1e300, 1e200, 1e100, 1.0, 1e-100, 1e-200, 1e-300, 5e-324]
    for value in values:
        sums.change(value, "add")
    assert sums.view.live == 1
    for value, rest in itertools.pairwise(values):
        sums.change(value, "subtract")
        assert sums.total() == rest
    sums.change(5e-324, "subtract")
    assert sums.total() == 0.0


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_bins_carry_before_they_overflow(sign: float) -> None:
    sums = Sums()
    for value in (1e300, 1e150, 1.0, sign * 1e-300, sign * 1.7e-290):
        sums.change(value, "add")
    block = sums.spill.index[0, X]
    assert block > 0
    sums.spill.blocks[block, BINS] = (1 << 29) - 1
    sums.change(sign * 1e-301, "add")
    assert sums.spill.blocks[block, BINS] == 1
    assert (sums.spill.blocks[block, : BINS - 1] >= 0).all()
    for value in (1e300, 1e150, 1.0):
        sums.change(value, "subtract")
    sums.check()
    assert sums.total() != 0.0


@njit(_nrt=False)  # type: ignore[untyped-decorator]
def _add_all(spill: Any, field: Any, slots: Any, xs: Any, first: int) -> int:
    """Add rows until the spill is full; the row it stopped before."""
    for i in range(first, len(xs)):
        if floats.spill_full(spill):
            return i
        s = slots[i]
        a = floats.load_float(field, s)
        floats.store_float(field, s, floats.add_float(spill, s, 0, a, xs[i]))
    return len(xs)


def test_ordinary_values_take_no_block() -> None:
    rng = np.random.default_rng(3)
    view = floats.SpillView(Arena(), "v", 4, 1)
    view.reserve(1)
    for xs in (rng.normal(size=100_000), np.round(rng.uniform(0, 1000, 100_000), 2)):
        field, slots = np.zeros((4, 7)), rng.integers(0, 4, len(xs))
        assert _add_all(view.arrays, field, slots, xs, 0) == len(xs)
        assert view.live == 0
        for s in range(4):
            a = floats.load_float(field, s)
            assert floats.float_total(view.arrays, s, 0, a) == math.fsum(xs[slots == s])


@pytest.mark.parametrize("mapped", [False, True])
def test_blocks_are_made_reused_and_given_back(mapped: bool, tmp_path: Path) -> None:
    arena = Arena(tmp_path if mapped else None)
    view = floats.SpillView(arena, "v", 100, 1)
    assert arena.nbytes < 40_000 and not floats.spill_full(view.arrays)
    view.reserve_slots(300)
    field, slots = np.zeros((300, 7)), np.repeat(np.arange(300), 4)
    xs, stops, done = np.tile([1e-200, 1.0, 1e100, 1e200], 300), 0, 0
    while done < len(xs):
        view.reserve(len(xs) - done)
        done = _add_all(view.arrays, field, slots, xs, done)
        stops += 1
    assert view.live == 300 and 2 < stops < 8
    again = floats.SpillView(arena, "v", 0, 1)
    for s in range(300):
        rest = floats.load_float(field, s)
        for value in (1.0, 1e100, 1e200):
            rest = floats.subtract_float(again.arrays, s, 0, rest, value)
        assert floats.float_total(again.arrays, s, 0, rest) == 1e-200
    for s in range(0, 300, 2):
        floats.spill_clear(view.arrays, None, False, s)
    assert view.live == 150
    size = len(view.arrays.blocks)
    view.reserve_blocks(150)
    assert len(view.arrays.blocks) == size
    view.trim()
    assert len(view.arrays.blocks) == 301
    for s in range(1, 300, 2):
        floats.spill_reset(view.arrays, s, 0)
    assert view.live == 0 and not view.arrays.blocks.any() and not view.is_airy
    view.shrink()
    assert len(view.arrays.blocks) == 33 and not floats.spill_full(view.arrays)
