"""The module of a matcher: rendered from its definition, written once, and loaded."""

from __future__ import annotations

import hashlib
import sys
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Final

from aggloom.codegen.handler.emit import import_module, write_once
from aggloom.codegen.handler.render import format_draft, text_digest
from aggloom.codegen.match.conditions import column_number, condition_code, mask
from aggloom.codegen.match.definition import MatchDefinition, MatchOperand, field_type
from aggloom.codegen.match.values import domain_of
from aggloom.codegen.spec.choices import Backend
from aggloom.codegen.templating import comment, escape_docstring, template_environment
from aggloom.private_directory import cache_directory, refuse_foreign

_ROOT: Final = Path(__file__).resolve().parent.parent.parent
_SUPPORT: Final = "aggloom.runtime.operators.match"
_VOCABULARY: Final = {"numba": "vocabulary", "python": "navigation"}


@dataclass(frozen=True)
class _Transitions:
    """The transitions from a state, as numbers and as text."""

    numbers: tuple[int, ...]
    text: str


@dataclass(frozen=True)
class _Function:
    """A condition as the template prints it."""

    name: str
    variable: int
    written: str
    lines: tuple[str, ...]
    truth: str


@dataclass(frozen=True)
class _Total:
    """An aggregate as the template prints it; column None: it counts rows."""

    text: str
    column: int | None
    test: str
    step: str


@dataclass(frozen=True)
class _Module:
    """The values that the template prints."""

    title: str
    about: str
    support: str
    vocabulary: str
    backend: str
    digest: str
    accept: int
    variables: tuple[str, ...]
    variable: tuple[int, ...]
    transitions: tuple[_Transitions, ...]
    columns: tuple[str, ...]
    reach: int
    conditions: tuple[_Function, ...]
    totals: tuple[_Total, ...]
    total_kinds: tuple[str, ...]
    is_local: bool
    skip: str
    skip_text: str
    skip_mask: int
    skip_range: str


def matcher_text(definition: MatchDefinition, backend: Backend = "numba") -> str:
    """The text of the module of a matcher; raises UnsupportedSqlError for a condition that no matcher computes."""
    module = _module_of(definition, backend)
    return format_draft(template_environment().get_template("matcher.py.j2").render(module=module))


@lru_cache(maxsize=64)
def load_matcher(definition: MatchDefinition, backend: Backend = "numba") -> Any:
    """The class Matcher of a definition, whose module is written into the user's cache unless it is there."""
    text = matcher_text(definition, backend)
    digest = text_digest(text)
    path = write_once(text, digest, cache_directory())
    if path.read_text(encoding="utf-8") != text:
        # Somebody edited the file of this name: it is theirs, and this text goes beside it.
        path = write_once(text, digest, path.parent / "shipped")
    refuse_foreign(path)
    # The name has the digest: another text is another module, also within one process.
    name = f"aggloom_matcher_{digest}"
    module = sys.modules.get(name) or import_module(name, path)
    return module.Matcher


@cache
def _support_digest() -> str:
    """The hash of the functions that a matcher calls; Numba's cache cannot see them."""
    # In the module's text the digest makes a change of these functions a change of the module.
    digest = hashlib.sha256()
    for name in ("navigation.py", "vocabulary.py"):
        digest.update((_ROOT / "runtime" / "operators" / "match" / name).read_bytes())
    return digest.hexdigest()[:16]


def _module_of(definition: MatchDefinition, backend: Backend) -> _Module:
    automaton = definition.automaton
    conditions = tuple(
        _function(definition, number) for number in range(len(definition.conditions))
    )
    totals = tuple(operand for operand in definition.operands if operand.adds_up)
    written = [escape_docstring(each.written) for each in definition.conditions]
    aims = " or ".join(automaton.variables[number] for number in definition.skip_to)
    # The template walks over the rows of a match from the side on which the row that is sought is met first.
    rows = "size" if definition.skip == "TO FIRST" else "size - 1, -1, -1"
    return _Module(
        title=f"DEFINE {', '.join(written)}" if written else "A pattern without conditions",
        about=f"{len(automaton.transitions)} states, {'compiled by Numba' if backend == 'numba' else 'plain Python'}",
        support=_SUPPORT,
        vocabulary=_VOCABULARY[backend],
        backend=backend,
        digest=_support_digest(),
        accept=0,
        variables=automaton.variables,
        variable=automaton.variable,
        transitions=tuple(
            _Transitions(transitions, _describe_transitions(definition, state))
            for state, transitions in enumerate(automaton.transitions)
        ),
        columns=tuple(field.name for field in definition.columns),
        reach=definition.reach,
        conditions=conditions,
        totals=tuple(_total(definition, operand) for operand in totals),
        total_kinds=tuple(_kind(definition, operand) for operand in totals),
        is_local=definition.is_local,
        skip=definition.skip,
        skip_text=f"{definition.skip} {aims}".strip(),
        skip_mask=mask(definition.skip_to),
        skip_range=rows,
    )


def _function(definition: MatchDefinition, number: int) -> _Function:
    condition = definition.conditions[number]
    code = condition_code(condition, definition)
    name = definition.automaton.variables[condition.variable]
    # A variable may be any text in quotes, which is no name in Python.
    plain = name.isascii() and name.isidentifier()
    called = (
        f"is_{name.lower()}_{condition.variable}" if plain else f"is_variable_{condition.variable}"
    )
    return _Function(called, condition.variable, condition.written, code.lines, code.truth)


def _describe_transitions(definition: MatchDefinition, state: int) -> str:
    """The transitions from a state, by the names of variables."""
    automaton = definition.automaton

    def name(target: int) -> str:
        return (
            f"{automaton.variables[automaton.variable[target]]} ({target})"
            if target
            else "the match"
        )

    before = name(state) if state else "the start"
    return f"{before}: {', then '.join(name(target) for target in automaton.transitions[state])}"


def _total(definition: MatchDefinition, operand: MatchOperand) -> _Total:
    """An aggregate: which rows count, and what a row makes of it."""
    tests = [f"({mask(operand.variables)} >> variable) & 1"] if operand.variables else []
    title = f"{operand.function}({comment(operand.column) or '*'})"
    if not operand.column:
        return _Total(title, None, " and ".join(tests) or "True", "")
    column = column_number(definition, operand.column)
    tests.append(f"not columns.n{column}[row]")
    new = f"columns.v{column}[row]"
    is_float = domain_of(field_type(definition.columns, operand.column)) == "float"
    if operand.function in ("MIN", "MAX"):
        sign = "<" if operand.function == "MIN" else ">"
        # With < alone a NaN is neither less nor more, and would stay or go by the order of rows; SQL has it as the
        # largest.
        less = f"rt.order({new}, value) {sign} 0" if is_float else f"{new} {sign} value"
        step = f"{new} if count == 0 or {less} else value"
    elif operand.function == "COUNT":
        return _Total(title, None, " and ".join(tests), "")
    else:
        # An addition of whole numbers has to fail where it exceeds 64 bits; Python's and NumPy's own would go on or
        # wrap.
        step = f"value + {new}" if is_float else f"rt.add(value, {new}, 64)"
    return _Total(title, column, " and ".join(tests), step)


def _kind(definition: MatchDefinition, operand: MatchOperand) -> str:
    """The NumPy type of an aggregate's array."""
    if not operand.column:
        return "i8"
    return "f8" if domain_of(field_type(definition.columns, operand.column)) == "float" else "i8"
