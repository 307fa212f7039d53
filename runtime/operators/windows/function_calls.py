"""The calls of a window function in a bundle: its columns of the result, firing by firing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from aggloom.codegen.windows import EvictorContext, WindowFunction, result_schema
from aggloom.errors import AggloomError, DataError
from aggloom.runtime.operators.windows.elements import ElementStore
from aggloom.runtime.operators.windows.general_ledger import WindowState
from aggloom.runtime.operators.windows.general_registry import LiveWindow


class FunctionCalls:
    """Asks a window function at each firing, and keeps what it said until the bundle ends."""

    def __init__(self, function: WindowFunction, state: WindowState, store: ElementStore) -> None:
        self._function, self._state, self._store = function, state, store
        self._schema = result_schema(function)
        self._said: list[Sequence[Any]] = []

    def fire(self, live: LiveWindow, rows: list[int], ctx: EvictorContext) -> None:
        """A window fires with the rows of these numbers; raises DataError if the function fails."""
        if not rows:
            # A window without rows emits nothing.
            self._said.append([None] * len(self._schema))
            return
        keys = self._state.key_columns(np.array([live.key.slot], np.int64))[:-1]
        key = tuple(column[0].as_py() for column in keys)
        elements = self._store.elements(rows)
        name = f"window function {self._function.text}"
        try:
            result = self._function.process(key, live.window, elements, ctx)
        except AggloomError:
            raise
        except Exception as error:
            raise DataError(
                f"{name} failed for key {key}: {type(error).__name__}: {error}"
            ) from error
        if isinstance(result, str | bytes) or not isinstance(result, Sequence):
            raise DataError(f"{name} returned {result!r}; return a value for each of its columns")
        if len(result) != len(self._schema):
            raise DataError(
                f"{name} returned {len(result)} values for {len(self._schema)} columns "
                f"({', '.join(self._schema.names)})"
            )
        self._said.append(result)

    def take(self) -> list[pa.Array]:
        """The columns of all firings, in their order; the next bundle begins."""
        results, self._said = self._said, []
        return [
            self._column(field, [values[at] for values in results])
            for at, field in enumerate(self._schema)
        ]

    def _column(self, field: pa.Field, values: list[Any]) -> pa.Array:
        try:
            return pa.array(values, field.type)
        except (pa.ArrowException, TypeError, OverflowError) as error:
            raise DataError(
                f"window function {self._function.text}: column {field.name!r} is {field.type}: {error}"
            ) from error
