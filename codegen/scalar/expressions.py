"""Scalar SQL around the handler: what type it has, and its value without Spark.

`prepare` does what stands before the handler (WHERE, computed columns), `finish` what stands after
it (HAVING, the final projection). On Spark the same expressions are Spark's own business.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError

from aggloom.codegen.scalar.changing import STORED, changes, differs
from aggloom.codegen.scalar.evaluate import evaluate_node
from aggloom.codegen.scalar.result_types import infer, unsupported
from aggloom.codegen.sql.depth import check_nesting, deep
from aggloom.codegen.sql.errors import syntax_error
from aggloom.errors import UnknownColumnError, nearest

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from aggloom.codegen.spec.agg_spec import AggSpec

UPDATE_BEFORE, UPDATE_AFTER = 1, 2
INSERT, DELETE = 0, 3


@lru_cache(maxsize=16_384)
def parse_scalar(sql: str) -> exp.Expression:
    """The syntax tree of one scalar expression; callers must not change it."""
    check_nesting(sql)
    try:
        return deep(lambda: parse_one(sql, dialect="spark"))
    except SqlglotError as error:
        raise syntax_error(sql, error) from None


def quoted(name: str) -> str:
    """The column of this exact name, as Spark SQL."""
    text: str = exp.column(exp.to_identifier(name, quoted=True)).sql("spark")
    return text


def columns(sql: str) -> tuple[str, ...]:
    """The column names that an expression mentions, in order of first mention."""
    found = parse_scalar(sql).find_all(exp.Column, bfs=False)
    return tuple(dict.fromkeys(column.name for column in found))


def infer_type(sql: str, schema: pa.Schema, dialect: str = "spark") -> pa.DataType:
    """The type of an expression over these columns; scalar rules are Spark's in both dialects."""
    node = parse_scalar(sql)
    _require_columns(sql, schema)
    require_repeatable(sql)
    types = dict(zip(schema.names, schema.types, strict=True))
    dtype = deep(lambda: infer(node, types))
    if pa.types.is_null(dtype):
        raise unsupported(node, "its type cannot be told; write CAST(... AS type) around it.")
    return dtype


def require_repeatable(sql: str) -> None:
    """Raise if the value of an expression does not follow from the row alone."""
    found = changes(parse_scalar(sql))
    if found is not None:
        raise unsupported(parse_scalar(sql), f"{differs(found)}; {STORED}.")


def evaluate(sql: str, batch: pa.RecordBatch) -> pa.Array:
    """The value for every row, by Arrow's kernels under SQL's three-valued logic."""
    _require_columns(sql, batch.schema)
    return deep(lambda: evaluate_node(parse_scalar(sql), batch))


def calculate(
    where: str | None,
    select: Sequence[tuple[str, str]],
    schema: pa.Schema,
    batch: pa.RecordBatch,
    kinds: NDArray[np.int8],
    *,
    shown: bool = False,
    upsert: bool = False,
) -> tuple[pa.RecordBatch, NDArray[np.int8]]:
    """The rows that pass a filter, projected to a schema.

    shown: the changes are a result, so an update that leaves the condition becomes a deletion, one that enters it an
    insertion; `upsert`: of updates only the +U comes. Otherwise each row is judged alone: aggregates read only signs.
    """
    if where is not None:
        keep = _truth(where, batch)
        if shown:
            keep, kinds = having_kinds(kinds, keep, upsert)
        batch, kinds = batch.filter(pa.array(keep)), kinds[keep]
    arrays = []
    for (_, sql), field in zip(select, schema, strict=True):
        array = evaluate(sql, batch)
        arrays.append(array if array.type == field.type else array.cast(field.type))
    if not arrays:
        # Without columns only a selection still knows how many rows there are.
        return batch.select([]), kinds
    return pa.RecordBatch.from_arrays(arrays, schema=schema), kinds


def prepare(
    spec: AggSpec, batch: pa.RecordBatch, kinds: NDArray[np.int8]
) -> tuple[pa.RecordBatch, NDArray[np.int8]]:
    """The handler's columns of an input batch: WHERE applied, computed columns added."""
    computed = {column.name: column.sql for column in spec.computed}
    schema = spec.handler_schema
    select = [(name, computed.get(name, quoted(name))) for name in schema.names]
    return calculate(spec.where, select, schema, batch, kinds)


def finish(
    spec: AggSpec, batch: pa.RecordBatch, kinds: NDArray[np.int8], upsert: bool = True
) -> tuple[pa.RecordBatch, NDArray[np.int8]]:
    """The user's columns of an operator's output: HAVING applied, then the projection."""
    schema = spec.output_schema
    select = spec.select or [(name, quoted(name)) for name in schema.names]
    return calculate(spec.having, select, schema, batch, kinds, shown=True, upsert=upsert)


def having_kinds(
    kinds: NDArray[np.int8], passes: NDArray[np.bool_], upsert: bool = True
) -> tuple[NDArray[np.bool_], NDArray[np.int8]]:
    """Which rows of a changelog a HAVING keeps, and their new kinds; a -U is followed by its +U.

    An update that leaves the condition becomes a deletion, one that enters it an insertion. `upsert`: a +U may come
    without its -U, and if it fails it ends a row that may have been visible.
    """
    new, keep = kinds.copy(), passes.copy()
    after = kinds == UPDATE_AFTER
    paired = np.zeros(len(kinds), np.bool_)
    paired[1:] = after[1:] & (kinds[:-1] == UPDATE_BEFORE)
    second = np.flatnonzero(paired)
    first = second - 1
    new[first[~passes[second]]] = DELETE
    new[second[~passes[first]]] = INSERT
    if not upsert:
        return keep, new
    lone = after & ~paired & ~passes
    new[lone] = DELETE
    return keep | lone, new


def _truth(sql: str, batch: pa.RecordBatch) -> NDArray[np.bool_]:
    """Where a predicate is true; unknown counts as false."""
    value = evaluate(sql, batch).fill_null(False)
    result: NDArray[np.bool_] = value.to_numpy(zero_copy_only=False).astype(np.bool_)
    return result


def _require_columns(sql: str, schema: pa.Schema) -> None:
    for name in columns(sql):
        if name not in schema.names:
            hint = nearest(name, schema.names)
            raise UnknownColumnError(f"expression {sql}: there is no column {name!r}. {hint}")
