"""The checkpoint of a streaming query, made known to its tasks: Spark tells them the query's id, and not its place.

Spark calls a listener in the thread of a query before its first batch. What is set there as a property of the thread,
all tasks of the query have.
"""

from __future__ import annotations

import contextlib
from typing import Any, Final

from pyspark.java_gateway import ensure_callback_server_started

from aggloom.runtime.spark.node.batch_context import CHECKPOINT_PROPERTY

_ATTRIBUTE: Final = "_aggloom_checkpoint_listener"
"""The attribute by which a session keeps its listener."""


def announce_checkpoints(session: Any) -> None:
    """Have the tasks of each query that a classic session starts from now on know its checkpoint."""
    if hasattr(session, _ATTRIBUTE):
        return
    context = session.sparkContext
    ensure_callback_server_started(context._gateway)
    listener = _CheckpointListener(session)
    package = context._jvm.org.apache.spark.sql.streaming
    session._jsparkSession.streams().addListener(
        package.PythonStreamingQueryListenerWrapper(listener)
    )
    # A second call must not add another one, and Java has no more than a proxy of it.
    setattr(session, _ATTRIBUTE, listener)


class _CheckpointListener:
    """A listener of Spark's, by Py4J's rules: the names of its methods are Java's.

    PySpark's own class of listeners makes an object of each progress, which takes longer than a small batch should.
    """

    def __init__(self, session: Any) -> None:
        self._session = session

    def onQueryStarted(self, event: Any) -> None:
        """Set the property in the query's thread."""
        # Without it rows of the state go Spark's way. A query must not end for that.
        with contextlib.suppress(Exception):
            query = self._session._jsparkSession.streams().get(event.id())
            root = query.streamingQuery().resolvedCheckpointRoot()
            self._session.sparkContext._jsc.setLocalProperty(CHECKPOINT_PROPERTY, root)

    def onQueryProgress(self, event: Any) -> None:
        """Do nothing."""

    def onQueryIdle(self, event: Any) -> None:
        """Do nothing."""

    def onQueryTerminated(self, event: Any) -> None:
        """Do nothing."""

    class Java:
        """The interface that Py4J presents to Java."""

        implements: Final = ["org.apache.spark.sql.streaming.PythonStreamingQueryListener"]
