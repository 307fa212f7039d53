"""Snapshots with right checksums and wrong contents are refused, or used: no process dies of one, and none hangs.

The suite tries a few; `make mutations` 10,000.
"""

from __future__ import annotations

import os
import random

import pytest
from mutated.mutations import mutate
from mutated.queries import feed, made
from mutated.run import play

from aggloom.errors import StateCorruptError

COUNT = int(os.environ.get("AGGLOOM_MUTATIONS", "160"))
SEED = int(os.environ.get("AGGLOOM_MUTATIONS_SEED", "0"))


@pytest.mark.slow
def test_mutated_snapshots_neither_end_nor_hang_a_process() -> None:
    outcomes, failures = play(list(made()), SEED, COUNT, 1 if COUNT < 1000 else 2)
    assert failures == []
    assert sum(outcomes.values()) == COUNT
    assert outcomes["refused"] > COUNT // 2


def test_a_refusal_names_what_is_wrong_and_what_to_do() -> None:
    harness = made()["rank"]()
    feed(harness, random.Random(1), {}, False)
    snapshot, said = harness.snapshot(), set()
    for seed in range(40):
        try:
            made()["rank"]().restore(mutate(snapshot, random.Random(seed)))
        except StateCorruptError as error:
            said.add(str(error).partition(": ")[2])
            assert "Restart from an older checkpoint" in str(error)
    assert len(said) > 5
