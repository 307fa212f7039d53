"""The fields of a spec without checks, and the schemas and types that follow from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa

from aggloom.codegen.catalogue.entry import Aggregate
from aggloom.codegen.scalar import expressions
from aggloom.codegen.spec.agg_call import AggCall
from aggloom.codegen.spec.call_types import entry_of, result_type
from aggloom.codegen.spec.choices import Changes, Dialect
from aggloom.codegen.spec.dtypes import normalise_type, parse_type
from aggloom.codegen.user import definition


@dataclass(frozen=True)
class Computed:
    """A column of a spec that a scalar expression computes from each row before the aggregation.

    name: the column's name, for keys, arguments and filters. sql: the expression over the columns of the input. type:
    its type, of Arrow or in SQL.

    Example:
        >>> import aggloom as al
        >>> doubled = al.Computed("doubled", "n * 2", "BIGINT")
        >>> spec = al.AggSpec("n INT", calls=[al.AggCall("SUM", ["doubled"], alias="s")], computed=[doubled])
        >>> with al.Harness(spec, backend="python") as harness:
        ...     harness.process([("+I", 3), ("+I", 4)])
        ...     harness.flush()
        ...     print(harness.table())
        [(14,)]
    """

    name: str
    sql: str
    type: pa.DataType

    def __post_init__(self) -> None:
        dtype = parse_type(self.type) if isinstance(self.type, str) else normalise_type(self.type)
        object.__setattr__(self, "type", dtype)


@dataclass(frozen=True)
class SpecContent:
    """The fields of a spec. namespace: the last group key is the window, BIGINT, which methods take as a namespace."""

    schema: pa.Schema
    group_by: tuple[str, ...] = ()
    calls: tuple[AggCall, ...] = ()
    input_changes: Changes = "retract"
    dialect: Dialect = "spark"
    computed: tuple[Computed, ...] = ()
    where: str | None = None
    having: str | None = None
    select: tuple[tuple[str, str], ...] | None = None
    namespace: bool = False

    @property
    def one_row(self) -> bool:
        """True if the result always has one row, even over an empty input: a global aggregate of dialect spark."""
        return not self.group_by and self.dialect == "spark"

    @cached_property
    def functions(self) -> tuple[Mapping[str, Any], ...]:
        """The definitions of the users' functions in it, as in its JSON."""
        entries = {c.function: entry_of(c) for c in self.calls}
        return tuple(
            definition.to_data(entry) for _, entry in sorted(entries.items()) if entry.user_defined
        )

    @cached_property
    def input_schema(self) -> pa.Schema:
        """The input columns followed by the computed ones."""
        return pa.schema([*self.schema, *(pa.field(c.name, c.type) for c in self.computed)])

    @cached_property
    def handler_schema(self) -> pa.Schema:
        """The columns that the handler reads: keys, then arguments and filters, in order of first use."""
        names = list(self.group_by)
        for call in self.calls:
            names += [*call.args, *(key.column for key in call.order_by)]
            names += [] if call.filter is None else [call.filter]
        return pa.schema([self.input_schema.field(name) for name in dict.fromkeys(names)])

    @cached_property
    def aggregate_schema(self) -> pa.Schema:
        """Columns that the operator emits: the keys and one for each call."""
        keys = [self.input_schema.field(name) for name in self.group_by]
        results = [pa.field(call.output_name, self.result_type(call)) for call in self.calls]
        return pa.schema([*keys, *results])

    @cached_property
    def output_schema(self) -> pa.Schema:
        """Columns that the user sees, after the final projection."""
        if self.select is None:
            return self.aggregate_schema
        fields = []
        for name, sql in self.select:
            dtype = expressions.infer_type(sql, self.aggregate_schema)
            fields.append(pa.field(name, dtype))
        return pa.schema(fields)

    def arg_types(self, call: AggCall) -> tuple[pa.DataType, ...]:
        """The types of the arguments of `call`."""
        return tuple(self.input_schema.field(name).type for name in call.args)

    def entry(self, call: AggCall) -> Aggregate:
        """The catalogue's entry of the function of `call`."""
        return entry_of(call)

    def result_type(self, call: AggCall) -> pa.DataType:
        """The type that `call` returns."""
        return result_type(call, self.arg_types(call), self.dialect)
