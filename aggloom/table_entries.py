"""Tables as text: the entries of --table, and values that a command line gives."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from aggloom.codegen import milliseconds
from aggloom.errors import SpecError
from aggloom.runtime.values.change_column import KIND_WORDS

_KINDS = "|".join(map(re.escape, KIND_WORDS))
_ENTRY = re.compile(rf",(?=[\w.]+=)(?![\w.]+=(?:{_KINDS})(?:,|$))", re.IGNORECASE)
SPARK_OPTIONS = (
    *("maxFilesPerTrigger", "maxBytesPerTrigger", "maxFileAge", "latestFirst", "fileNameOnly"),
    *("cleanSource", "sourceArchiveDir", "pathGlobFilter", "recursiveFileLookup"),
    *("modifiedBefore", "modifiedAfter", "ignoreMissingFiles", "ignoreCorruptFiles"),
    *("encoding", "lineSep", "sep", "delimiter", "quote", "escape", "comment", "header"),
    *("nullValue", "emptyValue", "nanValue", "positiveInf", "negativeInf", "multiLine"),
    *("dateFormat", "timestampFormat", "timestampNTZFormat", "locale", "maxColumns"),
    *("maxCharsPerColumn", "charToEscapeQuoteEscaping", "unescapedQuoteHandling"),
    *("ignoreLeadingWhiteSpace", "ignoreTrailingWhiteSpace", "enforceSchema", "mergeSchema"),
    *("datetimeRebaseMode", "int96RebaseMode"),
)
"""Options of Spark's readers that need no `options` around them; any case will do."""
_WORDS = {bool: "true or false", int: "a whole number", dict: "a mapping"}


def split_entries(text: str) -> list[str]:
    """The entries of a text; a comma ends one where `word=` follows, unless that is a word of change_values."""
    return _ENTRY.split(text)


def convert_entry(key: str, value: Any, kind: type, where: str) -> Any:
    """The value of a keyword, which a command line gives as text."""
    if kind is bool and str(value).lower() in ("true", "false"):
        return str(value).lower() == "true"
    if kind is int and str(value).isdigit():
        return int(value)
    if kind is dict and isinstance(value, Mapping):
        return dict(value)
    if kind is str or (kind is not bool and value is None):
        return value
    raise SpecError(f"{where}: {key} is {value!r}; it must be {_WORDS[kind]}.")


def read_watermark(text: Any, where: str) -> tuple[str, str] | None:
    """The column and the delay of a text such as "ts 10 minutes"."""
    if text is None:
        return None
    column, _, delay = str(text).partition(" ")
    if not delay:
        raise SpecError(
            f"{where}: watermark {text!r} must read 'COLUMN DELAY', as in 'ts 10 minutes'."
        )
    milliseconds(f"{where}, watermark", delay)
    return column, delay


def read_keys(value: Any, where: str) -> tuple[str, ...]:
    """The columns of a list, or of a text such as "shop, id"."""
    listed = value.split(",") if isinstance(value, str) else value or ()
    if not isinstance(listed, list | tuple) or not all(isinstance(name, str) for name in listed):
        raise SpecError(f"{where}: keys is {value!r}; it must be a column, or a list of them.")
    return tuple(name.strip() for name in listed)


def remove_quotes(value: str) -> str:
    """A value without the quotes that a shell left around it."""
    quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "'\""
    return value[1:-1] if quoted else value
