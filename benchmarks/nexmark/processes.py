"""Processor time of Spark's JVM and of its Python workers, as the system has counted it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Self


@dataclass(frozen=True)
class Spent:
    """Seconds of processor time so far, of all cores together."""

    jvm: float = 0.0
    python: float = 0.0

    @classmethod
    def now(cls, jvm: int) -> Self:
        """Of a JVM, and of the processes that it has started, and those that they have."""
        seconds = _with_descendants(jvm)
        return cls(seconds.pop(jvm), sum(seconds.values()))

    def since(self, before: Spent) -> Spent:
        """What was spent in between."""
        return Spent(self.jvm - before.jvm, self.python - before.python)


def _with_descendants(root: int) -> dict[int, float]:
    """Seconds of a process and of all that descend from it, each with those of children that have ended."""
    tick = os.sysconf("SC_CLK_TCK")
    parents, found = {}, {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            rest = entry.read_text().rpartition(")")[2]
        except OSError:
            continue
        fields = rest.split()
        process = int(entry.parent.name)
        parents[process] = int(fields[1])
        found[process] = sum(map(int, fields[11:15])) / tick
    ours = {root}
    grows = True
    while grows:
        more = {child for child, parent in parents.items() if parent in ours} - ours
        grows = bool(more)
        ours |= more
    return {process: found[process] for process in ours}
