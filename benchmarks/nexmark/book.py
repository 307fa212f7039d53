"""The measurements, a record a query, kept as they come; and the pages made of them."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from picture import Bar
from results import publish_rows, show
from rows import DATA

from nexmark.catalogue import QUERIES
from nexmark.events import Events

Record = dict[str, Any]
HEADER: Final = (
    *("query", "asks for", "table", "stateful nodes", "batches", "k rows/s", "state, MB"),
    *("JVM", "Python", "of it operators", "Flink, k rows/s", "ratio"),
)
_NOTES: Final = (
    "{count:,} events, of fifty one a person, three auctions, the others bids; a fifth carries a time that is up "
    "to two seconds too early. {form} `table`: the table that aggloom's changes make, over a restart from the "
    "checkpoint in the middle, beside DuckDB's over the same events. Rows are those of the streams that a query "
    "reads. Rates are once under way: on Spark without the first of the batches; in Flink the net runtime of the "
    "job. Both throw results away (q10 writes files), without the rows before an update, which neither sink asks for; "
    "they run with two cores and take checkpoints. JVM and Python: "
    "shares of processor time; of it operators: what the same plan takes of one core without Spark, over all of "
    "it. Flink reads {reads}, and runs mini-batches in two phases, or the fastest of its plans where several may win;"
    " q0 shows what reading alone costs it. {mean}"
)
READS: Final = {
    "csv": "CSV, where aggloom reads Parquet",
    "parquet": "the same rows as Parquet, too, in two files for each stream instead of ten, for its readers do not "
    "wait for each other",
}
_USUAL: Final = 1_000_000
_FORMS: Final = {
    False: "Rows are only added.",
    True: "A tenth of auctions and bids are updated or deleted later; windows stay open for their corrections.",
}


@dataclass(frozen=True)
class Book:
    """The records of one size and form."""

    events: Events
    form: str = "csv"
    """In which Flink has the rows."""

    @property
    def name(self) -> str:
        """The page's; of another number of events than the usual one it says how many."""
        size = "" if self.events.count == _USUAL else f"-{self.events.count}"
        kind = "-corrections" if self.events.corrections else ""
        return f"nexmark{kind}{'' if self.form == 'csv' else f'-{self.form}'}{size}"

    @property
    def _file(self) -> Path:
        return DATA / f"{self.name}-results.json"

    def records(self) -> dict[str, Record]:
        """Records by query; empty if nothing was measured."""
        if not self._file.exists():
            return {}
        found: dict[str, Record] = json.loads(self._file.read_text(encoding="utf-8"))
        return found

    def add(self, query: str, **facts: Any) -> None:
        """Keep what was found of a query; what was known of it otherwise stays."""
        known = self.records()
        record = known.setdefault(query, {})
        record.pop("error", None)
        record.update(facts)
        draft = self._file.with_suffix(".draft")
        draft.parent.mkdir(parents=True, exist_ok=True)
        draft.write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")
        draft.rename(self._file)

    def cells(self) -> list[tuple[str, ...]]:
        """A row for each query."""
        known = self.records()
        return [_cells(q.name, q.title, known[q.name]) for q in QUERIES if q.name in known]

    def publish(self, command: str, flink: str) -> None:
        """Write the page and its picture, without a word."""
        ratios = {name: found for name, each in self.records().items() if (found := ratio(each))}
        order = [query.name for query in QUERIES if query.name in ratios]
        bars = [Bar("aggloom over Flink SQL", name, ratios[name]) for name in order]
        middles = [_median(ratios[name]) for name in order]
        mean = ""
        if middles:
            middle = math.exp(sum(map(math.log, middles)) / len(middles))
            mean = (
                f"Geometric mean of aggloom's rate over Flink's: {middle:.2f} over {len(middles)} queries, "
                f"least {min(middles):.2f}."
            )
        notes = _NOTES.format(
            count=self.events.count,
            form=_FORMS[self.events.corrections],
            reads=READS[self.form],
            mean=mean,
        )
        raw = [{"query": name, **each} for name, each in self.records().items()]
        facts = {"command": command} | ({"flink": flink} if flink else {})
        title = "aggloom's speed over Flink SQL's, once under way (more is faster)"
        shown = (title, bars) if bars else None
        rows = self.cells()
        publish_rows(
            self.name, HEADER, rows, raw, notes.strip(), facts=facts, bars=shown, printed=False
        )

    def show(self) -> None:
        """Print the table."""
        show(self.name, HEADER, self.cells())


def ratio(record: Record) -> list[float]:
    """Our rate over Flink's, by round; empty where one of them is not there."""
    ours, theirs = record.get("steady", []), record.get("flink_job", [])
    rows = record.get("rows", 0)
    return [own * job / rows for own, job in zip(ours, theirs, strict=False)]


def _cells(name: str, title: str, each: Record) -> tuple[str, ...]:
    if "error" in each:
        return (name, title, f"**{each['error']}**", *[""] * (len(HEADER) - 3))
    spent = each.get("jvm", 0) + each.get("python", 0)
    rate = each.get("steady")
    jobs = each.get("flink_job")
    theirs = each.get("flink_error", "")
    if jobs:
        theirs = f"{each['rows'] / _median(jobs) / 1e3:,.0f}"
        if each["flink_plan"] != "two-phase":
            theirs += f" ({each['flink_plan']})"
    found = ratio(each)
    return (
        name,
        title,
        each.get("table", ""),
        str(each.get("nodes", "")),
        str(each.get("batches", "")),
        f"{_median(rate) / 1e3:,.0f}" if rate else "",
        f"{each['state_bytes'] / 1e6:.1f}" if each.get("state_bytes") else "",
        f"{each['jvm'] / spent:.0%}" if spent else "",
        f"{each['python'] / spent:.0%}" if spent else "",
        f"{each['operators'] / spent:.0%}" if spent and each.get("operators") else "",
        theirs,
        f"{_median(found):.2f}" if found else "",
    )


def _median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]
