"""docs/windows.md: its examples run, print and draw what the page shows, and its SQL and its Spark code are read."""

from __future__ import annotations

import ast
import inspect
import re
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
from writers.windows import main, render_page

import aggloom
from aggloom.codegen.planner import WindowAggregate, plan_query, walk
from aggloom.codegen.planner.options import FLINK_NAMES, PlanOptions
from aggloom.codegen.windows import Assigner, Evictor, Trigger
from aggloom.errors import SpecError

PATH = Path(__file__).parents[2] / "docs" / "windows.md"
PAGE = PATH.read_text(encoding="utf-8")
TABLES = {"t": "name STRING, amount INT, ts TIMESTAMP"}
COMMAND = "run 'make docs'"


def blocks(kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```$", PAGE, re.M | re.S)


def test_the_page_and_its_pictures_are_what_the_examples_give() -> None:
    page, pictures = render_page(PAGE)
    assert page == PAGE, COMMAND
    for name, svg in pictures.items():
        path = PATH.parent / name
        assert path.exists() and path.read_text(encoding="utf-8") == svg, f"{name}: {COMMAND}"
    assert set(re.findall(r"!\[[^\]]+\]\(([^)]+)\)", PAGE)) == set(pictures)
    kept = {f"windows/{path.name}" for path in (PATH.parent / "windows").iterdir()}
    assert kept == set(pictures), "a picture that the page does not show"


def test_pictures_have_no_ids_or_scripts() -> None:
    for path in (PATH.parent / "windows").glob("*.svg"):
        text = path.read_text(encoding="utf-8")
        assert ET.fromstring(text).get("width") == "760"
        assert " id=" not in text and "<script" not in text and "prefers-color-scheme:dark" in text


@pytest.mark.parametrize("sql", blocks("sql"))
def test_the_sql_on_the_page_is_planned(sql: str) -> None:
    plan = plan_query(sql, TABLES)
    assert sum(isinstance(node, WindowAggregate) for node in walk(plan.root)) == 1


@pytest.mark.parametrize("code", blocks("python spark"))
def test_the_spark_code_on_the_page_names_what_there_is(code: str) -> None:
    tree = ast.parse(code)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            module = __import__(node.module, fromlist=["names"])
            assert all(hasattr(module, name.name) for name in node.names)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            owner = node.func.value
            if isinstance(owner, ast.Name) and owner.id == "al":
                _check_call(getattr(aggloom, node.func.attr), node)
    compile(tree, "docs/windows.md", "exec")


def _check_call(function: Any, call: ast.Call) -> None:
    """Fails if the function does not take these arguments."""
    keywords = {keyword.arg: None for keyword in call.keywords if keyword.arg}
    inspect.signature(function).bind(*call.args, **keywords)


def test_the_page_names_every_window_trigger_and_evictor() -> None:
    bases = (Assigner, Trigger, Evictor)
    public = [getattr(aggloom, name) for name in aggloom.__all__]
    classes = [each for each in public if isinstance(each, type) and issubclass(each, bases)]
    for each in classes:
        assert each in bases or re.search(rf"\b{each.__name__}\(", PAGE), each.__name__


def test_the_page_names_options_that_there_are() -> None:
    for name in re.findall(r"table\.[a-z.-]+[a-z]", PAGE):
        assert any(known.startswith(name) for known in FLINK_NAMES), name
    assert hasattr(PlanOptions(), "source_idle_timeout")


# The generator


def test_a_page_that_is_wrong_is_written_again(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    text = "```python\nprint(1 + 1)\n```\n```text\n3\n```\n\n```python spark\nprint(nothing)\n```\n"
    page.write_text(text, encoding="utf-8")
    main([str(page)])
    assert page.read_text(encoding="utf-8") == text.replace("3", "2")


def test_pictures_are_written_beside_the_page(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    code = (
        "import aggloom as al\n"
        'spec = al.AggSpec.from_sql("SELECT SUM(a) AS s FROM t", "a INT")\n'
        'al.Harness(spec, window=al.CountWindow(2), backend="python").timeline()\n'
    )
    page.write_text(f"```python\n{code}```\n\n![A picture](pictures/one.svg)\n", encoding="utf-8")
    main([str(page)])
    ET.fromstring((tmp_path / "pictures" / "one.svg").read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("page", "message"),
    [
        ("```python\nprint(1)\n```\n", "line 2: the example prints something"),
        ("\n```python\n1\n```\n\n![A](a.svg)\n", "line 3: the last line .* is no timeline"),
    ],
)
def test_a_page_that_cannot_be_written(page: str, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        render_page(page)


def test_one_page_is_named() -> None:
    with pytest.raises(SpecError, match="name one page"):
        main([])
