"""Functions written as classes: their text in a generated module, and whether Numba compiles them."""

from __future__ import annotations

import datetime
import decimal
import functools
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from aggloom.codegen.catalogue.entry import Aggregate
from aggloom.codegen.spec.dtypes import parse_type, type_name
from aggloom.codegen.user import source as user_source
from aggloom.codegen.user import trust as user_trust
from aggloom.codegen.user.probe import Verdict, probe
from aggloom.errors import SpecError

_LITERALS = "numbers, texts, bytes, dates, Decimals, tuples, lists, dicts and sets"


@dataclass(frozen=True)
class Rendered:
    """The text of a function in a generated module. constants: lines; methods: (name, text); modules: its imports."""

    name: str
    prefix: str
    origin: str
    constants: tuple[str, ...]
    methods: tuple[tuple[str, str], ...]
    modules: frozenset[str]

    def call(self, method: str) -> str:
        return f"{self.prefix}_{method}"


def render(entry: Aggregate, prefix: str, origin: str = "as its user wrote it") -> Rendered:
    """A class as functions whose names begin with a prefix; origin: of its source, for readers of the module."""
    assert entry.code is not None
    source = user_source.parse(entry.code.source, entry.name)
    constants, methods = user_source.functions(source, prefix)
    modules = frozenset(user_source.modules(source))
    return Rendered(entry.name, prefix, origin, tuple(constants), tuple(methods), modules)


def forms(entry: Aggregate, types: tuple[pa.DataType, ...]) -> tuple[str, ...]:
    """Return the forms of a class's arguments: whole (int), real (float), flag (bool) or value (any Python value)."""
    return tuple(
        _form(argument.kind, dtype) for argument, dtype in zip(entry.arguments, types, strict=True)
    )


def _form(kind: str, dtype: pa.DataType) -> str:
    if kind[:1].isupper() and parse_type(kind) == pa.float64():
        return "real"
    if pa.types.is_integer(dtype):
        return "whole"
    if pa.types.is_floating(dtype):
        return "real"
    return "flag" if pa.types.is_boolean(dtype) else "value"


def first_state(entry: Aggregate) -> Any:
    """Return the state that `create` returns."""
    assert entry.code is not None
    user_trust.refuse(user_trust.find_untrusted([entry]))
    return _instance(entry.code.source, entry.name)[1]


def check_create(entry: Aggregate) -> None:
    """Raise SpecError if create fails, or returns a state that cannot be stored or changed."""
    assert entry.code is not None
    state = first_state(entry)
    if not _is_savable(state):
        raise SpecError(
            f"{entry.name}: create returns a {type(state).__name__}, which cannot be saved; "
            f"a state is made of {_LITERALS}"
        )
    # These are changed in place: a step may return nothing.
    if isinstance(state, list | dict | set):
        return
    source = user_source.parse(entry.code.source, entry.name)
    for step in (
        "accumulate",
        "retract",
        "merge",
        *((user_source.MARK,) if entry.emits_rows else ()),
    ):
        if step in source.methods and not user_source.returns(source.methods[step]):
            raise SpecError(
                f"{entry.name}: {step} returns nothing, and its state, a {type(state).__name__}, cannot be changed in "
                "place; return the new state"
            )


def verdict(entry: Aggregate, types: tuple[pa.DataType, ...], result: pa.DataType) -> Verdict:
    """Return whether Numba compiles a class for arguments of these types, or the reason why not."""
    assert entry.code is not None
    argument_forms = forms(entry, types)
    for argument, form, dtype in zip(entry.arguments, argument_forms, types, strict=True):
        if form == "value":
            return Verdict(f"argument {argument.name} is {type_name(dtype)}, a Python object")
    emitted = list(result.value_type) if entry.emits_rows else [pa.field("the result", result)]
    for field in emitted:
        if _number_kind(field.type) is None:
            what = f"column {field.name}" if entry.emits_rows else field.name
            return Verdict(f"{what} is {type_name(field.type)}, a Python object")
    user_trust.refuse(user_trust.find_untrusted([entry]))
    method = user_source.ROWS if entry.emits_rows else "value"
    result_of_probe = _probe_class(entry.code.source, entry.name, argument_forms, method)
    if not result_of_probe.is_compiled:
        return result_of_probe
    kinds = result_of_probe.columns or (result_of_probe.value,)
    if len(kinds) != len(emitted):
        return Verdict(f"{method}: its rows have {len(kinds)} values, not {len(emitted)}")
    for kind, field in zip(kinds, emitted, strict=True):
        expected = _number_kind(field.type)
        # An integer may be returned for a DOUBLE, as in Python.
        if kind != expected and (kind, expected) != ("int", "double"):
            what = f"column {field.name}" if entry.emits_rows else field.name
            return Verdict(f"{method}: it gives {kind}, and {what} is {type_name(field.type)}")
    return result_of_probe


def _number_kind(dtype: pa.DataType) -> str | None:
    """The kind of number of compiled code for a type; None if there is none."""
    if pa.types.is_floating(dtype):
        return "double"
    if pa.types.is_integer(dtype):
        return "int"
    return "bool" if pa.types.is_boolean(dtype) else None


@functools.lru_cache(maxsize=256)
def _probe_class(source: str, name: str, forms: tuple[str, ...], method: str) -> Verdict:
    functions, state = _instance(source, name)
    # By exact type: a bool is an int to isinstance, and another type to Numba.
    numbers = state if isinstance(state, tuple) else (state,)
    if not numbers or not all(type(number) in (int, float, bool) for number in numbers):
        return Verdict(f"create: its state is {_kind(state)}, not a number or a tuple of numbers")
    _, methods = user_source.functions(user_source.parse(source, name), "user")
    return probe(functions, dict(methods), state, forms, method)


def run_source(source: str, name: str) -> dict[str, Any]:
    """Run a source here, and return its methods by their names."""
    parsed = user_source.parse(source, name)
    constants, methods = user_source.functions(parsed, "user")
    scope: dict[str, Any] = {"__name__": "aggloom_user_function"}
    for module, alias in user_source.MODULES.items():
        scope[alias] = __import__(module)
    for text in (*constants, *(text for _, text in methods)):
        exec(compile(text, "<aggloom>", "exec"), scope)
    return {method: scope[f"user_{method}"] for method, _ in methods}


def _instance(source: str, name: str) -> tuple[dict[str, Any], Any]:
    """The functions of a source, and the state that create returns; raises SpecError if it fails."""
    functions = run_source(source, name)
    try:
        return functions, functions["create"]()
    except Exception as error:
        raise SpecError(f"{name}: create fails: {type(error).__name__}: {error}") from None


def _kind(state: Any) -> str:
    if isinstance(state, tuple):
        other = next((n for n in state if type(n) not in (int, float, bool)), None)
        return "an empty tuple" if not state else f"a tuple that holds a {type(other).__name__}"
    return f"a {type(state).__name__}"


def _is_savable(state: Any) -> bool:
    plain = (
        int,
        float,
        str,
        bytes,
        decimal.Decimal,
        datetime.date,
        datetime.time,
        datetime.timedelta,
    )
    if state is None or isinstance(state, plain):
        return True
    # Exactly a dict: a checkpoint would restore a subclass as a dict, without its methods.
    if isinstance(state, dict):
        return type(state) is dict and all(map(_is_savable, [*state, *state.values()]))
    return type(state) in (tuple, list, set, frozenset) and all(map(_is_savable, state))
