"""The 23 queries: what each asks, which streams it reads, and how its table is judged."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

SQL: Final = Path(__file__).with_name("queries")
DELAY: Final = "2 seconds"
"""Delay of the watermarks: events are out of order by at most as much."""
LATE: Final = {"table.exec.emit.allow-lateness": "1 d"}
"""With corrections windows stay as long as their rows may be corrected."""


@dataclass(frozen=True)
class Query:
    """One of the queries."""

    name: str
    title: str
    tables: tuple[str, ...]
    timed: bool = False
    """True if it has windows in event time."""
    judged: str = "SELECT * FROM emitted"
    """A query of the part of the table that is compared with DuckDB's: it does not depend on when rows were seen."""
    by_clock: bool = False
    """True if it has windows in processing time."""
    whole_with_corrections: bool = False
    """True if corrections have to come in one batch with their rows: a window of processing time is over later."""
    files: tuple[str, ...] = ()
    """The columns that name the folders, where the result goes to files."""
    not_flink: str = ""
    """Why Flink cannot run it."""
    flink_plans: tuple[str, ...] = ("two-phase",)
    """Those of Flink's plans that may be its best."""

    def text(self, engine: str) -> str:
        """Its SQL for an engine: its own (duckdb, flink), or what all read alike."""
        own = SQL / engine / f"{self.name}.sql"
        file = own if own.exists() else SQL / f"{self.name}.sql"
        return file.read_text(encoding="utf-8")

    @cached_property
    def streams(self) -> tuple[str, ...]:
        """The tables of events that it reads."""
        return tuple(table for table in self.tables if table != "side")

    def watermarks(self) -> dict[str, tuple[str, str]]:
        """Watermarks of the streams, if the query needs them: column and delay."""
        return dict.fromkeys(self.streams, ("date_time", DELAY)) if self.timed else {}

    def options(self, corrections: bool) -> dict[str, str]:
        """Those of the planner."""
        return dict(LATE) if corrections and self.timed else {}


_BID, _BOTH = ("bid",), ("auction", "bid")
_DISTINCT = ("two-phase", "two-phase, split DISTINCT")
QUERIES: Final = (
    Query("q0", "pass through", _BID),
    Query("q1", "currency conversion", _BID),
    Query("q2", "selection", _BID),
    Query("q3", "local item suggestion", ("auction", "person")),
    Query("q4", "average price by category", _BOTH),
    Query("q5", "hot items", _BID, timed=True),
    Query(
        "q6",
        "average of a seller's last ten",
        _BOTH,
        not_flink="OVER does not read changes (FLINK-19059)",
    ),
    Query("q7", "highest bid", _BID, timed=True),
    Query("q8", "monitor new users", ("person", "auction"), timed=True),
    Query("q9", "winning bids", _BOTH),
    Query("q10", "log to files", _BID, files=("day", "minute")),
    Query("q11", "user sessions", _BID, timed=True),
    Query(
        "q12",
        "processing-time windows",
        _BID,
        by_clock=True,
        whole_with_corrections=True,
        judged="SELECT bidder, CAST(SUM(bids) AS BIGINT) AS bids FROM emitted GROUP BY bidder",
    ),
    Query("q13", "bounded side input", ("bid", "side")),
    Query("q14", "calculation with a function", _BID),
    Query("q15", "bidding by day", _BID, flink_plans=_DISTINCT),
    Query("q16", "channels by day", _BID, flink_plans=_DISTINCT),
    Query("q17", "auctions by day", _BID),
    Query("q18", "last bid of each bidder", _BID),
    Query("q19", "ten highest bids", _BID),
    Query("q20", "bids with their auction", _BOTH),
    Query("q21", "channel id", _BID),
    Query("q22", "parts of a URL", _BID),
)
NAMES: Final = tuple(query.name for query in QUERIES)
