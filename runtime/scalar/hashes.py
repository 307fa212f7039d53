"""Hashes of bytes, as their hexadecimal digits."""

from __future__ import annotations

import hashlib
import hmac
import zlib
from collections.abc import Callable
from typing import Any, Final

_SHA2: Final[dict[int, Callable[[bytes], Any]]] = {
    0: hashlib.sha256,
    224: hashlib.sha224,
    256: hashlib.sha256,
    384: hashlib.sha384,
    512: hashlib.sha512,
}


def crc32(value: bytes) -> int:
    """The cyclic redundancy check."""
    return zlib.crc32(value)


def md5(value: bytes) -> str:
    """MD5."""
    # Where a system allows only approved algorithms, this one runs if it protects nothing.
    return hashlib.md5(value, usedforsecurity=False).hexdigest()


def sha1(value: bytes) -> str:
    """SHA-1."""
    return hashlib.sha1(value, usedforsecurity=False).hexdigest()


def sha2(value: bytes, bits: int) -> str | None:
    """SHA-2 of 224, 256, 384 or 512 bits; 0 is 256, None for any other number."""
    algorithm = _SHA2.get(bits)
    return None if algorithm is None else str(algorithm(value).hexdigest())


def keyed_hash(key: bytes, message: bytes, algorithm: str = "SHA256") -> bytes:
    """HMAC."""
    return hmac.digest(key, message, algorithm.lower())
