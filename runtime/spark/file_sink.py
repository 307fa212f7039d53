"""Spark's own sink of files, with its log of what each batch has written, called batch by batch.

As a sink of a stream it is called by Spark alone, which leaves out of a batch the files that are gone and says nothing.
Called from here, each batch is looked at first, as with the other sinks.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame

from aggloom.runtime.spark.failures import telling
from aggloom.runtime.spark.release import streaming_class

_FORMATS = {"jsonl": "json.JsonFileFormat", "parquet": "parquet.ParquetFileFormat"}
_PACKAGE = "org.apache.spark.sql.execution.datasources"


@dataclass
class FileSink:
    """A function for foreachBatch that writes `jsonl` or `parquet` files; it skips a batch that its log has."""

    kind: str
    path: str
    _sink: Any = field(default=None, repr=False)

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        """Write one batch."""
        with telling(f"{self.kind} sink: {self.path}"):
            if self._sink is None:
                self._sink = self._made(batch.sparkSession)
            self._sink.addBatch(batch_id, batch._jdf)

    def _made(self, session: Any) -> Any:
        jvm = session._jvm
        format = getattr(jvm, f"{_PACKAGE}.{_FORMATS[self.kind]}")()
        columns = jvm.PythonUtils.toSeq(jvm.java.util.ArrayList())
        options = jvm.PythonUtils.toScalaMap(jvm.java.util.HashMap())
        sink = getattr(jvm, streaming_class("sinks", "FileStreamSink"))
        # Spark's log of files knows whole paths only.
        path = jvm.org.apache.hadoop.fs.Path(self.path)
        files = path.getFileSystem(session._jsparkSession.sessionState().newHadoopConf())
        path = files.makeQualified(path).toString()
        return sink(session._jsparkSession, path, format, columns, options)


def is_here(session: Any) -> bool:
    """Whether a session's JVM can be called; over Connect it cannot."""
    return hasattr(session, "_jsparkSession")
