"""A checkpoint as a line among others: its verdict and the figures that tell how its query does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from markupsafe import Markup

from aggloom.runtime.page.batch_charts import draw_throughput, throughput
from aggloom.runtime.page.checkpoints import Watched
from aggloom.runtime.page.formatting import NOTHING, age, amount, count, duration, moment, short
from aggloom.runtime.page.health import judge
from aggloom.runtime.page.views import phrase_status


@dataclass(frozen=True)
class Summary:
    """A checkpoint in a line. reasons: of its verdict. lag: unread input, by unit; sparkline: throughput."""

    number: int
    name: str
    path: str
    level: str
    word: str
    reasons: tuple[str, ...]
    lag: Mapping[str, str]
    behind: str
    rate: str
    sparkline: Markup
    usual_time: str
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
    recent = history.recent
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
            unit: amount(number, unit)
            for unit, number in (recent[-1].lag if recent else {}).items()
        },
        behind=NOTHING if last is None else duration(last.delay),
        rate=NOTHING if rate is None else short(rate),
        sparkline=draw_throughput(history.batches),
        usual_time=duration(history.usual_ms),
        rows=count(total.get("rows")),
        changes=count(total.get("changes")),
        batch=NOTHING if last is None else str(last.number),
        committed=moment(history.commit_ms),
        ago=age(history.commit_ms),
    )
