"""Progress of a run in lines on standard error: what it waits for, every few seconds, with or without a terminal."""

from __future__ import annotations

import re
import sys
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TextIO

import aggloom.runtime
from aggloom.codegen import AggSpec, Backend, generate
from aggloom.codegen.planner import Plan, walk

PERIOD_SECONDS = 5.0
"""A run that says nothing else says after so long what it waits for."""
_KERNEL = re.compile(r"^@rt\.\w*kernel\ndef (\w+)", re.M)


class ProgressLines:
    """Prints lines about a run; while its context lasts, one every few seconds.

    In a terminal a stage is printed when it begins, and every line at once. Elsewhere a short run prints nothing, and
    of lines that come one after the other the last in each period is printed.
    """

    def __init__(self, out: TextIO | None = None, period: float = PERIOD_SECONDS) -> None:
        self._out = out or sys.stderr
        self._at_once = self._out.isatty()
        self._period = period
        self._stage, self._detail = "", _describe_nothing
        self._began = self._printed = time.monotonic()
        self._waiting: str | None = None
        self._lock = threading.Lock()
        self._ended = threading.Event()

    def begin(self, stage: str, detail: Callable[[], str] | None = None) -> None:
        """Begin a stage. detail: says, when a line is due, what exactly is going on; empty if it does not know."""
        with self._lock:
            self._stage, self._detail = stage, detail or _describe_nothing
            self._began = self._printed = time.monotonic()
            if self._at_once:
                self._print(stage)

    def show(self, line: str) -> None:
        """Show a line, at once or in its period."""
        with self._lock:
            if self._at_once:
                self._print(line)
            else:
                self._waiting = line

    def __enter__(self) -> ProgressLines:
        threading.Thread(target=self._tick, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()

    def _tick(self) -> None:
        while not self._ended.wait(self._period / 10):
            with self._lock:
                if time.monotonic() - self._printed < self._period or self._ended.is_set():
                    continue
                line, self._waiting = self._waiting, None
                self._print(line or self._describe_stage())

    def _describe_stage(self) -> str:
        """The stage, for how long it has lasted, and what is going on in it."""
        detail = ""
        # A line about the work is not worth an end of the work.
        with suppress(Exception):
            detail = self._detail()
        seconds = time.monotonic() - self._began
        return f"{detail or self._stage} ({seconds:.0f} s)"

    def _print(self, line: str) -> None:
        self._printed = time.monotonic()
        with suppress(OSError, ValueError):
            print(line, file=self._out, flush=True)


def _describe_nothing() -> str:
    return ""


class KernelWatch:
    """Watches which kernels of handler modules are being compiled on this machine.

    modules: gives the paths of generated modules when they are first asked for. shared: the folder of the modules that
    all handlers use, whose kernels are compiled once for an installation (default: this one's). A kernel has a lock
    file from the time on at which a process asks for it, and an index file once it is compiled.
    """

    def __init__(self, modules: Callable[[], Iterable[Path]], shared: Path | None = None) -> None:
        # Clocks of files are coarser than this one.
        self._since = time.time() - 1
        self._modules = modules
        self._shared = shared or Path(next(iter(aggloom.runtime.__path__)))

    @cached_property
    def _kernels(self) -> list[tuple[Path, str, int]]:
        """The kernels of all modules: the module, the name, and the line of the decorator."""
        return [
            (path, name, line)
            for path in self._modules()
            for line, name in _kernels_of(path.read_text(encoding="utf-8"))
        ]

    def describe(self) -> str:
        """Describe the kernel that is being compiled; empty if there is none."""
        compiled, current = 0, ""
        for path, name, line in self._kernels:
            folder, begin = path.parent / "__pycache__", f"{path.stem}.{name}-{line}."
            if any(folder.glob(f"{begin}*.nbi")):
                compiled += 1
            elif not current and self._is_asked_for(folder / f"{begin}lock"):
                current = name
        if not current:
            return self._describe_shared()
        return f"compiling kernel {compiled + 1} of {len(self._kernels)}: {current}"

    def _describe_shared(self) -> str:
        """Describe the shared kernel that is being compiled; empty if there is none."""
        locks = [each for each in self._shared.rglob("*.lock") if self._is_asked_for(each)]
        pending = [each for each in locks if not any(each.parent.glob(f"{each.stem}.*.nbi"))]
        if not pending:
            return ""
        # A kernel asks for those that it calls while it is compiled itself.
        newest = max(pending, key=lambda each: each.stat().st_mtime)
        module, _, name = newest.stem.rpartition("-")[0].partition(".")
        done = len(locks) - len(pending)
        return f"compiling kernel {done + 1} of what all queries share, once: {name} of {module}"

    def _is_asked_for(self, lock: Path) -> bool:
        """Tell whether a process has asked for a kernel since the run began."""
        try:
            return lock.stat().st_mtime >= self._since
        except OSError:
            return False


def modules_of(plan: Plan, backend: Backend) -> list[Path]:
    """List the generated modules of a plan's handlers, each once."""
    specs: dict[str, AggSpec] = {}
    for node in walk(plan.root):
        specs |= {spec.digest: spec for spec in node.handlers}
    return [generate(spec, backend=backend).path for spec in specs.values()]


def _kernels_of(text: str) -> list[tuple[int, str]]:
    """List the kernels of a module's text, each with the line on which its decorator stands."""
    kernels = _KERNEL.finditer(text)
    return [(text.count("\n", 0, each.start()) + 1, each[1]) for each in kernels]


def batch_under_way(checkpoint: Path) -> str:
    """Describe the batch that a query is in, by its logs; empty before the first."""
    begun, ended = (_last_number(checkpoint / log) for log in ("offsets", "commits"))
    if begun is None:
        return ""
    return f"batch {begun}" if begun != ended else f"after batch {begun}"


def _last_number(log: Path) -> int | None:
    """The last batch of one of a query's logs; None if it has none."""
    numbers = [int(each.name) for each in log.iterdir() if each.name.isdigit()]
    return max(numbers, default=None)
