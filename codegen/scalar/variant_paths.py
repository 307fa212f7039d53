"""Paths into a VARIANT: the text that VARIANT_GET takes, and v:a.b[0]."""

from __future__ import annotations

import re
from typing import Any, Final

from sqlglot import exp
from sqlglot.tokens import TokenType

from aggloom.codegen.scalar.json_paths import match_steps

Step = str | int
"""The name of a field, or the place of an item from 0."""
_STEP: Final = re.compile(
    r"""\.(?P<name>[^.\[]+)|\['(?P<single>[^'?]+)'\]|\["(?P<double>[^"?]+)"\]|\[(?P<place>\d{1,9})\]"""
)


def path_steps(path: str) -> tuple[Step, ...] | None:
    """The steps of a path such as $.a[0]["b"]; None for what is none."""
    if not path.startswith("$"):
        return None
    matches = match_steps(_STEP, path)
    if matches is None:
        return None
    steps: list[Step] = []
    for match in matches:
        place = match["place"]
        steps.append(int(place) if place else match["name"] or match["single"] or match["double"])
    return tuple(steps)


def path_text(steps: list[Step]) -> str:
    """The path of some steps.

    >>> path_text(["a", "b c", 0])
    '$["a"]["b c"][0]'
    """
    return "$" + "".join(f"[{each}]" if isinstance(each, int) else f'["{each}"]' for each in steps)


def read_colon_path(parser: Any, this: Any) -> Any:
    """The part of a VARIANT that a colon after it asks for, as a call; without a colon the value itself."""
    if not parser._match(TokenType.COLON):
        return this
    steps: list[Step] = []
    named = parser._curr is not None and parser._curr.token_type != TokenType.L_BRACKET
    if named:
        steps.append(_name(parser))
    while True:
        if parser._match(TokenType.DOT):
            steps.append(_name(parser))
        elif parser._match(TokenType.L_BRACKET):
            steps.append(_key(parser))
        else:
            break
    path = exp.Literal.string(path_text(steps))
    call = exp.Anonymous(this="VARIANT_GET", expressions=[this, path])
    # A cast may follow: v:a::INT.
    return parser._parse_column_ops(call)


def _name(parser: Any) -> str:
    name = parser._parse_id_var(any_token=True)
    if name is None:
        parser.raise_error("Expected the name of a field after : or .")
    return str(name.name)


def _key(parser: Any) -> Step:
    key = parser._parse_primary()
    if not isinstance(key, exp.Literal) or not (key.is_string or key.name.isdigit()):
        parser.raise_error("Expected a place from 0, or a name in quotes, in [ ]")
    if not parser._match(TokenType.R_BRACKET):
        parser.raise_error("Expected ]")
    return str(key.name) if key.is_string else int(key.name)
