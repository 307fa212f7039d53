"""Change columns of other systems, and the words in them: `change_column`, `change_values` and `markers`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from change_cases import BIGQUERY, CASES, DMS, IDS, SCHEMA, ChangeCase

from aggloom.errors import AggloomError, SpecError
from aggloom.job import Job
from aggloom.job_plan import feed_job
from aggloom.runtime.formats.base import Message
from aggloom.runtime.formats.decoder import decoder
from aggloom.runtime.local.harness import Harness
from aggloom.runtime.values.change_column import ChangeWords
from aggloom.script import jobs_of
from aggloom.tables import read_table_option, table_source

SQL = "SELECT id, v FROM t"


def _harness(case: ChangeCase, path: Path) -> list[Any]:
    upserts: dict[str, Any] = {"input_changes": "upsert", "keys": {"t": "id"}}
    about = upserts if case.upserts else {}
    with Harness.from_sql(SQL, {"t": SCHEMA}, backend="python", **about) as harness:
        harness.read(path, case.format, **case.options, **case.extra)
        harness.flush()
        return harness.table()


def _job_file(case: ChangeCase, path: Path) -> list[Any]:
    keys = {"keys": "id"} if case.upserts else {}
    settings = {"path": str(path), "format": case.format, "schema": SCHEMA, **keys}
    table = table_source("t", {**settings, **case.options, **case.extra}, "t")
    return feed_job(Job(SQL, (table,), backend="python")).table()


def _create_table(case: ChangeCase, path: Path) -> list[Any]:
    if not all(isinstance(value, str) for value in case.options.values()) or case.extra:
        pytest.skip("options of SQL are texts")
    key = ", PRIMARY KEY (id) NOT ENFORCED" if case.upserts else ""
    format = {"jsonl": "json"}.get(case.format, case.format)
    options = ", ".join(f"'{name}' = '{value}'" for name, value in case.options.items())
    text = (
        f"CREATE TABLE t (id INT, v BIGINT{key}) WITH ('connector' = 'filesystem', 'path' = '{path}', "
        f"'format' = '{format}', {options}); {SQL}"
    )
    (job,), _ = jobs_of(Job(text, (), backend="python"), None, alone=True)
    return feed_job(job).table()


@pytest.mark.parametrize("read", [_harness, _job_file, _create_table])
@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_change_columns_of_other_systems_are_read(
    tmp_path: Path, case: ChangeCase, read: Any
) -> None:
    path = case.write(tmp_path)
    if case.error:
        with pytest.raises(AggloomError, match=case.error):
            read(case, path)
    else:
        assert sorted(read(case, path)) == case.table


@pytest.mark.parametrize("format", ["csv", "jsonl", "parquet"])
def test_a_table_of_the_command_line_tells_its_columns_without_the_change_column(
    tmp_path: Path, format: str
) -> None:
    case = next(case for case in CASES if case.format == format)
    path = case.write(tmp_path)
    text = f"t={path},change_column=Op,change_values=I=insert,U=update_after,D=delete,keys=id"
    table = read_table_option(text)
    assert table.columns().names == ["id", "v"]  # type: ignore[union-attr]
    assert table.sends == "upsert"
    assert list(feed_job(Job(SQL, (table,), backend="python")).table()) == [(1, 3)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"change_column": "Op", "change_values": "I=insrt"}, "Did you mean 'insert'"),
        ({"change_column": "Op", "change_values": "I"}, "change_values is 'I'"),
        ({"change_column": "Op", "change_values": "I=insert,I=delete"}, "each word once"),
        ({"change_values": "I=insert"}, "name it: change_column"),
        ({"change_column": 5}, "change_column is 5"),
        ({"markers": "keep"}, "markers is 'keep'; known are refuse, data"),
    ],
)
def test_options_that_say_no_change_words_are_refused(
    options: dict[str, Any], message: str
) -> None:
    with pytest.raises(SpecError, match=message):
        ChangeWords.of(options, "t")


@pytest.mark.parametrize(
    ("schema", "options", "message"),
    [
        (SCHEMA, DMS, "update_after.* keys="),
        (f"{SCHEMA}, Op STRING", {**DMS, "keys": "id"}, "leave it out of the schema"),
    ],
)
def test_change_words_that_cannot_be_used_are_refused(
    schema: str, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(SpecError, match=message):
        decoder("jsonl", schema, **options)


def test_values_of_upserts_may_say_their_changes() -> None:
    rows: list[dict[str, Any]] = [
        {"_CHANGE_TYPE": "UPSERT", "id": 1, "v": 2},
        {"_CHANGE_TYPE": "DELETE", "id": 1},
    ]
    messages = [Message(json.dumps(row).encode(), b"1") for row in rows]
    found = decoder("upsert-json", SCHEMA, "id", **BIGQUERY).decode(messages)
    assert found.words.to_pylist() == ["update_postimage", "delete"]
    with pytest.raises(AggloomError, match="change type 'UPSERT'"):
        decoder("upsert-json", SCHEMA, "id").decode(messages)


def test_rows_of_json_in_blocks_and_alone_have_the_same_changes() -> None:
    lines = [{"Op": "IUD"[n % 3], "id": n, "v": n} for n in range(500)]
    lines[250]["V"] = 1
    messages = [Message(json.dumps(row).encode()) for row in lines]
    made = decoder("jsonl", "id INT", "id", **DMS)
    kinds = ["insert", "update_postimage", "delete"]
    assert made.decode(messages).words.to_pylist() == [kinds[n % 3] for n in range(500)]
