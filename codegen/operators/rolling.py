"""Rolling horizons: rows with each horizon that they may be in, and aggregates over the horizons of a key."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import pyarrow as pa

from aggloom.codegen.operators.base import Key, Node, Pruner, Title, Trend, constant, sort_kinds
from aggloom.codegen.operators.calc import pick
from aggloom.codegen.operators.plan_text import shown_names
from aggloom.codegen.operators.window import WindowAggregate, WindowTable, shown_windows
from aggloom.codegen.spec.durations import format_duration
from aggloom.codegen.windows import Rolling

HORIZON = "horizon"
"""The column that says which horizon a row is in, as queries read it."""


@dataclass(frozen=True)
class RollingColumn:
    """A column of a wide result: a call over one horizon.

    name: the column. call: the name of the call's result in the spec. horizon: milliseconds.
    """

    name: str
    call: str
    horizon: int


@dataclass(frozen=True)
class RollingLayout:
    """The shape of a result: a row for each key and horizon, or one row for each key.

    horizon: the column with the name of the horizon, "" where a key has one row. columns: those of that one row.
    """

    horizon: str = HORIZON
    columns: tuple[RollingColumn, ...] = ()

    @property
    def text(self) -> str:
        """The columns besides the keys and, by horizon, the calls, in a line."""
        if self.horizon:
            return f"by {self.horizon}"
        return ", ".join(
            f"{c.name}={c.call} over {format_duration(c.horizon)}" for c in self.columns
        )


@dataclass(frozen=True)
class RollingTable(WindowTable):
    """Each row once for each horizon, whose name is the last column. Only an aggregate over it can run."""

    @property
    def schema(self) -> pa.Schema:
        return self.input.schema.append(pa.field(HORIZON, pa.string()))

    @property
    def roles(self) -> dict[str, str]:
        return {HORIZON: "horizon"}

    @property
    def unique_keys(self) -> tuple[Key, ...]:
        # A row is in several horizons at a time.
        return tuple((*key, HORIZON) for key in self.input.unique_keys)

    @property
    def clock_columns(self) -> frozenset[str]:
        return self.input.clock_columns

    @property
    def event_times(self) -> frozenset[str]:
        return self.input.event_times

    @property
    def window_columns(self) -> None:
        return None


@dataclass(frozen=True)
class RollingAggregate(WindowAggregate):
    """GROUP BY over rolling horizons; its results are replaced as time passes.

    columns out: the keys, then by the layout the horizon and the calls, or the calls over their horizons.
    """

    layout: RollingLayout = RollingLayout()

    @property
    def schema(self) -> pa.Schema:
        return rolling_schema(self.spec.aggregate_schema, len(self.keys), self.layout)

    @cached_property
    def changelog(self) -> tuple[str, ...]:
        return sort_kinds({"I", "UA", "D"} | ({"UB"} if self.update_before else set()))

    @cached_property
    def never_deletes(self) -> bool:
        # A key without rows in a horizon loses its row, even where the input only adds rows.
        return False

    @property
    def unique_keys(self) -> tuple[Key, ...]:
        horizon = self.layout.horizon
        return ((*self.keys, horizon) if horizon else self.keys,)

    @property
    def trends(self) -> dict[str, Trend]:
        return constant(self.unique_keys[0])

    @property
    def clock_columns(self) -> frozenset[str]:
        return frozenset()

    @property
    def event_times(self) -> frozenset[str]:
        # Results change with the watermark, long after the times of their rows.
        return frozenset()

    @property
    def shows_last_watermark(self) -> bool:
        return self.awaits_watermark

    @property
    def window_columns(self) -> None:
        return None

    @property
    def lineage(self) -> str:
        return f"{super().lineage} {self.layout!r}"

    @property
    def title(self) -> Title:
        calls = {each.call for each in self.layout.columns}
        names = [*self.keys, *([self.layout.horizon] if self.layout.horizon else [])]
        details = shown_windows(self.spec, self.windowing, names)
        if calls:
            assigner = self.windowing.assigner
            assert isinstance(assigner, Rolling)
            called = dict(zip(assigner.horizons, assigner.names, strict=True))
            shown_as = (text.rpartition(" AS ")[0] for text in details["select"][len(names) :])
            texts = dict(zip(self._call_names, shown_as, strict=True))
            columns = [
                f"{texts[c.call]} over {called[c.horizon]} AS {c.name}" for c in self.layout.columns
            ]
            details["select"] = [*shown_names(names), *columns]
        return "Global" * self.merges + "RollingAggregate", details

    @property
    def state_description(self) -> dict[str, Any]:
        # Without the layout a state could be read with other columns than it was written with.
        # These columns identify the emitted rows: a state belongs to them, as it does to its windows.
        return super().state_description | {"windows": f"{self._windows}, {self.layout.text}"}

    @property
    def name(self) -> str:
        return super().name.replace("in windows", "over rolling horizons")

    def prune_columns(self, names: list[str], prune: Pruner) -> Node:
        # A row a horizon: the calls are columns as they are.
        if self.layout.horizon:
            return super().prune_columns(names, prune)
        columns = tuple(each for each in self.layout.columns if each.name in names)
        # A call stays if one of its horizons is read.
        read = [
            call.output_name
            for call in self.spec.calls
            if any(call.output_name == c.call for c in columns)
        ]
        pruned = super().prune_columns([*self.keys, *read], prune)
        assert isinstance(pruned, RollingAggregate)
        aggregate = replace(pruned, layout=replace(self.layout, columns=columns))
        return pick(aggregate, [*self.keys, *(each.name for each in columns)])

    @property
    def _call_names(self) -> list[str]:
        return [call.output_name for call in self.spec.calls]


def rolling_schema(aggregate: pa.Schema, keys: int, layout: RollingLayout) -> pa.Schema:
    """The columns of a result; aggregate: the keys, the slice and the calls of its spec. keys: how many there are."""
    fields = list(aggregate)
    if layout.horizon:
        return pa.schema(
            [*fields[:keys], pa.field(layout.horizon, pa.string()), *fields[keys + 1 :]]
        )
    columns = [aggregate.field(each.call).with_name(each.name) for each in layout.columns]
    return pa.schema([*fields[:keys], *columns])
