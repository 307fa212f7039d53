"""Handlers in windows: besides the life cycle, their accumulators belong to a window, the namespace."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from aggloom.codegen.windows import FOREVER, Window
from aggloom.errors import AggloomError

INSTANT = pa.timestamp("ms", "UTC")
Namespace = tuple[int, int] | Sequence[tuple[int, int]]
"""A window as (start, end) in milliseconds since 1970, or a list of them, one for each slot."""


class Namespaced:
    """Mixed into a backend's handler: the methods of NamespaceAggsHandler, which say whose accumulators they mean."""

    accumulators: Any
    _slots: Any
    _windows: list[Window]

    def set_in(self, namespace: Namespace, accumulators: Any, slots: Any) -> None:
        self.set(accumulators, slots)  # type: ignore[attr-defined]
        self._windows = _windows(namespace)
        if len(self._windows) not in (1, accumulators.slots):
            raise AggloomError(
                f"setAccumulators: {len(self._windows)} windows for {accumulators.slots} "
                "accumulators; give one, or one for each"
            )

    def merge_in(self, namespace: Namespace, other: Any) -> None:
        self.merge_with(other)  # type: ignore[attr-defined]
        self._windows = _windows(namespace)

    def value_in(self, namespace: Namespace) -> Any:
        self._require(namespace, "getValue")
        value = self.value()  # type: ignore[attr-defined]
        windows = [self._windows[s if len(self._windows) > 1 else 0] for s in self._slots]
        bounds = [
            pa.array([None if abs(t) >= FOREVER - 1 else t for t in times], INSTANT)
            for times in zip(*((w.start, w.end, w.max_timestamp) for w in windows), strict=True)
        ]
        if isinstance(value, tuple):
            return (*value, *(column[0].as_py() for column in bounds))
        names = [*value.schema.names, "window_start", "window_end", "window_time"]
        return pa.RecordBatch.from_arrays([*value.columns, *bounds], names=names)

    def emit_in(self, namespace: Namespace) -> Any:
        self._require(namespace, "emitValue")
        return self.emit()  # type: ignore[attr-defined]

    def drop_in(self, namespace: Namespace) -> None:
        self._require(namespace, "cleanup")
        self.drop()  # type: ignore[attr-defined]

    def _require(self, namespace: Namespace, method: str) -> None:
        if self.accumulators is not None and _windows(namespace) != self._windows:
            raise AggloomError(
                f"{method}: the accumulators are those of {self._windows[0]}, not of "
                f"{_windows(namespace)[0]}; call setAccumulators with its own first"
            )


def _windows(namespace: Namespace) -> list[Window]:
    listed: Any = namespace if namespace and not isinstance(namespace[0], int) else [namespace]
    return [Window(*each) for each in listed]
