"""Small classes for a JVM on this machine, compiled by Janino, the compiler of Spark's own generated code."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import Column, SparkSession
from pyspark.sql.classic.column import _to_java_column, _to_seq

from aggloom.platform_switch import is_tuned

_log = logging.getLogger("aggloom")


def compile_template(jvm: Any, parent: Any, template: str, texts: Mapping[str, str]) -> Any:
    """Compile a template of Java, and return the compiler with its classes; raises Py4JError.

    parent: the loader of the classes that it uses. texts: the variables of the template.
    """
    # Imported late: most processes that import this module compile nothing.
    from aggloom.codegen import template_environment

    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(parent)
    compiler.cook(template_environment().get_template(template).render(texts))
    return compiler


def function_of(
    spark: SparkSession, name: str, template: str, texts: Mapping[str, str], *arguments: str
) -> Callable[..., Column] | None:
    """Return a function of columns that calls a UserDefinedFunction of Java; None if it cannot be, or is switched off.

    spark: a session with a local master, whose tasks run in this JVM. name: of the class; its static method `function`
    returns the UserDefinedFunction. template, texts: of its source. arguments: of `function`, all of them texts.
    """
    if not is_tuned():
        return None
    sc = spark.sparkContext
    jvm, gateway = sc._jvm, sc._gateway
    assert jvm is not None and gateway is not None
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    try:
        kind = _find_class(loader, name) or _define_class(jvm, loader, name, template, texts)
        parameter_types = gateway.new_array(jvm.java.lang.Class, len(arguments))
        values = gateway.new_array(jvm.java.lang.Object, len(arguments))
        text_type = jvm.java.lang.Class.forName("java.lang.String")
        for index, text in enumerate(arguments):
            parameter_types[index], values[index] = text_type, text
        java_function = kind.getMethod("function", parameter_types).invoke(None, values)
    except (Py4JError, OSError) as failure:
        _log.debug("no class %s: %s", name, failure)
        return None
    return lambda *columns: Column(java_function.apply(_to_seq(sc, columns, _to_java_column)))


def _define_class(jvm: Any, loader: Any, name: str, template: str, texts: Mapping[str, str]) -> Any:
    """Return the class of a template, added to the loader of Spark's tasks in this JVM."""
    compiler = compile_template(jvm, loader, template, {**texts, "name": name})
    with tempfile.TemporaryDirectory(prefix="aggloom-class-") as directory:
        for each, code in dict(compiler.getBytecodes()).items():
            (Path(directory) / f"{each}.class").write_bytes(code)
        loader.addURL(jvm.java.io.File(directory).toURI().toURL())
        # A loaded class no longer needs its file.
        return loader.loadClass(name)


def _find_class(loader: Any, name: str) -> Any:
    try:
        return loader.loadClass(name)
    except Py4JError:
        return None
