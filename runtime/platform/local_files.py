"""Hadoop's local file system without a process for every file that it creates.

Spark's packages lack the native part of Hadoop, without which it starts `chmod` for each file and for its checksum:
some ten in a small batch. Java can set permissions itself. A class that does so replaces the file system that this JVM
caches for `file:`.
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
    """Let the JVM of a session set permissions of local files itself, if it can and the switch is on."""
    if not is_tuned():
        return
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    files, root = jvm.org.apache.hadoop.fs.FileSystem, jvm.java.net.URI("file:///")
    conf = spark.sparkContext._jsc.hadoopConfiguration()
    try:
        current = files.get(root, conf)
        if current.getClass().getName() == _NAME:
            return
        loader = current.getClass().getClassLoader()
        compiler = compile_template(jvm, loader, _SOURCE, {"name": _NAME})
        own_conf = jvm.org.apache.hadoop.conf.Configuration(conf)
        own_conf.setClassLoader(compiler.getClassLoader())
        own_conf.set("fs.file.impl", _NAME)
        # Hadoop caches the next one that it opens for all later callers, whatever their settings.
        current.close()
        files.get(root, own_conf)
    except Py4JError as failure:
        _log.debug("local files with the processes of Hadoop: %s", failure)
