"""The pages of docs/: every block runs, here or in the test that is named, or is no more than a form or an excerpt."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

import aggloom as al
from aggloom.cli import main
from aggloom.job import complete, read_job
from aggloom.script import jobs_of

ROOT = Path(__file__).parents[2]
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)
_CHANGE = re.compile(r"([+-][IUD]) ")

ELSEWHERE = {
    "engines.md": "engine/test_engines_page.py",
    "functions.md": "catalogue/test_functions_page.py",
    "live-tables.md": "engine/test_live_tables_page.py",
    "lookup.md": "operators/test_lookup.py",
    "plans.md": "planner/test_plans_page.py",
    "user-functions.md": "handler/test_udaf.py",
    "windows.md": "windows/test_windows_page.py",
}
"""Pages that a test of their own reads."""
HERE = {
    "changelog-functions.md": {"sql": [0], "python": [0], "text": [0]},
    "formats.md": {"python": [0, 1, 2], "text": [0, 1]},
    "joins.md": {"sql": [0, 1, 2, 3, 4, 5], "python": [0, 1, 2, 3], "text": [0, 1]},
    "match-recognize.md": {"python": [0, 1], "text": [0, 2]},
    "notebooks.md": {"python": [0], "text": [0], "shell": [0, 1]},
    "over.md": {"sql": [0], "python": [0, 1], "text": [0, 1, 2]},
    "rank.md": {"sql": [0, 1], "python": [0, 1], "text": [0, 1, 2, 3]},
    "recursion.md": {"sql": [0, 1, 2], "python": [0], "text": [0]},
    "scripts.md": {"sql": [0, 1, 2, 3], "shell": [0], "text": [0]},
    "sinks.md": {"python": [0], "yaml": [0]},
    "sources.md": {"yaml": [0]},
    "spark.md": {"python": [0, 1, 2], "yaml": [0]},
    "sql.md": {"sql": [1], "python": [0], "text": [0]},
    "state.md": {"python": [0]},
    "sub-queries.md": {"sql": [0, 1, 2]},
    "temporal-filters.md": {"python": [0], "text": [0]},
    "table-aggregates.md": {"python": [0, 1, 2, 3, 4, 5], "text": [0, 1, 2, 3, 4, 5]},
    "table-functions.md": {"sql": [0, 1], "python": [0], "text": [0]},
    "testing.md": {"yaml": [0], "shell": [0], "text": [0, 1]},
}
"""Blocks that run here or in test_docs_blocks.py, by their kind and their number of it on the page."""
WHY_NOT = {
    (
        "clusters.md",
        "spark://host:7077",
    ): "needs a cluster: tests/spark/test_clusters.py starts one",
    ("formats.md", '"debezium-avro"'): "needs Kafka: tests/spark/test_spark_avro.py reads from one",
    (
        "formats.md",
        "format: debezium-avro",
    ): "tests/formats/test_schema_registry.py reads such a job",
    ("joins.md", "SELECT .. FROM orders"): "an excerpt with `..`",
    ("match-recognize.md", "what comes"): "tests/operators/test_match_facts.py",
    ("match-recognize.md", "TRANSITIONS = ("): "tests/operators/test_match_facts.py",
    ("over.md", "select=[...]"): "a line of a plan, with `...`",
    (
        "over.md",
        "late: dropped and counted",
    ): "told in words; tests/operators/test_over.py: what waits for the watermark",
    ("rank.md", "UpdateFastStrategy"): "lines of a plan, cut",
    (
        "sinks.md",
        '"kind": "database"',
    ): "needs PostgreSQL: tests/spark/test_spark_sinks.py writes into one",
    ("sinks.md", '"kind": "delta"'): "tests/sinks/test_delta_sink.py writes into one",
    ("sinks.md", '"kind": "kafka"'): "needs Kafka: tests/spark/test_spark_kafka.py writes into one",
    ("sources.md", "al.read_kafka("): "needs Kafka: tests/spark/test_spark_kafka.py reads from one",
    (
        "sinks.md",
        '"kind": "iceberg"',
    ): "needs a catalogue: tests/sinks/test_iceberg.py writes into one",
    (
        "sources.md",
        "al.read_iceberg(",
    ): "needs a catalogue: tests/sinks/test_iceberg.py reads from one",
    (
        "sources.md",
        "connector: iceberg",
    ): "needs a catalogue: tests/sinks/test_iceberg.py reads from one",
    ("sources.md", "al.read_delta("): "tests/sinks/test_delta_source.py reads from one",
    ("sql.md", "expressions over both"): "the form of a query",
    ("table-aggregates.md", "SELECT shop, TOP2(sales)"): "tests/operators/test_table_aggregates.py",
}
"""Blocks that do not run here, by words in them."""


def blocks(page: str, kind: str) -> list[str]:
    """The fenced blocks of a kind on a page."""
    text = (ROOT / "docs" / page).read_text("utf-8")
    return [each[2] for each in _FENCE.finditer(text) if each[1] == kind]


def test_every_block_is_accounted_for() -> None:
    left = set(WHY_NOT)
    for path in sorted((ROOT / "docs").glob("*.md")):
        page = path.name
        if page in ELSEWHERE:
            assert page in (ROOT / "tests" / ELSEWHERE[page]).read_text("utf-8")
            continue
        for kind in set(re.findall(r"^```(\w+)$", path.read_text("utf-8"), re.M)):
            for number, text in enumerate(blocks(page, kind)):
                if number in HERE.get(page, {}).get(kind, ()):
                    continue
                why = [(p, words) for p, words in WHY_NOT if p == page and words in text]
                assert why, f"{page}, {kind} {number}: let it run here, or say why it does not"
                left -= set(why)
    assert left == set()
    named = re.findall(r"tests/\w+/\w+\.py", " ".join(WHY_NOT.values()))
    assert all((ROOT / name).exists() for name in named)


_PLACE = re.compile(
    r"`((?:codegen|runtime|aggloom|templates|generated|tests)/[\w/.]*?)(?:: (\w+))?`"
)


@pytest.mark.parametrize("page", ["adding-a-connector", "adding-an-operator", "glossary", "tour"])
def test_every_place_in_the_code_exists(page: str) -> None:
    """A file or folder, and behind a colon the name of what the file defines."""
    places = _PLACE.findall((ROOT / "docs" / f"{page}.md").read_text("utf-8"))
    assert places
    for file, name in places:
        assert (ROOT / file).exists(), file
        if name:
            defines = rf"^ *(?:def|class) {name}\b|^{name}\b.*="
            assert re.search(defines, (ROOT / file).read_text("utf-8"), re.M), f"{file}: {name}"


DECISIONS = sorted((ROOT / "docs" / "decisions").glob("*.md"))


@pytest.mark.parametrize("path", DECISIONS, ids=lambda path: path.stem)
def test_a_decision_is_short(path: Path) -> None:
    lines = path.read_text("utf-8").splitlines()
    assert len(lines) <= 40, "move what was measured to benchmarks/notes, and link to it"
    assert re.match(rf"# {path.name[:3]}: [A-Z]", lines[0]) and lines[2].startswith("**Question")
    notes = f"benchmarks/notes/{path.name}"
    assert not (ROOT / notes).exists() or notes in "\n".join(lines)


WRITTEN = {
    "docs/expressions.md",
    "docs/functions.md",
    "docs/plans.md",
    "docs/windows.md",
}
"""Pages that are written by code and break their lines otherwise."""
PROSE = [
    path
    for folder in ("", "docs", "docs/decisions", "docs/releases", "benchmarks", "benchmarks/notes")
    for path in sorted((ROOT / folder).glob("*.md"))
    if path.relative_to(ROOT).as_posix() not in WRITTEN
]


@pytest.mark.parametrize("path", PROSE, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_lines_are_short(path: Path) -> None:
    """Blocks of code stay as they run, and rows of tables cannot be broken."""
    text = re.sub(r"^```.*?^```$", "", path.read_text("utf-8"), flags=re.M | re.S)
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("|")]
    assert [line for line in lines if len(line) > 160] == []


TABLES: dict[tuple[str, int], dict[str, Any]] = {
    ("changelog-functions.md", 0): {"events": "id INT, name STRING, code STRING"},
    ("joins.md", 0): {"orders": "id INT, customer INT", "customers": "customer INT, name STRING"},
    ("joins.md", 1): {
        "orders": "customer INT, amount INT",
        "customers": "id INT, city STRING",
    },
    ("joins.md", 2): {
        "trades": "id INT, symbol STRING, at TIMESTAMP",
        "quotes": "symbol STRING, at TIMESTAMP, price INT, PRIMARY KEY (symbol, at) NOT ENFORCED",
        "orders": "id INT, amount INT, at TIMESTAMP, currency STRING",
        "rates": "currency STRING, rate INT, at TIMESTAMP, PRIMARY KEY (currency) NOT ENFORCED",
    },
    ("joins.md", 3): {
        "orders": "id INT, amount INT, currency STRING",
        "rates": "currency STRING, rate INT",
    },
    ("joins.md", 4): {
        "shown": "id INT, ad INT, at TIMESTAMP",
        "clicks": "id INT, ad INT, at TIMESTAMP",
    },
    ("joins.md", 5): {"a": "id INT, k INT, t TIMESTAMP", "b": "id INT, k INT, t TIMESTAMP"},
    ("over.md", 0): {"t": "account INT, at BIGINT, amount INT"},
    ("rank.md", 0): {"t": "category STRING, shop INT, sales INT"},
    ("rank.md", 1): {"t": "shop INT, price INT, ts TIMESTAMP"},
    ("recursion.md", 0): {"contents": "product STRING, part STRING, pieces INT"},
    ("recursion.md", 1): {"starts": "id INT", "links": "source INT, target INT"},
    ("recursion.md", 2): {"t": "id INT"},
    ("sql.md", 1): {
        "transfers": "account INT, amount INT, state STRING",
        "refunds": "account INT, amount INT",
    },
    ("table-functions.md", 0): {
        "orders": "id INT, items ARRAY<STRUCT<name STRING, price INT>>",
    },
    ("table-functions.md", 1): {"orders": "id INT, items ARRAY<STRING>"},
    ("sub-queries.md", 0): {
        "customers": "id INT, name STRING, region STRING, since DATE",
        "open_regions": "region STRING",
        "complaints": "customer INT, at DATE",
        "orders": "customer INT",
    },
    ("sub-queries.md", 1): {"t": "k INT, y INT", "u": "k INT, x INT"},
    ("sub-queries.md", 2): {"t": "k INT, y INT", "u": "k INT, x INT"},
}


@pytest.mark.parametrize(("page", "number"), TABLES)
def test_queries_are_planned(page: str, number: int) -> None:
    tables = TABLES[page, number]
    # A temporal join tells rows once: what it tells of does not change.
    as_of = {"input_changes": {"orders": "append"}, "watermarks": {"orders": "at", "rates": "at"}}
    for query in blocks(page, "sql")[number].split(";\n\n"):
        more: dict[str, Any] = as_of if "SYSTEM_TIME" in query else {}
        if "PROCTIME" in query:
            del more["watermarks"]
        if "FROM_CHANGELOG" in query:
            more = {"input_changes": "append"}
        assert "plan\n" in al.explain(query, tables=tables, **more)


def test_the_scripts_of_the_page_on_scripts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, script, clicks, hinted = blocks("scripts.md", "sql")
    (lines,), (shown,) = blocks("scripts.md", "shell"), blocks("scripts.md", "text")
    monkeypatch.chdir(tmp_path)
    Path("job.sql").write_text(first, encoding="utf-8")
    *_, printed_rows = map(command, lines.splitlines())
    assert printed_rows == shown
    (job,), (plan,) = jobs_of(complete({"sql": script, "checkpoint": "state"}, "page"))
    assert job.into == "totals" and "GroupAggregate" in plan
    (job,), _ = jobs_of(
        complete({"sql": f"{clicks} SELECT * FROM clicks", "checkpoint": "state"}, "page")
    )
    assert job.tables[0].metadata == {"sent": "timestamp", "offset": "offset"}
    tables, _ = script.split("EXPLAIN", 1)
    (job,), _ = jobs_of(complete({"sql": tables + hinted, "checkpoint": "state"}, "page"))
    assert job.into == "totals" and job.tables[0].kafka["start"] == "latest"


def test_job_files(tmp_path: Path) -> None:
    (job,) = blocks("spark.md", "yaml")
    (tmp_path / "job.yaml").write_text(job)
    read = read_job(tmp_path / "job.yaml")
    assert read.sink == "table" and dict(read.options) == {"table.exec.state.ttl": "1 d"}
    sink = yaml.safe_load(blocks("sinks.md", "yaml")[0])
    (tmp_path / "job.yaml").write_text(yaml.safe_dump({**yaml.safe_load(job), **sink}))
    assert read_job(tmp_path / "job.yaml").sink == sink["sink"]
    tables = yaml.safe_load(blocks("sources.md", "yaml")[0])
    text = yaml.safe_dump({**tables, "sql": "SELECT * FROM orders", "checkpoint": "state/"})
    (tmp_path / "job.yaml").write_text(text)
    (table,) = read_job(tmp_path / "job.yaml").tables
    assert table.lake is not None and table.lake["start"] == "2026-01-31T12:00:00"


def rows_of(text: str, width: int, head: tuple[str, ...] = ()) -> list[tuple[Any, ...]]:
    """The changes in a text such as `-U 1 12 #1   +U 2 19 #1`, each with `width` values."""
    words = re.split(r"[\s,#:]+", text)
    found: list[tuple[Any, ...]] = []
    for at, word in enumerate(words):
        if re.fullmatch(r"[+-][IUD]", word):
            values = [w for w in words[at + 1 :] if w not in head][:width]
            found.append(
                (word, *(None if v == "NULL" else int(v) if v.isdigit() else v for v in values))
            )
    return found


def answers(
    harness: al.Harness, rows: list[tuple[Any, ...]], table: str | None = None
) -> list[Any]:
    harness.process(rows, table=table)
    harness.flush()
    return list(harness.changes())


def test_what_the_page_on_window_functions_tells() -> None:
    steps, bundle = blocks("over.md", "text")[1:3]
    sql = "SELECT n, SUM(n) OVER (ORDER BY n) AS s FROM t"
    table = {"t": "n BIGINT"}
    made: dict[str, Any] = {"backend": "python", "mini_batch_enabled": False}
    with al.Harness.from_sql(sql, table, **made) as harness:
        for line in steps.splitlines()[1:]:
            found = answers(harness, rows_of(line[:18], 1))
            assert sorted(found) == sorted(rows_of(line[47:], 2)), line
    with al.Harness.from_sql(sql, table, backend="python") as harness:
        answers(harness, [("+I", 1), ("+I", 5), ("+I", 4)])
        assert sorted(answers(harness, rows_of(bundle[:18], 1))) == sorted(rows_of(bundle[47:], 2))


def test_what_the_page_on_ranks_tells() -> None:
    steps, batch, plain = blocks("rank.md", "text")[1:4]
    (sql, _), table = blocks("rank.md", "sql"), {"t": "category STRING, shop INT, sales INT"}
    head = ("book", "shop")
    sales = {1: 12, 2: 19, 4: 15}
    with al.Harness.from_sql(sql, table, backend="python", mini_batch_enabled=False) as harness:
        for step in steps.partition("\n")[2].split("\n\n"):
            lines = step.splitlines()
            ((kind, shop, amount),) = rows_of(lines[0][:24].replace("book, shop", ""), 2)
            told = rows_of(" ".join(line[48:] for line in lines), 3)
            found = answers(harness, [(kind, "book", shop, amount)])
            assert sorted((k, *v) for k, _, *v in found) == sorted(told)
    with al.Harness.from_sql(sql, table, backend="python") as harness:
        found = answers(harness, [("+I", "book", shop, amount) for shop, amount in sales.items()])
        assert sorted((k, *v) for k, _, *v in found) == sorted(
            rows_of(batch.partition("   ")[2], 3)
        )
    unnumbered = sql.replace(", place FROM", " FROM")
    with al.Harness.from_sql(
        unnumbered, table, backend="python", mini_batch_enabled=False
    ) as harness:
        for line in plain.splitlines():
            ((kind, shop),) = rows_of(line[:12], 1, head)
            found = answers(harness, [(kind, "book", shop, sales[shop])])
            assert sorted((k, *v) for k, _, *v in found) == sorted(rows_of(line[12:], 2))


def test_what_the_page_on_joins_tells() -> None:
    _, told = blocks("joins.md", "text")
    (sql, *_), tables = blocks("joins.md", "sql"), TABLES["joins.md", 0]
    keys = {"orders": "id", "customers": "customer"}
    with al.Harness.from_sql(sql, tables, backend="python", keys=keys) as harness:
        for line in told.splitlines()[1:]:
            table, what, leaves = line[:11].strip(), line[11:40], line[40:].partition("(")[0]
            given = rows_of(what.replace("customer", ""), 2)
            found = sorted(answers(harness, given, table), key=str)
            expected = sorted(rows_of(leaves, 2), key=str)
            if "(" in line:
                # In one bucket the order keeps its place.
                expected = [("+U", 1, None), ("-U", 1, "bob")]
            assert found == expected, line


def printed(code: str, names: dict[str, Any]) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(code, names)
    return out.getvalue()


def command(line: str) -> str:
    """Return the output of one of our commands."""
    ran = CliRunner().invoke(main, shlex.split(line)[1:], prog_name="aggloom")
    assert ran.exit_code == 0, ran.output
    return ran.stdout


def test_the_page_on_notebooks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (code,), (shown,) = (blocks("notebooks.md", k) for k in ("python", "text"))
    shell, module = blocks("notebooks.md", "shell")
    assert printed(code, {}) == shown
    first, second = shell.splitlines()
    command(first)
    assert command(second) == "customer,n\nAda,3\nZoë,1\nŁucja,1\n"
    written, layout, source, again = map(command, module.splitlines())
    assert written == again == "generated/sums.py\n"
    assert "sum_n" in layout and source == Path("generated/sums.py").read_text("utf-8")


def test_the_page_on_tests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (text,), (line,) = blocks("testing.md", "yaml"), blocks("testing.md", "shell")
    shown, failed = blocks("testing.md", "text")
    file = tmp_path / "tests" / "totals.yaml"
    file.parent.mkdir()
    file.write_text(text, encoding="utf-8")
    assert command(line) == shown
    wrong = yaml.safe_load(text)
    wrong["tests"][0]["expect"][0]["spent"] = 9
    file.write_text(yaml.safe_dump(wrong, allow_unicode=True), encoding="utf-8")
    ran = CliRunner().invoke(main, ["test"], prog_name="aggloom")
    assert (ran.exit_code, ran.stdout) == (1, failed)
