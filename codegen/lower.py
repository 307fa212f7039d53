"""Lowering: a catalogue expression over fields and arguments becomes the text of generated code.

The words that catalogue expressions may use, and what they become for each kind of number, stand here and
only here. A kind is how state holds a number: `int` (int64), `wide` (192 bits), `float` (an exact cascade),
or `word` (64 bits that sort as the value does).
"""

from __future__ import annotations

import ast
from typing import Literal

import pyarrow as pa

Kind = Literal["int", "wide", "float", "word"]

_SUMS: dict[str, dict[str, str]] = {
    "add": {"int": "{0} + {1}", "wide": "rt.add_wide({0}, {1})", "float": "rt.add_float({0}, {1})"},
    "subtract": {
        "int": "{0} - {1}",
        "wide": "rt.subtract_wide({0}, {1})",
        "float": "rt.subtract_float({0}, {1})",
    },
    "combine": {
        "int": "{0} + {1}",
        "wide": "rt.combine_wide({0}, {1})",
        "float": "rt.combine_float({0}, {1})",
    },
}


def number_kind(argument: pa.DataType, dialect: str) -> Kind:
    """How a sum over this type is held: narrow and wrapping integers need 64 bits, the rest more."""
    if pa.types.is_floating(argument):
        return "float"
    if pa.types.is_decimal(argument):
        return "wide"
    return "wide" if dialect == "spark" and argument == pa.int64() else "int"


def lower(expression: str, names: dict[str, str], kind: Kind, pooled: bool) -> str:
    """The generated text of a state expression: names replaced, words spelled out for `kind`."""
    return str(_Lowering(names, kind, pooled).visit(ast.parse(expression, mode="eval").body))


class _Lowering(ast.NodeVisitor):
    def __init__(self, names: dict[str, str], kind: Kind, pooled: bool) -> None:
        self.names, self.kind, self.pooled = names, kind, pooled

    def visit_Call(self, node: ast.Call) -> str:
        assert isinstance(node.func, ast.Name)
        arguments = [self.visit(a) for a in node.args]
        if node.func.id == "before":
            return f"rt.compare(state.pool, {self.pooled}, {', '.join(arguments)}) < 0"
        return _SUMS[node.func.id][self.kind].format(*arguments)

    def visit_Name(self, node: ast.Name) -> str:
        return self.names[node.id]

    def generic_visit(self, node: ast.AST) -> str:
        for field, value in ast.iter_fields(node):
            if isinstance(value, ast.expr):
                setattr(node, field, ast.parse(self.visit(value), mode="eval").body)
            elif isinstance(value, list):
                nested = [
                    ast.parse(self.visit(v), mode="eval").body if isinstance(v, ast.expr) else v
                    for v in value
                ]
                setattr(node, field, nested)
        return ast.unparse(node)


def lower_value(
    expression: str,
    names: dict[str, str],
    kind: Kind,
    argument: pa.DataType | None,
    result: pa.DataType,
) -> tuple[str, str, str]:
    """(text, form, check) of a value expression.

    `form` is how the result is stored: word, float or limbs (128 bits). `check` is "" or what the second item
    of the returned pair says: "found" (else NULL) or "fits" (else overflow).
    """
    call = ast.parse(expression, mode="eval").body
    if isinstance(call, ast.Name):
        return names[call.id], "word", ""
    assert isinstance(call, ast.Call) and isinstance(call.func, ast.Name)
    arguments = [names[a.id] for a in call.args if isinstance(a, ast.Name)]
    word = call.func.id
    if word in ("least", "greatest", "oldest", "newest"):
        return f"rt.{word}({arguments[0]})", "word", "found"
    total = arguments[0]
    if word == "total":
        return _total(total, kind, result)
    return _average(total, arguments[1], kind, argument, result)


def _total(total: str, kind: Kind, result: pa.DataType) -> tuple[str, str, str]:
    if kind == "float":
        return f"rt.float_total({total})", "float", ""
    if kind == "wide" and pa.types.is_decimal(result):
        return f"rt.wide_to_decimal({total}, {result.precision})", "limbs", "fits"
    if kind == "wide":
        return f"rt.wide_to_bigint({total})", "word", "fits"
    return f"rt.wrap({total}, {result.bit_width})", "word", ""


def _average(
    total: str, count: str, kind: Kind, argument: pa.DataType | None, result: pa.DataType
) -> tuple[str, str, str]:
    if kind == "float":
        return f"rt.float_total({total}) / {count}", "float", ""
    if pa.types.is_decimal(result):
        assert argument is not None
        digits = result.scale - argument.scale
        return f"rt.divide_wide({total}, {count}, {digits}, {result.precision})", "limbs", "fits"
    if pa.types.is_integer(result):
        return (
            f"rt.wrap(rt.truncate_divide(rt.wrap({total}, 64), {count}), {result.bit_width})",
            "word",
            "",
        )
    if kind == "wide":
        return f"rt.wide_to_float({total}) / {count}", "float", ""
    return f"{total} / {count}", "float", ""


def number_from_word(argument: pa.DataType) -> str:
    """Text that turns `word`, the stored form of a value of this type, into the number that a sum takes."""
    if pa.types.is_floating(argument):
        return "rt.word_to_float(word)"
    if pa.types.is_decimal(argument) and argument.precision > 18:
        return "rt.pooled_to_wide(other.pool, other_word)"
    return "rt.word_to_wide(word)"
