"""State and keys of checkpoints, read by a thread; the first read of a checkpoint of Spark's starts a local Spark."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotDone
from typing import Any

from aggloom.errors import AggloomError, CheckpointError
from aggloom.runtime.page.checkpoints import Watched
from aggloom.runtime.page.sources import OperatorProgress
from aggloom.runtime.page.state_views import key_of, state_of

_MAX_READS = 16


class NotYet(Exception):
    """Raised while a read is under way; call again."""


class BackgroundReads:
    """Reads one state or key at a time. spark: a session to use; patience: seconds until NotYet is raised."""

    def __init__(self, spark: Any = None, patience: float | None = None) -> None:
        self._spark, self._patience = spark, patience
        # Two locks: `_read_lock` is held during a read, and a request that only asks whether it is over must not wait
        # for it.
        self._read_lock, self._lock = threading.Lock(), threading.Lock()
        self._futures: dict[Hashable, Future[Any]] = {}

    def states(
        self, watched: Watched, operators: Mapping[str, OperatorProgress], *, links: bool
    ) -> list[dict[str, Any]]:
        """The sizes and heaviest keys of a checkpoint's operators; raises AggloomError, and NotYet."""

        def read() -> Any:
            spark = self._session(watched)
            from aggloom.runtime.inspection.weight import weigh_checkpoint

            return weigh_checkpoint(watched.path, trust=watched.trust, spark=spark)

        number = watched.number if links else None
        return [state_of(each, number, operators) for each in self._await((watched.path,), read)]

    def key(
        self, watched: Watched, operator: OperatorProgress, key: Mapping[str, Any], place: int = 0
    ) -> dict[str, Any]:
        """A key in an operator; raises AggloomError, and NotYet."""

        def read() -> Any:
            spark = self._session(watched)
            from aggloom.runtime.inspection.weight import look_up_key

            return look_up_key(watched.path, operator.place, key, trust=watched.trust, spark=spark)

        name = (watched.path, operator.place, *map(repr, key.items()))
        return key_of(self._await(name, read), operator, place)

    def _await(self, name: Hashable, read: Callable[[], Any]) -> Any:
        """Return the result of a read, once; raises NotYet while it is under way, and what it raised."""
        with self._lock:
            future = self._futures.get(name)
            if future is None:
                self._make_room()
                future = self._futures[name] = Future()
                # A daemon: the end of the server does not wait for Spark.
                reader = threading.Thread(target=self._read, args=(future, read), daemon=True)
                reader.start()
        try:
            # Waits as result() does, but does not raise what the read raised: that is raised below, after it is
            # forgotten.
            future.exception(self._patience)
        except NotDone:
            raise NotYet from None
        with self._lock:
            # A result is returned once, so that a reload reads the current state.
            self._futures.pop(name, None)
        return future.result()

    def _make_room(self) -> None:
        """Forget a result that nobody fetched; raises CheckpointError if too much is being read."""
        if len(self._futures) < _MAX_READS:
            return
        done = [name for name, future in self._futures.items() if future.done()]
        if not done:
            raise CheckpointError("too much is being read at once; ask again later.")
        del self._futures[done[0]]

    def _read(self, future: Future[Any], read: Callable[[], Any]) -> None:
        with self._read_lock:
            try:
                future.set_result(read())
            except BaseException as error:
                # Raised again by `_await`.
                future.set_exception(error)

    def _session(self, watched: Watched) -> Any:
        """The session that reads a checkpoint; None for one of the local engine."""
        if watched.is_of_local_engine:
            return None
        from aggloom.runtime.spark.checkpoint import require_directory
        from aggloom.runtime.spark.sessions.command_session import session_to_look

        require_directory(watched.path)
        if self._spark is None:
            try:
                self._spark = session_to_look("aggloom ui", "aggloom.runtime.inspection.weight")
            except AggloomError:
                raise
            except Exception as error:
                line = (str(error).strip() or repr(error)).splitlines()[0]
                raise CheckpointError(
                    f"the state cannot be read: Spark does not start ({line})."
                ) from error
        return self._spark
