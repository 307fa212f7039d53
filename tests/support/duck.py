"""DuckDB's results over net rows, by the `oracle` of each call's entry."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from functools import cache
from typing import Any

import duckdb
import pyarrow as pa
from model import UNJUDGED, is_moment, respects_nulls
from reference import Row, as_result, average_of, wrap, zero

from aggloom.codegen import AggCall, AggSpec
from aggloom.codegen.catalogue.registry import CATALOGUE, arguments_of, options_of

_SUMS = ("SUM", "SUM0", "AVG")
_TAME = 1000.0


def quoted(name: str) -> str:
    """A name as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def judges(spec: AggSpec, call: AggCall, rows: Sequence[Row]) -> bool:
    """Tell whether DuckDB computes the call as defined: no order but that of the rows, no NULLs, no error on
    extremes.
    """
    entry = CATALOGUE[call.function]
    given = {argument.name for argument in arguments_of(entry, len(call.args))}
    if not entry.oracle or call.order_by or "frequency" in given:
        return False
    if respects_nulls(call, entry, spec.dialect) or "separator" in given:
        return False
    if call.distinct and (entry.by_arrival or len(call.args) != 1):
        return False
    if (
        call.distinct
        and "::DOUBLE" in entry.oracle
        and pa.types.is_decimal(spec.arg_types(call)[0])
    ):
        # Decimals that differ may be the same double.
        return False
    if any(pa.types.is_nested(kind) for kind in spec.arg_types(call)):
        return False
    if entry.name == "LISTAGG" and not pa.types.is_string(spec.arg_types(call)[0]):
        return False
    if not is_moment(entry) and entry.name != "PRODUCT":
        return True
    places = [spec.schema.names.index(name) for name in call.args]
    values = [row[place] for row in rows for place in places if row[place] is not None]
    return all(math.isfinite(v) and (v == 0 or 1e-3 < abs(v) < _TAME) for v in map(float, values))


def duckdb_table(spec: AggSpec, net_rows: Sequence[Row]) -> list[Row]:
    """Keys and results of every group; UNJUDGED where DuckDB has no say."""
    data = pa.Table.from_pylist(
        [dict(zip(spec.schema.names, row, strict=True)) for row in net_rows], schema=spec.schema
    )
    judged = [judges(spec, call, net_rows) for call in spec.calls]
    parts = [quoted(name) for name in spec.group_by]
    for call, known in zip(spec.calls, judged, strict=True):
        parts += _select_items(spec, call) if known else ["NULL"]
    grouping = ", ".join(quoted(name) for name in spec.group_by)
    group_by = f"GROUP BY {grouping}" if grouping else ""
    having = f"HAVING COUNT(*) {'>=' if spec.one_row else '>'} 0"
    sql = f"SELECT {', '.join(parts)} FROM data {group_by} {having}"
    connection = _connection()
    connection.register("data", data)
    answer = connection.sql(sql).to_arrow_table()
    connection.unregister("data")
    columns = [column.to_pylist() for column in answer.columns]
    return [_row(spec, row, judged) for row in zip(*columns, strict=True)]


@cache
def _connection() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'; SET threads = 1")
    return connection


def _select_items(spec: AggSpec, call: AggCall) -> list[str]:
    entry = CATALOGUE[call.function]
    named = {
        argument.name: quoted(column)
        for argument, column in zip(entry.arguments, call.args, strict=False)
    }
    options = options_of(entry, dict(call.options), spec.dialect)
    values = {name: _literal(value) for name, value in options.items()}
    templates = [entry.oracle]
    if entry.name in _SUMS:
        # The parts: DuckDB's own mean of integers is a DOUBLE, and its sums do not wrap.
        templates = ["sum({x})", "count({x})"]
    if call.function == "COUNT" and len(call.args) != 1:
        needed = " AND ".join(f"{quoted(column)} IS NOT NULL" for column in call.args)
        templates = [f"count(*) FILTER (WHERE {needed or 'TRUE'})"]
    return [_call(template.format(**named, **values), call) for template in templates]


def _literal(value: Any) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(_literal, value))}]"
    return value.replace("'", "''") if isinstance(value, str) else str(value)


def _call(text: str, call: AggCall) -> str:
    """The oracle's call with DISTINCT and FILTER put where they belong."""
    if call.distinct and "(DISTINCT" not in text:
        at = (
            text.index("(", text.rindex("coalesce(") + 9)
            if "coalesce(" in text
            else text.index("(")
        )
        text = f"{text[: at + 1]}DISTINCT {text[at + 1 :]}"
    if call.filter is None:
        return text
    condition = quoted(call.filter)
    if "FILTER (WHERE " in text:
        return text.replace("FILTER (WHERE ", f"FILTER (WHERE {condition} AND ")
    if text.startswith("coalesce("):
        return text.replace("), ", f") FILTER (WHERE {condition}), ", 1)
    return f"{text} FILTER (WHERE {condition})"


def _row(spec: AggSpec, row: Row, judged: list[bool]) -> Row:
    width = len(spec.group_by)
    out, rest = list(row[:width]), iter(row[width:])
    for call, known in zip(spec.calls, judged, strict=True):
        value = next(rest)
        if not known:
            out.append(UNJUDGED)
        elif call.function in _SUMS:
            out.append(_sum(spec, call, value, next(rest)))
        else:
            out.append(_fit_value(value, spec.result_type(call)))
    return tuple(out)


def _sum(spec: AggSpec, call: AggCall, summed: Any, count: int) -> Any:
    kind = spec.schema.field(call.args[0]).type
    if count == 0:
        return zero(kind) if call.function == "SUM0" else None
    if pa.types.is_integer(kind):
        summed = int(summed)
        width = 64 if call.function == "AVG" else kind.bit_width
        summed = wrap(summed, width) if spec.dialect == "flink" else summed
    return average_of(summed, count, kind, spec.dialect) if call.function == "AVG" else summed


def _fit_value(value: Any, kind: pa.DataType) -> Any:
    """DuckDB's value as the declared type would show it."""
    if isinstance(value, float) and not pa.types.is_floating(kind):
        return as_result(value, kind)
    if pa.types.is_floating(kind) and isinstance(value, int | Decimal):
        return float(value)
    if pa.types.is_map(kind) and value is not None:
        return list(value.items()) if isinstance(value, dict) else list(value)
    if pa.types.is_list(kind) and value is not None:
        return [_fit_value(inner, kind.value_type) for inner in value]
    return value
