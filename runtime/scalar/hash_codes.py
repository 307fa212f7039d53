"""HASH and XXHASH64 of Spark: Murmur3 of 32 bits and XXH64, each value's hash being the seed of the next value's."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from decimal import Context
from typing import Any, Final

import pyarrow as pa

from aggloom.runtime.scalar.values import Value, apply_to_arrays

_SEED: Final = 42
_INT: Final = 0xFFFFFFFF
_LONG: Final = 0xFFFFFFFFFFFFFFFF
_P1: Final = 0x9E3779B185EBCA87
_P2: Final = 0xC2B2AE3D27D4EB4F
_P3: Final = 0x165667B19E3779F9
_P4: Final = 0x85EBCA77C2B2AE63
_P5: Final = 0x27D4EB2F165667C5
_WHOLE: Final = {
    pa.date32().id: pa.int32(),
    pa.timestamp("us").id: pa.int64(),
}
"""Times count as the numbers that stand for them."""
_EXACT: Final = Context(prec=60)


def _rotate(word: int, bits: int, width: int) -> int:
    word &= (1 << width) - 1
    return ((word << bits) | (word >> (width - bits))) & ((1 << width) - 1)


def murmur3(data: bytes, seed: int) -> int:
    """Murmur3 of 32 bits; each byte behind the last whole word is mixed in as a word of its own, with its sign."""
    end = len(data) & ~3
    h = seed
    words = [
        *struct.unpack(f"<{end // 4}I", data[:end]),
        *struct.unpack(f"{len(data) - end}b", data[end:]),
    ]
    for word in words:
        k = (_rotate(word * 0xCC9E2D51, 15, 32) * 0x1B873593) & _INT
        h = (_rotate(h ^ k, 13, 32) * 5 + 0xE6546B64) & _INT
    h ^= len(data)
    h = ((h ^ (h >> 16)) * 0x85EBCA6B) & _INT
    h = ((h ^ (h >> 13)) * 0xC2B2AE35) & _INT
    return h ^ (h >> 16)


def xxh64(data: bytes, seed: int) -> int:
    """XXH64."""
    at = len(data) & ~31
    if at:
        lanes = [seed + _P1 + _P2, seed + _P2, seed, seed - _P1]
        for place, word in enumerate(struct.unpack(f"<{at // 8}Q", data[:at])):
            lanes[place % 4] = _rotate(lanes[place % 4] + word * _P2, 31, 64) * _P1 & _LONG
        h = sum(_rotate(lane, bits, 64) for lane, bits in zip(lanes, (1, 7, 12, 18), strict=True))
        for lane in lanes:
            h = ((h ^ (_rotate(lane * _P2, 31, 64) * _P1 & _LONG)) * _P1 + _P4) & _LONG
    else:
        h = seed + _P5
    h = (h + len(data)) & _LONG
    while at + 8 <= len(data):
        (word,) = struct.unpack_from("<Q", data, at)
        h ^= _rotate(word * _P2, 31, 64) * _P1 & _LONG
        h = (_rotate(h, 27, 64) * _P1 + _P4) & _LONG
        at += 8
    if at + 4 <= len(data):
        (word,) = struct.unpack_from("<I", data, at)
        h = (_rotate(h ^ (word * _P1 & _LONG), 23, 64) * _P2 + _P3) & _LONG
        at += 4
    for byte in data[at:]:
        h = _rotate(h ^ (byte * _P5 & _LONG), 11, 64) * _P1 & _LONG
    h = ((h ^ (h >> 33)) * _P2) & _LONG
    h = ((h ^ (h >> 29)) * _P3) & _LONG
    return h ^ (h >> 32)


def _pieces(value: Any, kind: pa.DataType) -> list[bytes]:
    """The bytes of a value that are hashed one after the other; none for NULL."""
    if value is None:
        return []
    if pa.types.is_list(kind):
        return [piece for each in value for piece in _pieces(each, kind.value_type)]
    if pa.types.is_struct(kind):
        return [piece for field in kind for piece in _pieces(value[field.name], field.type)]
    if pa.types.is_string(kind):
        return [value.encode()]
    if pa.types.is_binary(kind):
        return [value]
    if pa.types.is_decimal(kind):
        number = int(value.scaleb(kind.scale, _EXACT))
        if kind.precision <= 18:
            return [struct.pack("<q", number)]
        return [number.to_bytes((number + (number < 0)).bit_length() // 8 + 1, "big", signed=True)]
    if pa.types.is_floating(kind):
        # One zero, and one NaN.
        one = value + 0.0 if value == value else float("nan")
        return [struct.pack("<f" if kind == pa.float32() else "<d", one)]
    return [struct.pack("<q" if kind == pa.int64() else "<i", value)]


def hash_32(*values: Value) -> Value:
    """HASH of the values of each row, in their order; NULL changes nothing."""
    return _hash_rows(murmur3, pa.int32(), values)


def hash_64(*values: Value) -> Value:
    """XXHASH64 of the values of each row, in their order; NULL changes nothing."""
    return _hash_rows(xxh64, pa.int64(), values)


def _hash_rows(
    mix: Callable[[bytes, int], int], dtype: pa.DataType, values: Sequence[Value]
) -> Value:
    def compute(*arrays: pa.Array) -> pa.Array:
        bare = [
            each.cast(_WHOLE[each.type.id]) if each.type.id in _WHOLE else each for each in arrays
        ]
        kinds = [each.type for each in bare]
        top = 1 << (dtype.bit_width - 1)
        codes = []
        for row in zip(*(each.to_pylist() for each in bare), strict=True):
            code = _SEED
            for value, kind in zip(row, kinds, strict=True):
                for piece in _pieces(value, kind):
                    code = mix(piece, code)
            codes.append((code ^ top) - top)
        return pa.array(codes, dtype)

    return apply_to_arrays(compute, *values)
