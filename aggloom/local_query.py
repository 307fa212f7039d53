"""Queries of `aggloom.local` that run: each in a thread of this process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from aggloom.errors import SpecError
from aggloom.job import Job
from aggloom.run_local import open_query
from aggloom.runtime.operators.counts import Counts


class RunningQuery:
    """A query that runs in a thread of this process; `write_changes` starts it.

    job: the query with its tables. rows: of tables of this process, by name. checkpoint: the directory. function: the
    sink, if it is one.

    Example:
        >>> from aggloom import local
        >>> t = local.from_rows([("+I", 3)], "n INT")
        >>> query = local.write_changes(local.sql("SELECT n FROM t", t=t, backend="python"), "table", "state/")
        >>> query.await_end(timeout=60), query.counts.rows
        (True, 1)
    """

    def __init__(
        self,
        job: Job,
        rows: Mapping[str, Any],
        checkpoint: Path,
        function: Callable[[pa.Table, int], None] | None,
    ) -> None:
        self.checkpoint = checkpoint
        self.failure: BaseException | None = None
        self._query = open_query(job, checkpoint, rows, function)
        self._last: Counts | None = None
        self._thread = threading.Thread(target=self._run, name="aggloom-query", daemon=True)
        self._thread.start()

    def __repr__(self) -> str:
        state = "runs" if self.is_active else "failed" if self.failure else "has ended"
        return f"<query over {self.checkpoint}: {state}; {self.counts}>"

    @property
    def is_active(self) -> bool:
        """True while it runs."""
        return self._thread.is_alive()

    @property
    def counts(self) -> Counts:
        """The counts since it was started, as of `al.progress`."""
        return self._last or self._query.counts

    def stop(self) -> None:
        """Stop after the batch that runs, and wait for its commit."""
        self._query.stop()
        self._thread.join()

    def await_end(self, timeout: float | None = None) -> bool:
        """Wait until it ends; tell whether it has. Raises the error of one that failed.

        timeout: seconds to wait at most; None: as long as it takes.
        """
        self._thread.join(timeout)
        if self.failure is not None:
            raise self.failure
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            self._query.run()
        except BaseException as failure:
            self.failure = failure
        finally:
            self._last = self._query.counts
            self._query.close()


def await_end(query: RunningQuery) -> None:
    """Wait until a query ends.

    query: what `write_changes` has started. Raises the typed error of one that failed.

    Example: see `write_changes`.
    """
    if not isinstance(query, RunningQuery):
        raise SpecError("local.await_end: give what local.write_changes has started")
    query.await_end()


def progress(query: RunningQuery) -> Counts:
    """The counts of a query since it was started.

    query: what `write_changes` has started. Raises SpecError if it is none.

    Example: see `write_changes`.
    """
    if not isinstance(query, RunningQuery):
        raise SpecError("local.progress: give what local.write_changes has started")
    return query.counts
