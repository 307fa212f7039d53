"""Restore mutated snapshots in processes of their own, so that a signal or a hang is seen.

python -m mutated.run --count 10000 --seed 0       many, over all queries
python -m mutated.run --only "rank" --seed 7       one
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from aggloom.errors import AggloomError, StateCorruptError, StateError
from mutated import checkpoints
from mutated.mutations import mutate
from mutated.queries import feed, made

_MEMORY = 8 << 30
_HANGS = 60.0
"""Seconds that one snapshot may take; compiling is done before."""


CHECKPOINT = "checkpoint of "
"""Before the name of a query whose log, descriptions, settings and files are mutated, and not its snapshot."""
FEW = {"joins": 40}
"""Rows to begin with where 200 of them would join to a million, which are sorted for each look at the table."""


def worker(names: list[str], first: int, count: int, step: int) -> None:
    """Say what becomes of each seed, a line each, before and after it."""
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    every = made()
    bases = {
        name: (
            checkpoints.Base(every[name.removeprefix(CHECKPOINT)], 40)
            if name.startswith(CHECKPOINT)
            else _base(every[name], FEW.get(name, 200))
        )
        for name in names
    }
    for seed in range(first, first + count, step):
        name = names[seed // step % len(names)]
        print(f"try {seed} {name}", flush=True)
        base = bases[name]
        if isinstance(base, checkpoints.Base):
            print(f"end {seed} {_of_checkpoint(base, seed)}", flush=True)
        else:
            print(f"end {seed} {_one(every[name], *base, seed)}", flush=True)


def _of_checkpoint(base: checkpoints.Base, seed: int) -> str:
    """Use a checkpoint with a mutated part; return its fate: refused, another typed error, or used."""
    try:
        checkpoints.use_mutated(base, seed)
    except StateError:
        return "refused"
    except AggloomError as error:
        return f"typed: {type(error).__name__}"
    except Exception as error:
        return f"raw: {type(error).__name__}: {error}".replace("\n", " ")[:200]
    return "used"


def _base(make: Any, count: int = 200) -> tuple[bytes, dict[str, Any], bool]:
    """A filled state, what it was filled with, and whether it takes retractions; every kernel is compiled then."""
    rng, live, harness = random.Random(1), {}, make()
    retracts = all(scan.changes != "append" for scan in harness.plan.scans.values())
    try:
        feed(harness, rng, live, False, count)
        feed(harness, rng, live, retracts)
    except AggloomError:
        retracts, live, harness = False, {}, make()
        feed(harness, rng, live, False, count)
    feed(harness, rng, live, retracts)
    data = harness.snapshot()
    other = make()
    other.restore(data)
    _use(other, random.Random(2), {name: list(rows) for name, rows in live.items()}, retracts)
    return data, live, retracts


def _one(make: Any, data: bytes, live: dict[str, Any], retracts: bool, seed: int) -> str:
    """Restore a mutated snapshot; return its fate: refused, an error later, or used."""
    rng = random.Random(seed)
    changed = mutate(data, rng)
    harness = make()
    try:
        harness.restore(changed)
    except StateCorruptError:
        return "refused"
    except Exception as error:
        return f"raw in restore: {type(error).__name__}: {error}".replace("\n", " ")[:200]
    try:
        _use(harness, rng, {name: list(rows) for name, rows in live.items()}, retracts)
    except AggloomError as error:
        return f"typed: {type(error).__name__}"
    except Exception as error:
        return f"raw later: {type(error).__name__}: {error}".replace("\n", " ")[:200]
    return "used"


def _use(harness: Any, rng: random.Random, live: dict[str, Any], retracts: bool) -> None:
    """Bring rows, take rows back, move time on, read everything, write a snapshot, and read that."""
    feed(harness, rng, live, retracts)
    for operator in harness.pipeline.operators:
        operator.key_columns()
        operator.count_key_rows()
        operator.contents()
        operator.next_timers()
    harness.watermark(1_767_225_600_000 + 900)
    feed(harness, rng, live, retracts)
    harness.table()
    if retracts:
        for name, rows in live.items():
            harness.process([("-D", *row) for row in rows], table=name)
    harness.end_of_input()
    data = harness.snapshot()
    harness.restore(data)
    harness.table()


def play(
    names: list[str], first: int, count: int, processes: int = 1
) -> tuple[Counter[str], list[str]]:
    """Try so many seeds; count them by outcome, and list the crashes, hangs and raw errors among them."""
    outcomes: Counter[str] = Counter()
    failures: list[str] = []
    waiting = [_started(names, first + n, count - n, processes) for n in range(processes)]
    while waiting:
        process, state = waiting.pop(0)
        line = _line(process, _HANGS if state["tried"] else 600.0)
        if line is None or not line:
            status = process.poll()
            hangs = line is None
            process.kill()
            process.wait()
            tried = state["tried"]
            if tried is None:
                if (hangs or status != 0) and not state["done"]:
                    failures.append(f"start: status {status}")
                continue
            failures.append(
                f"seed {tried[0]} of {tried[1]}: {'hangs' if hangs else f'status {process.returncode}'}"
            )
            left = first + count - tried[0] - processes
            if left > 0:
                waiting.append(_started(names, tried[0] + processes, left, processes))
            continue
        waiting.append((process, state))
        what, seed, rest = line.rstrip("\n").split(" ", 2)
        if what == "try":
            state["tried"], state["done"] = (int(seed), rest), True
        else:
            name = state["tried"][1]
            state["tried"] = None
            outcomes[rest.split(":")[0]] += 1
            if rest.startswith("raw"):
                failures.append(f"seed {seed} of {name}: {rest}")
    return outcomes, failures


def _started(names: list[str], first: int, count: int, step: int) -> tuple[Any, dict[str, Any]]:
    here = Path(__file__).resolve().parents[1]
    command = [sys.executable, "-m", "mutated.run", "--worker", str(first), str(count), str(step)]
    process = subprocess.Popen(
        [*command, *names],
        stdout=subprocess.PIPE,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(map(str, (here, here / "support"))),
            "PYTHONFAULTHANDLER": "1",
        },
        text=True,
    )
    return process, {"tried": None, "done": False}


def _line(process: Any, seconds: float) -> str | None:
    """The next line of a worker, empty at its end; None if it takes too long."""
    import select

    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if select.select([process.stdout], [], [], 1.0)[0]:
            found: str = process.stdout.readline()
            return found
    return None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", action="append")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--worker", nargs="*")
    given = parser.parse_args()
    if given.worker:
        first, count, step, *names = given.worker
        worker(names, int(first), int(count), int(step))
        return 0
    names = given.only or list(made())
    outcomes, failures = play(names, given.seed, given.count, min(given.processes, given.count))
    print(*failures, sep="\n")
    print(", ".join(f"{count} {what}" for what, count in outcomes.most_common()))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
