"""Commands start Spark at once, beside what may fail, and for few rows without Java's second compiler."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from pyspark import SparkContext

from aggloom import run
from aggloom.job import Job
from aggloom.runtime.spark.sessions import command_session
from aggloom.runtime.spark.sessions.command_session import session_to_run
from aggloom.tables import TableSource

C1 = "-XX:TieredStopAtLevel=1"


def job(path: Path | str, **more: Any) -> Job:
    return Job("SELECT 1", (TableSource("t", str(path), "jsonl", "a INT"),), **more)


def test_few_rows_are_files_of_few_bytes_on_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "ab":
        (tmp_path / name).write_text(name * 60)
    assert run._has_few_rows(job(tmp_path))
    assert not run._has_few_rows(job(tmp_path, continuous=True))
    assert not run._has_few_rows(job("s3a://bucket/changes"))
    assert not run._has_few_rows(job(tmp_path / "nothing"))
    other = replace(job(tmp_path).tables[0], kafka={"topic": "t"})
    assert not run._has_few_rows(replace(job(tmp_path), tables=(*job(tmp_path).tables, other)))
    monkeypatch.setattr(run, "_FEW_BYTES", 119)
    assert not run._has_few_rows(job(tmp_path))


class Started:
    """Stands for the start of Spark, which goes on as long as the test wants."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reached, self.may_end = threading.Event(), threading.Event()
        self.settings: dict[str, str] = {}
        monkeypatch.setattr(SparkContext, "_gateway", None)
        monkeypatch.setattr(command_session, "session", self)

    def __call__(self, name: str, **settings: str) -> Any:
        self.settings = settings
        self.reached.set()
        assert self.may_end.wait(60)
        if "fails" in name:
            raise ValueError("no Java")
        return self


@pytest.mark.parametrize("few_rows", [True, False])
def test_spark_starts_while_the_query_is_planned(
    monkeypatch: pytest.MonkeyPatch, few_rows: bool
) -> None:
    started = Started(monkeypatch)
    with session_to_run("run", few_rows, **{"spark.jars": "a.jar"}) as session:
        assert started.reached.wait(60)
        started.may_end.set()
        assert session() is started  # type: ignore[comparison-overlap]
    assert (C1 in started.settings.get("spark.driver.extraJavaOptions", "")) == few_rows
    assert started.settings["spark.jars"] == "a.jar"


def test_what_fails_beside_the_start_is_raised_once_java_can_be_told_to_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started = Started(monkeypatch)
    waits: list[float] = []

    def pause(seconds: float) -> None:
        waits.append(seconds)
        monkeypatch.setattr(SparkContext, "_gateway", object())

    monkeypatch.setattr(command_session.time, "sleep", pause)
    with pytest.raises(ValueError, match="the plan"), session_to_run("run", True):
        assert started.reached.wait(60)
        raise ValueError("the plan")
    started.may_end.set()
    assert len(waits) == 1


def test_spark_that_does_not_start_is_told_where_it_is_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started = Started(monkeypatch)
    started.may_end.set()
    with pytest.raises(ValueError, match="no Java"), session_to_run("fails", True) as session:
        session()
