"""The server of the page lets no other site start Spark, nor many connections take its threads; all without Spark."""

from __future__ import annotations

import http.client
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

import page_checkpoint as made

from aggloom.errors import CheckpointError
from aggloom.runtime.page import Checkpoints, PageServer
from aggloom.runtime.page.checkpoints import require_checkpoints
from aggloom.runtime.page.pages import Pages
from aggloom.runtime.page.server import _CONNECTIONS


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PageServer]:
    monkeypatch.setattr(Pages, "state", lambda *_: "state")
    monkeypatch.setattr(Pages, "key", lambda *_: "key")
    with PageServer(Checkpoints([str(made.write(tmp_path / "sums", 1))])) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def status_of(server: PageServer, path: str, headers: dict[str, str]) -> int:
    asked = http.client.HTTPConnection(*server.server_address[:2], timeout=60)
    asked.request("GET", path, headers=headers)
    answer = asked.getresponse()
    answer.read()
    asked.close()
    return answer.status


@pytest.mark.parametrize("path", ["/c/0/state", "/c/0/key?k=a"])
@pytest.mark.parametrize(
    ("name", "value", "status"),
    [
        ("Sec-Fetch-Site", "cross-site", 403),
        ("Sec-Fetch-Site", "same-site", 403),
        ("Origin", "http://other.example", 403),
        ("Origin", "null", 403),
        ("Referer", "http://127.0.0.1:1/page", 403),
        ("Sec-Fetch-Site", "same-origin", 200),
        ("Sec-Fetch-Site", "none", 200),
        ("Referer", "{own}c/0", 200),
        ("Accept", "*/*", 200),
    ],
)
def test_another_site_starts_nothing(
    server: PageServer, path: str, name: str, value: str, status: int
) -> None:
    assert status_of(server, path, {name: value.format(own=server.address)}) == status


def test_connections_beyond_the_limit_are_refused_at_once(server: PageServer) -> None:
    place = server.server_address[:2]
    waiting = [socket.create_connection(place) for _ in range(_CONNECTIONS)]
    assert status_of(server, "/", {}) == 503
    for each in waiting:
        each.close()
    for _ in range(100):
        if status_of(server, "/", {}) == 200:
            return
    pytest.fail("closed connections make no room")


def test_a_directory_without_a_checkpoint_is_refused(tmp_path: Path) -> None:
    assert require_checkpoints(str(tmp_path)) == str(tmp_path)
    made.write(tmp_path / "below" / "sums", 1)
    assert require_checkpoints(str(tmp_path)) == str(tmp_path)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "part-0.json").write_text("{}")
    for name, told in (
        ("other", "no checkpoint in it.*--checkpoint"),
        ("other/part-0.json", "this is a file"),
        ("nothing", "no such directory"),
    ):
        with pytest.raises(CheckpointError, match=told):
            require_checkpoints(str(tmp_path / name))


@pytest.mark.parametrize(
    ("request_of", "status"),
    [
        (b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\n\r\n", b"414"),
        (b"GET / HTTP/1.1\r\nX: " + b"a" * 70_000 + b"\r\n\r\n", b"431"),
        (b"GET / HTTP/1.1\r\n" + b"X: 1\r\n" * 200 + b"\r\n", b"431"),
        (b"POST /c/0/state HTTP/1.1\r\nContent-Length: 9\r\n\r\n", b"501"),
    ],
    ids=["address", "header", "headers", "method"],
)
def test_requests_that_are_too_large_are_refused(
    server: PageServer, request_of: bytes, status: bytes
) -> None:
    with socket.create_connection(server.server_address[:2], timeout=60) as asked:
        asked.sendall(request_of)
        assert asked.recv(100).split()[1] == status


def test_a_request_that_comes_slowly_is_ended(
    server: PageServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aggloom.runtime.page.server._SECONDS", 0.5)
    with socket.create_connection(server.server_address[:2], timeout=0.05) as asked:
        asked.sendall(b"GET / HTTP/1.1\r\n")
        for _ in range(100):
            try:
                asked.sendall(b"X: 1\r\n")
                if asked.recv(100) == b"":
                    return
            except TimeoutError:
                continue
            except OSError:
                return
    pytest.fail("it may go on for ever")
