"""A Python function of a key's values: in threads of its own, or as coroutines in a loop of its own.

Answers stand by key, so that it does not matter which call ends first.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Coroutine, Sequence
from typing import Any

from aggloom.codegen import Function
from aggloom.errors import LookupFailedError
from aggloom.runtime.lookup.request import Key, Outcome, Request
from aggloom.runtime.lookup.threads import Threads


class FunctionSource:
    """A table that is a function. Its threads, or its loop, are made when they are needed, and end with the process."""

    def __init__(self, request: Request) -> None:
        source = request.table.source
        assert isinstance(source, Function)
        self._request, self._call, self._asking = request, source.call, request.table.asking
        # An object whose method is a coroutine is called as one, too.
        plain = getattr(source.call, "__call__", source.call)  # noqa: B004
        self._is_async = inspect.iscoroutinefunction(source.call) or inspect.iscoroutinefunction(
            plain
        )
        key = request.table.key
        self._places = [request.key_columns.index(name) for name in key]
        self._threads: Threads | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def ask(self, keys: Sequence[Key]) -> list[Outcome]:
        arguments = [tuple(key[place] for place in self._places) for key in keys]
        if self._is_async:
            return self._await_all(arguments)
        if self._threads is None:
            self._threads = Threads(self._asking.capacity)
        outcomes = self._threads.run(self._call, arguments, self._seconds, self._too_late)
        return [_rows(each) for each in outcomes]

    def close(self) -> None:
        # The loop belongs to its thread, and may be stopped from there alone.
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)
        if self._threads is not None:
            self._threads.stop()
        self._loop = self._threads = None

    @property
    def _seconds(self) -> float | None:
        # 0 is no limit, which asyncio and threads call None.
        return self._asking.timeout / 1000 or None

    def _too_late(self) -> LookupFailedError:
        return LookupFailedError(
            f"no answer within {self._asking.timeout} ms; raise timeout, or answer sooner"
        )

    def _await_all(self, arguments: Sequence[Key]) -> list[Outcome]:
        """The outcomes of coroutines, so many at once."""
        if self._loop is None:
            # A daemon: a function that never answers must not keep the process alive.
            self._loop = asyncio.new_event_loop()
            threading.Thread(target=self._loop.run_forever, daemon=True).start()
        room = asyncio.Semaphore(self._asking.capacity)

        async def one(key: Key) -> Any:
            async with room:
                try:
                    return await asyncio.wait_for(self._call(*key), self._seconds)
                except TimeoutError:
                    return self._too_late()
                except Exception as error:
                    # As an outcome, so that one key that fails does not cancel those that are asked beside it.
                    return error

        async def every() -> list[Any]:
            return list(await asyncio.gather(*map(one, arguments)))

        coroutine: Coroutine[Any, Any, list[Any]] = every()
        return [
            _rows(each) for each in asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()
        ]


def _rows(outcome: Any) -> Outcome:
    """Return the answer of a function as rows: nothing, one, or several."""
    if outcome is None:
        return []
    # What is no row is an error where rows are brought into their types.
    return outcome if isinstance(outcome, Exception | list) else [outcome]
