"""Union: the rows of several inputs, one table after the other."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import pyarrow as pa

from aggloom.codegen.operators.base import Key, Node, Pruner, Title, Trend, sort_kinds
from aggloom.codegen.operators.calc import NO_TIME, Calc, pick
from aggloom.codegen.operators.plan_text import shown_names


@dataclass(frozen=True)
class Union(Node):
    """UNION ALL: the rows of several inputs with the same columns."""

    parts: tuple[Node, ...]

    @property
    def inputs(self) -> tuple[Node, ...]:
        return self.parts

    def over(self, *inputs: Node) -> Node:
        return replace(self, parts=inputs)

    @property
    def schema(self) -> pa.Schema:
        return self.parts[0].schema

    @cached_property
    def changelog(self) -> tuple[str, ...]:
        return sort_kinds({kind for part in self.parts for kind in part.changelog})

    @cached_property
    def is_complete(self) -> bool:
        return all(part.is_complete for part in self.parts)

    @cached_property
    def never_deletes(self) -> bool:
        return all(part.never_deletes for part in self.parts)

    @property
    def unique_keys(self) -> tuple[Key, ...]:
        # Two parts may have rows with one key.
        return ()

    @cached_property
    def event_times(self) -> frozenset[str]:
        # Columns of a union are matched by their places: a part may call them otherwise.
        parts = [part.event_times for part in self.parts]
        columns = zip(*(part.schema.names for part in self.parts), strict=True)
        return frozenset(
            name
            for name, own in zip(self.schema.names, columns, strict=True)
            if all(one in times for one, times in zip(own, parts, strict=True))
        )

    @cached_property
    def trends(self) -> dict[str, Trend]:
        parts = [part.trends for part in self.parts]
        columns = zip(*(part.schema.names for part in self.parts), strict=True)
        trends: dict[str, Trend] = {}
        for name, names in zip(self.schema.names, columns, strict=True):
            # A row stays in its part, so that a column which is constant in one follows the trend of the others.
            trends_of_parts = {part.get(own) for part, own in zip(parts, names, strict=True)} - {
                "constant"
            }
            if not trends_of_parts:
                trends[name] = "constant"
            elif len(trends_of_parts) == 1 and None not in trends_of_parts:
                trends[name] = next(trend for trend in trends_of_parts if trend)
        return trends

    @cached_property
    def non_negative(self) -> frozenset[str]:
        names = [part.schema.names for part in self.parts]
        return frozenset(
            name
            for name, *own in zip(self.schema.names, *names, strict=True)
            if all(each in part.non_negative for part, each in zip(self.parts, own, strict=True))
        )

    @cached_property
    def clock_columns(self) -> frozenset[str]:
        places = [
            {part.schema.names.index(name) for name in part.clock_columns} for part in self.parts
        ]
        return frozenset(self.schema.names[place] for place in set.intersection(*places))

    @cached_property
    def distribution(self) -> Key | None:
        # Rows of two parts lie together only if both are distributed by the same columns.
        distributions = {self._rename_columns(part, part.distribution) for part in self.parts}
        return distributions.pop() if len(distributions) == 1 else None

    def within(self, names: Key) -> tuple[dict[str, str], ...] | str:
        places = [self.schema.names.index(name) for name in names]
        columns = ([part.schema.names[place] for place in places] for part in self.parts)
        return tuple(dict(zip(names, own, strict=True)) for own in columns)

    @property
    def lineage(self) -> str:
        # How many inputs there are distinguishes unions of other shapes.
        return f"union {len(self.parts)}"

    @property
    def title(self) -> Title:
        return "Union", {"all": ["true"], "union": shown_names(self.schema.names)}

    def prune_columns(self, names: list[str], prune: Pruner) -> Node:
        every = list(self.schema.names)
        chosen = [name for name in every if name in names]
        # Only the number of rows matters, and a row needs a column. A time of day would differ between row and
        # retraction.
        if not chosen:
            chosen = [name for name in every if name not in self.clock_columns][:1]
        # All columns are times of day: a NULL takes their place.
        if not chosen:
            field = pa.schema([self.schema.field(0)])
            select = ((every[0], NO_TIME),)
            return Union(tuple(Calc(prune.input(part, []), select, field) for part in self.parts))
        parts = []
        for part in self.parts:
            own = [part.schema.names[every.index(name)] for name in chosen]
            parts.append(pick(prune.input(part, own), own))
        return Union(tuple(parts))

    def without_before(self) -> Node:
        return self.over(*(part.without_before() for part in self.parts))

    def _rename_columns(self, part: Node, columns: Key | None) -> Key | None:
        """A part's columns under the names that they have here."""
        if columns is None:
            return None
        return tuple(self.schema.names[part.schema.names.index(name)] for name in columns)


def below_unions(node: Node) -> Node:
    """Calcs over a union as a union of Calcs, so that each part goes its own way."""
    # A Calc treats each row alone, so that it gives the same below a union.
    if not isinstance(node, Calc):
        return node
    below = below_unions(node.input)
    if isinstance(below, Union):
        return Union(tuple(node.over(part) for part in below.parts))
    return node.over(below)


def union_parts(node: Node) -> list[Node]:
    """The parts of a union, and of unions in it, so that each has a side of its own."""
    node = below_unions(node)
    return (
        [p for part in node.parts for p in union_parts(part)] if isinstance(node, Union) else [node]
    )
