"""A soak on real Spark: `make soak-stream MINUTES=30`.

A constant set of keys whose rows come and go streams through an aggregate. Memory, files and the time of a batch are
sampled; over the second half of the run each must be flat: neither its trend nor its greatest value may leave the mean
by more than its share. The table is checked in the end.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "support"), str(HERE.parents[1] / "benchmarks")]

from chaos.processes import application, kill_all  # noqa: E402
from results import RESULTS, machine  # noqa: E402

_ROLES = ("driver", "jvm", "daemon", "worker")
_EVERY = 10.0
# Before this many minutes caches still fill, and logs, which grow for five, have not been replaced by snapshots often.
_JUDGED_FROM = 20.0


@dataclass(frozen=True)
class Series:
    """One thing that is sampled; trend, peak: what shares of the mean it may gain, and rise above it."""

    name: str
    unit: str
    trend: float
    peak: float


SERIES = (
    *(Series(f"{role} memory", "MiB", 0.05, 0.25) for role in _ROLES),
    Series("live state", "MiB", 0.05, 0.5),
    Series("checkpoint", "MiB", 0.15, 1.5),
    Series("files", "", 0.10, 1.0),
    Series("batch", "s", 0.15, 3.0),
)


@dataclass(frozen=True)
class Flatness:
    """Figures of a series in the second half of a run."""

    series: Series
    first: float
    mean: float
    gain: float
    peak: float

    @property
    def flat(self) -> bool:
        """True if the series is flat within its limits, or below one unit."""
        small = self.mean < 1 and self.series.unit == "MiB"
        return small or (self.gain <= self.series.trend and self.peak <= self.series.peak)


def flatness(series: Series, values: list[float]) -> Flatness:
    """Trend over the second half of the values, and their greatest, as shares of their mean."""
    half = np.array(values[len(values) // 2 :])
    mean = float(half.mean())
    places = np.arange(len(half))
    slope = float(np.polyfit(places, half, 1)[0]) if len(half) > 1 else 0.0
    whole = mean or 1.0
    return Flatness(
        series, values[0], mean, slope * len(half) / whole, float(half.max()) / whole - 1
    )


def sample(session: int, directory: Path) -> dict[str, float]:
    """Memory by role, and the bytes and numbers of files."""
    memory = dict.fromkeys(_ROLES, 0)
    for process in application(session):
        memory[process.role] += process.resident
    live, live_files = _size(directory / "live")
    kept, kept_files = _size(directory / "checkpoint")
    return {
        **{f"{role} memory": size / 2**20 for role, size in memory.items()},
        "live state": live / 2**20,
        "checkpoint": kept / 2**20,
        "files": float(live_files + kept_files),
    }


def _size(directory: Path) -> tuple[int, int]:
    """Bytes on disk and number of a directory's files, some of which may go while they are counted."""
    size = number = 0
    for parent, _, names in os.walk(directory):
        for name in names:
            try:
                size += (Path(parent) / name).stat().st_blocks * 512
                number += 1
            except OSError:
                continue
    return size, number


def soak(minutes: float, rate: int, keys: int, directory: Path) -> dict[str, list[float]]:
    """Run the application for so long; the samples by the name of their series. Raises RuntimeError."""
    command = [sys.executable, str(HERE / "soak_driver.py"), str(directory), str(rate), str(keys)]
    environment = {**os.environ, "AGGLOOM_STATE_DIR": str(directory / "live")}
    samples: dict[str, list[float]] = {series.name: [] for series in SERIES}
    log = directory / "driver.log"
    with log.open("wb") as out:
        driver = subprocess.Popen(
            command, stdout=out, stderr=out, env=environment, start_new_session=True
        )
    try:
        progress = directory / "progress"
        while driver.poll() is None and not (progress.exists() and progress.stat().st_size):
            time.sleep(0.5)
        end = time.monotonic() + 60 * minutes
        while driver.poll() is None and time.monotonic() < end:
            for name, value in sample(driver.pid, directory).items():
                samples[name].append(value)
            time.sleep(_EVERY)
        (directory / "stop").touch()
        driver.wait(120)
    finally:
        kill_all(driver.pid)
    batches = [json.loads(line) for line in (directory / "progress").read_text().splitlines()]
    # The first batch starts the workers.
    samples["batch"] = [took / 1000 for _, _, took in batches[1:]]
    if driver.returncode:
        verdict = directory / "verdict"
        said = verdict.read_text() if verdict.exists() else log.read_text()[-2000:]
        raise RuntimeError(f"the application ended with {driver.returncode}: {said}")
    print((directory / "verdict").read_text())
    return samples


def report(found: list[Flatness]) -> str:
    """A table in Markdown."""
    lines = [
        "| | at first | mean of the second half | its trend | its peak over the mean | |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for each in found:
        unit = f" {each.series.unit}" if each.series.unit else ""
        said = "flat" if each.flat else "NOT FLAT"
        lines.append(
            f"| {each.series.name} | {each.first:,.1f}{unit} | {each.mean:,.1f}{unit} "
            f"| {each.gain:+.1%} | {each.peak:+.0%} | {said} |"
        )
    return "\n".join(lines)


def write(minutes: float, rate: int, keys: int, found: list[Flatness], batches: int) -> None:
    """Write `benchmarks/results/soak.md`."""
    facts = ", ".join(f"{name} {value}" for name, value in machine().items())
    page = (
        "# Soak\n\n"
        f"`make soak-stream MINUTES={minutes:g} ARGS=--write`: {rate:,} changes a second over {keys:,} keys, whose "
        f"rows come and go, for {minutes:g} minutes, {batches:,} micro-batches; SUM, MAX, COUNT, COUNT(DISTINCT). "
        "Memory is that of the processes' own, without mapped files; the live state is the bytes on disk of those. The "
        "trend is that of a line through the second half of the run, as a share of the mean.\n\n"
        f"{report(found)}\n\n{facts}\n"
    )
    (RESULTS / "soak.md").write_text(page)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description="A soak on real Spark.")
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--rate", type=int, default=5_000, help="changes a second")
    parser.add_argument("--keys", type=int, default=20_000)
    parser.add_argument("--write", action="store_true", help="write benchmarks/results/soak.md")
    arguments = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="aggloom-soak-"))
    try:
        samples = soak(arguments.minutes, arguments.rate, arguments.keys, directory)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    found = [flatness(series, samples[series.name]) for series in SERIES]
    print(report(found))
    if arguments.write:
        write(arguments.minutes, arguments.rate, arguments.keys, found, len(samples["batch"]) + 1)
    if arguments.minutes < _JUDGED_FROM:
        print(f"Too short to be judged: that takes {_JUDGED_FROM:g} minutes.")
    elif not all(each.flat for each in found):
        sys.exit(1)


if __name__ == "__main__":
    main()
