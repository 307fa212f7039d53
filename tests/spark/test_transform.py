"""`df.transform` with the functions of aggloom: the same frames as by calls, and errors before anything is planned."""

from __future__ import annotations

from typing import Any

import pytest

import aggloom as al
from aggloom.errors import SpecError

ROWS = [("a", 1), ("b", 5), ("a", 2)]
TEXT = "SELECT k, SUM(n) AS s FROM t GROUP BY k"


@pytest.mark.spark
def test_a_query_and_a_spec_are_taken_by_transform(spark: Any) -> None:
    """The sums that Python's own arithmetic gives: 3 and 5."""
    df = spark.createDataFrame(ROWS, "k STRING, n INT")
    spec = al.AggSpec.from_sql(TEXT, "k STRING, n INT")
    for made in (df.transform(al.sql, TEXT), df.transform(al.group_aggregate, spec)):
        assert sorted(row[:2] for row in made.collect()) == [("a", 3), ("b", 5)]
    ranked = df.transform(al.rank, order_by="n DESC", last=1)
    assert [row[:2] for row in ranked.collect()] == [("b", 5)]


@pytest.mark.spark
def test_a_table_may_be_called_text(spark: Any) -> None:
    df = spark.createDataFrame(ROWS, "k STRING, n INT")
    made = al.sql("SELECT SUM(n) AS s FROM text", text=df)
    assert [row[0] for row in made.collect()] == [8]


class Frame:
    """A DataFrame as far as errors look at it."""

    sparkSession = None  # noqa: N815


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ((Frame(),), "there is no query; give its text, as in df.transform(al.sql, text)"),
        ((TEXT, TEXT), "two texts are given"),
        ((Frame(), "SELECT a.k FROM a JOIN b ON a.k = b.k"), "the query reads a, b; name each"),
        ((Frame(), "SELECT 1 AS one"), "the query reads no table"),
    ],
)
def test_what_transform_cannot_mean_is_refused(given: tuple[Any, ...], said: str) -> None:
    with pytest.raises(SpecError) as raised:
        al.sql(*given)
    assert said in str(raised.value)
