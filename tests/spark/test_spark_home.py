"""The home of Spark in the cache: links, and an archive of classes that the first session leaves."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pyspark
import pytest
from pyspark import SparkContext

from aggloom.runtime.platform.spark_home import quick_home
from aggloom.runtime.spark.sessions.launch import java_launched

pytestmark = pytest.mark.shortcut
MAGIC = b"\xa8\xab\x0b\xf0"


@pytest.fixture(autouse=True)
def _before_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No Java runs yet, and the cache is empty."""
    monkeypatch.setattr(SparkContext, "_gateway", None)
    for name in ("SPARK_HOME", "SPARK_CONF_DIR", "HADOOP_CONF_DIR", "YARN_CONF_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AGGLOOM_CACHE", str(tmp_path))


def place(tmp_path: Path) -> Path:
    (found,) = tmp_path.glob("spark-*")
    return found


def start(**settings: str) -> str:
    """The options with which a session would start Java; the home is there while it does."""
    with quick_home(settings) as options:
        home = Path(os.environ["SPARK_HOME"])
        parts = {part.name for part in Path(pyspark.__file__).parent.iterdir()}
        assert {part.name for part in home.iterdir()} == parts - {"python"}
        assert (home / "jars").resolve() == Path(pyspark.__file__).parent / "jars"
    assert "SPARK_HOME" not in os.environ
    return options


def test_one_session_writes_the_archive_and_later_ones_map_it(tmp_path: Path) -> None:
    first = start()
    (wanted,) = (o.partition("=")[2] for o in first.split() if "ArchiveClassesAtExit" in o)
    assert Path(wanted).parent == place(tmp_path)
    assert "Archive" not in start(), "another writes it already"
    # Java writes the header last: until then it is no archive.
    Path(wanted).write_bytes(bytes(8))
    assert "Archive" not in start()
    Path(wanted).write_bytes(MAGIC + bytes(8))
    assert f"-XX:SharedArchiveFile={place(tmp_path)}/classes.jsa" in start().split()
    assert not Path(wanted).exists()


def test_a_session_that_never_wrote_is_given_up_after_an_hour(tmp_path: Path) -> None:
    (wanted,) = (o.partition("=")[2] for o in start().split() if "ArchiveClassesAtExit" in o)
    Path(wanted).write_bytes(bytes(8))
    long_ago = time.time() - 4000
    for left in (Path(wanted), place(tmp_path) / "writer"):
        os.utime(left, (long_ago, long_ago))
    assert "ArchiveClassesAtExit" in start()
    assert not Path(wanted).exists()


@pytest.mark.parametrize("foreign", ["environment", "settings"])
def test_classes_from_elsewhere_are_not_archived(
    foreign: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {}
    if foreign == "environment":
        monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    else:
        settings = {"spark.driver.extraClassPath": "/some.jar"}
    assert "Archive" not in start(**settings)


def test_a_home_that_the_user_names_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_HOME", "/opt/spark")
    with quick_home({}) as options:
        assert os.environ["SPARK_HOME"] == "/opt/spark"
    assert os.environ["SPARK_HOME"] == "/opt/spark"
    assert "Archive" not in options and list(tmp_path.glob("spark-*")) == []


def test_nothing_is_done_where_java_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gateway: Any = object()
    monkeypatch.setattr(SparkContext, "_gateway", gateway)
    settings = {"spark.driver.memory": "1g"}
    assert java_launched("name", "local[1]", settings, quiet=True) == settings
    assert list(tmp_path.iterdir()) == []


def test_without_a_cache_the_home_is_for_this_process_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("AGGLOOM_CACHE", str(tmp_path / "file" / "no directory"))
    assert "Archive" not in start()
