"""Kill runs on real Spark: `make chaos RUNS=50 SEED=0`.

Each run draws a query and files of changes by its seed, and starts a driver that aggregates them. Python workers, their
daemon and the driver are killed at random moments, live state is deleted or torn, and a driver that is dead is started
again. In the end every batch must have emitted what the harness gives, at every attempt at it, and the table must
be DuckDB's.
"""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "support")]

from chaos.command import command  # noqa: E402
from chaos.processes import application, kill_all  # noqa: E402
from chaos.workload import Batch, Workload, folded  # noqa: E402

STRIKES = ("worker", "worker", "daemon", "driver", "jvm", "application", "wipe", "tear")
_FATAL = ("driver", "jvm", "application")
_LIMIT = 900.0
_EARLY = 0.15
"""Share of the drivers that are struck before they have begun to work."""
_PAUSE = 0.3
"""Between strikes, on average, of the time that a session takes to start."""


class Failure(Exception):
    """A run that did not give what it should have."""


class Run:
    """One workload under fire, in a directory of its own."""

    def __init__(self, seed: int, directory: Path, strikes: int = 5) -> None:
        self.seed = seed
        self.directory = directory
        self.workload = Workload.of_seed(seed)
        self.struck: Counter[str] = Counter()
        self._draw = random.Random(f"strikes {seed}")
        self._left = self._draw.randint(1, strikes)
        self._deadline = time.monotonic() + _LIMIT

    def run(self) -> str:
        """Play it and check it; says in a few words what happened."""
        self.workload.write(self.directory / "in")
        began = time.monotonic()
        lives = 0
        while not (self.directory / "done").exists():
            lives += 1
            self._live(lives)
        attempts = self.check()
        strikes = ", ".join(f"{count} {what}" for what, count in sorted(self.struck.items()))
        return (
            f"seed {self.seed}: {self.workload.name}, {self.workload.format}; {strikes or 'no strike in time'}; "
            f"{lives} drivers, {len(self._failures())} failed queries, {attempts} attempts at "
            f"{len(self.workload.changes())} batches; {time.monotonic() - began:.0f} s"
        )

    def _live(self, number: int) -> None:
        """One driver, from its start to its end."""
        started = self.directory / "started"
        started.unlink(missing_ok=True)
        command = [sys.executable, str(HERE / "driver.py"), str(self.directory), str(self.seed)]
        log = self.directory / f"driver-{number}.log"
        with log.open("wb") as out:
            driver = subprocess.Popen(
                command, stdout=out, stderr=out, stdin=subprocess.DEVNULL, start_new_session=True
            )
        fatal = ""
        try:
            fatal = self._play(driver, started)
        finally:
            if not fatal or fatal == "application":
                kill_all(driver.pid)
                driver.wait()
        if driver.returncode and not fatal:
            raise Failure(f"driver {number} ended by itself with {driver.returncode}: {_tail(log)}")

    def _play(self, driver: subprocess.Popen[bytes], started: Path) -> str:
        """Strike until the driver ends; the strike that ended it, or an empty text."""
        began = time.monotonic()
        while driver.poll() is None and not started.exists():
            self._wait(driver, 0.05)
        # Moments are as far apart as the machine is slow.
        pause = _PAUSE * (time.monotonic() - began)
        early = self._draw.random() < _EARLY
        while driver.poll() is None and not early and not self._at_work(driver.pid):
            self._wait(driver, 0.05)
        fatal = ""
        while driver.poll() is None:
            if not self._left or fatal:
                self._wait(driver, 0.2)
                continue
            self._wait(driver, self._draw.expovariate(1 / pause))
            if driver.poll() is None:
                what = self._draw.choice(STRIKES)
                if self._strike(what, driver.pid):
                    self.struck[what] += 1
                    self._left -= 1
                    fatal = what if what in _FATAL else ""
        return fatal

    def _at_work(self, session: int) -> bool:
        return any(process.role == "worker" for process in application(session))

    def _strike(self, what: str, session: int) -> bool:
        """Do one bad thing; False if there was nothing to do it to."""
        if what in ("wipe", "tear"):
            return self._damage_live_state(what)
        victims = [p for p in application(session) if what in (p.role, "application")]
        if what != "application" and victims:
            victims = [self._draw.choice(victims)]
        for victim in victims:
            victim.kill()
        return bool(victims)

    def _damage_live_state(self, what: str) -> bool:
        """Delete the live state, or about half of its files and parts of others."""
        live = self.directory / "live"
        files = sorted(path for path in live.rglob("*") if path.is_file())
        if what == "wipe":
            shutil.rmtree(live, ignore_errors=True)
            return bool(files)
        for file in files:
            if self._draw.random() < 0.5:
                file.unlink(missing_ok=True)
        return bool(files)

    def _wait(self, driver: subprocess.Popen[bytes], seconds: float) -> None:
        """Let the driver go on; raises Failure if it takes too long, or fails more often than it was struck."""
        if len(self._failures()) > sum(self.struck.values()):
            raise Failure(
                f"more failed queries than strikes, the last of them: {self._failures()[-1]}"
            )
        if time.monotonic() > self._deadline:
            raise Failure(f"not done after {_LIMIT:.0f} s")
        try:
            driver.wait(seconds)
        except subprocess.TimeoutExpired:
            return

    def _failures(self) -> list[str]:
        files = sorted((self.directory / "failures").glob("*"))
        return [file.read_text().partition("\n")[0] for file in files]

    def check(self) -> int:
        """Hold what came out against the harness and DuckDB; the number of attempts at batches."""
        expected = self.workload.expected()
        kept: dict[int, Batch] = {}
        files = sorted((self.directory / "out").glob("*.json"))
        for file in files:
            batch = int(file.name.partition("-")[0])
            got: Batch = Counter(map(tuple, json.loads(file.read_text())))
            wanted = expected[batch] if batch < len(expected) else Counter[tuple[Any, ...]]()
            if got != wanted:
                raise Failure(f"batch {batch}, {file.name}: {difference(got, wanted)}")
            kept[batch] = got
        if missing := set(range(len(expected))) - set(kept):
            raise Failure(f"batches {sorted(missing)} are lost")
        table, wanted = folded(list(kept.values())), self.workload.table()
        if table != wanted:
            raise Failure(f"the table: {difference(table, wanted)}")
        return len(files)


def difference(got: Batch, wanted: Batch) -> str:
    """The first rows too many and too few, in a few words."""
    more, less = list((got - wanted).items()), list((wanted - got).items())
    return f"{len(more)} rows too many {more[:3]}, {len(less)} missing {less[:3]}"


def _tail(log: Path) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-15:])


def play(seed: int, root: Path, **options: Any) -> str:
    """Run one seed in a directory under `root`, which is kept if it fails."""
    directory = root / str(seed)
    directory.mkdir(parents=True)
    said = Run(seed, directory, **options).run()
    shutil.rmtree(directory)
    return said


def play_all(seeds: range, root: Path, say: Callable[[str], None]) -> list[int]:
    """Run seeds one by one; those that failed."""
    failed = []
    for seed in seeds:
        try:
            say(play(seed, root))
        except Failure as failure:
            failed.append(seed)
            say(f"seed {seed} FAILED: {failure}")
            say(f"  again: make chaos RUNS=1 SEED={seed}; its files: {root / str(seed)}")
    return failed


if __name__ == "__main__":
    command("Kill runs on real Spark.", play_all)
