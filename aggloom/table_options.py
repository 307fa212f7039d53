"""Words: the options of a created table, as its source or sink takes them one by one."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from aggloom.codegen import CreatedTable
from aggloom.errors import IgnoredOptionWarning, OptionError, SpecError, nearest


class Words:
    """The options of a table, of which each is taken once; what nobody takes is refused by name."""

    def __init__(self, table: CreatedTable, folder: Path | None) -> None:
        self.table, self.folder = table, folder
        self.options = {k: v for k, v in table.options.items() if k not in ("connector", "changes")}
        self.known: list[str] = ["changes"]
        self._partitions = table.partitions

    def take(self, name: str) -> str | None:
        """The value of an option, if it is given."""
        self.known.append(name)
        return self.options.pop(name, None)

    def take_partitions(self) -> list[str]:
        """The columns of PARTITIONED BY."""
        partitions, self._partitions = list(self._partitions), ()
        return partitions

    def end_partitions(self) -> None:
        """Raise OptionError if nobody took the columns of PARTITIONED BY."""
        if self._partitions:
            connector = self.table.connector
            raise self.wrong(f"PARTITIONED BY has no meaning in '{connector}'; take it out.")

    def require(self, name: str) -> str:
        """The value of an option that has to be there."""
        value = self.take(name)
        if not value:
            like = [each for each in self.options if each in name]
            like += get_close_matches(name, self.options, 1)
            there = f" (there is '{like[0]}')" if like else ""
            raise self.wrong(f"'{name}' is missing{there}; say it in WITH (..).")
        return value

    def choice(self, name: str, choices: Mapping[str, Any], otherwise: Any) -> Any:
        """Take an option that is one of a few words; return the choice of that word. Raises SpecError for any other
        word.
        """
        value = self.take(name)
        if value is None:
            return otherwise
        if value.lower() not in choices:
            raise self.wrong(f"'{name}' is {value!r}. {nearest(value.lower(), choices)}")
        return choices[value.lower()]

    def need_one(self, *names: str) -> None:
        """Raise OptionError where several options that say the same are given."""
        present = [name for name in names if name in self.options]
        if len(present) > 1:
            raise self.wrong(f"'{present[0]}' and '{present[1]}' are both given; leave one out.")

    def number(self, name: str) -> int | None:
        """The value of an option that is a whole number."""
        value = self.take(name)
        if value is not None and not value.isdigit():
            raise self.wrong(f"'{name}' is {value!r}; it must be a whole number.")
        return None if value is None else int(value)

    def take_prefixed(self, start: str) -> dict[str, str]:
        """The options whose names begin so, under these names."""
        self.known.append(f"{start}..")
        return {
            name: self.options.pop(name) for name in list(self.options) if name.startswith(start)
        }

    def storage(self) -> dict[str, str]:
        """Take the options of an object store, without their prefix `storage.`."""
        options = self.take_prefixed("storage.")
        return {name.removeprefix("storage."): value for name, value in options.items()}

    def refuse(self, name: str, why: str) -> None:
        """Refuse an option of Flink's that has no meaning here."""
        if self.take(name) is not None:
            raise self.wrong(f"'{name}' is not supported: {why}")

    def pass_over(self, name: str, why: str) -> None:
        """Take an option of Flink's on which no result depends; a warning says why it has no effect."""
        if self.take(name) is not None:
            text = f"CREATE TABLE {self.table.name}: {name!r} has no effect: {why}"
            warnings.warn(text, IgnoredOptionWarning, stacklevel=1)

    def end(self) -> None:
        """Refuse what nobody has taken."""
        for name in self.options:
            raise self.wrong(f"there is no option {name!r} here. {nearest(name, self.known)}")

    def wrong(self, why: str) -> SpecError:
        """The error of an option."""
        return OptionError(f"CREATE TABLE {self.table.name}: {why}")
