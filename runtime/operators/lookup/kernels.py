"""Rows and their arrivals in a bundle, one change after the other: what becomes of them."""

from __future__ import annotations

from aggloom.runtime.storage.arena import Array
from aggloom.runtime.storage.jit import kernel


@kernel
def follow(
    groups: Array,
    adds: Array,
    replaces: bool,
    keeps: bool,
    depth: Array,
    debts: Array,
    stays: Array,
    taken: Array,
    under: Array,
    top: Array,
    stray: Array,
) -> int:
    """Take changes as they stand; return how many take back what is not there: their numbers are in `stray`.

    By key: depth, how many arrivals are stored; debts, how many rows were taken back before they came; taken, how many
    stored arrivals go, the latest first; top, the last change that came and stays, or -1. By change: stays, whether it
    came and stays; under, the one below it.
    """
    found = 0
    for r in range(len(groups)):
        g = groups[r]
        if adds[r]:
            if debts[g] > 0:
                debts[g] -= 1
                continue
            if replaces:
                if top[g] >= 0:
                    stays[top[g]] = False
                    top[g] = -1
                elif taken[g] < depth[g]:
                    taken[g] += 1
            stays[r] = True
            under[r] = top[g]
            top[g] = r
        elif top[g] >= 0:
            stays[top[g]] = False
            top[g] = under[top[g]]
        elif taken[g] < depth[g]:
            taken[g] += 1
        else:
            if keeps:
                debts[g] += 1
            stray[found] = r
            found += 1
    return found
