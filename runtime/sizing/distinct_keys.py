"""The number of different things that more rows would show, estimated from how often each of those seen so far was.

What matters is how many were seen once, twice, and so on to five times. Their numbers are fitted by the negative
binomial law in Engen's extension, whose shape covers things that are all as frequent and those that follow a power
law, by maximum likelihood; the same law then says how many others further rows bring.
"""

from __future__ import annotations

import numpy as np

from aggloom.runtime.storage.arena import Array

# Things seen more often say little about those that were never seen.
_RARE = 5
_TIMES = np.arange(1, _RARE + 1)
_ROUNDS = 4


def expect_distinct(counts: Array, factor: float) -> float:
    """Estimate the number of different things among `factor` times as many rows; counts (int64[things]): rows of
    each.
    """
    # One more cell takes all that are not rare, and is cut off again.
    rare = np.bincount(np.clip(counts, 1, _RARE + 1), minlength=_RARE + 2)[1 : _RARE + 1]
    # If nothing was seen only once, the sample has most likely everything.
    if factor <= 1 or rare[0] == 0:
        return float(len(counts))
    # A negative binomial law of how often each thing is seen, cut off at zero, fits many skewed inputs.
    shape, growth = _fit_shape(rare)
    law = np.exp(_logs(np.array([shape]), np.array([growth]))[0, 0])
    # How many things the law stands for: its first number is `growth`, that of things seen once.
    scale = rare.sum() / law.sum() * (1 - growth) ** -shape
    share = growth / (1 - growth)
    more = ((1 + share) ** -shape - (1 + factor * share) ** -shape) / shape
    return float(len(counts) + scale * more)


def _logs(shapes: Array, growths: Array) -> Array:
    """Return the logarithm of the number of things seen so often, up to a factor: float64[shapes, growths, times].

    shapes: float64[shapes]; growths: float64[growths].
    """
    steps = np.log((shapes[:, None] + _TIMES[1:] - 1) / _TIMES[1:])
    # Weights are logarithms of products, each one term longer than the last.
    weights = np.concatenate([np.zeros((len(shapes), 1)), np.cumsum(steps, axis=1)], axis=1)
    # Logarithms, as the products leave the range of doubles for large shapes.
    logs: Array = weights[:, None, :] + np.log(growths)[None, :, None] * _TIMES
    return logs


def _fit_shape(rare: Array) -> tuple[float, float]:
    """Return the likeliest shape (above -1, but not 0) and growth (in 0..1), on a grid that is refined.

    rare: float64[times], the number of things that were seen so often.
    """
    # Zero is left out: the law has another form there, and its neighbours come close enough.
    shapes = np.concatenate([-np.linspace(0.99, 0.01, 50), np.geomspace(0.01, 1000, 80)])
    # Growth is searched on its log odds: interesting values lie close to 0 and to 1.
    odds = np.linspace(-12, 9, 106)
    for _ in range(_ROUNDS):
        growths = 1 / (1 + np.exp(-odds))
        logs = _logs(shapes, growths)
        whole = np.log(np.exp(logs).sum(axis=2))
        # The law is conditional on what was seen a few times, so it is divided by its sum over those.
        likelihood = (logs * rare).sum(axis=2) - whole * rare.sum()
        row, column = np.unravel_index(int(np.argmax(likelihood)), likelihood.shape)
        best = float(shapes[row]), float(growths[column])
        # Each round searches twenty times finer around the best point of the last.
        shapes = _refine_grid(shapes, int(row))
        shapes = shapes[np.abs(shapes) > 1e-9]
        odds = _refine_grid(odds, int(column))
    return best


def _refine_grid(grid: Array, place: int) -> Array:
    """A finer grid between the neighbours of a place."""
    return np.linspace(grid[max(place - 1, 0)], grid[min(place + 1, len(grid) - 1)], 41)
