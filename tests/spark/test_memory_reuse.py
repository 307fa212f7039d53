"""Java is told of memory that it no longer needs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from aggloom.runtime.platform.memory_reuse import KEPT_BYTES, keeping_memory


@pytest.mark.shortcut
def test_variables_are_there_while_java_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MALLOC_TRIM_THRESHOLD_", raising=False)
    monkeypatch.setenv("MALLOC_ARENA_MAX", "4")
    with keeping_memory():
        assert os.environ["MALLOC_TRIM_THRESHOLD_"] == str(KEPT_BYTES)
        assert os.environ["MALLOC_ARENA_MAX"] == "4"
    assert "MALLOC_TRIM_THRESHOLD_" not in os.environ
    assert os.environ["MALLOC_ARENA_MAX"] == "4"


@pytest.mark.spark
@pytest.mark.shortcut
@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="only Linux tells variables")
def test_java_has_them(spark: Any) -> None:
    process = spark._jvm.java.lang.ProcessHandle.current().pid()
    told = Path(f"/proc/{process}/environ").read_bytes().split(b"\0")
    assert f"MALLOC_TRIM_THRESHOLD_={KEPT_BYTES}".encode() in told
