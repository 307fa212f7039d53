"""Fixtures of the tests of sinks."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from schema_registry import Registry, serving


@pytest.fixture
def schemas(monkeypatch: pytest.MonkeyPatch) -> Iterator[Registry]:
    pytest.importorskip("fastavro")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with serving() as made:
        yield made
