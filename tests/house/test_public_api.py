"""Public names: each says its parameters, has an Example that runs, and stands on the page of the reference."""

from __future__ import annotations

import contextlib
import doctest
import inspect
import io
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import aggloom as al
from aggloom import local

ROOT = Path(__file__).parents[2]
NAMES = [name for name in al.__all__ if name != "errors"]
LOCAL = list(local.__all__)
_SEE = re.compile(r"^Example: see `(\w+)`\.$", re.M)
_WITH_METHODS = (
    "AggSpec",
    "Assigner",
    "Evictor",
    "Handler",
    "Harness",
    "Trigger",
    "WindowFunction",
    "Windowing",
)
"""Classes whose methods users call or write."""
NOT_RUN = {"read_kafka": "needs Kafka and Spark's connector: tests/spark/test_spark_kafka.py"}
"""Examples that need what a machine does not have by itself, with the test of what they do."""


def find_public(name: str) -> Any:
    """The object of a public name of the package or, behind a dot, of its local engine."""
    head, _, rest = name.partition(".")
    return getattr(local, rest) if head == "local" else getattr(al, name)


def doc_of(name: str) -> str:
    return inspect.getdoc(find_public(name)) or ""


def parameters_of(value: Any) -> list[str]:
    """The names of parameters, without self; none of a class without a signature of its own."""
    if inspect.isclass(value) and value.__init__ is object.__init__:  # type: ignore[misc]
        return []
    if inspect.isclass(value) and (
        getattr(value, "_is_protocol", False) or issubclass(value, al.TriggerResult)
    ):
        return []
    return [each for each in inspect.signature(value).parameters if each != "self"]


def names_parameter(doc: str, name: str) -> bool:
    """Tell whether a docstring says a parameter: `name`, or a name or a list of names before a colon."""
    return bool(
        re.search(rf"`{name}`|`{name}=|(?<![\w.`]){name}(?:, \w+)*(?:=\w+)?:(?!\w)", doc)
    ) or bool(re.search(rf"(?<![\w.`]){name}(?:,\s+\w+)*:\s", doc))


def unnamed_parameters(value: Any) -> list[str]:
    doc = inspect.getdoc(value) or ""
    return [name for name in parameters_of(value) if not names_parameter(doc, name)]


EVERY = [*NAMES, *(f"local.{name}" for name in LOCAL)]


@pytest.mark.parametrize("name", EVERY)
def test_a_public_name_says_its_parameters(name: str) -> None:
    assert unnamed_parameters(find_public(name)) == []


def methods_of(name: str) -> Iterator[tuple[str, Callable[..., Any]]]:
    """The public methods of a class that it defines itself or inherits within the package."""
    for method, value in inspect.getmembers(getattr(al, name), callable):
        if not method.startswith("_") and value.__module__.startswith("aggloom"):
            yield method, value


@pytest.mark.parametrize("name", _WITH_METHODS)
def test_its_methods_say_theirs(name: str) -> None:
    unnamed = {method: unnamed_parameters(value) for method, value in methods_of(name)}
    assert {method: missing for method, missing in unnamed.items() if missing} == {}
    assert [method for method, value in methods_of(name) if not inspect.getdoc(value)] == []


def test_a_parameter_that_nothing_says_is_seen() -> None:
    def call(rows: int, keys: str, side: str = "", *, table: str = "") -> None:
        """Rows of a table go to the side.

        keys, side: two of them. The `table` is where.
        """

    assert unnamed_parameters(call) == ["rows"]


def example_of(name: str) -> doctest.DocTest:
    return doctest.DocTestParser().get_doctest(doc_of(name), {}, name, name, 0)


@pytest.mark.parametrize("name", EVERY)
def test_a_public_name_has_an_example(name: str) -> None:
    doc = doc_of(name)
    see = _SEE.search(doc)
    if see is None:
        assert "\nExample:\n" in doc and example_of(name).examples, f"{name}: give it an example"
        return
    prefix = name.rpartition(".")[0]
    other = example_of(f"{prefix}.{see[1]}" if prefix else see[1])
    called = f"{prefix or 'al'}.{name.rpartition('.')[2]}("
    assert any(called in each.source for each in other.examples), f"{see[1]} does not call it"


def needs_spark(name: str) -> bool:
    return any("al.session(" in each.source for each in example_of(name).examples)


def run_example(name: str, names: dict[str, Any]) -> None:
    test, out = example_of(name), io.StringIO()
    test.globs.update(names)
    with contextlib.redirect_stdout(out):
        failed = doctest.DocTestRunner(verbose=False).run(test, out=out.write).failed
    assert not failed, out.getvalue()


@pytest.mark.parametrize("name", [each for each in EVERY if not needs_spark(each)])
def test_an_example_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run_example(name, {})


@pytest.mark.spark
@pytest.mark.parametrize(
    "name", [each for each in EVERY if needs_spark(each) and each not in NOT_RUN]
)
def test_an_example_runs_on_spark(
    name: str, spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(al, "session", lambda **_: spark)
    monkeypatch.chdir(tmp_path)
    run_example(name, {})


def test_what_does_not_run_is_public_and_has_a_test() -> None:
    assert {*NOT_RUN} <= {*NAMES}
    for why in NOT_RUN.values():
        assert all((ROOT / path).exists() for path in re.findall(r"tests/[\w/]+\.py", why))


def test_every_public_name_is_on_the_page_of_the_reference_and_in_the_strict_script() -> None:
    page = (ROOT / "docs" / "site" / "reference" / "python.md").read_text("utf-8")
    listed = re.findall(r"auto(?:class|function):: aggloom\.([\w.]+)", page)
    assert sorted(listed) == sorted(EVERY)
    script = (ROOT / "tests" / "support" / "strict_user.py").read_text("utf-8")
    shown = [name if name.startswith("local.") else f"al.{name}" for name in EVERY]
    assert [name for name in shown if not re.search(rf"\b{name}\b", script)] == []
