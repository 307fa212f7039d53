"""The daemon that forks Spark's Python workers: it has already imported the modules that aggloom's workers need.

A worker that has nothing to do for a minute ends, and one that is forked from here instead has everything at hand.
`al.session` names this module to Spark as `spark.python.daemon.module`.
"""

from __future__ import annotations

import gc
import sys
from importlib import import_module

from aggloom.runtime.platform.workers import SparingCollector, answering_at_once, without_archives

_IMPORTED = ("pyspark.worker", "pyarrow.parquet", "aggloom.runtime.spark.api.query")


def main() -> None:
    """Import, and be the daemon."""
    sys.path[:] = without_archives(sys.path)
    for name in _IMPORTED:
        import_module(name)
    worker = import_module("pyspark.worker")
    vars(worker)["main"] = answering_at_once(worker.main)
    daemon = import_module("pyspark.daemon")
    vars(daemon)["gc"] = SparingCollector()
    # What has been imported stays: no worker needs to look at it again, nor to copy the pages that it is on.
    gc.collect()
    gc.freeze()
    daemon.manager()


if __name__ == "__main__":
    main()
