"""Wide messages of a topic: a batch is read and run in pieces of so many bytes, and its table is the same."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from engine_jobs import rows_of_table, run_to_end

from aggloom.job import complete
from aggloom.runtime.connectors.kafka import fetch
from aggloom.runtime.engine import query
from aggloom.tables import table_source


@pytest.mark.parametrize("facts", ["", ", at TIMESTAMP"])
def test_a_batch_in_pieces(
    broker: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, facts: str
) -> None:
    """Partitions that would fill the memory wait; upserts of a key keep their order. facts: make messages objects."""
    monkeypatch.setattr(fetch, "AT_ONCE", 50)
    for module, name in (
        (fetch, "MOST_BYTES"),
        (fetch, "_KEPT_BYTES"),
        (query, "_BYTES_AT_ONCE"),
    ):
        monkeypatch.setattr(module, name, 30_000)
    sizes: list[int] = []
    concat = query.concat_changes

    def note_size(parts: Any, schema: Any) -> Any:
        joined = concat(parts, schema)
        sizes.append(len(joined[1]))
        return joined

    monkeypatch.setattr(query, "concat_changes", note_size)
    draw, topic = random.Random(5), broker.topic(f"wide.{len(facts)}", 3)
    table: dict[int, tuple[Any, ...]] = {}
    messages = []
    for number in range(900):
        key, text = draw.randrange(40), "x" * draw.choice(
            (0, 10, 2_000, 40_000 * (number % 50 == 0))
        )
        table.pop(key, None)
        value = None
        if draw.random() < 0.9:
            table[key] = (key, number, len(text))
            value = json.dumps({"id": key, "v": number, "w": text})
        messages.append((json.dumps({"id": key}), value, key % 3))
    broker.send(topic, *messages)
    # Another order would be another table.
    in_order = sorted(messages, key=lambda each: each[2])
    assert broker.read(topic) == [
        (key.encode(), None if value is None else value.encode()) for key, value, _ in in_order
    ]
    about = {"connector": "kafka", "servers": broker.servers, "topic": topic, "keys": "id"}
    schema = {"format": "upsert-json", "schema": f"id INT, v INT, w STRING{facts}"}
    metadata = {"metadata": {"at": "timestamp"}} if facts else {}
    seen = ", MAX(at) IS NOT NULL AS is_seen" if facts else ""
    entries = {
        "sql": f"SELECT id, MAX(v) AS v, MAX(LENGTH(w)) AS n{seen} FROM t GROUP BY id",
        "tables": (table_source("t", {**about, **schema, **metadata}, "a test"),),
    }
    given = {**entries, "sink": "table", "backend": "python", "checkpoint": tmp_path / "state"}
    assert run_to_end(complete(given, "a test")).counts.batches == 1
    rows = [row[:3] for row in rows_of_table(tmp_path / "state")]
    assert rows == sorted(table.values())
    assert len(sizes) > 5
