"""One frame around every blob of durable state: its kind, its owner, and proof that it is whole.

Checkpoints are untrusted input. Nothing inside a frame is read before its magic number, layout version, owner,
place, length and checksum have been checked, and each refusal says what to do.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from typing import NamedTuple

from aggloom.errors import StateCorruptError, StateMismatchError
from aggloom.runtime.values.clock import NO_TIME, Clock

MAGIC = b"AGLM"
LAYOUT = 10
SNAPSHOT, LOG, DESCRIPTION = 1, 2, 3
_NAMES = {SNAPSHOT: "snapshot", LOG: "log", DESCRIPTION: "description"}

_HEADER = struct.Struct("<4sHH16siiIIIIqqQ")
"""The bytes of a `_Header`, field by field."""
_CHECKSUM = struct.Struct("<I")
OVERHEAD = _HEADER.size + _CHECKSUM.size

_START_OVER = (
    "Restore the checkpoint from a copy, or start over with an empty checkpoint directory."
)


class _Header(NamedTuple):
    """The fields before a payload, in the order of `_HEADER`."""

    magic: bytes
    layout: int
    content: int
    digest: bytes
    bucket: int
    buckets: int
    entry: int
    part: int
    parts: int
    number: int
    processing: int
    watermark: int
    length: int

    @property
    def owner_digest(self) -> str:
        """The digest as text; one shorter than its field has zeros behind it."""
        return self.digest.rstrip(b"\0").decode("ascii", "replace")


@dataclass(frozen=True)
class Owner:
    """Whose state it is: the operator, the digest of its spec, and the bucket."""

    operator: str
    digest: str
    bucket: int
    buckets: int

    @property
    def where(self) -> str:
        """The words that open an error message."""
        return f"state of {self.operator}, bucket {self.bucket}"


@dataclass(frozen=True)
class CheckedFrame:
    """A blob that passed every check."""

    content: int
    entry: int
    part: int
    parts: int
    input: int
    clock: Clock
    payload: memoryview


def seal(
    payload: bytes | memoryview,
    owner: Owner,
    content: int,
    entry: int = 0,
    part: int = 0,
    parts: int = 1,
    clock: Clock = NO_TIME,
    number: int = 0,
) -> bytes:
    """Frame a payload; `entry` and `part` give its place among its kind, `number` the input that it arrived by."""
    fields = _Header(
        magic=MAGIC,
        layout=LAYOUT,
        content=content,
        digest=owner.digest.encode("ascii", "replace")[:16],
        bucket=owner.bucket,
        buckets=owner.buckets,
        entry=entry,
        part=part,
        parts=parts,
        number=number,
        processing=clock.processing,
        watermark=clock.watermark,
        length=len(payload),
    )
    header = _HEADER.pack(*fields)
    # The header is part of the sum: a frame cannot be moved to another bucket or place.
    checksum = zlib.crc32(payload, zlib.crc32(header))
    return b"".join((header, _CHECKSUM.pack(checksum), payload))


def unseal(blob: bytes, owner: Owner, content: int) -> CheckedFrame:
    """Check a frame and open it, or raise StateCorruptError or StateMismatchError."""
    where = f"{_NAMES[content]} {owner.where}"
    # Only then is the header read: its fields are none before the magic number is known.
    if len(blob) < OVERHEAD or blob[:4] != MAGIC:
        raise StateCorruptError(f"{where}: not a state blob of aggloom. {_START_OVER}")
    header = _read_header(blob)
    payload = memoryview(blob)[OVERHEAD:]
    if header.layout != LAYOUT:
        raise StateMismatchError(
            f"{where}: written in layout {header.layout}, this version reads {LAYOUT}. "
            "Run the version of aggloom that wrote it, or start over with an empty checkpoint."
        )
    if header.length != len(payload):
        # Before the checksum, which reads all of it: a cut file is recognised by its length.
        raise StateCorruptError(
            f"{where}: {len(payload)} bytes where {header.length} were written. {_START_OVER}"
        )
    checksum = _CHECKSUM.unpack_from(blob, _HEADER.size)[0]
    if zlib.crc32(payload, zlib.crc32(blob[: _HEADER.size])) != checksum:
        raise StateCorruptError(f"{where}: the checksum does not match. {_START_OVER}")
    _check_owner(header, owner, where)
    if header.content != content:
        raise StateCorruptError(
            f"{where}: holds a {_NAMES.get(header.content, header.content)}. {_START_OVER}"
        )
    return CheckedFrame(
        content=header.content,
        entry=header.entry,
        part=header.part,
        parts=header.parts,
        input=header.number,
        clock=Clock(header.processing, header.watermark),
        payload=payload,
    )


def stated_digest(blob: bytes) -> str:
    """The digest that a frame says it was written for; nothing is checked yet."""
    if len(blob) < OVERHEAD:
        return ""
    return _read_header(blob).owner_digest


def stated_owner(blob: bytes) -> Owner:
    """Whose a frame says it is; nothing is checked yet but that it is a frame."""
    if len(blob) < OVERHEAD or blob[:4] != MAGIC:
        raise StateCorruptError(
            f"state of a checkpoint: not a state blob of aggloom. {_START_OVER}"
        )
    header = _read_header(blob)
    return Owner("a checkpoint", header.owner_digest, header.bucket, header.buckets)


def _read_header(blob: bytes) -> _Header:
    return _Header(*_HEADER.unpack_from(blob))


def _check_owner(header: _Header, owner: Owner, where: str) -> None:
    """Refuse state that is whole but belongs to another query, or to another place in this one."""
    digest, buckets = header.owner_digest, header.buckets
    # The digest first: where the query is another one, that its buckets differ as well would only mislead.
    if digest != owner.digest[:16]:
        raise StateMismatchError(
            f"{where}: written for spec {digest}, not for {owner.digest[:16]}. "
            "Run the query that this checkpoint belongs to, or give this one a checkpoint directory of its own."
        )
    if buckets != owner.buckets:
        raise StateMismatchError(
            f"{where}: written with {buckets} buckets, this query has {owner.buckets}. "
            f"The number is fixed for the life of a checkpoint: pass buckets={buckets}."
        )
    if header.bucket != owner.bucket:
        raise StateCorruptError(f"{where}: holds state of bucket {header.bucket}. {_START_OVER}")
