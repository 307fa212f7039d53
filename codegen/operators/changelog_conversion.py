"""ToChangelog and FromChangelog: changes as rows with a column that names them, and such rows as changes again.

Neither remembers anything. What a row of a log replaces is known by the log alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from aggloom.codegen.operators.base import Key, Node, Pruner, Title, Trend, constant, sort_kinds
from aggloom.codegen.operators.calc import pick
from aggloom.codegen.operators.plan_text import format_name

KIND_WORDS = {"INSERT": "I", "UPDATE_BEFORE": "UB", "UPDATE_AFTER": "UA", "DELETE": "D"}
"""The names of the kinds of rows in SQL."""
Codes = tuple[tuple[str, str], ...]
"""Codes of a log and the kinds (I, UB, UA, D) that they stand for."""


@dataclass(frozen=True)
class ToChangelog(Node):
    """Each change of its input as a row that is added, with the code of its kind in the first column.

    op: that column. codes: in the order of kinds, at most one for each; changes of other kinds are left out.
    """

    input: Node
    op: str
    codes: Codes

    @cached_property
    def schema(self) -> pa.Schema:
        return pa.schema([pa.field(self.op, pa.string()), *self.input.schema])

    @property
    def changelog(self) -> tuple[str, ...]:
        return ("I",)

    @property
    def follows_batches(self) -> bool:
        # Which changes cancel out within a batch depends on what is in it.
        return not self.input.appends_only

    @property
    def is_complete(self) -> bool:
        return True

    @property
    def never_deletes(self) -> bool:
        return True

    @property
    def never_null(self) -> frozenset[str]:
        return self.input.never_null | {self.op}

    @property
    def unique_keys(self) -> tuple[Key, ...]:
        # A log has a row for each change of a key.
        return ()

    @property
    def trends(self) -> dict[str, Trend]:
        return constant(self.schema.names)

    @property
    def non_negative(self) -> frozenset[str]:
        return self.input.non_negative

    @property
    def clock_columns(self) -> frozenset[str]:
        # A log keeps the clock of the change that it shows.
        return self.input.clock_columns

    @property
    def event_times(self) -> frozenset[str]:
        # What retracts a row has its time, which the watermark may have passed long ago.
        return self.input.event_times if self.input.appends_only else frozenset()

    @property
    def distribution(self) -> Key | None:
        return self.input.distribution

    def within(self, names: Key) -> tuple[dict[str, str], ...] | str:
        return ({name: name for name in names if name != self.op},)

    @property
    def lineage(self) -> str:
        return f"to changelog {self.op!r} {self.codes!r}"

    @property
    def title(self) -> Title:
        return "ToChangelog", {"op": [format_name(self.op)], "op_mapping": _shown_codes(self.codes)}

    def prune_columns(self, names: list[str], prune: Pruner) -> Node:
        own = self.input.schema.names
        if self.input.appends_only:
            # Over insertions each row is one of the log, whichever of its columns are read.
            own = [name for name in own if name in names] or own[:1]
        # Without a column there would be no change where only that column changes, and no row for it.
        return self.over(pick(prune.input(self.input, own), own))


@dataclass(frozen=True)
class FromChangelog(Node):
    """The changes that the rows of an append-only input stand for, without the column that names them.

    op: that column. codes: the kinds of its values. key: the columns by which rows are replaced, if updates come
    without the rows that they replace. skips: a row with another value, or NULL, is left out instead of an error.
    """

    input: Node
    op: str
    codes: Codes
    key: Key = ()
    skips: bool = False

    @cached_property
    def schema(self) -> pa.Schema:
        return pa.schema([field for field in self.input.schema if field.name != self.op])

    @cached_property
    def changelog(self) -> tuple[str, ...]:
        return sort_kinds({kind for _, kind in self.codes})

    @property
    def is_complete(self) -> bool:
        # A log may begin with a retraction of a row that it does not have.
        return self.appends_only

    @property
    def never_deletes(self) -> bool:
        return self.appends_only

    @property
    def never_null(self) -> frozenset[str]:
        return self.input.never_null - {self.op}

    @property
    def unique_keys(self) -> tuple[Key, ...]:
        return (self.key,) if self.key else ()

    @property
    def ordered_keys(self) -> tuple[Key, ...]:
        return self.unique_keys

    @property
    def trends(self) -> dict[str, Trend]:
        return constant(self.schema.names if self.appends_only else self.key)

    @property
    def non_negative(self) -> frozenset[str]:
        return self.input.non_negative - {self.op}

    @property
    def clock_columns(self) -> frozenset[str]:
        return self.input.clock_columns

    @property
    def event_times(self) -> frozenset[str]:
        return self.input.event_times

    @property
    def distribution(self) -> Key | None:
        below = self.input.distribution
        # The column of kinds is gone: rows that it distributed are no longer found by anything.
        return below if below is not None and self.op not in below else None

    def within(self, names: Key) -> tuple[dict[str, str], ...] | str:
        return ({name: name for name in names},)

    @property
    def lineage(self) -> str:
        skips = " skip" * self.skips
        return f"from changelog {self.op!r} {self.codes!r} {self.key!r}{skips}"

    @property
    def title(self) -> Title:
        details = {"op": [format_name(self.op)], "op_mapping": _shown_codes(self.codes)}
        if self.key:
            details["upsertKey"] = [format_name(name) for name in self.key]
        return "FromChangelog", details | ({"error_handling": ["SKIP"]} if self.skips else {})

    def prune_columns(self, names: list[str], prune: Pruner) -> Node:
        needed = {*names, self.op, *self.key}
        own = [name for name in self.input.schema.names if name in needed]
        # Rows need a column besides the one that names their kind.
        if own == [self.op]:
            own = [*self.schema.names[:1], self.op]
        return self.over(pick(prune.input(self.input, own), own))


def _shown_codes(codes: Codes) -> list[str]:
    """The codes and kinds of a mapping."""
    return [f"{format_name(code)}={kind}" for code, kind in codes]
