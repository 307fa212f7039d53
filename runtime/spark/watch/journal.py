"""The journal of a running query, in its checkpoint for those who watch it: its plan, and a line for each batch.

Both files are beside Spark's own, on a local disk only. A thread beside the query writes them, so that no batch waits
for it. The same thread warns of dropped rows, wherever the checkpoint is.
"""

from __future__ import annotations

import atexit
import logging
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.sql.streaming.query import StreamingQuery

from aggloom.errors import DroppedRowsWarning
from aggloom.masking import mask_values
from aggloom.runtime.hosting.checkpoint_paths import is_local, local
from aggloom.runtime.hosting.journal_files import BEAT_SECONDS, JournalFiles, describe_query
from aggloom.runtime.operators.dropped_rows import DroppedReport, find_call
from aggloom.runtime.operators.registry import operator_of
from aggloom.runtime.spark.failures import explain_failure
from aggloom.runtime.spark.plan.lower import SparkLowering
from aggloom.runtime.spark.plan.metrics import Totals
from aggloom.runtime.spark.watch.followers import FOLLOWERS, Follower
from aggloom.runtime.spark.watch.records import line_of

_LOG = logging.getLogger("aggloom")
_POLL_SECONDS = 0.5


def follow_query(
    query: StreamingQuery, checkpoint: str | Path, lowering: SparkLowering | None
) -> StreamingQuery:
    """A query that was started from a checkpoint, its batches noted there from now on; lowering: its Spark query."""
    place = local(checkpoint) if is_local(checkpoint) else None
    journal = FOLLOWERS[query] = Journal(query, place, lowering)
    journal.start()
    return query


class Journal(Follower):
    """Follows one run of a query until it ends.

    checkpoint: the directory that takes the files (None: they are not written).
    """

    def __init__(
        self, query: StreamingQuery, checkpoint: Path | None, lowering: SparkLowering | None
    ) -> None:
        super().__init__("aggloom-journal", DroppedReport(_hands_out_late(lowering)))
        self._query, self._lowering, self._call = query, lowering, find_call()
        self._files = None if checkpoint is None else JournalFiles(checkpoint)
        self._totals, self._lock = Totals(), threading.Lock()
        self._batch = -1
        self._ended = False

    def run(self) -> None:
        """Note what completes, until the query ends."""
        atexit.register(self.end)
        if self._files is not None:
            about = None if self._lowering is None else describe_made(self._lowering)
            self._files.begin(str(self._query.runId), about)
        beaten = time.monotonic()
        while not self._over():
            self.look()
            if self._files is not None and time.monotonic() - beaten > BEAT_SECONDS:
                beaten = time.monotonic()
                self._files.touch()
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
            if self._files is not None:
                for progress in new:
                    line = line_of(progress, self._totals, self._files.before)
                    self._files.write(mask_values(line))
            if new:
                self._report_dropped(ended=False)

    def end(self) -> None:
        """Note the last batches, and how the query ended."""
        self.look()
        with self._lock:
            if self._ended:
                return
            self._ended = True
            if self._files is not None:
                self._files.end(self._error())
            self._report_dropped(ended=True)

    def _report_dropped(self, ended: bool) -> None:
        """Warn of dropped rows; where a filter makes an error of it, keep it for `await_end`."""
        try:
            self.dropped.warn(self._totals.counts, ended, self._call)
        except DroppedRowsWarning as failure:
            _LOG.error("%s", failure)
            self.failure = self.failure or failure

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

    def _error(self) -> str | None:
        try:
            failure = self._query.exception()
        except Exception:
            return None
        return None if failure is None else str(explain_failure(failure))


def _hands_out_late(lowering: SparkLowering | None) -> bool:
    """Return whether rows that arrive too late are among the rows of the result."""
    if lowering is None:
        return False
    nodes = (node for fragment in lowering.nodes.values() for node in fragment)
    return any(operator_of(node, lowering.plan.options).late_columns is not None for node in nodes)


def describe_made(lowering: SparkLowering) -> dict[str, Any]:
    """Return the facts for a watcher of a query that was lowered to Spark."""
    return describe_query(lowering.plan, lowering.text, lowering.nodes)
