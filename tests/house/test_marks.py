"""The marks of tests do what pyproject.toml says of them."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark")

import aggloom as al
from aggloom import local
from aggloom.runtime.local.harness import Harness
from aggloom.runtime.spark.api.query import sql
from aggloom.runtime.spark.api.window_aggregate import window_aggregate

WITH_BACKEND = (Harness.__init__, Harness.from_sql, sql, window_aggregate, local.sql)


def defaults() -> list[str]:
    """The backends that are taken where none is named."""
    functions = (getattr(each, "__func__", each) for each in WITH_BACKEND)
    return [each.__kwdefaults__["backend"] for each in functions]


@pytest.mark.interpreted
def test_handlers_are_plain_python_where_a_test_names_no_backend() -> None:
    assert defaults() == ["python"] * len(WITH_BACKEND)
    with al.Harness.from_sql("SELECT SUM(n) AS s FROM t", {"t": "n INT"}) as harness:
        harness.process([("+I", 1), ("+I", 2)])
        harness.flush()
        assert harness.table() == [(3,)]


def test_without_the_mark_they_are_compiled() -> None:
    assert defaults() == ["numba"] * len(WITH_BACKEND)
