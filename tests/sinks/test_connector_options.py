"""Options of sources: a keyword, an entry of a job's table and a word of a script follow from one field."""

from __future__ import annotations

import re
from dataclasses import MISSING, fields
from inspect import Parameter, signature
from pathlib import Path
from typing import Any

import pytest

from aggloom.errors import SpecError
from aggloom.runtime.connectors.kafka.options import (
    KafkaSource,
    job_types,
    own_words,
)
from aggloom.tables import table_source

DOCS = Path(__file__).parents[2] / "docs"


def test_the_keywords_of_the_reader_are_the_options_of_the_source() -> None:
    """An option of topics is a keyword, an entry of a job's table, a word of a script, and documented."""
    pytest.importorskip("pyspark")
    from aggloom.runtime.connectors.kafka.source import read_kafka

    keywords = signature(read_kafka).parameters
    for option in fields(KafkaSource):
        default = Parameter.empty if option.default is MISSING else option.default
        assert keywords[option.name].default == default
        assert keywords[option.name].annotation == option.type
    of_messages = {"spark", "format", "schema", "keys", "unreadable", "side", "options"}
    assert keywords.keys() - of_messages == {option.name for option in fields(KafkaSource)}
    pages = [(DOCS / name).read_text() for name in ("sources.md", "scripts.md")]
    for name in job_types():
        assert re.search(rf"\b{name}\b", pages[0])
    for name in own_words():
        assert f"`{name}`" in pages[1]


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
