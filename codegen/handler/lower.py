"""Lowering: a catalogue expression over fields, views and arguments becomes the text of generated code.

This module has the functions that catalogue expressions may use, and their form for each kind of number; functions
over views are with each kind of view (codegen/views/). A lowered expression lists the names that it uses. A kind says
how state stores a number: `int` (int64), `wide` (192 bits), `float` (an exact sum of doubles), `word` (64 bits that
sort as the value does) or `double` (an unchanged float64).
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Literal

import pyarrow as pa

from aggloom.codegen.views import VIEW_FUNCTIONS

Kind = Literal["int", "wide", "float", "word", "double", "object"]

_SUMS = {
    "int": {"add": "{0} + {1}", "subtract": "{0} - {1}", "combine": "{0} + {1}"},
    "wide": {
        "add": "rt.add_wide({0}, {1})",
        "subtract": "rt.subtract_wide({0}, {1})",
        "combine": "rt.combine_wide({0}, {1})",
    },
}
# Exact sums of doubles may spill (runtime/arithmetic/floats.py), so their functions take where: state or other, slot,
# place.
_FLOAT_STEPS = ("add", "subtract", "add_product", "subtract_product", "add_power", "subtract_power")
_FLOAT_VALUES = ("deviation", "skewness", "kurtosis")
_FUNCTIONS = {
    **{name: name for name in ("sqrt", "correlation", "log", "exp")},
    "pow": "power",
}


def number_kind(argument: pa.DataType, dialect: str) -> Kind:
    """Return the kind that holds a sum over this type: narrow and wrapping integers need 64 bits, the rest more."""
    if pa.types.is_floating(argument):
        return "float"
    if pa.types.is_decimal(argument):
        return "wide"
    # A sum of BIGINTs may leave 64 bits and come back while rows come and go; Flink's wraps around anyway.
    return "wide" if dialect == "spark" and argument == pa.int64() else "int"


@dataclass(frozen=True)
class NameScope:
    """The meaning of names: `names` to text, `kinds` of the sums, `spills` (places of exact float sums), `views`.

    views: to the text of the array and of the pool, as calls take them. pooled: whether words are ids of the pool.
    widths: the components of an order key, for `earlier`. scales: of sums of decimals, which are stored as integers.
    user_defined: whether a user wrote it.
    """

    names: dict[str, str]
    kinds: dict[str, Kind] = field(default_factory=dict)
    spills: dict[str, int] = field(default_factory=dict)
    views: dict[str, tuple[str, str]] = field(default_factory=dict)
    pooled: bool = False
    widths: tuple[int, ...] = ()
    scales: dict[str, int] = field(default_factory=dict)
    user_defined: bool = False


@dataclass(frozen=True)
class GeneratedText:
    """The generated text of an expression, and the names of fields, views, arguments and options in it."""

    text: str = ""
    names: frozenset[str] = frozenset()


def lower(expression: str, scope: NameScope) -> GeneratedText:
    """An expression with names replaced and functions spelled out."""
    # Python's own grammar serves the catalogue, so that no parser has to be written for it.
    text = str(_Lowering(scope).visit(ast.parse(expression, mode="eval").body))
    return GeneratedText(text, names_in(expression))


@lru_cache(maxsize=4096)
def names_in(expression: str | None) -> frozenset[str]:
    """The names that an expression uses, but for those of functions."""
    if not expression:
        return frozenset()
    nodes = list(ast.walk(ast.parse(expression, mode="eval")))
    called = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
    return frozenset(n.id for n in nodes if isinstance(n, ast.Name) and id(n) not in called)


@lru_cache(maxsize=4096)
def _parse_part(text: str) -> ast.expr:
    """The tree of lowered text. Operands of all calls are few texts, and their trees are printed, never changed."""
    return ast.parse(text, mode="eval").body


class _Lowering(ast.NodeVisitor):
    def __init__(self, scope: NameScope) -> None:
        self.scope = scope

    def visit_Call(self, node: ast.Call) -> str:
        assert isinstance(node.func, ast.Name)
        function, scope = node.func.id, self.scope
        names = [a.id if isinstance(a, ast.Name) else "" for a in node.args]
        # Whether a view is empty: its kind knows.
        if function == "none":
            return f"rt.{names[0]}_none({', '.join(scope.views[names[0]])}, s)"
        if function in VIEW_FUNCTIONS:
            return self._view_function(function, node)
        texts = [self.visit(a) for a in node.args]
        # Words may be ids of texts in the pool, whose order is not that of the texts.
        if function == "before":
            return f"rt.compare(state.pool, {scope.pooled}, {', '.join(texts)}) < 0"
        if function == "earlier":
            return f"rt.compare_keys(state.pool, {scope.widths}, {', '.join(texts)}) < 0"
        if function in ("min", "max", "abs"):
            return f"{function}({', '.join(texts)})"
        if function in _FUNCTIONS:
            return f"rt.{_FUNCTIONS[function]}({', '.join(texts)})"
        if function in _FLOAT_VALUES:
            sums = [f"{scope.spills[n]}, {t}" for n, t in zip(names[:-1], texts[:-1], strict=True)]
            return f"rt.{function}(state.spill, s, {', '.join(sums)}, {texts[-1]})"
        return self._sum_function(function, names[0], texts)

    def _sum_function(self, function: str, name: str, texts: list[str]) -> str:
        kind = self.scope.kinds[name]
        if kind != "float" and function in ("total", "average"):
            total = _as_real(kind, texts[0], self.scope.scales.get(name, 0))
            return total if function == "total" else f"({total}) / ({texts[1]})"
        if kind != "float":
            return _SUMS[kind][function].format(*texts)
        place = f"state.spill, s, {self.scope.spills[name]}"
        if function == "combine":
            return f"rt.combine_float({place}, {texts[0]}, other.spill, o, b={texts[1]})"
        if function in _FLOAT_STEPS:
            step = f"{function}_float" if "_" not in function else function
            return f"rt.{step}({place}, {', '.join(texts)})"
        return f"rt.float_{function}({place}, {', '.join(texts)})"

    def _view_function(self, name: str, node: ast.Call) -> str:
        view, *rest = node.args
        assert isinstance(view, ast.Name)
        scope, what = self.scope, VIEW_FUNCTIONS[name]
        array, pool = scope.views[view.id]
        # A list is written into the result at place k, as it has no value that could be returned.
        texts = [f"out.{scope.names['out']}", "k"] if what.form == "list" else []
        texts += [array, pool, "s"] if what.pool else [array, "s"]
        texts += [self.visit(argument) for argument in rest]
        texts += [str(scope.widths) if m == "widths" else scope.names.get(m, m) for m in what.more]
        return f"rt.{what.function}({', '.join(texts)})"

    def visit_BinOp(self, node: ast.BinOp) -> str:
        # Numba's ** of whole numbers is one; users' expressions are of DOUBLEs, as in SQL.
        if isinstance(node.op, ast.Pow) and self.scope.user_defined:
            return f"rt.power({self.visit(node.left)}, {self.visit(node.right)})"
        return self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> str:
        return self.scope.names[node.id]

    def generic_visit(self, node: ast.AST) -> str:
        for name, value in ast.iter_fields(node):
            if isinstance(value, ast.expr):
                # By way of text: what has been lowered may be any Python, and is parsed to become a part of the tree.
                setattr(node, name, _parse_part(self.visit(value)))
            elif isinstance(value, list):
                nested = [
                    _parse_part(self.visit(v)) if isinstance(v, ast.expr) else v for v in value
                ]
                setattr(node, name, nested)
        return ast.unparse(node)


@dataclass(frozen=True)
class Value:
    """A value expression's text, how the result is stored, and what a check of it says.

    form: word, float, limbs (128 bits), list, or words and floats (`texts`: several side by side).
    check: "" or what comes with the value: "found" (else NULL), "fits" (else overflow), "single" (one row, else an
    error). names: those in the expression.
    """

    texts: tuple[str, ...]
    form: str
    check: str = ""
    names: frozenset[str] = frozenset()


def lower_value(
    expression: str,
    scope: NameScope,
    argument: pa.DataType | None,
    result: pa.DataType,
    fractions: tuple[float, ...] | None = None,
    reals: bool = False,
) -> Value:
    """The value of a call. `fractions`: of a percentile that gives several; `reals`: a view's words are DOUBLEs."""
    if fractions is None:
        value = _single_value(expression, scope, argument, result, reals)
    else:
        single = [
            _single_value(
                expression,
                replace(scope, names={**scope.names, "fraction": repr(fraction)}),
                argument,
                result.value_type,
                reals,
            )
            for fraction in fractions
        ]
        value = Value(tuple(v.texts[0] for v in single), f"{single[0].form}s")
    return replace(value, names=names_in(expression))


def _single_value(
    expression: str,
    scope: NameScope,
    argument: pa.DataType | None,
    result: pa.DataType,
    reals: bool,
) -> Value:
    call = ast.parse(expression, mode="eval").body
    # Shown as it is kept: through a double, as expressions are, whole numbers beyond 2**53 would change.
    if isinstance(call, ast.Name) and scope.kinds.get(call.id) in ("int", "word"):
        return Value((scope.names[call.id],), "word")
    if isinstance(call, ast.Call) and isinstance(call.func, ast.Name):
        function = call.func.id
        if function in VIEW_FUNCTIONS:
            form = VIEW_FUNCTIONS[function].form
            text = lower(expression, scope).text
            if form in ("found", "single"):
                return Value((text,), "word", form)
            # The view's words sort as its DOUBLEs do, and are turned back.
            if form == "word" and reals:
                return Value((f"rt.word_to_float({text})",), "float")
            return Value((text,), form)
        if function in ("total", "average"):
            names = [a.id for a in call.args if isinstance(a, ast.Name)]
            return sum_value(function, names, scope, argument, result)
    text = lower(expression, scope).text
    if pa.types.is_boolean(result):
        return Value((f"rt.truth({text})",), "word")
    return float_value(text, result)


def float_value(text: str, result: pa.DataType) -> Value:
    """A float expression as a result of another type: integers truncate, decimals round."""
    if pa.types.is_integer(result):
        return Value((f"rt.truncate_float({text}, {result.bit_width})",), "word")
    if pa.types.is_decimal(result):
        return Value(
            (f"rt.float_to_decimal({text}, {result.precision}, {result.scale})",), "limbs", "found"
        )
    return Value((text,), "float")


def sum_value(
    function: str,
    names: list[str],
    scope: NameScope,
    argument: pa.DataType | None,
    result: pa.DataType,
) -> Value:
    total, kind = scope.names[names[0]], scope.kinds[names[0]]
    if kind == "float":
        place = f"state.spill, s, {scope.spills[names[0]]}, {total}"
        if function == "total":
            return float_value(f"rt.float_total({place})", result)
        return float_value(f"rt.float_average({place}, {scope.names[names[1]]})", result)
    if function == "total":
        return _total(total, kind, result)
    return _average(total, scope.names[names[1]], kind, argument, result)


def _as_real(kind: Kind, total: str, scale: int) -> str:
    """A sum of integers or decimals as a DOUBLE."""
    text = f"rt.wide_to_float({total})" if kind == "wide" else f"rt.int_real({total})"
    return f"{text} / {10.0**scale!r}" if scale else text


def _total(total: str, kind: Kind, result: pa.DataType) -> Value:
    if kind == "wide" and pa.types.is_decimal(result):
        return Value((f"rt.wide_to_decimal({total}, {result.precision})",), "limbs", "fits")
    if kind == "wide":
        return Value((f"rt.wide_to_bigint({total})",), "word", "fits")
    # In Flink a sum wraps around at the width of its type.
    return Value((f"rt.wrap({total}, {result.bit_width})",), "word")


def _average(
    total: str, count: str, kind: Kind, argument: pa.DataType | None, result: pa.DataType
) -> Value:
    if pa.types.is_decimal(result):
        assert argument is not None
        digits = result.scale - argument.scale
        text = f"rt.divide_wide({total}, {count}, {digits}, {result.precision})"
        return Value((text,), "limbs", "fits")
    if pa.types.is_integer(result):
        # Flink's average of integers is one, cut toward zero, over a sum that wraps.
        quotient = f"rt.truncate_divide(rt.wrap({total}, 64), {count})"
        return Value((f"rt.wrap({quotient}, {result.bit_width})",), "word")
    if kind == "wide":
        return Value((f"rt.wide_to_float({total}) / {count}",), "float")
    return Value((f"{total} / {count}",), "float")
