"""A database by its URL, as Flink's JDBC connector has it: what opens a connection in a worker."""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from aggloom.errors import LookupFailedError, OptionError

_MODULES = {"postgresql": "psycopg", "sqlite": "sqlite3"}


@dataclass(frozen=True)
class DatabaseUrl:
    """`jdbc:postgresql://host:5432/db` or `jdbc:sqlite:file`; calling it opens a connection."""

    url: str = field(repr=False)
    username: str | None = None
    password: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.kind not in _MODULES:
            raise OptionError(
                f"'url' is {self.url!r}; jdbc:postgresql:.. and jdbc:sqlite:.. are known. Give other databases as "
                "al.lookup_table(.., connect=.., table=..)."
            )

    @property
    def kind(self) -> str:
        """Which database it is."""
        parts = self.url.split(":", 2)
        return parts[1] if len(parts) == 3 and parts[0] == "jdbc" else ""

    def __call__(self) -> Any:
        """A DB-API connection."""
        name = _MODULES[self.kind]
        try:
            module = import_module(name)
        except ImportError:
            raise LookupFailedError(
                f"{self.url} needs the package {name}, which is not there; install it where workers run"
            ) from None
        if self.kind == "sqlite":
            return module.connect(self.url.split(":", 2)[2], check_same_thread=False)
        given = {"user": self.username, "password": self.password}
        said = {key: value for key, value in given.items() if value is not None}
        return module.connect(self.url.removeprefix("jdbc:"), **said)
