"""The job of a query in a file of its checkpoint, so that commands about the checkpoint know what the query reads.

Options may be passwords: a job that has a secret in it is not noted.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from aggloom.checkpoint_file import read_file, replace_file
from aggloom.errors import CheckpointError
from aggloom.masking import mask_secrets
from aggloom.runtime.hosting.checkpoint_paths import corrupt, is_local, local
from aggloom.runtime.storage.checksums import with_checksum, without_checksum
from aggloom.table_inference import is_here

if TYPE_CHECKING:
    from aggloom.job import Job
    from aggloom.tables import TableSource

JOB_FILE = "aggloom-job.json"
_FIX = "Give the job with which it runs: a job file or a script after the checkpoint, or --sql and --table."


def note_job(checkpoint: str | Path, job: Job, rows: Iterable[str] = ()) -> None:
    """Note a job in its checkpoint on this machine, unless it has secrets; rows: tables that are rows of a process."""
    if not is_local(checkpoint):
        return
    file = local(checkpoint) / JOB_FILE
    tables = [_to_data(table) for table in job.tables]
    about = {**asdict(replace(job, tables=(), checkpoint=None)), "tables": tables}
    about |= {"sink": _absolute_sink(job.sink), "rows": sorted(rows)}
    try:
        text = json.dumps(about, sort_keys=True)
    except TypeError:
        text = ""
    if not text or mask_secrets(text) != text:
        file.unlink(missing_ok=True)
        return
    sealed = with_checksum(text)
    if not file.is_file() or file.read_bytes() != sealed.encode():
        replace_file(file, sealed)


def noted_job(checkpoint: Path) -> Job:
    """The job that a checkpoint has noted; raises CheckpointError without a note, StateCorruptError for damage."""
    from aggloom.job import Job

    file = checkpoint / JOB_FILE
    if not file.is_file():
        raise CheckpointError(
            f"{checkpoint}: it does not say what its query reads: the query has secrets among its options, was started "
            f"by a program, or by an older version. {_FIX}"
        )
    try:
        data = json.loads(without_checksum(read_file(checkpoint, file)))
        rows = data.pop("rows")
        tables = tuple(map(_from_data, data.pop("tables")))
        job = Job(**{**data, "tables": tables, "key": tuple(data["key"])})
    except (ValueError, KeyError, TypeError, RecursionError, pa.ArrowException) as error:
        raise corrupt(f"{JOB_FILE} is damaged: {type(error).__name__}: {error}") from None
    if rows:
        raise CheckpointError(
            f"{checkpoint}: table {rows[0]} was read from rows of a Python process, which nothing keeps. Write the "
            "rows into files, and read these."
        )
    return job


def _to_data(table: TableSource) -> dict[str, Any]:
    """A table as JSON holds it; a path on this machine is a whole one."""
    data = asdict(replace(table, schema=None))
    schema = table.schema
    if isinstance(schema, pa.Schema):
        data["schema"] = {"arrow": base64.b64encode(schema.serialize().to_pybytes()).decode()}
    else:
        data["schema"] = schema
    if table.kafka is None and table.path and is_here(table.path):
        data["path"] = str(local(table.path).absolute())
    return data


def _from_data(data: dict[str, Any]) -> TableSource:
    from aggloom.tables import TableSource

    schema = data["schema"]
    if isinstance(schema, dict):
        schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(schema["arrow"])))
    watermark = None if data["watermark"] is None else tuple(data["watermark"])
    keys = tuple(data["keys"])
    return TableSource(**{**data, "schema": schema, "watermark": watermark, "keys": keys})


def _absolute_sink(sink: Any) -> Any:
    """A sink whose path on this machine is a whole one."""
    if isinstance(sink, str):
        kind, colon, path = sink.partition(":")
        whole = path and is_local(path) and not Path(path).is_absolute()
        return f"{kind}{colon}{Path(path).absolute()}" if whole else sink
    return sink
