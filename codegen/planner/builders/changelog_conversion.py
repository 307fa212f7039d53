"""TO_CHANGELOG and FROM_CHANGELOG in FROM become nodes without state; upserts of a log are completed by their key."""

from __future__ import annotations

from typing import Protocol

import pyarrow as pa
from sqlglot import exp

from aggloom.codegen.operators import FromChangelog, Node, ToChangelog, normalise_rows, pick
from aggloom.codegen.operators.changelog_conversion import KIND_WORDS
from aggloom.codegen.planner.notes import Notes
from aggloom.codegen.planner.options import PlanOptions
from aggloom.codegen.planner.rules.windows import windows
from aggloom.codegen.spec.dtypes import type_name
from aggloom.codegen.sql.changelog_calls import ChangelogArguments, changelog_arguments
from aggloom.codegen.sql.errors import place_error
from aggloom.codegen.sql.scope import Scope, bare
from aggloom.codegen.sql.window_parser import WindowCall
from aggloom.errors import DuplicateNameError, SqlError, TypeMismatchError


class TableBuilder(Protocol):
    """The builder of the blocks of a query."""

    dialect: str
    options: PlanOptions

    def relation(self, source: exp.Expression) -> tuple[Node, set[str]]: ...


def plan_changelog_conversion(builder: TableBuilder, call: WindowCall) -> Node:
    """The plan of TO_CHANGELOG or FROM_CHANGELOG; raises SqlError and its kin.

    The columns of PARTITION BY come first, as in Flink.
    """
    arguments = changelog_arguments(call)
    table = arguments.table.this
    rows, names = builder.relation(table)
    scope = Scope(rows.schema, builder.dialect, names | {table.alias_or_name})
    keys = [_find_column(scope, key, key) for key in arguments.partition]
    logs = call.name == "TO_CHANGELOG"
    node = (
        _to_changelog(rows, arguments)
        if logs
        else _from_changelog(builder, rows, arguments, scope, keys)
    )
    return pick(node, list(dict.fromkeys([*keys, *node.schema.names])))


def _to_changelog(rows: Node, arguments: ChangelogArguments) -> Node:
    folded = {name.casefold() for name in rows.schema.names}
    if arguments.op.casefold() in folded:
        message = (
            f"TO_CHANGELOG: its table has a column {arguments.op!r} already; name the column of operations "
            "otherwise: op => DESCRIPTOR(op_code)."
        )
        raise place_error(DuplicateNameError(message), arguments.op_place)
    codes = tuple((code, KIND_WORDS[kind]) for code, kind in arguments.codes)
    return ToChangelog(rows, arguments.op, codes)


def _from_changelog(
    builder: TableBuilder, rows: Node, arguments: ChangelogArguments, scope: Scope, keys: list[str]
) -> Node:
    # Whether an aggregate in windows retracts rows is known only when its windows are. The plan is thrown away.
    if not windows(rows, builder.options, Notes()).appends_only:
        raise arguments.error(
            "needs a table that only grows, and this one may retract rows; declare it append-only "
            "(input_changes='append', on Spark also change_column=None), or make a log of it with TO_CHANGELOG",
            arguments.table,
        )
    op = _find_op(rows, arguments, scope)
    if op in keys:
        raise arguments.error(f"has its op column {op!r} in PARTITION BY; take it out there")
    kinds = {kind for _, kind in arguments.codes}
    codes = tuple((code, KIND_WORDS[kind]) for code, kind in arguments.codes)
    # With both halves, or without updates, the log says each change in whole.
    if "UPDATE_AFTER" not in kinds or "UPDATE_BEFORE" in kinds:
        return FromChangelog(rows, op, codes, skips=arguments.skips)
    if not keys:
        raise arguments.error(
            "maps UPDATE_AFTER and nothing to UPDATE_BEFORE, so that it needs the key by which rows are replaced; "
            "write input => TABLE t PARTITION BY and its columns"
        )
    # An update without the row before is an upsert by the key.
    return normalise_rows(FromChangelog(rows, op, codes, tuple(keys), arguments.skips), tuple(keys))


def _find_op(rows: Node, arguments: ChangelogArguments, scope: Scope) -> str:
    """The column of operations as the table calls it; raises TypeMismatchError unless it holds texts."""
    op = _find_column(scope, exp.column(arguments.op), arguments.op_place)
    dtype = rows.schema.field(op).type
    if not pa.types.is_string(dtype):
        message = (
            f"FROM_CHANGELOG: its op column {op!r} is {type_name(dtype)}; it holds texts: name another one, or "
            "CAST it to STRING."
        )
        raise place_error(TypeMismatchError(message), arguments.op_place)
    return op


def _find_column(scope: Scope, column: exp.Expression, place: exp.Expression) -> str:
    """The name of a column as the table spells it; raises SqlError for what is none."""
    with scope.at(place):
        node = bare(scope.resolve(column))
        scope.require_columns(node)
        if not isinstance(node, exp.Column):
            raise SqlError(
                "PARTITION BY takes columns of the table; compute others in a sub-query."
            )
    return str(node.name)
