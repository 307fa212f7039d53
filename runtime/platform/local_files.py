"""Hadoop's local file system without a process for every file that it makes.

Spark's packages lack the native part of Hadoop, without which it starts `chmod` for each file and for its checksum:
some ten in a small batch. Java sets permissions itself as well. The class that does so is compiled by the compiler
that Spark has for its own generated code, and takes the place of the file system that this JVM keeps for `file:`.
"""

from __future__ import annotations

import logging

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from aggloom.platform_switch import is_tuned
from aggloom.runtime.platform.java_class import compile_template

_NAME = "AggloomLocalFileSystem"
_SOURCE = "local_file_system.java.j2"

_log = logging.getLogger("aggloom")


def without_processes(spark: SparkSession) -> None:
    """Have the JVM of a session set permissions of local files itself, if it can and the switch is on."""
    if not is_tuned():
        return
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    files, root = jvm.org.apache.hadoop.fs.FileSystem, jvm.java.net.URI("file:///")
    conf = spark.sparkContext._jsc.hadoopConfiguration()
    try:
        now = files.get(root, conf)
        if now.getClass().getName() == _NAME:
            return
        compiler = compile_template(jvm, now.getClass().getClassLoader(), _SOURCE, {"name": _NAME})
        own = jvm.org.apache.hadoop.conf.Configuration(conf)
        own.setClassLoader(compiler.getClassLoader())
        own.set("fs.file.impl", _NAME)
        # What is asked for next is kept for all who ask later, whatever their settings.
        now.close()
        files.get(root, own)
    except Py4JError as failure:
        _log.debug("local files with the processes of Hadoop: %s", failure)
