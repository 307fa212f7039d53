"""CSV files as lookup tables and as samples: the values, and the refusals, of the same file as a stream."""

from __future__ import annotations

import bz2
import gzip
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import aggloom as al
from aggloom.errors import AggloomError, LookupFailedError, SpecError
from aggloom.sample_files import read_sample
from tests.formats.test_csv_engines import make_file

COLUMNS = "k STRING, x STRING, v INT"
Read = Callable[[Path, str, dict[str, Any]], Counter[Any]]
AS_OF = "JOIN r FOR SYSTEM_TIME AS OF PROCTIME()"


def streamed(path: Path, columns: str, options: dict[str, Any]) -> Counter[Any]:
    harness = al.Harness.from_sql("SELECT * FROM t", {"t": columns})
    harness.read(path, "csv", **options)
    harness.flush()
    return Counter(harness.table())


def looked_up(path: Path, columns: str, options: dict[str, Any], **more: Any) -> Counter[Any]:
    """All rows of a lookup table, each found by a constant that its last column has."""
    table = al.lookup_table(columns, files=str(path), format_options=options, **more)
    names = [part.split()[0] for part in columns.split(", ")]
    query = f"SELECT {', '.join(f'r.{n}' for n in names)} FROM t {AS_OF} ON t.v = r.{names[-1]}"
    harness = al.Harness.from_sql(query, {"t": "v INT"}, lookups={"r": table})
    harness.process([("+I", value) for value in range(-5, 10)])
    harness.flush()
    return Counter(harness.table())


def found(read: Read, path: Path, options: dict[str, Any]) -> Counter[Any] | str:
    """The rows, or why there are none: what follows the place in the file."""
    try:
        return read(path, COLUMNS, options)
    except AggloomError as error:
        return str(error).partition(", line ")[2].partition(". Set attempts")[0] or "refused"


def test_random_files_are_the_same_rows_as_a_stream_and_as_a_lookup_table(tmp_path: Path) -> None:
    kinds = Counter[str]()
    for seed in range(150):
        content, options, _ = make_file(random.Random(seed))
        path = tmp_path / f"{seed}.csv"
        path.write_bytes(content)
        expected = found(streamed, path, options)
        assert found(looked_up, path, options) == expected, (seed, content)
        kinds[type(expected).__name__] += 1
    assert kinds["Counter"] > 80 and kinds["str"] > 10, kinds


@pytest.mark.parametrize(
    ("name", "text", "options"),
    [
        pytest.param("f.csv", "k;v\na;1\nb;2\n", {"sep": ";"}, id="separator"),
        pytest.param("f.csv", "k||v\na||1\n", {"sep": "||"}, id="long separator"),
        pytest.param("f.csv", "k,v\nNA,1\nNULL,2\n-,3\n", {"nullValue": "-"}, id="null literal"),
        pytest.param("f.csv", "a,1\nb,2\n", {"header": "false"}, id="header by position"),
        pytest.param("f.csv", "k,v\n'a,b',1\n", {"quote": "'"}, id="quotes"),
        pytest.param("f.csv", 'k,v\n"a\\"b",1\n', {"escape": "\\"}, id="escape"),
        pytest.param("f.csv", "# c\nK,V\na,1\n", {"comment": "#"}, id="comments and case"),
        pytest.param("f.csv", "k,v\n a ,1\n", {"ignoreLeadingWhiteSpace": "true"}, id="blanks"),
        pytest.param("f.csv", "v\n1\n", {"missing": "null"}, id="a column that is missing"),
        pytest.param("f.tsv", "k\tv\na\t1\n", {}, id="tabs by the name"),
        pytest.param("f.csv.gz", "k,v\na,1\n", {}, id="gzip"),
        pytest.param("f.csv.bz2", "k,v\na,1\n", {}, id="bzip2"),
        pytest.param("f.csv.zst", "k,v\na,1\n", {}, id="zstd"),
    ],
)
def test_an_option_means_the_same(
    tmp_path: Path, name: str, text: str, options: dict[str, str]
) -> None:
    path = tmp_path / name
    packed = {".gz": gzip.compress, ".bz2": bz2.compress, ".zst": zstd}
    path.write_bytes(packed.get(path.suffix, bytes)(text.encode()))
    told = {"sep": "\t"} if path.suffix == ".tsv" else options
    expected = streamed(path, "k STRING, v INT", told)
    assert expected
    assert looked_up(path, "k STRING, v INT", options) == expected
    # The folder of the file, too, whose format is said.
    assert looked_up(tmp_path, "k STRING, v INT", options, format="csv") == expected
    sample = read_sample(path, pa.schema([("k", pa.string()), ("v", pa.int32())]), options)
    assert Counter(zip(*sample.to_pydict().values(), strict=True)) == expected


def zstd(content: bytes) -> bytes:
    return bytes(pa.compress(content, codec="zstd", asbytes=True))


@pytest.mark.parametrize("encoding", ["ISO-8859-1", "UTF-16"])
def test_encodings(tmp_path: Path, encoding: str) -> None:
    (tmp_path / "f.csv").write_bytes("k,v\né,1\n".encode(encoding))
    options = {"encoding": encoding}
    assert looked_up(tmp_path / "f.csv", "k STRING, v INT", options) == Counter([("é", 1)])


@pytest.mark.parametrize(
    ("kind", "texts"),
    [
        ("BOOLEAN", ["true", "false", ""]),
        ("DECIMAL(9,2)", ["1.5", "-3", ""]),
        ("DOUBLE", ["1e3", "NaN", "-0.0"]),
        ("DATE", ["2026-01-01", ""]),
        ("TIMESTAMP", ["2026-01-01 01:02:03", "2026-01-01T01:02:03+02:00"]),
        ("TIMESTAMP_NTZ", ["2026-01-01 01:02:03.000004"]),
        ("BINARY", ["abc"]),
    ],
)
def test_a_type_has_the_same_values(tmp_path: Path, kind: str, texts: list[str]) -> None:
    lines = "".join(f"{text},{number}\n" for number, text in enumerate(texts))
    (tmp_path / "f.csv").write_text(f"k,v\n{lines}")

    def plain(rows: Counter[Any]) -> list[str]:
        # -0.0 is 0.0 once a row is compared with another (deviation D6); the sum below has no sign of zero.
        unsigned = (
            [each + 0.0 if isinstance(each, float) else each for each in row]
            for row in rows.elements()
        )
        return sorted(map(repr, unsigned))

    columns = f"k {kind}, v INT"
    expected = plain(streamed(tmp_path / "f.csv", columns, {}))
    assert len(expected) == len(texts)
    assert plain(looked_up(tmp_path / "f.csv", columns, {})) == expected


def test_options_of_flink_in_sql(tmp_path: Path) -> None:
    (tmp_path / "f.csv").write_text("# c\n'a;b';1\n-;2\n")
    query = f"""CREATE TABLE r (k STRING, v INT) WITH ('connector' = 'filesystem', 'format' = 'csv',
        'path' = '{tmp_path / 'f.csv'}', 'lookup.cache' = 'FULL', 'csv.field-delimiter' = ';',
        'csv.quote-character' = '''', 'csv.null-literal' = '-', 'csv.header' = 'false',
        'csv.allow-comments' = 'true');
        SELECT r.k FROM t {AS_OF} ON t.v = r.v"""
    harness = al.Harness.from_sql(query, {"t": "v INT"})
    harness.process([("+I", 1), ("+I", 2)])
    harness.flush()
    assert Counter(harness.table()) == Counter([("a;b",), (None,)])
    with pytest.raises(SpecError, match=r"'csv.allow-comments' is 'yes'"):
        al.Harness.from_sql(query.replace("'true'", "'yes'"), {"t": "v INT"})
    with pytest.raises(SpecError, match=r"csv.quote-character"):
        al.Harness.from_sql(query.replace("csv.quote-char", "csv.quot-char"), {"t": "v INT"})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"files": "f.csv", "format_options": {"separator": ";"}}, "no option 'separator'"),
        ({"files": "f.csv", "format_options": "sep=;"}, "name each option"),
        ({"files": "f.parquet", "format_options": {"sep": ";"}}, "parquet files have none"),
        ({"rows": [], "format_options": {"sep": ";"}}, "given rows have none"),
    ],
)
def test_options_that_are_none_are_refused_when_the_query_is_made(
    given: dict[str, Any], message: str
) -> None:
    with pytest.raises(SpecError, match=message):
        al.Harness.from_sql(
            f"SELECT r.k FROM t {AS_OF} ON t.v = r.v",
            {"t": "v INT"},
            lookups={"r": al.lookup_table("k STRING, v INT", **given)},
        )


def test_changes_are_no_lookup_table(tmp_path: Path) -> None:
    (tmp_path / "f.csv").write_text("op,k,v\n+I,a,1\n-D,a,1\n")
    with pytest.raises(LookupFailedError, match="its change column retracts rows"):
        looked_up(tmp_path / "f.csv", "k STRING, v INT", {})
    (tmp_path / "f.csv").write_text("op,k,v\n+I,a,1\n")
    assert looked_up(tmp_path / "f.csv", "k STRING, v INT", {}) == Counter([("a", 1)])


def test_a_sample_tells_its_types_and_its_changes(tmp_path: Path) -> None:
    path = tmp_path / "f.csv"
    path.write_text("op;k;v\n+I;007;1\n-D;NA;2\n")
    sample = read_sample(path, None, {"sep": ";"})
    assert sample.to_pydict() == {
        "k": ["007", "NA"],
        "v": [1, 2],
        "_change_type": ["insert", "delete"],
    }
    with pytest.raises(SpecError, match="sep is an option of CSV files"):
        (tmp_path / "f.jsonl").write_text("{}")
        read_sample(tmp_path / "f.jsonl", None, {"sep": ";"})
