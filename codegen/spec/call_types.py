"""The result type of a call, and the checks of its arguments and options."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from aggloom.codegen.catalogue.entry import ARGUMENT_KINDS, Aggregate, Argument, Option, Types
from aggloom.codegen.catalogue.registry import arguments_of, options_of
from aggloom.codegen.catalogue.result_types import is_number, widens
from aggloom.codegen.spec.agg_call import AggCall
from aggloom.codegen.spec.dtypes import parse_type, type_name
from aggloom.codegen.user import checks as user_check
from aggloom.errors import SpecError, TypeMismatchError, nearest


def result_type(call: AggCall, types: Types, dialect: str) -> pa.DataType:
    """The result type of a call for arguments of these types.

    Raises TypeMismatchError if the arguments do not fit, SpecError if the options do not.
    """
    entry = entry_of(call)
    check_arguments(call, types)
    if not isinstance(entry.result, str):
        return entry.result(types, dialect, options_of(entry, dict(call.options), dialect))
    result = types[0] if entry.result == "argument" else parse_type(entry.result)
    user_check.check_types(entry, types, result)
    return result


def entry_of(call: AggCall) -> Aggregate:
    """The entry of a call whose function exists."""
    assert call.entry is not None
    return call.entry


def check_arguments(call: AggCall, types: Types) -> None:
    """Raise TypeMismatchError or SpecError unless a call's arguments and options are what its entry says."""
    entry = entry_of(call)
    least = sum(not a.optional for a in entry.arguments)
    # Only the last argument may be many: the end of one in the middle would be unknown.
    most = None if entry.arguments and entry.arguments[-1].many else len(entry.arguments)
    if len(types) < least or (most is not None and len(types) > most):
        expected_count = (
            _count_arguments(least) if most == least else f"{least} to {most} arguments"
        )
        raise TypeMismatchError(f"{entry.name} takes {expected_count}, got {len(types)}")
    for argument, dtype in zip(arguments_of(entry, len(types)), types, strict=True):
        problem = _unfit(argument, dtype)
        if problem:
            raise TypeMismatchError(
                f"{entry.name} needs {problem}, got {type_name(dtype)}; cast the argument or use another function"
            )
    if call.distinct and any(a.name == "frequency" for a in entry.arguments[: len(types)][1:]):
        raise TypeMismatchError(
            f"{entry.name} takes DISTINCT or a frequency, not both; leave one of them out"
        )
    _check_options(entry, dict(call.options))


def _count_arguments(count: int) -> str:
    words = {0: "no argument", 1: "one argument", 2: "two arguments"}
    return words.get(count, f"{count} arguments")


def _unfit(argument: Argument, dtype: pa.DataType) -> str:
    """Return the expected type as text if an argument of this type does not fit; else ""."""
    if argument.kind not in ARGUMENT_KINDS:
        return "" if widens(dtype, parse_type(argument.kind)) else argument.kind
    fits, expected_type = {
        "any": (True, ""),
        "number": (is_number(dtype), "a number"),
        "integer": (pa.types.is_integer(dtype), "an integer"),
        "boolean": (pa.types.is_boolean(dtype), "a BOOLEAN"),
        "scalar": (
            not pa.types.is_nested(dtype) and not pa.types.is_binary(dtype),
            "a single value that has a text",
        ),
    }[argument.kind]
    return "" if fits else expected_type


def _check_options(entry: Aggregate, options: Mapping[str, Any]) -> None:
    known = {option.name: option for option in entry.options}
    for name, value in options.items():
        if name not in known:
            hint = nearest(name, known) if known else "It has none."
            raise SpecError(f"{entry.name} has no option {name!r}. {hint}")
        problem = _unfit_value(known[name], value)
        if problem:
            raise SpecError(f"{entry.name}: option {name!r} must be {problem}, not {value!r}")
    for option in entry.options:
        if option.required and option.name not in options:
            raise SpecError(f"{entry.name} needs the option {option.name!r}, such as 0.5")


def _unfit_value(option: Option, value: Any) -> str:
    """Return the expected value as text if this value of an option is invalid; else ""."""
    if option.kind == "text":
        return "" if isinstance(value, str) else "a text"
    if option.kind == "choice":
        return "" if value in option.choices else " or ".join(map(repr, option.choices))
    if option.kind == "whole":
        # True is an int to Python.
        whole = isinstance(value, int) and not isinstance(value, bool) and value >= option.least
        return "" if whole else f"an integer of at least {option.least}"
    if option.kind == "fraction":
        return "" if _is_fraction(value) and 0 < value < 1 else "a number between 0 and 1"
    several = value if isinstance(value, tuple) else (value,)
    right = bool(several) and all(_is_fraction(each) for each in several)
    return "" if right else "a number from 0 to 1, or a list of them"


def _is_fraction(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1
