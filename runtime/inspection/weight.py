"""The weight of a checkpoint: the size of its operators and of a key, read within bounds of bytes and time."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aggloom.errors import CheckpointError, StateMismatchError, UntrustedCodeError
from aggloom.runtime.inspection.checkpoint import looks_at
from aggloom.runtime.inspection.facts import BucketSize, OperatorState
from aggloom.runtime.inspection.heaviest import Heaviest
from aggloom.runtime.inspection.look import Look, Opened, StatefulNode
from aggloom.runtime.inspection.report import Why
from aggloom.runtime.inspection.stored import BucketFiles
from aggloom.runtime.values.clock import Clock

ROOM = 64 << 20
SECONDS = 20.0
KEYS = 10
_LARGEST = 256 << 20
_VALUES = 20


@dataclass(frozen=True)
class WeighedOperator:
    """An operator and its heaviest keys; place: its number in the query, as 0.1, by which its batches count it."""

    number: str
    place: str
    state: OperatorState
    heaviest: Heaviest


def weigh_checkpoint(
    checkpoint: str | Path,
    *,
    room: int = ROOM,
    seconds: float = SECONDS,
    limit: int = KEYS,
    trust: bool = False,
    spark: Any = None,
) -> list[WeighedOperator]:
    """Each operator of a checkpoint with its heaviest keys, for which so many bytes are read, for so long at most.

    The largest buckets are read first; each operator says how many were. Raises CheckpointError and StateError.
    """
    looks = looks_at(checkpoint, None, None, trust, spark)
    nodes: dict[int, list[Look]] = {}
    # Looks of one node share their files, so each bucket is opened once for all of them.
    for look in looks:
        nodes.setdefault(id(look.node), []).append(look)
    end = time.monotonic() + seconds
    operators = []
    for own in nodes.values():
        # Every node gets an equal part of the bytes; time is shared by whoever comes first.
        operators += _of_node(own[0].node, own, room // len(nodes), end, limit)
    return operators


@dataclass(frozen=True)
class KeyFinding:
    """A key in an operator, and how its value arose."""

    state: OperatorState
    why: Why


def look_up_key(
    checkpoint: str | Path,
    place: str,
    key: Mapping[str, Any],
    *,
    trust: bool = False,
    spark: Any = None,
) -> KeyFinding:
    """Return the state of a key in the operator at a place of a query. Raises CheckpointError and StateError."""
    for look in looks_at(checkpoint, None, None, trust, spark):
        # The page names an operator by its place in the plan, which its number in the checkpoint does not give.
        if f"{look.node.description.place}.{look.part}" == place:
            # Checked before anything is read: the bytes in the store are compressed, and take more in memory.
            size = look.bytes_of(key)
            if size > _LARGEST:
                raise CheckpointError(
                    f"the key's bucket has {size >> 20:,} MB in the store, too much for a page. "
                    "`aggloom state` and `aggloom why` read it, given the memory."
                )
            return KeyFinding(look.state(key, _VALUES), look.why(key))
    raise CheckpointError(f"{checkpoint}: there is no operator {place} with state.")


def _of_node(
    node: StatefulNode, looks: list[Look], room: int, end: float, limit: int
) -> list[WeighedOperator]:
    files = _choose_files(node.files, room)
    tallies = [Heaviest() for _ in looks]
    sizes = [look.sizes for look in looks]
    clock, note, read, stopped = Clock(), "", list[BucketFiles](), ""
    try:
        for stored in node.checkpoint.buckets(node.stored.number, node.batch, files):
            opened = Opened(stored, node.trust, 0)
            # Rebuilding applies the log as the query itself would, so the numbers are those of its memory.
            fragment = opened.rebuild()
            clock = Clock(*map(max, clock, stored.last_clock(opened.store)))
            for look, tally, own, operator in zip(
                looks, tallies, sizes, fragment.operators, strict=True
            ):
                known = tally.known
                names = list(look.description.key_names)
                tally.take(operator, stored.bucket, names, limit)
                counted = {"keys": tally.known - known, "held": operator.keys}
                live = {"live_bytes": operator.state_bytes}
                own[stored.bucket] = BucketSize(**{**vars(own[stored.bucket]), **counted, **live})
            read += [each for each in files if each.bucket == stored.bucket]
            # Checked after a bucket and not before: at least one is always read, however slow the store is.
            if time.monotonic() > end:
                stopped = "it took too long"
                break
    # An operator that cannot be made again still has sizes; the page shows those with the reason.
    except (StateMismatchError, UntrustedCodeError) as error:
        note = stopped = str(error)
    if not note and len(read) < len(node.files):
        stopped = stopped or "they are large"
        note = f"read: {len(read)} of {len(node.files)} buckets, the largest first, since {stopped}"
    operators = []
    for look, tally, own in zip(looks, tallies, sizes, strict=True):
        tally.buckets = len(read), len(node.files)
        tally.bytes = _bytes(read), _bytes(node.files)
        tally.stopped = stopped
        state = look.to_operator_state(own, clock, None, note)
        place = f"{node.description.place}.{look.part}"
        operators.append(WeighedOperator(look.number, place, state, tally))
    return operators


def _choose_files(files: list[BucketFiles], room: int) -> list[BucketFiles]:
    """The largest buckets that there is room for; one at least, if it is not much larger."""
    chosen: list[BucketFiles] = []
    left = room
    for each in sorted(files, key=lambda file: (-_bytes([file]), file.bucket)):
        size = _bytes([each])
        # Skipped and not ended with: a smaller bucket behind this one may still fit.
        if size > (left if chosen else _LARGEST):
            continue
        chosen.append(each)
        left -= size
    return chosen


def _bytes(files: list[BucketFiles]) -> int:
    return sum(each.snapshot_bytes + each.log_bytes for each in files)
