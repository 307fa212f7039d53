"""Base classes of nodes that derive their traits from those of their inputs."""

from __future__ import annotations

from aggloom.codegen.operators.base import Key, Node, Pruner, Trend, constant


class Passing(Node):
    """A node that neither adds nor removes rows: it has the traits of its input."""

    input: Node

    @property
    def changelog(self) -> tuple[str, ...]:
        return self.input.changelog

    @property
    def is_complete(self) -> bool:
        return self.input.is_complete

    @property
    def never_deletes(self) -> bool:
        return self.input.never_deletes

    @property
    def trends(self) -> dict[str, Trend]:
        return self.input.trends

    @property
    def non_negative(self) -> frozenset[str]:
        return self.input.non_negative & frozenset(self.schema.names)

    @property
    def distribution(self) -> Key | None:
        return self.input.distribution


class Extending(Node):
    """A node that adds columns to its input's rows; the traits of the input hold for the columns that it keeps."""

    input: Node
    columns: Key

    @property
    def never_deletes(self) -> bool:
        return self.appends_only

    @property
    def trends(self) -> dict[str, Trend]:
        # The rows of an update are deleted and inserted: there is no row that a trend could follow (decision 077).
        return constant(self.columns) if self.appends_only else {}

    @property
    def never_null(self) -> frozenset[str]:
        return self.input.never_null & frozenset(self.columns)

    @property
    def non_negative(self) -> frozenset[str]:
        return self.input.non_negative & frozenset(self.columns)

    @property
    def clock_columns(self) -> frozenset[str]:
        return self.input.clock_columns & frozenset(self.columns)

    @property
    def event_times(self) -> frozenset[str]:
        return self.input.event_times & frozenset(self.columns)

    @property
    def distribution(self) -> Key | None:
        # A row stays where it is.
        below = self.input.distribution
        return below if below is not None and set(below) <= set(self.columns) else None


class AccumulatorRows(Passing):
    """A node that emits accumulators, with the traits of the rows that they are made of."""

    @property
    def changelog(self) -> tuple[str, ...]:
        return ("I",)

    @property
    def unique_keys(self) -> tuple[Key, ...]:
        return ()

    @property
    def clock_columns(self) -> frozenset[str]:
        return frozenset()

    @property
    def distribution(self) -> None:
        return None

    def prune_columns(self, names: list[str], prune: Pruner) -> Node:
        return self
