"""The checks of a user's function: names, arguments, result, and the type of every expression.

An expression that passes means the same in both backends. Types are checked here, since an error of generated code at
run time would not name the expression.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable

import pyarrow as pa

from aggloom.codegen.catalogue.entry import ARGUMENT_KINDS, Aggregate, Argument, Field, Shape, View
from aggloom.codegen.catalogue.result_types import is_number
from aggloom.codegen.spec.dtypes import parse_type, type_name
from aggloom.codegen.user.expression_types import VIEWS, Typing
from aggloom.errors import SpecError, TypeMismatchError, nearest

FIELD_KINDS = ("count", "number", "real", "double", "word")
_NAME = re.compile(r"[A-Z][A-Z0-9_]*")
_RESERVED = frozenset(("state", "other", "inputs", "out", "word", "rt", "self"))
_STEP_TYPES = {"count": ("int", "bool"), "double": ("double", "int", "bool"), "word": ("word",)}


def check(entry: Aggregate) -> None:
    """Raise SpecError, naming entry and expression, unless an entry of expressions is right."""
    check_signature(entry)
    for argument in entry.arguments:
        if argument.many or argument.optional:
            raise _error(entry, f"argument {argument.name!r} may be neither optional nor many")
    # All names end up as variables of one generated function.
    names = [argument.name for argument in entry.arguments] + [o.name for o in entry.options]
    _check_names(entry, names, "an argument or option")
    if entry.aliases:
        raise _error(entry, "a registered function has no aliases; register it under each name")
    for name in ("nulls", "skips", "returns", "instead", "ignores_distinct"):
        if getattr(entry, name):
            raise _error(entry, f"{name} is for built-in functions; drop it")
    if entry.ordered is not None or entry.ordered_retract is not None:
        raise _error(entry, "ORDER BY inside a registered function is not possible; drop `ordered`")
    if not entry.append.value:
        raise _error(entry, "append=Shape((Field(...),), value) says what it keeps and gives")
    for shape in filter(None, (entry.append, entry.retract)):
        _check_shape(entry, shape)


def check_signature(entry: Aggregate) -> None:
    """Raise SpecError unless name, arguments and result can be written into a spec and a module."""
    if not isinstance(entry.name, str) or not _NAME.fullmatch(entry.name):
        raise SpecError(
            f"function name {entry.name!r}: a name is a letter, then letters, digits and underscores"
        )
    _check_names(entry, [argument.name for argument in entry.arguments], "an argument")
    for argument in entry.arguments:
        _check_kind(entry, argument)
    _check_result(entry)


def check_types(entry: Aggregate, types: tuple[pa.DataType, ...], result: pa.DataType) -> None:
    """Raise TypeMismatchError if state or result cannot be of these types."""
    if entry.code is not None:
        return
    types_by_argument = dict(
        zip((argument.name for argument in entry.arguments), types, strict=False)
    )
    for shape in filter(None, (entry.append, entry.retract)):
        for state in shape.state:
            for name in (
                _find_used_names(state, types_by_argument) if isinstance(state, Field) else ()
            ):
                _check_used(entry, state, name, types_by_argument[name])
        _check_value_type(entry, shape, types, result)


def _check_used(entry: Aggregate, state: Field | View, name: str, dtype: pa.DataType) -> None:
    kind = state.kind
    counts = pa.types.is_integer(dtype) or pa.types.is_boolean(dtype)
    if (kind == "count" and not counts) or (
        kind in ("number", "real", "double") and not is_number(dtype)
    ):
        expected = "integers" if kind == "count" else "numbers"
        raise TypeMismatchError(
            f"{entry.name}: field {state.name!r} is of kind {kind}, which takes {expected}, and argument "
            f"{name!r} is {type_name(dtype)}; cast it, or use another kind of field"
        )


def _check_value_type(
    entry: Aggregate, shape: Shape, types: tuple[pa.DataType, ...], result: pa.DataType
) -> None:
    value_kind = _make_typing(entry).value_type(shape)
    fits = {
        "int": is_number(result),
        "double": is_number(result),
        "bool": pa.types.is_boolean(result),
        "word": bool(types) and result == types[0],
    }.get(value_kind, True)
    if not fits:
        what = "the argument's value" if value_kind == "word" else f"a value of type {value_kind}"
        raise TypeMismatchError(
            f"{entry.name}: value {shape.value!r} gives {what}, which is no {type_name(result)}; "
            "declare another result"
        )


def value_type(entry: Aggregate, shape: Shape) -> str:
    """The type of the value of one of an entry's shapes (codegen/user/expression_types.py)."""
    return _make_typing(entry).value_type(shape)


def _find_used_names(state: Field, names: Iterable[str]) -> list[str]:
    text = f"{state.accumulate} {state.retract}"
    return [name for name in names if re.search(rf"\b{re.escape(name)}\b", text)]


def _error(entry: Aggregate, what: str) -> SpecError:
    return SpecError(f"{entry.name}: {what}")


def _check_names(entry: Aggregate, names: list[str], what: str) -> None:
    for name in names:
        plain = isinstance(name, str) and name.isidentifier() and name.isascii()
        if (
            not plain
            or keyword.iskeyword(name)
            or name in _RESERVED
            or name.startswith(("other_", "__"))
        ):
            raise _error(entry, f"{name!r} cannot be the name of {what}; use another plain word")
        if names.count(name) > 1:
            raise _error(entry, f"the name {name!r} is used twice; rename one")


def _check_kind(entry: Aggregate, argument: Argument) -> None:
    if argument.kind in ARGUMENT_KINDS:
        return
    try:
        parse_type(argument.kind)
    except (SpecError, TypeError):
        hint = nearest(str(argument.kind), [*ARGUMENT_KINDS, "BIGINT", "DOUBLE", "STRING"])
        raise _error(
            entry,
            f"argument {argument.name!r}: {argument.kind!r} is neither a kind nor a type. {hint}",
        ) from None


def _check_result(entry: Aggregate) -> None:
    if not isinstance(entry.result, str):
        raise _error(entry, "result must be a type such as 'DOUBLE', or 'argument'")
    if entry.result == "argument":
        if not entry.arguments:
            raise _error(entry, "result is 'argument', and it has none; name a type")
        return
    try:
        dtype = parse_type(entry.result)
    except SpecError as error:
        raise _error(entry, f"result: {error}") from None
    if pa.types.is_map(dtype):
        raise _error(entry, "result cannot be a MAP; use ARRAY<STRUCT<key ..., value ...>>")


def _check_shape(entry: Aggregate, shape: Shape) -> None:
    if not isinstance(shape, Shape):
        raise _error(entry, f"{shape!r} is no Shape")
    names = [a.name for a in entry.arguments] + [o.name for o in entry.options]
    names += [state.name for state in shape.state] + [name for name, _ in shape.let]
    _check_names(entry, names, "a field, view or let")
    typing = _make_typing(entry)
    for state in shape.state:
        if isinstance(state, View):
            _check_view(entry, state)
        else:
            _check_field(entry, state, typing)
        # In order: a field may read those before it, not those that come after.
        typing.state[state.name] = state.kind if isinstance(state, Field) else state
    typing.value_type(shape)


def _check_view(entry: Aggregate, view: View) -> None:
    if view not in VIEWS:
        known = ", ".join(f"View({each.kind!r}, {each.over!r})" for each in VIEWS)
        raise _error(entry, f"{view} is not possible; known are {known}")
    _check_word(entry)


def _check_word(entry: Aggregate) -> None:
    if not entry.arguments:
        raise _error(entry, "words and views need an argument")
    if len(entry.arguments) > 1 and not entry.row:
        raise _error(entry, "say row=(...): which arguments make up a word, in which order")
    known = [argument.name for argument in entry.arguments]
    for name in entry.row:
        if name not in known:
            raise _error(entry, f"row names no argument {name!r}. {nearest(name, known)}")


def _check_field(entry: Aggregate, state: Field, typing: Typing) -> None:
    if state.kind not in FIELD_KINDS:
        raise _error(
            entry,
            f"field {state.name!r}: kind {state.kind!r}. {nearest(str(state.kind), FIELD_KINDS)}",
        )
    if state.kind == "word":
        _check_word(entry)
    number = isinstance(state.initial, int | float) and not isinstance(state.initial, bool)
    if not number or (state.kind == "count" and not isinstance(state.initial, int)):
        raise _error(
            entry, f"field {state.name!r}: initial {state.initial!r} is no value of its kind"
        )
    # Exact sums and words have an initial value of their own, in several parts.
    if state.initial != 0 and state.kind not in ("count", "double"):
        raise _error(
            entry,
            f"field {state.name!r}: only fields of kind count and double have an initial value",
        )
    for step in ("accumulate", "retract", "merge"):
        text = getattr(state, step)
        if text is None and step == "retract":
            continue
        kind = typing.step_type(text, state, step)
        expected = _STEP_TYPES.get(state.kind, (f"sum {state.name}",))
        if kind not in expected:
            reason = _describe_mismatch(state, kind)
            raise _error(entry, f"{step} of field {state.name!r}, {text!r}: {reason}")


def _describe_mismatch(state: Field, kind: str) -> str:
    if state.kind in ("number", "real"):
        changes = f"add({state.name}, x), subtract({state.name}, x) or combine({state.name}, other_{state.name})"
        return f"an exact sum is changed by {changes} only"
    if state.kind == "count":
        return f"it gives a {kind}, and a count is an integer; use //, or kind 'double'"
    return f"it gives a {kind}, and the field is of kind {state.kind}"


def _make_typing(entry: Aggregate) -> Typing:
    arguments = {}
    for argument in entry.arguments:
        kind = argument.kind
        if kind not in ARGUMENT_KINDS:
            dtype = parse_type(kind)
            kind = (
                "integer"
                if pa.types.is_integer(dtype)
                else "number" if is_number(dtype) else "scalar"
            )
            kind = "boolean" if pa.types.is_boolean(dtype) else kind
        arguments[argument.name] = kind
    options: dict[str, str] = {option.name: option.kind for option in entry.options}
    return Typing(entry.name, arguments, options, {}, {})
