"""Classes of a few lines for a JVM on this machine, compiled by the compiler that Spark has for its own code."""

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
    """Return the compiler that has the classes of a template of Java; raises Py4JError.

    parent: the loader whose classes it sees. texts: those that the template prints.
    """
    # A process that asks for state variables imports this module, and pays for nothing that it does not use.
    from aggloom.codegen import template_environment

    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(parent)
    compiler.cook(template_environment().get_template(template).render(texts))
    return compiler


def function_of(
    spark: SparkSession, name: str, template: str, texts: Mapping[str, str], *arguments: str
) -> Callable[..., Column] | None:
    """Return a maker of a column by a class whose static `function` of texts gives a UserDefinedFunction.

    template, texts: of the class, whose name it prints as `name`. arguments: those of `function`. None where there is
    no such class, or where the switch is off. The session is one under a local master, whose tasks run in this JVM.
    """
    if not is_tuned():
        return None
    sc = spark.sparkContext
    jvm, gateway = sc._jvm, sc._gateway
    assert jvm is not None and gateway is not None
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    try:
        kind = _find_class(loader, name) or _define_class(jvm, loader, name, template, texts)
        kinds = gateway.new_array(jvm.java.lang.Class, len(arguments))
        java_arguments = gateway.new_array(jvm.java.lang.Object, len(arguments))
        for place, text in enumerate(arguments):
            kinds[place], java_arguments[place] = (
                jvm.java.lang.Class.forName("java.lang.String"),
                text,
            )
        java_function = kind.getMethod("function", kinds).invoke(None, java_arguments)
    except (Py4JError, OSError) as failure:
        _log.debug("no class %s: %s", name, failure)
        return None
    return lambda *columns: Column(java_function.apply(_to_seq(sc, columns, _to_java_column)))


def _define_class(jvm: Any, loader: Any, name: str, template: str, texts: Mapping[str, str]) -> Any:
    """Return the class of a template, which Spark's tasks in this JVM will find."""
    compiler = compile_template(jvm, loader, template, {**texts, "name": name})
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
