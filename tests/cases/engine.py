"""Cases on the local engine: each bundle is committed, and the next one runs from the checkpoint, as after a kill."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from aggloom.codegen import Backend
from aggloom.codegen.planner import Plan
from aggloom.runtime.engine.bucket_threads import BucketThreads
from aggloom.runtime.engine.checkpoint import LocalCheckpoint
from aggloom.runtime.engine.node import DurableHost
from aggloom.runtime.hosting.handler_text import handler_texts
from aggloom.runtime.local.pipeline import Parts, Pipeline
from aggloom.runtime.operators.base import Operator
from aggloom.runtime.operators.steps import Rows
from aggloom.runtime.values.clock import NO_TIME, Clock


class CommittedPipeline:
    """A pipeline for a harness, opened anew from its checkpoint after each bundle.

    options: those of a `Pipeline`. count_late: is called with the late rows that operators have counted before they are
    let go, and as a negative number with those that they count once more while their log is replayed.
    """

    def __init__(
        self,
        plan: Plan,
        backend: Backend,
        count_late: Callable[[int], None],
        **options: Any,
    ) -> None:
        self.plan, self._count_late, self._options = plan, count_late, options
        self._texts = handler_texts(backend)
        self._handlers = cache(lambda spec: self._texts(spec).load())
        self._directory = TemporaryDirectory(prefix="aggloom-cases-")
        self._packers, self._threads = ThreadPoolExecutor(1), BucketThreads(1)
        self._late: Parts = []
        self._open()

    def _open(self) -> None:
        self._checkpoint = LocalCheckpoint(Path(self._directory.name))
        about = self._texts, "refuse", self._packers, self._threads
        host = DurableHost(self._checkpoint, *about)
        self._inner = Pipeline(self.plan, self._handlers, host=host, **self._options)
        self._count_late(-self._counted())

    def _counted(self) -> int:
        return sum(each.counters.get("late_dropped", 0) for each in self._inner.operators)

    @property
    def operators(self) -> list[Operator]:
        """The operators of all fragments."""
        return self._inner.operators

    def process(self, tables: Mapping[str, Rows], clock: Clock = NO_TIME) -> Rows:
        """Run a bundle, commit it, and open everything anew."""
        changes = self._inner.process(tables, clock)
        self._checkpoint.commit(self._checkpoint.next_batch)
        self.reopen()
        return changes

    def reopen(self) -> None:
        """Let all go that is in memory, and open it from the checkpoint."""
        self._late += self._inner.take_late()
        self._count_late(self._counted())
        self._inner.close()
        self._checkpoint.close()
        self._open()

    def take_late(self) -> Parts:
        """The rows that came too late since the last call."""
        late, self._late = [*self._late, *self._inner.take_late()], []
        return late

    def close(self) -> None:
        """Let the state and the checkpoint go."""
        self._inner.close()
        self._checkpoint.close()
        self._packers.shutdown()
        self._directory.cleanup()
