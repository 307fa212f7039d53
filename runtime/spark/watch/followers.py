"""The threads that follow queries, and a wait for the one of a query that has ended."""

from __future__ import annotations

import threading
from weakref import WeakKeyDictionary

from pyspark.sql.streaming.query import StreamingQuery

from aggloom.errors import DroppedRowsWarning
from aggloom.runtime.operators.dropped_rows import DroppedReport


class Follower(threading.Thread):
    """A thread that follows one run of a query.

    dropped: its warnings of dropped rows. failure: the warning that a filter of Python's `warnings` made an error.
    """

    def __init__(self, name: str, dropped: DroppedReport) -> None:
        super().__init__(name=name, daemon=True)
        self.dropped = dropped
        self.failure: DroppedRowsWarning | None = None


FOLLOWERS: WeakKeyDictionary[StreamingQuery, Follower] = WeakKeyDictionary()
_WAIT_SECONDS = 2.0


def wait_for_follower(query: StreamingQuery) -> None:
    """Wait, not long, until all is noted of a query that has ended."""
    follower = FOLLOWERS.get(query)
    if follower is not None:
        follower.join(_WAIT_SECONDS)


def silence(query: StreamingQuery) -> None:
    """Have no warnings of rows that a query drops: the caller reports them itself."""
    follower = FOLLOWERS.get(query)
    if follower is not None:
        follower.dropped.is_quiet = True


def raise_warning(query: StreamingQuery) -> None:
    """Raise the warning of dropped rows that a filter made an error, if there is one: a thread has no caller."""
    follower = FOLLOWERS.get(query)
    if follower is not None and follower.failure is not None:
        raise follower.failure
