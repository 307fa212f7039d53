"""Kafka Connect with Debezium's connector for PostgreSQL, from jars: tells a topic what becomes of tables."""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path
from typing import Any

from kafka import Kafka, free_port, java

_STARTED_WITHIN = 90
_WORKER = """
bootstrap.servers={servers}
listeners=HTTP://127.0.0.1:{rest}
key.converter=org.apache.kafka.connect.json.JsonConverter
value.converter=org.apache.kafka.connect.json.JsonConverter
key.converter.schemas.enable=false
offset.storage.file.filename={directory}/offsets
offset.flush.interval.ms=500
"""
_CONNECTOR = """
name=shop
connector.class=io.debezium.connector.postgresql.PostgresConnector
tasks.max=1
database.hostname=127.0.0.1
database.port={port}
database.user=tests
database.password=tests
database.dbname=postgres
topic.prefix=shop
plugin.name=pgoutput
publication.autocreate.mode=filtered
table.include.list={tables}
topic.creation.default.partitions=2
topic.creation.default.replication.factor=1
"""


class Connect:
    """A worker of Kafka Connect that runs the connector of one database; what it has read lies in its directory."""

    def __init__(self, kafka: Kafka, postgres: Any, tables: str, directory: Path) -> None:
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        told = {"servers": kafka.servers, "rest": free_port(), "directory": directory}
        (directory / "worker.properties").write_text(_WORKER.format(**told))
        settings = _CONNECTOR.format(port=postgres.port, tables=tables)
        (directory / "connector.properties").write_text(settings)
        self._kafka = kafka
        self._worker: subprocess.Popen[bytes] | None = None

    def start(self, *topics: str) -> None:
        """Start the worker, and wait until these topics are there."""
        files = [str(self.directory / f"{name}.properties") for name in ("worker", "connector")]
        with (self.directory / "log").open("ab") as log:
            self._worker = subprocess.Popen(
                java("connect", "org.apache.kafka.connect.cli.ConnectStandalone", *files),
                stdout=log,
                stderr=log,
            )
        end = time.monotonic() + _STARTED_WITHIN
        admin = self._kafka.admin()
        while not set(topics) <= admin.list_topics(timeout=10).topics.keys():
            if self._worker.poll() is not None or time.monotonic() > end:
                text = (self.directory / "log").read_text(errors="replace")
                raise RuntimeError(f"Kafka Connect did not start: {text[-3000:]}")
            time.sleep(0.2)

    def stop(self, how: signal.Signals = signal.SIGKILL) -> None:
        """End the worker."""
        if self._worker is not None:
            self._worker.send_signal(how)
            self._worker.wait(_STARTED_WITHIN)
            self._worker = None
