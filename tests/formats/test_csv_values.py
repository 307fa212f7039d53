"""CSV files say the same to a harness as to Spark: values as their types have them, nothing rounded, cut or guessed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import aggloom as al
from aggloom.errors import InputFormatError
from aggloom.runtime.spark import read_changes
from aggloom.runtime.spark.failures import explain_failure

READ = {
    "INT": ["5", " 5 ", "+5", '"5"', "-0", ""],
    "DOUBLE": ["1.5", "NaN", "Infinity", "-Infinity", " 1 ", "1e-400", "0.1"],
    "FLOAT": ["0.1", "3.4028234e38", "Infinity"],
    "DECIMAL(5,2)": ["1.5", "1e2", "1.500", "-999.99", "0.10000000000000"],
    "BOOLEAN": ["TRUE", "1", "False", "t"],
    "DATE": ["2024-1-2", "1969-12-31", "2024-01-02T00:00:00", "2024-01-02 00:00", "0001-01-01"],
    "TIMESTAMP": [
        "2024-03-10T02:30:00",
        "2024-03-10 02:30:00.1234567",
        "2024-03-10",
        "1969-12-31T23:59:59.9Z",
    ],
    "TIMESTAMP_NTZ": ["2024-03-10 02:30:00", "2024-03-10T02:30:00.5", "1582-10-10"],
    "STRING": ["007", "NULL", '""', '" x "', " x ", '"a,b"', ""],
}
REFUSED = {
    "INT": ["1.0", "1e2", "0x10", "1_000", "2147483648"],
    "DOUBLE": ["1e400", "-1e400", "x"],
    "FLOAT": ["1e40", "-3.5e38"],
    "DECIMAL(5,2)": ["1.005", "999.999", "1e-3", "NaN"],
    "DATE": [
        "2024-02-30",
        "20240102",
        "2024-01-02 12:00:00",
        "2024-01-02T00:00:01",
        "2024-01-02 noon",
    ],
    "TIMESTAMP": ["1710055800", "noon"],
    "TIMESTAMP_NTZ": [
        "2024-03-10T02:30:00Z",
        "2024-03-10 02:30:00+01:00",
        "2024-03-10 02:30:00 Europe/Paris",
    ],
}


def put(path: Path, *texts: str) -> str:
    path.mkdir(exist_ok=True)
    # Names in another case, and a line that is not plain: nothing is told by the look of values.
    lines = [f"{number},{text}\n" for number, text in enumerate(texts)]
    (path / "t.csv").write_text("N,A\n" + "".join(lines))
    return str(path)


def harness(path: str, kind: str) -> list[Any]:
    query = "SELECT n, MAX(a) AS a FROM t GROUP BY n"
    with al.Harness.from_sql(query, {"t": f"n INT, a {kind}"}, backend="python") as h:
        h.read(path, "csv")
        h.flush()
        rows = h.to_arrow().to_pylist()
    return [row["a"] for row in sorted(rows, key=lambda row: row["n"])]


def by_spark(spark: Any, path: str, kind: str) -> list[Any]:
    df = read_changes(spark, path, "csv", f"n INT, a {kind}", streaming=False)
    try:
        return list(df.drop("_change_type").orderBy("n").toArrow().column("a").to_pylist())
    except Exception as failure:
        raise explain_failure(failure) from None


@pytest.mark.spark
@pytest.mark.parametrize("kind", READ)
def test_values_are_those_of_spark(spark: Any, tmp_path: Path, kind: str) -> None:
    path = put(tmp_path / "t", *READ[kind])
    found = harness(path, kind)
    assert repr(found) == repr(by_spark(spark, path, kind))
    assert (None in found) == ("" in READ[kind])
    for text in READ[kind]:
        # A file of one value is plain or not by itself.
        alone = put(tmp_path / "alone", text)
        assert repr(harness(alone, kind)) == repr([found[READ[kind].index(text)]])


@pytest.mark.spark
@pytest.mark.parametrize(("kind", "text"), [(k, t) for k, texts in REFUSED.items() for t in texts])
@pytest.mark.sampled(8)
def test_what_is_no_value_is_refused(spark: Any, tmp_path: Path, kind: str, text: str) -> None:
    path = put(tmp_path / "t", text)
    with pytest.raises(InputFormatError, match=r"column '[aA]' cannot hold"):
        harness(path, kind)
    with pytest.raises(InputFormatError, match="column 'a' cannot hold"):
        by_spark(spark, path, kind)


@pytest.mark.parametrize("text", ["", "\ufeff", "N,A", '"N","A"\n', "N,A\r\n\r\n"])
def test_a_file_without_rows_has_none(tmp_path: Path, text: str) -> None:
    path = put(tmp_path / "t")
    (tmp_path / "t" / "t.csv").write_text(text, newline="")
    assert harness(path, "INT") == []
