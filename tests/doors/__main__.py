"""The command line: `python -m doors --examples 10000 --seed 0`."""

from __future__ import annotations

import argparse
import os
import random
import tempfile
import time
from collections import Counter
from pathlib import Path

import kafka

from doors import check
from doors.check import MIXED
from doors.messages import VARIANTS
from doors.shapes import SHAPES
from doors.topics import check_topics

EACH = 8 + MIXED * len(VARIANTS) + len(SHAPES)
"""Examples of a round: by each door one, or two without Spark; files of each format of messages, and of each shape."""


def main() -> None:
    """Rounds of examples until there were so many."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--examples", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    from aggloom.runtime.spark import session

    os.environ.setdefault("NUMBA_CPU_NAME", "generic")
    quick = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
    settings = {"spark.log.level": "OFF", **quick, **kafka.connector_settings()}
    spark = session("doors", **settings)
    total: Counter[str] = Counter()
    left, seed, begin = -(-asked.examples // EACH), asked.seed, time.monotonic()
    with kafka.broker() as broker:
        while left > 0:
            rounds = min(20, left)
            with tempfile.TemporaryDirectory() as directory:
                total += check(spark, seed, rounds, Path(directory))
                made = random.Random(f"{seed} topics")
                check_topics(spark, broker, made, rounds, Path(directory), total)
            left, seed = left - rounds, seed + 1
            took = time.monotonic() - begin
            files = sum(number for what, number in total.items() if "messages" not in what)
            print(f"seed {seed - 1}: {files} in {took:.0f} s, {dict(total)}", flush=True)


if __name__ == "__main__":
    main()
