"""Secrets in texts for people and files: passwords in URLs, and values of options with such names."""

from __future__ import annotations

import logging
import re
import traceback
from collections.abc import Mapping
from typing import Any, TypeVar

T = TypeVar("T")
MASK = "***"
_URL = re.compile(
    # A colon and digits are a port. A password may have a slash or an @ that nobody escaped.
    r"(://[^\s/:@'\"?#]*):(?!\d+(?:[/?#,;'\")\s\\]|$))[^\s'\"]{0,500}@"
)
_WORDS = (
    r"passw(?:or)?d|passphrase|\bpwd|user[._-]info|jaas[_.]config|"
    r"(?:secret|access|api|account|private|ssl|keystore|sas|master)[_.-]?key(?:[_.-]?(?:pem|string))?|"
    r"shared[_.-]?access[_.-]?signature"
)
# Words that a sentence may have before a colon: "unexpected token: ..".
_OTHERS = r"secret|token(?!: )|credentials?"
# A text in quotes, which may be doubled or escaped in it, and which may be cut.
_TEXT = r"(?P<quote>\\*['\"])(?:(?P=quote){2}|(?!(?P=quote))(?:\\+.|.))*(?:(?P=quote)|$)"
# Any other value ends with a space, but has no closing bracket or quote of what is around it.
_BARE = r"[^\s&;'\"]+(?:['\"][^\s&;'\"),\]}]+)*(?<![)\]},.:])"
# Signatures of URLs that open a store to whoever has them, and what a client says in a header.
_SIGNED = re.compile(
    r"([?&](?:sig|x-amz-signature|x-amz-security-token)=)[^\s&'\"]+", re.IGNORECASE
)
_HEADER = re.compile(r"(\b(?:bearer|basic)\s+)[\w.~+/=-]{8,}", re.IGNORECASE)
_QUOTED = re.compile(
    rf"((?:{_WORDS}|{_OTHERS})\\*['\"]?\s*(?:=>|=|:)\s*){_TEXT}", re.IGNORECASE | re.MULTILINE
)
_PLAIN = re.compile(
    rf"((?:{_WORDS})\s*[=:]\s*|(?:{_OTHERS})=){_BARE}", re.IGNORECASE
)  # fmt: skip


def mask_secrets(text: str) -> str:
    """The text with *** in the place of each secret; masking it again changes nothing."""
    text = _QUOTED.sub(rf"\1\g<quote>{MASK}\g<quote>", text)
    text = _HEADER.sub(rf"\1{MASK}", _SIGNED.sub(rf"\1{MASK}", text))
    return _PLAIN.sub(rf"\1{MASK}", _URL.sub(rf"\1:{MASK}@", text))


def mask_repr(kind: type[T]) -> type[T]:
    """Mask what `repr` shows of a class: its fields hold what users say to a driver, a broker or a store."""
    repr_of = kind.__repr__

    def __repr__(self: T) -> str:  # noqa: N807
        return mask_secrets(repr_of(self))

    setattr(kind, "__repr__", __repr__)  # noqa: B010
    return kind


def mask_record(record: logging.LogRecord) -> bool:
    """Mask the message and the traceback of a record of the log; true, so that it is logged."""
    record.msg, record.args = mask_secrets(record.getMessage()), ()
    if record.exc_info and record.exc_info[0] is not None:
        text = "".join(traceback.format_exception(*record.exc_info)).rstrip()
        record.exc_text = mask_secrets(text)
        if record.exc_text != text:
            # Formatters of JSON, as Spark's, write the exception itself.
            kind, error, trace = record.exc_info
            record.exc_info = kind, Exception(mask_secrets(str(error))), trace
    return True


def mask_values(value: Any) -> Any:
    """A value of JSON with every text in it masked."""
    if isinstance(value, str):
        return mask_secrets(value)
    if isinstance(value, Mapping):
        return {name: mask_values(each) for name, each in value.items()}
    return [mask_values(each) for each in value] if isinstance(value, list | tuple) else value


for _name in ("aggloom", "aggloom.lookup"):
    # A filter of a logger is not asked about records of those below it.
    logging.getLogger(_name).addFilter(mask_record)
