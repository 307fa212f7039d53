"""Blocks: the changes of many messages that are read all at once.

What is read so is what the reader of single messages would read. Whatever it takes to know that, and is not there,
leaves a message, or all of them, to that reader, which knows the rules.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from aggloom.runtime.values.changelog import CHANGE_TYPES

Places = npt.NDArray[np.int64]  # int64[n]


@cache
def kind_words() -> pa.Array:
    """The words of changes, by the number of their kind; made late, for Arrow imports pandas with the first array."""
    return pa.array(CHANGE_TYPES, pa.string())


class MessageBlock(NamedTuple):
    """The content of some messages, in their order.

    owners: the message of each change. words: the changes' kinds. columns: their rows. left: the messages of which
    nothing is known yet.
    """

    owners: Places  # int64[changes]
    words: pa.Array
    columns: list[pa.Array]
    left: npt.NDArray[np.bool_]  # bool[messages]
