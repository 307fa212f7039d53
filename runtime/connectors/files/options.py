"""Options by which files of changes are read: the one list of them.

The keywords of `read_changes`, the entries of --table and of a job's tables, and our own options in CREATE TABLE are
the fields of `FileOptions`, so that an option that is added here is known everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from types import UnionType
from typing import Any, get_args, get_type_hints

from aggloom.errors import SpecError, nearest
from aggloom.runtime.formats.base import CHOICES
from aggloom.runtime.formats.registry import FILES
from aggloom.runtime.values.type_fit import NANOSECONDS

_OF_MESSAGES = "of messages"
MESSAGE_OPTIONS = (
    *(
        "time_unit",
        "missing",
        "concatenated",
        "decimals",
        "truncate",
        "snapshot",
        "database",
        "table",
    ),
    *("images", "zero_dates"),
)
"""Options that the decoder of a format of messages takes as they are."""


def _message_option() -> Any:
    """Return the field of an option that formats of messages have; None: the format's own default."""
    return field(default=None, metadata={_OF_MESSAGES: True})


@dataclass(frozen=True, kw_only=True)
class FileOptions:
    """Options of one table in files; `read_changes` says what each means.

    Example: an option of messages does not fit a file of columns.
        >>> FileOptions(decimals="text").check("parquet", "table t")
        Traceback (most recent call last):
        ...
        aggloom.errors.SpecError: table t: decimals is for formats of messages, not for parquet
    """

    max_files_per_trigger: int | None = None
    time_unit: str = "auto"
    whole_files: bool = True
    missing: str = "error"
    concatenated: str = "refuse"
    unreadable: str = field(default="error", metadata={_OF_MESSAGES: True})
    side: str | None = _message_option()
    key_separator: str | None = _message_option()
    decimals: str | None = _message_option()
    truncate: str | None = _message_option()
    snapshot: str | None = _message_option()
    database: str | None = _message_option()
    table: str | None = _message_option()
    images: str | None = _message_option()
    order: str = "time"
    change_column: str | None = None
    change_values: Mapping[Any, str] | str | None = None
    markers: str | None = None
    zero_dates: str | None = _message_option()
    nanoseconds: str | None = None

    def check(self, format: str, where: str) -> None:
        """Raise SpecError for a value that is none of its option's, or for an option that a format does not have."""
        for name in ("time_unit", "missing", "concatenated"):
            check_choice(name, getattr(self, name), CHOICES[name], where)
        for option in fields(self):
            is_given = getattr(self, option.name) != option.default
            is_read = format == "csv" and option.name == "zero_dates" and self.whole_files
            if format in FILES and is_given and option.metadata.get(_OF_MESSAGES) and not is_read:
                raise SpecError(
                    f"{where}: {option.name} is for formats of messages, not for {format}"
                )
        if self.nanoseconds is not None:
            check_choice("nanoseconds", self.nanoseconds, NANOSECONDS, where)
            if format != "parquet" or not self.whole_files:
                raise SpecError(
                    f"{where}: nanoseconds is for Parquet files that workers read whole (whole_files=True)"
                )

    def select(self, *names: str) -> dict[str, Any]:
        """Return the options of these names."""
        return {name: getattr(self, name) for name in names}


@cache
def option_types() -> Mapping[str, type]:
    """Return each option's type as a command line has to convert its text: bool, int or str."""
    return {name: _text_type(hint) for name, hint in get_type_hints(FileOptions).items()}


def _text_type(hint: Any) -> type:
    """Return bool, int or str for a type hint."""
    choices = get_args(hint) if isinstance(hint, UnionType) else (hint,)
    return next((kind for kind in (bool, int) if kind in choices), str)


def check_choice(name: str, value: str, choices: tuple[str, ...], where: str) -> None:
    """Raise SpecError unless the value of an option is one of its choices; where: begins the message."""
    if value not in choices:
        raise SpecError(f"{where}: {name} is {value!r}. {nearest(value, choices)}")
