"""Directories that cannot be written are named, with what to do, before anything runs."""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import aggloom as al
from aggloom.cli import main
from aggloom.errors import DirectoryError
from aggloom.writable import check_checkpoint_directory

SQL = "SELECT k, SUM(v) AS s FROM t GROUP BY k"


def refuse(monkeypatch: pytest.MonkeyPatch, below: Path, number: int) -> None:
    """Let the system refuse what is written below a directory."""

    def fail(directory: Any) -> None:
        if directory is not None and Path(directory).is_relative_to(below):
            raise OSError(number, os.strerror(number))

    temporary, named, make = tempfile.TemporaryFile, tempfile.mkstemp, Path.mkdir

    def refused(*given: Any, dir: Any = None, **more: Any) -> Any:
        fail(dir)
        return temporary(*given, dir=dir, **more)

    def refused_named(*given: Any, dir: Any = None, **more: Any) -> Any:
        fail(dir)
        return named(*given, dir=dir, **more)

    def refused_directory(self: Path, *given: Any, **more: Any) -> None:
        fail(self)
        make(self, *given, **more)

    monkeypatch.setattr(tempfile, "TemporaryFile", refused)
    monkeypatch.setattr(tempfile, "mkstemp", refused_named)
    monkeypatch.setattr(Path, "mkdir", refused_directory)


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (errno.EROFS, "(Read-only file system). Make it writable"),
        (errno.EACCES, "(Permission denied). Make it writable"),
        (errno.ENOSPC, "(No space left on device). Make room on its disk"),
        (errno.EDQUOT, "(Disk quota exceeded). Make room on its disk"),
    ],
)
@pytest.mark.parametrize(
    ("what", "fix"),
    [
        ("checkpoint", "give another checkpoint"),
        ("output", "give the sink another path"),
        ("directory of generated code", "let AGGLOOM_CACHE (or -o) name another directory"),
    ],
)
def test_a_run_names_what_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, said: str, what: str, fix: str
) -> None:
    place, other = tmp_path / "closed", tmp_path / "open"
    place.mkdir()
    (tmp_path / "in.jsonl").write_text('{"k": 1, "v": 2}')
    checkpoint = place / "c" if what == "checkpoint" else other / "c"
    output = place / "out" if what == "output" else other / "out"
    directory = {"checkpoint": checkpoint, "output": output}.get(what, place / "cache")
    if directory.name == "cache":
        monkeypatch.setenv("AGGLOOM_CACHE", str(directory))
    refuse(monkeypatch, place, number)
    monkeypatch.setattr("aggloom.run._run", lambda *_: pytest.fail("Spark starts"))
    command = ["run", "--sql", SQL, "--table", f"t={tmp_path}/in.jsonl,schema=k INT, v INT"]
    done = CliRunner().invoke(
        main, [*command, "--sink", f"jsonl:{output}", "--checkpoint", str(checkpoint)]
    )
    assert done.exit_code == 2
    expected = f"aggloom: {what} {directory}: it cannot be written to {said}, or {fix}.\n"
    assert done.stderr == expected
    assert not other.exists()


def test_a_harness_names_a_cache_that_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cache").mkdir()
    monkeypatch.setenv("AGGLOOM_CACHE", str(tmp_path / "cache"))
    refuse(monkeypatch, tmp_path / "cache", errno.ENOSPC)
    with pytest.raises(DirectoryError, match=r"cache.*No space left on device.*AGGLOOM_CACHE"):
        al.Harness.from_sql(SQL, {"t": "k INT, v BIGINT"}, backend="python")


def test_a_check_leaves_nothing(tmp_path: Path) -> None:
    check_checkpoint_directory(tmp_path / "a" / "b")
    check_checkpoint_directory(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_report_names_a_directory_that_is_not_there(tmp_path: Path) -> None:
    file = tmp_path / "none" / "x.html"
    result = CliRunner().invoke(main, ["report", str(tmp_path), "-o", str(file)])
    assert result.exit_code
    assert f"there is no directory {file.parent}. Make it, or give -o another" in result.output
