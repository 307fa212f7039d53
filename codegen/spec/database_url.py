"""A database by its URL, as in Flink's JDBC connector, and the function that opens a connection in a worker."""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib import import_module
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode

from aggloom.codegen.spec.mysql_url import mysql_arguments
from aggloom.errors import LookupFailedError, OptionError
from aggloom.masking import mask_repr

_MODULES = {"postgresql": "psycopg", "sqlite": "sqlite3", "mysql": "pymysql", "mariadb": "pymysql"}
_OF_MYSQL = ("mysql", "mariadb")
_OF_JAVA = {
    "ApplicationName": "application_name",
    "connectTimeout": "connect_timeout",
    "loginTimeout": "connect_timeout",
    "channelBinding": "channel_binding",
    "gssEncMode": "gssencmode",
    "targetServerType": "target_session_attrs",
}
"""Parameters of PostgreSQL's driver in Java by libpq's names."""
_SERVERS = {"primary": "primary", "secondary": "standby", "preferSecondary": "prefer-standby"}
_NONE_HERE = ("loglevel", "stringtype", "binarytransfer", "ssl")


def _of_libpq(name: str, value: str) -> tuple[str, str]:
    """A parameter of Java's driver as libpq has it; raises OptionError for one that means nothing to it."""
    if name == "currentSchema":
        # Blanks separate options there, so that one in a list of schemas would end it.
        return "options", f"-c search_path={value}".replace(", ", ",")
    if name == "ssl" and value.lower() in ("true", ""):
        # As Java's driver: `ssl=true` there verifies the server's certificate and name. `require` would verify nothing.
        return "sslmode", "verify-full"
    if name == "ssl" and value.lower() == "false":
        return "sslmode", "prefer"
    if name == "targetServerType":
        value = _SERVERS.get(value, "any")
    known = _OF_JAVA.get(name, name)
    # All parameters of libpq are in lower case, and all others of Java's driver are in camel case but for a few.
    if known != known.lower() or known in _NONE_HERE:
        raise OptionError(
            f"'url' has {name}={value}, a parameter of Java's driver that libpq does not have; leave it out. "
            f"Known besides libpq's own: currentSchema, ssl, {', '.join(_OF_JAVA)}."
        )
    return known, value


@mask_repr
@dataclass(frozen=True)
class DatabaseUrl:
    """`jdbc:postgresql://host:5432/db`, `jdbc:mysql://host/db` or `jdbc:sqlite:file`; calling it opens a connection."""

    url: str = field(repr=False)
    username: str | None = None
    password: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.kind == "postgresql":
            # Parameters are read now, so that a wrong one is an error of the script and not of a worker.
            self._of_libpq()
        if self.kind in _OF_MYSQL:
            mysql_arguments(self.url.removeprefix("jdbc:"))
        if self.kind not in _MODULES:
            raise OptionError(
                f"'url' is {self.url!r}; jdbc:postgresql:.., jdbc:mysql:.., jdbc:mariadb:.. and jdbc:sqlite:.. are "
                "known. Other databases are given in Python, by connect=."
            )

    @property
    def quote(self) -> str:
        """The character around its names."""
        return "`" if self.kind in _OF_MYSQL else '"'

    @property
    def kind(self) -> str:
        """Which database it is."""
        parts = self.url.split(":", 2)
        return parts[1] if len(parts) == 3 and parts[0] == "jdbc" else ""

    def __call__(self) -> Any:
        """A DB-API connection."""
        name = _MODULES[self.kind]
        try:
            # Imported in the worker that asks: where the plan is made no driver is needed.
            module = import_module(name)
        except ImportError:
            raise LookupFailedError(
                f"{self.url} needs the package {name}, which is not there; install it where workers run"
            ) from None
        if self.kind == "sqlite":
            return module.connect(self.url.split(":", 2)[2], check_same_thread=False)
        credentials = {"user": self.username, "password": self.password}
        parts = {key: value for key, value in credentials.items() if value is not None}
        if self.kind in _OF_MYSQL:
            # A TIMESTAMP is shown in the time zone of the session.
            zone = {"init_command": "SET time_zone = '+00:00'"}
            return module.connect(
                **{**mysql_arguments(self.url.removeprefix("jdbc:")), **zone, **parts}
            )
        return module.connect(self._of_libpq(), **parts)

    def _of_libpq(self) -> str:
        """The URL with libpq's parameters; raises OptionError for one of Java's driver that libpq does not have."""
        url, _, query = self.url.removeprefix("jdbc:").partition("?")
        if "//" not in url:
            # Java's driver takes a database of this machine by its name alone.
            url = f"postgresql:///{url.removeprefix('postgresql:')}"
        pairs = parse_qsl(query, keep_blank_values=True)
        parts = [_of_libpq(name, value) for name, value in pairs]
        return f"{url}?{urlencode(parts, quote_via=quote)}" if parts else url
