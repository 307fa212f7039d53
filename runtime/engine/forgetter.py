"""The batch that forgets a subject: each operator loses its keys, and what was removed is counted for the receipt."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from aggloom.errors import CheckpointError
from aggloom.runtime.operators.base import Operator
from aggloom.runtime.operators.forgetting import Subject, compact_state, forget_subject
from aggloom.runtime.operators.fragment import Fragment
from aggloom.runtime.operators.steps import Rows, no_rows
from aggloom.runtime.state.stored_texts import find_stored_texts
from aggloom.runtime.storage.arena import Arena
from aggloom.runtime.values.changelog import Kinds, is_retraction

OperatorPlace = tuple[int, int]
"""The place of a stateful node in the plan, and the number of an operator in it."""


@dataclass(frozen=True)
class ForgettingOperator:
    """An operator that loses a subject. is_retracted: whether those who read its changes take rows back."""

    name: str
    subject: Subject
    is_retracted: bool


@dataclass
class Forgetter:
    """Removes a subject from the operators of a query in one batch.

    operators: those that have the subject in their keys. texts: the values of it that are texts. settled: is called
    once the sink has the batch, before it is committed. keys, retracted: by operator, what was removed.
    """

    operators: Mapping[OperatorPlace, ForgettingOperator]
    texts: tuple[str, ...]
    settled: Callable[[Forgetter, int, int], None]
    keys: dict[OperatorPlace, int] = field(default_factory=dict)
    retracted: dict[OperatorPlace, int] = field(default_factory=dict)
    _lock: Any = field(default_factory=threading.Lock, repr=False)

    def forget(self, place: int, number: int, operator: Operator) -> Rows:
        """Remove the subject from an operator, and return the retractions; one without it is left as it is."""
        at = place, number
        known = self.operators.get(at)
        if known is None:
            compact_state(operator)
            return no_rows(operator.schema)
        found = forget_subject(operator, known.subject, known.is_retracted)
        with self._lock:
            self.keys[at] = self.keys.get(at, 0) + found.keys
            rows = found.retractions[0].num_rows
            self.retracted[at] = self.retracted.get(at, 0) + rows
        return found.retractions

    def check(self, fragments: Iterable[Fragment]) -> None:
        """Raise CheckpointError if a text of the subject still stands in a state; nothing is written by then."""
        for fragment in fragments:
            for part, operator in zip(fragment.spec.parts, fragment.operators, strict=True):
                operator.snapshot()
                for text in self.texts:
                    if any(_has_text(arena, text) for arena in operator.arenas):
                        raise CheckpointError(
                            f"{part.name}: the subject is in its state outside of its key, as a value of a row or of "
                            "an accumulator, which cannot be removed by itself. Nothing was changed. Start over from "
                            "an empty checkpoint, with a source without the subject."
                        )

    def settle(self, batch: int, kinds: Kinds) -> None:
        """Note what was done; kinds (int8[n]): those of the changes that the sink has."""
        self.settled(self, batch, int(is_retraction(kinds).sum()))


def _has_text(arena: Arena, text: str) -> bool:
    """Tell whether a text, or a row of values that has it, is in an arena; an empty text is in none."""
    data = text.encode()
    if not data:
        return False
    plain = dict(iter(arena)).get("plain.state")
    if plain is not None and repr(text).encode() in plain.tobytes():
        return True
    # Rows of several values are one binary, in which texts end with a zero.
    return any(
        found == data or b"\0" in found
        for found in (*_find_pooled_texts(arena, data), *find_stored_texts(arena, data))
    )


def _find_pooled_texts(arena: Arena, part: bytes) -> Iterator[bytes]:
    """Yield the texts of the pool that are in use and have some bytes in them."""
    arrays = dict(iter(arena))
    if "pool.heap" not in arrays:
        return
    heap, offset, length = (arrays[f"pool.{name}"] for name in ("heap", "offset", "length"))
    whole = heap.tobytes()
    if part not in whole:
        return
    for number in (arrays["pool.refs"] > 0).nonzero()[0].tolist():
        start = int(offset[number])
        found = whole[start : start + int(length[number])]
        if part in found:
            yield found
