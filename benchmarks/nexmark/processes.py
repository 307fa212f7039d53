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
    def now(cls) -> Self:
        """Of the processes that this one has started, and those that they have."""
        seconds = {"java": 0.0, "python": 0.0}
        for name, own in _below(os.getpid()):
            kind = "java" if name == "java" else "python"
            seconds[kind] += own
        return cls(seconds["java"], seconds["python"])

    def since(self, before: Spent) -> Spent:
        """What was spent in between."""
        return Spent(self.jvm - before.jvm, self.python - before.python)


def _below(root: int) -> list[tuple[str, float]]:
    """(name, seconds) of every process that descends from one, with those of children that have ended."""
    tick = os.sysconf("SC_CLK_TCK")
    parents, found = {}, {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, _, rest = entry.read_text().partition("(")[2].rpartition(")")
        except OSError:
            continue
        fields = rest.split()
        process = int(entry.parent.name)
        parents[process] = int(fields[1])
        found[process] = name, sum(map(int, fields[11:15])) / tick
    ours = {root}
    grows = True
    while grows:
        more = {child for child, parent in parents.items() if parent in ours} - ours
        grows = bool(more)
        ours |= more
    return [found[process] for process in ours - {root}]
