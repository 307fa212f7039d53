"""MatchRows: MATCH_RECOGNIZE, the matches of a pattern in the rows of a key in time order."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import pyarrow as pa

from aggloom.codegen.match.definition import MatchDefinition
from aggloom.codegen.operators.base import Key, Node, Pruner, Title, Trend, Waker, constant
from aggloom.codegen.operators.calc import pick
from aggloom.codegen.operators.footprint import WORD
from aggloom.codegen.operators.plan_text import format_name, shown_names
from aggloom.codegen.operators.row_numbers import shown_order
from aggloom.codegen.operators.rows_by_key import row_entries
from aggloom.codegen.operators.timed_rows import ROW_BYTES, TimedRowsNode
from aggloom.codegen.spec.agg_call import AggCall, describe_call
from aggloom.codegen.spec.agg_spec import AggSpec
from aggloom.codegen.spec.durations import format_duration
from aggloom.codegen.sql.numbering import SortItem


@dataclass(frozen=True)
class MatchMeasure:
    """A value of MEASURES that is not computed from others, under a name of its own.

    function: FIRST or LAST takes a column of one row, CLASSIFIER and MATCH_NUMBER are facts of the match, "" is an
    aggregate (`call`) over the rows of these variables (none: all) whose column `filter` is true, if it has one.
    offset, back: as in an MatchOperand. final: of all rows per match, it looks at the whole match.
    """

    name: str
    function: str
    column: str = ""
    variables: tuple[int, ...] = ()
    offset: int = 0
    back: int = 0
    filter: str = ""
    final: bool = False
    call: AggCall | None = None

    def describe(self, variables: tuple[str, ...]) -> str:
        """The value as a line shows it."""
        of = ", ".join(format_name(variables[each]) for each in self.variables)
        if self.call is not None:
            text = describe_call(replace(self.call, alias=None))
            return f"{text} of {of}" if of else text
        if not self.column:
            return f"{self.function}()"
        column = f"{of}.{format_name(self.column)}" if of else format_name(self.column)
        text = f"{self.function}({column}{f', {self.offset}' if self.offset else ''})"
        return f"PREV({text}, {self.back})" if self.back else text


@dataclass(frozen=True)
class MatchRows(TimedRowsNode):
    """The matches in the rows of each key, emitted once they are certain; the first columns are the key.

    pattern: PATTERN as it was written. row_columns: the columns that each row of a match has in the result, if
    the result has all rows; None: a match has one row. by: the time by which rows are ordered. corrects: rows may be
    retracted, or arrive late, and then matches are corrected.
    """

    words = "MATCH_RECOGNIZE"
    input: Node
    partition: Key
    order: tuple[SortItem, ...]
    definition: MatchDefinition
    measures: tuple[MatchMeasure, ...]
    pattern: str
    dialect: str
    row_columns: tuple[str, ...] | None = None
    by: Literal["row", "processing"] = "row"
    corrects: bool = False
    merges: bool = False

    @cached_property
    def schema(self) -> pa.Schema:
        below = [self.input.schema.field(n) for n in (*self.partition, *(self.row_columns or ()))]
        return pa.schema([*below, *self.results])

    @cached_property
    def results(self) -> tuple[pa.Field, ...]:
        """The columns of the measures."""
        return tuple(pa.field(each.name, self._type_of(each)) for each in self.measures)

    @cached_property
    def spec(self) -> AggSpec:
        """The spec that the handler of its aggregates is generated from."""
        calls: list[AggCall] = []
        fields: list[pa.Field] = []
        for each in self.measures:
            if each.call is None:
                continue
            reads = f"$rows of {len(calls)}"
            reads = reads if each.variables or each.filter else ""
            # Which rows of a match a call takes is found by the search, which hands it over as a column.
            fields += [pa.field(reads, pa.bool_())] if reads else []
            calls.append(replace(each.call, alias=each.name, filter=reads or None))
        # By its key `state` finds a key; without calls its backend says whether the matcher is compiled.
        calls = calls or ([] if self.partition else [AggCall("COUNT")])
        dialect: Any = self.dialect
        below = pa.schema([*self.input.schema, *fields])
        whole = AggSpec(below, self.partition, tuple(calls), "append", dialect)
        return AggSpec(whole.handler_schema, self.partition, tuple(calls), "append", dialect)

    @property
    def changelog(self) -> tuple[str, ...]:
        # No match replaces another: nothing says which of the new ones an old one has become.
        return ("I", "D") if self.corrects else ("I",)

    @property
    def never_deletes(self) -> bool:
        return not self.corrects

    @property
    def unique_keys(self) -> tuple[Key, ...]:
        numbers = [each.name for each in self.measures if each.function == "MATCH_NUMBER"]
        # Matches of a key are numbered. With all rows per match the rows of one share its number.
        return tuple((*self.partition, name) for name in numbers if self.row_columns is None)

    @property
    def trends(self) -> dict[str, Trend]:
        return constant(self.partition if self.corrects else self.schema.names)

    @property
    def event_times(self) -> frozenset[str]:
        """The measure with the time of the last row, if it lies behind the watermark by no more than its delay."""
        # Without WITHIN a match that waits may become certain at any later time: nothing bounds the delay.
        if self.corrects or self.by != "row" or not (self.is_prompt or self.definition.within >= 0):
            return frozenset()
        time = self.order[0].column
        return frozenset(
            each.name
            for each in self.measures
            if (each.function, each.column, each.variables) == ("LAST", time, ())
            and not (each.offset or each.back)
        )

    @property
    def is_prompt(self) -> bool:
        """True if a match is known with its last row."""
        return self.definition.automaton.is_prompt

    @property
    def watermark_delay(self) -> int:
        """Whatever is decided later than its last row is so by the length of WITHIN at most."""
        within = self.definition.within
        own = 0 if self.is_prompt or within < 0 else -(-within // 1000) + 1
        return super().watermark_delay + own

    def wakes_by(self, ttl: int) -> Waker:
        return "the watermark" if self.by == "row" else "the clock"

    @cached_property
    def lineage(self) -> str:
        order, columns = self.order_lineage
        definition = self.definition
        parts = (
            definition.automaton,
            definition.conditions,
            definition.operands,
            definition.within,
            definition.skip,
        )
        measures = [each.describe(definition.automaton.variables) for each in self.measures]
        rows = "" if self.row_columns is None else f" all rows {self.row_columns!r}"
        return (
            f"match {self.partition!r} {order!r} {parts!r} {definition.skip_to!r} {measures!r} {columns!r}"
            f" by {self.by} time{rows}{' over changes' if self.corrects else ''}"
        )

    @property
    def title(self) -> Title:
        # In the order of the clauses of MATCH_RECOGNIZE.
        definition, names = self.definition, self.definition.automaton.variables
        order = shown_order(self.order)
        if self.by == "processing":
            order = ["PROCTIME ASC"]
        aims = [names[each] for each in definition.skip_to]
        details = {
            "partitionBy": shown_names(self.partition),
            "orderBy": order,
            "measures": [
                f"{each.describe(names)} AS {format_name(each.name)}" for each in self.measures
            ],
            "rowsPerMatch": [
                "ONE ROW PER MATCH" if self.row_columns is None else "ALL ROWS PER MATCH"
            ],
            "after": [f"SKIP {' '.join([definition.skip, *aims])}"],
            "over": ["changes"] if self.corrects else [],
            "pattern": [f"({self.pattern})"],
            "within": (
                [format_duration(definition.within // 1000)] if definition.within >= 0 else []
            ),
            "define": [
                f"{names[each.variable]} AS {each.written}" for each in definition.conditions
            ],
        }
        return "Match", {name: words for name, words in details.items() if words}

    def state(self, backend: str, ttl: int) -> dict[str, Any]:
        rows = {"name": "rows", "kind": "sorted", "bytes_per_key": 4 * WORD}
        more = ROW_BYTES + (WORD if self.corrects else 0)
        parts = [
            *self.index_parts,
            {"name": "progress", "kind": "numbers", "bytes_per_key": 3 * WORD},
            {**rows, "entries": self._stored_rows, **row_entries(self.input.schema, more)},
        ]
        whole = self.footprint_of_rows(parts, ttl, [f"per key, {self._stored_rows}"])
        return {**whole, "compiled": backend != "python"}

    @property
    def local_obstacle(self) -> str:
        return "a match is known only where all rows of a key are"

    def without_before(self) -> Node:
        # A match comes and goes whole.
        return self

    def prune_columns(self, names: list[str], prune: Pruner) -> Node:
        measures = tuple(each for each in self.measures if each.name in names)
        if not measures and self.row_columns is None and not self.partition:
            # Rows have a column, even if only their number matters.
            measures = self.measures[:1]
        row_columns = self.row_columns and tuple(name for name in self.row_columns if name in names)
        # DEFINE stays whole: which rows match depends on every condition, whichever measures are read.
        needed_names = {
            *self.partition,
            *(each.column for each in self.order),
            *(row_columns or ()),
        }
        needed_names |= {field.name for field in self.definition.columns}
        for each in measures:
            needed_names |= {each.column, each.filter}
            if each.call is not None:
                needed_names |= {*each.call.args, *(key.column for key in each.call.order_by)}
        below = self.input.schema.names
        read = [name for name in below if name in needed_names]
        pruned_node = replace(
            self,
            input=pick(prune.input(self.input, read), read),
            measures=measures,
            row_columns=None if self.row_columns is None else row_columns,
        )
        return pick(
            pruned_node,
            [name for name in pruned_node.schema.names if name in names]
            or pruned_node.schema.names[:1],
        )

    @property
    def _stored_rows(self) -> str:
        """The rows that a key has in its state."""
        if self.corrects:
            return "all its rows"
        # WITHIN is in microseconds, and -1 without it.
        within, reach = self.definition.within, self._reach
        reasons = ["those that wait"] if self.by == "row" else []
        length = f" within {format_duration(within // 1000)}" if within >= 0 else ""
        reasons += [f"those of a match that has begun{length}"]
        reasons += [f"the last {reach} before it"] if reach else []
        return " and ".join(reasons)

    @property
    def _reach(self) -> int:
        return max([self.definition.reach, *(each.back for each in self.measures)])

    def _type_of(self, measure: MatchMeasure) -> pa.DataType:
        if measure.call is not None:
            # The catalogue knows the type of an aggregate's result, by dialect.
            dialect: Any = self.dialect
            spec = AggSpec(self.input.schema, (), (measure.call,), "append", dialect)
            return spec.aggregate_schema.field(0).type
        if measure.function == "MATCH_NUMBER":
            return pa.int64()
        if measure.function == "CLASSIFIER":
            return pa.string()
        return self.input.schema.field(measure.column).type
