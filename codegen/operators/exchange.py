"""Exchange: rows go to the bucket of their key."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from aggloom.codegen.operators.base import Key, Node, Pruner, Title, WindowColumns
from aggloom.codegen.operators.passing import Passing
from aggloom.codegen.operators.plan_text import shown_names


@dataclass(frozen=True)
class Exchange(Passing):
    """Rows (or accumulators) go to the bucket of their key; without keys to the only one.

    reuse: the number of what several inputs of a fragment read alike, so that it comes once; 0: it is read once.
    """

    input: Node
    keys: tuple[str, ...]
    reuse: int = 0

    @property
    def schema(self) -> pa.Schema:
        return self.input.schema

    @property
    def unique_keys(self) -> tuple[Key, ...]:
        return self.input.unique_keys

    @property
    def ordered_keys(self) -> tuple[Key, ...]:
        return self.input.ordered_keys

    @property
    def clock_columns(self) -> frozenset[str]:
        # Rows of several tasks mix here: the order of arrival is not that of a clock which was read before.
        return frozenset()

    @property
    def event_times(self) -> frozenset[str]:
        return self.input.event_times

    @property
    def window_columns(self) -> WindowColumns | None:
        return self.input.window_columns

    @property
    def distribution(self) -> Key:
        return self.keys

    @property
    def rows(self) -> Node:
        return self.input.rows

    @property
    def lineage(self) -> str:
        # The place of a row is no part of it: a state stays valid where an exchange is added or left out.
        return ""

    @property
    def title(self) -> Title:
        hashed = f"hash[{', '.join(shown_names(self.keys))}]"
        details = {"distribution": [hashed if self.keys else "single"]}
        return "Exchange", details | ({"reuse_id": [str(self.reuse)]} if self.reuse else {})

    def prune_columns(self, names: list[str], prune: Pruner) -> Node:
        return self.over(prune.input(self.input, names))
