"""Handlers for tests: made once for a spec, fed with rows of tuples."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import Any, Literal
from unittest import mock

import black
import pyarrow as pa

from aggloom.codegen import AggSpec, generate, load

Backend = Literal["numba", "python"]
Row = tuple[Any, ...]


@functools.cache
def handler_class(spec: AggSpec, backend: Backend) -> Any:
    """The class of a spec; plain Python is left as the template prints it, for Black takes most of the time."""
    if backend == "numba":
        return load(generate(spec, backend=backend))
    with mock.patch.object(black, "format_str", lambda text, mode: text):
        return load(generate(spec, backend=backend))


def empty(spec: AggSpec, backend: Backend = "python", slots: int = 1) -> Any:
    """A handler with new accumulators."""
    handler = handler_class(spec, backend)()
    handler.setAccumulators(handler.createAccumulators(slots))
    return handler


def fed(
    spec: AggSpec, rows: Iterable[Row], gone: Iterable[Row] = (), backend: Backend = "python"
) -> Any:
    """A handler that has seen rows come and then others go."""
    handler = empty(spec, backend)
    for step, batch in ((handler.accumulate, list(rows)), (handler.retract, list(gone))):
        if batch:
            step(batch)
    return handler


def side_by_side(
    spec: AggSpec, groups: Sequence[Sequence[Row]], backend: Backend = "python"
) -> pa.RecordBatch:
    """The results of several groups of rows, one in each row, in the declared types."""
    handler = empty(spec, backend, len(groups))
    for slot, rows in enumerate(groups):
        if rows:
            handler.setAccumulators(handler.accumulators, [slot])
            handler.accumulate(list(rows))
    handler.setAccumulators(handler.accumulators, range(len(groups)))
    made: pa.RecordBatch = handler.getValue()
    return made
