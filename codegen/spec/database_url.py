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
"""libpq's names of the parameters of PostgreSQL's driver for Java."""
_SERVERS = {"primary": "primary", "secondary": "standby", "preferSecondary": "prefer-standby"}
_NONE_HERE = ("loglevel", "stringtype", "binarytransfer", "ssl")


def _of_libpq(name: str, value: str) -> tuple[str, str]:
    """A parameter of the driver for Java as libpq's; raises OptionError for one without a counterpart."""
    if name == "currentSchema":
        # Blanks separate options of libpq, so a blank would end the list of schemas.
        return "options", f"-c search_path={value}".replace(", ", ",")
    if name == "ssl" and value.lower() in ("true", ""):
        # In Java `ssl=true` verifies the server's certificate and name. libpq's `require` would verify nothing.
        return "sslmode", "verify-full"
    if name == "ssl" and value.lower() == "false":
        return "sslmode", "prefer"
    if name == "targetServerType":
        value = _SERVERS.get(value, "any")
    known = _OF_JAVA.get(name, name)
    # Parameters of libpq are in lower case; others of Java's driver are in camel case, with a few exceptions.
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
            # Checked here, so that a wrong parameter is an error of the script and not of a worker.
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
        """The name of the database system; empty for an invalid URL."""
        parts = self.url.split(":", 2)
        return parts[1] if len(parts) == 3 and parts[0] == "jdbc" else ""

    def __call__(self) -> Any:
        """A DB-API connection."""
        name = _MODULES[self.kind]
        try:
            # Imported in the worker that connects: planning needs no driver.
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
            # A TIMESTAMP is returned in the time zone of the session.
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
