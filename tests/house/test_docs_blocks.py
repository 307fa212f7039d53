"""The Python of docs/: every page's blocks run in their order from an empty folder, without names from elsewhere."""

from __future__ import annotations

import ast
import builtins
import contextlib
import io
import linecache
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import aggloom as al
from aggloom.cli import main

ROOT = Path(__file__).parents[2]
PAGES = sorted(path.name for path in (ROOT / "docs").glob("*.md"))
_FENCE = re.compile(r"^```(python|text)\b([^\n]*)\n(.*?)^```\n", re.M | re.S)
SPARK = {
    ("formats.md", "al.session()"): "reads files and a DataFrame on Spark",
    ("joins.md", "al.session()"): "joins DataFrames",
    ("joins.md", "al.asof_join("): "joins DataFrames",
    ("joins.md", "al.sql(query"): "joins DataFrames",
    ("over.md", "al.session()"): "takes a DataFrame",
    ("rank.md", "al.session()"): "takes a DataFrame",
    ("sinks.md", "al.session()"): "makes the changes that the other blocks write",
    ("spark.md", "al.session()"): "runs a stream",
    ("spark.md", "al.sql("): "takes a DataFrame",
    ("state.md", "al.why("): "reads a checkpoint with Spark",
}
"""Blocks that run in the Spark suite, by words in them, with the reason."""
ELSEWHERE = {
    ("clusters.md", "spark://host:7077"): "needs a cluster: tests/spark/test_clusters.py",
    ("formats.md", "al.read_kafka("): "needs Kafka: tests/spark/test_spark_avro.py",
    ("sinks.md", '"kind": "database"'): "needs PostgreSQL: tests/spark/test_spark_sinks.py",
    ("sinks.md", '"kind": "delta"'): "tests/sinks/test_delta_sink.py",
    ("sinks.md", '"kind": "iceberg"'): "needs a catalogue: tests/sinks/test_iceberg.py",
    ("sinks.md", '"kind": "kafka"'): "needs Kafka: tests/spark/test_spark_kafka.py",
    ("sources.md", "al.read_kafka("): "needs Kafka: tests/spark/test_spark_kafka.py",
    ("sources.md", "al.read_delta("): "tests/sinks/test_delta_source.py",
    ("sources.md", "al.read_iceberg("): "needs a catalogue: tests/sinks/test_iceberg.py",
}
"""Blocks that need what a machine does not have by itself, with the test of what they do."""


@dataclass(frozen=True)
class Block:
    """A block of Python, its line on the page, and the text block that follows at once: what it prints."""

    page: str
    line: int
    code: str
    output: str | None

    def reason(self, reasons: dict[tuple[str, str], str]) -> str | None:
        return next(
            (why for (p, w), why in reasons.items() if p == self.page and w in self.code), None
        )


def blocks_of(page: str) -> list[Block]:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    found: list[Block] = []
    end = -1
    for fence in _FENCE.finditer(text):
        if fence[1] == "text":
            if found and fence.start() == end:
                last = found.pop()
                found.append(Block(page, last.line, last.code, fence[3]))
            continue
        if not fence[2].strip():
            found.append(Block(page, text.count("\n", 0, fence.start()) + 1, fence[3], None))
            end = fence.end()
    return found


def names_of(code: str) -> tuple[set[str], set[str]]:
    """The names that a block binds, anywhere in it, and those that it uses."""
    bound, used = set[str](), set[str]()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Name):
            (used if isinstance(node.ctx, ast.Load) else bound).add(node.id)
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            bound.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            bound |= {(each.asname or each.name).partition(".")[0] for each in node.names}
        elif isinstance(node, ast.arg):
            bound.add(node.arg)
        elif isinstance(node, ast.ExceptHandler) and node.name:
            bound.add(node.name)
    return bound, used


def printed(block: Block, names: dict[str, Any]) -> str:
    out, file = io.StringIO(), f"docs/{block.page}:{block.line}"
    # Functions of a block are registered with their source, as in a notebook.
    lines = block.code.splitlines(keepends=True)
    linecache.cache[file] = (len(block.code), None, lines, file)
    with contextlib.redirect_stdout(out):
        exec(compile(block.code, file, "exec"), names)
    return out.getvalue()


def check_page(page: str, names: dict[str, Any], wanted: Iterator[Block]) -> None:
    for block in wanted:
        found = printed(block, names)
        if block.output is not None:
            assert found == block.output, f"{page}, line {block.line}"


@pytest.mark.parametrize("page", PAGES)
def test_no_block_uses_a_name_that_the_page_does_not_make(page: str) -> None:
    known = {*dir(builtins)}
    for block in blocks_of(page):
        bound, used = names_of(block.code)
        assert used - bound - known == set(), f"{page}, line {block.line}"
        known |= bound


def test_a_name_from_nowhere_is_seen() -> None:
    bound, used = names_of("out = al.sql(query, t=changes)\nfor row in out: print(row)")
    assert used - bound - {*dir(builtins)} == {"al", "query", "changes"}


def test_every_reason_is_that_of_a_block() -> None:
    for reasons in (SPARK, ELSEWHERE):
        for (page, words), why in reasons.items():
            assert any(words in block.code for block in blocks_of(page)), (page, words)
            for name in re.findall(r"tests/[\w/]+\.py", why):
                assert (ROOT / name).exists(), name


@pytest.mark.parametrize(
    "page", [page for page in PAGES if page not in ("windows.md", "user-functions.md")]
)
@pytest.mark.sampled(18)
def test_blocks_that_need_no_spark(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pages on windows and on functions of one's own have tests of their own, which compare more."""
    monkeypatch.chdir(tmp_path)
    own = (b for b in blocks_of(page) if b.reason(SPARK) is None and b.reason(ELSEWHERE) is None)
    check_page(page, {"__name__": "__main__"}, own)


@pytest.mark.spark
@pytest.mark.parametrize("page", sorted({page for page, _ in SPARK}))
def test_blocks_on_spark(
    page: str, spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All blocks of a page, but for those that run elsewhere.

    Paths are given in full to Spark: its JVM stays in the directory where it was started.
    """
    monkeypatch.setattr(al, "session", lambda: spark)
    monkeypatch.chdir(tmp_path)
    if page == "state.md":
        make_state(tmp_path)
    names: dict[str, Any] = {"__name__": "__main__"}
    for block in blocks_of(page):
        if block.reason(ELSEWHERE) is not None:
            continue
        code = block.code
        if block.reason(SPARK) is not None:
            code = re.sub(
                r'(?<=[":])(changes|out|checkpoint|orders|state)/', rf"{tmp_path}/\1/", code
            )
        found = printed(Block(page, block.line, code, None), names)
        if block.output is not None:
            assert found == block.output, f"{page}, line {block.line}"
        if page == "state.md":
            assert "+I {'cnt': 4} [({'total': 3, 'top': 3}, {'total': 7, 'top': 4})]" in found
    if page == "spark.md":
        assert al.progress(names["query"]).rows == 13


def make_state(folder: Path) -> None:
    """The checkpoint of the query that the page on state begins with: its command, over files of its columns."""
    (folder / "changes").mkdir()
    for number, cnt in enumerate((3, 4)):
        file = folder / "changes" / f"{number}.jsonl"
        file.write_text(f'{{"name": "Ada", "cnt": {cnt}}}\n')
        os.utime(file, (1_000 + number, 1_000 + number))
    table = f"t={folder}/changes/,format=jsonl,schema=name STRING, cnt INT,maxFilesPerTrigger=1"
    sql = "SELECT name, SUM(cnt) AS total, MAX(cnt) AS top FROM t GROUP BY name"
    arguments = ["run", "--sql", sql, "--table", table, "--sink", "table"]
    ran = CliRunner().invoke(main, [*arguments, "--checkpoint", f"{folder}/state/"])
    assert ran.exit_code == 0, ran.output
