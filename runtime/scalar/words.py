"""Functions of single texts: what letters they have, how alike two are, texts made of others and of numbers."""

from __future__ import annotations

import re
from decimal import ROUND_HALF_EVEN, Context, Decimal
from typing import Final

_EXACT: Final = Context(prec=800)
_SOUNDS: Final = dict(
    zip(
        "ABCDEFGHIJKLMNOPQRSTUVWXYZ",
        "01230127022455012623017202",
        strict=True,
    )
)
"""The digit of each letter; 0 parts equal digits, 7 does not."""
_FIELD: Final = re.compile(r"%(?:%|(?P<flags>[-0]?)(?P<width>[1-9]\d*)?(?P<kind>[sd]))")
_WORD: Final = 2**64
_HALF: Final = 2**63


def ascii_code(text: str) -> int:
    """The number of the first character; 0 of an empty text."""
    return ord(text[0]) if text else 0


def character(number: int) -> str:
    """The character of a number, of which the last eight bits count; nothing for a negative one."""
    return "" if number < 0 else chr(number & 0xFF)


def space(count: int) -> str:
    """Return a text of `count` spaces."""
    return " " * max(count, 0)


def strip(text: str, letters: str = " ") -> str:
    """The text without these letters at both ends."""
    return text.strip(letters) if letters else text


def soundex(text: str) -> str:
    """The sound of an English name: its first letter and three digits. A text that begins otherwise is returned."""
    first = text[:1].upper()
    if first not in _SOUNDS:
        return text
    code, last = first, _SOUNDS[first]
    for letter in text[1:]:
        digit = _SOUNDS.get(letter.upper()) if letter.isascii() else None
        if digit is None:
            # What is no letter parts two that are alike.
            last = "0"
        elif digit == "7":
            continue
        else:
            if digit not in ("0", last):
                code += digit
                if len(code) == 4:
                    break
            last = digit
    return code.ljust(4, "0")


def levenshtein(left: str, right: str, limit: int | None = None) -> int:
    """The number of letters to change, add or take out to make one text of another; -1 if it is above the limit."""
    before = list(range(len(right) + 1))
    for row, letter in enumerate(left, 1):
        now = [row]
        for place, other in enumerate(right, 1):
            cost = before[place - 1] + (letter != other)
            now.append(min(cost, before[place] + 1, now[place - 1] + 1))
        before = now
    distance = before[-1]
    return -1 if limit is not None and distance > limit else distance


def find_in_set(text: str, listing: str) -> int:
    """Return the place of a text in a list with commas, from 1; 0 if it is not there or has a comma itself."""
    if "," in text:
        return 0
    parts = listing.split(",")
    return parts.index(text) + 1 if text in parts else 0


def locate(text: str | None, part: str | None, start: int | None) -> int | None:
    """The place from 1 of a text in another, from a place on; 0 if there is none, or the place is none."""
    # Spark looks at the place first: NULL is 0 there.
    if start is None:
        return 0
    if text is None or part is None:
        return None
    # An empty text stands at the beginning, wherever the search begins.
    return text.find(part, start - 1 if part else 0) + 1 if start > 0 else 0


def substring_index(text: str, delimiter: str, count: int) -> str:
    """The text before the count-th delimiter; after it, counted from the end, if the count is negative."""
    if not delimiter or not count:
        return ""
    if count > 0:
        place = -1
        for _ in range(count):
            place = text.find(delimiter, place + 1)
            if place < 0:
                return text
        return text[:place]
    place = len(text) - len(delimiter) + 1
    for _ in range(-count):
        place = text.rfind(delimiter, 0, max(place - 1 + len(delimiter), 0))
        if place < 0:
            return text
    return text[place + len(delimiter) :]


def translate(text: str, old: str, new: str) -> str:
    """Each letter of `old` as the one at its place in `new`; those without such a place are left out."""
    table: dict[int, str | None] = {}
    for place, letter in enumerate(old):
        table.setdefault(ord(letter), new[place] if place < len(new) else None)
    return text.translate(table)


def overlay(text: str, piece: str, start: int, length: int = -1) -> str:
    """The text with a piece in place of so many of its letters, of as many as the piece has by default."""
    count = len(piece) if length < 0 else length
    return _cut(text, 1, start - 1) + piece + _cut(text, start + count, 2**31)


def _cut(text: str, start: int, length: int) -> str:
    """Return `length` letters from a place, which counts from 1, or from the end if it is negative."""
    if start > len(text):
        return ""
    first = start - 1 if start > 0 else len(text) + start if start < 0 else 0
    return text[max(first, 0) : max(first + length, 0)] if length > 0 else ""


def quote(text: str) -> str:
    """The text between single quotes, with a backslash before those in it."""
    return "'" + text.replace("'", "\\'") + "'"


def capitalise(text: str) -> str:
    """Each word, between spaces, with a capital first and small letters after it."""
    return " ".join(word[:1].title() + word[1:].lower() for word in text.split(" "))


def mask(
    text: str | None,
    upper: str | None = "X",
    lower: str | None = "x",
    digit: str | None = "n",
    other: str | None = None,
) -> str | None:
    """The text with a letter in place of each capital, small letter, digit and other; None leaves a kind as it is."""
    if text is None:
        return None

    def hide(letter: str) -> str:
        kind = upper if letter.isupper() else lower if letter.islower() else other
        kind = digit if letter.isdigit() else kind
        return letter if kind is None else kind

    return "".join(map(hide, text))


def is_luhn(text: str) -> bool:
    """Tell whether a text is digits whose last one checks the others, by Luhn's rule."""
    if not (text.isascii() and text.isdigit()):
        return False
    doubled = [int(each) * 2 for each in reversed(text[:-1])][::2]
    rest = [int(each) for each in reversed(text)][::2]
    return (sum(each - 9 if each > 9 else each for each in doubled) + sum(rest)) % 10 == 0


def binary_digits(number: int) -> str:
    """The 64 bits of a number, without the zeros before the first one."""
    return f"{number % _WORD:b}"


def choose(place: int | None, *texts: str | None) -> str | None:
    """ELT: the text at a place, which counts from 1."""
    if place is None:
        return None
    if not 1 <= place <= len(texts):
        raise ValueError(f"there are {len(texts)} values to choose from")
    return texts[place - 1]


def convert_base(text: str, source: int, target: int) -> str | None:
    """CONV: a number of one base in another, read as far as its digits go; a negative target base has a sign."""
    text = text.strip(" ")
    if not (2 <= source <= 36 and 2 <= abs(target) <= 36) or not text:
        return None
    negative = text[0] == "-"
    value = 0
    for letter in text[negative:]:
        digit = int(letter, 36) if letter.isascii() and letter.isalnum() else 36
        if digit >= source:
            break
        value = value * source + digit
        if value >= _WORD:
            raise ValueError("the number does not fit into 64 bits")
    if negative and target > 0:
        # As Spark has it: a negative number wraps, unless it was too large for a sign.
        value = (_WORD - value) % _WORD if value < _HALF else _WORD - 1
    if target < 0 and not negative and value >= _HALF:
        value, negative = _WORD - value, True
    sign = "-" if negative and target < 0 and value else ""
    return sign + _digits(value, abs(target))


def _digits(value: int, base: int) -> str:
    digits = ""
    while value:
        value, digit = divmod(value, base)
        digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"[digit] + digits
    return digits or "0"


def format_number(number: float | int | Decimal, digits: int) -> str | None:
    """A number with commas between thousands and so many digits after the point, half to even."""
    if digits < 0:
        return None
    if isinstance(number, float) and number in (float("inf"), float("-inf")):
        return "∞" if number > 0 else "-∞"
    if isinstance(number, float) and number != number:
        return "NaN"
    if isinstance(number, float):
        decimal_value = Decimal(repr(number))
        # What is shown has the shortest digits; a half is judged by all of them.
        number = (
            decimal_value if -int(decimal_value.as_tuple().exponent) <= digits else Decimal(number)
        )
    number = Decimal(number).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_EVEN, _EXACT)
    return f"{number:,.{digits}f}"


def jaro_winkler(left: str, right: str) -> float:
    """The likeness of two texts, from 0 to 1: by letters near each other, more if they begin alike."""
    one, other = _units(left), _units(right)
    if not one and not other:
        return 1.0
    reach = max(max(len(one), len(other)) // 2 - 1, 0)
    is_paired = [False] * len(other)
    matches = []
    for place, letter in enumerate(one):
        for there in range(max(0, place - reach), min(len(other), place + reach + 1)):
            if not is_paired[there] and other[there] == letter:
                is_paired[there] = True
                matches.append(letter)
                break
    if not matches:
        return 0.0
    count = len(matches)
    others = [letter for letter, used in zip(other, is_paired, strict=True) if used]
    swapped = sum(a != b for a, b in zip(matches, others, strict=True)) / 2
    alike = (count / len(one) + count / len(other) + (count - swapped) / count) / 3
    same = 0
    for a, b in zip(one[:4], other[:4], strict=False):
        if a != b:
            break
        same += 1
    return alike + 0.1 * same * (1 - alike)


def _units(text: str) -> list[bytes]:
    """The text as Java counts its letters: two for one beyond the first 65,536."""
    data = text.encode("utf-16-le")
    return [data[place : place + 2] for place in range(0, len(data), 2)]


def format_text(pattern: str, *values: str | int | None) -> str:
    """FORMAT_STRING of fields %s and %d, with a width, to the left by -, with zeros before by 0."""
    operands = iter(values)

    def fill(match: re.Match[str]) -> str:
        if not match["kind"]:
            return "%"
        value = next(operands)
        text = "null" if value is None else str(value)
        # Java counts the halves of a letter beyond the first 65,536.
        missing = int(match["width"] or 0) - len(_units(text))
        if match["flags"] == "-":
            return text + " " * missing
        if match["flags"] == "0" and value is not None:
            return text.zfill(len(text) + max(missing, 0))
        return " " * missing + text

    return _FIELD.sub(fill, pattern)
