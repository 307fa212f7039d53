"""Kinds, their spellings, folding, and the laws."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest
from changelog_laws import check_laws

from aggloom.errors import UnknownChangeTypeError
from aggloom.runtime.values.changelog import (
    CHANGE_TYPES,
    KIND_NAMES,
    ChangelogLawError,
    fold,
    is_retraction,
    kinds_to_arrow,
    parse_kinds,
)


@pytest.mark.parametrize(
    "words",
    [
        KIND_NAMES,
        CHANGE_TYPES,
        ("INSERT", "UPDATE_BEFORE", "UPDATE_AFTER", "DELETE"),
        ("INSERT", "UPDATE_PREIMAGE", "UPDATE_POSTIMAGE", "DELETE"),
    ],
)
def test_every_spelling_is_understood(words: tuple[str, ...]) -> None:
    kinds = parse_kinds(pa.array(words), "test")
    assert kinds.dtype == np.int8
    assert kinds.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("profile", ["spark", "flink"])
def test_profiles_round_trip(profile: str) -> None:
    kinds = np.array([0, 3, 1, 2, 0], np.int8)
    assert parse_kinds(kinds_to_arrow(kinds, profile), "test").tolist() == kinds.tolist()


def test_layouts_of_the_change_column_do_not_matter() -> None:
    words = pa.array(["+I", "-D", "+I"])
    chunked = pa.chunked_array([words.slice(0, 1), words.slice(1)])
    for column in (words.dictionary_encode(), words.cast(pa.large_string()), chunked):
        assert parse_kinds(column, "test").tolist() == [0, 3, 0]


@pytest.mark.parametrize(("value", "shown"), [("upsert", "'upsert'"), (None, "NULL")])
def test_an_unknown_change_type_is_named_and_counted(value: str | None, shown: str) -> None:
    with pytest.raises(
        UnknownChangeTypeError, match=f"here: unknown change type {shown} in 2 rows"
    ):
        parse_kinds(pa.array(["+I", value, value]), "here")


def test_retractions() -> None:
    assert is_retraction(np.arange(4, dtype=np.int8)).tolist() == [False, True, False, True]


def test_fold_of_a_multiset() -> None:
    rows = [("+I", "a", 1), ("+I", "a", 1), ("-U", "a", 1), ("+U", "a", 2)]
    assert sorted(fold(rows)) == [("a", 1), ("a", 2)]


def test_fold_treats_nan_and_zero_as_spark_does() -> None:
    assert fold([("+I", math.nan), ("-D", float("nan")), ("+I", 0.0), ("-D", -0.0)]) == []


def test_fold_by_key_takes_a_lone_update() -> None:
    assert fold([("+I", "a", 1), ("+U", "a", 2), ("+I", "b", 1), ("-D", "b", 1)], 1) == [("a", 2)]


@pytest.mark.parametrize("key_width", [None, 1])
def test_fold_refuses_a_retraction_of_nothing(key_width: int | None) -> None:
    with pytest.raises(ChangelogLawError, match="not there"):
        fold([("-D", "a", 1)], key_width)


def test_a_good_changelog_keeps_the_laws() -> None:
    rows = [("+I", 1, "a"), ("-U", 1, "a"), ("+U", 1, "b"), ("-D", 1, "b"), ("+I", 1, "a")]
    check_laws(rows, 1, one_net_change=False)
    check_laws([*rows[:1], ("+I", 2, None)], 1, one_net_change=True)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([("+I", 1, "a"), ("-D", 1, "b")], "not the row last emitted"),
        ([("-U", 1, "a"), ("+U", 1, "b")], "not the row last emitted"),
        ([("+I", 1, "a"), ("+I", 1, "b")], "there already"),
        ([("+I", 1, "a"), ("-D", 1, "a"), ("+U", 1, "b")], "out of place"),
        ([("+I", 1, "a"), ("-U", 1, "a")], "without its"),
        ([("+I", 1, "a"), ("-D", 1, "a")], "more than once"),
    ],
)
def test_each_law_is_enforced(rows: list[tuple[str, int, str]], message: str) -> None:
    with pytest.raises(ChangelogLawError, match=message):
        check_laws(rows, 1, one_net_change=message == "more than once")
