"""What operators share that remember rows of keys, without a handler."""

from __future__ import annotations

from typing import Generic, Protocol, TypeVar

import pyarrow as pa

from aggloom.runtime.operators.base import OneInput, State
from aggloom.runtime.state.key_table import KeyTable
from aggloom.runtime.storage.arena import Array


class RowState(State, Protocol):
    """The keys that came, each with the time at which it was written, and their rows."""

    table: KeyTable

    def used(self) -> Array: ...

    def forget(self, slots: Array) -> None: ...


S = TypeVar("S", bound=RowState)


class RowsByKey(OneInput, Generic[S]):
    """An operator with one state of keys and rows. The state's key table stamps keys as `written`."""

    state: S

    @property
    def states(self) -> list[S]:
        return [self.state]

    @property
    def keys(self) -> int:
        """Keys that the state holds."""
        return len(self.state.table)

    def key_columns(self) -> list[pa.Array]:
        return self.state.table.key_columns(self.state.used())

    def expire(self, now: int, ttl: int) -> None:
        """Forget the keys that were written so many milliseconds ago."""
        used = self.state.used()
        expired = used[now >= self.state.table.stamps("written")[used] + ttl]
        if len(expired):
            self.counters["expired"] += len(expired)
            self.state.forget(expired)
