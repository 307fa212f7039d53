"""The sinks `print`, each change as a line in Flink's form, and `blackhole`, which takes all and keeps nothing."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pyarrow as pa

from aggloom.display import text_of
from aggloom.runtime.connectors.printing.options import PrintOptions
from aggloom.runtime.values.changelog import KIND_NAMES

if TYPE_CHECKING:
    from aggloom.runtime.values.changelog import Kinds


class PrintSink:
    """Prints each change. A batch that was killed before its commit is printed once more."""

    def __init__(self, options: PrintOptions) -> None:
        self._begin = f"{options.identifier}> " if options.identifier else ""
        self._is_error = options.standard_error

    def write(
        self, rows: pa.Table, kinds: Kinds, batch: int, checkpoint: str, before: int | None = None
    ) -> bool:
        """Print the changes of a batch, such as `+I[1, a]`."""
        # The stream of this moment, which a test or a notebook may have put in place of another.
        out = sys.stderr if self._is_error else sys.stdout
        for kind, row in zip(kinds, rows.to_pylist(), strict=True):
            values = ", ".join(map(text_of, row.values()))
            print(f"{self._begin}{KIND_NAMES[kind]}[{values}]", file=out)
        return True


class BlackholeSink:
    """Takes each batch and keeps nothing."""

    def write(
        self, rows: pa.Table, kinds: Kinds, batch: int, checkpoint: str, before: int | None = None
    ) -> bool:
        """Take a batch."""
        return True
