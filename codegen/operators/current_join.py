"""CurrentJoin: each row of the left, when it comes, with the rows of the right that are there; nothing is corrected."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from aggloom.codegen.operators.base import Key, Title
from aggloom.codegen.operators.join import FLINK_KINDS, Join
from aggloom.codegen.operators.plan_text import one_line, shown_names


@dataclass(frozen=True)
class CurrentJoin(Join):
    """A Join, inner or left, of rows that are only added with a table as it is after the changes of their batch.

    Rows of the left leave with their batch, so that those of the right alone are remembered.
    """

    @property
    def keeps_rows(self) -> bool:
        return False

    @property
    def stored_sides(self) -> tuple[int, ...]:
        return (1,)

    @property
    def follows_batches(self) -> bool:
        # A row meets the right as it is after its batch: other cuts give other rows (decision 108).
        return True

    @property
    def name(self) -> str:
        return f"CURRENT {super().name}"

    @cached_property
    def left_key(self) -> None:
        # Rows of the left are forgotten with the bundle: nothing has to find one of them again.
        return None

    @property
    def changelog(self) -> tuple[str, ...]:
        return ("I",)

    @cached_property
    def unique_keys(self) -> tuple[Key, ...]:
        # Several rows of the right may match: the left's key is then no key of the joined rows.
        if not any(set(key) <= set(self.right_keys) for key in self.right.unique_keys):
            return ()
        return tuple(key for key in self.left.unique_keys if set(key) <= set(self.columns))

    @property
    def ordered_keys(self) -> tuple[Key, ...]:
        return self.unique_keys

    @property
    def clock_columns(self) -> frozenset[str]:
        # Rows leave in the batch in which they arrive, so that the left's times stay what they are.
        return self.left.clock_columns & frozenset(self.columns)

    @property
    def event_times(self) -> frozenset[str]:
        return self.left.event_times & frozenset(self.columns)

    @cached_property
    def lineage(self) -> str:
        return f"current {super().lineage}"

    @property
    def title(self) -> Title:
        where = [self.equalities] if self.pairs else []
        where += [] if self.condition is None else [one_line(self.condition)]
        return "TemporalJoin", {
            "joinType": [FLINK_KINDS[self.kind]],
            "where": [" AND ".join(where) or "true"],
            "asOf": ["the batch"],
            "select": shown_names(self.columns),
            "rightInputSpec": [self.input_spec(1)],
        }
