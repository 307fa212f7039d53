"""The form of CSV files as options say it: RFC 4180, unless they say otherwise."""

from __future__ import annotations

import codecs
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Any

from aggloom.errors import SpecError, nearest
from aggloom.runtime.formats.packed_files import format_suffix

CSV_OPTIONS = {
    *("sep", "delimiter", "quote", "escape", "header", "nullValue", "encoding", "comment"),
    *("ignoreLeadingWhiteSpace", "ignoreTrailingWhiteSpace", "missing", "zero_dates"),
}
"""Options of CSV files, by Spark's names where it has them."""
_NEEDLESS = {"multiline", "maxcolumns"}
"""Options of Spark's reader, in lower case, for what is so without them: breaks in quotes, and any width."""
_TABS = (".tab", ".tsv")
READ_OPTIONS = {name.lower() for name in CSV_OPTIONS} | _NEEDLESS


@dataclass(frozen=True)
class CsvDialect:
    """The form of CSV files.

    quote, comment: one character, or "" for none. escape: what precedes a quote in a quoted value, the quote
    itself unless an option says so; None: the quote, and no option said so. null: a text that is NULL beside the
    empty one. leading, trailing: whether blanks around a value are cut off. lenient: whether a column that a header
    lacks is NULL. is_named: whether an option says the separator, so that names of files do not. zero_dates: whether
    MySQL's dates with month or day 0 are an "error", or "null".
    """

    separator: str = ","
    quote: str = '"'
    escape: str | None = None
    header: bool = True
    null: str = ""
    encoding: str = "utf-8"
    comment: str = ""
    leading: bool = False
    trailing: bool = False
    lenient: bool = False
    is_named: bool = False
    zero_dates: str = "error"

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> CsvDialect:
        """Read the options, in any case; raises SpecError for one that is none, or has no such value."""
        known = {name.lower(): name for name in CSV_OPTIONS}
        texts: dict[str, str] = {}
        for name, value in options.items():
            lower = name.lower()
            if lower not in READ_OPTIONS:
                raise SpecError(f"csv has no option {name!r}. {nearest(name, sorted(CSV_OPTIONS))}")
            if lower in known:
                texts[lower] = str(value)
        # Two characters, as a shell or a job file passes a tab on.
        separator = texts.get("sep", texts.get("delimiter", ",")).replace("\\t", "\t")
        dialect = cls(
            separator=separator,
            quote=texts.get("quote", '"'),
            escape=texts.get("escape"),
            header=_switch(texts, "header", "true"),
            null=texts.get("nullvalue", ""),
            encoding=_codec(texts.get("encoding", "utf-8")),
            comment=texts.get("comment", ""),
            leading=_switch(texts, "ignoreleadingwhitespace"),
            trailing=_switch(texts, "ignoretrailingwhitespace"),
            lenient=_refusal(texts, "missing") == "null",
            is_named=bool(texts.keys() & {"sep", "delimiter"}),
            zero_dates=_refusal(texts, "zero_dates"),
        )
        dialect._check()
        return dialect

    def of_file(self, name: str) -> CsvDialect:
        """Return the dialect of a file: where no option says the separator, .tsv and .tab files have tabs."""
        has_tabs = not self.is_named and format_suffix(PurePath(name)) in _TABS
        return replace(self, separator="\t") if has_tabs else self

    def _check(self) -> None:
        if not self.separator or set(self.separator) & {"\r", "\n"}:
            raise SpecError(f"csv: sep is {self.separator!r}; it is one or more characters.")
        if self.quote and self.quote in self.separator:
            raise SpecError(f"csv: sep {self.separator!r} has the quote {self.quote!r} in it.")
        for name, text in (("quote", self.quote), ("comment", self.comment)):
            if len(text) > 1:
                raise SpecError(f"csv: {name} is {text!r}; it is one character, or empty for none.")
        if self.escape is not None and len(self.escape) != 1:
            raise SpecError(f"csv: escape is {self.escape!r}; it is one character.")


def _switch(texts: Mapping[str, str], name: str, default: str = "false") -> bool:
    text = texts.get(name, default).lower()
    if text not in ("true", "false"):
        raise SpecError(f"csv: {name} is {text!r}; it is true or false.")
    return text == "true"


def _refusal(texts: Mapping[str, str], name: str) -> str:
    """Return what becomes of odd rows, "error" or "null"."""
    text = texts.get(name, "error")
    if text not in ("error", "null"):
        raise SpecError(f"csv: {name} is {text!r}; it is error or null.")
    return text


def _codec(name: str) -> str:
    try:
        return codecs.lookup(name).name
    except LookupError:
        raise SpecError(
            f"csv: no encoding {name!r}; name one such as UTF-8 or ISO-8859-1."
        ) from None
