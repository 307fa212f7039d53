"""A PostgreSQL for tests: started from an installed package, in a directory of its own, and gone afterwards."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

_STARTED_WITHIN = 30
_USERS = ("postgres", "nobody")
_SETTINGS = ("fsync=off", "full_page_writes=off", "wal_level=logical")


class Postgres:
    """A server: where it listens, and how to begin and end it."""

    def __init__(self, programs: Path, directory: Path, user: str | None) -> None:
        self._programs, self._user = programs, user
        self.directory, self.port = directory, _free_port()
        self._server: subprocess.Popen[bytes] | None = None

    @property
    def dsn(self) -> str:
        """What a client connects with."""
        return f"host=127.0.0.1 port={self.port} user=tests dbname=postgres"

    @property
    def url(self) -> str:
        """The same as a URL."""
        return f"postgresql://tests@127.0.0.1:{self.port}/postgres"

    def connect(self, **options: Any) -> Any:
        """A connection of psycopg."""
        import psycopg

        return psycopg.connect(self.dsn, **options)

    def make(self) -> None:
        """Make the directory of the data."""
        program = self._programs / "initdb"
        data = self.directory / "data"
        self._run(program, "-D", data, "-U", "tests", "-A", "trust", "-E", "UTF8", "--no-sync")

    def start(self) -> None:
        """Start the server, and wait until it answers."""
        settings = [part for each in _SETTINGS for part in ("-c", each)]
        listens = ("-k", str(self.directory), "-p", str(self.port), "-h", "127.0.0.1")
        with (self.directory / "log").open("ab") as log:
            self._server = subprocess.Popen(
                [self._programs / "postgres", "-D", self.directory / "data", *listens, *settings],
                stdout=log,
                stderr=log,
                **self._as_user(),
            )
        end = time.monotonic() + _STARTED_WITHIN
        while True:
            try:
                self.connect(connect_timeout=2).close()
                return
            except Exception:
                if self._server.poll() is not None or time.monotonic() > end:
                    text = (self.directory / "log").read_text(errors="replace")
                    raise RuntimeError(f"PostgreSQL did not start: {text[-2000:]}") from None
                time.sleep(0.05)

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """End the server: SIGINT fast, SIGQUIT as if it had crashed."""
        if self._server is not None:
            self._server.send_signal(how)
            self._server.wait(_STARTED_WITHIN)
            self._server = None

    def _run(self, *command: Any) -> None:
        done = subprocess.run(
            list(map(str, command)), capture_output=True, check=False, **self._as_user()
        )
        if done.returncode:
            raise RuntimeError(done.stderr.decode(errors="replace"))

    def _as_user(self) -> dict[str, Any]:
        # The server refuses to run as root.
        options: dict[str, Any] = {"cwd": self.directory}
        if self._user is not None:
            options |= {"user": self._user, "group": pwd.getpwnam(self._user).pw_gid}
            options |= {"extra_groups": []}
        return options


def programs() -> Path | None:
    """Where PostgreSQL's programs are; None if it is not installed."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=_version)
    if found:
        return found[-1].parent
    path = shutil.which("initdb")
    return Path(path).resolve().parent if path else None


def _version(path: Path) -> int:
    name = path.parent.parent.name
    return int(name) if name.isdigit() else 0


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def _unprivileged() -> str | None:
    """The user to run the server as, where this one is root."""
    if os.geteuid() != 0:
        return None
    known = {each.pw_name for each in pwd.getpwall()}
    for name in _USERS:
        if name in known:
            return name
    pytest.skip("PostgreSQL does not run as root, and there is no other user to run it as")


@contextmanager
def server() -> Iterator[Postgres]:
    """A running server; the test is skipped where none can be had."""
    found = programs()
    if found is None:
        pytest.skip("PostgreSQL is not installed: apt-get install postgresql")
    pytest.importorskip("psycopg", reason="psycopg is not installed: pip install 'psycopg[binary]'")
    user = _unprivileged()
    # Not below pytest's own directory, into which no other user may look.
    directory = Path(tempfile.mkdtemp(prefix="aggloom-postgres-"))
    if user is not None:
        shutil.chown(directory, user, pwd.getpwnam(user).pw_gid)
    made = Postgres(found, directory, user)
    try:
        made.make()
        made.start()
        yield made
    finally:
        made.stop()
        shutil.rmtree(directory, ignore_errors=True)
