"""Kinds of views: what a descriptor says holds of both backends, and a kind stands nowhere but in its own files."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from aggloom.codegen.catalogue.entry import View
from aggloom.codegen.catalogue.registry import CATALOGUE
from aggloom.codegen.views import MULTISET, SEEN, SPILL, VIEW_FUNCTIONS, VIEW_KINDS
from aggloom.runtime.handlers import vocabulary
from aggloom.runtime.plain import kinds as plain_kinds
from aggloom.runtime.plain import vocabulary as plain_vocabulary
from aggloom.runtime.views import kinds

ROOT = Path(__file__).parents[2]
USED = {
    (state.kind, shape)
    for entry in CATALOGUE.values()
    for shape in (entry.append, entry.retract, entry.ordered, entry.ordered_retract)
    if shape is not None
    for state in shape.state
    if isinstance(state, View)
}


def test_both_backends_have_every_kind() -> None:
    assert set(kinds.VIEW_TYPES) == set(plain_kinds.VIEW_TYPES) == set(VIEW_KINDS)


def test_a_kind_is_a_file_of_its_name() -> None:
    files = {path.stem for path in (ROOT / "codegen" / "views").glob("*.py")}
    assert files - {"__init__", "kind", "room"} == set(VIEW_KINDS)


def test_entries_use_every_kind_that_is_theirs() -> None:
    assert {kind for kind, _ in USED} == set(VIEW_KINDS) - {MULTISET.name, SEEN.name, SPILL.name}


@pytest.mark.parametrize("name", sorted(VIEW_KINDS))
def test_both_backends_have_the_functions_of_a_kind(name: str) -> None:
    kind = VIEW_KINDS[name]
    functions = {f"{name}_clear"} if kind is not SPILL else set()
    if kind not in (MULTISET, SEEN, SPILL):
        functions |= {f"{name}_accumulate", f"{name}_merge"}
        functions |= {what.function for what in kind.functions.values()}
    retracted = any(
        kind_ == name and shape in (entry.retract, entry.ordered_retract)
        for entry in CATALOGUE.values()
        for kind_, shape in USED
        if shape is not None
    )
    functions |= {f"{name}_retract"} if retracted else set()
    for backend in (vocabulary, plain_vocabulary):
        missing = {each for each in functions if not callable(getattr(backend, each, None))}
        assert missing == set(), backend.__name__


def test_no_function_belongs_to_two_kinds() -> None:
    assert len(VIEW_FUNCTIONS) == sum(len(kind.functions) for kind in VIEW_KINDS.values())


def test_a_kind_is_named_in_its_own_files_only() -> None:
    """Entries choose kinds, the tables of the backends list them, and nothing else tells one from another."""
    allowed = {
        *("codegen/catalogue", "codegen/views", "codegen/user/expression_types.py"),
        *("runtime/views", "runtime/plain/kinds.py", "runtime/state"),
    }
    # ORDERED and UNORDERED are also modes of case files; bits, seen, sequence and spill are words of other rooms.
    names = "|".join(sorted(set(VIEW_KINDS) - {"bits", "ordered", "seen", "sequence", "spill"}))
    named = {
        path.relative_to(ROOT).as_posix()
        for top in ("codegen", "runtime")
        for path in (ROOT / top).rglob("*.py")
        if re.search(rf"[\"']({names})[\"']", path.read_text())
    }
    assert {name for name in named if not name.startswith(tuple(allowed))} == set()
