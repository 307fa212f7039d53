"""A PostgreSQL server of a test's own: from an installed package, on a free port, in a folder that goes with it."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

_USER = "nobody"


def programs() -> Path:
    """Where initdb and postgres are; skips the test if they are nowhere."""
    places = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    found = shutil.which("initdb")
    places += [Path(found).parent] if found else []
    for place in reversed(places):
        if (place / "initdb").exists() and (place / "postgres").exists():
            return place
    pytest.skip("PostgreSQL is not installed: apt-get install postgresql")


@contextmanager
def server() -> Iterator[str]:
    """A running server; gives its URL."""
    bin_, port = programs(), _free_port()
    with TemporaryDirectory(prefix="pg", dir="/tmp") as folder:
        place = Path(folder)
        # The server refuses to run as root.
        runs_as: list[str] = []
        if os.geteuid() == 0:
            shutil.chown(place, _USER)
            runs_as = ["setpriv", f"--reuid={_USER}", "--regid=nogroup", "--clear-groups"]
        data = place / "data"
        made = [str(bin_ / "initdb"), "-D", str(data), "-U", "test", "-A", "trust", "-E", "UTF8"]
        subprocess.run([*runs_as, *made, "--no-sync"], check=True, capture_output=True, cwd=place)
        settings = [f"-k{place}", "-h", "127.0.0.1", "-p", str(port), "-F"]
        control = [*runs_as, str(bin_ / "pg_ctl"), "-D", str(data), "-w"]
        start = [*control, "-l", str(place / "log"), "-o", " ".join(settings), "start"]
        subprocess.run(start, check=True, stdout=subprocess.DEVNULL, cwd=place)
        try:
            yield f"postgresql://test@127.0.0.1:{port}/postgres"
        finally:
            stop = [*control, "-m", "immediate", "stop"]
            subprocess.run(stop, check=False, stdout=subprocess.DEVNULL, cwd=place)


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])
