"""`aggloom docs`: the pages in the package, and that each page which a text of the package names is one of them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from aggloom.cli import main
from aggloom.docs_cli import find_pages

ROOT = Path(__file__).parents[2]


def call(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(main, ["docs", *arguments], prog_name="aggloom")
    return result.exit_code, result.output


def test_pages_are_listed_with_their_titles() -> None:
    code, output = call()
    assert code == 0
    listed = {line.split()[0]: line.split(maxsplit=1)[1] for line in output.splitlines()}
    assert listed["formats"] == "Formats" and listed["releases/0.1.0"] == "Release 0.1.0"
    assert {*listed} >= {path.stem for path in (ROOT / "docs").glob("*.md")}


@pytest.mark.parametrize("name", ["formats", "formats.md", "docs/formats.md"])
def test_a_page_is_printed(name: str) -> None:
    assert call(name) == (0, (ROOT / "docs" / "formats.md").read_text("utf-8"))


def test_another_name_is_refused_with_the_nearest() -> None:
    code, output = call("formts")
    assert code == 2 and output == "aggloom: there is no page 'formts'. Did you mean 'formats'?\n"


def test_pages_that_texts_of_the_package_name_are_there() -> None:
    named = {
        page
        for room in ("aggloom", "codegen", "runtime")
        for path in (ROOT / room).rglob("*.py")
        for page in re.findall(r"(?<!/)\bdocs/([\w-]+)\.md", path.read_text("utf-8"))
    }
    assert named and named <= {*find_pages()}
