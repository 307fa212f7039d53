"""State and keys of checkpoints, for which a local Spark is started when they are first asked for."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from aggloom.errors import AggloomError, CheckpointError
from aggloom.runtime.page.checkpoints import Watched
from aggloom.runtime.page.sources import Operator
from aggloom.runtime.page.state_views import key_of, state_of

STARTS_SPARK = "It is read by a local Spark, which takes some seconds to start the first time."


class Reading:
    """Reads one checkpoint at a time; spark: a session that is there already."""

    def __init__(self, spark: Any = None) -> None:
        self._spark, self._lock = spark, threading.Lock()

    def states(
        self, watched: Watched, operators: Mapping[str, Operator], *, links: bool
    ) -> tuple[list[dict[str, Any]], list[str]]:
        """Its operators' sizes and heaviest keys, and what went wrong."""
        with self._lock:
            try:
                spark = self._session(watched)
                from aggloom.runtime.spark.weighing import weighed

                found = weighed(watched.path, trust=watched.trust, spark=spark)
            except (AggloomError, OSError) as error:
                return [], [str(error)]
        number = watched.number if links else None
        return [state_of(each, number, operators) for each in found], []

    def key(
        self, watched: Watched, operator: Operator, key: Mapping[str, Any], place: int = 0
    ) -> dict[str, Any]:
        """A key in an operator; raises AggloomError."""
        with self._lock:
            spark = self._session(watched)
            from aggloom.runtime.spark.weighing import looked_up

            found = looked_up(watched.path, operator.place, key, trust=watched.trust, spark=spark)
        return key_of(found, operator, place)

    def _session(self, watched: Watched) -> Any:
        from aggloom.runtime.spark.checkpoint import require_directory
        from aggloom.runtime.spark.command_session import session_to_look

        require_directory(watched.path)
        if self._spark is None:
            try:
                self._spark = session_to_look("aggloom ui", "aggloom.runtime.spark.weighing")
            except AggloomError:
                raise
            except Exception as error:
                line = (str(error).strip() or repr(error)).splitlines()[0]
                raise CheckpointError(
                    f"the state cannot be read: Spark does not start ({line})."
                ) from error
        return self._spark
