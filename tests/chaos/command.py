"""The command line of kill runs: which seeds to play, and how they ended."""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

Play = Callable[[range, Path, Callable[[str], None]], list[int]]


def command(description: str, plays: Play | Mapping[str, Play]) -> None:
    """Play the seeds that are asked for; plays: gives those that failed, whose files stay, or one for each engine."""
    engines = plays if isinstance(plays, Mapping) else {"": plays}
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0, help="the first run's")
    first = next(iter(engines))
    if first:
        parser.add_argument("--engine", choices=tuple(engines), default=first)
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # So that no process is left behind.
    root = Path(tempfile.mkdtemp(prefix="aggloom-chaos-"))
    began = time.monotonic()
    seeds = range(arguments.seed, arguments.seed + arguments.runs)
    play = engines[arguments.engine if first else first]
    failed = play(seeds, root, lambda text: print(text, flush=True))
    minutes = (time.monotonic() - began) / 60
    print(f"{arguments.runs} runs in {minutes:.0f} min, {len(failed)} failed {failed or ''}")
    if failed:
        sys.exit(1)
    root.rmdir()
