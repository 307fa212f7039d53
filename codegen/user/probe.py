"""The probe of a user's functions: Numba compiles them once, at plan time, for the types of the query.

The only module of this layer that imports Numba, and only when a class is planned: the backend of a handler must be
known before its module is generated.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from aggloom.codegen.user.source import CHANGES, LIFE_CYCLE, MARK, ROWS

_NOISE = re.compile(r"Failed in |- Resolution|During:|\s*$|File |\s*>>>|There are")
_TYPES = {"whole": "int64", "real": "float64", "flag": "boolean"}


@dataclass(frozen=True)
class Verdict:
    """The result of a probe. reason: why Numba does not compile the functions; empty if it does.

    state: "int" or "double" for each number of the state. value: "int", "double" or "bool". columns: the same for the
    rows of a table aggregate. is_bare: its rows are no tuples.
    """

    reason: str = ""
    state: tuple[str, ...] = ()
    value: str = ""
    columns: tuple[str, ...] = ()
    is_bare: bool = False

    @property
    def is_compiled(self) -> bool:
        return not self.reason


class _Refused(Exception):
    """Raised for a state or a result that compiled code cannot have."""


def probe(
    functions: Mapping[str, Any],
    texts: Mapping[str, str],
    state: Any,
    forms: tuple[str, ...],
    result: str = "value",
) -> Verdict:
    """Compile the functions for a state such as this one and arguments of these forms.

    functions: by the method's name; they call each other as `user_<name>`, in globals of their own. texts: the
    generated texts, for the line in a message. result: the method that returns the result, `value`, or `rows` of a
    table aggregate.
    """
    from numba import njit, types

    arguments = tuple(getattr(types, _TYPES[form]) for form in forms)
    single = not isinstance(state, tuple)
    numbers = (state,) if single else state
    kinds = ["double" if isinstance(number, float) else "int" for number in numbers]
    steps = [name for name in ("accumulate", "retract", "merge") if name in functions]
    emits = result == ROWS
    # A class with one value may have other methods of these names.
    marks = [name for name in (MARK,) if emits and name in functions]
    steps += marks
    results = [result, *([CHANGES] if marks else [])]
    step = ""
    for name, function in functions.items():
        if name in LIFE_CYCLE:
            continue
        # Methods call one another by these names.
        function.__globals__[f"user_{name}"] = njit(_nrt=False)(function)
    try:
        for _ in range(len(kinds) + 1):
            before = list(kinds)
            compiled = {name: njit(_nrt=False)(functions[name]) for name in (*steps, *results)}
            state_type = _state_type(kinds, single)
            for step in steps:
                signature = (
                    (state_type, state_type) if step == "merge" else (state_type, *arguments)
                )
                signature = (state_type,) if step == MARK else signature
                _widen_state(kinds, _result(compiled[step], signature), single)
            if kinds == before:
                step = result
                returned = _result(compiled[result], (state_type,))
                if result == "value":
                    return Verdict("", tuple(kinds), _value(returned))
                columns, is_bare = _columns(returned)
                if marks:
                    step = CHANGES
                    _require_changes(columns, _result(compiled[CHANGES], (state_type,)))
                return Verdict("", tuple(kinds), columns=columns, is_bare=is_bare)
    except _Refused as error:
        return Verdict(f"{step}: {error}")
    except Exception as error:
        # Numba's own errors, and any other that it raises for code that it does not support.
        return Verdict(f"{step}: {_first_line(error)}{_line(error, texts.get(step, ''))}")
    return Verdict(f"{step}: the types of the state change with every step")


def _state_type(kinds: list[str], single: bool) -> Any:
    from numba import types

    types_of_fields = [types.int64 if kind == "int" else types.float64 for kind in kinds]
    return types_of_fields[0] if single else types.Tuple(types_of_fields)


def _result(function: Any, signature: tuple[Any, ...]) -> Any:
    from numba import types

    function.compile(signature)
    return types.unliteral(function.overloads[signature].signature.return_type)


def _widen_state(kinds: list[str], returned: Any, single: bool) -> None:
    """Widen the kinds of the state to those that a step returns; raises _Refused if no state has them."""
    from numba import types

    parts = (
        [returned] if single else list(returned) if isinstance(returned, types.BaseTuple) else []
    )
    if len(parts) != len(kinds):
        raise _Refused(f"it returns {returned}, not a state like that of create")
    for place, part in enumerate(parts):
        kind = _number(types.unliteral(part))
        if kind is None:
            raise _Refused(f"it returns {returned}, and a compiled state holds numbers of 64 bits")
        if kind == "double":
            kinds[place] = "double"


def _number(dtype: Any) -> str | None:
    from numba import types

    if isinstance(dtype, types.Boolean):
        return "int"
    if isinstance(dtype, types.Integer):
        return "int" if dtype.signed or dtype.bitwidth < 64 else None
    return "double" if isinstance(dtype, types.Float) else None


def _value(returned: Any) -> str:
    from numba import types

    inner = returned.type if isinstance(returned, types.Optional) else returned
    if isinstance(inner, types.Boolean):
        return "bool"
    kind = _number(inner)
    if kind is None:
        raise _Refused(f"it returns {returned}, which is no number")
    return kind


def _columns(returned: Any) -> tuple[tuple[str, ...], bool]:
    """(kinds of the columns, is bare) of the rows that a generator yields; raises _Refused."""
    from numba import types

    if not isinstance(returned, types.Generator):
        raise _Refused("it yields no rows; compiled code has no lists, so write `yield`")
    row = returned.yield_type
    is_bare = not isinstance(row, types.BaseTuple)
    return tuple(_value(types.unliteral(part)) for part in ([row] if is_bare else row)), is_bare


def _require_changes(columns: tuple[str, ...], returned: Any) -> None:
    """Raise _Refused unless `changes` yields a truth followed by the values of a row."""
    column_names, _ = _columns(returned)
    if column_names != ("bool", *columns):
        raise _Refused(
            f"it yields {', '.join(column_names)}; yield True or False, and then the values as `rows` has them"
        )


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines()]
    line_of_error = next((line for line in lines if not _NOISE.match(line)), type(error).__name__)
    return "it makes an object" if "NRT required" in line_of_error else line_of_error.rstrip(":")


def _line(error: Exception, text: str) -> str:
    """The line of the source at which Numba stopped, for the end of a message."""
    numbers = re.findall(r"<aggloom>\"?,? ?(?:line )?\(?(\d+)", str(error))
    lines = text.splitlines()
    place = int(numbers[-1]) if numbers else 0
    return (
        f" in `{lines[place - 1].strip().replace('user_', '')}`" if 0 < place <= len(lines) else ""
    )
