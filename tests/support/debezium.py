"""Kafka Connect with Debezium's connector for PostgreSQL, from jars: tells a topic what becomes of tables."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from kafka import Kafka, java
from server import Server, free_port

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


class Connect(Server):
    """A worker of Kafka Connect that runs the connector of one database; what it has read lies in its directory.

    settings: more of the connector's, with `_` for each dot.
    """

    name, within = "Kafka Connect", 90

    def __init__(
        self, kafka: Kafka, postgres: Any, tables: str, directory: Path, **settings: str
    ) -> None:
        super().__init__(directory)
        directory.mkdir(parents=True, exist_ok=True)
        told = {"servers": kafka.servers, "rest": free_port(), "directory": directory}
        (directory / "worker.properties").write_text(_WORKER.format(**told))
        lines = [f"{name.replace('_', '.')}={value}\n" for name, value in settings.items()]
        said = _CONNECTOR.format(port=postgres.port, tables=tables)
        (directory / "connector.properties").write_text(said + "".join(lines))
        self._kafka, self._rest = kafka, told["rest"]

    def start(self, *topics: str) -> None:
        """Start the worker, and wait until these topics are there; without topics for nothing."""
        files = [str(self.directory / f"{name}.properties") for name in ("worker", "connector")]
        command = java("connect", "org.apache.kafka.connect.cli.ConnectStandalone", *files)
        if not topics:
            self.begin(command, lambda: True)
            return
        admin = self._kafka.admin()
        self.begin(command, lambda: set(topics) <= admin.list_topics(timeout=10).topics.keys())

    @property
    def failed(self) -> str:
        """The error of its task, which only a person starts again; empty: it works, or does not answer yet."""
        try:
            with urlopen(
                f"http://127.0.0.1:{self._rest}/connectors/shop/status", timeout=2
            ) as said:
                tasks = json.load(said)["tasks"]
        except (OSError, ValueError):
            return ""
        return next((task["trace"] for task in tasks if task["state"] == "FAILED"), "")
