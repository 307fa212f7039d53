"""The operator against DuckDB and against exact Python, on random changelogs and batch cuts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Literal

import pytest
from changelog_laws import check_laws
from duck import duckdb_table
from handlers import handler_class
from hypothesis import given
from hypothesis import strategies as st
from model import GroupModel, same_table
from strategies import RICH, changelogs, cut, examples, largest, net_rows, rows_of, specs

from aggloom.codegen import AggSpec
from aggloom.codegen.spec.choices import CHANGES
from aggloom.runtime.local.harness import Harness
from aggloom.runtime.storage import key_index as keyindex
from aggloom.runtime.values.changelog import fold

Change = tuple[Any, ...]
few, some = examples(6), examples(15)
STATES = ("distinct", "first_last", "floats")
"""Specs that hold every kind of state, where compiling all the rich ones would take minutes."""
# Compiled, which takes seconds for each: not in the quick suite.
rich = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) for name in sorted(RICH)]
)


def open_harness(
    spec: AggSpec, backend: Literal["numba", "python"] = "numba", **options: Any
) -> Harness:
    """A harness whose handler is generated once for all examples."""
    return Harness(handler_class(spec, backend), **options)


def run(spec: AggSpec, batches: Iterable[list[Change]], **options: Any) -> list[list[Change]]:
    """The changes that each batch brings."""
    with open_harness(spec, **options) as harness:
        return [_feed(harness, batch) for batch in batches]


def _feed(harness: Harness, batch: list[Change]) -> list[Change]:
    harness.process(batch)
    harness.flush()
    return harness.changes()


def _flat(batches: Iterable[list[Change]]) -> list[Change]:
    return [change for batch in batches for change in batch]


def _agree(spec: AggSpec, batches: list[list[Change]], **options: Any) -> None:
    """After every batch the folded output is the model's table and DuckDB's."""
    model, so_far, out = GroupModel(spec), [], []
    scale = largest(_flat(batches))
    with open_harness(spec, **options) as harness:
        for batch in batches:
            model.process(batch)
            so_far += batch
            new = _feed(harness, batch)
            out += new
            table = fold(out)
            assert same_table(spec, table, model.table()) is None
            assert same_table(spec, harness.table(), table) is None
            assert same_table(spec, table, duckdb_table(spec, net_rows(so_far)), scale) is None
    check_laws(out, len(spec.group_by), False)


@rich
@few
@given(data=st.data())
@pytest.mark.sampled(3)
def test_compiled_specs_agree_with_duckdb_and_the_model(name: str, data: st.DataObject) -> None:
    spec = RICH[name]
    changes = data.draw(changelogs(spec))
    batches = data.draw(cut(changes))
    _agree(
        spec,
        batches,
        backend="numba",
        mode=data.draw(st.sampled_from(["mini_batch", "per_record"])),
    )


@some
@given(data=st.data())
def test_random_specs_agree_with_duckdb_and_the_model(data: st.DataObject) -> None:
    spec = data.draw(specs())
    batches = data.draw(cut(data.draw(changelogs(spec))))
    _agree(
        spec,
        batches,
        backend="python",
        mode=data.draw(st.sampled_from(["mini_batch", "per_record"])),
    )


@some
@given(data=st.data())
def test_retractions_for_keys_without_rows_are_dropped(data: st.DataObject) -> None:
    spec = data.draw(specs())
    changes = data.draw(changelogs(spec, orphans="keys"))
    model = GroupModel(spec)
    model.process(changes)
    with open_harness(spec, backend="python") as harness:
        out = _flat(_feed(harness, batch) for batch in data.draw(cut(changes)))
        assert harness.counters["orphans_dropped"] == model.ignored
    assert same_table(spec, fold(out), model.table(), largest(changes)) is None


@rich
@few
@given(data=st.data())
@pytest.mark.sampled(3)
def test_dirty_changelogs_give_the_same_changes_on_both_backends(
    name: str, data: st.DataObject
) -> None:
    spec = RICH[name]
    batches = data.draw(cut(data.draw(changelogs(spec, orphans="any"))))
    for mode in ("mini_batch", "per_record"):
        compiled = run(spec, batches, backend="numba", mode=mode)
        plain = run(spec, batches, backend="python", mode=mode)
        assert [_sortable(b) for b in compiled] == [_sortable(b) for b in plain]
        check_laws(_flat(compiled), len(spec.group_by), False)


@pytest.mark.parametrize(
    ("name", "backend", "changes"),
    [
        *((name, "python", changes) for name in sorted(RICH) for changes in CHANGES),
        *(pytest.param(name, "numba", "retract", marks=pytest.mark.slow) for name in STATES),
        pytest.param("first_last", "numba", "append", marks=pytest.mark.slow),
    ],
)
@few
@given(data=st.data())
@pytest.mark.sampled(6)
def test_merging_the_parts_is_accumulating_the_whole(
    name: str,
    changes: Literal["append", "retract"],
    backend: Literal["numba", "python"],
    data: st.DataObject,
) -> None:
    spec = replace(RICH[name], group_by=(), input_changes=changes)
    rows = data.draw(st.lists(rows_of(spec.schema), max_size=12))

    def accumulated(part: list[tuple[Any, ...]]) -> Any:
        handler = handler_class(spec, backend)()
        handler.setAccumulators(handler.createAccumulators())
        for row in part:
            handler.accumulate(row)
        return handler

    cut_at = data.draw(st.integers(0, len(rows)))
    merged, whole = accumulated(rows[:cut_at]), accumulated(rows)
    merged.merge(accumulated(rows[cut_at:]).getAccumulators())
    scale = largest([("+I", *row) for row in rows])
    assert same_table(spec, [merged.getValue()], [whole.getValue()], scale) is None


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bytes", *STATES])
@few
@given(data=st.data())
def test_copying_the_state_after_every_batch_changes_nothing(
    name: str, data: st.DataObject
) -> None:
    spec = RICH[name]
    batches = data.draw(cut(data.draw(changelogs(spec, orphans="any"))))
    for policy in ("drop", "keep"):
        plain = run(spec, batches, on_orphan_retraction=policy)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(keyindex, "airy", lambda live, high: True)
            copied = run(spec, batches, on_orphan_retraction=policy)
        assert [sorted(_sortable(b)) for b in copied] == [sorted(_sortable(b)) for b in plain]


def _sortable(batch: list[Change]) -> list[str]:
    return [repr(change) for change in batch]


@rich
@few
@given(data=st.data())
def test_the_table_does_not_depend_on_mode_or_cuts(name: str, data: st.DataObject) -> None:
    spec = RICH[name]
    changes = data.draw(changelogs(spec, orphans="keys"))
    scale = largest(changes)
    whole = fold(_flat(run(spec, [changes])))
    per_record = fold(_flat(run(spec, [changes], mode="per_record")))
    cuts = fold(_flat(run(spec, data.draw(cut(changes)))))
    assert same_table(spec, whole, per_record, scale) is None
    assert same_table(spec, whole, cuts, scale) is None


@rich
@few
@given(data=st.data())
def test_a_bundle_changes_a_key_at_most_once(name: str, data: st.DataObject) -> None:
    spec = RICH[name]
    width = len(spec.group_by)
    batches = run(spec, data.draw(cut(data.draw(changelogs(spec, orphans="any")))))
    check_laws(_flat(batches), width, False)
    for batch in batches:
        touched = [repr(change[1 : width + 1]) for change in batch if change[0] != "-U"]
        assert len(touched) == len(set(touched))


@rich
@few
@given(data=st.data())
def test_retracting_everything_leaves_nothing(name: str, data: st.DataObject) -> None:
    spec = RICH[name]
    changes = data.draw(changelogs(spec))
    rest = [("-D", *row) for row in net_rows(changes)]
    with open_harness(spec) as harness:
        empty = harness.operator.state_bytes
        out = _feed(harness, changes) + _feed(harness, data.draw(st.permutations(rest)))
        if spec.one_row:
            # Of a global aggregate the row over nothing is left, and its key.
            nothing = duckdb_table(spec, [])
            assert not out or same_table(spec, fold(out), nothing) is None
            assert harness.counters["keys"] == (1 if out else 0)
        else:
            assert fold(out) == []
            assert harness.table() == []
            assert harness.counters["keys"] == 0
            assert harness.operator.state_bytes == empty


def test_state_shrinks_back_after_many_keys() -> None:
    spec = RICH["bytes"]
    rows = [(f"k{i}".encode(), "t" * (i % 50), i % 2 == 0) for i in range(20_000)]
    batch = [("+I", *_in_schema(spec, row)) for row in rows]
    with open_harness(spec) as harness:
        empty = harness.operator.state_bytes
        _feed(harness, batch)
        full = harness.operator.state_bytes
        _feed(harness, [("-D", *change[1:]) for change in reversed(batch)])
        assert full > empty
        assert harness.operator.state_bytes == empty
        assert harness.table() == []


def _in_schema(spec: AggSpec, row: tuple[bytes, str, bool]) -> list[Any]:
    named = dict(zip(("bytes", "text", "flag"), row, strict=True))
    return [named[name] for name in spec.schema.names]


@rich
@few
@given(data=st.data())
def test_a_restored_operator_goes_on_as_if_nothing_had_happened(
    name: str, data: st.DataObject
) -> None:
    spec = RICH[name]
    batches = data.draw(cut(data.draw(changelogs(spec, orphans="any"))))
    expected = run(spec, batches)
    got, state = [], None
    with open_harness(spec) as unbroken:
        for batch in batches:
            _feed(unbroken, batch)
            with open_harness(spec) as harness:
                if state is not None:
                    harness.restore(state)
                got.append(_feed(harness, batch))
                state = bytes(harness.snapshot())
                assert _sortable(harness.table()) == _sortable(unbroken.table())
    assert [_sortable(b) for b in got] == [_sortable(b) for b in expected]


@rich
@few
@given(data=st.data())
def test_without_update_before_only_the_replaced_rows_are_missing(
    name: str, data: st.DataObject
) -> None:
    spec = RICH[name]
    batches = data.draw(cut(data.draw(changelogs(spec))))
    for mode in ("mini_batch", "per_record"):
        full = _flat(run(spec, batches, mode=mode))
        brief = _flat(run(spec, batches, mode=mode, update_before=False))
        assert _sortable(brief) == _sortable([change for change in full if change[0] != "-U"])


@few
@given(data=st.data())
def test_append_only_specs_agree_with_retracting_ones(data: st.DataObject) -> None:
    spec = data.draw(specs())
    rows = [
        ("+I", *change[1:]) for change in data.draw(changelogs(spec)) if change[0] in ("+I", "+U")
    ]
    append = AggSpec(spec.schema, spec.group_by, spec.calls, "append", spec.dialect)
    batches = data.draw(cut(rows))
    for mode in ("mini_batch", "per_record"):
        one = fold(_flat(run(append, batches, backend="python", mode=mode)))
        two = fold(_flat(run(spec, batches, backend="python", mode=mode)))
        assert same_table(spec, one, two, largest(rows)) is None


@pytest.mark.slow
@pytest.mark.parametrize("name", ["integers", "global", *STATES])
@few
@given(data=st.data())
def test_compiled_append_only_handlers_agree_with_plain_ones(
    name: str, data: st.DataObject
) -> None:
    spec = RICH[name]
    rows = [("+I", *change[1:]) for change in data.draw(changelogs(spec)) if change[0] == "+I"]
    append = AggSpec(spec.schema, spec.group_by, spec.calls, "append", spec.dialect)
    batches = data.draw(cut(rows))
    for mode in ("mini_batch", "per_record"):
        plain = run(append, batches, backend="python", mode=mode)
        assert [_sortable(b) for b in run(append, batches, mode=mode)] == [
            _sortable(b) for b in plain
        ]
