"""Lookup join: rows that ask a table when they come (SEMANTICS 5.8).

Where nothing is taken back a row is answered and forgotten (LookupJoin, a step). Else what a row got is remembered with
it (MaterialisedLookup): rows are asked for below the exchange (Lookup), so that the log of the state holds the answers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Literal

import pyarrow as pa

from aggloom.codegen.operators.base import Key, Node, Pruner, Title, Trend, constant, mark
from aggloom.codegen.operators.calc import pick
from aggloom.codegen.operators.exchange import Exchange
from aggloom.codegen.operators.footprint import TEXT, WORD, index_bytes
from aggloom.codegen.operators.rows_by_key import RowsByKey, holds_texts, row_bytes
from aggloom.codegen.operators.words import one_line, shown, shown_names
from aggloom.codegen.scalar.expressions import columns as columns_of
from aggloom.codegen.spec.choices import Changes
from aggloom.codegen.spec.dtypes import type_name
from aggloom.codegen.spec.lookup_table import BatchFrame, LookupTable
from aggloom.errors import UnsupportedSqlError

KEY_COLUMNS = 64
"""How many columns a key of a state has at most."""
_FLINK = {"inner": "InnerJoin", "left": "LeftOuterJoin"}
# Beside its words a row has: its arrival, whether it found nothing, links to its neighbours, a count, its slot, a cell.
_ROW = 2 * WORD + 12 + 4 + 12


@dataclass(frozen=True)
class Asked:
    """What is asked of a table, and what becomes of the answers.

    name: the table's in messages. pairs: (column of the row, column of the table), of one type. names: (column of the
    joined rows, column of the table) of those that are read. before: over the row alone, without which it asks nothing.
    condition: over the columns of both, which pairs have to pass. pushed: conditions of the table alone, as (column,
    operation, values), that a database may test as well.
    """

    name: str
    table: LookupTable
    kind: Literal["inner", "left"]
    pairs: tuple[tuple[str, str], ...]
    names: tuple[tuple[str, str], ...]
    before: str | None = None
    condition: str | None = None
    pushed: tuple[tuple[str, str, tuple[Any, ...]], ...] = ()

    @property
    def keys(self) -> Key:
        """The row's columns of the pairs."""
        return tuple(left for left, _ in self.pairs)

    @property
    def by_engine(self) -> bool:
        """Whether Spark joins the table, and no worker asks."""
        return isinstance(self.table.source, BatchFrame)

    @property
    def answers(self) -> pa.Schema:
        """The table's columns that are read, as the joined rows call them."""
        field = self.table.columns.field
        return pa.schema([(own, field(name).type) for own, name in self.names])

    @property
    def meets_one(self) -> bool:
        """Whether a row meets one row of the table at most."""
        asked = {right for _, right in self.pairs}
        return bool(self.table.key) and set(self.table.key) <= asked

    @property
    def read(self) -> set[str]:
        """The columns of the joined rows that it reads itself."""
        texts = (self.before or "TRUE", self.condition or "TRUE")
        return {*self.keys, *(name for text in texts for name in columns_of(text))}

    def pruned(self, names: set[str]) -> Asked:
        """The same, with those of the table's columns that are read."""
        read = {*names, *self.read}
        return replace(self, names=tuple(pair for pair in self.names if pair[0] in read))

    @property
    def lineage(self) -> str:
        """What of it decides what a state holds."""
        types = [
            (own, type_name(t))
            for own, t in zip(self.answers.names, self.answers.types, strict=True)
        ]
        return f"lookup {self.kind} {self.name!r} {self.pairs!r} {types!r} {self.before!r} {self.condition!r}"

    def words(self, columns: Key) -> dict[str, list[str]]:
        """Its line in Flink's words."""
        equal = [f"{shown(right)}={shown(left)}" for left, right in self.pairs]
        where = [one_line(each) for each in (self.before, self.condition) if each is not None]
        found = {"table": [self.name], "joinType": [_FLINK[self.kind]], "lookup": equal}
        found |= {"where": [" AND ".join(where)]} if where else {}
        return found | {"select": shown_names(columns)}


@dataclass(frozen=True)
class Dimension(Node):
    """A lookup table by its name in FROM: it has columns, and no rows of its own."""

    name: str
    table: LookupTable

    @property
    def schema(self) -> pa.Schema:
        return self.table.columns

    @property
    def changelog(self) -> tuple[str, ...]:
        return ("I",)

    @property
    def is_complete(self) -> bool:
        return True

    @property
    def never_deletes(self) -> bool:
        return True

    @property
    def unique_keys(self) -> tuple[Key, ...]:
        return (self.table.key,) if self.table.key else ()

    @property
    def trends(self) -> dict[str, Trend]:
        return {}

    @property
    def clock_columns(self) -> frozenset[str]:
        return frozenset()

    @property
    def distribution(self) -> None:
        return None

    @property
    def lineage(self) -> str:
        return f"dimension {self.name!r}"

    @property
    def title(self) -> Title:
        return "LookupTable", {"table": [self.name]}

    def pruned(self, names: list[str], prune: Pruner) -> Node:
        self.refuse()
        return self

    def exchanged(self) -> Node:
        self.refuse()
        return self

    def refuse(self) -> None:
        """Raise UnsupportedSqlError: it cannot be read as it stands."""
        raise UnsupportedSqlError(
            f"{self.name} is a lookup table, which only a join asks; write "
            f"JOIN {self.name} FOR SYSTEM_TIME AS OF PROCTIME() ON .."
        )


@dataclass(frozen=True)
class LookupJoin(Node):
    """Rows with the answers to them; no two columns have the same name. columns: those that leave."""

    input: Node
    asked: Asked
    columns: Key

    @cached_property
    def schema(self) -> pa.Schema:
        both = self.both
        return pa.schema([both.field(name) for name in self.columns])

    @cached_property
    def both(self) -> pa.Schema:
        """The columns of a row and of an answer."""
        return pa.schema([*self.input.schema, *self.asked.answers])

    @cached_property
    def changelog(self) -> tuple[str, ...]:
        if self.input.appends_only:
            return ("I",)
        return ("I", "UB", "UA", "D") if self.unique_keys else ("I", "D")

    @property
    def is_complete(self) -> bool:
        return True

    @property
    def never_deletes(self) -> bool:
        return self.appends_only

    @cached_property
    def unique_keys(self) -> tuple[Key, ...]:
        return self._joined_keys(self.input.unique_keys)

    @cached_property
    def ordered_keys(self) -> tuple[Key, ...]:
        return self._joined_keys(self.input.ordered_keys)

    @property
    def trends(self) -> dict[str, Trend]:
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
        below = self.input.distribution
        return below if below is not None and set(below) <= set(self.columns) else None

    @property
    def lineage(self) -> str:
        return f"{self.asked.lineage} {self.columns!r}"

    @property
    def title(self) -> Title:
        return "LookupJoin", self.asked.words(self.columns)

    @property
    def remark(self) -> str:
        kept = "rows are answered as they come, and none is remembered, for nothing is taken back"
        return f"table {self.asked.name}: {self.asked.table.shown}; {kept}"

    def pruned(self, names: list[str], prune: Pruner) -> Node:
        columns = tuple(name for name in self.columns if name in names) or self.columns[:1]
        asked = self.asked.pruned(set(columns))
        own = self.input
        known = own.unique_key if not own.appends_only else None
        read = {*columns, *asked.read, *(known or ())}
        wanted = [name for name in own.schema.names if name in read]
        return replace(
            self, input=pick(prune.input(own, wanted), wanted), asked=asked, columns=columns
        )

    def exchanged(self) -> Node:
        if self.input.appends_only:
            return self
        known = next(iter(sorted(self.input.ordered_keys, key=len)), None)
        key = tuple(self.input.schema.names) if known is None else known
        if len(key) > KEY_COLUMNS:
            raise UnsupportedSqlError(
                f"a lookup join over changes with {len(key)} columns and no key is not supported: more than "
                f"{KEY_COLUMNS} would tell rows apart. Say what is unique: keys={{'t': ['id']}}."
            )
        kept = tuple(n for n in self.input.schema.names if n in {*key, *self.columns})
        order = (*key, *(name for name in kept if name not in key))
        below = Lookup(self.input, self.asked, order, self.columns)
        return MaterialisedLookup(
            Exchange(below, key), self.asked, key, self.columns, known is not None, self.unique_keys
        )

    def _joined_keys(self, below: tuple[Key, ...]) -> tuple[Key, ...]:
        """Keys of the rows below as keys of the joined rows."""
        own = {name: known for known, name in self.asked.names}
        more: Key = ()
        if not self.asked.meets_one:
            table = self.asked.table.key
            if not table or not set(table) <= set(own):
                return ()
            more = tuple(own[name] for name in table)
        there = set(self.columns)
        found = dict.fromkeys((*key, *more) for key in below)
        return tuple(key for key in found if set(key) <= there)


@dataclass(frozen=True)
class Lookup(Node):
    """The rows with the list of their answers after them, which those that are taken back do not ask for.

    order: the input's columns that leave. wanted: those of the joined rows that are read of an answer.
    """

    input: Node
    asked: Asked
    order: Key
    wanted: Key

    @cached_property
    def answer(self) -> pa.Schema:
        """The columns of an answer."""
        return pa.schema([field for field in self.asked.answers if field.name in self.wanted])

    @cached_property
    def schema(self) -> pa.Schema:
        fields = [self.input.schema.field(name) for name in self.order]
        # A list of nothing still has a length.
        answer = list(self.answer) or [pa.field("found", pa.bool_())]
        name = mark(self.input.schema, self.asked.answers) + "answers"
        return pa.schema([*fields, pa.field(name, pa.list_(pa.struct(answer)))])

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
    def unique_keys(self) -> tuple[Key, ...]:
        return tuple(k for k in self.input.unique_keys if set(k) <= set(self.order))

    @property
    def ordered_keys(self) -> tuple[Key, ...]:
        return tuple(k for k in self.input.ordered_keys if set(k) <= set(self.order))

    @property
    def trends(self) -> dict[str, Trend]:
        return {}

    @property
    def clock_columns(self) -> frozenset[str]:
        return frozenset()

    @property
    def distribution(self) -> None:
        return None

    @property
    def lineage(self) -> str:
        return self.asked.lineage

    @property
    def title(self) -> Title:
        words = self.asked.words(tuple(self.schema.names))
        return "Lookup", {name: words[name] for name in ("table", "lookup", "select")}

    @property
    def remark(self) -> str:
        return f"table {self.asked.name}: {self.asked.table.shown}"

    def pruned(self, names: list[str], prune: Pruner) -> Node:
        return self


@dataclass(frozen=True)
class MaterialisedLookup(RowsByKey):
    """Rows with their answers, each remembered with the row until it is taken back.

    key: the columns by which rows are told apart; they are the input's first. replaces: whether no two rows have the
    same key, so that one that comes takes the place of the one that is there.
    """

    input: Node
    asked: Asked
    key: Key
    columns: Key
    replaces: bool
    known: tuple[Key, ...]
    update_before: bool = True
    merges: bool = False
    takes: ClassVar[Changes] = "retract"

    @property
    def keys(self) -> Key:
        return self.key

    @property
    def name(self) -> str:
        return f"{self.asked.kind.upper()} LOOKUP JOIN {self.asked.name}"

    @cached_property
    def schema(self) -> pa.Schema:
        own, answers = self.input.schema, self.asked.answers
        names = set(own.names)
        return pa.schema([(own if n in names else answers).field(n) for n in self.columns])

    @property
    def remembered(self) -> pa.Schema:
        own = [self.input.schema.field(name) for name in self.key]
        return pa.schema([*own, *(field for field in self.schema if field.name not in self.key)])

    @property
    def changelog(self) -> tuple[str, ...]:
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
        return ({name: name for name in names if name in self.key and name in self.columns},)

    @property
    def lineage(self) -> str:
        return f"answers of {self.key!r} {self.columns!r} {self.replaces!r}"

    @property
    def title(self) -> Title:
        return "LookupJoin", {**self.asked.words(self.columns), "upsertMaterialize": ["true"]}

    @property
    def remark(self) -> str:
        return f"table {self.asked.name}: what a row got is remembered, for it may be taken back"

    def state(self, backend: str, ttl: int) -> dict[str, Any]:
        parts: list[dict[str, Any]] = [
            {"name": "key", "kind": "index", "bytes_per_key": index_bytes(len(self.key))},
            {"name": "arrivals", "kind": "numbers", "bytes_per_key": 2 * WORD},
            {
                "name": "answers",
                "kind": "rows",
                "entries": "its joined rows",
                "bytes_per_entry": row_bytes(self.schema) + _ROW,
                "bytes_per_key": 4 + WORD,
            },
        ]
        texts = holds_texts(
            pa.schema([*self.schema, *(self.input.schema.field(n) for n in self.key)])
        )
        bounds = ["the number of keys", "per key, its joined rows"]
        return self.footprint(parts, ttl, bounds, texts, TEXT)

    @property
    def local_obstacle(self) -> str:
        return "what a row got is known only where it is remembered"

    def pruned(self, names: list[str], prune: Pruner) -> Node:
        return self

    def exchanged(self) -> Node:
        return self
