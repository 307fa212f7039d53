"""The settings of a schema registry: its address and credentials, without secrets in its texts."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit, urlunsplit

from aggloom.errors import SpecError, nearest
from aggloom.masking import mask_repr

_WHERE = "registry"
_PLAIN = re.compile(r"[\x21-\x7e]+")
_JAVA = (".jks", ".p12", ".pfx", ".keystore", ".truststore")


@mask_repr
@dataclass(frozen=True)
class SchemaRegistry:
    """A schema registry with Confluent's interface.

    urls: tried in turn. user_info: USER:PASSWORD of basic authentication. token: a bearer's. ca_file: trusted
    certificates (PEM). certificate_file: the client's certificate and key (PEM). certificate_password: of that key.
    timeout: seconds to wait for an answer. attempts: requests to each URL before an error.
    """

    urls: tuple[str, ...]
    user_info: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    ca_file: str | None = None
    certificate_file: str | None = None
    certificate_password: str | None = field(default=None, repr=False)
    timeout: float = 10.0
    attempts: int = 5

    def __str__(self) -> str:
        return ", ".join(self.urls)


OPTIONS = ("url", *(name for name in SchemaRegistry.__dataclass_fields__ if name != "urls"))
"""Names of the options of a registry."""
_FILES = ("ca_file", "certificate_file")
_SECRETS = ("user_info", "token", "certificate_password")


def schema_registry(registry: Any) -> SchemaRegistry:
    """The registry of a URL, of several with commas, or of a mapping; raises SpecError, without secrets in its text."""
    if isinstance(registry, SchemaRegistry):
        return registry
    settings = dict(registry) if isinstance(registry, Mapping) else {"url": registry}
    for name in settings:
        if name not in OPTIONS:
            raise SpecError(f"{_WHERE}: there is no option {str(name)!r}. {nearest(name, OPTIONS)}")
    urls, users = _urls(settings.pop("url", None))
    options = {
        name: _secret(name, value) if name in _SECRETS else value
        for name, value in settings.items()
        if value is not None
    }
    for name in ("timeout", "attempts"):
        if name in options:
            options[name] = _number(name, options[name])
    for name, value in options.items():
        if name not in ("timeout", "attempts") and not isinstance(value, str):
            raise SpecError(f"{_WHERE}: {name} must be a text")
    if users:
        if "user_info" in options or "token" in options:
            raise SpecError(f"{_WHERE}: the URL has a user and a password; leave out the others")
        options["user_info"] = users
    _check(options)
    return SchemaRegistry(urls, **options)


def _secret(name: str, value: Any) -> Any:
    """Return a secret, or for {"env": NAME} a variable of the environment, so that no file of a job contains it."""
    if not isinstance(value, Mapping):
        return value
    variable = value.get("env")
    if list(value) != ["env"] or not isinstance(variable, str):
        raise SpecError(
            f"{_WHERE}: {name} must be a text, or name a variable: {{env: REGISTRY_TOKEN}}"
        )
    if not os.environ.get(variable):
        raise SpecError(
            f"{_WHERE}: {name} is in the environment's {variable}, which is not set here"
        )
    return os.environ[variable]


def _check(options: Mapping[str, Any]) -> None:
    """Raise SpecError for options that exclude each other, and for invalid ones."""
    user, token = options.get("user_info"), options.get("token")
    if user is not None and token is not None:
        raise SpecError(f"{_WHERE}: user_info and token are both given; leave one out")
    if user is not None and (":" not in user or not user.isprintable()):
        raise SpecError(f"{_WHERE}: user_info must read USER:PASSWORD")
    # A line break would begin another header of the request.
    if token is not None and not _PLAIN.fullmatch(token):
        raise SpecError(f"{_WHERE}: token has characters that no token has, such as a line's end")
    if "certificate_password" in options and "certificate_file" not in options:
        raise SpecError(
            f"{_WHERE}: certificate_password is of a certificate_file, which is missing"
        )
    for name in _FILES:
        if str(options.get(name, "")).lower().endswith(_JAVA):
            raise SpecError(
                f"{_WHERE}: {name} is {options[name]!r}, a key store of Java's; give certificates as text (PEM): "
                "keytool -exportcert -rfc -alias NAME -keystore FILE, or openssl pkcs12 -in FILE -out FILE.pem"
            )


def _urls(setting: Any) -> tuple[tuple[str, ...], str | None]:
    """The URLs without users, and the one user that they name."""
    listed = setting.split(",") if isinstance(setting, str) else setting
    if (
        not listed
        or not isinstance(listed, Sequence)
        or not all(isinstance(e, str) for e in listed)
    ):
        raise SpecError(f"{_WHERE}: give its url, as in 'https://registry:8081'")
    urls, users = [], set()
    for each in listed:
        parts = _split_url(each.strip())
        user, at, host = parts.netloc.rpartition("@")
        if at:
            # Decoded, as the header of basic authentication has no percent signs.
            users.add(unquote(user))
        # Without the user, since messages show the URL.
        url = urlunsplit((parts.scheme, host, parts.path.rstrip("/"), "", ""))
        if parts.scheme not in ("http", "https") or not host or parts.query or parts.fragment:
            raise SpecError(f"{_WHERE}: {url!r} is no URL such as 'https://registry:8081'")
        urls.append(url)
    if len(users) > 1:
        raise SpecError(f"{_WHERE}: its URLs name several users; give one as user_info")
    return tuple(urls), users.pop() if users else None


def _split_url(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        # Reading the port checks it.
        _ = parts.port
    except ValueError:
        raise SpecError(f"{_WHERE}: its url is not of the form 'https://registry:8081'") from None
    return parts


def _number(name: str, value: Any) -> float | int:
    """A number above 0, which a command line has as text."""
    try:
        number = float(value) if name == "timeout" else int(value)
    except (TypeError, ValueError):
        number = 0
    # To Python, True is a number.
    if not 0 < number < 10_000 or isinstance(value, bool):
        kind = "seconds" if name == "timeout" else "a whole number"
        raise SpecError(f"{_WHERE}: {name} is {value!r}; it must be {kind} above 0")
    return number


def check_files(registry: SchemaRegistry) -> None:
    """Raise SpecError for missing files of certificates."""
    for name in _FILES:
        path = getattr(registry, name)
        if path is not None and not Path(path).is_file():
            raise SpecError(f"{_WHERE}: {name} {path!r} is not there; workers need it at this path")
