"""Measurements and how they are written down: median and spread, a table, a markdown page, JSON."""

from __future__ import annotations

import json
import os
import platform
import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib import metadata
from pathlib import Path

from picture import Bar, draw
from rich.console import Console
from rich.table import Table

RESULTS = Path(__file__).resolve().parent / "results"
_WIDTH = 240
_PACKAGES = ("aggloom", "pyspark", "pyarrow", "numba", "numpy", "duckdb")


@dataclass
class Measurement:
    """The repeated times of one contender at one workload."""

    workload: str
    contender: str
    rows: int
    seconds: list[float] = field(default_factory=list)

    @property
    def rate(self) -> float:
        """Median speed in million rows per second."""
        return self.rows / statistics.median(self.seconds) / 1e6

    @property
    def spread(self) -> float:
        """(slowest - fastest) / median."""
        return (max(self.seconds) - min(self.seconds)) / statistics.median(self.seconds)


def machine() -> dict[str, str]:
    """Describe the machine on which the numbers depend, without naming the host."""
    facts = {
        "cpu": _cpu_model(),
        "cores": str(os.cpu_count()),
        "memory": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB",
        "python": platform.python_version(),
    }
    for package in _PACKAGES:
        try:
            facts[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            facts[package] = "not installed"
    return facts


def _cpu_model() -> str:
    path = Path("/proc/cpuinfo")
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.machine()


def _cells(measurements: Sequence[Measurement], reference: str) -> list[tuple[str, ...]]:
    floors = {m.workload: m.rate for m in measurements if m.contender == reference}
    return [
        (
            m.workload,
            m.contender,
            f"{m.rate:.2f}",
            f"{m.spread:.0%}",
            f"{m.rate / floors[m.workload]:.2f}" if m.workload in floors else "",
        )
        for m in measurements
    ]


def publish(name: str, measurements: Sequence[Measurement], reference: str, notes: str) -> None:
    """Print the table of speeds and write `results/<name>.md` and `.json`."""
    header = ("workload", "contender", "M rows/s", "spread", f"of {reference}")
    raw = [
        {"workload": m.workload, "contender": m.contender, "rows": m.rows, "seconds": m.seconds}
        for m in measurements
    ]
    publish_rows(name, header, _cells(measurements, reference), raw, notes)


def publish_rows(
    name: str,
    header: Sequence[str],
    cells: Sequence[Sequence[str]],
    measurements: Sequence[object],
    notes: str,
    facts: Mapping[str, str] | None = None,
    bars: tuple[str, Sequence[Bar]] | None = None,
    printed: bool = True,
) -> None:
    """Print a table and write it as `results/<name>.md`, with the measurements as `.json`.

    facts: more of what the numbers depend on. bars: the title and the bars of a picture, `.svg`. printed: False writes
    it only.
    """
    if printed:
        show(name, header, cells)
    known = {**machine(), "command": command(), **(facts or {})}
    RESULTS.mkdir(exist_ok=True)
    lines = [f"# {name}", "", notes, ""]
    if bars:
        (RESULTS / f"{name}.svg").write_text(draw(*bars), encoding="utf-8")
        lines += [f"![{bars[0]}]({name}.svg)", ""]
    lines += ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    lines += ["| " + " | ".join(row) + " |" for row in cells]
    lines += ["", *(f"- {key}: {value}" for key, value in known.items()), ""]
    (RESULTS / f"{name}.md").write_text("\n".join(lines), encoding="utf-8")
    content = {"machine": known, "notes": notes, "measurements": list(measurements)}
    text = json.dumps(content, indent=1, default=asdict)
    (RESULTS / f"{name}.json").write_text(text + "\n", encoding="utf-8")


def show(name: str, header: Sequence[str], cells: Sequence[Sequence[str]]) -> None:
    """Print a table; as wide as it is where nobody looks at a terminal."""
    table = Table(*header, title=name)
    for row in cells:
        table.add_row(*row)
    Console(width=None if sys.stdout.isatty() else _WIDTH).print(table)


def command() -> str:
    """The command line, relative to the repository."""
    return " ".join(["python", f"benchmarks/{Path(sys.argv[0]).name}", *sys.argv[1:]])
