"""Conditionals; a branch that may fail is computed only on the rows that reach it."""

from __future__ import annotations

from functools import partial
from typing import Final

import pyarrow as pa
from sqlglot import exp

from aggloom.codegen.scalar.entry import entry
from aggloom.codegen.scalar.lowered_expression import LoweredExpression, call, constant, type_text
from aggloom.codegen.scalar.lowering import NEEDS_SPARK, ExpressionLowering, LoweringEntry
from aggloom.codegen.scalar.operand_types import unsupported_error
from aggloom.codegen.scalar.promotion import FLOATS
from aggloom.codegen.spec.dtypes import INSTANT, VARIANT

Arm = tuple[exp.Expression, exp.Expression]


def _case(low: ExpressionLowering, node: exp.Case) -> LoweredExpression:
    arms: list[Arm] = []
    for branch in node.args["ifs"]:
        when = branch.this
        if node.this is not None:
            # CASE x WHEN NULL never holds, as x = NULL does not.
            when = exp.EQ(this=node.this.copy(), expression=when.copy())
        arms.append((when, branch.args["true"]))
    return _choose(low, node, arms, node.args.get("default"))


def _if(low: ExpressionLowering, node: exp.If) -> LoweredExpression:
    return _choose(low, node, [(node.this, node.args["true"])], node.args.get("false"))


def _nullif(low: ExpressionLowering, node: exp.Nullif) -> LoweredExpression:
    same = exp.EQ(this=node.this.copy(), expression=node.expression.copy())
    return _choose(low, node, [(same, exp.null())], node.this)


def _nvl2(low: ExpressionLowering, node: exp.Nvl2) -> LoweredExpression:
    # As a condition with branches, so that a branch that may fail is computed on its own rows alone.
    known = exp.Not(this=exp.Is(this=node.this.copy(), expression=exp.null()))
    return _choose(low, node, [(known, node.args["true"])], node.args["false"])


def _choose(
    low: ExpressionLowering, node: exp.Expression, arms: list[Arm], default: exp.Expression | None
) -> LoweredExpression:
    """The value of the first arm whose condition holds."""
    conditions = [low.boolean(condition) for condition, _ in arms]
    ends = [value for _, value in arms] + [exp.null() if default is None else default]
    values = low.align_values(ends, node)
    dtype = values[-1].type
    # Align has cast all values to one type: NULL among them means that all are NULL.
    if pa.types.is_null(dtype):
        return _no_type(node, values)
    # SQL computes a branch only for the rows that reach it: CASE WHEN b <> 0 THEN a / b END must not fail where b is 0.
    # Arrow's case_when computes every branch for every row. The first condition is of all rows, so it may raise.
    # And it has no kernel for VARIANTs and for arrays, maps and rows within one another.
    if _has_no_kernel(dtype) or any(each.raises for each in (*conditions[1:], *values)):
        pairs = zip(conditions, values[:-1], strict=True)
        listing = ", ".join(f"({low.branch(c)}, {low.branch(v)})" for c, v in pairs)
        text = f"scalar.case([{listing}], {low.branch(values[-1])}, {type_text(dtype)}, {low.arguments})"
        return _of(text, dtype, [*conditions, *values])
    listing = ", ".join(each.text for each in values)
    text = f"pc.case_when(pc.make_struct({', '.join(c.text for c in conditions)}), {listing})"
    return _of(text, dtype, [*conditions, *values])


def _coalesce(low: ExpressionLowering, node: exp.Coalesce) -> LoweredExpression:
    values = low.align_values([node.this, *node.expressions], node)
    dtype = values[0].type
    if pa.types.is_null(dtype):
        return _no_type(node, values)
    # The first value is of all rows in any case.
    if _has_no_kernel(dtype) or any(value.raises for value in values[1:]):
        listing = ", ".join(low.branch(value) for value in values)
        return _of(
            f"scalar.first_valid([{listing}], {type_text(dtype)}, {low.arguments})", dtype, values
        )
    return _of(f"pc.coalesce({', '.join(value.text for value in values)})", dtype, values)


def _extreme(
    compared: str, others: str, low: ExpressionLowering, node: exp.Expression
) -> LoweredExpression:
    """The least or greatest value; of types that Arrow has no kernel for, or another order, by comparing them."""
    # A text beside a number is an error in LEAST and GREATEST, where comparisons would cast it.
    values = low.align_values([node.this, *node.expressions], node, texts=False)
    dtype = values[0].type
    if pa.types.is_nested(dtype) or dtype == pa.null():
        raise unsupported_error(node, NEEDS_SPARK)
    # Spark puts NaN above all other floats, where Arrow's kernels pass over it.
    word = compared if dtype in (*FLOATS, INSTANT, pa.bool_(), pa.binary()) else others
    return _of(f"{word}({', '.join(value.text for value in values)})", dtype, values)


def _no_type(node: exp.Expression, values: list[LoweredExpression]) -> LoweredExpression:
    """NULL in place of branches that are all NULL; raises UnsupportedExpressionError where one is an error."""
    if any(value.raises for value in values):
        raise unsupported_error(
            node, "has no type; write CAST(... AS type) around one of its values."
        )
    return constant(None, pa.null())


def _of(text: str, dtype: pa.DataType, values: list[LoweredExpression]) -> LoweredExpression:
    whole = call("", dtype, *values)
    return LoweredExpression(text, dtype, whole.columns, whole.raises)


def _has_no_kernel(dtype: pa.DataType) -> bool:
    """Tell whether Arrow's own conditionals do not take a type."""
    return dtype == VARIANT or bool(pa.types.is_nested(dtype))


ENTRIES: Final[tuple[LoweringEntry, ...]] = (
    entry(
        exp.Case,
        (
            "CASE WHEN i > 0 THEN 'pos' WHEN i < 0 THEN 'neg' END",
            "CASE i WHEN 1 THEN l ELSE i END",
            "CASE WHEN i <> 0 THEN 10 DIV i ELSE 0 END",
            "CASE WHEN p THEN 1 ELSE 2.5 END",
            "CASE WHEN p THEN array(i, l) WHEN q THEN array(1) END",
        ),
        _case,
        *("ifs", "default"),
    ),
    entry(exp.If, ("IF(i > 0, s, 'no')", "IF(TRUE, i, l)"), _if, "true", "false"),
    entry(exp.Nullif, ("NULLIF(i, 1)", "NULLIF(f, g)"), _nullif),
    entry(exp.Nvl2, "NVL2(i, s, t)", _nvl2, "true", "false"),
    entry(
        exp.Coalesce,
        (
            "COALESCE(i, l, 0)",
            "NVL(s, 'none')",
            "IFNULL(d, u)",
            "COALESCE(i, 10 DIV l)",
            "COALESCE(IF(p, named_struct('a', i), NULL), named_struct('a', l))",
        ),
        _coalesce,
        *("is_nvl", "is_null"),
    ),
    entry(
        exp.Least,
        ("LEAST(i, l, 3)", "LEAST(f, g)", "LEAST(s, t)", "LEAST(p, q)"),
        partial(_extreme, "scalar.least", "pc.min_element_wise"),
        "ignore_nulls",
    ),
    entry(
        exp.Greatest,
        ("GREATEST(i, l, 3)", "GREATEST(f, g)", "GREATEST(d, u)", "GREATEST(w, n, d)"),
        partial(_extreme, "scalar.greatest", "pc.max_element_wise"),
        "ignore_nulls",
    ),
)
