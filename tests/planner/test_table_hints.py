"""Flink's `t /*+ OPTIONS(..) */`: the table with other options in one place, and hints that are refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import aggloom as al
from aggloom.codegen.planner.scripts.script import shown_query
from aggloom.errors import AggloomError, OptionError
from aggloom.job import Job
from aggloom.job_plan import feed_job
from aggloom.script import jobs_of

TABLE = (
    "CREATE TABLE t (k STRING, v INT, w AS v + 1)"
    " WITH ('connector' = 'filesystem', 'path' = 'a.jsonl', 'format' = 'json');\n"
)
SINK = "CREATE TABLE o (k STRING, n BIGINT, PRIMARY KEY (k) NOT ENFORCED) WITH ('connector' = 'print');\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a file of the table, and one that hints name."""
    path = tmp_path_factory.mktemp("hints")
    for name, values in (("a", (1, 2)), ("b", (1, 5))):
        lines = [json.dumps({"k": name, "v": value}) for value in values]
        (path / f"{name}.jsonl").write_text("\n".join(lines))
    return path


@pytest.mark.parametrize(
    ("query", "rows"),
    [
        ("SELECT t.k, w FROM t /*+ OPTIONS('path' = 'b.jsonl') */", [("b", 2), ("b", 6)]),
        # Two places of one table, of which one has the hint; the names by which columns are called stay.
        (
            "SELECT t.k, u.k AS other FROM t /*+ OPTIONS('path'='b.jsonl') */ JOIN t AS u ON t.w = u.w",
            [("b", "a")],
        ),
        (
            "CREATE VIEW q AS SELECT k, w FROM t /*+OPTIONS('path' = 'b.jsonl', 'changes' = 'append')*/ AS x;"
            "WITH t AS (SELECT * FROM q) SELECT k, COUNT(*) AS n FROM t GROUP BY k",
            [("b", 2)],
        ),
        ("SELECT `k` FROM `t`\n/*+ OPTIONS(\n'path' = 'b.jsonl'\n) */ WHERE v > 1", [("b",)]),
    ],
)
def test_the_table_has_these_options_in_this_place(
    query: str, rows: list[object], folder: Path
) -> None:
    (job,), _ = jobs_of(Job(TABLE + query, ()), folder, alone=True)
    with feed_job(job) as harness:
        assert sorted(harness.table()) == rows


def test_what_is_written_into_keeps_its_name(folder: Path) -> None:
    text = (
        TABLE
        + SINK
        + "INSERT INTO o /*+ OPTIONS('connector' = 'blackhole') */ (k, n) SELECT k, v FROM t"
    )
    (job,), _ = jobs_of(Job(text, (), checkpoint=folder / "kept"), folder, alone=True)
    assert (job.sink, job.into, job.checkpoint) == (
        {"kind": "blackhole"},
        "o",
        folder / "kept" / "o",
    )
    assert [table.name for table in job.tables] == ["t"]


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (
            "SELECT k FROM t AS x /*+ OPTIONS('path' = 'b') */",
            "OPTIONS elsewhere than directly behind a table's name is",
        ),
        (
            "SELECT k FROM q /*+ OPTIONS('path' = 'b') */",
            "OPTIONS of q, which no CREATE TABLE of the script declares, is",
        ),
        (
            "WITH t AS (SELECT 1 AS k) SELECT k FROM t /*+ OPTIONS('a' = 'b') */",
            "OPTIONS of t, which no CREATE TABLE",
        ),
        (
            "SELECT k FROM t /*+ OPTION('path' = 'b') */",
            "the hint OPTION elsewhere than after SELECT is",
        ),
        (
            "SELECT k FROM t /*+ STATE_TTL('t' = '1 d') */",
            "the hint STATE_TTL elsewhere than after SELECT is",
        ),
        ("SELECT k FROM t /*+ */", "the hint without a name elsewhere than after SELECT is"),
        (
            "SELECT /*+ OPTIONS('path' = 'b') */ k FROM t",
            "the hint OPTIONS after SELECT is not supported here; write it behind",
        ),
        ("SELECT k FROM t /*+ OPTIONS */", "OPTIONS needs keys and values; write t /*+ OPTIONS("),
        ("SELECT k FROM t /*+ OPTIONS() */", "OPTIONS says nothing"),
        ("SELECT k FROM t /*+ OPTIONS('a') */", "OPTIONS: 'a' is no key with a value"),
        (
            "SELECT k FROM t /*+ OPTIONS('a' = 'b', 'a' = 'c') */",
            "OPTIONS: option 'a' is given twice",
        ),
        (
            "SELECT k FROM t /*+ OPTIONS('connector' = 'kafkka') */",
            "'connector' is 'kafkka'. Did you mean 'kafka'",
        ),
        ("SELECT k FROM t /*+ OPTIONS('changes' = 'no') */", "'changes' is 'no'. Known: 'append'"),
    ],
)
def test_a_hint_that_nothing_reads_is_refused(query: str, message: str) -> None:
    with pytest.raises(AggloomError) as raised:
        al.explain(f"{TABLE}CREATE VIEW q AS SELECT k FROM t;\n{query}", tables={})
    assert str(raised.value).startswith(message)
    assert "\nAt line 3, column " in str(raised.value)


def test_an_unknown_key_is_refused_as_in_with(folder: Path) -> None:
    text = f"{TABLE}SELECT k FROM t /*+ OPTIONS('pathh' = 'b') */"
    with pytest.raises(
        OptionError, match=r"t: there is no option 'pathh' here\. Did you mean 'path'"
    ):
        jobs_of(Job(text, ()), folder, alone=True)


def test_a_secret_in_a_hint_is_not_shown() -> None:
    text = f"{TABLE}SELECT k FROM t /*+ OPTIONS('password' = 'xyzzy') */"
    assert "xyzzy" not in shown_query(text)
    with pytest.raises(AggloomError) as raised:
        al.explain(f"{TABLE}SELECT k FROM q /*+ OPTIONS('password' = 'xyzzy') */", tables={})
    assert "xyzzy" not in str(raised.value)
