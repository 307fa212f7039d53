"""Basic and bearer authentication of the server, by the headers that drivers of Flight SQL send."""

from __future__ import annotations

import base64
import binascii
import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pyarrow import flight

_HEADER = "authorization"


@dataclass(frozen=True)
class Credentials:
    """A user and a password. token: the bearer token that replaces both after the first call."""

    user: str
    password: str = field(repr=False)
    token: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)

    def admits(self, header: str) -> bool:
        """Tell whether an authorization header has both, or the token."""
        kind, _, value = header.partition(" ")
        if kind.lower() == "bearer":
            # In constant time, so that the duration of the comparison reveals nothing about the secret.
            return hmac.compare_digest(value.encode(), self.token.encode())
        if kind.lower() != "basic":
            return False
        try:
            # Drivers in Go leave the padding out.
            login = base64.b64decode(value + "=" * (-len(value) % 4), validate=True)
        except (binascii.Error, ValueError):
            return False
        return hmac.compare_digest(login, f"{self.user}:{self.password}".encode())


class CheckCredentials(flight.ServerMiddlewareFactory):  # type: ignore[misc]
    """Refuses every call without the right header, before anything is read."""

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials

    def start_call(self, info: Any, headers: Mapping[str, list[Any]]) -> Any:
        """Admit a call, and return the middleware of its answer; raises FlightUnauthenticatedError."""
        authorisations = [
            v for name, values in headers.items() if name.lower() == _HEADER for v in values
        ]
        if not any(isinstance(v, str) and self._credentials.admits(v) for v in authorisations):
            raise flight.FlightUnauthenticatedError("give the user and the password of this server")
        # Drivers send the password once and the token from then on.
        return _TokenMiddleware(self._credentials.token)


class _TokenMiddleware(flight.ServerMiddleware):  # type: ignore[misc]
    """Sends the token with an answer."""

    def __init__(self, token: str) -> None:
        self._token = token

    def sending_headers(self) -> dict[str, str]:
        return {_HEADER: f"Bearer {self._token}"}


class OpenHandshake(flight.ServerAuthHandler):  # type: ignore[misc]
    """Accepts every handshake, by which drivers send a password: CheckCredentials checks its header as any other."""

    def authenticate(self, outgoing: Any, incoming: Any) -> None:
        """Accept the handshake, whose header has been checked by now."""

    def is_valid(self, token: Any) -> str:
        """Return no name of a peer, which nothing needs."""
        return ""
