"""Formats of explain: the sections of Flink's EXPLAIN with stages and ship strategies, and the generated modules."""

from __future__ import annotations

import linecache

import pytest

import aggloom as al
from aggloom.errors import SpecError

TABLES = {"t": "k STRING, v INT, ts TIMESTAMP", "u": "k STRING, w INT"}


def sections(sql: str) -> dict[str, str]:
    """The sections of an explanation by their names."""
    text = al.explain(
        sql, tables=TABLES, input_changes="append", format="flink", watermarks={"t": "ts"}
    )
    parts = text.removeprefix("== ").split("\n\n== ")
    return {name: body for name, _, body in (part.partition(" ==\n") for part in parts)}


def test_the_sections_are_those_of_flink() -> None:
    names = ["Abstract Syntax Tree", "Optimized Physical Plan", "Optimized Execution Plan"]
    told = sections("SELECT k, COUNT(DISTINCT v) AS n FROM t GROUP BY k")
    assert list(told) == [*names, "Physical Execution Plan"]
    tree, physical, execution = (told[name] for name in names)
    assert tree.startswith("LogicalAggregate(") and "Exchange" not in tree
    assert "changelogMode" not in tree + execution and "changelogMode=[I]" in physical
    assert (
        "[ADVICE] split_distinct: table.optimizer.distinct-agg.split.enabled is false" in physical
    )
    assert [line.partition("(")[0] for line in execution.splitlines()][:2] == [
        "GlobalGroupAggregate",
        "+- Exchange",
    ]


def test_stages_say_from_where_their_rows_come() -> None:
    sql = "SELECT COUNT(*) AS n FROM t JOIN u ON t.k = u.k JOIN u x ON x.k = t.k AND x.w > u.w"
    stages = sections(f"SET 'table.optimizer.multi-join.enabled' = 'false'; {sql}")[
        "Physical Execution Plan"
    ]
    assert stages.count(": Data Source") == 2, "u is read once for both joins"
    joins = [block for block in stages.split("\n\n") if "content : Join(" in block]
    assert all("ship_strategy : " in block and "HASH[" in block for block in joins)
    last = stages.split("\n\n")[-1]
    assert "GLOBAL from" in last and last.endswith("parallelism : 1")


@pytest.mark.parametrize(
    ("sql", "mode"),
    [
        ("SELECT k, COUNT(*) AS n FROM t GROUP BY k", "ProcTime"),
        (
            "SELECT COUNT(*) AS n FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' SECOND)) "
            "GROUP BY window_start, window_end",
            "RowTime",
        ),
    ],
)
def test_mini_batches_have_an_assigner(sql: str, mode: str) -> None:
    latency = "SET 'table.exec.mini-batch.allow-latency' = '5 s'; "
    line = f"MiniBatchAssigner(interval=[5000ms], mode=[{mode}]"
    told = sections(latency + sql)
    assert line not in told["Abstract Syntax Tree"]
    assert all(line in told[name] for name in told if name != "Abstract Syntax Tree")
    assert "MiniBatchAssigner" not in "".join(sections(sql).values()), "bundles are batches"
    stateless = sections(latency + "SELECT k FROM t")
    assert "MiniBatchAssigner" not in "".join(stateless.values())


def test_each_query_of_a_script_is_explained() -> None:
    script = "SELECT k FROM t; SELECT w FROM u"
    assert al.explain(script, tables=TABLES).count("plan\n") == 2
    with pytest.raises(SpecError, match="format 'json' is of one query, and the script has 2"):
        al.explain(script, tables=TABLES, format="json")


def test_the_source_of_a_join_condition_is_what_runs() -> None:
    sql = "SELECT t.k, v + 1 AS x FROM t JOIN u ON t.k = u.k AND v * 2 > w + 40 WHERE XPATH_INT(t.k, 'a') > 0"
    text = al.explain(sql, tables=TABLES, format="source")
    blocks = {
        block.partition("\n")[0]: block.partition("\n")[2] for block in text.split("\n\n\n# ")
    }
    condition = next(body for title, body in blocks.items() if "Join: condition `v` * 2 >" in title)
    assert 'scalar.multiply(rows["v"], pa.scalar(2, pa.int32()), "`v` * 2")' in condition
    assert "Calc: projection" in blocks
    assert any(body.startswith("# Spark evaluates it: ") for body in blocks.values())
    with al.Harness.from_sql(sql.partition(" WHERE")[0], TABLES, backend="python") as harness:
        harness.process([("+I", "a", 30, None), ("+I", "a", 2, None)], table="t")
        harness.process([("+I", "a", 1)], table="u")
        harness.flush()
        assert harness.table() == [("a", 31)]
    loaded = ["".join(lines[2]).strip() for lines in linecache.cache.values() if len(lines) == 4]
    assert condition in loaded, "a debugger shows these lines"
    handlers = al.explain("SELECT k, SUM(v) AS s FROM t GROUP BY k", tables=TABLES, format="source")
    assert "GroupAggregate: handler " in handlers and "def accumulate" in handlers
    assert al.explain("SELECT k FROM t", tables=TABLES, format="source").startswith("# Nothing is")
