"""URLs of MySQL and MariaDB as arguments of Python's drivers."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from aggloom.errors import OptionError

_OF_JAVA = {"connectTimeout": "connect_timeout"}
"""Python's names of parameters of Java's driver: milliseconds in Java, seconds in Python."""
_WHOLE = ("port", "connect_timeout", "read_timeout", "write_timeout")
_WORDS = (
    *("user", "password", "unix_socket", "charset", "read_default_file"),
    *("ssl_ca", "ssl_cert", "ssl_key", *_WHOLE),
)
_EXAMPLE = "mysql://USER@HOST:3306/DATABASE"


def mysql_arguments(url: str) -> dict[str, Any]:
    """The arguments of `connect` of a driver of Python.

    Raises OptionError for an invalid URL, and for a parameter that no driver of Python has.

    Example:
        >>> mysql_arguments("mysql://etl:a%26b@db/shop?connect_timeout=3")["password"]
        'a&b'
    """
    # Messages do not quote the URL: a password may be anywhere in an invalid one.
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise OptionError(
            f"the URL of the database cannot be read; it is {_EXAMPLE}, in which a user or password has :, /, ? and # "
            "as %3A, %2F, %3F and %23"
        ) from None
    if parts.scheme not in ("mysql", "mariadb") or not parts.hostname:
        raise OptionError(f"the text to connect with is no URL of MySQL or MariaDB: {_EXAMPLE}")
    arguments: dict[str, Any] = {"host": parts.hostname, "port": port or 3306, "charset": "utf8mb4"}
    named = {
        "user": parts.username,
        "password": parts.password,
        "database": parts.path.lstrip("/") or None,
    }
    arguments |= {name: unquote(value) for name, value in named.items() if value is not None}
    for name, value in parse_qsl(parts.query, keep_blank_values=True):
        known = _OF_JAVA.get(name, name)
        if known not in _WORDS or (known in _WHOLE and not value.isdigit()):
            raise OptionError(
                f"the URL of the database has {name}, or a value of it, that Python's driver does not have; leave it "
                f"out. Known are {', '.join([*_WORDS, *_OF_JAVA])}"
            )
        whole = int(value) if known in _WHOLE else value
        arguments[known] = max(1, int(value) // 1000) if name in _OF_JAVA else whole
    return arguments
