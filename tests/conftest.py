"""Shared fixtures: one Spark session for all the tests that need one.

The helper modules beside the tests (`model`, `strategies`) are made importable.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A small local session; live state goes to a directory of this test run."""
    from aggloom.runtime.spark import session

    root = tmp_path_factory.mktemp("state")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AGGLOOM_STATE_DIR", str(root))
        made = session(
            "tests",
            master="local[2]",
            **{
                "spark.driver.memory": "1500m",
                "spark.sql.warehouse.dir": str(root / "warehouse"),
                "spark.sql.streaming.stateStore.maintenanceInterval": "600s",
            },
        )
        yield made
        made.stop()
