"""The checks that every spec passes when it is created: each message names the place, the cause and the fix."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Final

import pyarrow as pa

from aggloom.codegen.catalogue import registry as catalogue
from aggloom.codegen.catalogue.entry import Aggregate
from aggloom.codegen.scalar import expressions
from aggloom.codegen.scalar.function_names import check_function_names
from aggloom.codegen.spec.agg_call import AggCall
from aggloom.codegen.spec.call_types import entry_of, result_type
from aggloom.codegen.spec.choices import CHANGES, DIALECTS, NULLS
from aggloom.codegen.spec.content import SpecContent
from aggloom.codegen.spec.dtypes import VARIANT, is_supported, type_name
from aggloom.codegen.spec.function_check import check_function
from aggloom.codegen.spec.schemas import refuse_duplicates
from aggloom.codegen.user import definition
from aggloom.errors import (
    NotRetractableError,
    SpecError,
    TypeMismatchError,
    UnknownColumnError,
    nearest,
)

READS_STORED: Final = ContextVar("READS_STORED", default=False)
"""A stored spec is being read: the session that created it may know functions that this process does not."""


def check_choices(input_changes: str, dialect: str) -> None:
    """Raise SpecError for an unknown value of one of these options."""
    if input_changes not in CHANGES:
        hint = nearest(str(input_changes), CHANGES)
        raise SpecError(f"input_changes is {input_changes!r}. {hint}")
    if dialect not in DIALECTS:
        raise SpecError(f"dialect is {dialect!r}. {nearest(str(dialect), DIALECTS)}")


def check(spec: SpecContent) -> None:
    """Raise SpecError, or a subclass, for any fault of a spec that shows before a row is read."""
    _check_computed(spec)
    if not spec.group_by and not spec.calls:
        raise SpecError("the spec has neither keys nor calls; add a call such as AggCall('COUNT').")
    for name in spec.group_by:
        require_column(name, spec.input_schema, "group_by")
        require_supported(name, spec.input_schema, "group_by")
    if spec.namespace:
        _check_namespace(spec)
    refuse_duplicates(spec.group_by, "group_by names column {name!r} twice; drop one.")
    _refuse_two_meanings(spec)
    for call in spec.calls:
        check_call(call, spec.input_schema, spec.dialect)
        _check_retractable(call, spec)
    # Keys and results are columns of one row.
    names = [*spec.group_by, *(call.output_name for call in spec.calls)]
    refuse_duplicates(names, "two output columns are called {name!r}; give one call an alias.")
    _check_after(spec)


def _check_namespace(spec: SpecContent) -> None:
    if not spec.group_by or spec.input_schema.field(spec.group_by[-1]).type != pa.int64():
        raise SpecError(
            "namespace: the last of group_by must be the window's column, of type BIGINT; add it, or "
            "take namespace out."
        )


def _refuse_two_meanings(spec: SpecContent) -> None:
    """Raise SpecError if two calls of a function were created with different definitions of it."""
    meanings: dict[str, Aggregate | None] = {}
    for call in spec.calls:
        if meanings.setdefault(call.function, call.entry) != call.entry:
            raise SpecError(
                f"calls of {call.function} were made with two definitions of it; make them all after the last "
                "al.register."
            )


def _check_retractable(call: AggCall, spec: SpecContent) -> None:
    entry = spec.entry(call)
    instead = entry.instead
    if spec.input_changes != "retract":
        return
    lacking = definition.unretractable(entry, bool(call.order_by)) if entry.user_defined else ""
    if lacking:
        raise NotRetractableError(
            f"call {call.text}: {lacking}, or say input_changes='append' if the input only inserts."
        )
    if instead:
        raise NotRetractableError(
            f"call {call.text}: {call.function} cannot retract rows; use {instead}, "
            "or say input_changes='append' if the input only inserts."
        )


def check_call(call: AggCall, schema: pa.Schema, dialect: str) -> pa.DataType:
    """Return the result type of a call; raises SpecError, or a subclass, for a fault of any of its parts."""
    where = f"call {call.text}"
    # First: the checks below need the entry of the catalogue.
    if call.entry is None:
        check_function(call.function, where)
    for name in call.args:
        require_column(name, schema, where)
    _require_arguments(call, schema, where)
    _check_nulls(call, where)
    _check_order(call, schema, where)
    _check_separator(call, where)
    if call.monotonic and call.function not in ("MIN", "MAX"):
        raise SpecError(f"{where}: only MIN and MAX can be monotonic; take it out.")
    if call.filter is not None:
        require_column(call.filter, schema, f"filter of {call.text}")
        dtype = schema.field(call.filter).type
        if dtype != pa.bool_():
            raise TypeMismatchError(
                f"filter of {call.text}: column {call.filter!r} is {type_name(dtype)}; "
                f"a filter must be BOOLEAN, so write a comparison."
            )
    types = tuple(schema.field(name).type for name in call.args)
    try:
        return result_type(call, types, dialect)
    except SpecError as error:
        raise type(error)(f"{where}: {error}") from None


def _check_nulls(call: AggCall, where: str) -> None:
    if call.nulls is None:
        return
    if call.nulls not in NULLS:
        raise SpecError(f"{where}: nulls is {call.nulls!r}. {nearest(call.nulls, NULLS)}")
    entry = entry_of(call)
    if entry.nulls is None:
        fix = "take it out"
        if call.nulls == "ignore" and call.args:
            fix = f"take it out, or write FILTER (WHERE {call.args[0]} IS NOT NULL)"
        raise SpecError(f"{where}: {entry.name} takes no {call.nulls.upper()} NULLS; {fix}.")


def _check_order(call: AggCall, schema: pa.Schema, where: str) -> None:
    if not call.order_by:
        return
    entry = entry_of(call)
    if entry.ordered is None:
        why = "its rows come in order of arrival" if entry.by_arrival else "no order changes it"
        raise SpecError(f"{where}: {entry.name} takes no ORDER BY, for {why}; take it out.")
    for key in call.order_by:
        place = f"{where}, ORDER BY"
        require_column(key.column, schema, place)
        dtype = schema.field(key.column).type
        if pa.types.is_nested(dtype) or not is_supported(dtype):
            raise TypeMismatchError(
                f"{place}: column {key.column!r} is {type_name(dtype)}, which cannot be sorted by; "
                f"name a part of it, or cast it."
            )
        # Equal arguments count once: another column would have several values for one of them.
        if call.distinct and key.column not in call.args[: len(_columns(entry))]:
            fix = f"write ORDER BY {call.args[0]}, or take DISTINCT out" if call.args else ""
            raise SpecError(
                f"{where}: with DISTINCT, ORDER BY must be the argument itself, "
                f"not {key.column!r}; {fix}."
            )


def _check_separator(call: AggCall, where: str) -> None:
    """Raise SpecError for an option that is given as a column and as a constant."""
    entry = entry_of(call)
    names = {argument.name for argument in catalogue.arguments_of(entry, len(call.args))}
    for name, _ in call.options:
        if name in names:
            raise SpecError(f"{where}: {name} is given as a column and as a constant; drop one.")


def _columns(entry: Aggregate) -> list[str]:
    """The names of the aggregated arguments, without those that replace an option."""
    return [each.name for each in entry.arguments if entry.option(each.name) is None]


def require_column(name: str, schema: pa.Schema, where: str) -> None:
    """Raise UnknownColumnError unless the column exists."""
    # The index first: with many columns a list of all names for each is slow.
    if schema.get_field_index(name) < 0 and name not in schema.names:
        hint = nearest(name, schema.names)
        raise UnknownColumnError(f"{where}: there is no column {name!r}. {hint}")


def require_supported(name: str, schema: pa.Schema, where: str) -> None:
    """Raise TypeMismatchError unless the column's type is supported as a key or an argument."""
    dtype = schema.field(name).type
    if not is_supported(dtype):
        fix = "cast it, for example to STRING"
        if dtype == VARIANT:
            fix = f"take a part, as VARIANT_GET({name}, '$.a', 'STRING'), or its text, TO_JSON({name})"
        raise TypeMismatchError(
            f"{where}: column {name!r} is {type_name(dtype)}, which can be neither a key nor an argument; {fix}."
        )


def _require_arguments(call: AggCall, schema: pa.Schema, where: str) -> None:
    """Raise TypeMismatchError for an argument of a type without comparison, unless the function only carries it."""
    arguments = catalogue.arguments_of(entry_of(call), len(call.args))
    for place, name in enumerate(call.args):
        is_carried = place < len(arguments) and arguments[place].carried and not call.distinct
        if not (is_carried and schema.field(name).type == VARIANT):
            require_supported(name, schema, where)


def check_columns(sql: str, schema: pa.Schema, where: str) -> None:
    """Raise SpecError, or a subclass, for a column or a function of an expression that does not exist."""
    for name in expressions.columns_of(sql):
        require_column(name, schema, where)
    fault = check_function_names(expressions.parse_scalar(sql), stored=READS_STORED.get())
    if fault is not None:
        raise type(fault[1])(f"{where}: {fault[1]}")


def _check_computed(spec: SpecContent) -> None:
    names = [*spec.schema.names, *(column.name for column in spec.computed)]
    refuse_duplicates(names, "computed column {name!r} has the name of another; rename it.")
    for column in spec.computed:
        check_columns(column.sql, spec.schema, f"computed column {column.name!r}")
        expressions.require_repeatable(column.sql)
    if spec.where is not None:
        check_columns(spec.where, spec.schema, "where")
        _require_boolean(spec.where, spec.schema, "where")


def _check_after(spec: SpecContent) -> None:
    if spec.having is not None:
        check_columns(spec.having, spec.aggregate_schema, "having")
        _require_boolean(spec.having, spec.aggregate_schema, "having")
    if spec.select is None:
        return
    if not spec.select:
        raise SpecError("select is empty; leave it out to keep every column.")
    names = [name for name, _ in spec.select]
    refuse_duplicates(names, "two output columns are called {name!r}; give one an alias.")
    for name, sql in spec.select:
        check_columns(sql, spec.aggregate_schema, f"select {name!r}")
    assert spec.output_schema is not None


def _require_boolean(sql: str, schema: pa.Schema, where: str) -> None:
    dtype = expressions.infer_type(sql, schema)
    if dtype != pa.bool_():
        raise TypeMismatchError(f"{where}: {sql} is {type_name(dtype)}; it must be BOOLEAN.")
