"""Kernels that Python runs while there is little to do, with the results that compiled ones have."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, NamedTuple

import numpy as np
import pytest
from mutated.queries import feed, made

from aggloom.interpreted_start import ALLOWANCE, interpret_few_rows
from aggloom.runtime.storage.jit import inner_kernel, kernel, only_compiled
from aggloom.runtime.views.ddsketch import bin_of

pytestmark = pytest.mark.shortcut
_GREATEST = 2**63 - 1


class Numbers(NamedTuple):
    """Numbers, and room that is as long when it is empty."""

    values: Any
    room: Any

    @property
    def fixed_fields(self) -> tuple[str, ...]:
        return ("room",)


@inner_kernel
def next_number(number: int) -> int:
    return number + 1


@kernel
def sum_next(numbers: Numbers, start: int) -> tuple[int, bool]:
    total = np.int64(start)
    for n in range(len(numbers.values)):
        total += next_number(numbers.values[n])
    return total, total > start


@kernel
def divide(numbers: Any, others: Any) -> float:
    return numbers[0] / others[0]


@only_compiled
@kernel
def log_of(number: float) -> float:
    return np.log(number)


@kernel
def sum_logs(numbers: Numbers) -> float:
    total = 0.0
    for n in range(len(numbers.values)):
        total += log_of(np.float64(numbers.values[n]))
    return total


def numbers_of(count: int, room: int = 1) -> Numbers:
    return Numbers(np.arange(count), np.zeros(room, np.int64))


def compilations(function: Any) -> int:
    return len(function.overloads)


def test_python_runs_kernels_while_it_is_allowed_to() -> None:
    before = compilations(sum_next)
    with interpret_few_rows():
        total, is_more = sum_next(numbers_of(4, 10_000), 5)
    assert (total, is_more) == (15, True)
    # As compiled kernels, it answers in numbers of Python's own.
    assert (type(total), type(is_more)) == (int, bool)
    assert compilations(sum_next) == before
    # It is over.
    assert sum_next(numbers_of(4), 5) == (15, True)
    assert compilations(sum_next) == before + 1


def test_numbers_overflow_as_compiled_ones_do(recwarn: pytest.WarningsRecorder) -> None:
    with interpret_few_rows():
        interpreted = sum_next(numbers_of(2), _GREATEST)
    assert interpreted == sum_next(numbers_of(2), _GREATEST)
    assert not recwarn.list


def test_a_division_by_zero_is_an_error_both_ways() -> None:
    for allowance in (interpret_few_rows(), nullcontext()):
        with allowance, pytest.raises(ZeroDivisionError):
            divide(np.ones(1), np.zeros(1))


def test_long_arrays_and_long_work_are_left_to_numba(monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[int] = []
    monkeypatch.setattr(sum_next, "py_func", lambda numbers, start: runs.append(start))
    with interpret_few_rows(words=100):
        sum_next(numbers_of(100), 1)
        assert sum_next(numbers_of(101), 2)[0] == 2 + 101 * 102 // 2
        ALLOWANCE.seconds = 0.0
        sum_next(numbers_of(100), 3)
    assert runs == [1]


def test_a_kernel_that_runs_ends_as_it_began() -> None:
    """Python also runs the kernels that it calls, when the time is up by then; it does not after an error."""
    before = compilations(next_number)
    with interpret_few_rows(seconds=1e-9):
        assert sum_next(numbers_of(3), 0) == (6, True)
        assert ALLOWANCE.seconds < 0
    assert compilations(next_number) == before
    with interpret_few_rows():
        with pytest.raises(TypeError):
            sum_next(Numbers(np.array([None]), np.zeros(1)), 1)
        ALLOWANCE.seconds = 0.0
        assert sum_next(numbers_of(3), 0) == (6, True)


def test_logarithms_are_always_numbas() -> None:
    """NumPy has its own, which differ in the last bit: a value would be in one bin, or in the next."""
    words = np.array([1.0, 3.5, 1e300, -7.25e-9, 0.1]).view(np.int64)
    words ^= words >> 63 & (2**63 - 1)
    with interpret_few_rows():
        interpreted = [bin_of(word, 200) for word in words]
        logs = sum_logs(Numbers(np.array([1, 3, 1009]), np.zeros(1)))
    assert interpreted == [bin_of(word, 200) for word in words]
    assert logs == sum_logs(Numbers(np.array([1, 3, 1009]), np.zeros(1)))
    assert compilations(log_of) == 1


def play(make: Callable[[], Any]) -> list[object]:
    """Return the state and the output of a query after a few changes, a restart and more changes."""
    rng, live, harness = random.Random(7), {}, make()
    feed(harness, rng, live, True, 40)
    out: list[object] = [harness.snapshot(), harness.changes()]
    harness = make()
    harness.restore(out[0])
    feed(harness, rng, live, True, 40)
    for name, rows in live.items():
        harness.process([("-D", *row) for row in rows[::2]], table=name)
    harness.end_of_input()
    return [*out, harness.snapshot(), harness.table()]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["extremes", "rank", "join"])
def test_states_are_the_same_byte_for_byte(name: str) -> None:
    """Rows go through the kernels of an operator, its views and its snapshots."""
    make = made()[name]
    with interpret_few_rows(seconds=1000.0, words=1 << 40):
        interpreted = play(make)
    # Texts, for NaN is not NaN.
    assert list(map(repr, interpreted)) == list(map(repr, play(make)))
