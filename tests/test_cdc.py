"""The whole line of examples/cdc.py on real servers, with a kill of aggloom in the middle."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import kafka
import pytest

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


@pytest.mark.spark
def test_from_database_to_database(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    if not os.environ.get("AGGLOOM_CDC"):
        pytest.skip(
            "a minute of four servers: AGGLOOM_CDC=1 runs it, and make demo-cdc ARGS=--kill more of it"
        )
    kafka.need_jars()
    monkeypatch.setattr(sys, "path", [str(EXAMPLES), *sys.path])
    import cdc

    said: list[str] = []
    cdc.play(["aggloom"], 10, said.append, tmp_path / "cdc")
    assert said[-2].startswith("results.largest: 9 rows")
    assert said[-1].startswith("lake/revenue, a Delta table: ")
