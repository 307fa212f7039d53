"""An older Spark beside the newest: `make matrix` runs all tests of Spark under each."""

from __future__ import annotations

import os
from pathlib import Path

import older_sparks
import pytest
import two_queries

OLDEST = "4.0"

pytestmark = pytest.mark.spark


@pytest.mark.thorough
def test_the_oldest_spark_goes_on_after_a_kill(tmp_path: Path) -> None:
    try:
        python = older_sparks.python_of(OLDEST)
    except older_sparks.UnavailableError as why:
        pytest.skip(f"Spark {OLDEST} cannot be installed: {why}")
    two_queries.write(tmp_path)
    environment = {**os.environ, "AGGLOOM_STATE_DIR": str(tmp_path / "state")}
    two_queries.struck(python, tmp_path, environment=environment)
    found = two_queries.ended(python, tmp_path, environment=environment)
    assert found["spark"].startswith(OLDEST)
    sums, windows = two_queries.expected(tmp_path)
    assert two_queries.folded(found["sums"]) == sums
    assert two_queries.folded(found["windows"]) == windows
    assert found["keys"] == [1 + two_queries.KEYS] * 2
    assert found["repartition"].startswith("SparkVersionError: repartition: this needs Spark 4.3")
