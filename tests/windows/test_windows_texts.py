"""Results that are strings in windows, which are numbers in one of several pools: merged, given again, taken back."""

from __future__ import annotations

import random
from typing import Any

import pytest

from aggloom.codegen import AggSpec
from aggloom.codegen.windows import Cumulate, EventTimeTrigger, Hop, Session, Tumble, Windowing
from aggloom.runtime.local.harness import Harness

SPEC = AggSpec.from_sql(
    "SELECT k, MAX(w) AS m, MIN(w) AS l, COUNT(DISTINCT w) AS d FROM t GROUP BY k",
    "k STRING, w STRING, ts TIMESTAMP",
    "retract",
)
WINDOWS = {
    "tumble, late": Windowing(Tumble(100, on="ts"), allowed_lateness=200),
    "tumble, early": Windowing(Tumble(100, on="ts"), EventTimeTrigger(early=0)),
    "hop": Windowing(Hop(120, 40, on="ts")),
    "hop, late": Windowing(Hop(120, 40, on="ts"), allowed_lateness=200),
    "cumulate": Windowing(Cumulate(150, 50, on="ts")),
    "session": Windowing(Session(60, on="ts")),
    "session, late": Windowing(Session(60, on="ts"), allowed_lateness=200),
}


def changes(backend: Any, window: Windowing, seed: int) -> list[Any]:
    """List the changes of random rows: they come, go, and are late."""
    rng, live, newest, out = random.Random(seed), [], 1000, []
    with Harness(SPEC, backend=backend, window=window) as harness:
        for _ in range(6):
            rows = []
            for _ in range(rng.randint(1, 12)):
                if live and rng.random() < 0.4:
                    rows.append(("-D", *live.pop(rng.randrange(len(live)))))
                    continue
                newest += rng.randint(0, 30)
                word = rng.choice(["ü", "", None, "zebra", "a long word, longer than eight bytes"])
                word = word and word + rng.choice("xyz")
                row = (rng.choice("ab"), word, (newest - rng.randint(0, 150)) * 1000)
                live.append(row)
                rows.append(("+I", *row))
            harness.process(rows)
            harness.watermark(newest - rng.randint(0, 100))
            out += harness.changes()
        harness.watermark(newest + 10_000)
        return out + harness.changes()


@pytest.mark.parametrize("name", WINDOWS)
def test_strings_are_those_of_plain_python(name: str) -> None:
    for seed in range(6):
        found, expected = (changes(each, WINDOWS[name], seed) for each in ("numba", "python"))
        assert sorted(map(str, found)) == sorted(map(str, expected))
