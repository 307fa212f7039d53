"""The page of Nexmark on the local engine beside Flink SQL, made of what the rounds of a run have measured."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any, Final

from picture import Bar
from results import publish_rows

from nexmark.book import READS
from nexmark.catalogue import QUERIES
from nexmark.events import Events

Rounds = Sequence[Mapping[str, Any]]
HEADER: Final = (
    *("query", "asks for", "k rows/s", "processor s", "k rows / processor s", "peak MB"),
    *("Flink, k rows/s", "Flink, peak MB", "ratio"),
)
_NOTES: Final = (
    "{count:,} events in Parquet, {batches} batches, {buckets} buckets, two threads; Flink SQL with two tasks, its "
    "state on the heap. Both take checkpoints and throw results away, without the rows before an update, which neither "
    "sink asks for; but for q10: the local engine writes Parquet files, Flink CSV files by day "
    "and minute. They took turns on a machine that did nothing else, {rounds}. Rates: of "
    "the rows of the streams that a query reads; in Flink over the net runtime of the job. Processor time is of all "
    "threads. Flink reads {reads}; it runs mini-batches in two phases, or the fastest of its plans where several may "
    "win. Peaks: the most memory that the one process, and Flink's Java, had while a query ran; each runs all queries "
    "one after the other, and keeps some of what it had. {mean}"
)


def publish_engine(
    events: Events,
    form: str,
    records: Mapping[str, Rounds],
    version: str,
    batches: int,
    buckets: int,
) -> None:
    """Write the page of a run: of each query the median of its rounds. form: in which Flink has the rows."""
    ratios = {name: found for name, each in records.items() if (found := _ratios(each))}
    middles = [statistics.median(each) for each in ratios.values()]
    mean = ""
    if middles:
        middle = math.exp(sum(map(math.log, middles)) / len(middles))
        least = min(ratios, key=lambda name: statistics.median(ratios[name]))
        mean = f"Of the {len(middles)} queries that Flink ran: geometric mean {middle:.2f} times its rate, "
        mean += f"least {least} ({min(middles):.1f}). {_peaks(records)}"
    rounds = max(map(len, records.values()))
    notes = _NOTES.format(
        count=events.count,
        batches=batches,
        buckets=buckets,
        rounds="one round" if rounds == 1 else f"the median of {rounds} rounds",
        reads=READS[form],
        mean=mean,
    )
    name = f"nexmark-engine{'-corrections' if events.corrections else ''}-{events.count}"
    order = [query.name for query in QUERIES if query.name in ratios]
    bars = [Bar("the local engine over Flink SQL", each, ratios[each]) for each in order]
    title = "the local engine's speed over Flink SQL's (more is faster)"
    cells = [_cells(q.name, q.title, records[q.name]) for q in QUERIES if q.name in records]
    raw = [{"query": each, "rounds": list(own)} for each, own in records.items()]
    publish_rows(
        name,
        HEADER,
        cells,
        raw,
        notes,
        facts={"command": _command(events, form, rounds), "flink": version},
        bars=(title, bars) if bars else None,
        printed=False,
    )


def _ratios(rounds: Rounds) -> list[float]:
    """Our rate over Flink's in each round."""
    return [each["rate"] / each["flink_rate"] for each in rounds if "flink_rate" in each]


def _peaks(records: Mapping[str, Rounds]) -> str:
    """Say the greatest peaks of both."""
    said = []
    for whose, fact in (("the local engine", "peak_mb"), ("Flink", "flink_peak_mb")):
        peaks = {n: max(each.get(fact, 0.0) for each in own) for n, own in records.items()}
        most = max(peaks, key=lambda name: peaks[name])
        said.append(f"{whose} took at most {peaks[most] / 1e3:.1f} GB ({most})")
    return f"{said[0][0].upper()}{said[0][1:]}, {said[1]}."


def _command(events: Events, form: str, rounds: int) -> str:
    more = f"{' --corrections' if events.corrections else ''}{' --format parquet' if form != 'csv' else ''}"
    more += f" --rounds {rounds}" if rounds > 1 else ""
    return f"PYTHONPATH=benchmarks python -m nexmark.engine --events {events.count} --unchecked --flink{more}"


def _cells(name: str, title: str, rounds: Rounds) -> tuple[str, ...]:
    def middle(fact: str) -> float:
        return float(statistics.median(each[fact] for each in rounds))

    seconds, rows = middle("processor"), rounds[0]["rows"]
    compared = [each for each in rounds if "flink_rate" in each]
    theirs = peak = ratio = ""
    if compared:
        theirs = f"{statistics.median(each['flink_rate'] for each in compared) / 1e3:,.0f}"
        if compared[-1]["flink_plan"] != "two-phase":
            theirs += f" ({compared[-1]['flink_plan']})"
        peak = f"{max(each['flink_peak_mb'] for each in compared):,.0f}"
        ratio = f"{statistics.median(_ratios(rounds)):.1f}"
    else:
        theirs = str(rounds[-1].get("flink_error", ""))
    own = f"{middle('rate') / 1e3:,.0f}", f"{seconds:.1f}", f"{rows / seconds / 1e3:,.0f}"
    return (name, title, *own, f"{middle('peak_mb'):,.0f}", theirs, peak, ratio)
