"""Scalar SQL around the handler: what type it has, and its value without Spark.

`prepare` does what stands before the handler (WHERE, computed columns), `finish` what stands after
it (HAVING, the final projection). On Spark the same expressions are Spark's own business.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError

from aggloom.codegen.scalar_eval import evaluate_node
from aggloom.codegen.scalar_types import infer, unsupported
from aggloom.codegen.sql_errors import syntax_error
from aggloom.errors import UnknownColumnError, nearest

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from aggloom.codegen.spec import AggSpec

UPDATE_BEFORE, UPDATE_AFTER = 1, 2
INSERT, DELETE = 0, 3


@lru_cache(maxsize=512)
def parse_scalar(sql: str) -> exp.Expression:
    """The syntax tree of one scalar expression; callers must not change it."""
    try:
        return parse_one(sql, dialect="spark")
    except SqlglotError as error:
        raise syntax_error(sql, error) from None


def columns(sql: str) -> tuple[str, ...]:
    """The column names that an expression mentions, in order of first mention."""
    found = parse_scalar(sql).find_all(exp.Column, bfs=False)
    return tuple(dict.fromkeys(column.name for column in found))


def infer_type(sql: str, schema: pa.Schema, dialect: str = "spark") -> pa.DataType:
    """The type of an expression over these columns; scalar rules are Spark's in both dialects."""
    node = parse_scalar(sql)
    _require_columns(sql, schema)
    dtype = infer(node, dict(zip(schema.names, schema.types, strict=True)))
    if pa.types.is_null(dtype):
        raise unsupported(node, "its type cannot be told; write CAST(... AS type) around it.")
    return dtype


def evaluate(sql: str, batch: pa.RecordBatch) -> pa.Array:
    """The value for every row, by Arrow's kernels under SQL's three-valued logic."""
    _require_columns(sql, batch.schema)
    return evaluate_node(parse_scalar(sql), batch)


def prepare(
    spec: AggSpec, batch: pa.RecordBatch, kinds: NDArray[np.int8]
) -> tuple[pa.RecordBatch, NDArray[np.int8]]:
    """The handler's columns of an input batch: WHERE applied, computed columns added."""
    if spec.where is not None:
        passed = _truth(spec.where, batch)
        batch, kinds = batch.filter(pa.array(passed)), kinds[passed]
    names = set(spec.handler_schema.names)
    values = {column.name: column for column in spec.computed if column.name in names}
    arrays = []
    for field in spec.handler_schema:
        computed = values.get(field.name)
        array = batch.column(field.name) if computed is None else evaluate(computed.sql, batch)
        arrays.append(array if array.type == field.type else array.cast(field.type))
    if not arrays:
        # Without columns only a selection still knows how many rows there are.
        return batch.select([]), kinds
    return pa.RecordBatch.from_arrays(arrays, schema=spec.handler_schema), kinds


def finish(
    spec: AggSpec, batch: pa.RecordBatch, kinds: NDArray[np.int8]
) -> tuple[pa.RecordBatch, NDArray[np.int8]]:
    """The user's columns of an operator's output: HAVING applied, then the projection."""
    if spec.having is not None:
        keep, new = having_kinds(kinds, _truth(spec.having, batch))
        batch, kinds = batch.filter(pa.array(keep)), new[keep]
    if spec.select is None:
        return batch, kinds
    arrays = [evaluate(sql, batch) for _, sql in spec.select]
    typed = [a.cast(f.type) for a, f in zip(arrays, spec.output_schema, strict=True)]
    return pa.RecordBatch.from_arrays(typed, schema=spec.output_schema), kinds


def having_kinds(
    kinds: NDArray[np.int8], passes: NDArray[np.bool_]
) -> tuple[NDArray[np.bool_], NDArray[np.int8]]:
    """Which rows of a changelog a HAVING keeps, and their new kinds; a -U is followed by its +U.

    An update that leaves the condition becomes a deletion, one that enters it an insertion.
    """
    new, keep = kinds.copy(), passes.copy()
    after = kinds == UPDATE_AFTER
    paired = np.zeros(len(kinds), np.bool_)
    paired[1:] = after[1:] & (kinds[:-1] == UPDATE_BEFORE)
    second = np.flatnonzero(paired)
    first = second - 1
    new[first[~passes[second]]] = DELETE
    new[second[~passes[first]]] = INSERT
    # Without its -U, a +U that fails may end a row that was visible: say so, key by key.
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
