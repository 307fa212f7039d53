"""The examples in docstrings of public names: each runs and gives what stands below it."""

from __future__ import annotations

import doctest
import inspect
import re

import pytest

import aggloom as al

NAMED = ("AggCall", "AggSpec", "Handler", "Harness")
"""Names whose docstrings have an example."""


@pytest.mark.parametrize("name", NAMED)
def test_the_example_of_a_docstring_runs(name: str) -> None:
    thing = getattr(al, name)
    (found,) = doctest.DocTestFinder(recurse=False).find(thing, name, globs={})
    assert found.examples, "no example"
    runner = doctest.DocTestRunner()
    assert runner.run(found).failed == 0


@pytest.mark.parametrize("name", ["AggCall", "AggSpec", "Harness"])
def test_a_docstring_names_every_parameter(name: str) -> None:
    """The names are those that `__init__` takes."""
    thing = getattr(al, name)
    text = thing.__doc__ or ""
    names = [each for each in inspect.signature(thing).parameters if each != "self"]
    assert [each for each in names if not re.search(rf"\b{each}\b", text)] == []
