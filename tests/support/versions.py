"""Facts about the Spark that tests run on."""

from __future__ import annotations

import pytest

from aggloom.runtime.spark.release import SPARK

about_newest = pytest.mark.skipif(
    SPARK < (4, 3),
    reason="compares with functions of Spark's own, which older ones lack or answer otherwise",
)
repartitions = pytest.mark.skipif(
    SPARK < (4, 3), reason="an older Spark refuses it by name: test_release.py"
)
