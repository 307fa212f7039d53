"""The lowering of the value of a user's entry: as for built-in ones, with a check that each result fits its type."""

from __future__ import annotations

import ast
from dataclasses import replace

import pyarrow as pa

from aggloom.codegen.catalogue.entry import Shape, View
from aggloom.codegen.handler.lower import (
    NameScope,
    Value,
    float_value,
    lower,
    lower_value,
    names_in,
    sum_value,
)
from aggloom.codegen.views import VIEW_FUNCTIONS


def user_shape(shape: Shape) -> Shape:
    """The shape with its `let` substituted, and with NULL as its value over an empty view of numbers."""
    known: dict[str, ast.expr] = {}
    for name, text in shape.let:
        known[name] = _Substitution(known).visit(ast.parse(text, mode="eval").body)
    texts = [
        ast.unparse(_Substitution(known).visit(ast.parse(text, mode="eval"))) if text else ""
        for text in (shape.value, shape.empty)
    ]
    needed = [f"none({s.name})" for s in shape.state if isinstance(s, View) and s.over == "real"]
    empty = " or ".join([*needed, *([f"({texts[1]})"] if texts[1] else [])])
    return replace(shape, value=texts[0], empty=empty or None, let=())


class _Substitution(ast.NodeTransformer):
    def __init__(self, known: dict[str, ast.expr]) -> None:
        self.known = known

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self.known.get(node.id, node)


def user_value(
    expression: str,
    value_kind: str,
    scope: NameScope,
    argument: pa.DataType | None,
    result: pa.DataType,
) -> Value:
    """The value of a call. value_kind: the expression's type (codegen/user/expression_types.py)."""
    value = _checked_value(expression, value_kind, scope, argument, result)
    return replace(value, names=names_in(expression))


def _checked_value(
    expression: str,
    value_kind: str,
    scope: NameScope,
    argument: pa.DataType | None,
    result: pa.DataType,
) -> Value:
    body = ast.parse(expression, mode="eval").body
    function = (
        body.func.id if isinstance(body, ast.Call) and isinstance(body.func, ast.Name) else ""
    )
    if value_kind == "word" or (function in VIEW_FUNCTIONS and result == pa.float64()):
        return lower_value(expression, scope, argument, result)
    if function in ("total", "average") and isinstance(body, ast.Call):
        names = [ast.unparse(each) for each in body.args]
        # A sum by itself is exact: as a double, as in the expression below, it would lose digits.
        exact = _exact(function, scope.kinds[names[0]], argument, result)
        if exact and all(name in scope.names for name in names):
            return sum_value(function, names, scope, argument, result)
    text = lower(expression, scope).text
    if pa.types.is_boolean(result):
        return Value((f"rt.truth({text})",), "word")
    if value_kind in ("int", "bool") and pa.types.is_integer(result):
        return Value((f"rt.user_integer({text}, {result.bit_width})",), "word", "user")
    return float_value(f"rt.real({text})", result)


def _exact(function: str, kind: str, argument: pa.DataType | None, result: pa.DataType) -> bool:
    """Tell whether a sum becomes this result without passing through a DOUBLE."""
    if kind == "float" or argument is None:
        return False
    if pa.types.is_decimal(argument):
        more = (
            function == "average" or result.scale == argument.scale
            if pa.types.is_decimal(result)
            else False
        )
        return more and result.scale >= argument.scale
    return function == "total" and kind == "wide" and bool(result == pa.int64())
