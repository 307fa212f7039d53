"""MultiJoin: a chain of INNER and LEFT joins on one key as one operator, which remembers its inputs' rows only."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Literal

import pyarrow as pa

from aggloom.codegen.operators.base import Key, Node, Pruner, Title, Trend, constant
from aggloom.codegen.operators.calc import pick
from aggloom.codegen.operators.exchange import Exchange
from aggloom.codegen.operators.footprint import WORD, index_bytes
from aggloom.codegen.operators.join import (
    CELL,
    NOTHING,
    ROW,
    InputSpec,
    find_ordered_keys,
    has_index,
    key_kind,
    smallest_key,
)
from aggloom.codegen.operators.plan_text import format_name, one_line, shown_names
from aggloom.codegen.operators.rows_by_key import KeyedRowsNode, holds_texts, row_entries
from aggloom.codegen.scalar.expressions import columns_of
from aggloom.codegen.spec.choices import Changes
from aggloom.codegen.spec.dtypes import type_name

Step = Literal["inner", "left"]


@dataclass(frozen=True)
class MultiJoin(KeyedRowsNode):
    """Rows of several inputs that agree in their first columns, the key; no two columns have the same name.

    Of every input but the first: kinds: how it joins those before it; null_safe: of each column of the key, whether
    NULL equals NULL; via: the inputs with whose key it is compared and that may be padded; conditions: over its columns
    and those of the inputs before it. columns: those that leave. ttls: after how many milliseconds each input forgets,
    None as the options say.
    """

    tables: tuple[Node, ...]
    width: int
    kinds: tuple[Step, ...]
    null_safe: tuple[tuple[bool, ...], ...]
    via: tuple[tuple[int, ...], ...]
    conditions: tuple[str | None, ...]
    columns: Key
    update_before: bool = True
    ttls: tuple[int | None, ...] = ()
    merges: bool = False
    takes: ClassVar[Changes] = "retract"

    @property
    def join_conditions(self) -> tuple[str, ...]:
        return tuple(each for each in self.conditions if each is not None)

    @property
    def inputs(self) -> tuple[Node, ...]:
        return self.tables

    def over(self, *inputs: Node) -> Node:
        return replace(self, tables=inputs)

    def key_of(self, which: int) -> Key:
        """An input's columns of the key."""
        return tuple(self.tables[which].schema.names[: self.width])

    @property
    def keys(self) -> Key:
        return self.key_of(0)

    @property
    def stored_schema(self) -> pa.Schema:
        return self.tables[0].schema

    @property
    def name(self) -> str:
        words = ", ".join(kind.upper() for kind in self.kinds)
        return f"MULTI JOIN ({words}) ON {', '.join(format_name(name) for name in self.keys)}"

    @cached_property
    def every(self) -> pa.Schema:
        """The columns of a joined row."""
        return pa.schema([field for each in self.tables for field in each.schema])

    @cached_property
    def schema(self) -> pa.Schema:
        return pa.schema([self.every.field(name) for name in self.columns])

    @cached_property
    def row_keys(self) -> tuple[Key | None, ...]:
        """The columns of each input by which its rows are distinguished; None: all of them."""
        return tuple(smallest_key(each, self.key_of(n)) for n, each in enumerate(self.tables))

    @property
    def present(self) -> tuple[int, ...]:
        """The inputs of which each joined row has a row."""
        return (0, *(n + 1 for n, kind in enumerate(self.kinds) if kind == "inner"))

    @property
    def ordered_keys(self) -> tuple[Key, ...]:
        # Padded rows have NULL for the key of a LEFT input, so that only present inputs count.
        keys_of_inputs = [self.key_of(which) for which in self.present]
        same = {
            name: own
            for columns in keys_of_inputs
            for name, own in zip(columns, self.keys, strict=True)
        }
        return find_ordered_keys(self.unique_keys, keys_of_inputs, same)

    @cached_property
    def changelog(self) -> tuple[str, ...]:
        inner = all(kind == "inner" for kind in self.kinds)
        if inner and all(each.appends_only for each in self.tables):
            return ("I",)
        # Padded rows come and go; without a key they replace nothing.
        if self.unique_key is None and not inner:
            return ("I", "D")
        return tuple(k for k in ("I", "UB", "UA", "D") if self.update_before or k != "UB")

    @property
    def never_deletes(self) -> bool:
        return self.appends_only

    @cached_property
    def unique_keys(self) -> tuple[Key, ...]:
        keys = list(self.tables[0].unique_keys)
        # Joined input by input, as a chain of two-sided joins would be.
        before = set(self.keys)
        for which, kind in enumerate(self.kinds, 1):
            own, others = self.key_of(which), self.tables[which].unique_keys
            more = [(*one, *other) for one in keys for other in others]
            # A row of this input meets one row of those before it, so that its own keys stay keys.
            if kind == "inner" and any(set(key) <= before for key in keys):
                more = [*others, *more]
            # A row before meets one row of this input at most, so that the keys before stay keys.
            if any(set(key) <= set(own) for key in others):
                more = [*keys, *more]
            keys = list(_least(more))
            before |= set(own) if kind == "inner" else set()
        there = set(self.columns)
        return tuple(sorted((key for key in keys if set(key) <= there), key=len))

    @property
    def trends(self) -> dict[str, Trend]:
        return constant(self.columns) if self.appends_only else {}

    @property
    def distribution(self) -> Key | None:
        distributions = [self.tables[which].distribution for which in self.present]
        there = set(self.columns)
        # Present inputs alone: a padded row lies by the key of another input.
        return next(
            (columns for columns in distributions if columns is not None and set(columns) <= there),
            None,
        )

    def below(self, names: Key) -> tuple[dict[str, str], ...]:
        places = {
            name: place for which in self.present for place, name in enumerate(self.key_of(which))
        }
        known = {name: places[name] for name in names if name in places}
        return tuple(
            {name: self.key_of(which)[place] for name, place in known.items()}
            for which in range(len(self.tables))
        )

    @cached_property
    def lineage(self) -> str:
        sides = [[(f.name, type_name(f.type)) for f in each.schema] for each in self.tables]
        what = (self.null_safe, self.via, self.conditions, sides, self.row_keys, self.columns)
        return f"multi join {self.kinds!r} {self.width} {what!r}"

    @property
    def title(self) -> Title:
        unique = [
            "noUniqueKey" if key is None else f"({', '.join(shown_names(key))})"
            for key in self.row_keys
        ]
        details: dict[str, list[str]] = {
            "joinType": [kind.upper() for kind in self.kinds],
            "inputUniqueKeys": unique,
            "joinConditions": [self._condition(n) for n in range(len(self.kinds))],
            "commonJoinKey": shown_names(self.keys),
            "select": shown_names(self.columns),
        }
        return "MultiJoin", details

    def input_spec(self, which: int) -> InputSpec:
        """Return the way in which the rows of an input are distinguished, in Flink's words."""
        return key_kind(self.row_keys[which], self.key_of(which))

    def state(self, backend: str, ttl: int) -> dict[str, Any]:
        parts: list[dict[str, Any]] = [
            {"name": "key", "kind": "index", "bytes_per_key": index_bytes(self.width)}
        ]
        lives = [ttl if own is None else own for own in self.ttls]
        stored = [self.every.field(name) for name in self.keys]
        for which, stored_columns in enumerate(self._stored_columns()):
            more = ROW + CELL * has_index(self.input_spec(which), self.inputs[which])
            name = f"input {which + 1}"
            rows = {"name": name, "kind": "rows", "entries": f"its rows of {name}"}
            room = row_entries(pa.schema(stored_columns or [NOTHING]), more)
            parts.append({**rows, **room, "bytes_per_key": 4 + WORD * (lives[which] > 0)})
        bounds = ["the number of keys", *(f"per key, {part['entries']}" for part in parts[1:])]
        texts = holds_texts(pa.schema(stored))
        return self.footprint(parts, ttl, bounds, texts)

    def _stored_columns(self) -> Iterator[list[pa.Field]]:
        """Yield, by input, the columns that are stored with its rows."""
        read = {*self.columns, *self._columns_read}
        for which, each in enumerate(self.tables):
            # The key of the join is stored once for all rows of a key, not in each row.
            known = {*(self.row_keys[which] or ())} - {*self.key_of(which)}
            yield [field for field in each.schema if field.name in read | known]

    def wakes_by(self, ttl: int) -> Literal["", "time to live"]:
        lives = [ttl if own is None else own for own in self.ttls]
        return "time to live" if any(lives) else ""

    @property
    def local_obstacle(self) -> str:
        return "which rows match is known only where the rows of all inputs are"

    def insert_exchange(self) -> Node:
        return self.over(*(Exchange(each, self.key_of(n)) for n, each in enumerate(self.tables)))

    def prune_columns(self, names: list[str], prune: Pruner) -> Node:
        columns = tuple(name for name in self.columns if name in names) or self.columns[:1]
        read = {*columns, *self._columns_read}
        tables = []
        for which, each in enumerate(self.tables):
            keys = self.key_of(which)
            # Rows of an input are found by their own key when they are retracted.
            others = {*read, *(self.row_keys[which] or ())} - {*keys}
            needed_names = [*keys, *(name for name in each.schema.names if name in others)]
            tables.append(pick(prune.input(each, needed_names), needed_names))
        pruned = replace(self, tables=tuple(tables), columns=columns)
        prune.note_replacement(self, pruned)
        return pruned

    @property
    def _columns_read(self) -> set[str]:
        """The columns that conditions read."""
        return {name for each in self.conditions for name in columns_of(each or "TRUE")}

    def _condition(self, which: int) -> str:
        """The condition of an input with those before it; of equal keys the nearest that is not padded, or the one it
        names."""
        via = self.via[which] or (max(n for n in self.present if n <= which),)
        pairs = zip(self.key_of(via[0]), self.key_of(which + 1), self.null_safe[which], strict=True)
        words = [
            f"({format_name(one)} {'IS NOT DISTINCT FROM' if safe else '='} {format_name(other)})"
            for one, other, safe in pairs
        ]
        own = self.conditions[which]
        return " AND ".join([*words, *([] if own is None else [one_line(own)])])


def _least(keys: list[Key]) -> Iterator[Key]:
    """Those of the keys that contain no other."""
    least_keys: list[Key] = []
    for key in sorted(dict.fromkeys(keys), key=len):
        if not any(set(each) <= set(key) for each in least_keys):
            least_keys.append(key)
            yield key
