"""What a user asks for, as data: frozen, hashable, checked when it is made, the same in text.

A spec names an input schema, the group keys and the aggregate calls. SQL, YAML and JSON are front
ends that build the same spec, and its digest is what a generated module is called by.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa

from aggloom.codegen.catalogue.entry import Aggregate
from aggloom.codegen.catalogue.registry import entry_of, find, result_type
from aggloom.codegen.scalar import expressions
from aggloom.codegen.spec import checks as spec_check
from aggloom.codegen.spec import text as spec_text
from aggloom.codegen.spec.agg_call import AggCall as AggCall
from aggloom.codegen.spec.dtypes import normalise_type, parse_schema, parse_type
from aggloom.codegen.spec.primary_key import without_primary_key
from aggloom.codegen.user import definition as own
from aggloom.codegen.user import trust as own_trust
from aggloom.errors import DuplicateNameError, SpecError, SqlError, TypeMismatchError

SchemaLike = Any
"""DDL text, a pyarrow Schema, a Spark StructType or DataFrame, or a mapping of names to types."""

# How many keys and calls, and how many characters of them, a spec shows of itself.
_SHOWN, _WIDEST = 8, 120


@dataclass(frozen=True)
class Computed:
    """A scalar SQL expression over the input, evaluated before the handler sees the row."""

    name: str
    sql: str
    type: pa.DataType

    def __post_init__(self) -> None:
        dtype = parse_type(self.type) if isinstance(self.type, str) else normalise_type(self.type)
        object.__setattr__(self, "type", dtype)


@dataclass(frozen=True, repr=False)
class AggSpec:
    """A grouped aggregation over a changelog; wrong names and types are refused on construction.

    namespace: the last group key is the window, BIGINT; the generated handler's methods take it as a namespace.
    """

    schema: pa.Schema
    group_by: tuple[str, ...] = ()
    calls: tuple[AggCall, ...] = ()
    input_changes: Literal["append", "retract"] = "retract"
    dialect: Literal["spark", "flink"] = "spark"
    computed: tuple[Computed, ...] = ()
    where: str | None = None
    having: str | None = None
    select: tuple[tuple[str, str], ...] | None = None
    namespace: bool = False

    def __post_init__(self) -> None:
        spec_check.check_choices(self.input_changes, self.dialect)
        group_by = (self.group_by,) if isinstance(self.group_by, str) else tuple(self.group_by)
        calls = (self.calls,) if isinstance(self.calls, AggCall) else tuple(self.calls)
        object.__setattr__(self, "schema", to_schema(self.schema, self.dialect))
        object.__setattr__(self, "group_by", group_by)
        # A call may be older than the registration of its function.
        calls = tuple(c if c.entry or not find(c.function) else replace(c) for c in calls)
        object.__setattr__(self, "calls", calls)
        object.__setattr__(self, "computed", tuple(self.computed))
        if self.select is not None:
            pairs = self.select.items() if isinstance(self.select, Mapping) else self.select
            object.__setattr__(self, "select", tuple((name, sql) for name, sql in pairs))
        self._lower_filters()
        spec_check.check(self)

    def __hash__(self) -> int:
        return hash(self.to_json())

    def __repr__(self) -> str:
        """One line: what is counted by what, over what, and the digest that tells it from others."""
        calls = ", ".join(call.text for call in self.calls[:_SHOWN])
        keys = ", ".join(self.group_by[:_SHOWN]) or "nothing"
        more = [len(self.calls) - _SHOWN, len(self.group_by) - _SHOWN]
        calls += f", and {more[0]} more" if more[0] > 0 else ""
        keys += f", and {more[1]} more" if more[1] > 0 else ""
        what = f"{calls or 'no calls'} by {keys}"
        what = what if len(what) <= _WIDEST else f"{what[: _WIDEST - 3]}..."
        return f"<AggSpec {self.digest}: {what}; {self.input_changes}, {self.dialect}>"

    @classmethod
    def from_sql(
        cls,
        sql: str,
        schema: SchemaLike,
        input_changes: Literal["append", "retract"] = "retract",
        dialect: Literal["spark", "flink"] = "spark",
    ) -> AggSpec:
        """The spec of a single `SELECT ... FROM t [WHERE] [GROUP BY] [HAVING]`."""
        from aggloom.codegen.sql.query import parse

        if not isinstance(sql, str):
            raise SqlError(f"the SQL is a {type(sql).__name__}; give a text, as in 'SELECT ...'.")
        return parse(sql, schema, input_changes, dialect)

    @classmethod
    def from_json(cls, text: str, *, trust: bool = False) -> AggSpec:
        """The spec that `to_json` wrote; trust: let the Python source of functions in it run in this process."""
        return spec_text.build(cls, spec_text.load_json(text), "JSON", trust)

    @classmethod
    def from_yaml(cls, source: str | Path, *, trust: bool = False) -> AggSpec:
        """A spec from YAML text, or from the YAML file of that path; trust: as in `from_json`."""
        return spec_text.build(cls, spec_text.load_yaml(source), "YAML", trust)

    def to_json(self) -> str:
        """Canonical JSON: equal specs give equal text."""
        return self._json

    def to_yaml(self) -> str:
        """The same content as YAML, in reading order."""
        return spec_text.dump_yaml(self)

    @property
    def digest(self) -> str:
        """Sixteen hex digits that stand for exactly this spec."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()[:16]

    @property
    def one_row(self) -> bool:
        """Whether its table is one row at all times, over no rows too: a global aggregate of dialect spark."""
        return not self.group_by and self.dialect == "spark"

    @cached_property
    def functions(self) -> tuple[Mapping[str, Any], ...]:
        """The definitions of the users' functions in it, as the data that its text holds."""
        entries = {c.function: entry_of(c) for c in self.calls}
        return tuple(own.to_data(entry) for _, entry in sorted(entries.items()) if entry.own)

    @property
    def untrusted(self) -> tuple[str, ...]:
        """The users' functions in it whose Python source may not run here (`from_json`, trust)."""
        return own_trust.untrusted(entry_of(call) for call in self.calls)

    @cached_property
    def input_schema(self) -> pa.Schema:
        """The input columns followed by the computed ones."""
        return pa.schema([*self.schema, *(pa.field(c.name, c.type) for c in self.computed)])

    @cached_property
    def handler_schema(self) -> pa.Schema:
        """Only what the handler reads: keys, then arguments and filters, in order of first use."""
        names = list(self.group_by)
        for call in self.calls:
            names += [*call.args, *(key.column for key in call.order_by)]
            names += [] if call.filter is None else [call.filter]
        return pa.schema([self.input_schema.field(name) for name in dict.fromkeys(names)])

    @cached_property
    def aggregate_schema(self) -> pa.Schema:
        """What the operator emits: the keys and one column for each call."""
        keys = [self.input_schema.field(name) for name in self.group_by]
        results = [pa.field(call.output_name, self.result_type(call)) for call in self.calls]
        return pa.schema([*keys, *results])

    @cached_property
    def output_schema(self) -> pa.Schema:
        """What the user sees, after the final projection."""
        if self.select is None:
            return self.aggregate_schema
        fields = []
        for name, sql in self.select:
            dtype = expressions.infer_type(sql, self.aggregate_schema, self.dialect)
            fields.append(pa.field(name, dtype))
        return pa.schema(fields)

    def arg_types(self, call: AggCall) -> tuple[pa.DataType, ...]:
        """The types of a call's arguments."""
        return tuple(self.input_schema.field(name).type for name in call.args)

    def entry(self, call: AggCall) -> Aggregate:
        """The catalogue's entry of a call's function."""
        return entry_of(call)

    def result_type(self, call: AggCall) -> pa.DataType:
        """The type that a call returns."""
        return result_type(call, self.arg_types(call), self.dialect)

    @cached_property
    def _json(self) -> str:
        return spec_text.dump_json(self)

    def _lower_filters(self) -> None:
        """A filter that is a predicate, not a column, becomes a computed BOOLEAN of that text."""
        known = {*self.schema.names, *(column.name for column in self.computed)}
        added = []
        for call in self.calls:
            if call.filter is None or call.filter in known:
                continue
            spec_check.check_columns(call.filter, self.schema, f"filter of {call.text}")
            dtype = expressions.infer_type(call.filter, self.schema, self.dialect)
            if dtype != pa.bool_():
                raise TypeMismatchError(f"{call.text}: the filter must be BOOLEAN, not {dtype}.")
            added.append(Computed(call.filter, call.filter, dtype))
            known.add(call.filter)
        object.__setattr__(self, "computed", (*self.computed, *added))


def to_schema(schema: SchemaLike, dialect: str = "spark") -> pa.Schema:
    """Any description of columns as an Arrow schema of normalised, nullable fields."""
    if isinstance(schema, str):
        schema = parse_schema(without_primary_key(schema)[0], dialect)
    elif isinstance(schema, Mapping):
        schema = pa.schema([(name, _to_type(kind, dialect)) for name, kind in schema.items()])
    elif not isinstance(schema, pa.Schema):
        schema = _from_spark(schema)
    _refuse_duplicates(schema.names)
    return pa.schema([pa.field(field.name, normalise_type(field.type)) for field in schema])


def _from_spark(schema: Any) -> pa.Schema:
    # Told by its shape, so that this layer never imports pyspark.
    struct = getattr(schema, "schema", schema)
    if not hasattr(struct, "fields"):
        kind = type(schema).__name__
        raise SpecError(f"schema: a {kind} is none; give DDL text such as 'name STRING, cnt INT'.")
    fields = []
    for field in struct.fields:
        try:
            dtype = parse_type(field.dataType.simpleString())
        except SpecError:
            # A type that no key or argument may have: kept under its name, as a struct of nothing.
            dtype = pa.struct([])
        fields.append(pa.field(field.name, dtype))
    return pa.schema(fields)


def _to_type(kind: str | pa.DataType, dialect: str) -> pa.DataType:
    return parse_type(kind, dialect) if isinstance(kind, str) else kind


def _refuse_duplicates(names: Iterable[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise DuplicateNameError(f"schema: column {name!r} occurs twice; rename one.")
        seen.add(name)
