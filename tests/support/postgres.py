"""A PostgreSQL for tests: started from an installed package, in a directory of its own, and gone afterwards."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from server import Server, free_port

_USERS = ("postgres", "nobody")
_SETTINGS = ("fsync=off", "full_page_writes=off", "wal_level=logical")


class Postgres(Server):
    """A server: where it listens, and how to begin and end it."""

    name, within = "PostgreSQL", 30

    def __init__(self, programs: Path, directory: Path, user: str | None) -> None:
        super().__init__(directory)
        self._programs, self._user, self.port = programs, user, free_port()

    @property
    def dsn(self) -> str:
        """The string with which a client connects."""
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
        command = [self._programs / "postgres", "-D", self.directory / "data", *listens, *settings]
        self.begin(command, self._answers, **self._as_user())

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """End the server: SIGINT fast, SIGQUIT as if it had crashed."""
        super().stop(how)

    def _answers(self) -> bool:
        self.connect(connect_timeout=2).close()
        return True

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
    """Find the directory of PostgreSQL's programs; None if it is not installed."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=_version)
    if found:
        return found[-1].parent
    path = shutil.which("initdb")
    return Path(path).resolve().parent if path else None


def _version(path: Path) -> int:
    name = path.parent.parent.name
    return int(name) if name.isdigit() else 0


def _find_user() -> str | None:
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
    user = _find_user()
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
