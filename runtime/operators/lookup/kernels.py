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
    removals: Array,
    under: Array,
    top: Array,
    stray: Array,
) -> int:
    """Apply changes in their order; return the number of orphan retractions: their numbers are in `stray`.

    By key: depth, how many arrivals are stored; debts, how many rows were retracted before they arrived; removals, how
    many stored arrivals go, the latest first; top, the last insertion that stays, or -1. By change: stays,
    whether it is an insertion that stays; under, the one below it.
    """
    orphan_count = 0
    for r in range(len(groups)):
        g = groups[r]
        if adds[r]:
            # A debt is made good by the row: neither of them is emitted.
            if debts[g] > 0:
                debts[g] -= 1
                continue
            if replaces:
                # The row of its key in this bundle has not been stored yet, and goes without a trace.
                if top[g] >= 0:
                    stays[top[g]] = False
                    top[g] = -1
                elif removals[g] < depth[g]:
                    removals[g] += 1
            stays[r] = True
            under[r] = top[g]
            top[g] = r
        elif top[g] >= 0:
            # The latest arrival is first: a retraction removes the table's last answer.
            stays[top[g]] = False
            top[g] = under[top[g]]
        elif removals[g] < depth[g]:
            removals[g] += 1
        else:
            if keeps:
                debts[g] += 1
            stray[orphan_count] = r
            orphan_count += 1
    return orphan_count
