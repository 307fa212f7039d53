"""Files that are JSON as a whole: `multiLine` reads arrays, and objects over several lines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from aggloom.errors import AggloomError, InputFormatError, SpecError
from aggloom.job import Job
from aggloom.job_plan import feed_job
from aggloom.runtime.local.harness import Harness
from aggloom.script import jobs_of
from aggloom.tables import read_table_option

SQL = "SELECT id, v FROM t"
ROWS = [(1, 2), (2, 12345678901234567)]
ARRAY = '[{"id": 1, "v": 2},\n  {"id": 2,\r\n "v": 12345678901234567}]\n'
TEXTS = {
    "array": ARRAY,
    "mark": "\ufeff" + ARRAY,
    "pretty": '{\n  "id": 1,\n  "v": 2\n}\n{\n  "id": 2, "v": 12345678901234567}',
    "lines": '{"id": 1, "v": 2}\n{"id": 2, "v": 12345678901234567}\n',
    "arrays": '[{"id": 1, "v": 2}]\n[]\n[{"id": 2, "v": 12345678901234567}]',
}


def _harness(path: Path) -> list[Any]:
    with Harness.from_sql(SQL, {"t": "id INT, v BIGINT"}, backend="python") as harness:
        harness.read(path, "jsonl", multiLine=True)
        harness.flush()
        return harness.table()


def _command_line(path: Path) -> list[Any]:
    table = read_table_option(f"t={path},multiline=true")
    return feed_job(Job(SQL, (table,), backend="python")).table()


def _create_table(path: Path) -> list[Any]:
    text = (
        f"CREATE TABLE t (id INT, v BIGINT) WITH ('connector' = 'filesystem', 'path' = '{path}', "
        f"'format' = 'json', 'multiLine' = 'true'); {SQL}"
    )
    (job,), _ = jobs_of(Job(text, (), backend="python"), None, alone=True)
    return feed_job(job).table()


READS = [_harness, _command_line, _create_table]


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("name", TEXTS)
def test_whole_files_are_read(tmp_path: Path, name: str, read: Any) -> None:
    path = tmp_path / "t.json"
    path.write_text(TEXTS[name], encoding="utf-8", newline="")
    assert sorted(read(path)) == ROWS


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[{"id": 1, "v": 2}, ]', "value 2"),
        ('[{"id": 1, "v": 2}', "value 2"),
        ('[{"id": 1, "v": 2} {"id": 2, "v": 2}]', "value 2"),
        ('[{"id": 1, "v": 2}, 5]', "value 2.*no JSON object"),
        ('{"id": 1, "v": 2} x', "value 2"),
    ],
)
def test_what_is_wrong_in_a_whole_file_is_told_with_its_place(
    tmp_path: Path, text: str, message: str, read: Any
) -> None:
    path = tmp_path / "t.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(AggloomError, match=message):
        read(path)


def test_without_the_option_the_error_names_it(tmp_path: Path) -> None:
    for text in (ARRAY, TEXTS["pretty"]):
        path = tmp_path / "t.json"
        path.write_text(text, encoding="utf-8")
        with (
            Harness.from_sql(SQL, {"t": "id INT, v BIGINT"}, backend="python") as harness,
            pytest.raises(InputFormatError, match="multiLine=true"),
        ):
            harness.read(path, "jsonl")


@pytest.mark.parametrize(
    "options", [{"multiLine": "yes"}, {"multiLine": True, "key_separator": "|"}]
)
def test_options_that_make_no_sense_are_refused(tmp_path: Path, options: dict[str, Any]) -> None:
    path = tmp_path / "t.json"
    path.write_text(ARRAY, encoding="utf-8")
    with (
        Harness.from_sql(SQL, {"t": "id INT, v BIGINT"}, backend="python") as harness,
        pytest.raises(SpecError, match="multiLine"),
    ):
        harness.read(path, "jsonl", **options)
