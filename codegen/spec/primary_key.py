"""The primary key that DDL text declares: `PRIMARY KEY (id) NOT ENFORCED`, or after a column's type without names."""

from __future__ import annotations

import re

from aggloom.errors import SpecError

_CLAUSE = re.compile(
    r"(?i)(?P<lead>,?)\s*(?:\bCONSTRAINT\s+\w+\s+)?\bPRIMARY\s+KEY\b\s*(?P<names>\([^)]*\))?"
    r"(?P<free>\s*NOT\s+ENFORCED\b)?"
)
_QUOTED = re.compile(r"`(?:[^`]|``)*`")
_NAME = re.compile(r"\s*(?:`((?:[^`]|``)+)`|(\w+))")


def without_primary_key(text: str) -> tuple[str, tuple[str, ...]]:
    """The text without its declaration of a primary key, and the columns of that key; raises SpecError."""
    # Names in backticks may contain any words.
    masked = _QUOTED.sub(lambda clauses: "x" * len(clauses[0]), text)
    clauses = list(_CLAUSE.finditer(masked))
    if not clauses:
        return text, ()
    if len(clauses) > 1:
        raise SpecError("schema: PRIMARY KEY is declared twice; declare one.")
    (clause,) = clauses
    # As in Flink: a key is a promise of the user's that nobody checks.
    if clause["free"] is None:
        raise SpecError("schema: nothing here enforces a key; write PRIMARY KEY (..) NOT ENFORCED.")
    start, end = clause.span()
    if clause["names"] is not None:
        listed = text[clause.start("names") + 1 : clause.end("names") - 1]
        names = tuple(_name(part) for part in _parts(listed))
        rest = text[end:]
        if not clause["lead"]:
            # The key is the first declaration: the comma behind it is removed, too.
            rest = rest.lstrip().removeprefix(",")
        return text[:start] + rest, names
    if clause["lead"]:
        raise SpecError(
            "schema: PRIMARY KEY names no columns; write PRIMARY KEY (id) NOT ENFORCED."
        )
    column = text[_last_comma(masked[:start]) : start]
    return text[:start] + text[end:], (_name(column),)


def _last_comma(masked: str) -> int:
    """Return the position at which the last declaration of a text begins: after its last comma outside of brackets."""
    depth = place = 0
    for at, sign in enumerate(masked):
        depth += (sign in "(<") - (sign in ")>")
        place = at + 1 if sign == "," and not depth else place
    return place


def _parts(listed: str) -> list[str]:
    masked = _QUOTED.sub(lambda match: "x" * len(match[0]), listed)
    ends = [at for at, sign in enumerate(masked) if sign == ","] + [len(listed)]
    starts = [0, *(end + 1 for end in ends[:-1])]
    return [listed[start:end] for start, end in zip(starts, ends, strict=True)]


def _name(text: str) -> str:
    match = _NAME.match(text)
    if match is None:
        raise SpecError(
            "schema: PRIMARY KEY names no columns; write PRIMARY KEY (id) NOT ENFORCED."
        )
    return match[1].replace("``", "`") if match[1] else str(match[2])
