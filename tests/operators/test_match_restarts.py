"""MATCH_RECOGNIZE over restarts between bundles: the changes of a run without them, and the rows of the model."""

from __future__ import annotations

import datetime as dt
import os
import random
from collections import Counter
from typing import Any

import match_model
import pytest
from match_model import Query

import aggloom as al
from tests.operators.test_match_changes import TABLE

_FIRST, _COUNT = map(int, os.environ.get("AGGLOOM_SEEDS", "0:8").split(":"))


class Run:
    """A harness that may be restarted, and the rows that its changes leave."""

    def __init__(self, query: Query, changes: str, buckets: int) -> None:
        self.query, self.changes, self.buckets = query, changes, buckets
        self.harness = self._open()
        self.rows: Counter[tuple[Any, ...]] = Counter()

    def _open(self) -> al.Harness:
        return al.Harness.from_sql(
            self.query.sql(),
            {"t": TABLE},
            input_changes=self.changes,
            backend="python",
            buckets=self.buckets,
        )

    def restart(self) -> None:
        saved = self.harness.snapshot()
        self.harness.close()
        self.harness = self._open()
        self.harness.restore(saved)

    def new_changes(self) -> Counter[tuple[Any, ...]]:
        """The changes since the last call."""
        new = Counter(map(tuple, self.harness.changes()))
        for (kind, *row), count in new.items():
            self.rows[tuple(row)] += count if kind == "+I" else -count
        return new


@pytest.mark.parametrize("changes", ["append", "retract"])
@pytest.mark.parametrize("seed", range(_FIRST, _FIRST + _COUNT))
@pytest.mark.sampled(6)
def test_a_restart_changes_nothing(seed: int, changes: str) -> None:
    rng = random.Random(seed)
    query, waiting = match_model.random_query(rng), match_model.random_rows(rng, 40)
    live: dict[int, match_model.Row] = {}
    # The other number of buckets is for a state of another shape.
    whole, cut = (Run(query, changes, buckets) for buckets in (1, rng.choice([1, 3])))
    known: dt.datetime | None = match_model.START - dt.timedelta(days=1)

    def check() -> None:
        assert cut.new_changes() == whole.new_changes(), query.sql()
        wanted = Counter(match_model.expected(query, list(live.values()), known))
        assert +whole.rows == wanted and min(whole.rows.values(), default=0) >= 0, query.sql()

    while waiting:
        if changes == "append":
            some = [waiting.pop(0) for _ in range(min(len(waiting), rng.randint(1, 6)))]
            live |= {row["id"]: row for row in some}
            bundle = [("+I", *row.values()) for row in some]
        else:
            bundle = match_model.change_rows(rng, live, waiting)
        for run in (whole, cut):
            run.harness.process(bundle)
            run.harness.flush()
        check()
        if rng.random() < 0.4:
            cut.restart()
        if live and rng.random() < 0.6:
            newest = max(row["ts"] for row in live.values()) - dt.timedelta(seconds=2)
            assert known is not None
            known = max(known, newest)
            for run in (whole, cut):
                run.harness.watermark(int(known.timestamp() * 1000))
            check()
        if rng.random() < 0.2:
            cut.restart()
    known = None
    for run in (whole, cut):
        run.harness.end_of_input()
    check()
