"""Java's regular expressions as Python's with the same meaning; those without one are refused.

Letters are ASCII's, as Java has them by default: `\\w`, `\\d`, `\\s` and letters without regard to case. A dot and `$`
know Java's ends of lines. Refused are classes within classes, Unicode's properties, `\\b`, whose letters depend on the
version of Java, and flags but `(?i)` and `(?s)` at the beginning.
"""

from __future__ import annotations

import re
import warnings
from typing import Final

_ENDS: Final = "\\n\\r\\u0085\\u2028\\u2029"
_DOT: Final = f"[^{_ENDS}]"
# Java's $ precedes the last line's end, too, and \r\n is one end: never between the two.
_DOLLAR: Final = r"(?=(?:\r\n|(?<!\r)\n|[\r\u0085\u2028\u2029])?\Z)"
_POSIX: Final = {
    "Lower": "a-z",
    "Upper": "A-Z",
    "ASCII": r"\x00-\x7f",
    "Alpha": "a-zA-Z",
    "Digit": "0-9",
    "Alnum": "a-zA-Z0-9",
    "Punct": r"!-/:-@\[-`{-~",
    "Space": r" \t\n\x0b\f\r",
    "XDigit": "0-9a-fA-F",
    "Blank": r" \t",
}
_ESCAPE: Final = re.compile(
    r"\\(?:(?P<plain>[^A-Za-z0-9])|(?P<kind>[dDwWsS])|(?P<control>[tnrfa])|(?P<escape>e)|x(?P<byte>[0-9A-Fa-f]{2})"
    r"|u(?P<word>[0-9A-Fa-f]{4})|p\{(?P<posix>\w+)\}|(?P<back>[1-9](?![0-9]))|(?P<end>[zA])"
    r"|Q(?P<quoted>.*?)(?:\\E|$))",
    re.S,
)
_REPEAT: Final = re.compile(r"(?:[*+?]|\{\d{1,4}(?:,\d{0,4})?\})[?+]?(?![*+?{])")
_OPEN: Final = re.compile(r"\((?:\?(?::|=|!|<=|<!|>|<(?P<name>[A-Za-z][A-Za-z0-9]*)>))?")
_CLASS: Final = re.compile(r"\[(?P<not>\^?)(?P<items>(?:\\Q|\\.|[^\]\\\[])+)\]", re.S)


class UnlikeRegexError(ValueError):
    """A pattern that Python does not read as Java does."""


def translate_regex(pattern: str) -> str:
    """Return Python's form of a pattern of Java's; raises UnlikeRegexError.

    Example:
        >>> translate_regex("^a+")
        '(?a)\\\\Aa+'
    """
    flags = re.match(r"\(\?([is]+)\)", pattern)
    letters = flags[1] if flags else ""
    body = pattern[flags.end() :] if flags else pattern
    text = "".join(_translate(body, "[\\s\\S]" if "s" in letters else _DOT))
    # (?a): \w, \d and case are ASCII's, as they are in Java without UNICODE_CHARACTER_CLASS.
    whole = f"(?a{'i' if 'i' in letters else ''}){text}"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            re.compile(whole)
    # Python warns where a set may change its meaning in a later version.
    except (re.error, RecursionError, OverflowError, FutureWarning, DeprecationWarning) as error:
        raise UnlikeRegexError(str(error)) from None
    return whole


def count_groups(translated: str) -> int:
    """The number of groups of a pattern that `translate_regex` gave."""
    return re.compile(translated).groups


def _translate(body: str, dot: str) -> list[str]:
    pieces: list[str] = []
    place = 0
    repeatable = False
    while place < len(body):
        letter = body[place]
        if letter == "\\":
            match = _ESCAPE.match(body, place)
            # \z and \A match a place, not a letter: Python refuses to repeat them.
            piece, repeatable = _escape_letter(match), match is not None and not match["end"]
        elif letter == "[":
            match = _CLASS.match(body, place)
            piece, repeatable = _class(match), True
        elif letter == "(":
            match = _OPEN.match(body, place)
            assert match is not None
            piece, repeatable = _open(match), False
            after = body[match.end() : match.end() + 1]
            if after in ("?", "|"):
                # An empty choice that comes first ends a repetition in Java.
                raise UnlikeRegexError("a group of an unknown kind")
        elif letter in "*+?{":
            match = _REPEAT.match(body, place)
            # Java takes some of these, such as `^*`, and Python refuses or reads them otherwise.
            if match is None or not repeatable:
                raise UnlikeRegexError("a repetition of nothing")
            piece, repeatable = match[0], False
        else:
            match, piece = None, {".": dot, "$": _DOLLAR, "^": r"\A"}.get(letter, letter)
            repeatable = letter not in "|^$"
            if letter == "}":
                piece = r"\}"
        pieces.append(piece)
        place = place + 1 if match is None else match.end()
    return pieces


def _escape_letter(match: re.Match[str] | None, inside: bool = False) -> str:
    if match is None or (inside and (match["back"] or match["end"])):
        raise UnlikeRegexError("an escape that differs")
    if match["quoted"] is not None:
        if inside:
            raise UnlikeRegexError("a quotation in a class")
        return (
            f"(?:{re.escape(match['quoted'])})" if len(match["quoted"]) == 1 else _quote_text(match)
        )
    if match["posix"]:
        if match["posix"] not in _POSIX:
            raise UnlikeRegexError("a property of Unicode")
        return _POSIX[match["posix"]] if inside else f"[{_POSIX[match['posix']]}]"
    if match["escape"]:
        return r"\x1b"
    if match["end"]:
        return r"\Z" if match["end"] == "z" else r"\A"
    return match[0]


def _quote_text(match: re.Match[str]) -> str:
    # A repetition after a quotation is one of its last letter.
    return re.escape(match["quoted"])


def _class(match: re.Match[str] | None) -> str:
    # In Java && intersects two classes; in Python it is a class with the letter &.
    if match is None or "&&" in match["items"] or match["items"].startswith("^"):
        raise UnlikeRegexError("a class within a class")
    items, place, members = match["items"], 0, ""
    while place < len(items):
        if items[place] == "\\":
            escape = _ESCAPE.match(items, place)
            members += _escape_letter(escape, inside=True)
            assert escape is not None
            place = escape.end()
            several = escape["kind"] or escape["posix"]
            # Java takes the hyphen of [\d-z] for a letter; Python refuses it.
            if several and items[place : place + 1] == "-" and place + 1 < len(items):
                raise UnlikeRegexError("a range from a class")
            continue
        if items[place] == "-" and items[place + 1 : place + 2] == "\\":
            escape = _ESCAPE.match(items, place + 1)
            if escape is None or escape["kind"] or escape["posix"]:
                raise UnlikeRegexError("a range to a class")
        members += items[place]
        place += 1
    return f"[{match['not']}{members}]"


def _open(match: re.Match[str]) -> str:
    return f"(?P<{match['name']}>" if match["name"] else match[0]
