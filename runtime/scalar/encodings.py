"""Texts and bytes: hexadecimal digits, base 32 and 64, character sets."""

from __future__ import annotations

import base64
import re
from typing import Final

_WORD: Final = 2**64
_OUTSIDE: Final = re.compile(r"[^A-Za-z0-9+/=]")
_DIGITS_32: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
_OUTSIDE_32: Final = re.compile(r"[^A-Za-z2-7]")
_CHARSETS: Final = {
    "US-ASCII": "ascii",
    "ISO-8859-1": "latin-1",
    "UTF-8": "utf-8",
    "UTF-16BE": "utf-16-be",
    "UTF-16LE": "utf-16-le",
    "UTF-32": "utf-32-be",
}
"""The character sets but UTF-16, by the names that Java has for them."""


def hex_of_number(number: int) -> str:
    """The hexadecimal digits of the 64 bits of a number."""
    return f"{number % _WORD:X}"


def hex_of_bytes(value: bytes) -> str:
    """Two hexadecimal digits for each byte."""
    return value.hex().upper()


def unhex(text: str) -> bytes | None:
    """The bytes of hexadecimal digits, the first of one digit if there is an odd number; None for other letters."""
    if not re.fullmatch(r"[0-9A-Fa-f]*", text):
        return None
    return bytes.fromhex("0" * (len(text) % 2) + text)


def hex_to_bytes(text: str) -> bytes:
    """Decode hexadecimal digits like `unhex`; raises ValueError for other letters."""
    value = unhex(text)
    if value is None:
        raise ValueError("the text has more than hexadecimal digits")
    return value


def base64_of(value: bytes) -> str:
    """The bytes in base 64."""
    return base64.b64encode(value).decode()


def unbase64(text: str) -> bytes:
    """The bytes of a text in base 64, whose other letters are passed over."""
    bare, _, rest = _OUTSIDE.sub("", text).partition("=")
    if len(bare) % 4 == 1 or rest.strip("=") or (rest + "=").count("=") > 2:
        raise ValueError("the text is not in base 64")
    return base64.b64decode(bare + "=" * (-len(bare) % 4))


def base32_of(value: bytes) -> str:
    """The bytes in base 32."""
    return base64.b32encode(value).decode()


def base32_to_bytes(text: str) -> bytes:
    """The bytes of a text in base 32; other letters are passed over, and bits that make no whole byte.

    Of a last letter alone Java makes a byte: its upper bits, behind those of the letter before it.
    """
    bare = _OUTSIDE_32.sub("", text.partition("=")[0]).upper()
    count = len(bare) % 8
    whole = bare[: len(bare) - (count in (1, 3, 6))]
    value = base64.b32decode(whole + "=" * (-len(whole) % 8))
    if count != 1:
        return value
    before, last = (_DIGITS_32.index(digit) for digit in ("A" + bare)[-2:])
    return value + bytes([before << 3 & 0xFF | last >> 2])


def base64_to_bytes(text: str) -> bytes:
    """The bytes of a text in base 64 that is written without faults, but for space between letters."""
    bare = re.sub(r"\s", "", text)
    if not re.fullmatch(
        r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}(?:==)?|[A-Za-z0-9+/]{3}=?)?", bare
    ):
        raise ValueError("the text is not in base 64")
    return unbase64(bare)


def decode(value: bytes, charset: str) -> str:
    """The text of bytes in a character set; raises ValueError for bytes that it has not."""
    name = charset.upper()
    try:
        if name == "UTF-16":
            # Without a mark Java takes the bytes for big-endian ones.
            big = not value.startswith(b"\xff\xfe")
            bare = value[2:] if value[:2] in (b"\xff\xfe", b"\xfe\xff") else value
            return bare.decode("utf-16-be" if big else "utf-16-le")
        return value.decode(_CHARSETS[name])
    except UnicodeDecodeError:
        raise ValueError(f"the bytes are no text in {name}") from None


def encode(text: str, charset: str) -> bytes:
    """The bytes of a text in a character set; raises ValueError for letters that it has not."""
    name = charset.upper()
    try:
        if name == "UTF-16":
            # Java writes a mark first, but none before an empty text.
            return b"\xfe\xff" + text.encode("utf-16-be") if text else b""
        return text.encode(_CHARSETS[name])
    except UnicodeEncodeError:
        raise ValueError(f"the text has letters that {name} has not") from None


def try_hex_to_bytes(text: str) -> bytes | None:
    """Decode hexadecimal digits, with None for other letters."""
    return unhex(text)


def try_base64_to_bytes(text: str) -> bytes | None:
    """Decode base 64 like `base64_to_bytes`, with None for a text with faults."""
    try:
        return base64_to_bytes(text)
    except ValueError:
        return None
