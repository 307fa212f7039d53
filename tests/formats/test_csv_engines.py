"""CSV files of random forms: the same rows, or the same refusal, in a harness and on Spark."""

from __future__ import annotations

import csv
import io
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import aggloom as al
from aggloom.errors import AggloomError, InputFormatError
from aggloom.runtime.formats.csv_dialect import CsvDialect
from aggloom.runtime.formats.csv_records import Records
from aggloom.runtime.spark import read_changes
from aggloom.runtime.spark.failures import explain_failure

TEXTS = [
    *(
        "a",
        "b c",
        " d ",
        "",
        "x\ny",
        "x\r\ny",
        'q"q',
        '"',
        '""',
        ",",
        ";",
        "||",
        "|",
        "\t",
        "é",
        "日本",
    ),
    *("\\", "\\N", "a\\b", "NULL", "#", "# x", "''", "0", "007", "-1", "\u2028", "\x1f"),
]
SEPARATORS = [",", ";", "\t", "|", "||", "::", "§", "\x01"]
COUNT = "SELECT k, v, COUNT(*) AS n FROM t GROUP BY k, v"


def make_file(r: random.Random) -> tuple[bytes, dict[str, Any], Counter[Any] | None]:
    """A file, its options, and its rows; None where it is damaged."""
    separator, quote = r.choice(SEPARATORS), r.choice(['"'] * 3 + ["'"])
    header, end = r.random() < 0.7, r.choice(["\n", "\r\n"])
    escape = r.choice([quote, quote, "\\"])
    null = r.choice(["", "", "\\N", "NULL"])
    rows = [(r.choice(TEXTS), r.choice(TEXTS), r.randrange(-5, 5)) for _ in range(r.randrange(6))]
    names = r.sample(["k", "x", "v"], 3) if header else ["k", "x", "v"]

    def written(text: str) -> str:
        needs = any(c in text for c in (separator, quote, "\n", "\r", separator[0])) or text == ""
        if needs or r.random() < 0.3:
            text = text.replace("\\", "\\\\") if escape == "\\" else text
            return quote + text.replace(quote, escape + quote) + quote
        return text

    lines = [separator.join(names)] if header else []
    for k, x, v in rows:
        values = {"k": written(k), "x": written(x), "v": str(v)}
        lines.append(separator.join(values[name] for name in names))
        if r.random() < 0.1:
            lines.append("")
    text = end.join(lines) + r.choice(["", end])
    given = {"sep": separator, "header": str(header).lower(), "escape": escape, "quote": quote}
    options = {**given, **({"nullValue": null} if null else {})}
    encoding = r.choice(["UTF-8", "UTF-8", "UTF-16"])
    if encoding != "UTF-8":
        options["encoding"] = encoding
    content = text.encode(encoding)
    if r.random() < 0.25 and text:
        at = r.randrange(len(text))
        damaged = text[:at] + r.choice([quote, separator, "", "\\", end]) + text[at + 1 :]
        return damaged.encode(encoding), options, None
    found = ((None if k in ("", null) else k, v) for k, _, v in rows)
    return content, options, Counter(found)


def read_harness(path: Path, options: dict[str, Any]) -> Counter[Any] | str:
    with al.Harness.from_sql(COUNT, {"t": "k STRING, x STRING, v INT"}, backend="python") as h:
        try:
            h.read(path, "csv", format_options=options)
        except AggloomError as error:
            return str(error)
        h.flush()
        return Counter({(row["k"], row["v"]): row["n"] for row in h.to_arrow().to_pylist()})


@pytest.mark.parametrize("seed", range(200))
def test_a_harness_reads_what_was_written(tmp_path: Path, seed: int) -> None:
    content, options, rows = make_file(random.Random(seed))
    (tmp_path / "f.csv").write_bytes(content)
    found = read_harness(tmp_path / "f.csv", options)
    assert rows is None or found == rows, (content, options)


@pytest.mark.spark
@pytest.mark.parametrize("first", range(0, 30, 10))
@pytest.mark.sampled(1)
def test_spark_reads_what_a_harness_reads(spark: Any, tmp_path: Path, first: int) -> None:
    for seed in range(first, first + 10):
        content, options, _ = make_file(random.Random(seed))
        path = tmp_path / f"{seed}.csv"
        path.write_bytes(content)
        expected = read_harness(path, options)
        try:
            ddl = "k STRING, x STRING, v INT"
            df = read_changes(spark, path, "csv", ddl, streaming=False, **options)
            found: Any = Counter((row.k, row.v) for row in df.collect())
        except Exception as failure:
            found = str(explain_failure(failure))
        if isinstance(expected, str):
            # Each engine has its own name of the file; the line and the cause are the same.
            assert expected.split(".csv", 1)[1].strip() in found, (content, options)
        else:
            assert found == expected, (content, options)


@pytest.mark.parametrize("seed", range(200))
def test_both_ways_of_cutting_agree_with_csv(seed: int) -> None:
    r = random.Random(seed)
    alphabet = ["a", "b", '"', '"', ",", ",", "\n", "\r\n", "\r", " ", "\\"]
    text = "".join(r.choice(alphabet) for _ in range(r.randrange(1, 14)))
    dialect = CsvDialect.of({"escape": '"', "header": "false"})
    records = Records(text.encode(), dialect, "f")
    try:
        cut = [[v.decode() for v in values] for values, _, _ in records._each(dialect, 0)]
    except InputFormatError:
        cut = None
    try:
        known: Any = list(csv.reader(io.StringIO(text, newline=""), strict=True))
    except csv.Error:
        known = None
    if known is None:
        # Blanks behind a quoted value are allowed here, as Spark has it.
        assert cut is None or '" ' in text
    else:
        assert cut is not None
        shown = [row for row in known if row and [each.strip(" ") for each in row] != [""]]
        spaced = [row for row in cut if [each.strip(" ") for each in row] != [""]]
        assert spaced == shown, text
    for width in (1, 2, 3) if cut is None else ():
        with pytest.raises(InputFormatError):
            records.columns(0, width, range(width))
    for width in {len(row) for row in cut or []}:
        one_way = two_way = None
        plain = records._plain(0)
        if plain is not None:
            try:
                one_way = [c.to_pylist() for c in records._by_arrow(*plain, width, range(width))]
            except Exception:
                one_way = None
            try:
                rows = [values for values, _, _ in records._of_width(0, width)]
                two_way = [[v[at].decode() or None for v in rows] for at in range(width)]
            except InputFormatError:
                two_way = None
            assert one_way == two_way, text
