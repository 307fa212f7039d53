"""Options of sources: a keyword, an entry of a job's table and a word of a script follow from one field."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import MISSING, fields
from inspect import Parameter, signature
from pathlib import Path
from typing import Any

import pytest

import aggloom as al
from aggloom.errors import SpecError
from aggloom.runtime.connectors.delta.options import DeltaSource
from aggloom.runtime.connectors.iceberg.options import IcebergSource
from aggloom.runtime.connectors.kafka.options import KafkaSource
from aggloom.runtime.connectors.source_options import job_types, own_words
from aggloom.tables import table_source

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize(
    ("source", "name", "of_rows"),
    [
        (
            KafkaSource,
            "read_kafka",
            {"format", "schema", "keys", "unreadable", "side", "metadata", "options"},
        ),
        (DeltaSource, "read_delta", {"schema"}),
        (IcebergSource, "read_iceberg", {"schema"}),
    ],
    ids=["kafka", "delta", "iceberg"],
)
def test_the_keywords_of_a_reader_are_the_options_of_its_source(
    source: type[Any], name: str, of_rows: set[str]
) -> None:
    """An option is a keyword, an entry of a job's table, perhaps a word of a script, and documented."""
    pytest.importorskip("pyspark")
    reader: Callable[..., Any] = getattr(al, name)
    keywords = signature(reader).parameters
    for option in fields(source):
        default = Parameter.empty if option.default is MISSING else option.default
        assert keywords[option.name].default == default
        assert keywords[option.name].annotation == option.type
    assert keywords.keys() - of_rows - {"spark"} == {option.name for option in fields(source)}
    sources, scripts = ((DOCS / page).read_text() for page in ("sources.md", "scripts.md"))
    section = sources.partition(f"al.{name}(")[2]
    for entry in job_types(source):
        assert re.search(rf"\b{entry}\b", section), entry
    for word in own_words(source):
        assert f"`{word}`" in scripts


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        ({"lost_data": "ignroe"}, "table t: lost_data is 'ignroe'; known are error, ignore"),
        ({"start": "lately"}, "table t: it cannot start at 'lately'"),
        ({"start": {0: 1}, "topic": ["a", "b"]}, "table t: it cannot start at {0: 1}"),
        ({"pattern": "true", "topic": ["a", "b"]}, "a pattern is one regular expression"),
        ({"pattern": "ture"}, "table t: pattern is 'ture'; it must be true or false"),
        ({"max_messages_per_trigger": "many"}, "must be a whole number"),
        ({"properties": "x"}, "properties is 'x'; it must be a mapping"),
        ({"properties": {"group.id": "x"}}, "'group.id' is not for properties"),
        ({"servers": ""}, "a topic of Kafka needs servers"),
        ({"end": "latest"}, "there is no entry 'end'"),
    ],
)
def test_entries_of_a_table_are_checked_before_spark_starts(
    entries: dict[str, Any], said: str
) -> None:
    given = {
        "connector": "kafka",
        "servers": "h:1",
        "topic": "t",
        "format": "jsonl",
        "schema": "k INT",
    }
    assert table_source("t", given, "table t").kafka == {"servers": "h:1", "topic": "t"}
    with pytest.raises(SpecError, match=re.escape(said)):
        table_source("t", {**given, **entries}, "table t")


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        ({"start": "lately"}, "table t: start is 'lately'; it must be snapshot, latest"),
        ({"start": -1}, "table t: start is version -1"),
        ({"max_versions_per_trigger": "0"}, "table t: max_versions_per_trigger is 0"),
        ({"max_versions_per_trigger": "many"}, "must be a whole number"),
        ({"storage": "x"}, "storage is 'x'; it must be a mapping"),
        ({"metadata": "ture"}, "metadata is 'ture'; it must be true or false"),
        ({"streaming": "false"}, "there is no entry 'streaming'"),
        ({"connect": {}}, "there is no entry 'connect'"),
        ({"connector": "iceberg"}, "the path is 'orders'; write the table's name with its"),
        ({"connector": "iceberg", "path": "db.t", "start": "x"}, "or the id of a snapshot"),
        ({"connector": "iceberg", "path": "db.t", "connect": 3}, "connect is 3; it must be a"),
        ({"connector": "iceberg", "path": "db.t", "metadata": "true"}, "no entry 'metadata'"),
    ],
)
def test_entries_of_a_lake_are_checked_before_it_is_opened(
    entries: dict[str, Any], said: str
) -> None:
    given = {"connector": "delta", "path": "orders"}
    assert table_source("t", given, "table t").lake == given
    with pytest.raises(SpecError, match=re.escape(said)):
        table_source("t", {**given, **entries}, "table t")
