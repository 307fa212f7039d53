"""Handlers whose tuples have the same names and types, in one process."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from aggloom.codegen import AggSpec, generate, load
from aggloom.runtime.operators.local_aggregate import LocalAggregator


def test_the_second_of_two_alike_is_not_resolved_with_each_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    columns = {"a": [1, 2, 3], "b": [1, 1, 2]}
    resolved: list[Any] = []
    for key in columns:
        spec = AggSpec.from_sql(f"SELECT {key} FROM t GROUP BY {key}", f"{key} BIGINT")
        handler = load(generate(spec, backend="numba"))
        rows = pa.record_batch({key: columns[key]}), np.zeros(3, np.int8)
        LocalAggregator(handler).add(*rows)
        monkeypatch.setattr(handler.KERNELS.update.dispatcher, "compile", resolved.append)
        LocalAggregator(handler).add(*rows)
    assert resolved == []
