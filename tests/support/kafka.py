"""A Kafka for tests: a broker from jars of its own, in a directory of its own, and gone afterwards."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from server import Server, free_port

JARS = Path(__file__).parents[2] / "build" / "kafka"
"""The directory into which .ci/kafka.sh puts the jars."""
_CLUSTER = "MkU3OEVBNTcwNTJENDM2Qg"
_SETTINGS = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs={directory}/data
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
log.cleaner.backoff.ms=200
broker.session.timeout.ms=2000
broker.heartbeat.interval.ms=500
"""


class Kafka(Server):
    """A broker: where it listens, and how to begin and end it; its log is whole after a kill, too."""

    name, within = "Kafka", 60

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.port, self._controller = free_port(), free_port()

    @property
    def servers(self) -> str:
        """The address to which a client connects."""
        return f"127.0.0.1:{self.port}"

    def make(self) -> None:
        """Write its settings, and make the directory of its data."""
        settings = {
            "port": self.port,
            "controller": self._controller,
            "directory": self.directory,
        }
        self._settings.write_text(_SETTINGS.format(**settings))
        told = ("format", "-t", _CLUSTER, "-c", str(self._settings))
        done = subprocess.run(
            java("broker", "kafka.tools.StorageTool", *told), capture_output=True, check=False
        )
        if done.returncode:
            raise RuntimeError((done.stdout + done.stderr).decode(errors="replace"))

    def start(self) -> None:
        """Start the broker, and wait until it answers."""
        command = java("broker", "kafka.Kafka", str(self._settings))
        self.begin(command, lambda: self.admin().list_topics(timeout=2))

    def admin(self) -> Any:
        """A client that makes topics."""
        from confluent_kafka.admin import AdminClient

        return AdminClient({"bootstrap.servers": self.servers, "log_level": 0})

    def topic(self, name: str, partitions: int = 1, **config: str) -> str:
        """Make a topic; its name."""
        from confluent_kafka.admin import NewTopic

        made = NewTopic(name, partitions, 1, config=config)
        admin = self.admin()
        admin.create_topics([made])[name].result()
        return name

    def again(self, name: str) -> None:
        """Make a topic of a name whose topic was deleted, which takes its time."""
        from confluent_kafka import KafkaException

        for _ in range(100):
            try:
                self.topic(name)
                return
            except KafkaException:
                time.sleep(0.1)
        raise RuntimeError(f"the topic {name} is still there")

    def partitions(self, name: str, count: int) -> None:
        """Give a topic more partitions."""
        from confluent_kafka.admin import NewPartitions

        admin = self.admin()
        admin.create_partitions([NewPartitions(name, count)])[name].result()

    def producer(self) -> Any:
        """A producer that keeps the order of its messages.

        Leaders of a new topic take nothing at first. Without idempotence, messages that are sent again come behind
        later ones.
        """
        from confluent_kafka import Producer

        config = {"bootstrap.servers": self.servers, "linger.ms": 0, "enable.idempotence": True}
        return Producer(config)

    def send(self, topic: str, *messages: Any) -> None:
        """Write values, or (key, value), or (key, value, partition), in their order."""
        producer = self.producer()
        for message in messages:
            key, value, *place = message if isinstance(message, tuple) else (None, message)
            producer.produce(topic, value, key, **({"partition": place[0]} if place else {}))
        assert producer.flush(120) == 0

    def read(self, topic: str, isolation: str = "read_committed") -> list[tuple[Any, Any]]:
        """All keys and values of a topic, partition by partition, that committed transactions wrote."""
        from confluent_kafka import Consumer, TopicPartition

        told = {"group.id": "tests", "enable.auto.commit": False, "isolation.level": isolation}
        told |= {"auto.offset.reset": "earliest", "enable.partition.eof": True}
        consumer = Consumer({"bootstrap.servers": self.servers, **told})
        found: list[tuple[Any, Any]] = []
        for partition in sorted(consumer.list_topics(topic, timeout=30).topics[topic].partitions):
            consumer.assign([TopicPartition(topic, partition, 0)])
            while True:
                message = consumer.poll(60)
                assert message is not None, f"{topic}: nothing came from {partition} for 60 s"
                # The error is that the partition ends.
                if message.error():
                    break
                found.append((message.key(), message.value()))
        consumer.close()
        return found

    @property
    def _settings(self) -> Path:
        return self.directory / "server.properties"


def java(conf: str, main: str, *arguments: str, heap: str = "256m") -> list[str]:
    """The command that runs a program of the jars."""
    program = "java"
    if os.environ.get("JAVA_HOME"):
        program = str(Path(os.environ["JAVA_HOME"]) / "bin" / "java")
    quick = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", f"-Xmx{heap}")
    return [program, *quick, "-cp", str(JARS / conf / "*"), main, *arguments]


def connector_settings() -> dict[str, str]:
    """The settings of a session with Spark's connector, if its jars are there."""
    # An environment of an older Spark (`make matrix`) has one of its own.
    own = Path(sys.prefix) / "connector"
    jars = sorted(map(str, (own if own.is_dir() else JARS / "connector").glob("*.jar")))
    return {"spark.jars": ",".join(jars)} if jars else {}


def need_jars() -> None:
    """Skip the test where the jars are not there."""
    if not (JARS / "complete").is_file() or not connector_settings():
        pytest.skip("the jars of Kafka are not there: bash .ci/kafka.sh fetches them")
    pytest.importorskip("confluent_kafka", reason="pip install confluent-kafka")


@contextmanager
def broker() -> Iterator[Kafka]:
    """A running broker; the test is skipped where none can be had."""
    need_jars()
    directory = Path(tempfile.mkdtemp(prefix="aggloom-kafka-"))
    made = Kafka(directory)
    try:
        made.make()
        made.start()
        yield made
    finally:
        made.stop()
        shutil.rmtree(directory, ignore_errors=True)
