"""A MySQL or MariaDB for tests: started from an installed package, in a directory of its own, and gone afterwards."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from server import Server, free_port

_SETTINGS = (
    *("--innodb-flush-log-at-trx-commit=2", "--innodb-buffer-pool-size=64M", "--skip-log-bin"),
    # What a sink's session has to set itself: silent truncation, and another zone than UTC.
    *("--sql-mode=", "--default-time-zone=-05:00", "--explicit-defaults-for-timestamp=OFF"),
)


class MySql(Server):
    """A server: where it listens, and how to begin and end it."""

    name, within = "MySQL", 60

    def __init__(self, program: Path, directory: Path) -> None:
        super().__init__(directory)
        self._program, self.port = program, free_port()

    @property
    def url(self) -> str:
        """The URL with which a client connects."""
        return f"mysql://root@127.0.0.1:{self.port}/tests"

    def connect(self, **options: Any) -> Any:
        """A connection of PyMySQL."""
        import pymysql

        about = {"user": "root", "database": "tests", "autocommit": True, **options}
        return pymysql.connect(host="127.0.0.1", port=self.port, **about)

    def ask(self, *statements: str) -> list[Any]:
        """Run statements; the rows of the last."""
        with closing(self.connect()) as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
            return list(cursor.fetchall())

    def make(self) -> None:
        """Make the directory of the data."""
        data = f"--datadir={self.directory}/data"
        installer = shutil.which("mariadb-install-db")
        if installer and "mariadb" in self._program.resolve().name:
            options = ("--auth-root-authentication-method=normal", "--skip-test-db")
            command = [installer, "--no-defaults", data, *options, *_as_user()]
        else:
            command = [self._program, "--no-defaults", data, "--initialize-insecure", *_as_user()]
        done = subprocess.run(list(map(str, command)), capture_output=True, check=False)
        if done.returncode:
            raise RuntimeError((done.stdout + done.stderr).decode(errors="replace"))

    def start(self) -> None:
        """Start the server, and wait until it answers."""
        places = {"datadir": "data", "socket": "socket", "pid-file": "pid"}
        command = [
            self._program,
            "--no-defaults",
            "--bind-address=127.0.0.1",
            f"--port={self.port}",
        ]
        command += [f"--{name}={self.directory / place}" for name, place in places.items()]
        self.begin([*command, *_SETTINGS, *_as_user()], self._answers)

    def stop(self, how: signal.Signals = signal.SIGKILL) -> None:
        """End the server: SIGTERM in order, SIGKILL as if it had crashed."""
        super().stop(how)

    def _answers(self) -> bool:
        with closing(self.connect(database=None, connect_timeout=2)) as connection:
            connection.cursor().execute("CREATE DATABASE IF NOT EXISTS tests")
        return True


def _as_user() -> list[str]:
    """The option by which a server runs that root has started."""
    return [f"--user={pwd.getpwuid(os.geteuid()).pw_name}"] if os.geteuid() == 0 else []


def program() -> Path | None:
    """Find the server; None if it is not installed."""
    path = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/libexec"])
    names = (shutil.which(name, path=path) for name in ("mariadbd", "mysqld"))
    return next((Path(name) for name in names if name), None)


@contextmanager
def server() -> Iterator[MySql]:
    """A running server; the test is skipped where none can be had."""
    installed = program()
    if installed is None:
        needed = "mariadb-server-core mariadb-client-core"
        pytest.skip(f"MySQL or MariaDB is not installed: apt-get install {needed}")
    pytest.importorskip("pymysql", reason="PyMySQL is not installed: pip install 'aggloom[mysql]'")
    directory = Path(tempfile.mkdtemp(prefix="aggloom-mysql-"))
    made = MySql(installed, directory)
    try:
        made.make()
        made.start()
        yield made
    finally:
        made.stop()
        shutil.rmtree(directory, ignore_errors=True)
