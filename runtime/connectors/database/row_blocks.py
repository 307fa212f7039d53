"""Rows in blocks of VALUES: a statement for a thousand rows, each with its own parameters.

Deletions come first, then upserts, each in the order of keys. Where two queries write the same keys, the database may
end one of the transactions, which then begins again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from aggloom.errors import SinkError
from aggloom.runtime.connectors.database.statements import Statements
from aggloom.runtime.sinks.net import NetRows

_ROWS, _DELETIONS, _BYTES = 1000, 500, 1 << 20
"""Number of rows that a statement has at most, of keys that one deletes, and of bytes, about."""
_SPECIAL = "\0\n\r\x1a\"'\\"
"""The characters before which a driver writes one more."""
_VALUE_BYTES = 34
Values = tuple[Any, ...]


@dataclass(frozen=True)
class RowBlocks:
    """The statements of a batch. packet: the most bytes that the server takes in one."""

    say: Statements
    packet: int
    where: str

    def write(self, cursor: Any, net: NetRows) -> None:
        """Write the keys of a batch; raises SinkError for a row beyond the longest statement."""
        keys = net.rows.select(list(net.key))
        has_null = np.zeros(len(net.gone), np.bool_)
        for column in keys.columns:
            has_null |= column.is_null().to_numpy()
        for nulls in (False, True):
            # A key with NULL in it is no duplicate to the database: its row has to go before it is written.
            chosen = (has_null == nulls) & (net.gone | nulls | (not net.key))
            delete = partial(self.say.delete_rows, nulls=nulls)
            self._execute(cursor, delete, keys.filter(pa.array(chosen)), _DELETIONS)
        if not net.key and len(net.gone):
            cursor.execute(self.say.delete_all)
        self._execute(cursor, self.say.upsert_rows, net.rows.filter(pa.array(~net.gone)), _ROWS)

    def _execute(
        self, cursor: Any, statement: Callable[[int], str], rows: pa.Table, most: int
    ) -> None:
        """Execute a statement for each block of rows. most: the number of rows that one has at most."""
        fixed, count, size = len(statement(1)), 0, 0
        block: list[Any] = []
        # `_size` is an upper bound that costs no look at the characters. Only a row beyond the packet by it is
        # measured.
        for row in zip(*self._columns(rows), strict=True):
            own = fixed + sum(map(_size, row))
            if own > self.packet:
                self._check_packet(row, fixed)
            if count and (count == most or size + own > min(_BYTES, self.packet)):
                cursor.execute(statement(count), block)
                block, count, size = [], 0, 0
            block.extend(row)
            count, size = count + 1, size + own
        if count:
            cursor.execute(statement(count), block)

    def _columns(self, rows: pa.Table) -> Iterator[list[Any]]:
        """The values of each column as the driver takes them."""
        for field, column in zip(rows.schema, rows.columns, strict=True):
            make = self.say.dialect.value_of(field.type)
            values = column.to_pylist()
            yield values if make is None else [None if v is None else make(v) for v in values]

    def _check_packet(self, row: Values, fixed: int) -> None:
        """Raise SinkError for a row whose statement is longer than the server takes."""
        size = fixed
        for value in row:
            if isinstance(value, str):
                size += 8 + len(value.encode()) + sum(map(value.count, _SPECIAL))
            else:
                size += _size(value)
        if size > self.packet:
            raise SinkError(
                f"{self.where}: a row takes {size} bytes in a statement, and the server takes {self.packet} "
                "(max_allowed_packet). SET GLOBAL max_allowed_packet to more, or shorten it in the query. Nothing of "
                "the batch was written"
            )


def _size(value: Any) -> int:
    """The most bytes that a value takes in a statement."""
    if isinstance(value, str):
        return 8 + 4 * len(value)
    return 16 + 2 * len(value) if isinstance(value, bytes) else _VALUE_BYTES
