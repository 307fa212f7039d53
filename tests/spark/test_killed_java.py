"""The end of Spark's Java under a query that is waited for is a typed error."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyspark")

from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.sql.streaming.query import StreamingQuery

from aggloom.errors import AggloomError
from aggloom.runtime.spark import await_end, read_changes


@pytest.mark.parametrize("failure", [ConnectionRefusedError, Py4JNetworkError, Py4JError])
def test_a_killed_java_is_a_typed_error(failure: type[Exception]) -> None:
    def end() -> None:
        raise failure("111")

    query: Any = StreamingQuery(SimpleNamespace(awaitTermination=end))
    with pytest.raises(AggloomError, match="Spark's Java has ended"):
        await_end(query)


def test_a_session_whose_java_was_killed_is_a_typed_error() -> None:
    class Session:
        _sc = SimpleNamespace(_gateway=SimpleNamespace(proc=SimpleNamespace(poll=lambda: -9)))

        def createDataFrame(self) -> None:  # noqa: N802
            raise ConnectionRefusedError(111)

    session: Any = Session()
    with pytest.raises(AggloomError, match="read_changes: the session's Java has ended"):
        read_changes(session, "in", "jsonl", "k INT")
