"""What is measured: one table of cases, chosen so that each axis is seen to move alone, not their product."""

from __future__ import annotations

from dataclasses import dataclass, replace

from flink import Setup
from rows import Rows
from workloads import BASIC, CASCADE, COUNT, DISTINCT, MIXED, TOP, Query

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
    """How many rows the processor written by hand gets."""
    quick: int = 0
    """How many rows a quick run takes; 0: it leaves the case out."""

    def few(self) -> Case:
        """The same with few rows and keys, to warm up and to compare the results."""
        keys = min(self.rows.keys, FEW // 20)
        by_hand = min(self.by_hand, FEW)
        return replace(self, rows=replace(self.rows, rows=FEW, keys=keys), by_hand=by_hand)

    def shortened(self) -> Case:
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
NAMES = tuple(case.name for case in CASES)
LATENCY = Rows(M, 100 * K, files=1, tail=10)
LATENCY_RETRACT = replace(LATENCY, changes="retract")
STATE_KEYS = (M, 10 * M)


def cases(quick: bool, names: tuple[str, ...] = ()) -> list[Case]:
    """The cases of a run, or those that are named."""
    chosen = [case for case in CASES if (case.name in names if names else case.quick or not quick)]
    return [case.shortened() if quick and case.quick else case for case in chosen]
