"""The inverse of an `accumulate` that only adds: a `retract` with the same steps and the opposite signs.

It is derived where the source proves it exact. The state is a number, or numbers with constant keys. Each statement
adds an amount to a number of the state, or subtracts it. Amounts and conditions depend on the arguments alone. Numbers
and amounts are integers, or amounts are Decimal arguments of few digits. So a row adds an amount that it alone decides;
subtracted in any order it is exact, also where 64 bits wrap around.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Mapping
from typing import Final, NoReturn

from aggloom.codegen.user.source import UserSource

INTEGER, DECIMAL, OTHER = "integer", "decimal", "other"
"""The kinds of a value: an integer, a Decimal of at most 18 digits, something else."""
_NUMBER: Final = 0
"""The place of a state that is a number."""
# Functions of Python without side effects, by the kind of their result.
_WHOLE: Final = frozenset(("len", "ord", "int"))
_SAME: Final = frozenset(("abs", "min", "max"))
_TRUTH: Final = frozenset(("bool", "any", "all"))
_PURE: Final = frozenset(("float", "str", "round", "sum", "sorted"))
_METHODS: Final = frozenset(
    (
        *("startswith", "endswith", "lower", "upper", "strip", "lstrip", "rstrip", "isdigit"),
        *("isalpha", "split", "find", "count", "replace", "get", "date", "weekday", "isoweekday"),
    )
)
_INT_METHODS: Final = frozenset(("find", "count", "weekday", "isoweekday"))
_INT_FIELDS: Final = frozenset(("year", "month", "day", "hour", "minute", "second", "microsecond"))
_TRUTH_METHODS: Final = frozenset(("startswith", "endswith", "isdigit", "isalpha"))
_MATH: Final = frozenset(("floor", "ceil", "trunc", "gcd", "isqrt"))
_INT_OPERATORS: Final = (
    *(ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod),
    *(ast.LShift, ast.RShift, ast.BitAnd, ast.BitOr, ast.BitXor),
)
_OPERATORS: Final = (*_INT_OPERATORS, ast.Div, ast.Pow)


class NoInverse(Exception):
    """Raised if no inverse is derived; the text is the reason, as the end of a sentence."""


def derive_retract(source: UserSource, kinds: Mapping[str, str]) -> ast.FunctionDef | str:
    """The inverse of a class's `accumulate` under the name `retract`, or the reason why none is derived.

    kinds: INTEGER, DECIMAL or OTHER by the name of an argument, in their order.

    Example:
        >>> from aggloom.codegen.user.source import parse
        >>> text = "class A:\\n def create(): return (0, 0)\\n def accumulate(s, v): return (s[0] + v, s[1] + 1)\\n"
        >>> text += " def value(s): return s[0]"
        >>> print(ast.unparse(derive_retract(parse(text, "A"), {"v": INTEGER})))
        def retract(s, v):
            return (s[0] - v, s[1] - 1)
    """
    # A copy, since the signs are changed in place.
    method = copy.deepcopy(source.methods["accumulate"])
    names = [argument.arg for argument in (*method.args.posonlyargs, *method.args.args)]
    try:
        places = _places(source.methods["create"])
        known = dict(zip(names[1:], kinds.values(), strict=True))
        _Inversion(source, names[0], places, known).invert_all(method.body)
    except NoInverse as error:
        return str(error)
    method.name = "retract"
    return ast.fix_missing_locations(method)


def _places(create: ast.FunctionDef) -> tuple[type, tuple[int | str, ...]]:
    """The type of the state that create returns, and the places of its integers; raises NoInverse."""
    body = [each for each in create.body if not _is_docstring(each)]
    try:
        returned = body[0] if len(body) == 1 else None
        if not isinstance(returned, ast.Return) or returned.value is None:
            raise ValueError
        state = ast.literal_eval(returned.value)
    except ValueError:
        raise NoInverse("create does not return a constant") from None
    if type(state) is int:
        return int, (_NUMBER,)
    if type(state) not in (tuple, list, dict) or not state:
        raise NoInverse(f"its state is a {type(state).__name__}")
    values = state.values() if isinstance(state, dict) else state
    # Exactly int: True is one to isinstance, and sums of floats are not exact.
    if not all(type(value) is int for value in values):
        raise NoInverse("its state does not begin with integers alone")
    places = tuple(state) if isinstance(state, dict) else tuple(range(len(state)))
    return type(state), places


class _Inversion:
    """Inverts the signs of the steps of a method, in place; raises NoInverse at the first statement that is no step."""

    def __init__(
        self,
        source: UserSource,
        state: str,
        places: tuple[type, tuple[int | str, ...]],
        kinds: Mapping[str, str],
    ) -> None:
        self.source, self.state = source, state
        self.kind, self.places = places
        self.arguments, self.known = frozenset(kinds), dict(kinds)
        self.own = source.selves.get("accumulate")
        self.fields: dict[str, int | str] = {state: _NUMBER} if self.kind is int else {}

    def invert_all(self, statements: list[ast.stmt]) -> None:
        """Invert the statements of a body."""
        for statement in statements:
            self._invert(statement)

    def _invert(self, statement: ast.stmt) -> None:
        if isinstance(statement, ast.Pass) or _is_docstring(statement):
            return
        if isinstance(statement, ast.If):
            # A retraction must take the same branch, so the condition may not depend on the state.
            self._kind_of(statement.test)
            self.invert_all(statement.body)
            self.invert_all(statement.orelse)
        elif isinstance(statement, ast.Return):
            self._invert_return(statement)
        elif isinstance(statement, ast.AugAssign):
            self._invert_step(statement)
        elif isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            self._invert_assignment(statement, statement.targets[0])
        else:
            _refuse("does more than add", statement)

    def _invert_step(self, step: ast.AugAssign) -> None:
        """`field += amount` becomes `field -= amount`."""
        if self._place_of(step.target) is None:
            _refuse("changes what is no number of the state", step)
        if not isinstance(step.op, ast.Add | ast.Sub):
            _refuse("does more than add", step)
        self._require_amount(step.value)
        step.op = ast.Sub() if isinstance(step.op, ast.Add) else ast.Add()

    def _invert_assignment(self, statement: ast.Assign, target: ast.expr) -> None:
        value = statement.value
        if isinstance(target, ast.Tuple) and _is_name(value, self.state):
            self._unpack(statement, target)
        elif (place := self._place_of(target)) is not None:
            statement.value = self._invert_value(value, place)
        elif isinstance(target, ast.Name) and target.id not in {*self.arguments, self.state}:
            # A local variable may be a value of the arguments, such as a date's year.
            kind = self._kind_of(value)
            # A variable that is assigned twice may have either kind.
            self.known[target.id] = kind if self.known.get(target.id, kind) == kind else OTHER
        else:
            _refuse("gives a new meaning to a name", statement)

    def _unpack(self, statement: ast.Assign, target: ast.Tuple) -> None:
        """`a, b = state`: the names of the numbers."""
        names = [each.id for each in target.elts if isinstance(each, ast.Name)]
        names_in_use = {*self.arguments, *self.known, self.state}
        if (
            self.kind is not tuple
            or len(set(names)) != len(self.places)
            or names_in_use & set(names)
        ):
            _refuse("takes the state apart in another way", statement)
        # A second unpacking would read numbers that have changed since the first.
        if len(target.elts) != len(names) or self.fields:
            _refuse("takes the state apart in another way", statement)
        # From here on these names are the numbers of the state.
        self.fields = dict(zip(names, self.places, strict=True))

    def _invert_return(self, statement: ast.Return) -> None:
        value = statement.value
        # A list or dict is changed where it is, and need not be returned.
        changes_in_place = self.kind in (list, dict)
        if _is_name(value, self.state):
            # An unpacked tuple is unchanged, in the inverse too.
            return
        if value is None or (isinstance(value, ast.Constant) and value.value is None):
            if not changes_in_place:
                _refuse("returns no state", statement)
            return
        if self.kind is int:
            statement.value = self._invert_value(value, _NUMBER)
        elif self.kind is tuple and isinstance(value, ast.Tuple):
            if len(value.elts) != len(self.places):
                _refuse("returns another state", statement)
            value.elts = [
                self._invert_value(each, place)
                for each, place in zip(value.elts, self.places, strict=True)
            ]
        else:
            _refuse("returns another state", statement)

    def _invert_value(self, value: ast.expr, place: int | str) -> ast.expr:
        """A number of the state with amounts added, with the opposite signs."""
        if self._is_field(value, place):
            return value
        if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add | ast.Sub):
            adds = isinstance(value.op, ast.Add)
            if self._holds_field(value.left, place):
                self._require_amount(value.right)
                left = self._invert_value(value.left, place)
                return ast.BinOp(left, ast.Sub() if adds else ast.Add(), value.right)
            # Amount + field; not amount - field, which is no sum.
            if adds and self._holds_field(value.right, place):
                self._require_amount(value.left)
                return ast.BinOp(self._invert_value(value.right, place), ast.Sub(), value.left)
        return _refuse("does more than add", value)

    def _holds_field(self, value: ast.expr, place: int | str) -> bool:
        return any(
            isinstance(part, ast.expr) and self._is_field(part, place) for part in ast.walk(value)
        )

    def _is_field(self, node: ast.expr, place: int | str) -> bool:
        place_of_node = self._place_of(node)
        return (
            place_of_node is not None
            # True and 1 are one key of a dict, and 1.0 as well; as places of the source they are different.
            and type(place_of_node) is type(place)
            and place_of_node == place
        )

    def _place_of(self, node: ast.expr) -> int | str | None:
        """The place of a number of the state that a name or `state[place]` means; None for anything else."""
        if isinstance(node, ast.Name):
            return self.fields.get(node.id)
        if isinstance(node, ast.Subscript) and _is_name(node.value, self.state):
            index = node.slice
            may_write = self.kind in (list, dict) or isinstance(node.ctx, ast.Load)
            # After an unpacking there would be two states: the old one, and the one in the variables.
            if isinstance(index, ast.Constant) and may_write and not self.fields:
                same = (each for each in self.places if type(each) is type(index.value))
                return next((each for each in same if each == index.value), None)
        return None

    def _require_amount(self, value: ast.expr) -> None:
        """Raise NoInverse unless a value is an integer of the arguments alone, or a Decimal argument of few digits."""
        # -x of a Decimal argument has as many digits as x. Python may round a sum of two.
        bare = value.operand if isinstance(value, ast.UnaryOp) else value
        is_argument = isinstance(bare, ast.Name) and bare.id in self.arguments
        kind = self._kind_of(value)
        if kind == INTEGER or (kind == DECIMAL and is_argument):
            return
        _refuse("adds what need not be an integer", value)

    def _kind_of(self, node: ast.expr) -> str:
        """The kind of a value that depends on the arguments alone; raises NoInverse for any other."""
        if isinstance(node, ast.Constant):
            return INTEGER if isinstance(node.value, int) else OTHER
        if isinstance(node, ast.Name):
            return self._kind_of_name(node)
        # TRUE and FALSE are integers to Python's +.
        if isinstance(node, ast.Compare):
            for part in (node.left, *node.comparators):
                self._kind_of(part)
            return INTEGER
        if isinstance(node, ast.BinOp):
            kinds = {self._kind_of(node.left), self._kind_of(node.right)}
            if not isinstance(node.op, _OPERATORS):
                _refuse("computes something else", node)
            # An integer to a negative power is a float.
            whole = isinstance(node.op, _INT_OPERATORS) or _is_power(node)
            return INTEGER if whole and kinds == {INTEGER} else OTHER
        if isinstance(node, ast.UnaryOp):
            kind = self._kind_of(node.operand)
            return INTEGER if isinstance(node.op, ast.Not) else kind
        if isinstance(node, ast.BoolOp):
            return _common([self._kind_of(each) for each in node.values])
        if isinstance(node, ast.IfExp):
            self._kind_of(node.test)
            return _common([self._kind_of(node.body), self._kind_of(node.orelse)])
        if isinstance(node, ast.Call):
            return self._kind_of_call(node)
        if isinstance(node, ast.Attribute):
            return self._kind_of_attribute(node)
        if isinstance(node, ast.Subscript | ast.Tuple | ast.List | ast.Slice):
            for child in ast.iter_child_nodes(node):
                if isinstance(child, ast.expr):
                    self._kind_of(child)
            return OTHER
        return _refuse("computes something else", node)

    def _kind_of_name(self, node: ast.Name) -> str:
        if node.id in self.known:
            return self.known[node.id]
        if node.id in self.source.constants:
            return _kind_of_constant(self.source.constants[node.id], node)
        return _refuse("depends on more than the arguments", node)

    def _kind_of_attribute(self, node: ast.Attribute) -> str:
        owner = node.value
        if isinstance(owner, ast.Name) and owner.id in (self.own, self.source.class_name):
            member = self.source.members.get(node.attr)
            if member is None:
                _refuse("depends on more than the arguments", node)
            return _kind_of_constant(member, node)
        self._kind_of(owner)
        if node.attr in _INT_FIELDS:
            return INTEGER
        return _refuse("computes something else", node)

    def _kind_of_call(self, node: ast.Call) -> str:
        if node.keywords or any(isinstance(each, ast.Starred) for each in node.args):
            _refuse("computes something else", node)
        kinds = [self._kind_of(each) for each in node.args]
        if isinstance(node.func, ast.Name):
            name = node.func.id
            # The source may define the name of a builtin itself.
            if name in self.known or name in self.source.constants or name in self.source.imports:
                _refuse("computes something else", node)
            if name in _WHOLE or name in _TRUTH:
                return INTEGER
            if name in _SAME and len(kinds) > (name != "abs"):
                return _common(kinds)
            if name in _PURE:
                return OTHER
        elif isinstance(node.func, ast.Attribute):
            owner, name = node.func.value, node.func.attr
            if isinstance(owner, ast.Name) and self.source.imports.get(owner.id) == "math":
                if name in _MATH:
                    return INTEGER
            elif name in _METHODS:
                self._kind_of(owner)
                return INTEGER if name in _INT_METHODS | _TRUTH_METHODS else OTHER
        return _refuse("computes something else", node)


def _kind_of_constant(value: ast.expr, place: ast.AST) -> str:
    """The kind of a constant of the source; raises NoInverse for one that can be changed in place."""
    constant = ast.literal_eval(value)
    try:
        hash(constant)
    except TypeError:
        _refuse("depends on more than the arguments", place)
    return INTEGER if isinstance(constant, int) else OTHER


def _is_power(node: ast.BinOp) -> bool:
    """Tell whether an operator is a power with a constant, non-negative integer exponent."""
    power = node.right.value if isinstance(node.right, ast.Constant) else None
    return isinstance(node.op, ast.Pow) and type(power) is int and power >= 0


def _common(kinds: list[str]) -> str:
    return kinds[0] if len(set(kinds)) == 1 else OTHER


def _is_name(node: ast.expr | None, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _is_docstring(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _refuse(what: str, node: ast.AST) -> NoReturn:
    raise NoInverse(f"accumulate {what}: `{ast.unparse(node).partition(chr(10))[0]}`")
