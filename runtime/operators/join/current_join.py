"""The operator of a CurrentJoin: a Join whose rows of the left are forgotten with the bundle that they arrived in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self

from aggloom.codegen.planner import Join, PlanOptions
from aggloom.runtime.operators.join.operator import JoinOperator
from aggloom.runtime.operators.join.per_record import EncodedChanges
from aggloom.runtime.operators.join.spec import JoinSpec
from aggloom.runtime.operators.steps import Rows, no_rows
from aggloom.runtime.storage.arena import Array


class CurrentJoinOperator(JoinOperator):
    """One bucket's operator over added rows of the left and changes of the right, which count first."""

    def contents(self) -> Rows:
        """No row: what was emitted is not kept."""
        return no_rows(self.schema)

    def _apply_bundle(
        self, changes_by_side: Sequence[EncodedChanges], touched: Array, now: int
    ) -> Rows:
        # The left is empty before: its rows meet the right as it is after the bundle, and changes of that meet none.
        changes = super()._apply_bundle(changes_by_side, touched, now)
        self.state.sides[0].bag.empty(touched)
        return changes


@dataclass(frozen=True, kw_only=True)
class CurrentJoinSpec(JoinSpec):
    """The description that a CurrentJoin is made from, as a checkpoint holds it."""

    kind: ClassVar[str] = "current_join"

    @classmethod
    def of(cls, node: Join, options: PlanOptions, zone: str = "UTC") -> Self:
        # A row of the left leaves once, whatever ends a bundle.
        return replace(
            super().of(node, options, zone), per_record=False, ttls=(0, options.state_ttl)
        )

    def make(
        self, handler_class: Any, bucket: int = 0, directory: Path | None = None
    ) -> CurrentJoinOperator:
        return CurrentJoinOperator(self, directory)
