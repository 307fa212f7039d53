"""Correlate: each row with the rows that a table function makes of it.

It stores nothing. A retracted row makes the same rows as when it was inserted, so that they are retracted, too.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import pyarrow as pa

from aggloom.codegen.operators.base import Key, Node, Pruner, Title, WindowColumns
from aggloom.codegen.operators.calc import pick
from aggloom.codegen.operators.passing import Extending
from aggloom.codegen.operators.plan_text import shown_names
from aggloom.codegen.operators.table_call import TableCall, UserRows


@dataclass(frozen=True)
class Correlate(Extending):
    """Rows joined with those that a table function makes of them; no two columns have the same name.

    outer: a row of which it makes none leaves once, with NULLs. columns: those that leave. nets_updates: of an update
    those rows alone leave that its two halves do not both make.
    """

    input: Node
    call: TableCall
    outer: bool
    columns: Key
    nets_updates: bool = False

    @cached_property
    def schema(self) -> pa.Schema:
        both = pa.schema([*self.input.schema, *self.call.answers])
        return pa.schema([both.field(name) for name in self.columns])

    @cached_property
    def changelog(self) -> tuple[str, ...]:
        # The new half of an update may make fewer rows than the old one: no row replaces another.
        return ("I",) if self.input.appends_only else ("I", "D")

    @property
    def is_complete(self) -> bool:
        return self.input.is_complete

    @property
    def never_null(self) -> frozenset[str]:
        # An outer row that nothing was made of has NULL instead of a number.
        return super().never_null | (frozenset() if self.outer else self._numbers)

    @cached_property
    def unique_keys(self) -> tuple[Key, ...]:
        return self._extend_keys(self.input.unique_keys)

    @cached_property
    def ordered_keys(self) -> tuple[Key, ...]:
        return self._extend_keys(self.input.ordered_keys)

    @property
    def non_negative(self) -> frozenset[str]:
        return super().non_negative | self._numbers

    @property
    def _numbers(self) -> frozenset[str]:
        """The column that numbers the rows of a row, if it leaves."""
        ordinality = self.call.ordinality
        return frozenset(self.columns) & ({ordinality[0]} if ordinality is not None else set())

    @property
    def window_columns(self) -> WindowColumns | None:
        below = self.input.window_columns
        if below is None or not {below.start, below.end} <= set(self.columns):
            return None
        return below if below.time in self.columns else below._replace(time=None)

    def within(self, names: Key) -> tuple[dict[str, str], ...] | str:
        if isinstance(self.call, UserRows):
            # The text of a checkpoint would have its source, which must not run from there.
            return f"{self.call.name}, a table function of your own, is between them"
        own = set(self.input.schema.names)
        return ({name: name for name in names if name in own},)

    @property
    def lineage(self) -> str:
        kind = "left" if self.outer else "inner"
        net = " net" * self.nets_updates
        return f"correlate {kind}{net} {self.call.lineage} {self.columns!r}"

    @property
    def title(self) -> Title:
        kind = "LEFT" if self.outer else "INNER"
        said = {"invocation": [self.call.text], "joinType": [kind]}
        return "Correlate", said | {"select": shown_names(self.columns)}

    @property
    def remark(self) -> str:
        if not isinstance(self.call, UserRows):
            return ""
        return f"{self.call.name}: a table function of your own, row by row in Python"

    def prune_columns(self, names: list[str], prune: Pruner) -> Node:
        columns = tuple(name for name in self.columns if name in names) or self._spare()
        read = {*columns, *self.call.arguments}
        needed_names = [name for name in self.input.schema.names if name in read]
        below = pick(prune.input(self.input, needed_names), needed_names)
        return replace(self, input=below, columns=columns)

    def _spare(self) -> Key:
        """A column to keep where only the number of rows matters: none that is the time of day."""
        plain = (name for name in self.columns if name not in self.clock_columns)
        return (next(plain, self.columns[0]),)

    def _extend_keys(self, below: tuple[Key, ...]) -> tuple[Key, ...]:
        """Keys of the rows below with what distinguishes the rows of one of them."""
        keys = dict.fromkeys((*key, *own) for key in below for own in self.call.keys)
        return tuple(key for key in keys if set(key) <= set(self.columns))
