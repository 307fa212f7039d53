"""Jobs and their tables: paths, names nobody knows, things said twice; and what a run says at its end."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

import aggloom as al
from aggloom.cli import main
from aggloom.errors import InputFormatError, SpecError
from aggloom.job import Job, complete, read_job
from aggloom.run import _tell
from aggloom.runtime.operators.counts import Counts, OperatorCounts
from aggloom.tables import TableSource, read_table_option, table_source

SUM = "SELECT k, SUM(v) AS s FROM t GROUP BY k"
TABLE = '{path: in, format: csv, schema: "k STRING, v INT"}'


def call(*arguments: Any) -> Result:
    """Run the command line in this process."""
    return CliRunner().invoke(main, [*map(str, arguments)], prog_name="aggloom")


def written(folder: Path, table: str = TABLE, more: str = "") -> Path:
    folder.mkdir(exist_ok=True)
    job = folder / "job.yaml"
    job.write_text(f"sql: {SUM}\ntables:\n  t: {table}\ncheckpoint: state\n{more}")
    return job


def test_paths_are_relative_to_the_file_and_those_of_options_to_the_caller(tmp_path: Path) -> None:
    job = read_job(written(tmp_path / "jobs", more="sink: jsonl:out\n"))
    assert job.tables[0].path == str(tmp_path / "jobs" / "in")
    assert job.checkpoint == tmp_path / "jobs" / "state"
    assert job.sink == f"jsonl:{tmp_path}/jobs/out"
    over = read_job(tmp_path / "jobs" / "job.yaml", checkpoint=Path("here"), sink="table")
    assert (over.checkpoint, over.sink) == (Path("here"), "table")
    there = written(tmp_path / "jobs", '{path: "s3a://b/in", format: csv, schema: k INT}')
    assert read_job(there).tables[0].path == "s3a://b/in"
    absolute = written(tmp_path / "jobs", "{path: /in, format: csv, schema: k INT}")
    assert read_job(absolute).tables[0].path == "/in"


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ("{path: in, fmt: csv}", "no entry 'fmt'. Did you mean 'format'?"),
        ("{path: in, format: csv, maxFilesPerTriger: 1}", "Did you mean 'maxFilesPerTrigger'"),
        ("{path: in, format: csv, whole_fils: true}", "Did you mean 'whole_files'?"),
        ("{path: in, format: csw}", "no format 'csw'. Did you mean 'csv'?"),
        ("{path: in, format: delta}", "'delta' is no format of files; say connector=delta"),
        ("{path: in, format: csv, path: other}", "'path' is there twice"),
        ("{path: in, format: csv, whole_files: 3}", "whole_files is 3; it must be true or false"),
        ("{path: in, format: csv, options: 3}", "`options` must be a mapping"),
        ("{path: in, format: csv, sep: a, options: {Sep: b}}", "'sep' is given twice"),
        ("{path: in, format: csv, schema: 3}", "schema must be DDL"),
        ("in", "give it a path and a format"),
        (
            "{path: in, format: csv, maxFilesPerTrigger: 0}",
            "maxFilesPerTrigger is 0; it must be a whole number",
        ),
        (
            "{path: in, format: csv, max_files_per_trigger: 0}",
            "max_files_per_trigger is 0; it must be a whole",
        ),
        ("{path: in, format: csv, maxFilesPerTrigger: 3000000000}", "from 1 to 2147483647"),
        (
            "{path: in, format: csv, options: {maxBytesPerTrigger: 0}}",
            "maxBytesPerTrigger is 0; it must be a",
        ),
    ],
)
def test_an_entry_that_nobody_reads_is_an_error(tmp_path: Path, table: str, said: str) -> None:
    with pytest.raises(SpecError) as raised:
        read_job(written(tmp_path, table))
    assert said in str(raised.value)
    assert "job.yaml" in str(raised.value)


def test_sparks_options_are_known_or_named_as_such() -> None:
    settings = {"path": "in", "format": "csv", "maxfilespertrigger": 3, "options": {"any.thing": 1}}
    assert table_source("t", settings, "t").options == {"any.thing": 1, "maxfilespertrigger": 3}
    text = "t=in,format=csv,schema=k INT,whole_files=false,max_files_per_trigger=2,options.x.y=z"
    assert read_table_option(text).options == {
        "x.y": "z",
        "whole_files": False,
        "max_files_per_trigger": 2,
    }
    with pytest.raises(SpecError, match="no entry 'fmt'"):
        read_table_option("t=in,fmt=csv")
    with pytest.raises(SpecError, match="says something twice"):
        read_table_option("t=in,format=csv,format=jsonl")


def test_what_is_said_twice_or_of_another_type(tmp_path: Path) -> None:
    table = ("--table", "t=in,format=csv,schema=k STRING")
    result = call("run", "--sql", SUM, *table, *table, "--checkpoint", tmp_path / "c")
    assert result.exit_code == 2
    assert "table 't' is given twice; leave one out" in result.stderr
    result = call("run", "--sql", SUM, *table, "--set", "state_ttl=1", "--set", "state_ttl=2")
    assert "--set names 'state_ttl' twice" in result.stderr
    for more, said in (
        ("sink: 3", "sink is 3; it must be text"),
        (
            "sink: tabel",
            "unknown sink 'tabel'. Did you mean 'table' or 'database'. Known are console, table",
        ),
        ("sink: jsnol:out", "unknown sink 'jsnol:.*out'. Did you mean 'jsonl'"),
        ("sink: jsonl", "write jsonl:PATH"),
        ("continuous: maybe", "continuous is 'maybe'; it must be true or false"),
        ("keep_open: maybe", "keep_open is 'maybe'; it must be true or false"),
        ("checkpoint: other", "'checkpoint' is there twice"),
        ("snk: table", "no entry 'snk'. Did you mean 'sink'?"),
    ):
        with pytest.raises(SpecError, match=said):
            read_job(written(tmp_path, more=more))
    with pytest.raises(SpecError, match="checkpoint is 3; it must be a path"):
        complete({"sql": SUM, "tables": (read_table_option(table[1]),), "checkpoint": 3}, "run")


def test_the_columns_of_parquet_files_are_those_of_all(tmp_path: Path) -> None:
    pq.write_table(pa.table({"k": ["a"], "op": ["+I"]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"k": ["a"], "v": [1]}), tmp_path / "b.parquet")
    for path in (tmp_path, tmp_path / "*.parquet"):
        columns = table_source("t", {"path": str(path), "format": "parquet"}, "t").columns()
        assert columns == pa.schema([("k", pa.string()), ("v", pa.int64())])
    one = table_source("t", {"path": str(tmp_path / "a.parquet")}, "t")
    assert one.format == "parquet" and one.columns() == pa.schema([("k", pa.string())])
    with pytest.raises(SpecError, match=r"no Parquet file at .*nope"):
        table_source("t", {"path": f"{tmp_path}/nope", "format": "parquet"}, "t").columns()
    pq.write_table(pa.table({"k": [[1]]}), tmp_path / "c.parquet")
    with pytest.raises(SpecError, match="disagree on a column"):
        table_source("t", {"path": str(tmp_path), "format": "parquet"}, "t").columns()
    (tmp_path / "c.parquet").write_bytes(b"no")
    with pytest.raises(InputFormatError, match=r"c\.parquet cannot be read as Parquet"):
        table_source("t", {"path": str(tmp_path), "format": "parquet"}, "t").columns()


@pytest.mark.parametrize(
    "arguments",
    [
        ("inspect", "a.txt", "--plan"),
        ("refresh", "a.txt"),
        ("generate", "--yaml", "latin.yaml"),
        ("run", "latin.yaml"),
        ("run", "."),
        ("estimate", "--sql", SUM, "--sample", "."),
        ("state", "a.txt"),
        ("why", "a.txt", "--key", "k=a"),
    ],
    ids=lambda given: " ".join(given[:2]),
)
def test_no_file_is_met_with_a_traceback(
    arguments: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.txt").write_text("k,v\n")
    (tmp_path / "latin.yaml").write_bytes(b"sql: \xe4")
    result = call(*arguments)
    assert result.exit_code == 2, result.exception
    assert "Traceback" not in result.output and len(result.stderr.splitlines()) < 6
    assert isinstance(result.exception, SystemExit)


@pytest.mark.parametrize("path", ["${DATA}/in", "$DATA/in", "in/${DAY}.csv", "s3://${BUCKET}/in"])
def test_variables_in_paths_are_refused(path: str, tmp_path: Path) -> None:
    script = f"CREATE TABLE t (k STRING, v INT) WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'csv');"
    calls = [
        ("run", written(tmp_path, f"{{path: '{path}', format: csv, schema: k INT}}")),
        ("sql", "--table", f"t={path},format=csv,schema=k STRING", "-c", "SELECT k FROM t"),
        ("sql", "-c", f"{script} SELECT k FROM t"),
    ]
    for arguments in calls:
        said = call(*arguments).stderr
        assert "variables of the environment are not read here" in said and "$" in said


@pytest.mark.spark
def test_a_run_says_what_it_counted_and_its_failures_in_a_line(spark: Any, tmp_path: Path) -> None:
    job = written(tmp_path, more="sink: table\n")
    missing = call("run", job)
    assert missing.exit_code == 2
    assert missing.stderr.startswith("aggloom: table t: there is no file or directory")
    assert "starting Spark" not in missing.stderr
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.csv").write_text("op,k,v\n+I,a,1\n-D,zz,\n")
    result = call("run", job)
    assert result.exit_code == 0, result.output
    assert result.stderr.splitlines()[-1].startswith(
        "1 batch: 2 rows in, 1 change out, 1 orphan, 1 key, "
    )
    assert "an orphan retracts" in result.stderr and "with order=name" in result.stderr
    assert "│ a │ 1 │" in result.stdout
    again = call("run", job, "--json")
    told = json.loads(again.stdout)
    assert told["table"] == [{"k": "a", "s": 1}]
    assert (told["counts"]["batches"], told["counts"]["rows"]) == (0, 0)
    (tmp_path / "in" / "2.csv").write_text("op,k,v\n+I,a,x\n")
    failed = call("run", job)
    assert failed.exit_code == 2
    (line,) = [line for line in failed.stderr.splitlines() if line.startswith("aggloom: ")]
    assert "2.csv" in line and "x" in line and "Py4J" not in line
    assert "Traceback" not in failed.output
    assert al.read_table(tmp_path / "state").to_pylist() == [{"k": "a", "s": 1}]


@pytest.mark.parametrize("kept", [False, True])
@pytest.mark.parametrize("continuous", [False, True])
@pytest.mark.parametrize("windows", [0, 2])
def test_a_run_that_ends_says_which_windows_are_open(
    capsys: pytest.CaptureFixture[str], windows: int, continuous: bool, kept: bool
) -> None:
    table = TableSource("t", "in", "csv", "k STRING")
    job = Job("SELECT 1", (table,), continuous=continuous, keep_open=kept)
    at = dt.datetime(2026, 1, 1, 2, tzinfo=dt.UTC)
    counts = Counts(1, 3, 1, watermark=at, operators=(OperatorCounts("w", windows=windows),))
    _tell(counts, job, None, "")
    *hints, last = capsys.readouterr().err.splitlines()
    assert last == str(counts)
    assert len(hints) == (windows > 0 and not continuous)
    for hint in hints:
        assert hint.startswith("still open: 2 windows")
        assert "at watermark 2026-01-01 02:00:00" in hint
        assert ("a run without --keep-open closes all" in hint) == kept


@pytest.mark.parametrize(
    ("options", "line"),
    [((), "closed at the end of the input: 1 window"), (("--keep-open",), "still open: 1 window")],
)
def test_a_run_says_how_many_windows_its_end_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], line: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("o.csv").write_text("k,ts\na,2026-01-01 10:05:00\na,2026-01-01 11:10:00\n")
    window = "TABLE(TUMBLE(TABLE o, DESCRIPTOR(ts), INTERVAL '1' HOUR))"
    query = f"SELECT k, COUNT(*) AS n FROM {window} GROUP BY k, window_start, window_end"
    told = call(
        "run",
        "--engine",
        "local",
        "--backend",
        "python",
        "--table",
        "o=o.csv,watermark=ts 0 seconds",
        "--sql",
        query,
        *options,
    )
    assert told.exit_code == 0, told.output
    (found,) = [each for each in told.stderr.splitlines() if each.startswith(("closed ", "still "))]
    assert found.startswith(line)


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("inn", "there is no file or directory 'inn'. Did you mean 'in'?"),
        ("empty", "add the format, one of .*; there is no file in 'empty' that tells it"),
        ("in", "add the format, one of .*; files in 'in' have 2"),
    ],
)
def test_a_table_without_a_format_says_what_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("in", "empty"):
        Path(name).mkdir()
    for name in ("a.csv", "a.jsonl"):
        (Path("in") / name).write_text("")
    with pytest.raises(SpecError, match=said):
        read_table_option(f"t={path}")


def test_a_run_without_a_batch_says_nothing_of_the_size_of_its_state() -> None:
    assert str(Counts()) == "0 batches: 0 rows in, 0 changes out, state unchanged"


def test_a_misspelt_option_of_a_created_table_is_named_beside_the_missing_one(
    tmp_path: Path,
) -> None:
    script = tmp_path / "job.sql"
    script.write_text(
        f"CREATE TABLE t (k STRING, v INT) WITH ('connector'='filesystem','pth'='in','format'='json'); {SUM};"
    )
    said = call("run", script).stderr
    assert "'path' is missing (there is 'pth')" in said
