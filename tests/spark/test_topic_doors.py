"""Messages by chance through topics, as `tests/formats/test_doors.py` has them through files."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("confluent_kafka")

from doors.messages import VARIANTS
from doors.topics import check_topics

pytestmark = pytest.mark.spark


def test_any_mix_of_messages_in_topics(spark: Any, broker: Any, tmp_path: Path) -> None:
    done = Counter[str]()
    check_topics(spark, broker, random.Random("topics 1"), 30, tmp_path, done, by_spark=1)
    assert done["topics"] == len(VARIANTS)
    assert done["topics by workers"] == done["topics by connector"] == 1
    assert done["made messages, read"] > 500
    assert done["made messages, refused"] > 100
    assert done["damaged messages, refused"] > 50
