"""README.md: its blocks run as they stand, in their order and in one directory, and print what stands below them."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import subprocess
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from aggloom.cli import main

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "README.md").read_text(encoding="utf-8")


@dataclass(frozen=True)
class Block:
    """A fenced block, its line on the page, and the text block that follows at once: what it prints."""

    kind: str
    text: str
    line: int
    output: str = ""

    def needs_spark(self) -> bool:
        return bool(re.search(r"^aggloom (run|why)\b|\bal\.session\(", self.text, re.M))

    def is_excerpt(self) -> bool:
        return self.kind == "python" and self.text.startswith("@rt.part\ndef ")


def blocks_of(page: str) -> list[Block]:
    """The blocks of a page; a text block is the output of the one that ends on the line before it."""
    fences = list(re.finditer(r"^```(\w+)\n(.*?)^```\n", page, re.M | re.S))
    found: list[Block] = []
    end = -1
    for fence in fences:
        block = Block(fence[1], fence[2], page[: fence.start()].count("\n") + 1)
        if block.kind == "text":
            assert found and fence.start() == end, f"line {block.line}: the output of what?"
            last = found.pop()
            block = Block(last.kind, last.text, last.line, block.text)
        found.append(block)
        end = fence.end()
    return found


BLOCKS = blocks_of(PAGE)
LEFT_OUT = ("pip ", "make ")


def printed(block: Block, names: dict[str, Any]) -> str:
    """Run a block in the current directory; return its standard output."""
    if block.kind == "python":
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(block.text, names)
        return out.getvalue()
    command, _, target = block.text.replace("\\\n", " ").partition(" > ")
    program, *arguments = shlex.split(command)
    assert program == "aggloom", f"line {block.line}"
    result = CliRunner().invoke(main, arguments, prog_name="aggloom")
    assert result.exit_code == 0, result.output
    if target:
        Path(target.strip()).write_text(result.stdout, encoding="utf-8")
        return ""
    return result.stdout


def trimmed(text: str) -> str:
    """The text without spaces at the ends of lines and empty lines at its end."""
    return "\n".join(line.rstrip() for line in text.splitlines()).rstrip()


def table_of(text: str) -> list[str]:
    """The lines of a drawn table in alphabetical order; `aggloom run` may say more around it."""
    return sorted(line for line in text.splitlines() if line[:1] in set("┏┃┡│└"))


def on_any_machine(text: str) -> str:
    """The text without what depends on the number of buckets, which follows that of cores."""
    return re.sub(r"\d+(?= rows of all keys)|(?<=, bucket )\d+", "N", trimmed(text))


def test_every_block_is_of_a_known_kind() -> None:
    assert {block.kind for block in BLOCKS} == {"shell", "python"}
    spark = [block for block in BLOCKS if block.needs_spark()]
    assert len(spark) == 3 and all(block.output for block in spark)
    assert sum(block.is_excerpt() for block in BLOCKS) == 1


def test_a_stray_output_is_seen() -> None:
    with pytest.raises(AssertionError, match="line 3: the output of what"):
        blocks_of("a\n\n```text\nb\n```\n")


def test_blocks_without_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for block in BLOCKS:
        if block.needs_spark() or block.is_excerpt() or block.text.startswith(LEFT_OUT):
            continue
        assert trimmed(printed(block, names)) == trimmed(block.output), f"line {block.line}"
    (excerpt,) = (block for block in BLOCKS if block.is_excerpt())
    assert excerpt.text in (tmp_path / "generated" / "orders.py").read_text(encoding="utf-8")
    drawn = (tmp_path / "plan.svg").read_text(encoding="utf-8")
    shown = (ROOT / "docs" / "plan.svg").read_text(encoding="utf-8")
    assert drawn == shown, "run README's `aggloom explain --format svg` into docs/plan.svg"


@pytest.mark.spark
def test_blocks_with_spark(tmp_path: Path, spark: Any) -> None:
    """The directories are given in full: the session's JVM stays in the directory where it was started."""
    ran = CliRunner().invoke(main, ["sample", str(tmp_path / "changes")])
    assert ran.exit_code == 0, ran.output
    for block in filter(Block.needs_spark, BLOCKS):
        placed = re.sub(r"\b(changes|state)/", rf"{tmp_path}/\1/", block.text)
        out = printed(Block(block.kind, placed, block.line), {})
        if block.text.startswith("aggloom run"):
            assert table_of(out) == table_of(block.output) != []
        else:
            assert on_any_machine(out) == on_any_machine(block.output), f"line {block.line}"


def test_the_command_that_sample_prints_is_the_next_block() -> None:
    (place,) = (n for n, block in enumerate(BLOCKS) if block.text.startswith("aggloom sample"))
    assert BLOCKS[place].output.endswith("\n\n" + BLOCKS[place + 1].text)


def test_what_is_installed_and_made_is_there() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    commands = [
        line
        for block in BLOCKS
        if block.text.startswith(LEFT_OUT)
        for line in block.text.splitlines()
    ]
    wheel = f"{project['name']}-{project['version']}-py3-none-any.whl"
    installed = ["pip install '.[spark]'", f"pip install '{wheel}[spark]'"]
    assert commands == [*installed, "make demo", "make test"]
    assert "spark" in project["optional-dependencies"]
    for target in ("demo", "test"):
        made = ["make", "--dry-run", "--no-print-directory", target]
        assert subprocess.run(made, cwd=ROOT, capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize("page", ["README.md", "docs/performance.md"])
def test_links_lead_somewhere_and_lines_are_short(page: str) -> None:
    path = ROOT / page
    text = path.read_text(encoding="utf-8")
    for link in re.findall(r"\]\(([^)#]+)", text):
        assert link.startswith("https://") or (path.parent / link).exists(), link
    assert [line for line in text.splitlines() if len(line) > 160 and line[0] != "|"] == []
    if page == "README.md":
        assert max(map(len, text.splitlines())) <= 160


def rows_of(page: str) -> list[list[str]]:
    """The cells of a page's table rows."""
    lines = (ROOT / page).read_text(encoding="utf-8").splitlines()
    cells = [line.split("|")[1:-1] for line in lines if line.startswith("| ")]
    return [[cell.strip() for cell in row] for row in cells]


def test_the_ratios_are_those_that_were_measured() -> None:
    """The last column of the results: aggloom's speed over the contender's, once a run is under way.

    Of Flink's plans the one over which the ratio is least counts.
    """
    measured = {
        (row[0], row[1].removesuffix(", heap")): row[-1].split(" ")[0] or row[2]
        for row in rows_of("benchmarks/results/throughput.md")
    }
    shown = [row for row in rows_of("README.md") if " keys" in row[0] and len(row) == 3]
    assert len(shown) == 5
    for name, over_flink, over_spark in shown:
        case = f"SUM, MAX, COUNT; {name.replace(', ', '; ')}; 8,000,000 rows"
        plans = [f"Flink SQL, {plan}" for plan in ("plain", "mini-batch", "two-phase")]
        ran = [plan for plan in plans if (case, plan) in measured]
        best = min(ran, key=lambda plan: float(measured[case, plan]))
        for contender, ratio in {best: over_flink, "Spark's own": over_spark}.items():
            found = measured[case, contender]
            digits = len(ratio.partition(".")[2])
            rounded = f"{float(found):.{digits}f}" if digits else found
            assert rounded == ratio, (name, contender)
