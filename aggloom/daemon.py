"""Where Spark's Python workers come from: its own daemon, which has imported what workers of ours need.

A worker that has nothing to do for a minute ends, and one that is forked from here instead has everything at hand.
`al.session` names this module to Spark as `spark.python.daemon.module`.
"""

from __future__ import annotations

import runpy
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

_IMPORTED = ("pyspark.worker", "pyarrow.parquet", "aggloom.runtime.spark")


def without_archives(path: Sequence[str]) -> list[str]:
    """A module search path without what lies inside of Spark's package, if it is installed as one.

    Spark puts archives of itself first. Whatever is imported from them is compiled by every process, and every task
    reads their lists of contents again.
    """
    homes = [Path(entry) / "pyspark" for entry in path if (Path(entry) / "pyspark").is_dir()]
    return [entry for entry in path if not any(home in Path(entry).parents for home in homes)]


def main() -> None:
    """Import, and be the daemon."""
    sys.path[:] = without_archives(sys.path)
    for name in _IMPORTED:
        import_module(name)
    runpy.run_module("pyspark.daemon", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
