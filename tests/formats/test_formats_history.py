"""One history in every format, in harnesses and lines: what is told is the table."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from aggloom.errors import InputFormatError, SpecError, UnknownColumnError
from aggloom.runtime.formats.base import Message, Unreadable
from aggloom.runtime.formats.decoder import decoder
from aggloom.runtime.formats.lines import read_lines
from aggloom.runtime.formats.registry import LINES, MESSAGES, format_of
from aggloom.runtime.local.harness import Harness
from tests.formats.test_formats import (
    DDL,
    FULL,
    canal,
    debezium,
    maxwell,
    message,
    ogg,
    row,
    rows_of,
)

# What happens to a table, told in every format, is one history.
History = list[tuple[str, dict[str, Any] | None, dict[str, Any] | None]]


def history(r: random.Random, steps: int) -> History:
    told: History = []
    table: dict[int, dict[str, Any]] = {}
    for _ in range(steps):
        key = r.randrange(6)
        new = row(key, r.choice(["a", "b", None, '"']), r.choice([0, 7, -5]))
        if key not in table:
            told.append(("c", None, new))
        elif r.random() < 0.3:
            told.append(("d", table.pop(key), None))
            continue
        else:
            told.append(("u", table[key], new))
        table[key] = new
    return told


def changed(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in old.items() if new[name] != value}


def tell(format: str, op: str, old: Any, new: Any) -> tuple[Any, Any]:
    """A step of a history as (key, value)."""
    key = {"id": (new or old)["id"]}
    match format:
        case "debezium-json":
            return key, debezium(op, old, new)
        case "canal-json":
            kind = {"c": "INSERT", "u": "UPDATE", "d": "DELETE"}[op]
            return key, canal(kind, [new or old], [changed(old, new)] if op == "u" else None)
        case "maxwell-json":
            kind = {"c": "insert", "u": "update", "d": "delete"}[op]
            return key, maxwell(kind, new or old, changed(old, new) if op == "u" else None)
        case "ogg-json":
            return key, ogg({"c": "I", "u": "U", "d": "D"}[op], old, new)
        case "upsert-json":
            return key, new
    words = {"c": "+I", "u": "+U", "d": "-D"}
    return key, (new or old) | {"op": words[op]}


@pytest.mark.parametrize("format", LINES)
@pytest.mark.parametrize("upserts", [False, True])
def test_one_history_in_every_format(format: str, upserts: bool, tmp_path: Path) -> None:
    if not upserts and (MESSAGES[format].needs_keys or format == "jsonl"):
        return
    told = history(random.Random(f"{format} {upserts}"), 300)
    table: dict[int, Any] = {}
    lines = []
    for op, old, new in told:
        key, value = tell(format, op, old, new)
        bare = old if op == "d" and upserts and "debezium" in format else None
        if bare is not None:
            value = debezium("d", {"id": bare["id"]})
        lines.append(f"{json.dumps(key)}\t{json.dumps(value)}")
        table[(new or old)["id"]] = new  # type: ignore[index]
    (tmp_path / "in.txt").write_text("\n".join(lines))
    how: dict[str, Any] = {"input_changes": "upsert", "keys": {"t": "id"}} if upserts else {}
    query = "SELECT name, COUNT(*) AS n, SUM(cnt) AS s FROM t GROUP BY name"
    with Harness.from_sql(query, {"t": DDL}, backend="python", **how) as harness:
        harness.read(tmp_path / "in.txt", format, key_separator="\t")
        harness.flush()
        found = {name: (n, s) for name, n, s in harness.table()}
        assert not harness.counts.orphans
    wanted: dict[Any, Any] = {}
    for new in filter(None, table.values()):
        n, s = wanted.get(new["name"], (0, None))
        wanted[new["name"]] = n + 1, s if new["cnt"] is None else (s or 0) + new["cnt"]
    assert found == wanted


def test_a_harness_counts_what_it_passes_over(tmp_path: Path) -> None:
    file = tmp_path / "in.jsonl"
    file.write_bytes(b'\xef\xbb\xbf{"k":1}\n{"k":\n\n{"k":2}\r\n')
    query = "SELECT COUNT(*) AS n FROM t"
    with Harness.from_sql(query, {"t": "k INT"}, backend="python") as harness:
        with pytest.raises(InputFormatError, match="line 2: malformed line"):
            harness.read(file, "jsonl")
        assert harness.read(tmp_path, "jsonl", unreadable="drop") == 2
        harness.flush()
        assert harness.table() == [(2,)]
        assert harness.counts.refused == 1
        ((bad, why),) = harness.unreadable
        assert bad.value == b'{"k":' and why.startswith("malformed")
        with pytest.raises(UnknownColumnError, match="the first line of a CSV file must name"):
            harness.read(file, "csv")
        with pytest.raises(SpecError, match="no file at"):
            harness.read(tmp_path / "nope", "jsonl")
        with pytest.raises(SpecError, match="input_changes='upsert'"):
            harness.read(file, "upsert-json")


def test_a_harness_reads_parquet(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    pq.write_table(
        pa.table({"K": [1, 2, 2], "_change_type": ["insert", "insert", "delete"]}),
        tmp_path / "a.parquet",
    )
    with Harness.from_sql("SELECT k FROM t", {"t": "k INT"}, backend="python") as harness:
        assert harness.read(tmp_path, "parquet") == 3
        harness.flush()
        assert harness.table() == [(1,)]


def test_lines_with_keys(tmp_path: Path) -> None:
    (tmp_path / "a").write_text('{"id":1}\t{"x":"\\t"}\n\n2\tnull\nnull\t3\nalone\n')
    found = [(m.key, m.value) for m in read_lines([tmp_path / "a"], "\t")]
    assert found == [(b'{"id":1}', b'{"x":"\\t"}'), (b"2", None), (None, b"3"), (None, b"alone")]


def test_a_decoder_travels() -> None:
    import pickle

    made = decoder("debezium-json", DDL, "id")
    assert rows_of(made.decode([message(FULL)])) == [("+U", 1, "a", 2)]
    again = pickle.loads(pickle.dumps(made))
    assert again == made and rows_of(again.decode([message(FULL)])) == [("+U", 1, "a", 2)]
    with pytest.raises(Unreadable):
        format_of("jsonl", DDL, None, {}).changes(Message(b"3"))
