"""The type of each expression of a user's entry, determined before any code is generated from it."""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace

from aggloom.codegen.catalogue.entry import Field, Shape, View
from aggloom.errors import SpecError, nearest

_NUMBERS = ("int", "double", "bool")
_BINARY = (ast.Add, ast.Sub, ast.Mult, ast.Mod, ast.FloorDiv)
_REAL = (ast.Div, ast.Pow)
_BITS = (ast.BitAnd, ast.BitOr, ast.BitXor)
_EQUAL = (ast.Eq, ast.NotEq)
_ORDER = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
_REALS = {"sqrt": 1, "log": 1, "exp": 1, "pow": 2, "correlation": 3}
# The number of arguments, besides the sum itself, of functions that change an exact sum.
_CHANGES = {"add": 1, "subtract": 1, "combine": 1}
_PRODUCTS = {"add_product": 2, "subtract_product": 2, "add_power": 2, "subtract_power": 2}
_MOMENTS = {"deviation": 4, "skewness": 4, "kurtosis": 5}
_OTHERS = ("min", "max", "abs", "before", "earlier", "none", "total", "average")
# (view, number of further arguments, type of the result) of functions over views.
_OF_VIEWS = {
    "least": (View("ordered"), 0, "word"),
    "greatest": (View("ordered"), 0, "word"),
    "mode": (View("ordered"), 0, "word"),
    "product": (View("ordered", "real"), 0, "double"),
    "oldest": (View("sequence"), 0, "word"),
    "newest": (View("sequence"), 0, "word"),
    "percentile": (View("ranked", "real"), 1, "double"),
}
VIEWS = tuple(dict.fromkeys(view for view, _, _ in _OF_VIEWS.values()))
FUNCTIONS = (*_OTHERS, *_REALS, *_CHANGES, *_PRODUCTS, *_MOMENTS, *_OF_VIEWS)


@dataclass
class Typing:
    """The names that expressions of a shape may use, with their types, and the inference of types from them.

    arguments, options: kinds by name. state: the kinds of the fields so far, and views. let: types by name. text,
    where: the expression and its place, for messages. field: the one that the expression changes.
    """

    function: str
    arguments: dict[str, str]
    options: dict[str, str]
    state: dict[str, str | View]
    let: dict[str, str]
    text: str = ""
    where: str = ""
    field: Field | None = None

    def step_type(self, text: str, field: Field, step: str) -> str:
        """The type of the expression by which a step changes a field."""
        known = {**self.state, field.name: field.kind}
        if step == "merge":
            known |= {
                f"other_{name}": kind for name, kind in known.items() if isinstance(kind, str)
            }
        arguments = {} if step == "merge" else self.arguments
        where = f"{step} of field {field.name!r}"
        inner = replace(self, arguments=arguments, state=known, where=where, field=field)
        return inner._top(text)

    def value_type(self, shape: Shape) -> str:
        """The type of a shape's value; its `let` and `empty` are checked on the way."""
        kinds: dict[str, str | View] = {
            s.name: s if isinstance(s, View) else s.kind for s in shape.state
        }
        inner = replace(self, arguments={}, state=kinds, let={})
        for name, text in shape.let:
            inner.where = f"let {name!r}"
            inner.let[name] = inner._scalar(inner._top(text), ast.parse("0").body[0])
        if shape.empty is not None:
            inner.where = "empty"
            if inner._top(shape.empty) != "bool":
                raise inner._error("it must be a condition, such as count == 0")
        inner.where = "value"
        return inner._top(shape.value, whole=True)

    def _top(self, text: str, whole: bool = False) -> str:
        if not isinstance(text, str):
            raise SpecError(f"{self.function}: {self.where} must be a text, not {text!r}")
        self.text = text
        try:
            body = ast.parse(text, mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            raise self._error("it is no expression") from None
        function = (
            body.func.id if isinstance(body, ast.Call) and isinstance(body.func, ast.Name) else ""
        )
        if whole and isinstance(body, ast.Call) and function in _OF_VIEWS:
            return self._view_function(body, function)
        return self._type(body)

    def _type(self, node: ast.expr) -> str:
        method = getattr(self, f"_{type(node).__name__.lower()}", None)
        if method is None:
            raise self._error(f"{ast.unparse(node)!r} is not possible here")
        kind: str = method(node)
        return kind

    def _constant(self, node: ast.Constant) -> str:
        if isinstance(node.value, bool):
            return "bool"
        if isinstance(node.value, int) and -(2**63) <= node.value < 2**63:
            return "int"
        if isinstance(node.value, float):
            return "double"
        raise self._error(f"the constant {node.value!r} is no number of 64 bits")

    def _name(self, node: ast.Name) -> str:
        name = node.id
        if name in self.let:
            return self.let[name]
        if name in self.state:
            kind = self.state[name]
            if isinstance(kind, View):
                return "view"
            return {"count": "int", "double": "double", "word": "word"}.get(kind, f"sum {name}")
        if name in self.options:
            return self._option(name)
        if name in self.arguments:
            return self._argument(name)
        hint = nearest(name, [*self.arguments, *self.options, *self.state, *self.let])
        if self.where in ("value", "empty") or self.where.startswith(("let", "merge")):
            hint += " It sees no arguments."
        raise self._error(f"there is no {name!r}. {hint}")

    def _option(self, name: str) -> str:
        kinds = {"whole": "int", "fraction": "double", "fractions": "double"}
        if self.options[name] not in kinds:
            raise self._error(f"the option {name!r} is no number")
        return kinds[self.options[name]]

    def _argument(self, name: str) -> str:
        assert self.field is not None
        kind, of = self.arguments[name], self.field.kind
        if of == "word":
            return "word"
        fits = ("integer", "boolean") if of == "count" else ("number", "integer")
        if kind not in fits:
            raise self._error(
                f"argument {name!r} is of kind {kind!r}, and a field of kind {of!r} takes {' or '.join(fits)}"
            )
        return {"count": "int", "number": f"argument {name}"}.get(of, "double")

    def _binop(self, node: ast.BinOp) -> str:
        left, right = self._number(node.left), self._number(node.right)
        if isinstance(node.op, _BITS) and "double" not in (left, right):
            return "int"
        if isinstance(node.op, _REAL):
            return "double"
        if not isinstance(node.op, _BINARY):
            raise self._error(f"{ast.unparse(node)!r}: this operator is not possible here")
        return "double" if "double" in (left, right) else "int"

    def _unaryop(self, node: ast.UnaryOp) -> str:
        if isinstance(node.op, ast.Not):
            return self._condition(node.operand)
        if isinstance(node.op, ast.Invert):
            raise self._error("~ is not possible here")
        kind = self._number(node.operand)
        return "int" if kind == "bool" else kind

    def _boolop(self, node: ast.BoolOp) -> str:
        for value in node.values:
            self._condition(value)
        return "bool"

    def _compare(self, node: ast.Compare) -> str:
        sides = [self._type(side) for side in (node.left, *node.comparators)]
        for op in node.ops:
            numbers = all(side in _NUMBERS for side in sides)
            words = all(side == "word" for side in sides) and isinstance(op, _EQUAL)
            if not (words or (numbers and isinstance(op, (*_EQUAL, *_ORDER)))):
                fix = "; words are ordered by before(a, b)" if "word" in sides else ""
                raise self._error(f"{ast.unparse(node)!r} cannot be compared so{fix}")
        return "bool"

    def _ifexp(self, node: ast.IfExp) -> str:
        self._condition(node.test)
        return self._common(node, [self._type(node.body), self._type(node.orelse)])

    def _call(self, node: ast.Call) -> str:
        if not isinstance(node.func, ast.Name) or node.keywords:
            raise self._error(f"{ast.unparse(node)!r} is not possible here")
        function = node.func.id
        if function not in FUNCTIONS:
            raise self._error(f"there is no function {function!r}. {nearest(function, FUNCTIONS)}")
        if any(isinstance(each, ast.Starred) for each in node.args):
            raise self._error("* is not possible here")
        if function in _REALS:
            self._require_count(node, function, _REALS[function])
            for each in node.args:
                self._number(each)
            return "double"
        if function in ("min", "max", "abs"):
            return self._extreme(node, function)
        if function in ("before", "earlier"):
            return self._before(node, function)
        if function in _OF_VIEWS:
            kind = self._view_function(node, function)
            if kind != "double":
                raise self._error(f"{function} can only be the whole of a value")
            return kind
        if function == "none":
            self._require_count(node, function, 1)
            self._view(node, function)
            return "bool"
        return self._sum_function(node, function)

    def _extreme(self, node: ast.Call, function: str) -> str:
        if (function == "abs") != (len(node.args) == 1) or not node.args:
            raise self._error(
                f"{function} takes {'one value' if function == 'abs' else 'two values or more'}"
            )
        kind = self._common(node, [self._number(each) for each in node.args])
        return "int" if kind == "bool" else kind

    def _before(self, node: ast.Call, function: str) -> str:
        self._require_count(node, function, 2)
        if any(self._type(each) != "word" for each in node.args):
            raise self._error(f"{function} compares words")
        return "bool"

    def _sum_function(self, node: ast.Call, function: str) -> str:
        needed = {**_MOMENTS, "total": 1, "average": 2}.get(function)
        needed = needed or 1 + {**_CHANGES, **_PRODUCTS}[function]
        self._require_count(node, function, needed)
        kind = self._type(node.args[0])
        if not kind.startswith("sum "):
            raise self._error(f"the first value of {function} is a field of kind number or real")
        if function in ("total", "average") or function in _MOMENTS:
            return self._summary(node, function)
        # An exact sum is several words of state, changed in place; it cannot be assigned to another field.
        if self.field is None or kind != f"sum {self.field.name}":
            raise self._error(f"{function} changes the field itself")
        rest = [self._type(each) for each in node.args[1:]]
        if function == "combine":
            if rest != [f"sum other_{self.field.name}"]:
                raise self._error(f"write combine({self.field.name}, other_{self.field.name})")
        # A number is summed exactly, in the argument's own type; an expression would first be rounded to a double.
        elif self.field.kind == "number":
            if function in _PRODUCTS or not rest[0].startswith("argument "):
                raise self._error(
                    f"{function} of a field of kind 'number' takes an argument as it is; kind 'real' takes expressions"
                )
        elif any(each not in _NUMBERS for each in rest):
            raise self._error(f"{function} takes numbers")
        return kind

    def _summary(self, node: ast.Call, function: str) -> str:
        sums = 3 if function == "deviation" else len(node.args) - 1
        for each in node.args[:sums] if function in _MOMENTS else ():
            kind = self._type(each)
            real = kind.startswith("sum ") and self.state.get(kind[4:]) == "real"
            if not real:
                raise self._error(f"{function} takes fields of kind 'real'")
        if function != "total":
            self._number(node.args[-1])
        return "double"

    def _view_function(self, node: ast.Call, function: str) -> str:
        view_kind, besides, kind = _OF_VIEWS[function]
        self._require_count(node, function, 1 + besides)
        if self._view(node, function) != view_kind:
            raise self._error(f"{function} takes View({view_kind.kind!r}, {view_kind.over!r})")
        for each in node.args[1:]:
            self._number(each)
        return kind

    def _view(self, node: ast.Call, function: str) -> View:
        name = node.args[0]
        view = self.state.get(name.id) if isinstance(name, ast.Name) else None
        if not isinstance(view, View):
            raise self._error(f"{function} takes a view")
        return view

    def _require_count(self, node: ast.Call, function: str, count: int) -> None:
        if len(node.args) != count:
            raise self._error(
                f"{function} takes {count} value{'s' * (count > 1)}, not {len(node.args)}"
            )

    def _number(self, node: ast.expr) -> str:
        return self._scalar(self._type(node), node)

    def _scalar(self, kind: str, node: ast.AST) -> str:
        if kind in _NUMBERS:
            return kind
        expression = repr(ast.unparse(node)) if isinstance(node, ast.expr) else "it"
        fix = "; write total(...) of it" if kind.startswith("sum ") else ""
        raise self._error(f"{expression} is {_describe_kind(kind)}, not a number{fix}")

    def _condition(self, node: ast.expr) -> str:
        if self._type(node) != "bool":
            raise self._error(f"{ast.unparse(node)!r} is no condition; compare it")
        return "bool"

    def _common(self, node: ast.expr, kinds: list[str]) -> str:
        if len(set(kinds)) == 1:
            return kinds[0]
        if all(each in _NUMBERS for each in kinds):
            return "double" if "double" in kinds else "int"
        listed = " and ".join(_describe_kind(each) for each in kinds)
        raise self._error(f"{ast.unparse(node)!r} gives {listed}")

    def _error(self, what: str) -> SpecError:
        return SpecError(f"{self.function}: {self.where}, {self.text!r}: {what}")


def _describe_kind(kind: str) -> str:
    if kind.startswith("sum "):
        return "an exact sum"
    if kind.startswith("argument "):
        return f"the argument {kind.partition(' ')[2]} as a sum takes it"
    return f"a {kind}"
