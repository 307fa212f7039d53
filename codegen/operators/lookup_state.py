"""Lookup joins over changes: rows query the table below the exchange, and their answers are stored above it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import pyarrow as pa

from aggloom.codegen.operators.base import Key, Node, Pruner, Title, Trend, mark
from aggloom.codegen.operators.footprint import WORD, index_bytes
from aggloom.codegen.operators.lookup_question import LookupQuestion
from aggloom.codegen.operators.passing import Passing
from aggloom.codegen.operators.rows_by_key import KeyedRowsNode, holds_texts, row_entries
from aggloom.codegen.spec.choices import Changes

# Beside its words a row has: its arrival, whether it found nothing, links to its neighbours, a count, its slot, a cell.
_ROW = 2 * WORD + 12 + 4 + 12


@dataclass(frozen=True)
class Lookup(Passing):
    """The rows, each with the list of its answers after its columns; retractions have no answers.

    order: the input's columns that leave. answer_columns: those of the joined rows that are read of an answer.
    """

    input: Node
    question: LookupQuestion
    order: Key
    answer_columns: Key

    @cached_property
    def answer(self) -> pa.Schema:
        """The columns of an answer."""
        return pa.schema(
            [field for field in self.question.answers if field.name in self.answer_columns]
        )

    @cached_property
    def schema(self) -> pa.Schema:
        fields = [self.input.schema.field(name) for name in self.order]
        # A list of nothing still has a length.
        answer = list(self.answer) or [pa.field("found", pa.bool_())]
        name = mark(self.input.schema, self.question.answers) + "answers"
        return pa.schema([*fields, pa.field(name, pa.list_(pa.struct(answer)))])

    @property
    def unique_keys(self) -> tuple[Key, ...]:
        return tuple(k for k in self.input.unique_keys if set(k) <= set(self.order))

    @property
    def ordered_keys(self) -> tuple[Key, ...]:
        return tuple(k for k in self.input.ordered_keys if set(k) <= set(self.order))

    @property
    def trends(self) -> dict[str, Trend]:
        # The list of answers may change with each row; nothing is said of the rest either, as nobody above asks.
        return {}

    @property
    def clock_columns(self) -> frozenset[str]:
        return frozenset()

    @property
    def distribution(self) -> None:
        return None

    @property
    def lineage(self) -> str:
        return self.question.lineage

    @property
    def title(self) -> Title:
        words = self.question.words(tuple(self.schema.names))
        return "Lookup", {name: words[name] for name in ("table", "lookup", "select")}

    @property
    def remark(self) -> str:
        return f"table {self.question.name}: {self.question.table.label}"

    def prune_columns(self, names: list[str], prune: Pruner) -> Node:
        return self


@dataclass(frozen=True)
class MaterialisedLookup(KeyedRowsNode):
    """Rows with their answers, each remembered with the row until it is retracted.

    key: the columns by which rows are distinguished; they are the input's first. replaces: whether no two rows have the
    same key, so that one that comes takes the place of the one that is there.
    """

    input: Node
    question: LookupQuestion
    key: Key
    columns: Key
    replaces: bool
    known: tuple[Key, ...]
    update_before: bool = True
    merges: bool = False
    takes: ClassVar[Changes] = "retract"

    @property
    def asks_elsewhere(self) -> bool:
        return True

    @property
    def keys(self) -> Key:
        return self.key

    @property
    def name(self) -> str:
        return f"{self.question.kind.upper()} LOOKUP JOIN {self.question.name}"

    @cached_property
    def schema(self) -> pa.Schema:
        own, answers = self.input.schema, self.question.answers
        names = set(own.names)
        return pa.schema([(own if n in names else answers).field(n) for n in self.columns])

    @property
    def stored_schema(self) -> pa.Schema:
        # The key's columns come first, as in every store of rows by key.
        own = [self.input.schema.field(name) for name in self.key]
        return pa.schema([*own, *(field for field in self.schema if field.name not in self.key)])

    @property
    def changelog(self) -> tuple[str, ...]:
        # Without a unique key of the result no row takes the place of another.
        if not self.known:
            return ("I", "D")
        return ("I", "UB", "UA", "D") if self.update_before else ("I", "UA", "D")

    @property
    def never_deletes(self) -> bool:
        return False

    @property
    def unique_keys(self) -> tuple[Key, ...]:
        return self.known

    @property
    def trends(self) -> dict[str, Trend]:
        return {}

    @property
    def distribution(self) -> Key | None:
        below = self.input.distribution
        return below if below is not None and set(below) <= set(self.columns) else None

    def below(self, names: Key) -> tuple[dict[str, str], ...]:
        # A column of the key that does not leave cannot be traced by what is above.
        return ({name: name for name in names if name in self.key and name in self.columns},)

    @property
    def lineage(self) -> str:
        return f"answers of {self.key!r} {self.columns!r} {self.replaces!r}"

    @property
    def title(self) -> Title:
        return "LookupJoin", {**self.question.words(self.columns), "upsertMaterialize": ["true"]}

    @property
    def remark(self) -> str:
        return f"table {self.question.name}: the result of each lookup is stored, since its row may be retracted"

    def state(self, backend: str, ttl: int) -> dict[str, Any]:
        parts: list[dict[str, Any]] = [
            {"name": "key", "kind": "index", "bytes_per_key": index_bytes(len(self.key))},
            {"name": "arrivals", "kind": "numbers", "bytes_per_key": 2 * WORD},
            {
                "name": "answers",
                "kind": "rows",
                "entries": "its joined rows",
                **row_entries(self.schema, _ROW),
                "bytes_per_key": 4 + WORD,
            },
        ]
        texts = holds_texts(pa.schema([self.input.schema.field(n) for n in self.key]))
        bounds = ["the number of keys", "per key, its joined rows"]
        return self.footprint(parts, ttl, bounds, texts)

    @property
    def local_obstacle(self) -> str:
        return "what a row got is known only where it is remembered"

    def prune_columns(self, names: list[str], prune: Pruner) -> Node:
        return self

    def insert_exchange(self) -> Node:
        return self
