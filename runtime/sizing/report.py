"""The report of an estimate, as data and as text."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass

from aggloom.display import html_text

_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")


@dataclass(frozen=True)
class PartEstimate:
    """A part of a state: keys, the entries of a view, texts, or results emitted; their number and their bytes."""

    name: str
    number: int
    bytes: int


@dataclass(frozen=True)
class OperatorEstimate:
    """The estimate of a node with state, by the number that explain gives it; bytes are None for Python objects.

    keys: of windows, `per` key and slice, session or window.
    """

    id: int
    node: str
    bounded_by: tuple[str, ...]
    per: str
    keys: int
    keys_in_sample: int
    bytes: int | None
    checkpoint_bytes: int
    buckets: int
    parts: tuple[PartEstimate, ...]

    @property
    def bytes_per_key(self) -> float | None:
        """Bytes in memory for a key, with all its entries and texts."""
        return None if self.bytes is None else self.bytes / max(1, self.keys)

    @property
    def bucket_bytes(self) -> int | None:
        """Bytes in memory of one bucket."""
        # Rounded up: the largest bucket decides how much memory a worker needs.
        return None if self.bytes is None else -(-self.bytes // self.buckets)


@dataclass(frozen=True)
class Estimate:
    """The estimates of a query's operators after `rows` rows; as text by str, as data by to_json."""

    rows: int
    sample_rows: int
    operators: tuple[OperatorEstimate, ...]

    @property
    def bytes(self) -> int:
        """Bytes in memory of all operators whose state is no Python objects."""
        return sum(each.bytes or 0 for each in self.operators)

    @property
    def checkpoint_bytes(self) -> int:
        """Bytes of the snapshots of all operators."""
        return sum(each.checkpoint_bytes for each in self.operators)

    @property
    def largest(self) -> OperatorEstimate | None:
        """The operator that takes most; None if none has state."""
        return max(self.operators, key=lambda each: each.bytes or 0, default=None)

    def to_json(self) -> str:
        """All of it as JSON."""
        return json.dumps(
            {
                "rows": self.rows,
                "sample_rows": self.sample_rows,
                "bytes": self.bytes,
                "checkpoint_bytes": self.checkpoint_bytes,
                "largest": None if self.largest is None else self.largest.id,
                "operators": [
                    {
                        **asdict(each),
                        "bytes_per_key": each.bytes_per_key,
                        "bucket_bytes": each.bucket_bytes,
                    }
                    for each in self.operators
                ],
            },
            indent=2,
        )

    def _repr_html_(self) -> str:
        return html_text(str(self))

    def __str__(self) -> str:
        lines = [f"state after {self.rows:,} rows, from a sample of {self.sample_rows:,}"]
        for each in self.operators:
            lines += _lines(each)
        whole = f"{_size(self.bytes)} in memory, {_size(self.checkpoint_bytes)} in a checkpoint"
        most = self.largest
        if most is None:
            return f"{lines[0]}\nnothing: no operator remembers anything"
        where = f", most of it in node[{most.id}]" if len(self.operators) > 1 else ""
        return "\n".join([*lines, f"in all {whole}{where}"])


def _lines(operator: OperatorEstimate) -> Iterator[str]:
    each = operator.bytes_per_key
    size = "Python objects" if each is None else f"{each:,.0f} bytes each"
    what = f"{operator.per}s".replace("key ", "keys ")
    yield (
        f"node[{operator.id}] {operator.node}: {operator.keys:,} {what} "
        f"({operator.keys_in_sample:,} in the sample), {size}"
    )
    for part in operator.parts:
        yield f"  {part.name:<32} {part.number:>15,} {_size(part.bytes):>10}"
    memory = ""
    if operator.bytes is not None and operator.bucket_bytes is not None:
        memory = f"{_size(operator.bytes)} in memory, {_size(operator.bucket_bytes)} in each of "
        memory += f"{operator.buckets} buckets; "
    yield f"  {memory}{_size(operator.checkpoint_bytes)} in a checkpoint"


def _size(number: float) -> str:
    """Bytes as people read them."""
    unit = 0
    # Not at 1000: 999.6 bytes would be rounded to 1,000 and not to 1.0 kB.
    while number >= 999.5 and unit < len(_UNITS) - 1:
        number, unit = number / 1000, unit + 1
    return f"{number:,.1f} {_UNITS[unit]}" if unit else f"{number:,.0f} {_UNITS[unit]}"
