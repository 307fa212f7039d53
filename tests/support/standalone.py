"""Spark's own cluster on this machine: a master and workers, each with a directory of its own for live state."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyspark
from server import Server, free_port

SPARK = Path(pyspark.__file__).parent
_QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


class Daemon(Server):
    """A master or a worker; whatever it starts ends with it."""

    within = 60

    def __init__(self, kind: str, directory: Path, *arguments: str) -> None:
        super().__init__(directory)
        self.name, self._class = kind, f"org.apache.spark.deploy.{kind.lower()}.{kind}"
        self.port, self._page = free_port(), free_port()
        self._arguments = arguments
        self.state = directory / "state"

    @property
    def url(self) -> str:
        """The address that a driver names as its master."""
        return f"spark://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it, and wait for its page."""
        environment = {
            **os.environ,
            "SPARK_HOME": str(SPARK),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": _QUICK,
            "AGGLOOM_STATE_DIR": str(self.state),
        }
        told = ("--host", "127.0.0.1", "--port", str(self.port), "--webui-port", str(self._page))
        command = [SPARK / "bin" / "spark-class", self._class, *told, *self._arguments]
        self.begin(command, self._answers, env=environment, start_new_session=True)

    def stop(self, how: signal.Signals = signal.SIGKILL) -> None:
        """End it and what it has started, if it runs."""
        if self._process is not None:
            os.killpg(self._process.pid, how)
            self._process.wait(self.within)
            self._process = None

    def _answers(self) -> bool:
        with urllib.request.urlopen(f"http://127.0.0.1:{self._page}", timeout=2) as page:
            return bool(page.read())


@contextmanager
def cluster(directory: Path, workers: int = 2) -> Iterator[tuple[str, list[Daemon]]]:
    """The master's URL, and the workers, each of one core."""
    master = Daemon("Master", _make_environment(directory / "master"))
    made: list[Daemon] = []
    try:
        master.start()
        for number in range(workers):
            place = _make_environment(directory / f"worker {number}".replace(" ", "-"))
            told = ("--cores", "1", "--memory", "1g", "--work-dir", str(place / "work"), master.url)
            made.append(Daemon("Worker", place, *told))
            made[-1].start()
        yield master.url, made
    finally:
        for each in (*made, master):
            each.stop()


def _make_environment(place: Path) -> Path:
    place.mkdir(parents=True)
    return place


def bare_python(place: Path) -> Path:
    """An interpreter with the packages of this one, but for aggloom."""
    command: list[Any] = [sys.executable, "-m", "venv", "--without-pip", place]
    subprocess.run(command, check=True)
    (inside,) = place.glob("lib/python*/site-packages")
    (here,) = Path(sys.prefix).glob("lib/python*/site-packages")
    for entry in here.iterdir():
        if not entry.name.startswith(("aggloom", "__editable__")) and entry.suffix != ".pth":
            (inside / entry.name).symlink_to(entry)
    return place / "bin" / "python"
