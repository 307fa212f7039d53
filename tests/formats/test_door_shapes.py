"""Files in the shapes of other writers are what they were made of, or refused."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from doors.shapes import SHAPES, check_shapes


def test_any_shape(tmp_path: Path) -> None:
    done: Counter[str] = Counter()
    check_shapes(None, "7", 12, tmp_path, done)
    assert done.total() == 12 * len(SHAPES)
    refused = sum(number for what, number in done.items() if "refused" in what)
    assert 3 < refused < done.total() / 3
    assert sum(number for what, number in done.items() if "unclear" in what) < done.total() / 10


@pytest.mark.spark
def test_any_shape_by_spark(spark: Any, tmp_path: Path) -> None:
    done: Counter[str] = Counter()
    check_shapes(spark, "8", 0, tmp_path, done)
    assert done.total() == 3
