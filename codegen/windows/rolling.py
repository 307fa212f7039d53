"""Rolling windows: for each key the last hour, the last day and the last week at once, over shared slices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aggloom.codegen.spec.durations import format_duration, milliseconds
from aggloom.codegen.windows.assigners import Aligned, check_length
from aggloom.errors import SpecError


@dataclass(frozen=True)
class Rolling(Aligned):
    """The last hour, day and week of each key, or other horizons, which move on by `step`.

    step: milliseconds, or text such as "5 minutes". horizons: lengths, each called as it is written, or lengths by
    name. on: the event-time column, None for processing time. offset: where steps start, after midnight of 1970 UTC.
    names: those of the horizons; they follow from `horizons`.

    A horizon holds the rows of so long before the last step that the watermark, or the clock, has passed. A result is
    replaced when rows come into a horizon or leave it, also without a new row, and is retracted when its key has no
    row left. A row that arrives late corrects the horizons that it is in.

    Example:
        >>> import aggloom as al
        >>> from datetime import datetime
        >>> spec = al.AggSpec.from_sql("SELECT COUNT(*) AS n FROM t", "ts TIMESTAMP_NTZ")
        >>> horizons = al.Rolling("1 minute", ["5 minutes", "1 hour"], on="ts")
        >>> with al.Harness(spec, window=horizons, watermarks={"t": ("ts", "0 s")}, backend="python") as harness:
        ...     harness.process([("+I", datetime(2026, 1, 1, 10, minute)) for minute in (0, 4, 8)])
        ...     print(harness.table())
        [('1 hour', 2), ('5 minutes', 1)]
    """

    step: Any
    horizons: Any
    on: str | None = None
    offset: Any = 0
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        step = check_length("step", self.step)
        names, lengths = _normalise_horizons(self.horizons, self.names)
        for name, length in zip(names, lengths, strict=True):
            # A horizon is made of whole slices, and a slice is a step long.
            if length % step:
                raise SpecError(
                    f"Rolling: the horizon {name} is no multiple of the step {format_duration(step)}; "
                    "take a step that divides every horizon."
                )
        values = {"step": step, "horizons": lengths, "names": names}
        # Offsets that differ by whole steps are the same slices, and must be the same data.
        values["offset"] = milliseconds("offset", self.offset) % step
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @property
    def slice_ms(self) -> int:
        return int(self.step)

    @property
    def size_ms(self) -> int:
        return int(max(self.horizons))

    @property
    def text(self) -> str:
        on = "processing time" if self.on is None else f"on=`{self.on}`"
        spans = zip(self.names, self.horizons, strict=True)
        # A name that says its length, as most do, is enough.
        texts = [
            name if _length(name) == ms else f"{name}={format_duration(ms)}" for name, ms in spans
        ]
        offset = f", offset={format_duration(self.offset)}" if self.offset else ""
        return f"ROLLING({on}, step={format_duration(self.step)}, horizons=[{', '.join(texts)}]{offset})"


def _normalise_horizons(
    horizons: Any, names: Sequence[str]
) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Horizons as names and milliseconds, in their order; raises SpecError unless each is there once."""
    # Names come from the mapping, from a normalised assigner that is copied, or from the lengths as they are written.
    if isinstance(horizons, Mapping):
        names, horizons = tuple(horizons), tuple(horizons.values())
    if isinstance(horizons, str) or not isinstance(horizons, Sequence) or not horizons:
        raise SpecError(
            f"Rolling: horizons is {horizons!r}; give lengths such as ['1 hour', '24 hours'], or lengths by name."
        )
    names = tuple(names) or tuple(map(_name, horizons))
    lengths = tuple(check_length("horizons", each) for each in horizons)
    if len(names) != len(lengths) or not all(isinstance(each, str) and each for each in names):
        raise SpecError(
            f"Rolling: the names of horizons are {names!r}; give each a text of its own."
        )
    for many, what in ((names, "name"), (lengths, "length")):
        if len(set(many)) < len(many):
            raise SpecError(f"Rolling: two horizons have one {what} in {many!r}; take one out.")
    return names, lengths


def _name(length: Any) -> str:
    return (
        length.strip()
        if isinstance(length, str)
        else format_duration(milliseconds("horizons", length))
    )


def _length(name: str) -> int | None:
    try:
        return milliseconds("name", name)
    except SpecError:
        return None
