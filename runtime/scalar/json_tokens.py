"""The tokens of a JSON text as Jackson reads them for FROM_JSON: one after the other, also behind a mistake.

Spark keeps the fields of a record that it read before and behind a mistake. Which ones depends on where Jackson goes on
after an error, so that the positions and the state after each error are Jackson's, too.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final, NamedTuple

from aggloom.errors import DataError
from aggloom.runtime.scalar.json_texts import HALF, SPACE

NAME: Final = "name"
TEXT: Final = "text"
WHOLE: Final = "whole number"
FLOAT: Final = "number"
TRUE: Final = "true"
FALSE: Final = "false"
NULL: Final = "null"
STARTS: Final = ("{", "[")
ENDS: Final = ("}", "]")
_ROOT: Final = ""
_DEEPEST: Final = 300
"""The most levels of a document: Python's own stack ends not far beyond. Jackson's limit is 1000."""
_LONGEST: Final = 1000
"""The most characters of a number that Jackson takes."""
_PLAIN: Final = {quote: re.compile(rf"[^\\{quote}\x00-\x1f]*") for quote in ('"', "'")}
_DIGITS: Final = re.compile(r"[0-9]*")
_ESCAPES: Final = {"b": "\b", "t": "\t", "n": "\n", "f": "\f", "r": "\r"} | dict.fromkeys(
    "\"/\\'", ""
)
_HEX: Final = frozenset("0123456789abcdefABCDEF")
_WORDS: Final = {"t": ("true", TRUE), "f": ("false", FALSE), "n": ("null", NULL)}
_INFINITE: Final = {"N": ("NaN", 1), "I": ("Infinity", 1)}


class _Scope:
    """An object, an array or the root that is being read: its last name, and how many values it has."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.name: str | None = None
        self.count = 0


class _Number(NamedTuple):
    kind: str
    end: int


class JsonTokens:
    """The tokens of a text. `kind`: that of the current one, None at the end; `text`: its number, if it is one."""

    def __init__(self, document: str) -> None:
        self.kind: str | None = None
        self._document = document
        self._length = len(document)
        self._at = 0
        self._scopes = [_Scope(_ROOT)]
        # The kind of the value behind a name, which is read with the name; None after a mistake in it.
        self._ahead: str | None = None
        self._is_open = False
        self._text = ""

    @property
    def name(self) -> str | None:
        """The name of the field that the current token belongs to; None in an array."""
        is_start = self.kind in STARTS and len(self._scopes) > 1
        return self._scopes[-2 if is_start else -1].name

    @property
    def text(self) -> str:
        """The characters of the current text or number; raises ValueError for a text with a mistake."""
        if self._is_open:
            self._is_open = False
            self._text = self._read_quoted('"')
        return self._text

    def advance(self) -> str | None:
        """Go to the next token and return its kind; raises ValueError at a mistake, DataError at too many levels."""
        if self.kind == NAME:
            ahead, self._ahead = self._ahead, None
            self._enter(ahead)
            self.kind = ahead
            return ahead
        if self._is_open:
            self._is_open = False
            self._read_quoted('"')
        letter = self._skip_space()
        if not letter:
            if len(self._scopes) > 1:
                raise ValueError("the text ends in the middle")
            self.kind = None
            return None
        if letter in ENDS:
            self._leave(letter)
            return self.kind
        scope = self._scopes[-1]
        is_first, scope.count = scope.count == 0, scope.count + 1
        if scope.kind and not is_first:
            letter = self._expect(letter, ",")
        if scope.kind != "{":
            kind = self._read_value(letter)
            self._enter(kind)
            self.kind = kind
            return kind
        if letter not in ('"', "'"):
            raise ValueError(f"{letter!r} is where a name should be")
        scope.name = self._read_quoted(letter)
        self.kind = NAME
        self._ahead = self._read_value(self._expect(self._skip_space(), ":"))
        return NAME

    def skip(self) -> None:
        """Go to the end of the object or array whose start is the current token."""
        depth = int(self.kind in STARTS)
        while depth:
            kind = self.advance()
            if kind is None:
                raise ValueError("the text ends in the middle")
            depth += (kind in STARTS) - (kind in ENDS)

    def _enter(self, kind: str | None) -> None:
        if kind in STARTS:
            self._scopes.append(_Scope(str(kind)))
            if len(self._scopes) > _DEEPEST:
                raise DataError(
                    f"a JSON document has more than {_DEEPEST} levels; filter such rows, or keep it in a STRING."
                )

    def _leave(self, letter: str) -> None:
        if self._scopes[-1].kind != STARTS[ENDS.index(letter)]:
            raise ValueError(f"{letter!r} closes nothing")
        self._scopes.pop()
        self.kind = letter

    def _skip_space(self) -> str:
        """The next letter that is no space, of which the text is read; empty at the end."""
        match = SPACE.match(self._document, self._at)
        assert match is not None
        at = match.end()
        if at >= self._length:
            self._at = at
            return ""
        self._at = at + 1
        letter = self._document[at]
        if letter < " " or letter == "/":
            raise ValueError(f"{letter!r} may not stand between values")
        return letter

    def _expect(self, letter: str, sign: str) -> str:
        """The first letter behind a sign, which this letter should be."""
        if letter != sign:
            raise ValueError(f"{sign!r} is missing")
        following = self._skip_space()
        if not following:
            raise ValueError("the text ends in the middle")
        return following

    def _read_value(self, letter: str) -> str:
        if letter == '"':
            # A text is read when it is needed, and only then are its mistakes seen.
            self._is_open = True
            return TEXT
        if letter in STARTS:
            return letter
        if letter in _WORDS:
            word, kind = _WORDS[letter]
            self._match(word, 1)
            return kind
        if letter == "'":
            self._text = self._read_quoted("'")
            return TEXT
        if letter == "-" or "0" <= letter <= "9":
            return self._read_number(letter)
        if letter in _INFINITE:
            return self._match_number(*_INFINITE[letter])
        if letter == "+":
            return self._read_sign("+", self._take())
        if _in_word(letter) and not letter.isdigit():
            self._skip_word()
        raise ValueError(f"{letter!r} begins no value")

    def _take(self) -> str:
        """The next letter; raises ValueError at the end."""
        if self._at >= self._length:
            raise ValueError("the text ends in the middle")
        self._at += 1
        return self._document[self._at - 1]

    def _read_sign(self, sign: str, letter: str) -> str:
        """Infinity behind its sign; raises ValueError for anything else."""
        if letter == "I":
            following = self._take()
            if following in "Nn":
                return self._match_number(
                    f"{sign}INF" if following == "N" else f"{sign}Infinity", 3
                )
        raise ValueError(f"{letter!r} follows a sign")

    def _match_number(self, word: str, start: int) -> str:
        self._match(word, start)
        self._text = word
        return FLOAT

    def _match(self, word: str, start: int) -> None:
        """Read the rest of a word; raises ValueError, behind all letters that could be of one, if it is another."""
        for letter in word[start:]:
            if self._document[self._at : self._at + 1] != letter:
                self._skip_word()
                raise ValueError("the text has a word that is no value")
            self._at += 1
        if self._at < self._length and _in_word(self._document[self._at]):
            self._skip_word()
            raise ValueError("the text has a word that is no value")

    def _skip_word(self) -> None:
        # Jackson shows no more letters than these of a word, and goes on behind them.
        end = min(self._length, self._at + 256)
        while self._at < end and _in_word(self._document[self._at]):
            self._at += 1

    def _read_number(self, letter: str) -> str:
        start = self._at - 1
        if letter == "-":
            letter = self._document[self._at : self._at + 1]
            if not letter:
                raise ValueError("the text ends in the middle")
            self._at += 1
            if not "0" <= letter <= "9":
                return self._read_sign("-", letter)
        end = self._digits_end(self._at)
        is_zero = letter == "0"
        if is_zero and end > self._at:
            raise ValueError("a number begins with 0")
        number = self._read_fraction(end, is_zero)
        self._text = self._document[start : number.end]
        self._at = number.end
        if len(self._text) > _LONGEST:
            raise ValueError("a number has too many digits")
        if len(self._scopes) == 1 and self._document[number.end : number.end + 1].strip():
            self._at += 1
            raise ValueError("letters follow a number")
        return number.kind

    def _digits_end(self, start: int) -> int:
        match = _DIGITS.match(self._document, start)
        assert match is not None
        return match.end()

    def _read_fraction(self, end: int, is_zero: bool) -> _Number:
        """The end of a number behind its whole digits; after a mistake Jackson goes on behind the point or later."""
        kind, text = WHOLE, self._document
        first = end
        if text[end : end + 1] == ".":
            kind, start = FLOAT, end + 1
            end = self._digits_end(start)
            if end == start:
                raise self._fail_number(first, end, is_zero)
        if text[end : end + 1] in ("e", "E"):
            kind, start = FLOAT, end + 1
            start += text[start : start + 1] in ("+", "-")
            end = self._digits_end(start)
            if end == start:
                raise self._fail_number(first, end, is_zero)
        return _Number(kind, end)

    def _fail_number(self, first: int, end: int, is_zero: bool) -> ValueError:
        # Numbers that begin with 0, and those at the end of a text, are read letter by letter.
        is_slow = is_zero or end >= self._length
        self._at = min(self._length, end + 1 if is_slow else first + 1)
        return ValueError("digits are missing in a number")

    def _read_quoted(self, quote: str) -> str:
        """The text up to a quote, which is read, too; raises ValueError at a mistake."""
        pieces: list[str] = []
        plain = _PLAIN[quote]
        while True:
            match = plain.match(self._document, self._at)
            assert match is not None
            pieces.append(match[0])
            self._at = match.end()
            letter = self._take()
            if letter == quote:
                return _join_halves("".join(pieces)) if len(pieces) > 1 else pieces[0]
            if letter != "\\":
                raise ValueError("a text has a control character")
            pieces.append(self._read_escape())

    def _read_escape(self) -> str:
        letter = self._take()
        if letter in _ESCAPES:
            return _ESCAPES[letter] or letter
        if letter != "u":
            raise ValueError(f"\\{letter} is no escape")
        digits = [self._take_digit() for _ in range(4)]
        return chr(int("".join(digits), 16))

    def _take_digit(self) -> str:
        letter = self._take()
        if letter not in _HEX:
            raise ValueError(f"{letter!r} is no hexadecimal digit")
        return letter


def _join_halves(text: str) -> str:
    """A text with characters beyond U+FFFF, which JSON has as two escapes, as one."""
    if not HALF.search(text):
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


def _in_word(letter: str) -> bool:
    """Tell whether Java takes a letter for one of a name."""
    if letter.isalnum() or letter in "_$":
        return True
    is_control = letter <= "\x08" or "\x0e" <= letter <= "\x1b" or "\x7f" <= letter <= "\x9f"
    return is_control or unicodedata.category(letter) in ("Mn", "Mc", "Sc", "Pc", "Nl", "Cf")
