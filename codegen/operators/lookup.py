"""Lookup join: rows that query a table when they arrive.

If no row is ever retracted, a row is joined and forgotten (LookupJoin, a step). Otherwise the answers of a row are
stored with it (MaterialisedLookup). The table is queried below the exchange (Lookup), so that the log of the state
contains the answers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import pyarrow as pa

from aggloom.codegen.operators.base import Key, Node, Pruner, Title
from aggloom.codegen.operators.calc import pick
from aggloom.codegen.operators.exchange import Exchange
from aggloom.codegen.operators.lookup_question import LookupQuestion
from aggloom.codegen.operators.lookup_state import Lookup, MaterialisedLookup
from aggloom.codegen.operators.passing import Extending
from aggloom.errors import UnsupportedSqlError

KEY_COLUMNS = 64
"""Number of columns that a key of a state has at most."""


@dataclass(frozen=True)
class LookupJoin(Extending):
    """Rows with the answers to them; no two columns have the same name. columns: those that leave."""

    input: Node
    question: LookupQuestion
    columns: Key

    @cached_property
    def schema(self) -> pa.Schema:
        both = self.both
        return pa.schema([both.field(name) for name in self.columns])

    @cached_property
    def both(self) -> pa.Schema:
        """The columns of a row and of an answer."""
        return pa.schema([*self.input.schema, *self.question.answers])

    @cached_property
    def changelog(self) -> tuple[str, ...]:
        if self.input.appends_only:
            return ("I",)
        return ("I", "UB", "UA", "D") if self.unique_keys else ("I", "D")

    @property
    def asks_elsewhere(self) -> bool:
        return True

    @property
    def is_complete(self) -> bool:
        return True

    @cached_property
    def unique_keys(self) -> tuple[Key, ...]:
        # The key of the input, with that of the table where a row may meet several of its rows.
        return self._joined_keys(self.input.unique_keys)

    @cached_property
    def ordered_keys(self) -> tuple[Key, ...]:
        return self._joined_keys(self.input.ordered_keys)

    @property
    def lineage(self) -> str:
        return f"{self.question.lineage} {self.columns!r}"

    @property
    def title(self) -> Title:
        return "LookupJoin", self.question.words(self.columns)

    @property
    def remark(self) -> str:
        memory = "each row is looked up when it arrives; no row is stored, since none is retracted"
        return f"table {self.question.name}: {self.question.table.label}; {memory}"

    def prune_columns(self, names: list[str], prune: Pruner) -> Node:
        columns = tuple(name for name in self.columns if name in names) or self.columns[:1]
        question = self.question.prune_columns(set(columns))
        own = self.input
        # The key of the input is kept even if nobody reads it: by it a retraction finds its row and answers.
        known = own.unique_key if not own.appends_only else None
        read = {*columns, *question.columns_read, *(known or ())}
        needed_names = [name for name in own.schema.names if name in read]
        return replace(
            self,
            input=pick(prune.input(own, needed_names), needed_names),
            question=question,
            columns=columns,
        )

    def insert_exchange(self) -> Node:
        # Nothing is retracted: rows are answered and forgotten (decision 040).
        if self.input.appends_only:
            return self
        # Only by an ordered key may a row take the place of the one before (decision 034).
        known = next(iter(sorted(self.input.ordered_keys, key=len)), None)
        key = tuple(self.input.schema.names) if known is None else known
        # A key index has a bit for each column, which says that it is NULL.
        if len(key) > KEY_COLUMNS:
            raise UnsupportedSqlError(
                f"a lookup join over changes with {len(key)} columns and no key is not supported: more than "
                f"{KEY_COLUMNS} would tell rows apart. Say what is unique: keys={{'t': ['id']}}."
            )
        # The key stands first, as operators that store rows by key expect.
        stored = tuple(n for n in self.input.schema.names if n in {*key, *self.columns})
        order = (*key, *(name for name in stored if name not in key))
        below = Lookup(self.input, self.question, order, self.columns)
        return MaterialisedLookup(
            Exchange(below, key),
            self.question,
            key,
            self.columns,
            known is not None,
            self.unique_keys,
        )

    def _joined_keys(self, below: tuple[Key, ...]) -> tuple[Key, ...]:
        """Keys of the rows below as keys of the joined rows."""
        own = {name: known for known, name in self.question.names}
        more: Key = ()
        # The table's key distinguishes the result rows of one input row, as far as the result has it.
        if not self.question.meets_one:
            table = self.question.table.key
            if not table or not set(table) <= set(own):
                return ()
            more = tuple(own[name] for name in table)
        there = set(self.columns)
        keys = dict.fromkeys((*key, *more) for key in below)
        return tuple(key for key in keys if set(key) <= there)
