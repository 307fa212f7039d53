"""The catalogue: what holds for every entry by being in it, over every type and in every form of call."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from duck import duckdb_table
from handlers import Row, empty, fed, handler_class, side_by_side
from model import GroupModel, knows, same, same_row, value_of
from reference import identity
from strategies import ARGUMENTS, DOMAINS, ERRS, required, spec_over
from variants import changes_for, chunk, chunks, dialect_of, every_value, exact, picked, rows_for

from aggloom.codegen import AggCall, AggSpec
from aggloom.codegen.catalogue.entry import Example
from aggloom.codegen.catalogue.registry import ALIASES, CATALOGUE, REFUSED
from aggloom.errors import CardinalityError, UnknownFunctionError
from aggloom.runtime.local.harness import Harness

EXAMPLES = [
    pytest.param(name, example, id=f"{name}-{number}")
    for name, entry in CATALOGUE.items()
    for number, example in enumerate(entry.examples)
]
examples = pytest.mark.parametrize(("name", "example"), EXAMPLES)
inputs = pytest.mark.parametrize("changes", ["append", "retract"])
over = pytest.mark.parametrize(("family", "domain"), chunks())
dialects = pytest.mark.parametrize("dialect", ["spark", "flink"])
SPARK_ALONE = ("SKEWNESS", "MODE", "TOP_K", "APPROX_TOP_K", "APPROX_COUNT_DISTINCT")
"""Entries that tests/spark/test_spark_oracle.py asks Spark about."""


def example_spec(name: str, example: Example, changes: str) -> AggSpec:
    names = [chr(ord("x") + place) for place in range(len(example.types))]
    call = AggCall(
        name,
        tuple(names[: len(names) - len(example.order_by)]),
        order_by=example.order_by,  # type: ignore[arg-type]
        options=example.options,
    )
    schema = dict(zip(names, example.types, strict=True))
    return AggSpec(schema, (), (call,), changes)  # type: ignore[arg-type]


def example_rows(example: Example) -> list[Row]:
    return [row if isinstance(row, tuple) else (row,) for row in example.rows]


def possible(name: str, changes: str) -> None:
    if changes == "retract" and CATALOGUE[name].instead:
        pytest.skip("cannot take rows back")


def laws(family: str, domain: str, changes: str = "retract", kept: Any = None) -> AggSpec:
    """The spec of a chunk, with the calls that `kept` keeps."""
    spec = chunk(family, domain, dialect_of(domain), changes)
    if spec is None:
        pytest.skip("none of them can take rows back")
    if kept is not None:
        spec = picked(spec, [kept(call) for call in spec.calls])
        if not spec.calls:
            pytest.skip("none of them is so")
    return spec


@examples
@inputs
def test_the_example_holds(name: str, example: Example, changes: str) -> None:
    possible(name, changes)
    spec, rows = example_spec(name, example, changes), example_rows(example)
    assert same(fed(spec, rows).getValue()[0], example.result, loose=1e-15)
    for cut in range(len(rows)):
        merged = fed(spec, rows[:cut])
        merged.merge(fed(spec, rows[cut:]).getAccumulators())
        assert same(merged.getValue()[0], example.result, loose=1e-15)


@examples
def test_taking_an_example_back_leaves_nothing(name: str, example: Example) -> None:
    possible(name, "retract")
    spec, rows = example_spec(name, example, "retract"), example_rows(example)
    assert fed(spec, rows, rows).getAccumulators() == empty(spec).getAccumulators()


@over
@dialects
@inputs
@pytest.mark.sampled(60)
def test_nothing_nulls_and_single_rows(
    family: str, domain: str, dialect: str, changes: str
) -> None:
    """The value over no row, one of NULLs and one of each value, and its type."""
    spec = chunk(family, domain, dialect, changes)
    if spec is None:
        pytest.skip("none of them can take rows back")
    nulls = tuple(None for _ in spec.schema)
    groups: list[list[Row]] = [[], [nulls], [nulls, nulls], *([row] for row in every_value(spec))]
    found = side_by_side(spec, groups)
    assert found.schema.types == spec.aggregate_schema.types
    for row, group in zip(zip(*found.to_pydict().values(), strict=True), groups, strict=True):
        assert same_row(spec, row, value_of(spec, group)) is None


@over
@pytest.mark.parametrize("seed", range(2))
def test_calls_over_a_changelog_agree_with_the_model(family: str, domain: str, seed: int) -> None:
    spec = laws(family, domain)
    changes = changes_for(rows_for(spec, seed), seed)
    model = GroupModel(spec)
    model.process(changes)
    handler = empty(spec)
    for kind, *row in changes:
        (handler.accumulate if kind == "+I" else handler.retract)(tuple(row))
    assert same_row(spec, handler.getValue(), model.table()[0]) is None


@over
@pytest.mark.parametrize("seed", range(2))
def test_calls_over_rows_agree_with_duckdb(family: str, domain: str, seed: int) -> None:
    spec = laws(family, domain, "append")
    rows = rows_for(spec, seed)
    (oracle,) = duckdb_table(spec, rows)
    scale = max((abs(v) for r in rows for v in r if is_finite(v)), default=0.0)
    assert same_row(spec, fed(spec, rows).getValue(), oracle, max(scale, 1e6)) is None


def is_finite(value: Any) -> bool:
    return isinstance(value, float) and math.isfinite(value)


@over
@inputs
@pytest.mark.sampled(40)
def test_merging_any_parts_is_accumulating_the_whole(
    family: str, domain: str, changes: str
) -> None:
    spec = laws(family, domain, changes)
    rows = rows_for(spec, 3)
    whole = fed(spec, rows).getValue()
    for first, second in [(0, 14), (1, 1), (5, 9), (13, 14)]:
        parts = [rows[:first], rows[first:second], rows[second:]]
        merged = empty(spec)
        for part in parts:
            merged.merge(fed(spec, part).getAccumulators())
        assert same_row(spec, merged.getValue(), whole) is None


@over
def test_merging_what_was_taken_back_elsewhere_undoes_it(family: str, domain: str) -> None:
    spec = laws(family, domain, kept=lambda call: not CATALOGUE[call.function].by_arrival)
    rows = rows_for(spec, 4)
    merged = fed(spec, rows)
    merged.merge(fed(spec, [], rows[:6]).getAccumulators())
    assert same_row(spec, merged.getValue(), fed(spec, rows[6:]).getValue()) is None
    merged.merge(fed(spec, [], rows[6:]).getAccumulators())
    assert merged.getAccumulators() == empty(spec).getAccumulators()


@over
def test_taking_rows_back_undoes_them(family: str, domain: str) -> None:
    """Some or all rows, with rows of NULLs left: the value is as if they had never come."""
    spec = laws(family, domain)
    nulls = tuple(None for _ in spec.schema)
    rows = [row for row in rows_for(spec, 5) if row != nulls]
    rest = random.Random(5).sample(rows, len(rows))
    assert fed(spec, rows, rest).getAccumulators() == empty(spec).getAccumulators()
    left = fed(spec, [nulls, *rows, nulls], rest)
    assert same_row(spec, left.getValue(), fed(spec, [nulls, nulls]).getValue()) is None


@over
def test_the_order_of_rows_matters_to_few(family: str, domain: str) -> None:
    spec = laws(family, domain, "append", lambda call: not CATALOGUE[call.function].by_arrival)
    rows = rows_for(spec, 6)
    shuffled = random.Random(6).sample(rows, len(rows))
    assert same_row(spec, fed(spec, shuffled).getValue(), fed(spec, rows).getValue()) is None


@over
def test_the_cut_into_batches_does_not_matter(family: str, domain: str) -> None:
    spec = laws(family, domain, "append")
    rows, single = rows_for(spec, 7), empty(spec)
    for row in rows:
        single.accumulate(row)
    assert single.getAccumulators() == fed(spec, rows).getAccumulators()


@over
def test_both_kinds_of_input_agree_while_rows_only_come(family: str, domain: str) -> None:
    spec = laws(family, domain)
    rows, append = rows_for(spec, 8), replace(spec, input_changes="append")
    assert same_row(spec, fed(append, rows).getValue(), fed(spec, rows).getValue()) is None


@over
@pytest.mark.sampled(20)
def test_distinct_and_filter_are_a_choice_of_rows(family: str, domain: str) -> None:
    """Each call over the rows that it chooses, with neither clause, beside the call itself over all rows."""
    spec = laws(family, domain, "append", lambda call: call.distinct or call.filter)
    rows = rows_for(spec, 9)
    bare = [replace(call, distinct=False, filter=None) for call in spec.calls]
    plain = spec_over(bare, (), spec.dialect, "append")
    groups = [chosen(spec, plain, call, rows) for call in spec.calls]
    found = side_by_side(plain, groups).to_pydict()
    expected = tuple(column[place] for place, column in enumerate(found.values()))
    assert same_row(spec, fed(spec, rows).getValue(), expected) is None


def chosen(spec: AggSpec, plain: AggSpec, call: AggCall, rows: Sequence[Row]) -> list[Row]:
    seen, out = set(), []
    for row in rows:
        named = dict(zip(spec.schema.names, row, strict=True))
        key = identity([named[name] for name in call.args])
        passes = call.filter is None or named[call.filter] is True
        if passes and not (call.distinct and key in seen):
            seen.add(key)
            out.append(tuple(named[name] for name in plain.schema.names))
    return out


@over
@pytest.mark.sampled(30)
def test_a_restored_state_goes_on_as_if_nothing_had_happened(family: str, domain: str) -> None:
    spec = laws(family, domain)
    changes = changes_for(rows_for(spec, 10), 10)
    first, rest = changes[: len(changes) // 2], changes[len(changes) // 2 :]
    with (
        Harness(handler_class(spec, "python")) as one,
        Harness(handler_class(spec, "python")) as two,
    ):
        one.process(first)
        one.flush()
        two.restore(bytes(one.snapshot()))
        for harness in (one, two):
            harness.process(rest)
            harness.flush()
        assert repr(one.table()) == repr(two.table())


@pytest.mark.parametrize("domain", DOMAINS)
def test_a_single_value_is_that_of_the_only_row(domain: str) -> None:
    spec = spec_over([AggCall("SINGLE_VALUE", (domain,))])
    for value in [None, *DOMAINS[domain][1]]:
        assert same_row(spec, fed(spec, [(value,)]).getValue(), (value,)) is None
        again = fed(spec, [(value,), (value,), (None,)], [(None,), (value,)])
        assert same_row(spec, again.getValue(), (value,)) is None
        with pytest.raises(CardinalityError):
            fed(spec, [(value,), (None,)]).getValue()
        with pytest.raises(CardinalityError):
            fed(spec, [(value,), (value,)]).getValue()


@pytest.mark.parametrize("name", CATALOGUE)
def test_an_entry_is_whole(name: str) -> None:
    entry = CATALOGUE[name]
    assert name == entry.name == name.upper()
    assert entry.doc.endswith(".")
    assert entry.keeps
    assert entry.cost
    assert entry.examples
    # What no other engine judges has examples enough, or a model in reference.py.
    args = tuple(names[0] for names in ARGUMENTS[name])
    call = AggCall(name, args, options=tuple(required(entry).items()))
    modelled = knows(call, spec_over([call], (), "spark", "append").arg_types(call))
    if not entry.oracle and name not in SPARK_ALONE and not modelled:
        assert len(entry.examples) >= 2


def test_every_name_is_told_apart() -> None:
    assert set(ALIASES.values()) <= set(CATALOGUE)
    assert not (set(ALIASES) | set(REFUSED)) & set(CATALOGUE)
    assert set(ERRS) <= set(CATALOGUE)


@pytest.mark.parametrize("name", list(REFUSED))
def test_what_another_operator_does_is_refused_with_its_name(name: str) -> None:
    with pytest.raises(UnknownFunctionError, match="with OVER"):
        AggSpec("x INT", (), (AggCall(name, ("x",)),))


def test_approximate_calls_keep_what_exact_ones_would_not() -> None:
    spec = chunk("aggloom.codegen.catalogue.sketches", "whole", "spark", "append")
    assert spec is not None
    assert not any(exact(spec))
