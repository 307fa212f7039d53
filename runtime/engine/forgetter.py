"""The batch that forgets a subject: each operator loses its keys, and what was removed is counted for the receipt."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from aggloom.errors import CheckpointError
from aggloom.runtime.operators.base import Operator
from aggloom.runtime.operators.forgetting import Subject, compact_state, forget_subject, has_text
from aggloom.runtime.operators.fragment import Fragment
from aggloom.runtime.operators.steps import Rows, no_rows

OperatorPlace = tuple[int, int]
"""The place of a stateful node in the plan, and the number of an operator in it."""


@dataclass(frozen=True)
class ForgettingOperator:
    """An operator that loses a subject. is_retracted: whether those who read its changes retract rows."""

    name: str
    subject: Subject
    is_retracted: bool


@dataclass
class Forgetter:
    """Removes a subject from the operators of a query in one batch.

    operators: those that have the subject in their keys. texts: its values that are texts. note_removed: is called
    with the number of the batch after the sink has it and before it is committed. keys, retracted: by operator, the
    counts of removed keys and of retracted rows.
    """

    operators: Mapping[OperatorPlace, ForgettingOperator]
    texts: tuple[str, ...]
    note_removed: Callable[[Forgetter, int], None]
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
        forgotten = forget_subject(operator, known.subject, known.is_retracted)
        with self._lock:
            self.keys[at] = self.keys.get(at, 0) + forgotten.keys
            rows = forgotten.retractions[0].num_rows
            self.retracted[at] = self.retracted.get(at, 0) + rows
        return forgotten.retractions

    def check(self, fragments: Iterable[Fragment]) -> None:
        """Raise CheckpointError if a text of the subject is still in a state; nothing is written by then."""
        for fragment in fragments:
            for part, operator in zip(fragment.spec.parts, fragment.operators, strict=True):
                operator.snapshot()
                for text in self.texts:
                    if any(has_text(arena, text) for arena in operator.arenas):
                        raise CheckpointError(
                            f"{part.name}: the subject is in its state outside of its key, as a value of a row or of "
                            "an accumulator, which cannot be removed by itself. Nothing was changed. Start over from "
                            "an empty checkpoint, with a source without the subject."
                        )
