"""The server of the page: it only reads, runs nothing, and answers other machines only if configured to.

A path of the address names one of the checkpoints by its number, never a file.
"""

from __future__ import annotations

import ipaddress
import re
import socket
import threading
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from aggloom.errors import SpecError
from aggloom.runtime.page.background_reads import BackgroundReads
from aggloom.runtime.page.checkpoints import Checkpoints
from aggloom.runtime.page.metrics import CONTENT_TYPE, format_metrics
from aggloom.runtime.page.pages import Pages
from aggloom.runtime.page.render import policy

LOCAL = "127.0.0.1"
_HTML = "text/html; charset=utf-8"
_TEXT = "text/plain; charset=utf-8"
_PLACE = re.compile(r"/c/([0-9]{1,6})(/state|/key|/result)?")
_FIELDS = 200
_SECONDS = 30
_PATIENCE = 1.5
_CONNECTIONS = 32
"""The number of connections at the same time; a browser opens six."""
_ELSEWHERE = ("cross-site", "same-site")
_BUSY = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nRetry-After: 1\r\nConnection: close\r\n\r\n"


class PageServer(ThreadingHTTPServer):
    """Serves pages about checkpoints; port 0: a free one. Raises SpecError if the address cannot be bound."""

    daemon_threads = True
    # Otherwise a second server could take the port of one that runs.
    allow_reuse_port = False

    def __init__(
        self,
        checkpoints: Checkpoints,
        host: str = LOCAL,
        port: int = 0,
        reading: BackgroundReads | None = None,
    ) -> None:
        self.pages = Pages(checkpoints, reading or BackgroundReads(patience=_PATIENCE))
        self.name = host
        self._free = threading.BoundedSemaphore(_CONNECTIONS)
        if ":" in host:
            self.address_family = socket.AF_INET6
        try:
            super().__init__((host, port), _Handler)
        except (OSError, OverflowError) as error:
            raise SpecError(
                f"the page cannot be served at {host}:{port}: {error}. "
                "Give another --port; 0 takes one that is free."
            ) from error

    @property
    def address(self) -> str:
        """The address of the server, for a browser."""
        host, port = self.server_address[:2]
        name = {"0.0.0.0": LOCAL, "::": "::1"}.get(str(host), str(host))
        return f"http://{f'[{name}]' if ':' in name else name}:{port}/"

    def server_bind(self) -> None:
        """Bind without asking for the machine's name, which may take long."""
        TCPServer.server_bind(self)

    def knows(self, host: str | None) -> bool:
        """Tell whether a Host header names this server: another site may point its own name at this address."""
        if not host:
            return False
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            return False
        if name in ("localhost", self.name.lower()):
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer a connection in a thread of its own, or refuse it at once if there are too many."""
        if self._free.acquire(blocking=False):
            try:
                super().process_request(request, client_address)
            except BaseException:
                self._free.release()
                raise
            return
        request.settimeout(0)
        with suppress(OSError):
            request.sendall(_BUSY)
        self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer a connection, then let the next one in."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore a browser that closed its connection."""


class _Handler(BaseHTTPRequestHandler):
    server: PageServer
    server_version, sys_version = "aggloom", ""
    protocol_version = "HTTP/1.1"
    timeout = _SECONDS

    def handle_one_request(self) -> None:
        """Answer a request that arrives within `_SECONDS`: each line of a slow one would restart the time-out."""
        self._patience = threading.Timer(_SECONDS, self._end)
        self._patience.daemon = True
        self._patience.start()
        try:
            super().handle_one_request()
        finally:
            self._patience.cancel()

    def _end(self) -> None:
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)

    def do_GET(self) -> None:
        """Answer with a page."""
        self._answer(body=True)

    def do_HEAD(self) -> None:
        """Answer with the headers of a page."""
        self._answer(body=False)

    def _answer(self, body: bool) -> None:
        self._patience.cancel()
        try:
            status, kind, text = self._find_answer()
        except Exception as error:
            # No content of a checkpoint may end the server, or show its tracebacks to a browser.
            self.log_error("%r", error)
            message = (
                f"This page cannot be made: {type(error).__name__}. The server's log says more.\n"
            )
            status, kind, text = HTTPStatus.INTERNAL_SERVER_ERROR, _TEXT, message.encode()
        self.send_response(status)
        for name, value in {
            "Content-Type": kind,
            "Content-Length": str(len(text)),
            # The pages show rows of the user; none may stay in the cache of a browser that others use.
            "Cache-Control": "no-store",
            "Content-Security-Policy": policy(live=True),
            "Cross-Origin-Opener-Policy": "same-origin",
            "Cross-Origin-Resource-Policy": "same-origin",
            "Referrer-Policy": "no-referrer",
            "X-Content-Type-Options": "nosniff",
            "X-Frame-Options": "DENY",
        }.items():
            self.send_header(name, value)
        self.end_headers()
        if body:
            self.wfile.write(text)

    def _find_answer(self) -> tuple[HTTPStatus, str, bytes]:
        # Against DNS rebinding: a page of another site may give its own name this machine's address, and would then be
        # of the same origin as this server for the browser.
        if not self.server.knows(self.headers.get("Host")):
            message = (
                b"This server does not answer to that name. Use its address as it printed it.\n"
            )
            return HTTPStatus.MISDIRECTED_REQUEST, _TEXT, message
        split = urlsplit(self.path)
        pages = self.server.pages
        if split.path == "/metrics":
            return HTTPStatus.OK, CONTENT_TYPE, format_metrics(pages.checkpoints.all())
        if split.path == "/":
            return HTTPStatus.OK, _HTML, pages.index().encode("utf-8", "replace")
        place = _PLACE.fullmatch(split.path)
        watched = pages.checkpoints.number(int(place[1])) if place else None
        if place is None or watched is None:
            return HTTPStatus.NOT_FOUND, _TEXT, b"There is no such page. Begin at /.\n"
        # A read of state starts Spark or reads files for long. Another site cannot see the answer, but could ask for
        # many.
        if place[2] and self._is_from_elsewhere():
            refused = b"Another site asks for this page, which reads state. Open it from the page itself.\n"
            return HTTPStatus.FORBIDDEN, _TEXT, refused
        try:
            # Blank values stay: an empty text is a key, too.
            query = parse_qs(split.query, keep_blank_values=True, max_num_fields=_FIELDS)
        except ValueError:
            return HTTPStatus.BAD_REQUEST, _TEXT, b"The address has too many fields.\n"
        if place[2] == "/state":
            text = pages.state(watched)
        elif place[2] == "/key":
            text = pages.key(watched, query)
        elif place[2] == "/result":
            text = pages.result(watched, query)
        else:
            text = pages.checkpoint(watched, query)
        return HTTPStatus.OK, _HTML, text.encode("utf-8", "replace")

    def _is_from_elsewhere(self) -> bool:
        """Tell by its headers whether a page of another site sent a request; a tool sends none of these headers."""
        if self.headers.get("Sec-Fetch-Site", "").strip().lower() in _ELSEWHERE:
            return True
        host = (self.headers.get("Host") or "").strip().lower()
        for name in ("Origin", "Referer"):
            value = self.headers.get(name)
            try:
                # Origin is "null" for a page without an address of its own.
                if value is not None and urlsplit(value.strip()).netloc.lower() != host:
                    return True
            except ValueError:
                return True
        return False

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Log nothing about a request that succeeds."""
