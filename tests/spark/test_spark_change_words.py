"""Change columns of other systems on Spark: as in the harness, read whole by workers and row by row by Spark."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import duckdb
import pytest
from change_cases import CASES, DMS, SCHEMA, ChangeCase
from pyspark.sql import SparkSession

import aggloom as al
from aggloom.errors import SpecError
from aggloom.runtime.values.changelog import fold
from tests.formats.test_whole_json import ROWS, TEXTS

pytestmark = pytest.mark.spark


def _read(spark: SparkSession, case: ChangeCase, path: Path, whole: bool) -> list[Any]:
    keys = {"keys": "id"} if case.upserts else {}
    about = {**case.options, **case.extra, **keys, "whole_files": whole}
    changes = al.read_changes(spark, path, case.format, SCHEMA, streaming=False, **about)
    if whole and case.format == "parquet":
        changed = al.sql("SELECT id, v, COUNT(*) AS n FROM t GROUP BY id, v", t=changes)
        words = {"insert": "+I", "update_preimage": "-U", "update_postimage": "+U", "delete": "-D"}
        found = fold([(words[row[-1]], *row[:-1]) for row in changed.collect()], 2)
        return [row[:2] for row in found for _ in range(row[2])]
    words = {"insert": "+I", "update_preimage": "-D", "update_postimage": "+U", "delete": "-D"}
    rows = [(words[row[-1]], *row[:-1]) for row in changes.collect()]
    if not case.upserts:
        return fold([("+I" if kind == "+U" else kind, *row) for kind, *row in rows])
    return fold([(kind, *row) for kind, *row in rows], 1)


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.sampled(1)
def test_change_columns_of_other_systems_are_read_on_spark(
    tmp_path: Path, spark: SparkSession, whole: bool
) -> None:
    for number, case in enumerate(CASES):
        if case.format == "jsonl" and not whole:
            continue
        folder = tmp_path / str(number)
        folder.mkdir()
        path = case.write(folder)
        if case.error:
            with pytest.raises(Exception, match=case.error):
                _read(spark, case, path, whole)
        else:
            assert sorted(_read(spark, case, path, whole)) == case.table, case


def test_updates_without_the_rows_before_need_keys(tmp_path: Path, spark: SparkSession) -> None:
    path = CASES[0].write(tmp_path)
    with pytest.raises(SpecError, match=r"update_after.*keys="):
        al.read_changes(spark, path, "csv", SCHEMA, streaming=False, **DMS)


@pytest.mark.parametrize("name", TEXTS)
def test_whole_files_of_json_are_read_on_spark(
    tmp_path: Path, spark: SparkSession, name: str
) -> None:
    path = tmp_path / "t.json"
    path.write_text(TEXTS[name], encoding="utf-8", newline="")
    about: dict[str, Any] = {"streaming": False, "multiLine": True}
    changes = al.read_changes(spark, path, "jsonl", "id INT, v BIGINT", **about)
    assert [row[:2] for row in changes.collect()] == ROWS


def test_columns_of_parquet_that_spark_does_not_know_are_read_whole(
    tmp_path: Path, spark: SparkSession
) -> None:
    path, text = tmp_path / "t.parquet", "00112233-4455-6677-8899-aabbccddeeff"
    at = "TIMESTAMP_NS '2024-01-01 00:00:00.123456789' AS at"
    duckdb.sql(f"COPY (SELECT '{text}'::UUID AS u, {at}) TO '{path}'")
    about: dict[str, Any] = {"streaming": False, "nanoseconds": "cut"}
    changes = al.read_changes(spark, path, "parquet", "u STRING, at TIMESTAMP_NTZ", **about)
    found = al.sql("SELECT u, at, COUNT(*) AS n FROM t GROUP BY u, at", t=changes).collect()
    assert [tuple(row[:3]) for row in found] == [
        (text, dt.datetime(2024, 1, 1, 0, 0, 0, 123456), 1)
    ]
