"""A Python function of a key's values: in threads of its own, or as coroutines in a loop of its own.

Answers stand by key, so that it does not matter which call ends first.
"""

from __future__ import annotations

import asyncio
import inspect
import queue
import threading
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future
from typing import Any

from aggloom.codegen import Function
from aggloom.errors import LookupFailedError
from aggloom.runtime.lookup.request import Key, Outcome, Request

_Call = Callable[[], Any]


class FunctionSource:
    """A table that is a function. Its threads, or its loop, are made when they are needed, and end with the process."""

    def __init__(self, request: Request) -> None:
        source = request.table.source
        assert isinstance(source, Function)
        self._request, self._call, self._asking = request, source.call, request.table.asking
        plain = getattr(source.call, "__call__", source.call)  # noqa: B004
        self._is_async = inspect.iscoroutinefunction(source.call) or inspect.iscoroutinefunction(
            plain
        )
        key = request.table.key
        self._places = [request.asked.index(name) for name in key]
        self._workers: _Threads | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def ask(self, keys: Sequence[Key]) -> list[Outcome]:
        arguments = [tuple(key[place] for place in self._places) for key in keys]
        if self._is_async:
            return self._awaited(arguments)
        if self._workers is None:
            self._workers = _Threads(self._asking.capacity)
        outcomes = self._workers.run([_bound(self._call, given) for given in arguments], self._late)
        return [_rows(each) for each in outcomes]

    def read(self) -> Sequence[Any]:
        raise NotImplementedError

    def close(self) -> None:
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)
        if self._workers is not None:
            self._workers.stop()
        self._loop = self._workers = None

    @property
    def _seconds(self) -> float | None:
        return self._asking.timeout / 1000 or None

    def _late(self, job: _Job) -> Exception | None:
        """Waits for a job; what is wrong if it takes too long."""
        return None if job.wait(self._seconds) else self._too_late()

    def _too_late(self) -> LookupFailedError:
        return LookupFailedError(
            f"no answer within {self._asking.timeout} ms; raise timeout, or answer sooner"
        )

    def _awaited(self, arguments: Sequence[Key]) -> list[Outcome]:
        """The outcomes of coroutines, so many at once."""
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            threading.Thread(target=self._loop.run_forever, daemon=True).start()
        room = asyncio.Semaphore(self._asking.capacity)

        async def one(given: Key) -> Any:
            async with room:
                try:
                    return await asyncio.wait_for(self._call(*given), self._seconds)
                except TimeoutError:
                    return self._too_late()
                except Exception as error:
                    return error

        async def every() -> list[Any]:
            return list(await asyncio.gather(*map(one, arguments)))

        coroutine: Coroutine[Any, Any, list[Any]] = every()
        return [
            _rows(each) for each in asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()
        ]


class _Job:
    """A call that a thread makes; its time counts from its beginning."""

    def __init__(self, call: _Call) -> None:
        self.call, self.outcome = call, Future[Any]()
        self.begun = threading.Event()

    def run(self) -> None:
        """Make the call."""
        self.begun.set()
        try:
            self.outcome.set_result(self.call())
        except Exception as error:
            self.outcome.set_result(error)

    def wait(self, seconds: float | None) -> bool:
        """Whether it ends in time."""
        self.begun.wait()
        try:
            self.outcome.result(seconds)
        except TimeoutError:
            return False
        return True


class _Threads:
    """Threads that do not keep a process from ending. One that hangs is left to itself, and another takes its place."""

    def __init__(self, count: int) -> None:
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._count = 0
        self._most = count

    def run(self, calls: list[_Call], late: Callable[[_Job], Exception | None]) -> list[Any]:
        """What the calls return or raise, in their order."""
        jobs = [_Job(call) for call in calls]
        for job in jobs:
            self._jobs.put(job)
        while self._count < min(self._most, len(jobs)):
            self._start()
        outcomes = []
        for job in jobs:
            error = late(job)
            if error is not None:
                self._start()
            outcomes.append(error if error is not None else job.outcome.result())
        return outcomes

    def stop(self) -> None:
        """Let the threads end that are not in a call."""
        for _ in range(self._count):
            self._jobs.put(None)
        self._count = 0

    def _start(self) -> None:
        self._count += 1
        threading.Thread(target=self._work, args=(self._jobs,), daemon=True).start()

    @staticmethod
    def _work(jobs: queue.SimpleQueue[_Job | None]) -> None:
        while (job := jobs.get()) is not None:
            job.run()


def _bound(call: Callable[..., Any], given: Key) -> _Call:
    return lambda: call(*given)


def _rows(said: Any) -> Outcome:
    """What a function says, as rows: nothing, one, or several."""
    if said is None:
        return []
    # What is no row is an error where rows are brought into their types.
    return said if isinstance(said, Exception | list) else [said]
