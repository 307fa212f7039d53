"""kafka: a topic that gets the result as upserts by key or as its changes, each batch once.

A batch and its number are one transaction of Kafka: the number is the offset of a consumer group that is called by the
checkpoint. Whoever reads committed messages only (read_committed) sees each batch once, whatever is killed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from threading import Thread
from typing import Any

import pyarrow as pa

from aggloom.errors import AggloomError, CheckpointError, SinkError
from aggloom.runtime.connectors.kafka.broker import kafka_client
from aggloom.runtime.connectors.kafka.encodings import UPSERTS, Part, check_columns, make_encoding
from aggloom.runtime.connectors.kafka.options import KafkaOptions
from aggloom.runtime.sinks.net import has_old_rows, net_by_key
from aggloom.runtime.values.changelog import Kinds, is_retraction

Message = tuple[Part | None, Part | None]


class KafkaSink:
    """Writes the batches of a result into a topic.

    key: the columns by which rows are distinguished; without one, messages have no key. has_old_rows: whether the
    changes tell each row that is replaced; None: as each batch looks.
    """

    def __init__(
        self, options: KafkaOptions, key: Sequence[str] | None, has_old_rows: bool | None
    ) -> None:
        self.options, self.has_old_rows = options, has_old_rows
        self.key = None if key is None else tuple(key)
        self._where = f"sink kafka, topic {options.topic}"
        self._producer: Any = None
        self._interrupted = False
        _client()

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_producer": None}

    def write(
        self, rows: pa.Table, kinds: Kinds, batch: int, checkpoint: str, before: int | None = None
    ) -> bool:
        """Write a batch; False if it was there. checkpoint: its id. before: the batch before this one.

        Raises SinkError for what Kafka does not take, CheckpointError for a checkpoint that does not fit the topic.
        """
        messages = list(self.messages(rows, kinds))
        try:
            if self.options.guarantee == "at-least-once":
                self._send(messages)
                return True
            return self._transaction(
                messages, batch, checkpoint, batch - 1 if before is None else before
            )
        except AggloomError:
            self._producer = None
            raise
        except _client().KafkaException as error:
            self._producer = None
            raise self._to_error(error) from error

    def check_start(self, schema: pa.Schema) -> None:
        """Raise SpecError or SinkError where the topic's format or its subjects do not take the result's columns."""
        options = self.options
        check_columns(options.format, schema, self.key, options.topic, options.registry)

    def last_batch(self, checkpoint: str) -> int | None:
        """The number of the batch that a checkpoint wrote last; None without one. Raises SinkError."""
        group = self._consumer(self._name_of(checkpoint))
        try:
            last = self._last(group)
        except _client().KafkaException as error:
            raise self._to_error(error) from error
        finally:
            group.close()
        return None if last is None or last[0] < 0 else last[0]

    def messages(self, rows: pa.Table, kinds: Kinds) -> Iterator[Message]:
        """The keys and values that say what a batch does."""
        key, names = self.key, rows.column_names
        options = self.options
        encoding = make_encoding(options.format, rows.schema, key, options.topic, options.registry)
        if options.format in UPSERTS:
            assert key is not None
            ordered = has_old_rows(kinds) if self.has_old_rows is None else self.has_old_rows
            for net in net_by_key(rows, kinds, key, ordered, self._where):
                yield encoding.key(net.key), None if net.row is None else encoding.row(net.row)
            return
        places = [names.index(name) for name in key or ()]
        columns = [column.to_pylist() for column in rows.columns]
        values = zip(*columns, strict=True) if columns else iter([()] * rows.num_rows)
        for row, kind, gone in zip(values, kinds, is_retraction(kinds), strict=True):
            about = encoding.key([row[place] for place in places]) if key is not None else None
            yield about, encoding.change(row, int(kind), bool(gone))

    def _transaction(
        self, messages: list[Message], batch: int, checkpoint: str, before: int
    ) -> bool:
        # What is the same in another order says the same.
        lines = sorted(json.dumps([_format_part(part) for part in message]) for message in messages)
        digest = hashlib.sha256("\n".join(lines).encode()).hexdigest()
        name = self._name_of(checkpoint)
        group = self._consumer(name)
        try:
            if self._producer is not None:
                self._producer.poll(0)
            if self._producer is None or self._interrupted:
                self._make_topic()
                self._producer = self._open_producer(name)
            last = self._last(group)
            if not self._is_next(last, batch, before, digest):
                return False
            if last is None:
                # What a first batch leaves behind that was killed is not of others.
                self._begin(group)
            producer = self._producer
            producer.begin_transaction()
            try:
                self._produce(producer, messages)
                position = _client().TopicPartition(
                    self.options.topic, 0, batch + 1, metadata=digest
                )
                self._note(producer, position, group.consumer_group_metadata())
                producer.commit_transaction(self.options.timeout)
            except TimeoutError as stuck:
                # Nor would it answer to what comes after; who opens the next one aborts its transaction.
                raise SinkError(f"{self._where}: {stuck}") from None
            except BaseException:
                with suppress(Exception):
                    producer.abort_transaction(self.options.timeout)
                raise
        finally:
            group.close()
        return True

    def _name_of(self, checkpoint: str) -> str:
        """The name of a checkpoint's transactions, and of the group that has its last batch."""
        return f"{self.options.prefix}-{checkpoint}-{self.options.topic}"

    def _open_producer(self, name: str) -> Any:
        """A producer under the name of the checkpoint; one of an earlier run can write no more from now on."""
        config = {"transactional.id": name, "transaction.timeout.ms": 900_000}
        # The client looks for a group's coordinator once, and never finds it again after it was away (librdkafka 5511).
        producer = _client().Producer(self._config({**config, "error_cb": self._hear}))
        producer.init_transactions(self.options.timeout)
        self._interrupted = False
        return producer

    def _hear(self, _: Any) -> None:
        """Note that a broker was away."""
        self._interrupted = True

    def _note(self, producer: Any, position: Any, about: Any) -> None:
        """Make the batch's number part of the transaction. Raises TimeoutError.

        The client's own timeout is none (librdkafka 5456): a broker that goes meanwhile would hold it for ever.
        """
        failed: list[BaseException] = []

        def send() -> None:
            try:
                producer.send_offsets_to_transaction([position], about, self.options.timeout)
            except BaseException as error:
                failed.append(error)

        sending = Thread(target=send, daemon=True)
        sending.start()
        sending.join(self.options.timeout)
        if sending.is_alive():
            raise TimeoutError(
                f"no answer of the group's coordinator within {self.options.timeout} seconds. Nothing of the batch was "
                "written; the next run writes it"
            )
        if failed:
            raise failed[0]

    def _last(self, group: Any) -> tuple[int, str] | None:
        """The number and the digest of the batch that this checkpoint wrote last."""
        partitions = [_client().TopicPartition(self.options.topic, 0)]
        (partition,) = group.committed(partitions, timeout=self.options.timeout)
        if partition.error is not None:
            raise _client().KafkaException(partition.error)
        return (
            None if partition.offset < 0 else (partition.offset - 1, str(partition.metadata or ""))
        )

    def _begin(self, group: Any) -> None:
        """Note that a checkpoint writes to the topic, of which no batch is there yet."""
        start = _client().TopicPartition(self.options.topic, 0, 0)
        group.commit(offsets=[start], asynchronous=False)

    def _is_next(self, last: tuple[int, str] | None, batch: int, before: int, digest: str) -> bool:
        """Tell whether a batch is to be written; raises SinkError and CheckpointError where it does not fit."""
        anew = "Start with an empty checkpoint and another topic"
        if last is None:
            if batch and self.options.existing != "keep":
                raise CheckpointError(
                    f"{self._where}: it has no batch of this checkpoint, and batch {batch} is next: earlier ones were "
                    "written elsewhere, or Kafka has forgotten the group of a query that was stopped for longer than "
                    f"offsets.retention.minutes. {anew}; existing=keep continues with the messages of the topic"
                )
            if self.options.existing != "keep" and self._has_messages():
                raise SinkError(
                    f"{self._where}: it has messages that this checkpoint did not write. existing=keep leaves them; a "
                    "topic of its own is better"
                )
            return True
        if last[0] < before:
            raise CheckpointError(
                f"{self._where}: it has batch {last[0]} of this checkpoint, and batch {batch} is next: those in "
                f"between were written elsewhere. {anew}"
            )
        if last == (batch, digest):
            return False
        if batch > last[0] or self.options.replay:
            return True
        if batch == last[0] and self.options.needs_key:
            return True
        what = (
            "runs this batch again with other rows"
            if batch == last[0]
            else f"runs batch {batch} again"
        )
        raise CheckpointError(
            f"{self._where}: it has batch {last[0]} of this checkpoint, which {what}, as after it was restored from "
            "an older copy. replay=true writes its batches again, after those in the topic. For another history: "
            f"{anew}"
        )

    def _send(self, messages: list[Message]) -> None:
        """Write messages without a transaction, and wait until all are there."""
        if self._producer is None:
            self._make_topic()
            self._producer = _client().Producer(self._config({"enable.idempotence": True}))
        failed: list[Any] = []
        self._produce(
            self._producer, messages, lambda error, _: failed.append(error) if error else None
        )
        left = self._producer.flush(self.options.timeout)
        if failed:
            raise _client().KafkaException(failed[0])
        if left:
            raise SinkError(
                f"{self._where}: {left} messages were not taken within {self.options.timeout} seconds"
            )

    def _produce(self, producer: Any, messages: list[Message], heard: Any = None) -> None:
        for key, value in messages:
            while True:
                try:
                    producer.produce(self.options.topic, value, key, on_delivery=heard)
                    break
                # The client's queue is full, and what is delivered makes room in it.
                except BufferError:
                    producer.poll(0.5)
            producer.poll(0)

    def _make_topic(self) -> None:
        """Make the topic, if it is not there."""
        from confluent_kafka.admin import AdminClient, NewTopic

        name, options = self.options.topic, self.options
        admin = AdminClient(self._config({}))
        if name in admin.list_topics(timeout=options.timeout).topics:
            return
        if not options.create:
            raise SinkError(f"{self._where}: there is no such topic; make it, or pass create=true")
        config = {"cleanup.policy": "compact"} if options.needs_key else {}
        futures = admin.create_topics([NewTopic(name, options.partitions, -1, config=config)])
        try:
            futures[name].result(options.timeout)
        except _client().KafkaException as error:
            # Somebody else may just have made it.
            if error.args[0].name() != "TOPIC_ALREADY_EXISTS":
                raise

    def _has_messages(self) -> bool:
        """Tell whether the topic has messages, of whomever."""
        topic = self.options.topic
        reader = self._consumer(f"{self.options.prefix}-look")
        try:
            parts = reader.list_topics(topic, timeout=self.options.timeout).topics[topic].partitions
            for part in parts:
                low, high = reader.get_watermark_offsets(
                    _client().TopicPartition(topic, part), timeout=self.options.timeout
                )
                if high > low:
                    return True
            return False
        finally:
            reader.close()

    def _consumer(self, group: str) -> Any:
        config = {"group.id": group, "enable.auto.commit": False}
        return _client().Consumer(self._config({**config, "isolation.level": "read_committed"}))

    def _config(self, more: Mapping[str, Any]) -> dict[str, Any]:
        # The partitioner of Java's clients, so that a key has one partition whoever writes it.
        quiet = {"log_level": 0, "partitioner": "murmur2_random"}
        # Consumers do not know the option.
        if "isolation.level" in more:
            quiet.pop("partitioner")
        return {
            "bootstrap.servers": self.options.servers,
            **quiet,
            **self.options.properties,
            **more,
        }

    def _to_error(self, error: Any) -> AggloomError:
        cause = error.args[0] if error.args else error
        code = cause.name() if hasattr(cause, "name") else ""
        if code in ("_FENCED", "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH"):
            return CheckpointError(
                f"{self._where}: another run of this checkpoint writes at the same time; end one of them"
            )
        message = cause.str() if hasattr(cause, "str") else str(cause)
        return SinkError(
            f"{self._where}: {message} ({code}). If the batch was written, the next run finds it and passes over it."
        )


def _format_part(part: Part | None) -> str | None:
    return part.hex() if isinstance(part, bytes) else part


def _client() -> Any:
    return kafka_client("sink kafka")
