"""What a Rank is made from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

import pyarrow as pa

from aggloom.codegen import AggSpec, parse_type, type_name
from aggloom.codegen.planner import PlanOptions
from aggloom.errors import SpecError
from aggloom.runtime.operators.base import OperatorSpec, TimeMode
from aggloom.runtime.operators.rank.operator import RankOperator
from aggloom.runtime.operators.rank.windowed import WindowRankOperator
from aggloom.runtime.state.sort_key import SortColumn

_CHANGING = ("update_before", "per_record", "state_ttl_ms", "on_orphan_retraction", "number")


@dataclass(frozen=True)
class RankSpec(OperatorSpec):
    """What a Rank is made from; columns by number.

    keys: how many of the first columns are the key. first, end: the range of numbers, or end_column, the column that
    says the end in the first row of a key. unique: the columns by which a row is replaced, in the strategy update;
    identity: those by which a row is known to the reader. number: the name of the number's column, if it is read.
    window: the key column that is the end of the row's window, on the clocks of `zone` if it is a wall clock.
    """

    kind: ClassVar[str] = "rank"
    schema: pa.Schema
    keys: int
    function: Literal["ROW_NUMBER", "RANK", "DENSE_RANK"]
    sort: tuple[SortColumn, ...]
    strategy: Literal["append", "update", "retract"]
    first: int = 1
    end: int | None = None
    end_column: int | None = None
    unique: tuple[int, ...] = ()
    identity: tuple[int, ...] = ()
    number: str | None = None
    update_before: bool = True
    per_record: bool = False
    state_ttl_ms: int = 0
    on_orphan_retraction: Literal["drop", "error", "keep"] = "drop"
    window: int | None = None
    zone: str = "UTC"

    @classmethod
    def of(cls, node: Any, options: PlanOptions) -> RankSpec:
        schema = node.input.schema
        names = schema.names
        known = next(iter(node.input.unique_keys), ())
        end = node.asked.end_column
        return cls(
            schema,
            len(node.partition),
            node.function,
            tuple(
                SortColumn(names.index(each.column), each.descending, each.nulls_first)
                for each in node.order
            ),
            node.strategy,
            node.asked.start,
            node.asked.end,
            None if end is None else names.index(end),
            tuple(names.index(name) for name in node.row_key),
            tuple(names.index(name) for name in node.row_key or known),
            node.number,
            node.update_before,
            not options.mini_batch_enabled,
            options.state_ttl,
            options.on_orphan_retraction,
            None if node.window is None else names.index(node.window),
            node.zone,
        )

    def make(
        self, handler_class: Any, bucket: int = 0, directory: Path | None = None
    ) -> RankOperator:
        if self.window is not None:
            return WindowRankOperator(self, directory)
        return RankOperator(self, directory)

    @property
    def result(self) -> pa.Schema:
        """The columns of its changes."""
        if self.number is None:
            return self.schema
        return self.schema.append(pa.field(self.number, pa.int64()))

    @property
    def one_row(self) -> bool:
        """Whether a key has one row at most."""
        return self.function == "ROW_NUMBER" and self.end is not None and self.first >= self.end

    @property
    def is_empty(self) -> bool:
        """Whether no row has a number in the range."""
        return self.end_column is None and (self.end or 0) < self.first

    def to_data(self) -> dict[str, Any]:
        return {
            "columns": [[field.name, type_name(field.type)] for field in self.schema],
            "keys": self.keys,
            "function": self.function,
            "sort": [[each.column, each.descending, each.nulls_first] for each in self.sort],
            "strategy": self.strategy,
            "first": self.first,
            "end": self.end,
            "end_column": self.end_column,
            "unique": list(self.unique),
            "identity": list(self.identity),
            "window": self.window,
            "zone": self.zone,
            **{name: getattr(self, name) for name in _CHANGING},
        }

    @classmethod
    def from_data(cls, data: Mapping[str, Any], spec: AggSpec) -> RankSpec:
        given = dict(data)
        try:
            columns = given.pop("columns")
            schema = pa.schema([(name, parse_type(text)) for name, text in columns])
            given["sort"] = tuple(SortColumn(*each) for each in given["sort"])
            for name in ("unique", "identity"):
                given[name] = tuple(given[name])
            return cls(schema, **given)
        except (KeyError, TypeError, ValueError) as error:
            raise SpecError(f"rank: settings that cannot be read: {error!r}.") from None

    def resettled(self, data: Mapping[str, Any]) -> RankSpec:
        return replace(self, **{name: data[name] for name in _CHANGING})

    @property
    def rows(self) -> pa.Schema:
        return self.schema

    @property
    def ttl_ms(self) -> int:
        # A window goes when it is over.
        return self.state_ttl_ms if self.window is None else 0

    @property
    def time_mode(self) -> TimeMode:
        if self.window is not None:
            return "EventTime"
        return "ProcessingTime" if self.state_ttl_ms else "None"

    @property
    def moves_last(self) -> bool:
        return self.window is not None
