"""Paths into JSON as Flink reads them: $.a['b'][0][*], $..name, slices; by the rules of Jayway's JsonPath."""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

_MODE: Final = re.compile(r"\s*(?P<mode>strict|lax)\s+(?P<path>.+)", re.I | re.S)
_QUOTED: Final = r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\""
_STEP: Final = re.compile(
    rf"""(?P<deep>\.\.)?
    (?: \.?\[\s*(?P<names>(?:{_QUOTED})(?:\s*,\s*(?:{_QUOTED}))*)\s*\]
    | \.?\[\s*(?P<places>-?\d{{1,9}}(?:\s*,\s*-?\d{{1,9}})*)\s*\]
    | \.?\[\s*(?P<start>-?\d{{1,9}})?\s*:\s*(?P<end>-?\d{{1,9}})?\s*\]
    | (?P<every>\.?\[\s*\*\s*\] | \.\* | (?<=\.\.)\*)
    | (?:\.|(?<=\.\.))(?P<name>[^\s.\[\]()*?@,:'"]+)
    )""",
    re.X,
)
KNOWN: Final = ".name, ['name'], [n], [n:m], [*], .* and ..name"
"""The steps of a path, for messages."""


class PathStep(NamedTuple):
    """One step of a path: names of fields, places of items, the ends of a slice, or `every` field and item.

    deep: it is taken from each value below too, as after `..`.
    """

    kind: str
    values: tuple[Any, ...]
    deep: bool


class Path(NamedTuple):
    """A path with its mode, "strict" or "lax"; one without a mode is strict."""

    mode: str
    steps: tuple[PathStep, ...]

    @property
    def is_definite(self) -> bool:
        """True if it leads to one place, so that its value is no list of matches."""
        return all(
            not each.deep and each.kind in ("names", "places") and len(each.values) == 1
            for each in self.steps
        )

    @property
    def literal(self) -> str:
        """The path as text of Python, for generated modules."""
        steps = "".join(f"{tuple(each)!r}, " for each in self.steps)
        return f"({self.mode!r}, {self.is_definite}, ({steps.rstrip()}))"


def parse_path(text: str) -> Path | None:
    """Read a path such as 'lax $.a[0]'; None if it is none, or has filters or functions.

    >>> parse_path("$.a").literal
    "('strict', True, (('names', ('a',), False),))"
    """
    match = _MODE.fullmatch(text)
    mode = match["mode"].lower() if match else "strict"
    path = match["path"].strip() if match else text.strip()
    # An empty path is none, to Jayway an error.
    if not path:
        return None
    if not path.startswith("$"):
        # Jayway's takes the first characters of a path as written.
        path = f"$.{path}"
    matches = match_steps(_STEP, path)
    # Filters and functions: what they find is a matter of Jayway's own comparisons.
    return None if matches is None else Path(mode, tuple(map(_make_step, matches)))


def match_steps(step: re.Pattern[str], path: str) -> list[re.Match[str]] | None:
    """The steps of a path behind its first character, one after the other; None if something else is between them."""
    matches: list[re.Match[str]] = []
    end = 1
    while end < len(path):
        match = step.match(path, end)
        if match is None:
            return None
        matches.append(match)
        end = match.end()
    return matches


def _make_step(match: re.Match[str]) -> PathStep:
    deep = match["deep"] is not None
    if match["name"]:
        return PathStep("names", (match["name"],), deep)
    # ['a','b'] asks for several fields, so that the path leads to no single place.
    if match["names"]:
        return PathStep("names", tuple(map(_unquote, re.findall(_QUOTED, match["names"]))), deep)
    if match["places"]:
        return PathStep("places", tuple(map(int, match["places"].split(","))), deep)
    if match["every"]:
        return PathStep("every", (), deep)
    # An end that is missing is that of the array; negative ones count from its end.
    ends = (None if match[part] is None else int(match[part]) for part in ("start", "end"))
    return PathStep("slice", tuple(ends), deep)


def _unquote(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text[1:-1], flags=re.S)
