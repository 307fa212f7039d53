"""Kernels read their indices as numbers without a sign."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numba import njit

from aggloom.runtime.platform.kernels.indexing import Compiler
from aggloom.runtime.storage.jit import kernel


def moved(numbers: Any, table: Any, i: int, j: int) -> int:
    """Reads and writes of one and two dimensions."""
    numbers[i] += table[i, j]
    table[i, j] = numbers[j]
    return numbers[i]


def asks(function: Callable[..., Any]) -> int:
    """Count the tests of a number's sign in a function's compiled code."""
    function(np.arange(3), np.zeros((3, 3), np.int64), 1, 2)
    (text,) = function.inspect_llvm().values()  # type: ignore[attr-defined]
    return sum(text.count(f"icmp {test} i64") for test in ("slt", "sgt"))


def test_no_access_asks_whether_its_index_is_negative() -> None:
    # Not `kernel`: of code from its cache Numba shows nothing.
    assert asks(njit(pipeline_class=Compiler)(moved)) == 0 < asks(njit(moved))


@pytest.mark.parametrize("dtype", ["i8", "i4", "u1"])
def test_accesses_are_those_of_numpy(dtype: str) -> None:
    ours, theirs = (
        (np.arange(5).astype(dtype), np.arange(25).astype(dtype).reshape(5, 5)) for _ in range(2)
    )
    compiled = kernel(moved)
    for i in range(5):
        for j in range(5):
            with np.errstate(over="ignore"):
                assert compiled(*ours, i, j) == moved(*theirs, i, j)
    assert np.array_equal(ours[0], theirs[0]) and np.array_equal(ours[1], theirs[1])
