"""Checks of what users pass to the calls of either engine."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aggloom.errors import SpecError

if TYPE_CHECKING:
    from aggloom.codegen.planner import Plan


def check_checkpoint(call: str, path: Any) -> None:
    """Raise SpecError unless the checkpoint that a call was given is a path, and not an empty one."""
    if not isinstance(path, str | Path) or not str(path):
        raise SpecError(f"{call}: checkpoint is {path!r}; it must be the path of a directory")


def check_key_columns(call: str, key: Any) -> None:
    """Raise SpecError unless the columns that distinguish rows, if given, are a list of names."""
    if isinstance(key, str):
        raise SpecError(f"{call}: key_columns is the text {key!r}; give a list of columns")
    is_list = isinstance(key, Sequence) and all(isinstance(name, str) for name in key)
    if key is not None and not is_list:
        raise SpecError(f"{call}: key_columns is {key!r}; give a list of columns")


def check_tables_read(call: str, query: str, plan: Plan, names: Iterable[str]) -> None:
    """Raise SpecError where a table was given by keyword, and the query does not read it."""
    from aggloom.codegen import tables_read

    read = {*tables_read(query), *plan.scans}
    known = {name.casefold() for name in read}
    for name in names:
        if name.casefold() not in known:
            raise SpecError(
                f"{call}: table {name!r} is given, and the query does not read it (it reads "
                f"{', '.join(sorted(read))}); leave it out, or give what several queries share as tables={{...}}"
            )
