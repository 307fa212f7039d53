"""The table functions that every query may call: the types of their arguments, and the columns of their answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

import pyarrow as pa
from sqlglot import exp

from aggloom.codegen.operators import Series, Shape, Stack, Unnest
from aggloom.codegen.planner.builders.planned_call import Argument, Make, PlannedCall
from aggloom.codegen.scalar.operand_types import common
from aggloom.codegen.scalar.result_types import infer
from aggloom.codegen.spec.dtypes import type_name
from aggloom.codegen.sql.errors import place_error, refusal, span
from aggloom.codegen.sql.scope import Scope, bare
from aggloom.codegen.sql.shape import check_expression
from aggloom.codegen.sql.table_calls import EMITTED, TableFunction
from aggloom.errors import AggloomError, SqlError, TypeMismatchError, UnsupportedExpressionError

Column = tuple[str, pa.DataType]
_HIGHEST: Final = 4096
"""Rows that STACK makes of one at most: each is written out in the plan."""
_PATH_WORDS: Final = frozenset("'\"[]\\")


class CallArguments:
    """The arguments of a call: resolved, checked, and with their types."""

    def __init__(self, function: TableFunction, scope: Scope) -> None:
        self.function, self.name, self.scope = function, function.name, scope
        self.nodes = [self._resolve(each) for each in function.arguments]

    def _resolve(self, node: exp.Expression) -> exp.Expression:
        if any(isinstance(part, exp.Query) for part in node.walk()):
            fix = "compute it in a sub-query in FROM"
            raise refusal(node, f"a sub-query inside {self.name} is", fix)
        if self._is_series(node):
            return node
        resolved = bare(self.scope.resolve(node))
        check_expression(resolved)
        return resolved

    def _is_series(self, node: exp.Expression) -> bool:
        return (
            self.name == "UNNEST"
            and isinstance(node, exp.Anonymous)
            and node.name.upper() == "GENERATE_SERIES"
        )

    @property
    def series(self) -> CallArguments | None:
        """The arguments of GENERATE_SERIES, where UNNEST has nothing else."""
        nodes = self.function.arguments
        if len(nodes) != 1 or not self._is_series(nodes[0]):
            return None
        inner = TableFunction(nodes[0], "GENERATE_SERIES", tuple(nodes[0].expressions))
        return CallArguments(inner, self.scope)

    def type_of(self, node: exp.Expression) -> pa.DataType:
        """The type of an argument."""
        with self.scope.at(node if span(node) else self.function.place):
            if self._is_series(node):
                raise UnsupportedExpressionError(
                    "GENERATE_SERIES beside other arguments of UNNEST is not supported; write SEQUENCE."
                )
            # Dialect flink divides otherwise, which may be another type.
            flink = self.scope.flink_divisions(node.copy(), self.scope.types)
            return infer(flink, self.scope.types)

    def take(self, least: int, most: int | None = None) -> list[exp.Expression]:
        """The arguments, if there are as many; raises SqlError."""
        count = len(self.nodes)
        if count < least or (most is not None and count > most):
            number = (
                f"{least}"
                if most == least
                else f"{least} to {most}" if most else f"{least} or more"
            )
            message = f"{self.name} takes {number} arguments, not {count}; give it as many."
            raise place_error(SqlError(message), self.function.place)
        return self.nodes

    def refuse_numbering(self, what: str, node: exp.Expression) -> AggloomError:
        """The error of entries of a MAP that are numbered, of rows that may be retracted."""
        fix = "its entries have no order, so that a retraction could number them otherwise; unnest an array"
        place = node if span(node) else self.function.place
        return refusal(place, f"{what} over changes is", fix)

    def wrong_type(
        self, node: exp.Expression, needed: str, dtype: pa.DataType
    ) -> TypeMismatchError:
        """The error of an argument of another type."""
        message = f"{self.name} needs {needed}, not {type_name(dtype)}; give it one."
        place = node if span(node) else self.function.place
        return place_error(TypeMismatchError(message), place)


def _unnest(call_arguments: CallArguments) -> PlannedCall:
    series = call_arguments.series
    if series is not None:
        call = _generate_series(series)
        columns: list[Column] = [("f0", call.answers.types[0])]
        return _number_rows(call_arguments, call.arguments, columns, call.make)
    nodes = call_arguments.take(1)
    # Names that the query gives, without that of the ordinality.
    names = len(call_arguments.function.columns) - call_arguments.function.ordinality
    columns, shapes = [], list[Shape]()
    obstacle: AggloomError | None = None
    arguments = [(node, call_arguments.type_of(node)) for node in nodes]
    for node, dtype in arguments:
        single = len(nodes) == 1 and names == 1
        if pa.types.is_map(dtype) and (len(nodes) > 1 or call_arguments.function.ordinality):
            beside = len(nodes) > 1
            what = "a MAP beside other arguments" if beside else "WITH ORDINALITY of a MAP"
            # Kept, and raised only when the rows turn out to be retracted: the entries of a map have no order, so a
            # retraction might number them otherwise.
            obstacle = obstacle or call_arguments.refuse_numbering(
                f"{what} of UNNEST" if beside else what, node
            )
        if pa.types.is_list(dtype) and pa.types.is_struct(dtype.value_type):
            shapes.append("rows")
            columns += _row_columns(dtype.value_type)
        elif pa.types.is_list(dtype):
            columns.append((f"f{len(columns)}", dtype.value_type))
            shapes.append("items")
        elif _is_multiset(dtype, single):
            columns += _row_columns(dtype.key_type)
            shapes.append("counted")
        elif pa.types.is_map(dtype):
            columns += [("KEY", dtype.key_type), ("VALUE", dtype.item_type)]
            shapes.append("pairs")
        else:
            raise call_arguments.wrong_type(node, "an ARRAY, a MAP or a MULTISET", dtype)
    call = _number_rows(call_arguments, tuple(arguments), columns, _make_unnest("UNNEST", shapes))
    return replace(call, obstacle=obstacle)


def _is_multiset(dtype: pa.DataType, single: bool) -> bool:
    """Tell whether a MAP of values to counts is unnested as a MULTISET: that of rows, and where one name is given."""
    # Flink's MULTISET is a MAP of values to counts here: the query shows which of the two it means.
    counts = pa.types.is_map(dtype) and pa.types.is_integer(dtype.item_type)
    return counts and (single or pa.types.is_struct(dtype.key_type))


def _row_columns(dtype: pa.DataType) -> list[Column]:
    """The columns that values of a type become: the fields of a ROW."""
    if pa.types.is_struct(dtype):
        return [(each.name, each.type) for each in dtype]
    return [("f0", dtype)]


def _number_rows(
    call: CallArguments, arguments: tuple[Argument, ...], columns: list[Column], make: Make
) -> PlannedCall:
    """A call whose rows are numbered from 1, in a column after the others, if that is asked for."""
    if not call.function.ordinality:
        return PlannedCall("UNNEST", arguments, pa.schema(columns), make)
    whole = pa.schema([*columns, ("ORDINALITY", pa.int32())])
    return PlannedCall("UNNEST", arguments, whole, make, number=len(columns))


def _make_unnest(name: str, shapes: Sequence[Shape]) -> Make:
    chosen = tuple(shapes)
    return lambda arguments, answers, ordinality: Unnest(
        name, arguments, answers, chosen, ordinality=ordinality
    )


def _explode(call: CallArguments) -> PlannedCall:
    (node,) = call.take(1, 1)
    dtype = call.type_of(node)
    # POSEXPLODE and POSEXPLODE_OUTER.
    numbered = call.name.startswith("POS")
    shape: Shape = "items"
    if pa.types.is_list(dtype):
        columns: list[Column] = [("col", dtype.value_type)]
    elif pa.types.is_map(dtype):
        columns, shape = [("key", dtype.key_type), ("value", dtype.item_type)], "pairs"
    else:
        raise call.wrong_type(node, "an ARRAY or a MAP", dtype)
    unordered = numbered and shape == "pairs"
    whole = [("pos", pa.int32()), *columns] if numbered else columns
    make = _make_unnest(call.name, [shape])
    return PlannedCall(
        call.name,
        ((node, dtype),),
        pa.schema(whole),
        make,
        number=0 if numbered else None,
        numbers_from=0,
        is_outer=call.name.endswith("_OUTER"),
        obstacle=call.refuse_numbering(f"{call.name} of a MAP", node) if unordered else None,
    )


def _inline(call: CallArguments) -> PlannedCall:
    (node,) = call.take(1, 1)
    dtype = call.type_of(node)
    if not (pa.types.is_list(dtype) and pa.types.is_struct(dtype.value_type)):
        raise call.wrong_type(node, "an ARRAY of STRUCT", dtype)
    columns = pa.schema(list(dtype.value_type))
    make = _make_unnest(call.name, ["rows"])
    outer = call.name.endswith("_OUTER")
    return PlannedCall(call.name, ((node, dtype),), columns, make, is_outer=outer)


def _emit_rows(arguments: CallArguments) -> PlannedCall:
    """The rows of a table aggregate; an update retracts and brings those alone in which its halves differ."""
    call = _inline(arguments)
    return replace(call, make=_make_unnest("emitValue", ["rows"]), nets_updates=True)


def _stack(call: CallArguments) -> PlannedCall:
    count, *nodes = call.take(2)
    text = count.name if isinstance(count, exp.Literal) and not count.is_string else ""
    if not text.isdigit() or not 1 <= int(text) <= _HIGHEST:
        message = f"STACK needs a number of rows first, 1 to {_HIGHEST}; write STACK(2, a, b)."
        raise place_error(SqlError(message), call.function.place)
    # Rounded up; the places that are left in the last row are NULL, as in Spark.
    width = -(-len(nodes) // int(text))
    nodes += [exp.null() for _ in range(width * int(text) - len(nodes))]
    types = []
    for place in range(width):
        # Every width-th value: the arguments come row by row, and this is one column.
        own = nodes[place::width]
        with call.scope.at(call.function.place):
            dtype = common([call.type_of(each) for each in own], own[0])
            if pa.types.is_null(dtype):
                raise UnsupportedExpressionError("NULL has no type; write CAST(NULL AS type).")
        types.append(dtype)
    arguments = tuple((node, types[place % width]) for place, node in enumerate(nodes))
    columns = pa.schema([(f"col{place}", dtype) for place, dtype in enumerate(types)])
    return PlannedCall(call.name, arguments, columns, _make_stack(call.name))


def _make_stack(name: str) -> Make:
    return lambda arguments, answers, ordinality: Stack(
        name, arguments, answers, ordinality=ordinality
    )


def _json_tuple(invocation: CallArguments) -> PlannedCall:
    text, *fields = invocation.take(2)
    dtype = invocation.type_of(text)
    if not pa.types.is_string(dtype):
        raise invocation.wrong_type(text, "a STRING", dtype)
    arguments = []
    for each in fields:
        name = each.name if isinstance(each, exp.Literal) and each.is_string else None
        # The name becomes a part of a JSON path, which has no way to write these.
        if not name or _PATH_WORDS & set(name):
            fix = "write names of fields in quotes, without brackets, quotes and backslashes"
            raise refusal(invocation.function.place, "this name of a field in JSON_TUPLE is", fix)
        path = exp.Literal.string(f"$['{name}']")
        # One row for each text, of one value a field: a STACK of height 1.
        call = exp.Anonymous(this="GET_JSON_OBJECT", expressions=[text.copy(), path])
        arguments.append((call, pa.string()))
    columns = pa.schema([(f"c{place}", pa.string()) for place in range(len(fields))])
    return PlannedCall(invocation.name, tuple(arguments), columns, _make_stack(invocation.name))


def _generate_series(call: CallArguments) -> PlannedCall:
    nodes = call.take(2, 3)
    return _series(call, nodes, "generate_series", False)


def _range(call: CallArguments) -> PlannedCall:
    nodes = call.take(1, 3)
    # RANGE(n) begins with 0, as Spark's.
    nodes = [exp.Literal.number(0), *nodes] if len(nodes) == 1 else nodes
    return _series(call, nodes, "id", True)


def _series(
    call: CallArguments, nodes: list[exp.Expression], column: str, open_end: bool
) -> PlannedCall:
    """Numbers of the widest type of the arguments; those of RANGE are BIGINT."""
    nodes = [*nodes, exp.Literal.number(1)] if len(nodes) == 2 else nodes
    types = [call.type_of(node) for node in nodes]
    for node, dtype in zip(nodes, types, strict=True):
        if not pa.types.is_integer(dtype):
            raise call.wrong_type(node, "whole numbers", dtype)
    wide = pa.int64() if open_end else common(types, nodes[0])
    make: Make = lambda arguments, answers, ordinality: Series(  # noqa: E731
        call.name, arguments, answers, open_end, ordinality=ordinality
    )
    arguments = tuple((node, wide) for node in nodes)
    return PlannedCall(call.name, arguments, pa.schema([(column, wide)]), make)


def _sequence(call: CallArguments) -> PlannedCall:
    """SEQUENCE(a, b) in FROM is the array that it gives, unnested."""
    nodes = call.take(2, 3)
    whole = exp.Anonymous(this="SEQUENCE", expressions=[each.copy() for each in nodes])
    dtype = call.type_of(whole)
    columns = pa.schema([("col", dtype.value_type)])
    return PlannedCall(call.name, ((whole, dtype),), columns, _make_unnest(call.name, ["items"]))


FUNCTIONS: Final[dict[str, Callable[[CallArguments], PlannedCall]]] = {
    "UNNEST": _unnest,
    **dict.fromkeys(("EXPLODE", "EXPLODE_OUTER", "POSEXPLODE", "POSEXPLODE_OUTER"), _explode),
    EMITTED: _emit_rows,
    **dict.fromkeys(("INLINE", "INLINE_OUTER"), _inline),
    "STACK": _stack,
    "JSON_TUPLE": _json_tuple,
    "GENERATE_SERIES": _generate_series,
    "RANGE": _range,
    "SEQUENCE": _sequence,
}
NAMED_BY_ALIAS: Final = ("UNNEST", "GENERATE_SERIES", "SEQUENCE")
