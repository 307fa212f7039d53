"""A checkpoint as a line among others: its verdict and the figures that tell how its query does."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median

from markupsafe import Markup

from aggloom.runtime.page.batch_charts import draw_throughput, throughput
from aggloom.runtime.page.checkpoints import Watched
from aggloom.runtime.page.formatting import NOTHING, count, duration, moment, short, size
from aggloom.runtime.page.health import RECENT, judge
from aggloom.runtime.page.views import phrase_status


@dataclass(frozen=True)
class Summary:
    """A checkpoint in a line. reasons: why it is to be looked at. lag: what waits, by unit; spark: its throughput."""

    number: int
    name: str
    path: str
    level: str
    word: str
    reasons: tuple[str, ...]
    lag: Mapping[str, str]
    behind: str
    rate: str
    spark: Markup
    took: str
    rows: str
    changes: str
    batch: str
    committed: str
    ago: str


def summarise(watched: Watched) -> Summary:
    """The line of a checkpoint; its plan and its operators are not read."""
    # The list is made anew at every reload, for all checkpoints, and its lines show nothing of the plans.
    facts = watched.read_facts(with_plan=False)
    history = facts.history
    health = judge(history, facts.problems, facts.clocks)
    last, total = history.last, history.total
    # A batch that runs has no rows yet, and would look like a rate of zero.
    recent = [batch for batch in history.batches if batch.rows is not None][-RECENT:]
    took = [batch.took for batch in history.batches[-RECENT:] if batch.took is not None]
    done = max((batch.done for batch in history.batches if batch.done), default=None)
    rate = throughput(recent)
    is_shown = health.level == "bad" or history.status == "unknown"
    words = (phrase_status(history),) if is_shown else ()
    # Otherwise a row of dashes would look like a fault.
    new = () if last is not None else ("There is no batch yet.",)
    return Summary(
        number=watched.number,
        name=watched.name,
        path=watched.path,
        level=health.level,
        word=health.word,
        reasons=(*words, *(health.reasons or facts.problems), *new),
        lag={
            unit: size(waits) if unit == "bytes" else count(waits)
            for unit, waits in (recent[-1].lag if recent else {}).items()
        },
        behind=NOTHING if last is None else duration(last.delay),
        rate=NOTHING if rate is None else short(rate),
        spark=draw_throughput(history.batches),
        # The median: the first batch compiles, and one such time would be most of a mean.
        took=duration(round(median(took))) if took else NOTHING,
        rows=count(total.get("rows")),
        changes=count(total.get("changes")),
        batch=NOTHING if last is None else str(last.number),
        committed=moment(done),
        ago=NOTHING if done is None else duration(max(0, time.time_ns() // 1_000_000 - done)),
    )
