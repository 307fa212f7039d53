"""Orphan retractions: retractions of rows that are not stored, and the policy for them.

"error" refuses them, "drop" counts them, "keep" stores each as a debt until its row arrives and pays it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np

from aggloom.errors import OrphanRetractionError
from aggloom.runtime.state.row_bag import RowBag
from aggloom.runtime.state.row_index import ORPHAN
from aggloom.runtime.state.row_kernels import Encoded
from aggloom.runtime.storage.arena import Array, FlagArray, NumberArray, SlotArray


class NamedSlots(Protocol):
    """The keys of a state, whose slots have names in messages."""

    def place(self, slot: int) -> str: ...


class OrphanLedger:
    """The orphan retractions of one input of an operator.

    debts: the bag of those that are kept; None: none are. policy: "error", "drop" or "keep". counters: the operator's,
    of which `orphans_dropped` is counted. source: the input's name in messages; "": it needs none.
    """

    def __init__(
        self,
        slots: NamedSlots,
        debts: RowBag | None,
        *,
        policy: str,
        counters: dict[str, int],
        source: str = "",
    ) -> None:
        self._slots, self._debts, self._policy = slots, debts, policy
        self._counters, self._source = counters, source

    @property
    def keeps(self) -> bool:
        """True if orphan retractions are kept as debts."""
        return self._debts is not None

    def cancel(
        self, slots: SlotArray, retracts: FlagArray, encode: Callable[[NumberArray], Encoded]
    ) -> Array:
        """Pay debts by insertions; return the places of the remaining changes (int64[m], rising).

        slots: int64[n], by change; retracts: bool[n]. encode: from places to the rows of these changes.
        """
        if self._debts is None or not len(self._debts):
            return np.arange(len(slots))
        news = np.flatnonzero(~retracts)
        applied = self._debts.apply_encoded(slots[news], encode(news), np.ones(len(news), np.bool_))
        self._debts.free(applied.gone[applied.gone >= 0])
        left = np.ones(len(slots), np.bool_)
        # An insertion that has paid a debt changes nothing else.
        left[news[applied.outcomes != ORPHAN]] = False
        return np.flatnonzero(left)

    def add(self, slots: SlotArray, rows: Encoded) -> None:
        """Store orphans as debts of their slots (int64[n])."""
        assert self._debts is not None
        self._debts.apply_encoded(slots, rows, np.zeros(len(slots), np.bool_))

    def report(self, numbers: NumberArray, slots: SlotArray) -> None:
        """Refuse or count orphans, as the policy says; numbers: of the rows in the bundle, int64[n].

        Raises OrphanRetractionError, about the first of them.
        """
        if self._policy == "error" and len(numbers):
            first = int(np.argmin(numbers))
            place = self._slots.place(int(slots[first]))
            raise orphan_error(int(numbers[first]), place, self._source)
        if self._policy == "drop":
            self._counters["orphans_dropped"] += len(numbers)


def orphan_error(
    row: int, place: str, source: str = "", lack: str = "does not hold it"
) -> OrphanRetractionError:
    """Return the error about a row of an input that retracts from a place where it is not.

    Example:
        >>> str(orphan_error(3, "key k=1", "left")).split(";")[0]
        'row 3 of the left retracts from key k=1, which does not hold it'
    """
    number = f"row {row} of the {source}" if source else f"row {row}"
    return OrphanRetractionError(
        f"{number} retracts from {place}, which {lack}; "
        "let on_orphan_retraction be 'drop' or 'keep' if the input may be out of order"
    )
