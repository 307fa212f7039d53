"""The names of the columns that a SELECT gives out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def free_names(names: Sequence[str | None], aliases: Iterable[str]) -> list[str | None]:
    """Names of columns, each that comes again with a number, as in Flink: a, a0, a1; None stays.

    aliases: the names that the query gives. They come first, wherever they stand: only a column without one gives way.

    >>> free_names(["k", "k", None], ["k0"])
    ['k', 'k1', None]
    """
    used_names = set(aliases)
    result: list[str | None] = []
    for name in names:
        free, number = name, 0
        while name is not None and free in used_names:
            free, number = f"{name}{number}", number + 1
        if free is not None:
            used_names.add(free)
        result.append(free)
    return result
