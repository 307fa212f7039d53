"""The comments of generated State, Inputs and Outputs say the type and the shape that their arrays have."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from unittest import mock

import black
import numpy as np
import pyarrow as pa
import pytest
from strategies import ARGUMENTS, REGULAR, required, spec_over

from aggloom.codegen import AggCall, generate, load
from aggloom.codegen.catalogue.registry import CATALOGUE

_DIMENSION = {"Inputs": "rows", "State": "slots", "Outputs": "rows"}


def stated_shapes(text: str, name: str) -> dict[str, str]:
    """Return the shapes that the fields of a generated class state, by field."""
    (body,) = re.findall(rf"^class {name}\(NamedTuple\):\n(.*?)\n\n\n", text, re.M | re.S)
    return dict(re.findall(r"^    (\w+): Any  # (\w+\[[\w, ]+\])", body, re.M))


def actual_shapes(fields: Any, dimension: str, views: Mapping[str, str]) -> dict[str, str]:
    """Return the shapes of the arrays in a tuple, by field; of a view its kind, of another tuple its name."""
    found = {}
    for name, array in fields._asdict().items():
        if name in views:
            found[name] = f"{views[name]}[{dimension}]"
        elif not isinstance(array, np.ndarray):
            found[name] = f"{type(array).__name__}[{dimension}]"
        else:
            more = "".join(f", {size}" for size in array.shape[1:])
            found[name] = f"{array.dtype}[{'calls' if name == 'overflow' else dimension}{more}]"
    return found


@pytest.mark.parametrize("changes", ["append", "retract"])
@pytest.mark.parametrize("name", REGULAR)
def test_arrays_have_the_shapes_that_are_stated(name: str, changes: str, tmp_path: Path) -> None:
    entry = CATALOGUE[name]
    firsts, *others = ARGUMENTS[name] or ((),)
    options = tuple(required(entry).items())
    calls = [
        AggCall(name, tuple(filter(None, (first, *(each[0] for each in others)))), options=options)
        for first in firsts or ("",)
    ]
    spec = spec_over(calls, (), "spark", changes)
    with mock.patch.object(black, "format_str", lambda text, mode: text):
        made = generate(spec, directory=tmp_path)
    handler_class: Any = load(made)
    handler = handler_class()
    accumulators = handler.createAccumulators(3)
    handler.setAccumulators(accumulators)
    columns = [pa.nulls(2, field.type) for field in spec.handler_schema]
    batch = pa.RecordBatch.from_arrays(columns, schema=spec.handler_schema)
    views = {view.name: view.kind for view in handler.VIEWS}
    fields = {
        "Inputs": handler.bind(batch),
        "State": accumulators.state._replace(pool=None),
        "Outputs": handler.outputs(2),
    }
    for which, found in fields.items():
        actual = actual_shapes(found, _DIMENSION[which], views if which == "State" else {})
        actual.pop("pool", None)
        assert stated_shapes(made.text, which) == actual
