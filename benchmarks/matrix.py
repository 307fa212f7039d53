"""The table of cases, chosen so that each axis is seen to move alone, not their product."""

from __future__ import annotations

from dataclasses import dataclass, replace

from flink import Setup
from rows import Rows
from workloads import (
    BASIC,
    BUSIEST,
    CASCADE,
    COUNT,
    DISTINCT,
    FIRST,
    FULL,
    HUNDRED,
    LAST,
    LEFT,
    LOOKED_UP,
    MANY,
    MIXED,
    TOP,
    TOP_TEN,
    Query,
)

BATCHES = 4
FEW = 20_000
"""Rows of the unmeasured round, in which all contenders must give the same table."""
K, M = 1_000, 1_000_000
LOOM, OWN, HAND = "aggloom", "Spark's own", "written by hand"
OWN_LOG = "Spark's own, changelog checkpoints"
FLOOR = "mapInArrow identity"
OWNS = (OWN,)
PLAIN, MINI, TWO = Setup("plain"), Setup("mini-batch"), Setup("two-phase")
EVERY = (
    PLAIN,
    MINI,
    TWO,
    Setup("mini-batch", checkpoints=False),
    Setup("mini-batch", backend="rocksdb"),
)


@dataclass(frozen=True)
class Case:
    """A query over rows, and who takes part beside aggloom and the floor."""

    name: str
    query: Query
    rows: Rows
    flink: tuple[Setup, ...] = ()
    own: tuple[str, ...] = ()
    """Spark's own, with checkpoints that are snapshots (OWN) or logs (OWN_LOG); none if it cannot run the query."""
    by_hand: int = 0
    """Rows of the processor written by hand."""
    quick: int = 0
    """Rows of a quick run; 0 leaves the case out."""
    floor: bool = True
    """True if moving the rows alone is measured as well."""

    def few(self) -> Case:
        """The same with few rows and keys, to warm up and to compare the results."""
        # Flink hands its messages out one by one, and what is no aggregate has many.
        few = FEW if self.floor else FEW // 8
        keys = min(self.rows.keys, few // (4 if self.rows.beside else 20))
        beside = self.rows.beside and replace(self.rows.beside, rows=few, keys=keys)
        rows = replace(self.rows, rows=few, keys=keys, beside=beside)
        return replace(self, rows=rows, by_hand=min(self.by_hand, FEW))

    def shorten(self) -> Case:
        """The same as a quick run takes it."""
        return replace(
            self,
            rows=replace(self.rows, rows=self.quick),
            flink=self.flink[:2],
            by_hand=min(self.by_hand, 5 * K),
        )


def _append(query: Query, rows: int, keys: int, zipf: bool = False, strings: bool = False) -> Rows:
    return Rows(rows, keys, "append", zipf, strings, query.columns)


def _retract(query: Query, rows: int, keys: int, changes: str = "retract") -> Rows:
    return Rows(rows, keys, changes, columns=query.columns)


# fmt: off
CASES = (
    # Retracting: Flink's plans, the number of keys, then other calls.
    Case("plans", BASIC, _retract(BASIC, 2 * M, 100 * K), EVERY, quick=2 * M),
    Case("retract-100k", BASIC, _retract(BASIC, 8 * M, 100 * K), (PLAIN, MINI)),
    Case("retract-1m", BASIC, _retract(BASIC, 8 * M, M), (PLAIN, MINI)),
    Case("distinct", DISTINCT, _retract(DISTINCT, 2 * M, K), (MINI,)),
    Case("top", TOP, _retract(TOP, M, K, "top"), (MINI,)),
    Case("cascade", CASCADE, _retract(CASCADE, 2 * M, 100 * K), (MINI,), quick=M),
    # Append-only: the number of keys, their distribution and type, the number of calls.
    Case("append-1k", BASIC, _append(BASIC, 8 * M, K), (TWO,), own=OWNS),
    Case("append-100k", BASIC, _append(BASIC, 8 * M, 100 * K), (MINI,), own=OWNS, by_hand=10 * K, quick=2 * M),
    Case("append-1m", BASIC, _append(BASIC, 8 * M, M), (MINI,), own=(OWN, OWN_LOG)),
    Case("append-10m", BASIC, _append(BASIC, 10 * M, 10 * M), own=OWNS),
    Case("zipf", BASIC, _append(BASIC, 2 * M, M, zipf=True), (TWO,), own=OWNS),
    Case("strings", BASIC, _append(BASIC, 8 * M, 100 * K, strings=True), (MINI,), own=OWNS),
    Case("count", COUNT, _append(COUNT, 2 * M, 100 * K), (MINI,), own=OWNS),
    Case("mixed", MIXED, _append(MIXED, 8 * M, 100 * K), (MINI,), own=OWNS),
)
# fmt: on


def _other(
    name: str, query: Query, rows: Rows, flink: tuple[Setup, ...], own: tuple[str, ...] = ()
) -> Case:
    return Case(name, query, rows, flink, own, floor=False)


def _beside(rows: Rows, other: int, changes: str, keys: int) -> Rows:
    """The rows with a second table of so many."""
    return replace(rows, beside=Rows(other, keys, changes, columns=("u", "w"), seed=11))


# fmt: off
OPERATORS = (
    _other("top-10", TOP_TEN, _append(TOP_TEN, 4 * M, 100 * K), (PLAIN,)),
    _other("top-10-retract", TOP_TEN, _retract(TOP_TEN, 4 * M, 100 * K), (PLAIN,)),
    _other("top-10-update", BUSIEST, _append(BUSIEST, 4 * M, K), (PLAIN, MINI)),
    _other("first", FIRST, _append(FIRST, 4 * M, 100 * K), (PLAIN,)),
    _other("last", LAST, _append(LAST, 4 * M, M), (PLAIN, MINI)),
    _other("over", HUNDRED, _append(HUNDRED, 4 * M, 100 * K), (PLAIN,)),
    _other("join-key", LOOKED_UP, _beside(_append(LOOKED_UP, 2 * M, M), M, "once", M), (PLAIN, MINI), OWNS),
    _other("join-many", MANY, _beside(_append(MANY, M, M // 8), M, "append", M // 8), (PLAIN, MINI), OWNS),
    _other("join-left", LEFT, _beside(_retract(LEFT, 2 * M, M), M, "versions", M), (PLAIN, MINI)),
    _other("join-full", FULL, _beside(_retract(FULL, 2 * M, M), M, "versions", M), (PLAIN, MINI)),
)
# fmt: on
"""Ranks, deduplication, window functions and joins."""
NAMES = tuple(case.name for case in CASES)
LATENCY = Rows(M, 100 * K, files=1, tail=10)
LATENCY_RETRACT = replace(LATENCY, changes="retract")
STATE_KEYS = (M, 10 * M)


def cases(quick: bool, names: tuple[str, ...] = ()) -> list[Case]:
    """The cases of a run, or those that are named."""
    chosen = [case for case in CASES if (case.name in names if names else case.quick or not quick)]
    return [case.shorten() if quick and case.quick else case for case in chosen]
