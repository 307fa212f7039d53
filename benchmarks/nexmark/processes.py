"""Processor time and memory of processes, as the system has counted them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Self


@dataclass(frozen=True)
class Spent:
    """Seconds of processor time so far, of a JVM and by process of what it has started."""

    jvm: float
    workers: dict[int, float]

    @classmethod
    def now(cls, jvm: int) -> Self:
        """Read the processor time, in seconds, of a JVM and of the processes that descend from it."""
        seconds = _with_descendants(jvm)
        return cls(seconds.pop(jvm), seconds)

    def since(self, before: Spent) -> tuple[float, float]:
        """Return the seconds that the JVM, and that the others that are still there, spent since `before`."""
        workers = (own - before.workers.get(pid, 0.0) for pid, own in self.workers.items())
        return self.jvm - before.jvm, sum(workers)


def forget_peak(process: int) -> None:
    """Let the peak of a process's memory begin anew."""
    Path(f"/proc/{process}/clear_refs").write_text("5")


def peak_mb(process: int) -> float:
    """The most memory that a process had since its start, or since `forget_peak`, in MB."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    peak = next(line for line in lines if line.startswith("VmHWM:"))
    return int(peak.split()[1]) * 1024 / 1e6


def descendants(root: int) -> list[int]:
    """List a process and all that descend from it."""
    return list(_with_descendants(root))


def _with_descendants(root: int) -> dict[int, float]:
    """Seconds of a process and of all that descend from it, by process."""
    tick = os.sysconf("SC_CLK_TCK")
    parents, found = {}, {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = entry.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        process = int(entry.parent.name)
        parents[process] = int(fields[1])
        found[process] = sum(map(int, fields[11:13])) / tick
    ours = {root}
    grows = True
    while grows:
        more = {child for child, parent in parents.items() if parent in ours} - ours
        grows = bool(more)
        ours |= more
    return {process: found[process] for process in ours}
