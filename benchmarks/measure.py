"""Runs, the rounds in which contenders take turns, and the ratios of what was measured in the same round."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import click


@dataclass(frozen=True)
class Run:
    """One run: rows, seconds of the whole, and rows a second once it is under way, if that is known."""

    rows: int
    seconds: float
    steady: float | None = None

    @property
    def rate(self) -> float:
        """Rows a second of the whole run."""
        return self.rows / self.seconds


@dataclass
class Series:
    """The runs of a contender at a case, one a round, or why there are none."""

    case: str
    contender: str
    absent: str = ""
    runs: list[Run] = field(default_factory=list)

    @property
    def rates(self) -> list[float]:
        """Rows a second of the whole, by round."""
        return [run.rate for run in self.runs]

    @property
    def steady(self) -> list[float]:
        """Rows a second once under way, by round; empty if that is not known."""
        return [run.steady for run in self.runs if run.steady is not None]


Contender = Callable[[], Run] | str
"""A function that makes a run, or the reason why there is none."""


def take_turns(case: str, contenders: Mapping[str, Contender], rounds: int) -> list[Series]:
    """Rounds in which each contender has one run: A B C, A B C, so that a slow minute hits all of them."""
    series = {name: Series(case, name) for name in contenders}
    for number in range(1, rounds + 1):
        for name, run in contenders.items():
            if isinstance(run, str):
                series[name].absent = run
                continue
            made = run()
            series[name].runs.append(made)
            steady = f", then {made.steady / 1e6:.2f} M rows/s" if made.steady else ""
            text = f"{case}, {name}, round {number} of {rounds}: {made.seconds:.1f} s{steady}"
            click.echo(text, err=True)
    return list(series.values())


def ratios(ours: Sequence[float], theirs: Sequence[float]) -> list[float]:
    """Return our speed divided by theirs, by round."""
    return [own / other for own, other in zip(ours, theirs, strict=True)]


def spread(values: Sequence[float], scale: float = 1.0) -> str:
    """The median (least..greatest), or nothing."""
    if not values:
        return ""
    middle, least, most = (
        short(value * scale) for value in (statistics.median(values), min(values), max(values))
    )
    return f"{middle} ({least}..{most})"


def short(value: float) -> str:
    """A number in three digits or more, without an exponent."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
