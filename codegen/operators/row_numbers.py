"""Numbered: rows with their number in an order, before it is known which numbers are asked for.

It does not run: what stands over it says which numbers, and then it becomes a Deduplicate or a Rank.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pyarrow as pa

from aggloom.codegen.operators.base import KINDS, Key, Node, Pruner, Title, Trend
from aggloom.codegen.operators.plan_text import format_name, shown_names
from aggloom.codegen.sql.numbering import Function, SortItem
from aggloom.codegen.sql.numbering_range import Range


@dataclass(frozen=True)
class Numbered(Node):
    """Rows with one more column, `number`, BIGINT. place: where the query says so.

    adds_only: whether its rows are only added once their windows are known, which its input need not be yet.
    """

    input: Node
    function: Function
    partition: Key
    order: tuple[SortItem, ...]
    number: str
    place: tuple[int, int] | None = field(default=None, compare=False)
    adds_only: bool = False

    @property
    def schema(self) -> pa.Schema:
        return self.input.schema.append(pa.field(self.number, pa.int64(), nullable=True))

    @property
    def changelog(self) -> tuple[str, ...]:
        # It is not known yet what it becomes, so that everything is possible.
        return KINDS

    @property
    def is_complete(self) -> bool:
        return True

    @property
    def never_deletes(self) -> bool:
        return False

    @property
    def unique_keys(self) -> tuple[Key, ...]:
        own = ((*self.partition, self.number),) if self.function == "ROW_NUMBER" else ()
        return (*self.input.unique_keys, *own)

    @property
    def trends(self) -> dict[str, Trend]:
        # A row that arrives later may push any other row to another number.
        return {}

    @property
    def clock_columns(self) -> frozenset[str]:
        return self.input.clock_columns

    @property
    def distribution(self) -> None:
        return None

    @property
    def lineage(self) -> str:
        return f"numbered {self.function} {self.partition!r} {self.order!r} {self.number!r}"

    @property
    def title(self) -> Title:
        return "LogicalNumbering", {
            "function": [self.function],
            "partitionBy": shown_names(self.partition),
            "orderBy": shown_order(self.order),
        }

    def prune_columns(self, names: list[str], prune: Pruner) -> Node:
        # Columns are pruned once numberings have become operators that run.
        return self


def shown_order(order: tuple[SortItem, ...]) -> list[str]:
    """A sort key as Flink writes it: nulls are mentioned where they stand elsewhere than by default."""
    return [
        format_name(each.column)
        + (" DESC" if each.descending else " ASC")
        + {
            (False, False): " NULLS LAST",
            (True, True): " NULLS FIRST",
        }.get((each.descending, each.nulls_first), "")
        for each in order
    ]


Chosen = Callable[[Numbered, Range], Node | None]
"""The node that a numbering becomes once its range is known, with the same columns; None: another operator is asked."""
