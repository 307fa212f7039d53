"""The catalogue: what holds for every entry by being in it."""

from __future__ import annotations

from typing import Any, Literal

import pytest

from aggloom.codegen import AggCall, AggSpec, generate, load
from aggloom.codegen.catalogue import ALIASES, CATALOGUE, REFUSED
from aggloom.errors import UnknownFunctionError

entries = pytest.mark.parametrize("name", list(CATALOGUE))
backends = pytest.mark.parametrize("backend", ["numba", "python"])
inputs = pytest.mark.parametrize("changes", ["append", "retract"])


def handler(name: str, backend: Any, changes: Literal["append", "retract"]) -> Any:
    spec = AggSpec("x INT", (), (AggCall(name, ("x",)),), input_changes=changes)
    made = load(generate(spec, backend=backend))()
    made.setAccumulators(made.createAccumulators())
    return made


@entries
@backends
@inputs
def test_the_example_holds(name: str, backend: str, changes: Any) -> None:
    values, result = CATALOGUE[name].example
    whole = handler(name, backend, changes)
    for value in values:
        whole.accumulate((value,))
    assert whole.getValue() == (result,)


@entries
@backends
def test_retracting_undoes_accumulating(name: str, backend: str) -> None:
    values, result = CATALOGUE[name].example
    made = handler(name, backend, "retract")
    fresh = handler(name, backend, "retract")
    for value in values:
        made.accumulate((value,))
    for value in (7, None, 7):
        made.accumulate((value,))
    for value in (7, 7, None):
        made.retract((value,))
    assert made.getValue() == (result,)
    for value in values:
        made.retract((value,))
    assert made.getAccumulators() == fresh.getAccumulators()


@entries
@backends
@inputs
def test_nothing_and_nulls_alone(name: str, backend: str, changes: Any) -> None:
    made = handler(name, backend, changes)
    empty = made.getValue()
    made.accumulate((None,))
    assert made.getValue() == empty
    assert empty in ((None,), (0,))


def test_every_name_is_upper_case_and_told_apart() -> None:
    assert all(name == entry.name == name.upper() for name, entry in CATALOGUE.items())
    assert all(entry.doc.endswith(".") for entry in CATALOGUE.values())
    assert set(ALIASES.values()) <= set(CATALOGUE)
    assert not (set(ALIASES) | set(REFUSED)) & set(CATALOGUE)


@pytest.mark.parametrize("name", list(REFUSED))
def test_what_another_operator_does_is_refused_with_its_name(name: str) -> None:
    with pytest.raises(UnknownFunctionError, match="OVER or Top-N"):
        AggSpec("x INT", (), (AggCall(name, ("x",)),))
