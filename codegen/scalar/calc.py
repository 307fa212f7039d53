"""Filters and projections by generated Arrow calls: of a handler's input and result, and of a plan's Calc."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from aggloom.codegen.scalar.expressions import quote_name, select_names
from aggloom.codegen.scalar.module import ROWS, format_module, load_module, module_text
from aggloom.errors import SpecError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from aggloom.codegen.spec.agg_spec import AggSpec

    Kinds = NDArray[np.int8]  # int8[rows]
    Passes = NDArray[np.bool_]  # bool[rows]

Rows = tuple[pa.RecordBatch, "Kinds"]
INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETE = range(4)
_PASSES = pa.schema([("matches", pa.bool_())])


@dataclass(frozen=True)
class LoweredCalc:
    """A filter and a projection as a worker gets them: the text of a module, and what it was made of.

    rows, schema: the columns in and out. zone: the session's time zone.

    is_shown: the changes are a result, so an update that leaves the condition becomes a deletion, one that enters it an
    insertion; `upsert`: of updates only the +U comes. Otherwise each row is judged alone: aggregates read only signs.
    """

    text: str
    where: str | None
    select: tuple[tuple[str, str], ...]
    schema: pa.Schema
    rows: pa.Schema
    zone: str = "UTC"
    is_shown: bool = False
    upsert: bool = False

    def run(self, batch: pa.RecordBatch, kinds: Kinds) -> Rows:
        """The rows that pass, projected."""
        module = load_module(self.text)
        if self.where is not None:
            if hasattr(module, "extend"):
                batch = module.extend(batch)
            # A condition that is NULL does not hold: the module has filled it with FALSE.
            keep = module.where(batch).to_numpy(zero_copy_only=False).astype(np.bool_)
            if self.is_shown:
                keep, kinds = having_kinds(kinds, keep, self.upsert)
            # Where it is not known what the projection reads all columns are cut.
            batch = batch.select(getattr(module, "READ", batch.schema.names))
            batch, kinds = batch.filter(pa.array(keep)), kinds[keep]
        # The projection runs over rows that passed, so that the others cannot fail in it.
        return module.select(batch), kinds


@lru_cache(maxsize=512)
def lower_calc(
    where: str | None,
    select: tuple[tuple[str, str], ...],
    schema: pa.Schema,
    rows: pa.Schema,
    *,
    zone: str = "UTC",
    is_shown: bool = False,
    upsert: bool = False,
) -> LoweredCalc:
    """A filter of rows and their projection to `schema`, in a session with this time zone.

    Raises UnsupportedExpressionError for an expression that only Spark evaluates.
    """
    text = module_text(where, select, schema, {ROWS: rows}, zone)
    return LoweredCalc(
        text,
        where,
        select=select,
        schema=schema,
        rows=rows,
        zone=zone,
        is_shown=is_shown,
        upsert=upsert,
    )


def lower_condition(condition: str, rows: pa.Schema, zone: str = "UTC") -> LoweredCalc:
    """A condition as a column of BOOLEANs; raises UnsupportedExpressionError for one that only Spark evaluates.

    Its text is formatted: the lines that `explain` shows are those through which a debugger steps.
    """
    calc = lower_calc(None, (("matches", condition),), _PASSES, rows, zone=zone)
    return replace(calc, text=format_module(calc.text))


def calculate(
    where: str | None,
    select: Sequence[tuple[str, str]],
    schema: pa.Schema,
    batch: pa.RecordBatch,
    kinds: Kinds,
    *,
    is_shown: bool = False,
    upsert: bool = False,
) -> Rows:
    """The rows that pass a filter, projected to a schema; see LoweredCalc."""
    calc = lower_calc(where, tuple(select), schema, batch.schema, is_shown=is_shown, upsert=upsert)
    return calc.run(batch, kinds)


def prepare(spec: AggSpec, batch: pa.RecordBatch, kinds: Kinds) -> Rows:
    """The handler's columns of an input batch: WHERE is applied, and computed columns are added.

    spec: the aggregation. batch: rows with the columns of `spec.schema`. kinds: the kinds of the changes, int8[rows].
    Gives the batch of the rows that pass, and their kinds.

    Example:
        >>> import aggloom as al, numpy as np, pyarrow as pa
        >>> spec = al.AggSpec.from_sql("SELECT SUM(n) AS s FROM t WHERE n > 3", "n INT")
        >>> batch = pa.record_batch({"n": pa.array([3, 4], pa.int32())})
        >>> rows, kinds = al.prepare(spec, batch, np.zeros(2, np.int8))
        >>> rows.to_pydict()
        {'n': [4]}
    """
    _check_given("prepare", spec, batch)
    computed = {column.name: column.sql for column in spec.computed}
    schema = spec.handler_schema
    select = [(name, computed.get(name, quote_name(name))) for name in schema.names]
    return calculate(spec.where, select, schema, batch, kinds)


def finish(spec: AggSpec, batch: pa.RecordBatch, kinds: Kinds, upsert: bool = True) -> Rows:
    """The user's columns of an operator's output: HAVING is applied, then the projection.

    spec: the aggregation. batch: rows with the columns of `spec.aggregate_schema`. kinds: the kinds of the changes,
    int8[rows]. upsert: whether an update that no longer passes HAVING becomes the deletion of the row before. Gives
    the batch of the rows that pass, and their kinds.

    Example:
        >>> import aggloom as al, numpy as np, pyarrow as pa
        >>> spec = al.AggSpec.from_sql("SELECT SUM(n) * 2 AS twice FROM t", "n INT")
        >>> batch = pa.record_batch([pa.array([7], pa.int64())], names=spec.aggregate_schema.names)
        >>> rows, kinds = al.finish(spec, batch, np.zeros(1, np.int8))
        >>> rows.to_pydict()
        {'twice': [14]}
    """
    _check_given("finish", spec, batch)
    schema = spec.output_schema
    select = spec.select or select_names(schema.names)
    return calculate(spec.having, select, schema, batch, kinds, is_shown=True, upsert=upsert)


def _check_given(call: str, spec: Any, batch: Any) -> None:
    """Raise SpecError unless these are a spec and a batch."""
    # Specs are built of expressions: their class cannot be imported here.
    expectations = (
        ("spec", spec, "handler_schema", "an AggSpec"),
        ("batch", batch, "schema", "an Arrow batch"),
    )
    for name, value, attribute, fix in expectations:
        if not hasattr(value, attribute):
            raise SpecError(f"{call}: the {name} is a {type(value).__name__}; give {fix}.")


def having_kinds(kinds: Kinds, passes: Passes, upsert: bool = True) -> tuple[Passes, Kinds]:
    """Return the rows of a changelog that a HAVING keeps, and their new kinds; a -U is followed by its +U.

    An update that leaves the condition becomes a deletion, one that enters it an insertion. `upsert`: a +U may come
    without its -U, and if it fails it ends a row that may have been visible.
    """
    new, keep = kinds.copy(), passes.copy()
    after = kinds == UPDATE_AFTER
    paired = np.zeros(len(kinds), np.bool_)
    # A -U and the +U behind it are the halves of one update.
    paired[1:] = after[1:] & (kinds[:-1] == UPDATE_BEFORE)
    second = np.flatnonzero(paired)
    first = second - 1
    new[first[~passes[second]]] = DELETE
    new[second[~passes[first]]] = INSERT
    if not upsert:
        return keep, new
    # Nobody knows whether the row before was visible: a deletion of what is not there changes nothing.
    lone = after & ~paired & ~passes
    new[lone] = DELETE
    return keep | lone, new
