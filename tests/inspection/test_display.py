"""Notebooks show no markup of a user's, tell NULL from a text, and draw tables by their columns."""

from __future__ import annotations

import datetime as dt
import json
import re
from decimal import Decimal
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import aggloom as al
from aggloom.display import ROWS, html_table, text_of
from aggloom.runtime.inspection import StateReport, Why
from aggloom.runtime.inspection.facts import (
    Accumulator,
    Effect,
    KeyBundle,
    KeyChange,
    KeyState,
    OperatorState,
    PartContents,
)
from aggloom.runtime.operators.counts import Counts, OperatorCounts

HOSTILE = "<script>alert('x')</script>&\"`\u202e\ud800"
ROOT = Path(__file__).parents[2]


class Tags(HTMLParser):
    """The tags and the words of HTML."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.open: list[str] = []
        self.words: list[str] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append(tag)
        self.open += [] if tag == "img" else [tag]
        assert {name for name, _ in attrs} <= {"style", "src", "alt", "open"}

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_startendtag(self, tag: str, attrs: Any) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.words.append(data)


KNOWN = {
    *("div", "table", "thead", "tbody", "tr", "th", "td", "i", "code", "pre"),
    *("details", "summary", "img"),
}


def shown(thing: Any) -> Tags:
    """Return a notebook's view of a thing; it has no tags but ours, whatever the names and values are."""
    html = thing._repr_html_()
    html.encode("utf-8")
    found = Tags(html)
    assert set(found.tags) <= KNOWN
    return found


def hostile_spec() -> al.AggSpec:
    name = HOSTILE.replace("`", "").replace("\ud800", "")
    sql = f"SELECT `{name}`, SUM(cnt) AS `<b>` FROM t WHERE cnt > 0 GROUP BY `{name}` HAVING SUM(cnt) > 1"
    return al.AggSpec.from_sql(sql, f"`{name}` STRING, cnt INT")


def test_texts_of_values() -> None:
    told = {
        "plain": "plain",
        "NULL": "'NULL'",
        "": "''",
        " a": "' a'",
        "a\nb": r"'a\nb'",
        "'NULL'": "\"'NULL'\"",
        None: "NULL",
        True: "True",
        Decimal("1.50"): "1.50",
        dt.datetime(2026, 1, 2, 3): "2026-01-02 03:00:00",
    }
    assert {value: text_of(value) for value in told} == told
    assert text_of(["NULL", None, 1]) == "['NULL', NULL, 1]"
    assert text_of({"a": None, "b": [("k", 1)]}) == "(a=NULL, b=[('k', 1)])"
    assert len({text_of(v) for v in (None, "NULL", "'NULL'", "\"'NULL'\"", "")}) == 5


def test_hostile_names_and_values_are_words() -> None:
    spec = hostile_spec()
    assert any("alert('x')" in word for word in shown(spec).words)
    source = al.generate(spec, backend="python")
    assert "GroupAggsHandler" in "".join(shown(source).words)
    for form in ("text", "json", "svg"):
        explained = al.explain(spec, format=form)  # type: ignore[arg-type]
        assert isinstance(explained, str)
        shown(explained)
    with al.Harness(spec, backend="python") as harness:
        value = HOSTILE.replace("\ud800", "")
        harness.process([("+I", value, 3), ("+I", "NULL", 4), ("+I", None, 5), ("+I", "", 6)])
        harness.flush()
        table = shown(harness.table())
        assert table.words.count("NULL") == 1 and table.words.count("'NULL'") == 1
        assert repr(value) in table.words
        assert "4 rows in" in "".join(shown(harness).words)
        shown(harness.plan)
        shown(harness.changes())
        assert "4" in shown(harness.counts).words


def test_state_why_and_counts_escape() -> None:
    row = {HOSTILE: HOSTILE, "n": None}
    part = PartContents(
        None, 1, row, accumulators=(Accumulator(HOSTILE, "sum", (HOSTILE,), HOSTILE),)
    )
    operator = OperatorState(
        *(0, HOSTILE, (HOSTILE,), (HOSTILE,), "d", 1, 1, None, {HOSTILE: HOSTILE}),
        *(0, 0, 0, 1, 1, 1, 1, 1, None, None, None, ()),
        key=KeyState(row, 0, (part,)),
        note=HOSTILE,
    )
    state = StateReport(HOSTILE, (operator,))
    assert "alert" in "".join(shown(state).words)
    effect = Effect(None, None, row, (None, 1))
    bundle = KeyBundle(0, 1, None, None, (KeyChange("+I", row, (effect,)),), (("+I", row),))
    why = Why(HOSTILE, 0, HOSTILE, 0, row, 0, False, (), 1, (bundle,), (part,))
    said = "".join(shown(why).words)
    assert "key " in said and repr(HOSTILE) in said and "NULL" in said
    counts = Counts(1, 2, operators=(OperatorCounts(HOSTILE),))
    assert "alert" in "".join(shown(counts).words)
    # The same facts as text, in lines of their own.
    assert repr(HOSTILE) in why.text()


def test_many_rows_and_long_values_are_cut_with_a_word() -> None:
    found = Tags(html_table(["n", "t"], [(n, "x" * 5_000) for n in range(1_000)], 1_000))
    assert found.tags.count("tr") == ROWS + 1
    assert f"the first {ROWS} of 1,000 rows are shown" in found.words
    assert any(word.endswith("… (5,000 characters)") for word in found.words)
    assert "rows are shown" not in html_table(["n"], [(1,)] * ROWS, ROWS)


def test_tables_know_their_columns() -> None:
    schema = "k STRING, i BIGINT, d DOUBLE, b BOOLEAN, m DECIMAL(5,2), op STRING"
    sql = "SELECT k, MAX(i) AS i, MAX(d) AS d, BOOL_OR(b) AS b, MAX(m) AS m, MAX(op) AS op FROM t GROUP BY k"
    with al.Harness.from_sql(sql, {"t": schema}, backend="python") as harness:
        large = 2**63 - 1
        harness.process([("+I", "a", large, float("nan"), True, Decimal("1.5"), "x")])
        harness.process([("+I", None, None, None, None, None, None)])
        harness.flush()
        table, frame = harness.table(), harness.to_pandas()
        assert table == [(None,) * 6, ("a", large, table[1][2], True, Decimal("1.50"), "x")]
        assert table.columns == ["k", "i", "d", "b", "m", "op"] == list(frame.columns)
        # A NULL is no number, and no number is rounded on the way.
        assert frame["i"].tolist() == [pd.NA, large]
        assert frame["d"].isna().tolist()[0] and str(frame["b"].dtype) == "boolean"
        assert frame["k"].tolist() == [None, "a"] and frame["m"].tolist()[1] == Decimal("1.50")
        assert harness.to_arrow().schema == harness.plan.schema
        changes = harness.changes()
        assert changes.columns == ["_change_type", *table.columns]
        assert list(changes.to_pandas()["_change_type"]) == ["+I", "+I"]
    with al.Harness.from_sql("SELECT * FROM t", {"t": schema}, backend="python") as again:
        # What a harness gives out, another one takes.
        again.process(changes.to_arrow())
        again.flush()
        assert str(again.table()) == str(table)


def test_a_table_without_rows_and_one_that_cannot_be_told() -> None:
    with al.Harness.from_sql(
        "SELECT SUM(a) AS s FROM t GROUP BY b",
        {"t": "a INT, b INT"},
        backend="python",
        update_before=False,
    ) as harness:
        harness.process([("+I", 1, 1)])
        harness.flush()
        assert "select the key" in "".join(shown(harness).words)
        assert harness.changes().to_pandas().shape == (1, 2)
        assert harness.changes().to_pandas().shape == (0, 2)


def test_public_names_are_in_the_strict_script() -> None:
    """`make check` holds tests/support/strict_user.py against strict mypy, so that their types are complete."""
    text = (ROOT / "tests" / "support" / "strict_user.py").read_text(encoding="utf-8")
    used = set(re.findall(r"\bal\.(\w+)", text))
    assert used == set(al.__all__)
    assert "tests/support/strict_user.py" in (ROOT / "Makefile").read_text(encoding="utf-8")


@pytest.mark.parametrize("format", ["csv", "jsonl"])
def test_a_harness_reads_files(tmp_path: Path, format: str) -> None:
    rows = [
        {"op": "+I", "k": "a", "n": 1, "d": "2026-01-02"},
        {"op": "+I", "k": None, "n": 2, "d": None},
        {"op": "-D", "k": "a", "n": 1, "d": "2026-01-02"},
    ]
    file = tmp_path / f"t.{format}"
    if format == "csv":
        lines = [
            "op;k;n;d",
            *(";".join("" if v is None else str(v) for v in row.values()) for row in rows),
        ]
        file.write_text("\n".join([*lines, '+I;"";3;']))
    else:
        file.write_text(
            "\n".join(map(json.dumps, [*rows, {"op": "+I", "k": "", "n": 3, "d": None}]))
        )
    options = {"sep": ";"} if format == "csv" else {}
    with al.Harness.from_sql(
        "SELECT * FROM t", {"t": "k STRING, n INT, d DATE"}, backend="python"
    ) as harness:
        assert harness.read(file, format, **options) == 4
        harness.flush()
        # In CSV an empty text is NULL, as in Spark's.
        assert harness.table() == [(None, 2, None), (None if format == "csv" else "", 3, None)]
        if format == "csv":
            with pytest.raises(al.errors.SpecError, match="csv has no option 'locale'"):
                harness.read(file, format, locale="de")
            file.write_text("k,n,d\na,x,2026-01-01\n")
            with pytest.raises(
                al.errors.InputFormatError, match="line 2: column 'n' cannot hold 'x' as INT"
            ):
                harness.read(file, format)
