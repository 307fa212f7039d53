"""Which Spark this is, and what a cluster lacks: without starting one."""

from __future__ import annotations

import logging
import subprocess
import sys
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyspark")

from aggloom.errors import AggloomError, ExecutorError, SparkVersionError
from aggloom.private_directory import cache_directory
from aggloom.runtime.spark import release
from aggloom.runtime.spark.failures import explain_failure
from aggloom.runtime.spark.sessions.cluster import check_shared, write_archive
from aggloom.runtime.spark.sessions.session import _cores
from aggloom.runtime.spark.watch import repartition


@pytest.mark.parametrize(
    ("told", "numbers"), [("4.0.5", (4, 0)), ("4.1.0.dev0", (4, 1)), ("4.3", (4, 3))]
)
def test_a_version_is_its_first_two_numbers(told: str, numbers: tuple[int, int]) -> None:
    assert release.release(told) == numbers


def test_a_connect_client_without_stateful_python_is_refused_by_name() -> None:
    groups = SimpleNamespace(transformWithStateInPandas=print)
    assert release.for_state(groups) is groups
    with pytest.raises(SparkVersionError, match=r"^Spark Connect: .* Install pyspark 4\.1"):
        release.for_state(SimpleNamespace())


def test_what_spark_lacks_is_refused_with_the_version_that_has_it() -> None:
    server = type("Session", (), {"version": "4.1.4", "createDataFrame": None})()
    release.require("this", (4, 1), server)
    with pytest.raises(
        SparkVersionError, match=r"that: this needs Spark 4\.2, and Spark is 4\.1\.4"
    ):
        release.require("that", (4, 2), server)
    with pytest.raises(SparkVersionError, match=r"^repartition: this needs Spark 4\.3"):
        repartition.repartition(server, "checkpoint", 3)


@pytest.mark.parametrize(
    ("spark", "name"),
    [((4, 0), "streaming.S"), ((4, 1), "streaming.sinks.S"), ((4, 3), "streaming.sinks.S")],
)
def test_classes_are_where_they_are(
    monkeypatch: pytest.MonkeyPatch, spark: tuple[int, int], name: str
) -> None:
    monkeypatch.setattr(release, "SPARK", spark)
    assert release.streaming_class("sinks", "S") == f"org.apache.spark.sql.execution.{name}"


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (
            "File \"/x/pyspark/worker.py\", line 1\nModuleNotFoundError: No module named 'numba'\n",
            "the Python of Spark's executors has no package 'numba'",
        ),
        (
            "Error from python worker:\n  /usr/bin/python3: No module named aggloom\nPYTHONPATH was:\n",
            "the Python of Spark's executors has no package 'aggloom'",
        ),
        (
            "in /x/pyspark/worker.py\nRuntimeError: cannot cache function 'f': no locator available for file 'a.py'\n",
            "Spark's executors have no directory for compiled code",
        ),
    ],
)
def test_what_executors_lack_is_named(said: str, told: str) -> None:
    error = explain_failure(RuntimeError(said))
    assert isinstance(error, ExecutorError)
    assert str(error).startswith(told)
    assert "docs/clusters.md" in str(error)


def test_a_module_that_the_driver_lacks_is_no_matter_of_executors() -> None:
    error = explain_failure(RuntimeError("ModuleNotFoundError: No module named 'psycopg'"))
    assert isinstance(error, AggloomError)
    assert not isinstance(error, ExecutorError)


def test_the_archive_is_imported_as_the_package(tmp_path: Path) -> None:
    path = write_archive(tmp_path / "aggloom.zip")
    names = zipfile.ZipFile(path).namelist()
    assert len(names) == len(set(names))
    assert {"aggloom/__init__.py", "aggloom/templates/handler.py.j2"} <= set(names)
    assert {name.split("/")[0] for name in names} == {"aggloom"}
    script = "import aggloom.runtime.spark.node.host as host; print(host.__file__)"
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(path)!r}); {script}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout.strip() == f"{path}/aggloom/runtime/spark/node/host.py"


class _Session:
    """A session that answers questions about its cluster."""

    def __init__(self, master: str, file_system: str | None = None) -> None:
        conf = SimpleNamespace(get=lambda _: file_system)
        jsc = SimpleNamespace(hadoopConfiguration=lambda: conf)
        self.sparkContext = SimpleNamespace(master=master, _jsc=jsc)


@pytest.mark.parametrize(
    ("session", "path", "warned"),
    [
        (_Session("local[2]"), "/tmp/c", False),
        (_Session("spark://h:1"), "/tmp/c", True),
        (_Session("spark://h:1"), "file:///tmp/c", True),
        (_Session("spark://h:1"), "s3a://bucket/c", False),
        (_Session("spark://h:1", "hdfs://h:2"), "c", False),
        (_Session("spark://h:1", "hdfs://h:2"), "file:/c", True),
        (SimpleNamespace(), "/tmp/c", False),
    ],
)
def test_a_path_of_one_machine_is_warned_of(
    session: Any, path: str, warned: bool, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, logger="aggloom"):
        check_shared(session, "checkpoint", path)
    assert [f"checkpoint {path}" in line for line in caplog.messages] == [True] * warned


@pytest.mark.parametrize(
    ("master", "cores"),
    [
        ("local", None),
        ("local[*]", None),
        ("local[3]", 3),
        ("local[4,2]", 4),
        ("local-cluster[2,3,1024]", 6),
    ],
)
def test_partitions_are_as_many_as_cores(master: str, cores: int | None) -> None:
    assert _cores(master) == (cores or _cores("yarn"))


def test_without_a_home_modules_are_written_among_the_temporary_files(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("AGGLOOM_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/nowhere")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    tmp_path.chmod(0o1777)
    found = cache_directory()
    assert found.parent == tmp_path
    assert found.stat().st_mode & 0o777 == 0o700
