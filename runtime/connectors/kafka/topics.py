"""The topics of Kafka that a query reads, by the ids that Kafka gives them, in a file of the checkpoint.

A topic that was deleted and made again under its name begins with offset 0 once more. Spark goes on at the offset of
its checkpoint: it passes over what is before that, and says nothing as long as there is anything behind it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame

from aggloom.checkpoint_file import read_file, read_text, replace_file
from aggloom.errors import CheckpointError, DataError, SpecError
from aggloom.masking import mask_repr
from aggloom.runtime.connectors.kafka.broker import TopicBroker
from aggloom.runtime.connectors.kafka.options import KafkaSource
from aggloom.runtime.hosting.checkpoint_paths import batches, corrupt, is_local, local
from aggloom.runtime.spark.checkpoint import TOPICS_FILE
from aggloom.runtime.spark.sessions.session import is_here
from aggloom.runtime.storage.checksums import with_checksum, without_checksum

_SECONDS = 10
_PATIENCE = {"default.api.timeout.ms": "10000", "request.timeout.ms": "5000"}
_NONE = "AAAAAAAAAAAAAAAAAAAAAA"
"""The id that Kafka writes for a topic of a broker that gives none."""
_TO_JAVA, _FROM_JAVA = str.maketrans("+/", "-_"), str.maketrans("-_", "+/")
"""Java's client spells ids in the Base64 of URLs, librdkafka in the ordinary one."""
_TOPICS: WeakKeyDictionary[DataFrame, Topics] = WeakKeyDictionary()


@mask_repr
@dataclass(frozen=True)
class Topics:
    """The topics that a DataFrame reads.

    strict: whether it is an error that messages are gone. source: where workers fetch them; None by Spark's connector.
    """

    servers: str
    names: tuple[str, ...]
    pattern: bool
    strict: bool
    properties: Mapping[str, Any] = field(default_factory=dict)
    source: KafkaSource | None = None

    def among(self, read: Iterable[str]) -> list[str]:
        """The names of the topics; of a pattern those that have been read."""
        if not self.pattern:
            return list(self.names)
        return sorted(name for name in read if re.fullmatch(self.names[0], name))


def remember_topics(df: DataFrame, topics: Topics) -> DataFrame:
    """The DataFrame, known to read these topics."""
    _TOPICS[df] = topics
    return df


def known_topics(df: DataFrame) -> Topics | None:
    """The topics that a DataFrame is known to read; None of others."""
    return _TOPICS.get(df)


def same_topics(df: DataFrame, derived: DataFrame) -> DataFrame:
    """The derived DataFrame, known to read the topics of the other."""
    if df in _TOPICS:
        _TOPICS[derived] = _TOPICS[df]
    return derived


def check_topics(checkpoint: str | Path, tables: Iterable[DataFrame]) -> None:
    """Note in a local checkpoint the ids of the topics that a query reads; they are compared at its next start.

    Raises CheckpointError for a topic that was made anew since it was read, SpecError for one that is not there.
    Nothing is looked at over Connect, nor where the brokers do not say.
    """
    sources = [df for df in tables if df in _TOPICS and is_here(df.sparkSession)]
    if not sources or not is_local(checkpoint):
        return
    root, session = local(checkpoint), sources[0].sparkSession
    streams = [_TOPICS[df] for df in sources]
    _check_first_batch(str(checkpoint), root, streams)
    read, known = _read_topics(root), _read_topic_ids(root / TOPICS_FILE)
    current: dict[str, str] = {}
    for _, same in groupby(sorted(streams, key=_cluster), _cluster):
        listed = list(same)
        names = sorted({name for topics in listed for name in topics.among(read)})
        ids = _ids(session, listed[0], names) if listed[0].source is None else _fetch_ids(listed)
        for topics in listed:
            ids_of_topics = {name: ids[name] for name in topics.among(read) if name in ids}
            _check(str(checkpoint), topics, ids_of_topics, read, known)
            current |= {
                f"{name} {topics.servers}": number
                for name, number in ids_of_topics.items()
                if number
            }
    if current.items() <= known.items():
        return
    text = json.dumps({**known, **current}, sort_keys=True)
    replace_file(root / TOPICS_FILE, with_checksum(text))


def note_topics(root: Path, df: DataFrame, ids: Mapping[str, str]) -> None:
    """Note in a checkpoint the ids of topics that another engine has read for a DataFrame, as librdkafka has them."""
    topics = _TOPICS.get(df)
    if topics is None:
        return
    known = _read_topic_ids(root / TOPICS_FILE)
    new = {
        f"{name} {topics.servers}": each.translate(_TO_JAVA) for name, each in ids.items() if each
    }
    known |= new
    replace_file(root / TOPICS_FILE, with_checksum(json.dumps(known, sort_keys=True)))


def noted_topics(root: Path) -> dict[str, str]:
    """The ids of the topics that a checkpoint has noted, by name, as librdkafka spells them.

    Raises StateCorruptError.
    """
    noted = _read_topic_ids(root / TOPICS_FILE)
    return {key.partition(" ")[0]: each.translate(_FROM_JAVA) for key, each in noted.items()}


def _check_first_batch(checkpoint: str, root: Path, streams: Iterable[Topics]) -> None:
    """Raise CheckpointError for a first batch that is planned and not done, if the connector noted where it begins."""
    fetched = [topics for topics in streams if topics.source is not None]
    if not fetched or batches(root / "offsets") != [0] or batches(root / "commits"):
        return
    for file in sorted(root.glob("sources/*/0")):
        lines = read_text(root, file).splitlines()
        begun = _topics_in(lines[-1]) if lines else set()
        if any(begun.intersection(topics.among(begun)) for topics in fetched):
            raise CheckpointError(
                f"{checkpoint}: its first batch was begun by Spark's connector for Kafka and is not done, and nothing "
                'else knows where that batch begins. Run the query once more with fetch="connector".'
            )


def _topics_in(line: str) -> set[str]:
    """The topics that an offset of Kafka names; none of other lines."""
    try:
        offsets = json.loads(line)
    except ValueError:
        return set()
    if not isinstance(offsets, dict):
        return set()
    return {name for name, parts in offsets.items() if isinstance(parts, dict)}


def _cluster(topics: Topics) -> tuple[str, str]:
    """Return the key by which topics are asked for together."""
    return f"{topics.servers} {topics.source is None}", repr(sorted(topics.properties.items()))


def _check(
    checkpoint: str, topics: Topics, ids: dict[str, str], read: set[str], known: dict[str, str]
) -> None:
    """Hold topics against those that were read; an empty id: there is no such topic."""
    for name, number in ids.items() if topics.strict else ():
        if not number:
            raise SpecError(
                f"read_kafka: there is no topic {name!r} at {topics.servers}; make it, or correct the name"
            )
        # Clusters may have topics of one name.
        was = known.get(f"{name} {topics.servers}")
        if name in read and was not in (None, number):
            raise CheckpointError(
                f"{checkpoint}: topic {name} was deleted and made again since it was read, so that offsets mean other "
                "messages: those before where the query stopped would be passed over. Start over with an empty "
                'checkpoint, or pass lost_data="ignore" to continue at the old offset.'
            )


def _read_topic_ids(file: Path) -> dict[str, str]:
    """The ids that a checkpoint has; raises StateCorruptError if its file is damaged."""
    if not file.exists():
        return {}
    try:
        recorded: dict[str, str] = json.loads(without_checksum(read_file(file.parent, file)))
    except ValueError as error:
        raise corrupt(f"{file.name}: {error}") from None
    return recorded


def _read_topics(root: Path) -> set[str]:
    """The topics of which Spark has noted offsets in its last batch."""
    numbers = batches(root / "offsets")
    if not numbers:
        return set()
    lines = read_text(root, root / "offsets" / str(max(numbers))).splitlines()[2:]
    return {name for line in lines for name in _topics_in(line)}


def _ids(session: Any, topics: Topics, names: list[str]) -> dict[str, str]:
    """The ids of topics, as far as the brokers tell them; empty for a name that they do not know."""
    jvm = session._jvm
    properties = jvm.java.util.HashMap()
    for key, value in {
        **topics.properties,
        **_PATIENCE,
        "bootstrap.servers": topics.servers,
    }.items():
        properties.put(key, str(value))
    try:
        admin = jvm.org.apache.kafka.clients.admin.Admin.create(properties)
    except (Py4JError, TypeError):
        # Whatever is wrong with the client's properties, or with its jars, Spark's own client says it.
        return {}
    try:
        answers = admin.describeTopics(jvm.java.util.ArrayList(names)).topicNameValues()
        ids = {name: _id_of(jvm, answers.get(name)) for name in names}
    finally:
        admin.close(jvm.java.time.Duration.ZERO)
    return {name: number for name, number in ids.items() if number is not None}


def _fetch_ids(listed: Iterable[Topics]) -> dict[str, str]:
    """The ids of the topics that workers fetch, as `_ids` returns them."""
    ids: dict[str, str] = {}
    for topics in listed:
        assert topics.source is not None
        try:
            facts = TopicBroker(topics.source, "read_kafka").topics()
        except DataError:
            # Brokers that are away are waited for where the topics are read.
            return {}
        ids |= {name: "" for name in topics.names if not topics.pattern and name not in facts}
        ids |= {name: each.id.translate(_TO_JAVA) for name, each in facts.items() if each.id}
    return ids


def _id_of(jvm: Any, future: Any) -> str | None:
    """The id of a topic, empty where there is none; None if the brokers do not say."""
    try:
        description = future.get(_SECONDS, jvm.java.util.concurrent.TimeUnit.SECONDS)
        number = str(description.topicId().toString())
    except Py4JError as error:
        return "" if "UnknownTopicOrPartitionException" in str(error) else None
    return None if number == _NONE else number
