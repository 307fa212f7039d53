"""The threads that follow queries, and a wait for the one of a query that has ended."""

from __future__ import annotations

import threading
from weakref import WeakKeyDictionary

from pyspark.sql.streaming.query import StreamingQuery

FOLLOWERS: WeakKeyDictionary[StreamingQuery, threading.Thread] = WeakKeyDictionary()
_WAIT_SECONDS = 2.0


def settle(query: StreamingQuery) -> None:
    """Wait, not long, until all is noted of a query that has ended."""
    follower = FOLLOWERS.get(query)
    if follower is not None:
        follower.join(_WAIT_SECONDS)
