"""The functions that case files call as their users' own, as definitions."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

_MY_AVG = """
class MyAvg:
    def create():
        return 0, 0

    def accumulate(state, value, weight):
        return state[0] + value * weight, state[1] + weight

    def retract(state, value, weight):
        return state[0] - value * weight, state[1] - weight

    def merge(state, other):
        return state[0] + other[0], state[1] + other[1]

    def value(state):
        if state[1] == 0:
            return None
        quotient = abs(state[0]) // abs(state[1])
        return quotient if (state[0] < 0) == (state[1] < 0) else -quotient
"""
_MY_CONCAT = """
class MyConcat:
    def create():
        return {}

    def accumulate(state, x):
        state[x] = state.get(x, 0) + 1

    def retract(state, x):
        state[x] = state.get(x, 0) - 1
        if state[x] == 0:
            del state[x]

    def merge(state, other):
        for x, count in other.items():
            state[x] = state.get(x, 0) + count

    def value(state):
        return "|".join(x for x, count in state.items() if count > 0)
"""
_LTCNT = """
class LtCnt:
    def create():
        return 0

    def accumulate(state, x, y):
        return state + 1 if x is not None and y is not None and x > y else state

    def retract(state, x, y):
        return state - 1 if x is not None and y is not None and x > y else state

    def merge(state, other):
        return state + other

    def value(state):
        return state
"""
_LETTER = re.compile(r"\b([a-z])\b")
FUNCTIONS: tuple[dict[str, Any], ...] = (
    {
        "name": "MY_AVG",
        "arguments": [["value", "BIGINT"], ["weight", "INT"]],
        "result": "BIGINT",
        "source": _MY_AVG,
    },
    {
        "name": "LTCNT",
        "arguments": [["x", "BIGINT"], ["y", "BIGINT"]],
        "result": "BIGINT",
        "source": _LTCNT,
    },
    {"name": "MY_CONCAT", "arguments": [["x", "STRING"]], "result": "STRING", "source": _MY_CONCAT},
)


def spelled_out(sql: str, meanings: Mapping[str, str]) -> str:
    """The query with every call of a function that is none of FUNCTIONS replaced by what it means.

    A meaning is SQL in capitals over small letters, which stand for the arguments in their order: `SUM(x * y)`.
    """
    known = {definition["name"] for definition in FUNCTIONS}
    for name, meaning in meanings.items():
        called = re.compile(rf"(?i)\b{re.escape(name)}\s*\(")
        if name.upper() in known or called.search(meaning):
            continue
        letters = list(dict.fromkeys(_LETTER.findall(meaning)))
        while call := called.search(sql):
            *given, end = _arguments(sql, call.end())
            values = dict(zip(letters, given, strict=False))
            words = [values.get(str(word), str(word)) for word in _LETTER.split(meaning)]
            sql = f"{sql[: call.start()]}{''.join(words)}{sql[int(end) :]}"
    return sql


def _arguments(sql: str, start: int) -> Iterator[str]:
    """The arguments of a call from behind its parenthesis, and last where it ends."""
    depth = 0
    begun = start
    for place in range(start, len(sql)):
        if not depth and sql[place] in ",)":
            yield sql[begun:place].strip()
            begun = place + 1
        if not depth and sql[place] == ")":
            break
        depth += (sql[place] == "(") - (sql[place] == ")")
    yield str(begun)
