"""The journal of a running query, in its checkpoint for those who watch it: its plan, and a line for each batch.

Both files lie beside Spark's own, on a local disk only. Nothing that runs reads them: without them, or with damage in
them, a query starts and goes on as ever. A thread beside the query writes them, so that no batch waits for it. The same
thread warns of dropped rows, wherever the checkpoint is.
"""

from __future__ import annotations

import atexit
import json
import logging
import os
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from pyspark.sql.streaming.query import StreamingQuery

from aggloom.checkpoint_file import read_file, replace_file
from aggloom.codegen.planner import describe, list_stateful_nodes
from aggloom.errors import CheckpointError, DroppedRowsWarning
from aggloom.masking import mask_values
from aggloom.runtime.hosting.checkpoint_paths import is_local, local
from aggloom.runtime.operators.dropped_rows import DroppedReport, find_call
from aggloom.runtime.operators.registry import operator_of
from aggloom.runtime.spark.failures import explain_failure
from aggloom.runtime.spark.plan.lower import SparkLowering
from aggloom.runtime.spark.plan.metrics import Totals
from aggloom.runtime.spark.watch.followers import FOLLOWERS, Follower
from aggloom.runtime.spark.watch.records import KEPT, PLAN_FILE, PROGRESS_FILE, last_total, line_of
from aggloom.runtime.storage.checksums import with_checksum

_LOG = logging.getLogger("aggloom")
_POLL_SECONDS = 0.5
_BEAT_SECONDS = 5.0
_APPEND = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
_SHOWN = 400


def follow_query(
    query: StreamingQuery, checkpoint: str | Path, made: SparkLowering | None
) -> StreamingQuery:
    """A query that was started from a checkpoint, its batches noted there from now on; made: what it was made by."""
    place = local(checkpoint) if is_local(checkpoint) else None
    journal = FOLLOWERS[query] = Journal(query, place, made)
    journal.start()
    return query


class Journal(Follower):
    """Follows one run of a query until it ends.

    checkpoint: the directory that takes the files (None: they are not written).
    """

    def __init__(
        self, query: StreamingQuery, checkpoint: Path | None, made: SparkLowering | None
    ) -> None:
        super().__init__("aggloom-journal", DroppedReport(_hands_out_late(made)))
        self._query, self._made, self._call = query, made, find_call()
        self._writes = checkpoint is not None
        self._plan, self._log = (
            (checkpoint or Path()) / name for name in (PLAN_FILE, PROGRESS_FILE)
        )
        self._totals, self._lock = Totals(), threading.Lock()
        self._batch = -1
        self._kept: list[str] = []
        self._before: dict[str, Any] = {}
        self._ended = False

    def run(self) -> None:
        """Note what completes, until the query ends."""
        atexit.register(self.end)
        with suppress(OSError):
            self._begin()
        beaten = time.monotonic()
        while not self._over():
            self.look()
            if time.monotonic() - beaten > _BEAT_SECONDS:
                beaten = time.monotonic()
                with suppress(OSError):
                    if self._writes:
                        os.utime(self._log)
        self.end()
        atexit.unregister(self.end)

    def look(self) -> None:
        """Note the batches that have completed since the last look."""
        with self._lock:
            try:
                new = list(self._new())
            except Exception:
                # The session may be closing; what is noted is not worth an error.
                return
            with suppress(OSError):
                for progress in new:
                    self._note(progress)
            if new:
                self._report_dropped(ended=False)

    def end(self) -> None:
        """Note the last batches, and how the query ended."""
        self.look()
        with self._lock:
            if self._ended:
                return
            self._ended = True
            with suppress(OSError):
                self._write({"end": _now(), "error": self._error()})
            self._report_dropped(ended=True)

    def _report_dropped(self, ended: bool) -> None:
        """Warn of dropped rows; where a filter makes an error of it, keep it for `await_end`."""
        try:
            self.dropped.warn(self._totals.counts, ended, self._call)
        except DroppedRowsWarning as failure:
            _LOG.error("%s", failure)
            self.failure = self.failure or failure

    def _begin(self) -> None:
        if not self._writes:
            return
        known = _lines(self._log)
        self._kept, self._before = known, last_total(known)
        self._write({"start": _now(), "run": str(self._query.runId)})
        if self._made is None:
            self._plan.unlink(missing_ok=True)
        else:
            replace_file(self._plan, with_checksum(json.dumps(mask_values(about(self._made)))))

    def _over(self) -> bool:
        """Tell whether the query has ended, after a moment in which it may."""
        try:
            return bool(self._query.awaitTermination(_POLL_SECONDS))
        except Exception:
            return True

    def _new(self) -> Iterator[Any]:
        """The progress of batches that are new, the oldest first."""
        last = self._query.lastProgress
        if last is None:
            return
        # Where nothing runs, Spark names the batch that would be next.
        ran = "addBatch" in (last["durationMs"] or {})
        done = int(last["batchId"]) - (not ran)
        if done <= self._batch:
            return
        missed = not ran or done > self._batch + 1
        for progress in self._query.recentProgress if missed else [last]:
            if self._totals.add(progress):
                self._batch = int(progress["batchId"])
                yield progress

    def _note(self, progress: Any) -> None:
        self._write(line_of(progress, self._totals, self._before))

    def _write(self, entry: dict[str, Any]) -> None:
        """Add a line; once there are twice as many as are kept, the older half is left out."""
        if not self._writes:
            return
        line = json.dumps(mask_values(entry), separators=(",", ":")) + "\n"
        self._kept.append(line)
        if len(self._kept) >= 2 * KEPT:
            self._kept = self._kept[-KEPT:]
            replace_file(self._log, "".join(self._kept))
            return
        descriptor = os.open(self._log, _APPEND, 0o644)
        try:
            os.write(descriptor, line.encode())
        finally:
            os.close(descriptor)

    def _error(self) -> str | None:
        try:
            failure = self._query.exception()
        except Exception:
            return None
        return (
            None if failure is None else str(explain_failure(failure)).partition("\n")[0][:_SHOWN]
        )


def _hands_out_late(made: SparkLowering | None) -> bool:
    """Return whether rows that come too late are among the rows of the result."""
    if made is None:
        return False
    nodes = (node for fragment in made.nodes.values() for node in fragment)
    return any(operator_of(node, made.plan.options).late_columns is not None for node in nodes)


def about(made: SparkLowering) -> dict[str, Any]:
    """Return the facts for a watcher of a query: its text, its plan, and the number by which each operator counts."""
    nodes = list_stateful_nodes(made.plan)
    places: dict[int, list[str]] = {}
    for place, fragment in sorted(made.nodes.items()):
        for part, node in enumerate(fragment):
            places.setdefault(id(node), []).append(f"{place}.{part}")
    operators = {}
    for number, node in enumerate(nodes, 1):
        # A part of a plan that is read twice runs twice.
        found = places.get(id(node))
        if found:
            operators[str(number)] = found.pop(0) if len(found) > 1 else found[0]
    return {"query": made.text, "described": describe(made.plan), "operators": operators}


def _lines(log: Path) -> list[str]:
    """The last whole lines of a log; a line that was cut short is ended."""
    try:
        text = read_file(log.parent, log).decode("utf-8", "replace")
    except (OSError, CheckpointError):
        return []
    lines = text.splitlines(keepends=True)
    if lines and not lines[-1].endswith("\n"):
        lines.pop()
        replace_file(log, "".join(lines))
    return lines[-KEPT:]


def _now() -> int:
    return time.time_ns() // 1_000_000
