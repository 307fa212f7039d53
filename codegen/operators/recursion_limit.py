"""RecursionLimit: the rows of a recursive query, which fails where its last step found more."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from aggloom.codegen.operators.base import Key, Node, Pruner, Title, Trend
from aggloom.codegen.operators.passing import Passing
from aggloom.codegen.operators.plan_text import format_name


@dataclass(frozen=True)
class RecursionLimit(Passing):
    """The rows that a recursive query reaches within a number of steps.

    flag: the last column of the input, BOOLEAN, which is false in a row that takes a step more; such a row fails the
    query, so that a result never lacks rows without a word. limit: the number of steps. name: that of the query.
    """

    input: Node
    flag: str
    limit: int
    name: str

    @property
    def schema(self) -> pa.Schema:
        return pa.schema(list(self.input.schema)[:-1])

    @property
    def unique_keys(self) -> tuple[Key, ...]:
        return self._without_flag(self.input.unique_keys)

    @property
    def ordered_keys(self) -> tuple[Key, ...]:
        return self._without_flag(self.input.ordered_keys)

    @property
    def trends(self) -> dict[str, Trend]:
        return {name: trend for name, trend in self.input.trends.items() if name != self.flag}

    @property
    def never_null(self) -> frozenset[str]:
        return self.input.never_null - {self.flag}

    @property
    def clock_columns(self) -> frozenset[str]:
        return self.input.clock_columns - {self.flag}

    @property
    def event_times(self) -> frozenset[str]:
        return self.input.event_times - {self.flag}

    def within(self, names: Key) -> tuple[dict[str, str], ...]:
        # It has no state, so that operators above and below may share a stateful node (decision 107).
        return ({name: name for name in names},)

    @property
    def lineage(self) -> str:
        return f"recursion limit {self.limit}"

    @property
    def title(self) -> Title:
        return "RecursionLimit", {"query": [format_name(self.name)], "limit": [str(self.limit)]}

    def prune_columns(self, names: list[str], prune: Pruner) -> Node:
        every = self.schema.names
        # Where only the number of rows matters, a column has to be left once the flag is gone.
        chosen = [name for name in every if name in names] or every[:1]
        return self.over(prune.input(self.input, [*chosen, self.flag]))

    def without_before(self) -> Node:
        return self.over(self.input.without_before())

    def _without_flag(self, keys: tuple[Key, ...]) -> tuple[Key, ...]:
        return tuple(key for key in keys if self.flag not in key)
