"""The lines of a generated module that belong to each call, for the comments in it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from aggloom.codegen.spec.agg_call import describe_call
from aggloom.codegen.spec.agg_spec import AggSpec
from aggloom.codegen.templating import comment

_OWN_LINE = re.compile(r"( *)# (.*)")
_BESIDE = re.compile(r".*?  # (.*)")
_VALUES = "def value_row("
_FUNCTION = 4
"""Number of spaces by which the lines of a function are indented."""


def lines_of_calls(text: str, spec: AggSpec) -> dict[str, list[int]]:
    """The numbers of the lines (from 1) of each call of a spec, by the call as it is described.

    A block begins with a comment that names its calls, and ends where another begins, where lines are indented less, or
    with an empty line.
    """
    names = {comment(describe_call(call)): describe_call(call) for call in spec.calls}
    numbers_by_call: dict[str, list[int]] = {described: [] for described in names.values()}
    lines = text.splitlines()
    for number, calls in _blocks(lines, sorted(names, key=len, reverse=True)):
        for call in calls:
            numbers_by_call[names[call]].append(number)
    return numbers_by_call


def _blocks(lines: Sequence[str], names: Sequence[str]) -> Iterator[tuple[int, list[str]]]:
    """(number, calls) of each line that works for calls."""
    calls: list[str] = []
    indent, in_values = 0, False
    for number, line in enumerate(lines, 1):
        if line.startswith(("def ", "class ")):
            calls, in_values = [], line.startswith(_VALUES)
        own, beside = _OWN_LINE.fullmatch(line), _BESIDE.fullmatch(line)
        named = _split_calls(own[2], names) if own else []
        if named and own:
            calls, indent = named, len(own[1])
        elif beside and not calls:
            yield from ((number, [each]) for each in _split_calls(beside[1], names))
        if not line.strip():
            # What comes after a block of a function's own lines is for all calls; of values each block is one call's.
            calls = calls if in_values or indent > _FUNCTION else []
        elif len(line) - len(line.lstrip()) < indent:
            calls = []
        elif calls:
            yield number, calls


def _split_calls(words: str, names: Sequence[str]) -> list[str]:
    """The calls that a comment lists, the longest names first; none if it says anything else."""
    calls = []
    while words:
        name = next((each for each in names if words == each or words.startswith(f"{each}, ")), "")
        if not name:
            return []
        calls.append(name)
        words = words[len(name) + 2 :]
    return calls
