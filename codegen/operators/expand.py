"""Expand: each row once for each of several projections."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from aggloom.codegen.operators.base import Key, Node, Pruner, Title, Trend
from aggloom.codegen.operators.passing import Passing
from aggloom.codegen.operators.plan_text import format_name, shown_names


@dataclass(frozen=True)
class Column:
    """A column of the input, as it is."""

    name: str


@dataclass(frozen=True)
class Constant:
    """The same value in every row."""

    value: bool | int | None


@dataclass(frozen=True)
class Bucket:
    """INT: one of so many buckets, by the hash of some columns."""

    columns: tuple[str, ...]
    buckets: int


Item = Column | Constant | Bucket


@dataclass(frozen=True)
class Expand(Passing):
    """Each row once for each projection: grouping sets, and the sets of keys of a split aggregate."""

    input: Node
    projects: tuple[tuple[Item, ...], ...]
    columns: pa.Schema

    @property
    def schema(self) -> pa.Schema:
        return self.columns

    @property
    def unique_keys(self) -> tuple[Key, ...]:
        # Two copies of a row may agree in all columns but the set's number.
        return ()

    @cached_property
    def trends(self) -> dict[str, Trend]:
        trends: dict[str, Trend] = {}
        for place, name in enumerate(self.schema.names):
            trends_of_projects = {self._trend(project[place]) for project in self.projects}
            # Copies of one row go by different projections: a trend holds if it is that of all of them.
            if len(trends_of_projects) == 1 and None not in trends_of_projects:
                trends[name] = next(trend for trend in trends_of_projects if trend)
        return trends

    @cached_property
    def non_negative(self) -> frozenset[str]:
        below = self.input.non_negative
        columns = zip(*self.projects, strict=True)
        return frozenset(
            name
            for name, items in zip(self.schema.names, columns, strict=True)
            if all(isinstance(item, Column) and item.name in below for item in items)
        )

    @property
    def clock_columns(self) -> frozenset[str]:
        return frozenset()

    @property
    def distribution(self) -> None:
        return None

    @property
    def lineage(self) -> str:
        return f"expand {self.projects!r}"

    @property
    def title(self) -> Title:
        return "Expand", {"projects": [self._format_items(project) for project in self.projects]}

    def prune_columns(self, names: list[str], prune: Pruner) -> Node:
        # It stands between an aggregate and the columns that it reads: all of them are needed.
        return self.over(prune.input(self.input, list(self.input.schema.names)))

    def _trend(self, item: Item) -> Trend | None:
        if isinstance(item, Constant):
            return "constant"
        if isinstance(item, Bucket):
            # A hash has no direction: it stays only where its columns do.
            return "constant" if set(item.columns) <= self.input.constants else None
        return self.input.trends.get(item.name)

    def _format_items(self, project: tuple[Item, ...]) -> str:
        pairs = zip(project, self.schema.names, strict=True)
        return "{" + ", ".join(_shown_item(item, name) for item, name in pairs) + "}"


def _shown_item(item: Item, name: str) -> str:
    if isinstance(item, Column):
        return (
            format_name(name)
            if item.name == name
            else f"{format_name(item.name)} AS {format_name(name)}"
        )
    if isinstance(item, Bucket):
        text = f"MOD(HASH_CODE({', '.join(shown_names(item.columns))}), {item.buckets})"
    else:
        text = "null" if item.value is None else str(item.value).lower()
    return f"{text} AS {format_name(name)}"
