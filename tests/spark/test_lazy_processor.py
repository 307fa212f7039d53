"""A stateful processor on its way to workers."""

from __future__ import annotations

import pickle
import subprocess
import sys
from typing import Any

import pytest

pytest.importorskip("pyspark")

from aggloom.runtime.spark.node.host import FragmentProcessor, Options
from aggloom.runtime.spark.node.lazy_processor import LazyProcessor

ASKED = """
import pickle, sys
processor = pickle.load(sys.stdin.buffer)
asked = []
class Handle:
    def getValueState(self, name, schema): asked.append(name)
    def getListState(self, name, schema): asked.append(name)
processor.init(Handle())
processor.close()
heavy = {"numba", "pandas", "pyarrow", "aggloom.codegen", "aggloom.runtime.operators"} & set(sys.modules)
print(asked, sorted(heavy))
"""


def test_state_variables_are_told_without_what_operators_need() -> None:
    travelling = pickle.dumps(FragmentProcessor("no factory", Options(2)))  # type: ignore[arg-type]
    done = subprocess.run(
        [sys.executable, "-c", ASKED], input=travelling, capture_output=True, check=True
    )
    assert done.stdout.decode().strip() == "['commit', 'log'] []"


def test_rows_and_timers_reach_the_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    def told(self: Any, *what: Any) -> Any:
        yield self._factory, self._options.buckets, tuple(self._variables), what

    monkeypatch.setattr(FragmentProcessor, "handleInputRows", told)
    monkeypatch.setattr(FragmentProcessor, "handleExpiredTimer", told)
    deferred = pickle.loads(pickle.dumps(FragmentProcessor("a factory", Options(3))))  # type: ignore[arg-type]
    assert isinstance(deferred, LazyProcessor)

    class Handle:
        def getValueState(self, name: str, schema: Any) -> str:  # noqa: N802
            return name

        getListState = getValueState  # noqa: N815

    deferred.init(Handle())
    variables = ("commit", "log")
    rows = iter([1])
    assert list(deferred.handleInputRows((5,), rows, "now")) == [
        ("a factory", 3, variables, ((5,), rows, "now"))
    ]
    made = deferred._inner
    assert list(deferred.handleExpiredTimer((5,), "now", "due")) == [
        ("a factory", 3, variables, ((5,), "now", "due"))
    ]
    assert deferred._inner is made


def test_a_processor_of_500_calls_is_below_the_size_that_spark_broadcasts() -> None:
    factory: Any = [f"SUM(v + {number}) AS s{number}" * 60 for number in range(500)]
    travelling = pickle.dumps(FragmentProcessor(factory, Options(2)))
    assert len(pickle.dumps(factory)) > 500_000 and len(travelling) < 200_000
