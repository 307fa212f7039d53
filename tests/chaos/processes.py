"""The processes of a Spark application on this host, by what they are, read from /proc."""

from __future__ import annotations

import contextlib
import os
import signal
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")


@dataclass(frozen=True)
class Process:
    """One process; role: driver (its Python), jvm, daemon, worker."""

    pid: int
    parent: int
    role: str

    def kill(self) -> None:
        """End it as the kernel would."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)

    @property
    def resident(self) -> int:
        """Bytes in memory of its own: anonymous ones, not the files that it maps."""
        with contextlib.suppress(OSError):
            for line in (_PROC / str(self.pid) / "status").read_text().splitlines():
                if line.startswith("RssAnon"):
                    return int(line.split()[1]) * 1024
        return 0


def application(session: int) -> list[Process]:
    """The processes of a session, which a driver that leads one shares with all that it starts."""
    commands: dict[int, tuple[int, str]] = {}
    for entry in _PROC.iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError, ValueError):
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                if int(fields[3]) == session and fields[0] != "Z":
                    words = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                    commands[int(entry.name)] = int(fields[1]), words
    found = []
    for pid, (parent, words) in commands.items():
        _, above = commands.get(parent, (0, ""))
        if "daemon pyspark.worker" in words:
            # A daemon forks its workers; one whose daemon is dead has no parent here.
            role = "daemon" if "java" in above else "worker"
        elif above == words:
            continue  # A fork on its way to be another program.
        else:
            role = "jvm" if "java" in words.split(" ")[0] else "driver"
        found.append(Process(pid, parent, role))
    return found


def kill_all(session: int) -> None:
    """End what is left of a session."""
    while left := application(session):
        for process in left:
            process.kill()
