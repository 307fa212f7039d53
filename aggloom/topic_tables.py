"""Tables of a job that are topics of Kafka: their entries."""

from __future__ import annotations

from typing import Any

from aggloom.errors import SpecError, nearest
from aggloom.lake_tables import LAKES
from aggloom.runtime.connectors.kafka.options import KafkaSource
from aggloom.runtime.connectors.source_options import job_types
from aggloom.table_entries import convert_entry

CONNECTORS = ("files", "kafka", "datagen", *LAKES)
"""Connectors of a table of a job."""


def take_topic(entries: dict[str, Any], where: str) -> dict[str, Any] | None:
    """Take the entries of the reader of topics out of `entries`; None for a table of files, which has none of them."""
    connector = entries.pop("connector", "files")
    if connector not in CONNECTORS:
        raise SpecError(
            f"{where}: no connector {connector!r}. {nearest(str(connector), CONNECTORS)}"
        )
    if connector == "files":
        for name in filter(job_types(KafkaSource).__contains__, entries):
            raise SpecError(
                f"{where}: {name} is of topics, and this table is of files; say connector=kafka, or leave it out."
            )
        return None
    for name in ("servers", "topic"):
        if not entries.get(name):
            raise SpecError(f"{where}: a topic of Kafka needs {name}.")
    settings = {
        name: convert_entry(name, entries.pop(name), kind, where)
        for name, kind in job_types(KafkaSource).items()
        if name in entries
    }
    start = settings.get("start")
    # An option of the command line is a text; digits are milliseconds, and `earliest` and `latest` are the words.
    if isinstance(start, str) and start.isdigit():
        settings["start"] = int(start)
    KafkaSource(**settings).check(where)
    return settings
