"""Bucket keys that Spark spreads evenly, whatever the number of shuffle partitions.

Spark sends a row to `pmod(murmur3(key, seed 42), partitions)`. For one INT key that hash is a bijection
on 32 bits, so it can be run backwards: bucket `i` gets the key whose hash is exactly `i`, and buckets
go round robin over any number of partitions. A key depends on nothing but its bucket's number, so a
checkpoint stays readable when the number of partitions changes.
"""

from __future__ import annotations

_SEED = 42
_MASK = 0xFFFFFFFF
_BYTES = 4
"""The length of what is hashed: murmur3 mixes it in."""
_C1 = 0xCC9E2D51
_C2 = 0x1B873593
# Odd numbers have inverses modulo 2**32: each multiplication can be undone.
_INVERSE = {m: pow(m, -1, 1 << 32) for m in (_C1, _C2, 5, 0x85EBCA6B, 0xC2B2AE35)}


def _rotate(word: int, bits: int) -> int:
    """Rotate a 32-bit word to the left."""
    return ((word << bits) | (word >> (32 - bits))) & _MASK


def _to_signed(word: int) -> int:
    """Read a 32-bit word as a Java int."""
    return word - (1 << 32) if word >> 31 else word


def _finish(h: int) -> int:
    """Avalanche the hash of one word."""
    h ^= _BYTES
    h = ((h ^ (h >> 16)) * 0x85EBCA6B) & _MASK
    h = ((h ^ (h >> 13)) * 0xC2B2AE35) & _MASK
    return h ^ (h >> 16)


def _block(h: int, word: int) -> int:
    """Mix one 32-bit block into the hash."""
    k = (_rotate((word * _C1) & _MASK, 15) * _C2) & _MASK
    return (_rotate(h ^ k, 13) * 5 + 0xE6546B64) & _MASK


def hash_int(value: int) -> int:
    """Spark's `hash` of one INT."""
    return _to_signed(_finish(_block(_SEED, value & _MASK)))


def int_with_hash(target: int) -> int:
    """The INT whose Spark `hash` is `target`: every step of `hash_int`, undone in reverse."""
    h = target & _MASK
    # A shift by half the width or more undoes itself; the one by 13 needs a second step.
    h ^= h >> 16
    h = (h * _INVERSE[0xC2B2AE35]) & _MASK
    h ^= (h >> 13) ^ (h >> 26)
    h = (h * _INVERSE[0x85EBCA6B]) & _MASK
    h ^= h >> 16
    h ^= _BYTES
    h = ((h - 0xE6546B64) * _INVERSE[5]) & _MASK
    # 19 and 17: the rest of a turn of 32 bits, after turns of 13 and 15.
    k = _rotate(h, 19) ^ _SEED
    k = (k * _INVERSE[_C2]) & _MASK
    return _to_signed((_rotate(k, 17) * _INVERSE[_C1]) & _MASK)


def bucket_keys(buckets: int) -> list[int]:
    """The grouping key of each bucket, by bucket number."""
    return [int_with_hash(number) for number in range(buckets)]
