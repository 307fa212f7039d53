"""Changes of a snapshot: of numbers in its arrays, of their types and shapes, of whole arrays; it is framed anew."""

from __future__ import annotations

import json
import random
import struct
from typing import Any

import numpy as np

from aggloom.runtime.operators.base import join_blocks
from aggloom.runtime.storage.arena import MAGIC, Arena
from aggloom.runtime.storage.pool import LIVE, PoolArrays, hash_bytes
from aggloom.runtime.storage.pool import _rehash as rehash

_JOINED = b"AGLO"
_SIZES = struct.Struct("<4sI")
_TYPES = ("u1", "i1", "i4", "u4", "i8", "u8", "f4", "f8", "i2", "b1", ">i8")


def mutate(data: bytes, rng: random.Random) -> bytes:
    """A snapshot of which one part differs: of joined blocks one, of an arena some arrays."""
    if data[:4] == _JOINED:
        return _in_joined(data, rng)
    if data[:4] == MAGIC:
        return _in_arena(data, rng)
    return data


def _in_joined(data: bytes, rng: random.Random) -> bytes:
    _, length = _SIZES.unpack_from(data)
    at = _SIZES.size + length
    blocks = []
    for size in json.loads(data[_SIZES.size : at]):
        blocks.append(data[at : at + size])
        at += size
    chosen = rng.randrange(len(blocks))
    if rng.random() < 0.01:
        return data[: _SIZES.size] + bytes(rng.randbytes(length)) + data[_SIZES.size + length :]
    blocks[chosen] = mutate(blocks[chosen], rng)
    return join_blocks(blocks)


def _in_arena(data: bytes, rng: random.Random) -> bytes:
    whole = Arena()
    whole.restore(data)
    arrays = dict(whole)
    names = [name for name, array in arrays.items() if array.size]
    # Small arrays are heads: lengths, counts, starts of lists.
    weights = [3.0 if arrays[name].size < 16 else 1.0 for name in names]
    if "pool.heap" in arrays and rng.random() < 0.15:
        _in_string(arrays, rng)
    for name in rng.choices(names, weights, k=rng.choice([1, 1, 1, 2, 4])):
        if name in arrays and arrays[name].size:
            _in_array(arrays, name, rng)
    changed: Any = Arena()
    changed._arrays = arrays
    packed: bytes = changed.snapshot()
    return packed


def _in_string(arrays: dict[str, Any], rng: random.Random) -> None:
    """Change a byte of a string of the pool, which gets the hash and the place in the table of what it is now."""
    pool = PoolArrays(*(arrays[f"pool.{name}"].copy() for name in PoolArrays._fields))
    there = np.flatnonzero(pool.length > 0)
    if not len(there) or pool.meta[LIVE] == 0:
        return
    chosen = int(rng.choice(there))
    start, length = int(pool.offset[chosen]), int(pool.length[chosen])
    pool.heap[start + rng.randrange(length)] = rng.choice([0, 0x80, 0xFF, rng.randrange(256)])
    pool.code[chosen] = hash_bytes(pool.heap, start, length)
    pool.table[:] = 0
    rehash(pool)
    arrays |= {f"pool.{name}": array for name, array in pool._asdict().items()}


def _in_array(arrays: dict[str, Any], name: str, rng: random.Random) -> None:
    """Change an array in place of its name, or take it away."""
    array = arrays[name].copy()
    way = rng.random()
    if array.dtype == np.uint8 and array.ndim == 1 and bytes(array[:1]) in b"{([":
        arrays[name] = _in_text(array, rng)
    elif way < 0.8:
        flat = array.reshape(-1)
        # What is in use comes first.
        for _ in range(rng.choice([1, 1, 1, 2, 8])):
            used = np.flatnonzero(flat)
            at = int(rng.choice(used)) if len(used) and rng.random() < 0.7 else 0
            if rng.random() < 0.2:
                at = rng.randrange(len(flat))
            flat[at] = _value(flat, at, rng)
        arrays[name] = array
    elif way < 0.86:
        arrays[name] = array[: rng.randrange(len(array) + 1)]
    elif way < 0.9:
        arrays[name] = np.concatenate([array, array[: rng.randint(1, 40)]])
    elif way < 0.93:
        arrays[name] = array.astype(rng.choice(_TYPES), casting="unsafe")
    elif way < 0.95:
        arrays[name] = array.reshape(rng.choice([(-1,), (1, -1), (-1, 1)]))
    elif way < 0.97:
        flat = array.reshape(-1)
        flat[:] = np.roll(flat, 1)
        arrays[name] = array
    elif way < 0.985:
        other = rng.choice(sorted(arrays))
        arrays[name] = arrays[other]
    else:
        del arrays[name]


def _value(flat: Any, at: int, rng: random.Random) -> Any:
    """Another value: near, far, huge, negative, or that of another place."""
    if flat.dtype.kind == "f":
        return rng.choice([0.0, -1.0, 1e308, -1e308, np.inf, np.nan, 1e-320, float(flat[at]) + 1])
    if flat.dtype.kind == "b":
        return not flat[at]
    limits = np.iinfo(flat.dtype)
    old = int(flat[at])
    new = rng.choice(
        [
            *(old + 1, old - 1, old ^ 1 << rng.randrange(limits.bits), -old, 0, 1, -1),
            *(limits.max, limits.min, len(flat), len(flat) - 1, rng.randint(0, 300)),
            *(rng.randint(limits.min, limits.max), int(rng.choice(flat)), 1 << 31, 1 << 40),
        ]
    )
    span = 1 << limits.bits
    return (new - limits.min) % span + limits.min


def _in_text(array: Any, rng: random.Random) -> Any:
    """Text of JSON or of Python with other numbers."""
    text = bytes(array).decode("latin-1")
    places = [at for at, c in enumerate(text) if c.isdigit()]
    for _ in range(rng.choice([1, 1, 2, 5])):
        if places:
            at = rng.choice(places)
            new = rng.choice(["9" * rng.randint(1, 30), "-1", "0", "[]", "null", '"x"', "{}", ""])
            text = text[:at] + new + text[at + 1 :]
            places = [at for at, c in enumerate(text) if c.isdigit()]
    if rng.random() < 0.1:
        text = text[: rng.randrange(len(text) + 1)] or "0"
    return np.frombuffer(text.encode("latin-1"), np.uint8)
