"""Generated handlers in windows: the life cycle with a namespace, a row at a time and in bulk."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

import aggloom as al
from aggloom.errors import AggloomError, SpecError

HOUR = 3_600_000
SPEC = al.AggSpec(
    "k STRING, ts TIMESTAMP, v INT",
    ("k",),
    (
        al.AggCall("SUM", "v", alias="s"),
        al.AggCall("COUNT", "v", distinct=True, alias="d"),
        al.AggCall("MAX", "v", filter="v < 9", alias="m"),
    ),
)
backends = pytest.mark.parametrize("backend", ["python", "numba"])


def handler(backend: Any) -> Any:
    spec = al.window_spec(SPEC, al.Tumble("1 hour", on="ts"))
    source = al.generate(spec, backend=backend)
    assert source.class_name == "NamespaceAggsHandler"
    return al.load(source)


def at(ms: int) -> dt.datetime:
    return dt.datetime.fromtimestamp(ms / 1000, dt.UTC)


@backends
def test_a_window_from_its_first_row_to_its_end(backend: str) -> None:
    h = handler(backend)()
    first, second = (0, HOUR), (HOUR, 2 * HOUR)
    one, two = h.createAccumulators(), h.createAccumulators()
    h.setAccumulators(first, one)
    for value in (5, 5, 9):
        h.accumulate(_row(h, value))
    assert h.getValue(first) == (19, 2, 5, at(0), at(HOUR), at(HOUR - 1))
    h.retract(_row(h, 5))
    assert h.getValue(first)[:3] == (14, 2, 5)
    h.setAccumulators(second, two)
    h.accumulate(_row(h, 7))
    assert h.getValue(second) == (7, 1, 7, at(HOUR), at(2 * HOUR), at(2 * HOUR - 1))
    # The windows become one, as sessions do.
    h.setAccumulators(first, one)
    h.merge((0, 2 * HOUR), two)
    assert h.getValue((0, 2 * HOUR)) == (21, 3, 7, at(0), at(2 * HOUR), at(2 * HOUR - 1))
    with pytest.raises(AggloomError, match="the accumulators are those of"):
        h.getValue(first)
    h.cleanup((0, 2 * HOUR))
    with pytest.raises(AggloomError, match="no accumulators are set"):
        h.accumulate(_row(h, 1))


@backends
def test_many_windows_at_once(backend: str) -> None:
    h = handler(backend)()
    windows = [(i * HOUR, (i + 1) * HOUR) for i in range(3)]
    h.setAccumulators(windows, h.createAccumulators(3))
    h.accumulate([_row(h, value) for value in (1, 2, 3)])
    values = h.getValue(windows)
    assert values.schema.names == ["s", "d", "m", "window_start", "window_end", "window_time"]
    assert values.column("s").to_pylist() == [1, 2, 3]
    assert values.column("window_end").to_pylist() == [at((i + 1) * HOUR) for i in range(3)]
    with pytest.raises(AggloomError, match="2 windows for 3 accumulators"):
        h.setAccumulators(windows[:2], h.createAccumulators(3))


def test_a_namespace_needs_its_column() -> None:
    with pytest.raises(SpecError, match="namespace: the last of group_by"):
        al.AggSpec("k STRING", ("k",), (al.AggCall("COUNT"),), namespace=True)
    spec = al.window_spec(SPEC, al.Session("5 min", on="ts"))
    assert al.AggSpec.from_json(spec.to_json()) == spec
    assert al.AggSpec.from_yaml(spec.to_yaml()).namespace


def _row(h: Any, value: int) -> tuple[Any, ...]:
    """A row in the order of the handler's columns."""
    found = {"k": "a", "v": value}
    return tuple(found.get(name, value < 9 if "<" in name else 0) for name in h.spec().schema.names)
