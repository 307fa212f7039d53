"""Classes of a few lines for a JVM on this machine, compiled by the compiler that Spark has for its own code."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import Column, SparkSession
from pyspark.sql.classic.column import _to_java_column, _to_seq

_log = logging.getLogger("aggloom")


def compile_source(jvm: Any, parent: Any, source: str) -> Any:
    """The compiler that has the classes of a source, which sees those of a loader; raises Py4JError."""
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(parent)
    compiler.cook(source)
    return compiler


def function_of(
    spark: SparkSession, name: str, source: str, *texts: str
) -> Callable[..., Column] | None:
    """Return a maker of a column by a class whose static `function` of texts gives a UserDefinedFunction; None
    without it.

    The session is one under a local master, whose tasks run in this JVM.
    """
    sc = spark.sparkContext
    jvm, gateway = sc._jvm, sc._gateway
    assert jvm is not None and gateway is not None
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    try:
        kind = _find_class(loader, name) or _define_class(jvm, loader, name, source)
        kinds = gateway.new_array(jvm.java.lang.Class, len(texts))
        given = gateway.new_array(jvm.java.lang.Object, len(texts))
        for place, text in enumerate(texts):
            kinds[place], given[place] = jvm.java.lang.Class.forName("java.lang.String"), text
        made = kind.getMethod("function", kinds).invoke(None, given)
    except (Py4JError, OSError) as failure:
        _log.debug("no class %s: %s", name, failure)
        return None
    return lambda *columns: Column(made.apply(_to_seq(sc, columns, _to_java_column)))


def _define_class(jvm: Any, loader: Any, name: str, source: str) -> Any:
    """The class of a source, which Spark's tasks in this JVM will find."""
    compiler = compile_source(jvm, loader, source)
    with tempfile.TemporaryDirectory(prefix="aggloom-class-") as directory:
        for each, code in dict(compiler.getBytecodes()).items():
            (Path(directory) / f"{each}.class").write_bytes(code)
        loader.addURL(jvm.java.io.File(directory).toURI().toURL())
        # What is loaded once needs its file no more.
        return loader.loadClass(name)


def _find_class(loader: Any, name: str) -> Any:
    try:
        return loader.loadClass(name)
    except Py4JError:
        return None
