"""A home of Spark without the archives of its Python modules, which each process compiles anew that Java starts."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark
from pyspark import SparkContext

_HOME = "SPARK_HOME"


@contextmanager
def without_archives() -> Iterator[None]:
    """While Spark's Java starts: its home is the installed package but for the archives, which hold the same modules.

    Does nothing where Java runs already, or where the user has said what the home is.
    """
    if _HOME in os.environ or SparkContext._gateway is not None:
        yield
        return
    home = Path(tempfile.mkdtemp(prefix="aggloom-spark-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    try:
        for part in Path(pyspark.__file__).parent.iterdir():
            if part.name != "python":
                (home / part.name).symlink_to(part)
        os.environ[_HOME] = str(home)
    except OSError:
        # Without links it starts as ever.
        pass
    try:
        yield
    finally:
        os.environ.pop(_HOME, None)
