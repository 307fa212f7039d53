"""Corrections: of auctions and bids a tenth are updated or deleted some time after they came."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nexmark import rows

SHARE, DELETED, MOVED = 0.1, 0.3, 0.2
"""Share of rows that are corrected; of these, that are deleted; of the updates of bids, that have another bidder."""
_ORDER: Final = "order"


class Corrections:
    """Those that are still to come, by table; a correction comes at most a quarter of all events after its row."""

    def __init__(self, count: int, rate: int) -> None:
        self._count, self._rate = count, rate
        self._waiting: dict[str, pa.Table] = {}

    def weave_corrections(
        self, name: str, draw: rows.Draw, table: pa.Table, numbers: rows.Ints, end: int
    ) -> tuple[pa.Table, rows.Ints]:
        """A block's rows and the corrections that are due before event `end`, in order, with the column `op`."""
        coming = [_mark_rows(table, "+I", numbers, np.zeros(len(numbers), np.int64), numbers)]
        earlier = self._waiting.get(name)
        made = self._draw_corrections(name, draw, table, numbers)
        later = pa.concat_tables([made] if earlier is None else [earlier, made])
        due = pc.less(later["at"], end)
        self._waiting[name] = later.filter(pc.invert(due))
        whole = pa.concat_tables([*coming, later.filter(due)])
        order = np.lexsort([whole[key].to_numpy() for key in ("step", "number", "at")])
        columns = ["at", "number", "step"]
        return whole.take(pa.array(order)).drop_columns(columns), numbers

    def _draw_corrections(
        self, name: str, draw: rows.Draw, table: pa.Table, numbers: rows.Ints
    ) -> pa.Table:
        chosen = np.flatnonzero(draw.random(len(numbers)) < SHARE)
        before, number = table.take(pa.array(chosen)), numbers[chosen]
        reach = max(self._count // 4, 1)
        at = np.minimum(number + 1 + draw.integers(0, reach, len(chosen)), self._count - 1)
        gone = draw.random(len(chosen)) < DELETED
        after = (self._bids if name == "bid" else self._auctions)(draw, before)
        ones = np.ones(len(chosen), np.int64)
        kinds = np.where(gone, "-D", "-U")
        stays = pa.array(~gone)
        return pa.concat_tables(
            [
                _mark_rows(before, kinds, at, ones, number),
                _mark_rows(after, "+U", at, ones + 1, number).filter(stays),
            ]
        )

    def _bids(self, draw: rows.Draw, before: pa.Table) -> pa.Table:
        count = before.num_rows
        bidder = before["bidder"].to_numpy() + (draw.random(count) < MOVED)
        return _with(before, bidder=pa.array(bidder), price=pa.array(rows.prices(draw, count)))

    def _auctions(self, draw: rows.Draw, before: pa.Table) -> pa.Table:
        count = before.num_rows
        longer = pa.array(draw.integers(0, rows.lifetime(self._rate), count) * 1000)
        expires = pc.add(before["expires"], longer.cast(pa.duration("us")))
        return _with(before, expires=expires, category=pa.array(rows.categories(draw, count)))


def _mark_rows(
    table: pa.Table, kind: object, at: rows.Ints, step: rows.Ints, number: rows.Ints
) -> pa.Table:
    kinds = np.full(len(at), kind) if isinstance(kind, str) else kind
    marks = {"op": pa.array(kinds), "at": at, "step": step, "number": number}
    for name, values in marks.items():
        table = table.append_column(name, pa.array(values))
    return table


def _with(table: pa.Table, **columns: pa.Array) -> pa.Table:
    for name, values in columns.items():
        table = table.set_column(table.schema.get_field_index(name), name, values)
    return table
