"""PATTERN of MATCH_RECOGNIZE: its text as a tree, with the places of what is refused.

A tree is a variable, a sequence, a choice, or a repetition; PERMUTE is written out as a choice of sequences.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import permutations
from typing import Final

from aggloom.codegen.sql.errors import Span, place_error, refusal
from aggloom.errors import SqlError

MOST_REPEATS: Final = 200
"""A quantifier writes its element out so many times at most."""
_MOST_PERMUTED: Final = 5
_TOKENS: Final = re.compile(
    r"""\s+ | (?P<name>`(?:[^`]|``)+`|"(?:[^"]|"")+"|[^\W\d]\w*) | (?P<number>\d+)
    | (?P<sign>\{-|-\}|[(){},|*+?^$])""",
    re.VERBOSE,
)
_QUANTIFIERS: Final[dict[str, tuple[int, int | None]]] = {
    "*": (0, None),
    "+": (1, None),
    "?": (0, 1),
}


@dataclass(frozen=True)
class PatternVariable:
    """A row that is mapped to a pattern variable."""

    name: str


@dataclass(frozen=True)
class PatternSequence:
    """Parts one after the other; without parts: no row."""

    parts: tuple[Pattern, ...]


@dataclass(frozen=True)
class PatternEither:
    """One of the parts, the first that leads to a match."""

    parts: tuple[Pattern, ...]


@dataclass(frozen=True)
class PatternRepeat:
    """A part several times, as often as possible, or, if it is reluctant, as rarely; most None: any number of times."""

    part: Pattern
    least: int
    most: int | None
    reluctant: bool = False


Pattern = PatternVariable | PatternSequence | PatternEither | PatternRepeat


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str
    start: int
    end: int


def parse_pattern(text: str, offset: int = 0) -> Pattern:
    """The tree of the text between the parentheses of PATTERN; offset: where it starts in the query.

    Raises SqlError for what is no pattern, UnsupportedSqlError for what no matcher does.

    Example:
        >>> parse_pattern("A*?")
        PatternRepeat(part=PatternVariable(name='A'), least=0, most=None, reluctant=True)
    """
    return _Parser(text, offset).parse()


def variables_of(pattern: Pattern) -> tuple[str, ...]:
    """The variables of a pattern by their names, in order of first mention."""
    if isinstance(pattern, PatternVariable):
        return (pattern.name,)
    parts = (pattern.part,) if isinstance(pattern, PatternRepeat) else pattern.parts
    return tuple(dict.fromkeys(name for part in parts for name in variables_of(part)))


class _Parser:
    """Reads a pattern from the left to the right."""

    def __init__(self, text: str, offset: int) -> None:
        self.text, self.offset, self.at = text, offset, 0
        self.tokens = self._cut_tokens()

    def parse(self) -> Pattern:
        pattern = self._parse_either()
        if self.at < len(self.tokens):
            raise self._error(f"{self.tokens[self.at].text!r} is not expected here")
        return pattern

    def _cut_tokens(self) -> list[_Token]:
        tokens, at = [], 0
        while at < len(self.text):
            match = _TOKENS.match(self.text, at)
            if match is None:
                raise self._error(f"{self.text[at]!r} is no part of a pattern", (at, at + 1))
            if match.lastgroup is not None:
                tokens.append(_Token(match.lastgroup, match[0], match.start(), match.end()))
            at = match.end()
        return tokens

    def _parse_either(self) -> Pattern:
        parts = [self._parse_sequence()]
        while self._take("|"):
            parts.append(self._parse_sequence())
        return parts[0] if len(parts) == 1 else PatternEither(tuple(parts))

    def _parse_sequence(self) -> Pattern:
        parts: list[Pattern] = []
        while self.at < len(self.tokens) and self.tokens[self.at].text not in ("|", ")", ","):
            parts.append(self._parse_quantifier())
        # A choice between nothing and something is written with ? in SQL.
        if not parts:
            raise self._error("a pattern variable is expected")
        return parts[0] if len(parts) == 1 else PatternSequence(tuple(parts))

    def _parse_quantifier(self) -> Pattern:
        part = self._parse_element()
        bounds = self._parse_bounds()
        if bounds is None:
            return part
        # A ? right behind a quantifier belongs to it.
        reluctant = self._take("?")
        if self._parse_bounds() is not None:
            raise self._error(
                "a quantifier stands behind another one; put parentheses around the first", -1
            )
        return PatternRepeat(part, *bounds, reluctant)

    def _parse_element(self) -> Pattern:
        token = self.tokens[self.at]
        self.at += 1
        if token.text == "(":
            if self._take(")"):
                raise self._refuse(token, "an empty group ()", "take it out")
            inner = self._parse_either()
            self._expect(")")
            return inner
        if token.text == "{-":
            raise self._refuse(
                token,
                "{- -}, which leaves rows out of the result,",
                "filter them with WHERE outside",
            )
        if token.text in ("^", "$"):
            what = f"{token.text}, an end of the partition,"
            raise self._refuse(token, what, "take it out: a stream goes on")
        if token.kind != "name":
            raise self._error("a pattern variable is expected", -1)
        # Only with a bracket behind: PERMUTE is no reserved word, and may be a variable.
        if token.text.upper() == "PERMUTE" and self._take("("):
            return self._parse_permutations(token)
        return PatternVariable(variable_name(token.text))

    def _parse_permutations(self, token: _Token) -> Pattern:
        parts = [self._parse_either()]
        while self._take(","):
            parts.append(self._parse_either())
        self._expect(")")
        # The number of orders is the factorial of the parts, and each becomes a part of the automaton.
        if len(parts) > _MOST_PERMUTED:
            raise self._refuse(
                token, f"PERMUTE of {len(parts)} parts", f"name {_MOST_PERMUTED} at most"
            )
        return PatternEither(tuple(PatternSequence(tuple(each)) for each in permutations(parts)))

    def _parse_bounds(self) -> tuple[int, int | None] | None:
        """The bounds of the quantifier that is next, if there is one."""
        if self.at == len(self.tokens):
            return None
        token = self.tokens[self.at]
        if token.text in _QUANTIFIERS:
            self.at += 1
            return _QUANTIFIERS[token.text]
        if token.text != "{":
            return None
        self.at += 1
        least = self._parse_number()
        most = least
        if self._take(","):
            most = self._parse_number()
        # {} says nothing; {,} and {,m} leave a bound open.
        elif least is None:
            raise self._error("a number is expected")
        self._expect("}")
        bounds = (least or 0, most)
        if most == 0 or (most is not None and bounds[0] > most):
            raise self._error("{n, m} needs 0 <= n <= m and 0 < m", -1)
        if max(bounds[0], most or 0) > MOST_REPEATS:
            raise self._refuse(
                token, f"a quantifier above {MOST_REPEATS}", "repeat a smaller group"
            )
        return bounds

    def _parse_number(self) -> int | None:
        if self.at < len(self.tokens) and self.tokens[self.at].kind == "number":
            self.at += 1
            return int(self.tokens[self.at - 1].text)
        return None

    def _take(self, text: str) -> bool:
        is_next = self.at < len(self.tokens) and self.tokens[self.at].text == text
        self.at += is_next
        return is_next

    def _expect(self, text: str) -> None:
        if not self._take(text):
            raise self._error(f"{text!r} is expected")

    def _span(self, start: int, end: int) -> Span:
        return self.offset + start, self.offset + end

    def _error(self, what: str, place: tuple[int, int] | int = 0) -> SqlError:
        """The error at a place of the text, or at the token so many from the next one."""
        if isinstance(place, int):
            at = min(self.at + place, len(self.tokens) - 1)
            place = (self.tokens[at].start, self.tokens[at].end) if self.tokens else (0, 1)
        return place_error(SqlError(f"PATTERN: {what}."), self._span(*place))

    def _refuse(self, token: _Token, what: str, fix: str) -> SqlError:
        return refusal(self._span(token.start, token.end), f"PATTERN: {what} is", fix)


def variable_name(text: str) -> str:
    """The name of a variable as it is written: without quotes as it is, else what stands between them."""
    quote = text[0]
    return text[1:-1].replace(quote * 2, quote) if quote in '`"' else text
