"""The methods of a loaded handler, for hints and editors: each generated class has them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Protocol, runtime_checkable

Slots = Sequence[int] | None


@runtime_checkable
class Handler(Protocol):
    """A generated handler: create or set accumulators, then accumulate, retract, merge, then read the value.

    `al.load` gives its class. Rows are tuples of the columns that the handler reads, or record batches. A handler in
    windows takes the window as the first argument of setAccumulators, merge, getValue and cleanup.

    Example:
        >>> import aggloom as al
        >>> spec = al.AggSpec.from_sql("SELECT SUM(n) AS s FROM t", "n INT")
        >>> handler = al.load(al.generate(spec, backend="python"))()
        >>> handler.setAccumulators(handler.createAccumulators())
        >>> handler.accumulate((3,))
        >>> handler.accumulate((4,))
        >>> handler.retract((3,))
        >>> handler.getValue()
        (4,)
    """

    SPEC_JSON: ClassVar[str]
    BACKEND: ClassVar[str]
    SOURCE_PATH: ClassVar[str]
    DIGEST: ClassVar[str]

    @classmethod
    def spec(cls) -> Any:
        """Return the AggSpec that it was generated from."""

    def open(self) -> None:
        """Open users' functions before the first row; setAccumulators does it, too."""

    def close(self) -> None:
        """Close users' functions that nothing else in this process uses."""

    def createAccumulators(self, n: int = 1) -> Any:  # noqa: N802
        """Return `n` new accumulators."""

    def setAccumulators(self, *accumulators: Any, slots: Slots = None) -> None:  # noqa: N802
        """Work on accumulators.

        accumulators: the window, in windows, and the accumulators. slots: int64[rows], one for each row of the next
        batches.
        """

    def resetAccumulators(self) -> None:  # noqa: N802
        """Reset the current accumulators to their initial values."""

    def getAccumulators(self) -> Any:  # noqa: N802
        """Return the current accumulators."""

    def accumulate(self, rows: Any) -> None:
        """Add rows: a tuple or a batch.

        rows: the columns that the handler reads.
        """

    def retract(self, rows: Any) -> None:
        """Retract rows: a tuple or a batch.

        rows: the columns that the handler reads.
        """

    def merge(self, *other: Any) -> None:
        """Add other accumulators to the current ones; `other`: the window, in windows, and the accumulators."""

    def getValue(self, *namespace: Any) -> Any:  # noqa: N802
        """Return the results: a tuple, or a record batch with a row a slot; `namespace`: the window, in windows."""

    def cleanup(self, *namespace: Any) -> None:
        """Drop the current accumulators; `namespace`: the window, in windows."""
