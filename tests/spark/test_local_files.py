"""Local files of Java: their permissions, without a process for each."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from aggloom.runtime.platform.local_files import without_processes


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.spark
@pytest.mark.shortcut
def test_permissions_of_local_files_are_as_hadoop_sets_them(spark: Any, tmp_path: Path) -> None:
    without_processes(spark)  # Once more changes nothing.
    fs = spark._jvm.org.apache.hadoop.fs
    files = fs.FileSystem.get(
        spark._jvm.java.net.URI("file:///"), spark.sparkContext._jsc.hadoopConfiguration()
    )
    assert files.getClass().getName() == "AggloomLocalFileSystem"
    of_ours, of_hadoop = tmp_path / "a b", tmp_path / "c"
    files.create(fs.Path(str(of_ours))).close()
    hadoop = fs.LocalFileSystem()
    hadoop.initialize(
        spark._jvm.java.net.URI("file:///"), spark.sparkContext._jsc.hadoopConfiguration()
    )
    hadoop.create(fs.Path(str(of_hadoop))).close()
    assert mode(of_ours) == mode(of_hadoop)
    assert (tmp_path / ".a b.crc").exists()
    files.mkdirs(fs.Path(str(tmp_path / "d/e")))
    hadoop.mkdirs(fs.Path(str(tmp_path / "d/f")))
    assert mode(tmp_path / "d/e") == mode(tmp_path / "d/f")
    for said in ("600", "0777", "1777"):
        files.setPermission(fs.Path(str(tmp_path / "d")), fs.permission.FsPermission(said))
        assert mode(tmp_path / "d") == int(said, 8)
