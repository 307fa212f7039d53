"""Settings of operators: what JSON holds of them, what may change under a state, and what is refused."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from typing import Any

import pyarrow as pa
import pytest

import aggloom.codegen.operators as operators
from aggloom.codegen import AggSpec
from aggloom.codegen.planner import Stateful
from aggloom.errors import SpecError
from aggloom.runtime.operators.deduplicate.spec import DeduplicateSpec
from aggloom.runtime.operators.normalise import NormaliseSpec
from aggloom.runtime.operators.rank.spec import RankSpec
from aggloom.runtime.operators.registry import KINDS, SPECS, operator_from, spec_class
from aggloom.runtime.operators.settings import changing_fields
from aggloom.runtime.state.sort_key import SortColumn

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.decimal128(12, 2)), ("t", pa.timestamp("us"))])
NORMALISE = NormaliseSpec(schema=SCHEMA, keys=1)
RANK = RankSpec(
    schema=SCHEMA,
    keys=1,
    function="RANK",
    sort=(SortColumn(2, descending=True),),
    strategy="retract",
    end=3,
    identity=(0, 1),
)
DEDUPLICATE = DeduplicateSpec(schema=SCHEMA, keys=1, keep="last", order="t", waits=True)


@pytest.mark.parametrize("spec", [NORMALISE, RANK, DEDUPLICATE], ids=lambda spec: spec.kind)
def test_json_holds_all_settings(spec: Any) -> None:
    data = json.loads(json.dumps(spec.to_data()))
    assert set(data) == {field.name for field in fields(spec)}
    assert operator_from(spec.kind, data, AggSpec(SCHEMA, ("k",), ())) == spec


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"keys": "1"}, "'1' is no int"),
        ({"keys": True}, "True is no int"),
        ({"function": "NTILE"}, "'NTILE' is none of 'ROW_NUMBER', 'RANK', 'DENSE_RANK'"),
        ({"sort": 7}, "7 is no list"),
        ({"sort": [{"column": 1, "falling": True}]}, "falling"),
        ({"sort": [{}]}, "column"),
        ({"colour": "red"}, "colour"),
        ({"schema": [["k"]]}, "not enough values"),
        ({"state_ttl_ms": None}, "None is no int"),
    ],
    ids=str,
)
def test_settings_of_another_kind_are_refused(change: dict[str, Any], error: str) -> None:
    data = {**RANK.to_data(), **change}
    with pytest.raises(SpecError, match=f"^rank: settings that cannot be read: .*{error}"):
        RankSpec.from_data(data)


def test_a_setting_that_is_missing_has_its_default_or_is_named() -> None:
    data = RANK.to_data()
    del data["state_ttl_ms"]
    assert RankSpec.from_data(data) == RANK
    del data["strategy"]
    with pytest.raises(SpecError, match="strategy"):
        RankSpec.from_data(data)


def test_only_changing_settings_change_under_a_state() -> None:
    other = replace(RANK, update_before=False, state_ttl_ms=5, function="ROW_NUMBER", end=9)
    assert RANK.with_changing(other.to_data()) == replace(RANK, update_before=False, state_ttl_ms=5)


def test_what_is_fixed_is_not_read_under_a_state() -> None:
    """A user's own trigger is no JSON, and yet the settings that may change are read beside it."""
    data = {**RANK.to_data(), "sort": "a class of the user's", "state_ttl_ms": 7}
    assert RANK.with_changing(data) == replace(RANK, state_ttl_ms=7)
    with pytest.raises(SpecError, match=r"^rank: settings that cannot be read: .*'x' is no int"):
        RANK.with_changing({**data, "state_ttl_ms": "x"})


def test_each_operator_says_what_may_change() -> None:
    for kind in SPECS:
        spec = spec_class(kind)
        assert spec.kind == kind
        assert {"update_before", "state_ttl_ms", "on_orphan_retraction"} & set(
            changing_fields(spec)
        ), spec


def test_each_node_with_state_has_an_operator() -> None:
    # The face imports a node when it is named.
    assert all(hasattr(operators, name) for name in operators.__all__)
    nodes, above = set(), [Stateful]
    while above:
        node = above.pop()
        nodes.add(node.__name__)
        above += node.__subclasses__()
    assert nodes == {*KINDS, "Stateful", "KeyedRowsNode", "TimedRowsNode", "TwoSided"}
    assert set(KINDS.values()) == set(SPECS)
