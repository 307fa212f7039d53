"""DEFINE: what a condition computes of one row becomes a column; what compares rows is left to the matcher."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa
from sqlglot import exp

from aggloom.codegen.match.definition import TOTALS, DefineCondition, MatchOperand
from aggloom.codegen.match.values import domain_of
from aggloom.codegen.planner.builders.match_references import (
    PatternNames,
    Reference,
    is_navigation,
    is_reference,
)
from aggloom.codegen.spec.agg_spec import AggSpec
from aggloom.codegen.spec.dtypes import has_order, type_name
from aggloom.codegen.sql.calls import lower
from aggloom.codegen.sql.dialect import CallNode
from aggloom.codegen.sql.errors import place_error, refusal
from aggloom.codegen.sql.match_parser import MatchFunction
from aggloom.codegen.sql.scope import Scope, bare, make_column, text_of
from aggloom.codegen.sql.shape import check_expression
from aggloom.errors import TypeMismatchError

_STRICT: Final = (
    *(
        exp.Column,
        exp.Dot,
        exp.Identifier,
        exp.Literal,
        exp.Paren,
        exp.Neg,
        exp.DataType,
        exp.Var,
        exp.Interval,
    ),
    *(
        exp.Add,
        exp.Sub,
        exp.Mul,
        exp.Div,
        exp.Mod,
        exp.IntDiv,
        exp.Cast,
        exp.Nullif,
        exp.Abs,
        exp.Length,
    ),
    *(
        exp.EQ,
        exp.NEQ,
        exp.GT,
        exp.GTE,
        exp.LT,
        exp.LTE,
        exp.Between,
        exp.Like,
        exp.Upper,
        exp.Lower,
    ),
)
"""Nodes that are NULL where a column of theirs is: of a row that is not there they are NULL like its columns."""
_CONNECTED: Final = (
    *(
        exp.And,
        exp.Or,
        exp.Not,
        exp.Is,
        exp.NullSafeEQ,
        exp.EQ,
        exp.NEQ,
        exp.GT,
        exp.GTE,
        exp.LT,
        exp.LTE,
    ),
    *(exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Neg, exp.Coalesce),
)
"""Nodes that the matcher computes over values of different rows."""


class ConditionBuilder:
    """Lowers the conditions of DEFINE over the columns of a scope, and collects what they read."""

    def __init__(self, scope: Scope, names: PatternNames, dialect: str) -> None:
        self.scope, self.names, self.dialect = scope, names, dialect
        self.operands: dict[tuple[Reference, str], MatchOperand] = {}
        self.columns: dict[str, None] = {}

    def condition(self, variable: int, node: exp.Expression) -> DefineCondition:
        """The condition of a variable; raises SqlError and its kin."""
        check_expression(node)
        lowered = _Lowering(self, variable).lower(_spelled_out(node))
        return DefineCondition(variable, text_of(lowered), text_of(node))

    def read(self, reference: Reference, column: str, dtype: pa.DataType) -> exp.Expression:
        """The stand-in for a value of a row in a condition."""
        key = (reference, column)
        if key not in self.operands:
            name = f"v{len(self.operands)}"
            function: Any = reference.function
            self.operands[key] = MatchOperand(name, column, dtype, function, *reference[1:])
            # COUNT(*) reads no column.
            if column:
                self.columns.setdefault(column)
        return make_column(self.operands[key].name)

    @property
    def fields(self) -> tuple[pa.Field, ...]:
        """The columns that conditions read."""
        return tuple(self.scope.columns_of(self.columns))


class _Lowering:
    """Lowers the condition of one variable."""

    def __init__(self, builder: ConditionBuilder, variable: int) -> None:
        self.builder, self.variable = builder, variable
        self.names, self.scope = builder.names, builder.scope

    def lower(self, node: exp.Expression) -> exp.Expression:
        """An expression over operands."""
        if isinstance(node, exp.Paren):
            return exp.paren(self.lower(node.this), copy=False)
        references = self._references(node)
        if references is not None and len(references) < 2:
            of_row = self._of_row(node, references.pop() if references else Reference())
            if of_row is not None:
                return of_row
        if isinstance(node, exp.Literal | exp.Boolean | exp.Null):
            return node.copy()
        if isinstance(node, CallNode):
            return self._total(node)
        if not isinstance(node, _CONNECTED):
            self._refuse(node)
        lowered = node.copy()
        for key, value in node.args.items():
            if isinstance(value, exp.Expression):
                lowered.set(key, self.lower(value))
            elif isinstance(value, list):
                lowered.set(key, [self.lower(each) for each in value])
        return lowered

    def _refuse(self, node: exp.Expression) -> None:
        if isinstance(node, MatchFunction):
            raise refusal(node, f"{node.name} in DEFINE is", "use it in MEASURES")
        what = f"DEFINE: {node.sql('spark')} over values of different rows is"
        fix = "give FIRST, LAST or PREV the function itself, as in LAST(f(A.x)), or compare and add up the values"
        raise refusal(node, what, fix)

    def _references(self, node: exp.Expression) -> set[Reference] | None:
        """The rows that an expression reads; None if it adds rows up, or is no expression of rows."""
        references: set[Reference] = set()
        waiting = [node]
        while waiting:
            part = waiting.pop()
            if is_reference(part):
                references.add(self._normal(self.names.reference(part)))
            elif isinstance(part, CallNode | MatchFunction):
                return None
            else:
                waiting += part.iter_expressions()
        return references

    def _normal(self, reference: Reference) -> Reference:
        """A reference in the form in which two of the same row are equal."""
        # The row that is being tested is the last one of its own variable: A.x in the condition of A is x.
        own = not reference.variables or self.variable in reference.variables
        if reference.function == "LAST" and not reference.offset and own:
            return Reference(back=reference.back)
        return reference

    def _of_row(self, node: exp.Expression, reference: Reference) -> exp.Expression | None:
        """The stand-in for an expression of one row; None if the matcher has to compute it.

        Of a row that may not be there only what is NULL then, too, is computed with the row.
        """
        if isinstance(node, exp.Literal | exp.Boolean | exp.Null) and not (
            isinstance(node, exp.Literal) and node.is_string
        ):
            return None
        if isinstance(node, exp.Interval):
            fix = "add the length to one of the times, as in B.t < LAST(A.t + INTERVAL '1' HOUR)"
            raise refusal(node, "DEFINE: a length of time between different rows is", fix)
        certain = reference == Reference()
        plain = is_navigation(node) or all(
            isinstance(part, _STRICT) for part in self._outside(node)
        )
        if not (certain or plain):
            return None
        column = self.scope.column(self.scope.resolve(self.names.row_part(node)))
        dtype = self.scope.columns_of([column]).field(0).type
        if not (pa.types.is_boolean(dtype) or has_order(dtype)):
            message = f"DEFINE: {type_name(dtype)} has no order; compare a part of it."
            raise place_error(TypeMismatchError(message), node)
        return self.builder.read(reference, column, dtype)

    def _outside(self, node: exp.Expression) -> list[exp.Expression]:
        """The parts of an expression, but those of calls of FIRST, LAST and PREV."""
        return [part for part in node.walk(prune=is_navigation) if not is_navigation(part)]

    def _total(self, node: CallNode) -> exp.Expression:
        """The stand-in for an aggregate over the rows so far."""
        call = lower(self.scope, resolved_call(self.scope, self.names, node), None)
        plain = not (call.distinct or call.filter or call.order_by or call.options)
        if call.function not in TOTALS or not plain or len(call.args) > 1:
            fix = f"write {', '.join(TOTALS[:-1])} or {TOTALS[-1]} of a value; MEASURES have all aggregates"
            raise refusal(node, f"{node.sql('spark')} in DEFINE is", fix)
        column = call.args[0] if call.args else ""
        reads = self.scope.columns_of([column] if column else [])
        dialect: Any = self.builder.dialect
        # A spec needs a column, and COUNT(*) has none.
        schema = reads if column else pa.schema([("n", pa.int8())])
        dtype = AggSpec(schema, (), (call,), "append", dialect).aggregate_schema.field(0).type
        if call.function in ("SUM", "AVG"):
            kind = domain_of(reads.field(0).type)
            if kind not in ("int", "float", "decimal") or (
                kind == "decimal" and call.function == "AVG"
            ):
                what = f"DEFINE: {call.function} of {type_name(reads.field(0).type)} is"
                raise refusal(node, what, f"write {call.function}(CAST(.. AS DOUBLE))")
        reference = Reference(call.function, counted_variables(self.names, node))
        return self.builder.read(reference, column, dtype)


def resolved_call(scope: Scope, names: PatternNames, node: CallNode) -> CallNode:
    """An aggregate call over the columns of a scope, without the names of variables."""
    call = scope.resolve(names.row_part(node))
    assert isinstance(call, CallNode)
    return call


def counted_variables(names: PatternNames, node: CallNode) -> tuple[int, ...]:
    """The variables whose rows an aggregate adds up; raises SqlError if its arguments are of several."""
    return names.variables_of(node)


def _spelled_out(node: exp.Expression) -> exp.Expression:
    """A condition with BETWEEN, IN and IS DISTINCT FROM as comparisons, where they compare several rows."""

    def visit(part: exp.Expression) -> exp.Expression:
        if isinstance(part, exp.Between):
            low = exp.GTE(this=part.this.copy(), expression=part.args["low"].copy())
            high = exp.LTE(this=part.this.copy(), expression=part.args["high"].copy())
            return exp.paren(exp.and_(low, high, copy=False), copy=False)
        if isinstance(part, exp.In) and part.expressions:
            each = [
                exp.EQ(this=part.this.copy(), expression=item.copy()) for item in part.expressions
            ]
            return exp.paren(exp.or_(*each, copy=False), copy=False)
        # The matcher knows one of the two.
        if isinstance(part, exp.NullSafeNEQ):
            same = exp.NullSafeEQ(this=part.this.copy(), expression=part.expression.copy())
            return exp.Not(this=exp.paren(same, copy=False))
        return part

    return bare(node).transform(visit, copy=True)
