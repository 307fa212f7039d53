"""The texts of stored rows, found in the arrays of an arena by whoever does not know its operator."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from aggloom.runtime.state.row_kernels import HEAP_USED, LENGTH_BITS, LONGEST
from aggloom.runtime.storage.arena import Arena


def find_stored_texts(arena: Arena, part: bytes) -> Iterator[bytes]:
    """Yield the texts of stored rows, as bytes, that have some bytes in them; one that rows share, once for each.

    Nested values and wide decimals are among them, in their encoded form.
    """
    arrays = dict(iter(arena))
    for name in arrays:
        store = name.removesuffix(".texts")
        if store == name or f"{store}.heap" not in arrays:
            continue
        there = arrays[f"{store}.flags"][:, 0] & 1 != 0
        columns = np.flatnonzero(arrays[name])
        words = arrays[f"{store}.words"][there][:, columns].reshape(-1)
        begins, lengths = words >> LENGTH_BITS, words & LONGEST
        used = int(arrays[f"{store}.meta"][HEAP_USED])
        whole = arrays[f"{store}.heap"][:used].tobytes()
        at = whole.find(part)
        while at >= 0:
            # The heap has no gaps between texts: what begins in one and ends in the next is no text's.
            holds = (begins <= at) & (at + len(part) <= begins + lengths)
            for begin, length in zip(begins[holds], lengths[holds], strict=True):
                yield whole[int(begin) : int(begin + length)]
            # One byte on, not a whole match: occurrences may overlap, and then lie in different texts.
            at = whole.find(part, at + 1)
