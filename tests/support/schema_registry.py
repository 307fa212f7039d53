"""A schema registry for tests: real HTTP on a free port, with what a hostile one may answer."""

from __future__ import annotations

import json
import os
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from itertools import count
from typing import Any
from urllib.parse import unquote

_NUMBERS = count()


class Registry:
    """Schemas by id and by subject; what was asked of it; answers that stand for its own, by path or for the next."""

    def __init__(self) -> None:
        self.schemas: dict[int, dict[str, Any]] = {}
        self.subjects: dict[str, list[int]] = {}
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.next: list[tuple[int, Any]] = []
        self.compatibility: dict[str, Any] = {"is_compatible": True}
        self.login: str | None = None
        self.answers: dict[str, tuple[int, Any]] = {}
        self.url = ""

    def add(self, schema: Any, subject: str = "t-value", **more: Any) -> int:
        """Register a schema, as an object or a text; its id."""
        text = schema if isinstance(schema, str) else json.dumps(schema)
        told = {"schema": text, **more}
        same = [number for number, known in self.schemas.items() if known == told]
        number = same[0] if same else len(self.schemas) + 101
        self.schemas[number] = told
        versions = self.subjects.setdefault(subject, [])
        if number not in versions:
            versions.append(number)
        return number

    def frame(self, number: int, value: Any) -> bytes:
        """A value in Confluent's frame, by a schema without references."""
        return frame(number, json.loads(self.schemas[number]["schema"]), value)

    def answer(self, path: str, body: bytes | None, login: str | None) -> tuple[int, Any]:
        """Answer a request; return its status and body."""
        if self.next:
            return self.next.pop(0)
        if self.login is not None and login != self.login:
            return 401, {"error_code": 401, "message": "Unauthorized"}
        if path in self.answers:
            return self.answers[path]
        parts = path.strip("/").split("/")
        if parts[:2] == ["schemas", "ids"]:
            found = self.schemas.get(int(parts[2]))
            return (200, found) if found else (404, {"error_code": 40403, "message": "not found"})
        if parts[0] == "compatibility":
            return 200, self.compatibility
        subject = unquote(parts[1])
        if body is not None:
            return 200, {"id": self.add(json.loads(body)["schema"], subject)}
        if subject not in self.subjects:
            return 404, {"error_code": 40401, "message": "no such subject"}
        try:
            number = self.subjects[subject][-1 if parts[3] == "latest" else int(parts[3]) - 1]
        except IndexError:
            return 404, {"error_code": 40402, "message": "no such version"}
        return 200, {"id": number, **self.schemas[number]}


def frame(number: int, schema: Any, value: Any) -> bytes:
    """A value in Confluent's frame."""
    from fastavro import parse_schema, schemaless_writer

    out = BytesIO()
    out.write(b"\0" + number.to_bytes(4, "big"))
    # The names of one schema are not those of the next.
    schemaless_writer(out, parse_schema(schema, named_schemas={}), value)
    return out.getvalue()


@contextmanager
def serving(tls: tuple[str, str] | None = None, client_ca: str | None = None) -> Iterator[Registry]:
    """A registry that answers; tls: files of its certificate and key; client_ca: it asks for certificates of this."""
    registry = Registry()
    # A port comes again; what a client has learned of a registry is true of its URL for ever.
    own = f"/{os.getpid()}-{next(_NUMBERS)}"

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            return

        def do_GET(self) -> None:
            self._reply(None)

        def do_POST(self) -> None:
            self._reply(self.rfile.read(int(self.headers["Content-Length"])))

        def _reply(self, body: bytes | None) -> None:
            path = self.path.removeprefix(own)
            registry.asked.append((path, dict(self.headers)))
            code, told = registry.answer(path, body, self.headers.get("Authorization"))
            data = told if isinstance(told, bytes) else json.dumps(told).encode()
            self.send_response(code)
            if 300 <= code < 400:
                self.send_header("Location", data.decode())
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    class Server(ThreadingHTTPServer):
        def handle_error(self, *_: Any) -> None:
            return

    server = Server(("127.0.0.1", 0), Handler)
    if tls is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*tls)
        if client_ca is not None:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(client_ca)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    registry.url = f"{'https' if tls else 'http'}://127.0.0.1:{server.server_port}{own}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield registry
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def envelope(fields: list[dict[str, Any]], name: str = "shop.public.orders") -> dict[str, Any]:
    """The schema of Debezium's envelope over a row's fields, as its connectors register it."""
    row = {"type": "record", "name": "Value", "fields": fields, "connect.name": f"{name}.Value"}
    source = [{"name": one, "type": "string"} for one in ("connector", "db", "table")]
    return {
        "type": "record",
        "name": "Envelope",
        "namespace": name,
        "fields": [
            {"name": "before", "type": ["null", row], "default": None},
            {"name": "after", "type": ["null", "Value"], "default": None},
            {"name": "source", "type": {"type": "record", "name": "Source", "fields": source}},
            {"name": "op", "type": "string"},
            {"name": "ts_ms", "type": ["null", "long"], "default": None},
        ],
        "connect.name": f"{name}.Envelope",
    }


def event(op: str, before: Any = None, after: Any = None, **more: Any) -> dict[str, Any]:
    """An envelope's value."""
    source = {"connector": "postgresql", "db": "shop", "table": "orders"}
    return {"op": op, "before": before, "after": after, "source": source, "ts_ms": 1, **more}
