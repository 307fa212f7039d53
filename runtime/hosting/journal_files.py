"""The files that a query leaves in its checkpoint for those who watch it: its plan, and a line for each batch.

Nothing that runs reads them: without them, or with damage in them, a query starts and continues as ever. Whoever reads
them takes them for untrusted, and they may be cut short while they are written: what cannot be read is left out.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aggloom.checkpoint_file import open_file, read_file, replace_file
from aggloom.codegen.planner import Plan, Stateful, describe, list_stateful_nodes
from aggloom.errors import CheckpointError
from aggloom.masking import mask_secrets, mask_values
from aggloom.runtime.operators.counts import Counts
from aggloom.runtime.storage.checksums import with_checksum, without_checksum

PLAN_FILE = "aggloom-plan.json"
PROGRESS_FILE = "aggloom-progress.jsonl"
KEPT = 500
"""The number of batches that are kept at least; twice as many are kept at most."""
BEAT_SECONDS = 5.0
"""The log is touched so often while a query runs, so that those who watch it know that it does."""

_LONGEST = 4 << 20
_FLOWS = ("rows", "changes", "refused", "notices", "orphans", "late", "expired")
_APPEND = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
_SHOWN = 400


@dataclass(frozen=True)
class QueryLog:
    """The log of a query: its last run, its batches by number, and the number of unreadable lines.

    run: start and end in milliseconds, and its error. beat: the time of the last write or touch, in seconds.
    """

    batches: Mapping[int, Mapping[str, Any]]
    run: Mapping[str, Any]
    beat: float | None
    unread: int = 0


class JournalFiles:
    """Both files of a checkpoint, as the run of its query writes them; a disk that fails raises nothing.

    before: the totals of the runs before this one.
    """

    def __init__(self, checkpoint: Path) -> None:
        self._root, self._log = checkpoint, checkpoint / PROGRESS_FILE
        self._lines: list[str] = []
        self.before: dict[str, int] = {}

    def begin(self, run: str, about: Mapping[str, Any] | None) -> None:
        """Note the start of a run, by its id, and the plan of the query (None: it is not known)."""
        plan = self._root / PLAN_FILE
        with suppress(OSError):
            self._lines = _lines(self._log)
            self.before = last_total(self._lines)
            self.write({"start": _now(), "run": run})
            if about is None:
                plan.unlink(missing_ok=True)
            else:
                replace_file(plan, with_checksum(json.dumps(mask_values(about))))

    def write(self, entry: Mapping[str, Any]) -> None:
        """Add a line without secrets; once there are twice as many as are kept, the older half is left out."""
        line = json.dumps(entry, separators=(",", ":")) + "\n"
        self._lines.append(line)
        with suppress(OSError):
            if len(self._lines) >= 2 * KEPT:
                self._lines = self._lines[-KEPT:]
                replace_file(self._log, "".join(self._lines))
                return
            # Appended in one write: a reader meets whole lines, but perhaps for the last.
            descriptor = os.open(self._log, _APPEND, 0o644)
            try:
                os.write(descriptor, line.encode())
            finally:
                os.close(descriptor)

    def touch(self) -> None:
        """Say that the query still runs."""
        with suppress(OSError):
            os.utime(self._log)

    def end(self, error: str | None) -> None:
        """Note the end of the run; error: why it failed, of which the first line is noted."""
        first_line = None if error is None else mask_secrets(error.partition("\n")[0])[:_SHOWN]
        self.write({"end": _now(), "error": first_line})


def describe_query(
    plan: Plan, text: str | None, nodes: Mapping[int, Sequence[Stateful]]
) -> dict[str, Any]:
    """Return the facts for a watcher of a query: its text, its plan, and the number by which each operator counts.

    nodes: the operators of each stateful node, by its place in the plan.
    """
    places: dict[int, list[str]] = {}
    for place, fragment in sorted(nodes.items()):
        for part, node in enumerate(fragment):
            places.setdefault(id(node), []).append(f"{place}.{part}")
    operators = {}
    for number, node in enumerate(list_stateful_nodes(plan), 1):
        # A part of a plan that is read twice runs twice.
        numbers = places.get(id(node))
        if numbers:
            operators[str(number)] = numbers.pop(0) if len(numbers) > 1 else numbers[0]
    return {"query": text, "described": describe(plan), "operators": operators}


def sum_totals(before: Mapping[str, int], counts: Counts) -> dict[str, int]:
    """Return the totals of all runs; before: of those before this one, whose counts are given."""
    total = {name: before.get(name, 0) + getattr(counts, name) for name in _FLOWS}
    return {"batches": before.get("batches", 0) + counts.batches, **total}


def last_total(lines: Iterable[str]) -> dict[str, int]:
    """Return the totals of all batches that were noted, by the last of them."""
    totals: dict[str, int] = {}
    for line in lines:
        total = (_parse_line(line) or {}).get("total")
        if isinstance(total, dict):
            totals = {str(name): each for name, each in total.items() if isinstance(each, int)}
    return totals


def read_progress(checkpoint: Path) -> QueryLog:
    """Return the contents of the log of a checkpoint; of a batch that was noted twice, the last."""
    file = checkpoint / PROGRESS_FILE
    try:
        with open_file(checkpoint, file) as log:
            status = os.fstat(log.fileno())
            size = status.st_size
            # The end of the log alone: older batches are of no use to whoever watches.
            log.seek(max(0, size - _LONGEST))
            text = log.read(_LONGEST).decode("utf-8", "replace")
            beat = status.st_mtime
    except (OSError, CheckpointError):
        return QueryLog({}, {}, None)
    batches: dict[int, Mapping[str, Any]] = {}
    run: dict[str, Any] = {}
    lines = text.splitlines()
    unread = 0
    for number, line in enumerate(lines):
        entry = _parse_line(line)
        if entry is None:
            # The first may be cut since there is more of the log, the last since it is being written.
            unread += 0 < number < len(lines) - 1
        elif isinstance(entry.get("start"), int):
            run = entry
        elif isinstance(entry.get("end"), int):
            run = run | entry
        elif type(entry.get("batch")) is int:
            batches[entry["batch"]] = entry
    return QueryLog(dict(sorted(batches.items())), run, beat, unread)


def read_plan(checkpoint: Path) -> dict[str, Any] | None:
    """Return the query of a checkpoint, as `describe_query` makes it; None if that is not known.

    Raises ValueError if the file is damaged, CheckpointError if it is too large or no regular file.
    """
    file = checkpoint / PLAN_FILE
    try:
        plan = json.loads(without_checksum(read_file(checkpoint, file, _LONGEST)))
    except FileNotFoundError:
        return None
    except RecursionError:
        raise ValueError("it is too deep") from None
    if not isinstance(plan, dict):
        raise ValueError("it is no plan")
    return plan


def _parse_line(line: str) -> dict[str, Any] | None:
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return entry if isinstance(entry, dict) else None


def _lines(log: Path) -> list[str]:
    """The last whole lines of a log; a line that was cut short is ended."""
    try:
        text = read_file(log.parent, log).decode("utf-8", "replace")
    except (OSError, CheckpointError):
        return []
    lines = text.splitlines(keepends=True)
    # A crash may have cut the last line: the next one must not be glued to it.
    if lines and not lines[-1].endswith("\n"):
        lines.pop()
        replace_file(log, "".join(lines))
    return lines[-KEPT:]


def _now() -> int:
    return time.time_ns() // 1_000_000
