"""From a spec to a handler: writing the source, compiling it at the first load, loading it later."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator

from measure import Run, Series, spread
from workloads import BASIC, MIXED

SCHEMA = "k BIGINT, v INT, u BIGINT, w DOUBLE"
HANDLERS = {
    "SUM, MAX, COUNT": BASIC.sql,
    "20 mixed calls": MIXED.sql,
}
PHASES = ("spec to source", "first load", "spec to source again", "later load")
HEADER = ("calls", "input", *(f"{phase}, s" for phase in PHASES))
NOTES = (
    "Spec to source: planning, rendering and formatting, imports not counted but for that of the formatter; again: "
    "in a new process, which finds what was formatted before. First load: importing the "
    "module, compiling, the first row and its result; later load: the same in a new process, from Numba's"
    " cache on the disk. Every figure in a process of its own. Medians (least..greatest) of {rounds} "
    "rounds."
)
_SCRIPT = """
import sys, time
from pathlib import Path
from aggloom.codegen import AggSpec, generate, load
sql, schema, changes, directory = sys.argv[1:]
begin = time.perf_counter()
source = generate(AggSpec.from_sql(sql, schema, changes), directory=Path(directory))
written = time.perf_counter()
handler = load(source)()
handler.setAccumulators(handler.createAccumulators(2), [0])
row = {"k": 1, "v": 1, "u": 3, "w": 1.0}
handler.accumulate(tuple(row[name] for name in handler.spec().schema.names))
handler.getValue()
print(written - begin, time.perf_counter() - written)
"""


def measure(rounds: int, names: tuple[str, ...] = tuple(HANDLERS)) -> list[Series]:
    """The phases of each handler, append-only and retracting."""
    made = []
    for name in names:
        for changes in ("append", "retract"):
            phases = [Series(f"{name}|{changes}", phase) for phase in PHASES]
            for _ in range(rounds):
                with tempfile.TemporaryDirectory(prefix="bench-") as directory:
                    compiled = _load(HANDLERS[name], changes, directory)
                    loaded = _load(HANDLERS[name], changes, directory)
                for series, seconds in zip(phases, compiled + loaded, strict=True):
                    series.runs.append(Run(1, seconds))
            made += phases
    return made


def _load(sql: str, changes: str, directory: str) -> tuple[float, float]:
    command = [sys.executable, "-c", _SCRIPT, sql, SCHEMA, changes, directory]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    written, loaded = (float(part) for part in done.stdout.split())
    return written, loaded


def cells(series: list[Series]) -> Iterator[tuple[str, ...]]:
    """A row for each handler."""
    for place in range(0, len(series), len(PHASES)):
        phases = series[place : place + len(PHASES)]
        times = [spread([run.seconds for run in phase.runs]) for phase in phases]
        yield (*phases[0].case.split("|"), *times)
