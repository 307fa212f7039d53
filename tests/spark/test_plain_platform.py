"""The switch that turns off what goes beyond public interfaces: nothing of it is there, and results are the same."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from aggloom.errors import OptionError
from aggloom.platform_switch import SWITCH, is_tuned

KERNELS = """
import json
from aggloom.runtime.storage.jit import array_kernel, cold_kernel, inner_kernel, kernel, part

def add(a, b):
    return a + b

made = [make(add) for make in (kernel, cold_kernel, inner_kernel, array_kernel, part)]
print(json.dumps({
    "options": sorted({name for each in made for name in each.targetoptions}),
    "passes": sorted({each._compiler.pipeline_class.__module__ for each in made}),
    "caches": sorted({each.stats.cache_path for each in made if each.stats.cache_path}),
    "sums": [made[0](1, 2), made[1](1.5, 2.0)],
}))
"""
ON_SPARK = """
import json, sys
from pathlib import Path
import pyarrow as pa
import pyarrow.parquet as pq
import aggloom as al

root = Path(sys.argv[1])
spark = al.session("plain", master="local[1]", spark__sql__shuffle__partitions=1)
(root / "in").mkdir()
pq.write_table(pa.table({"k": ["a", "b", "a"], "v": pa.array([1, 2, 3], pa.int64())}), root / "in" / "f.parquet")
rows = al.read_changes(spark, root / "in", "parquet", "k STRING, v BIGINT", whole_files=False)
out = al.sql("SELECT k, SUM(v) AS s FROM t GROUP BY k", t=rows, backend="python", buckets=1)
al.await_end(al.write_changes(out, "jsonl:" + str(root / "out"), root / "checkpoint"))
lines = [json.loads(line) for file in (root / "out").glob("*.json") for line in file.read_text().splitlines()]

def look(batches):
    import gc, os, sys
    import pyarrow as pa
    from pyspark import daemon
    for _ in batches:
        yield pa.record_batch({
            "frozen": [gc.get_freeze_count()], "collector": [type(daemon.gc).__name__],
            "switch": [os.environ.get("AGGLOOM_PLATFORM")], "pool": [pa.default_memory_pool().backend_name],
        })

worker = spark.range(1).repartition(1).mapInArrow(look, "frozen BIGINT, collector STRING, switch STRING, pool STRING")
process = spark._jvm.java.lang.ProcessHandle.current().pid()
files = spark._jvm.org.apache.hadoop.fs.FileSystem.get(
    spark._jvm.java.net.URI("file:///"), spark.sparkContext._jsc.hadoopConfiguration())
options = spark._jvm.java.lang.management.ManagementFactory.getRuntimeMXBean().getInputArguments()
print(json.dumps({
    "rows": sorted((line["k"], line["s"]) for line in lines),
    "worker": worker.collect()[0].asDict(),
    "daemon": spark.conf.get("spark.python.daemon.module", None),
    "files": files.getClass().getSimpleName(),
    "home": spark._jvm.java.lang.System.getenv("SPARK_HOME"),
    "malloc": spark._jvm.java.lang.System.getenv("MALLOC_TRIM_THRESHOLD_"),
    "java": [each for each in options if "Tier4" in each or "Archive" in each],
}))
spark.stop()
"""


def told_by(program: str, *arguments: str, plain: bool) -> dict[str, Any]:
    """Return the last line that a program prints, with the switch off or on."""
    environment = {name: value for name, value in os.environ.items() if name != SWITCH}
    environment |= {SWITCH: "plain"} if plain else {}
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize(("value", "expected"), [("", True), ("tuned", True), ("plain", False)])
def test_the_switch(monkeypatch: pytest.MonkeyPatch, value: str, expected: bool) -> None:
    monkeypatch.setenv(SWITCH, value)
    assert is_tuned() == expected


def test_a_word_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SWITCH, "plane")
    with pytest.raises(OptionError, match=r"AGGLOOM_PLATFORM is 'plane'\. Did you mean 'plain'"):
        is_tuned()


def test_numba_compiles_by_itself(tmp_path: Path) -> None:
    # Numba caches functions of files only.
    (tmp_path / "few_kernels.py").write_text(KERNELS)
    run = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import few_kernels"
    plain, tuned = told_by(run, plain=True), told_by(run, plain=False)
    assert plain["sums"] == tuned["sums"] == [3, 3.5]
    ours = {"_nrt", "no_cfunc_wrapper", "forceinline"}
    assert not ours & set(plain["options"]) and ours <= set(tuned["options"])
    assert plain["passes"] == ["numba.core.compiler"]
    assert any(each.startswith("aggloom.") for each in tuned["passes"])
    assert all("plain-kernels" in each for each in plain["caches"])
    assert not any("plain-kernels" in each for each in tuned["caches"])


@pytest.mark.spark
@pytest.mark.thorough
def test_spark_runs_without_any_of_it(tmp_path: Path) -> None:
    found = told_by(ON_SPARK, str(tmp_path), plain=True)
    assert found["rows"] == [["a", 4], ["b", 2]]
    worker = found["worker"]
    assert worker["frozen"] == 0 and worker["collector"] == "module"
    assert worker["switch"] == "plain" and worker["pool"] != "system"
    assert found["daemon"] is None and found["files"] != "AggloomLocalFileSystem"
    assert "aggloom" not in (found["home"] or "") and found["malloc"] is None
    assert found["java"] == []
