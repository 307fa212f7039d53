"""The whole line of examples/cdc.py on real servers, with a kill of aggloom in the middle; and one that is struck."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import kafka
import pytest

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


@pytest.fixture(autouse=True)
def example(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the example importable; skips these tests where its servers cannot be installed."""
    kafka.need_jars()
    monkeypatch.setattr(sys, "path", [str(EXAMPLES), *sys.path])


@pytest.fixture
def wanted() -> None:
    """Skips a test unless it is asked for."""
    if not os.environ.get("AGGLOOM_CDC"):
        pytest.skip(
            "a minute of four servers: AGGLOOM_CDC=1 runs it, and make chaos-cdc more of it"
        )


@pytest.mark.spark
def test_from_database_to_database(tmp_path: Path) -> None:
    import cdc

    said: list[str] = []
    cdc.play(["aggloom"], 10, said.append, tmp_path / "cdc")
    assert said[-2].startswith("results.largest: 9 rows")
    assert said[-1].startswith("lake/revenue, a Delta table: ")


@pytest.mark.spark
@pytest.mark.usefixtures("wanted")
def test_kills_at_random(tmp_path: Path) -> None:
    from chaos import servers

    said: list[str] = []
    assert servers.play(range(1, 3), tmp_path, said.append) == [], said
