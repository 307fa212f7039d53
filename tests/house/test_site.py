"""The site (`make site`): every page and every public name is on it, and links lead somewhere. CI makes it whole."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

import aggloom as al

ROOT = Path(__file__).parents[2]
SITE = ROOT / "docs" / "site"
PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for pattern in (
        "*.md",
        "docs/*.md",
        "docs/decisions/*.md",
        "docs/releases/*.md",
        "benchmarks/*.md",
        "benchmarks/notes/*.md",
        "benchmarks/results/*.md",
    )
    for path in ROOT.glob(pattern)
)
_LINK = re.compile(r"\]\(([^)\s]+)\)")


def anchors(text: str) -> set[str]:
    """The names that a page's headings have in links, as GitHub makes them."""
    bare = re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S)
    names = re.findall(r"^#+ +(.+?) *$", bare, re.M)
    words = (re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", name) for name in names)
    return {re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in words}


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    path = ROOT / page
    text = re.sub(r"^```.*?^```$|`[^`\n]*`", "", path.read_text("utf-8"), flags=re.M | re.S)
    for link in _LINK.findall(text):
        if re.match(r"[a-z]+:", link):
            continue
        file, _, name = link.partition("#")
        target = path.parent / file if file else path
        assert target.exists(), link
        if name and target.suffix == ".md":
            assert name in anchors(target.read_text("utf-8")), link


def test_every_page_is_in_a_list() -> None:
    listed = re.findall(r"```\{toctree\}\n:caption.*?```", (SITE / "index.md").read_text(), re.S)
    named = {line for part in listed for line in part.splitlines()}
    pages = {
        path.relative_to(ROOT).with_suffix("").as_posix() for path in (ROOT / "docs").glob("*.md")
    }
    pages |= {path.stem for path in ROOT.glob("*.md")}
    assert pages <= named
    for name in named:
        if re.fullmatch(r"(docs|reference)/[\w-]+|[A-Z]+|tutorial", name):
            found = [place / f"{name}.md" for place in (ROOT, SITE)]
            assert any(each.exists() for each in found), name


def test_every_public_name_is_in_the_reference() -> None:
    text = (SITE / "reference" / "python.md").read_text()
    named = re.findall(r"^\.\. auto(?:class|function):: aggloom\.(\w+)$", text, re.M)
    assert sorted([*named, "errors"]) == sorted(al.__all__)


def test_the_tutorial_is_the_readme() -> None:
    ends = re.findall(r':(?:start|end)-\w+: "(.*)"', (SITE / "tutorial.md").read_text())
    readme = (ROOT / "README.md").read_text()
    assert len(ends) == 2 and all(readme.count(f"\n{end}\n") == 1 for end in ends)
    made = ["make", "--dry-run", "--no-print-directory", "site"]
    ran = subprocess.run(made, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0 and "sphinx-build" in ran.stdout and " -W " in ran.stdout
