"""Addresses on the web: letters written as % and digits, and the parts of an address."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import quote_plus

_URL: Final = re.compile(
    r"(?:(?P<scheme>[A-Za-z][A-Za-z0-9+.\-]*):)?(?://(?P<authority>[^/?#]*))?(?P<path>[^?#]*)"
    r"(?:\?(?P<query>[^#]*))?(?:#(?P<ref>.*))?"
)
_LETTERS: Final = re.compile(
    r"(?:[A-Za-z0-9\-_.!~*'();/?:@&=+$,#\[\]]|%[0-9A-Fa-f]{2}|[^\x00-\xa0\s])*"
)
_AUTHORITY: Final = re.compile(
    r"(?:(?P<user>[^@]*)@)?(?P<host>\[[0-9A-Fa-f:.]+\]|[^:@]*)(?::(?P<port>\d*))?"
)
_HOST: Final = re.compile(
    r"\[[0-9A-Fa-f:.]+\]|(?:[A-Za-z0-9](?:[A-Za-z0-9\-]*[A-Za-z0-9])?\.)*[A-Za-z](?:[A-Za-z0-9\-]*[A-Za-z0-9])?\.?"
    r"|\d{1,3}(?:\.\d{1,3}){3}"
)


def url_encode(text: str) -> str:
    """The text as forms of the web send it."""
    # Java's encoder leaves * as it is and spells ~ out, where Python's does the opposite.
    return quote_plus(text, safe="*").replace("~", "%7E")


def url_decode(text: str) -> str:
    """The text of what forms of the web send; raises ValueError for a % without two digits."""
    if re.search(r"%(?![0-9A-Fa-f]{2})", text):
        raise ValueError("a % stands without two hexadecimal digits")

    def decode(match: re.Match[str]) -> str:
        return bytes.fromhex(match[0].replace("%", "")).decode("utf-8", "replace")

    # By runs, because a letter may be spelled by several bytes.
    return re.sub(r"(?:%[0-9A-Fa-f]{2})+", decode, text.replace("+", " "))


def try_url_decode(text: str) -> str | None:
    """Decode like `url_decode`, with None for a text that it refuses."""
    try:
        return url_decode(text)
    except ValueError:
        return None


def url_part(text: str, part: str, key: str | None = None) -> str | None:
    """PARSE_URL: a part of an address by its name, or the value of a key of its query; None if it has none.

    Raises ValueError for what is no address.
    """
    match = _URL.fullmatch(text) if _LETTERS.fullmatch(text) else None
    if match is None or _is_broken(match):
        raise ValueError("the text is no URL")
    if key is not None:
        return _value(match["query"], key) if part == "QUERY" else None
    if part in ("HOST", "USERINFO"):
        return _of_authority(match["authority"], part)
    query = match["query"]
    parts = {
        "PATH": match["path"],
        "QUERY": query,
        "REF": match["ref"],
        "PROTOCOL": match["scheme"],
        "AUTHORITY": match["authority"],
        "FILE": match["path"] + ("" if query is None else f"?{query}"),
    }
    return parts.get(part)


def try_url_part(text: str, part: str, key: str | None = None) -> str | None:
    """Return the part like `url_part`, with None for what is no address."""
    try:
        return url_part(text, part, key)
    except ValueError:
        return None


def _is_broken(match: re.Match[str]) -> bool:
    """Tell whether the parts of an address do not go together, as Java's URI judges them."""
    scheme, authority, path, ref = match["scheme"], match["authority"], match["path"], match["ref"]
    if scheme is None and authority is None and ":" in path.partition("/")[0]:
        return True
    lonely = authority is None and not path if scheme else authority == "" and not path
    return lonely or "#" in (ref or "")


def _value(query: str | None, key: str) -> str | None:
    # As in Spark, the key is read as a part of the expression, not letter by letter.
    match = re.search(rf"(?:^|&){key}=([^&]*)", query or "")
    return match[1] if match else None


def _of_authority(authority: str | None, part: str) -> str | None:
    match = _AUTHORITY.fullmatch(authority or "")
    # An authority whose host is none has no parts, as Java has it.
    if match is None or not _HOST.fullmatch(match["host"]):
        return None
    return match["host"] if part == "HOST" else match["user"]
