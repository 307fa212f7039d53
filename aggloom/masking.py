"""Secrets in texts that people and files get to see: passwords in URLs, and values of options with such names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

MASK = "***"
_URL = re.compile(
    # A colon and digits are a port. A password may have a slash or an @ that nobody escaped.
    r"(://[^\s/:@'\"?#]*):(?!\d+(?:[/?#,;'\")\s\\]|$))[^\s'\"]{0,500}@"
)
_WORDS = (
    r"passw(?:or)?d|passphrase|\bpwd|user[._-]info|jaas[_.]config|"
    r"(?:secret|access|api|account|private)[_.-]?key"
)
# Words that a sentence may have before a colon: "unexpected token: ..".
_OTHERS = r"secret|token(?!: )|credentials?"
# A text in quotes, which may be doubled or escaped in it, and which may be cut.
_TEXT = r"(?P<quote>\\*['\"])(?:(?P=quote){2}|(?!(?P=quote))(?:\\+.|.))*(?:(?P=quote)|$)"
# Any other value ends with a space, but has no closing bracket or quote of what is around it.
_BARE = r"[^\s&;'\"]+(?:['\"][^\s&;'\"),\]}]+)*(?<![)\]},.:])"
_QUOTED = re.compile(
    rf"((?:{_WORDS}|{_OTHERS})\\*['\"]?\s*(?:=>|=|:)\s*){_TEXT}", re.IGNORECASE | re.MULTILINE
)
_PLAIN = re.compile(
    rf"((?:{_WORDS})\s*[=:]\s*|(?:{_OTHERS})=){_BARE}", re.IGNORECASE
)  # fmt: skip


def mask_secrets(text: str) -> str:
    """The text with *** in the place of each secret; masking it again changes nothing."""
    text = _QUOTED.sub(rf"\1\g<quote>{MASK}\g<quote>", text)
    return _PLAIN.sub(rf"\1{MASK}", _URL.sub(rf"\1:{MASK}@", text))


def mask_values(value: Any) -> Any:
    """A value of JSON with every text in it masked."""
    if isinstance(value, str):
        return mask_secrets(value)
    if isinstance(value, Mapping):
        return {name: mask_values(each) for name, each in value.items()}
    return [mask_values(each) for each in value] if isinstance(value, list | tuple) else value
