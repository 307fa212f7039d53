"""State is written as Spark's own client writes it, byte for byte what its server reads; memory is kept in a worker."""

from __future__ import annotations

import io
import pickle
import subprocess
import sys
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

from pyspark.sql.streaming.proto import StateMessage_pb2 as messages

from aggloom.runtime.hosting.blobs import binaries
from aggloom.runtime.spark.node import list_state
from aggloom.runtime.spark.node.list_state import BlobList

BLOBS = [b"", b"\x00" * 5, b"x" * 127, b"y" * 128, b"z" * 70_000]


@dataclass
class Server:
    """The other side of Spark's client: a file of the socket, and answers."""

    status: int = 0
    sockfile: io.BytesIO = field(default_factory=io.BytesIO)

    def _receive_proto_message(self) -> tuple[int, str, bytes]:
        return self.status, "no space left", b""

    def requests(self) -> list[Any]:
        """The calls that came, each of them whole."""
        came, found = io.BytesIO(self.sockfile.getvalue()), []
        while head := came.read(8):
            version, length = (int.from_bytes(head[at : at + 4], "big") for at in (0, 4))
            assert version == 0
            request = messages.StateRequest()
            request.ParseFromString(came.read(length))
            found.append(request.stateVariableRequest.listStateCall)
        return found


@dataclass
class Client:
    """As ListState holds it."""

    _stateful_processor_api_client: Server


@dataclass
class Listed:
    """As handle.getListState gives it."""

    server: Server
    _stateName: str = "log"  # noqa: N815
    written: list[Any] = field(default_factory=list)

    @property
    def _listStateClient(self) -> Client:  # noqa: N802
        return Client(self.server)

    def put(self, rows: Any) -> None:
        """Spark's way."""
        self.written.append(rows)

    appendList = put  # noqa: N815


def rows_of(call: Any) -> list[bytes]:
    values = [pickle.loads(value) for value in call.value]
    assert all(isinstance(value, tuple) and len(value) == 1 for value in values)
    return [value[0] for value in values]


def test_spark_reads_what_is_written() -> None:
    server = Server()
    state = BlobList(Listed(server))
    state.put([(blob,) for blob in BLOBS])
    state.appendList([(blob,) for blob in BLOBS[::-1]])
    state.put([])
    put, appended, emptied = server.requests()
    assert {put.stateName, appended.stateName, emptied.stateName} == {"log"}
    assert rows_of(put.listStatePut) == BLOBS
    assert rows_of(appended.appendList) == BLOBS[::-1]
    assert emptied.WhichOneof("method") == "listStatePut" and not emptied.listStatePut.value


def test_a_large_state_goes_in_several_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(list_state, "_PIECE_BYTES", 100)
    server = Server()
    blobs = [b"a" * 60, b"b" * 60, b"c" * 30, b"d" * 500, b"e"]
    BlobList(Listed(server)).put([(blob,) for blob in blobs])
    first, *rest = server.requests()
    assert rows_of(first.listStatePut) == blobs[:1]
    assert [rows_of(each.appendList) for each in rest] == [blobs[1:3], blobs[3:4], blobs[4:]]


def test_what_spark_refuses_is_an_error() -> None:
    with pytest.raises(RuntimeError, match=r"the state 'log': no space left"):
        BlobList(Listed(Server(status=1))).put([(b"x",)])


def test_another_spark_writes_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(list_state, "_takes_values", lambda call: False)
    state = Listed(Server())
    BlobList(state).put([(b"x",)])
    assert state.written == [[(b"x",)]] and not state.server.requests()


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary()])
def test_binaries_are_read_where_they_lie(kind: pa.DataType) -> None:
    column = pa.array(BLOBS, kind)
    assert [each.to_pybytes() for each in binaries(column)] == BLOBS
    assert [each.to_pybytes() for each in binaries(column.slice(2, 2))] == BLOBS[2:4]
    assert next(binaries(column.slice(4))).address >= column.buffers()[2].address
    assert [each.to_pybytes() for each in binaries(pa.array([b"", b""], kind))] == [b"", b""]
    assert list(binaries(pa.array([], kind))) == []


def test_memory_is_kept() -> None:
    # Only a process of its own shows it, for this one may have been told before.
    program = """
import resource
from aggloom.runtime.platform.memory_reuse import keep_memory
kept = keep_memory()
for round in range(20):
    blob = bytearray(32 << 20)
    if round == 9:
        begin = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
print(kept, resource.getrusage(resource.RUSAGE_SELF).ru_minflt - begin)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    kept, faults = done.stdout.split()
    assert kept == "False" or int(faults) < (32 << 20) // 4096
