"""A bucket whose checkpoint was written by the query as it was before: read as that query, and carried over.

Each bucket holds its own description, so that it is carried over when it is first met, however long after. Nothing in
the checkpoint changes before the commit, which writes a whole snapshot and the new description.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from aggloom.codegen import AggSpec, Carried, describe_call, generate, match_state
from aggloom.errors import AggloomError, StateCorruptError, StateMismatchError
from aggloom.runtime.hosting.bucket_store import BucketStore, Head
from aggloom.runtime.hosting.factory import FragmentFactory
from aggloom.runtime.hosting.handler_text import HandlerText
from aggloom.runtime.hosting.query_record import Query, changed_above, compare_queries
from aggloom.runtime.operators.base import Operator, OperatorSpec
from aggloom.runtime.operators.comparison import (
    CallChanges,
    Description,
    check_fragments,
    compare,
    may_retract,
)
from aggloom.runtime.operators.evolution import change_settings, evolve
from aggloom.runtime.operators.fragment import Fragment, FragmentSpec, feeds_from, inputs_from
from aggloom.runtime.operators.steps import Rows, fill_columns, no_rows
from aggloom.runtime.values.clock import Clock

_LOG = logging.getLogger("aggloom")


def evolve_state(
    factory: FragmentFactory,
    store: BucketStore,
    head: Head,
    directory: Path | None,
    clock: Clock,
    added_calls: str,
) -> tuple[Fragment, Rows]:
    """The fragment in the state that another version of the query has left, and the changes that this brings.

    Raises StateMismatchError with a comparison if that query differs in more than its calls and settings.
    """
    former = store.former(head)
    where = store.owner.where
    # Columns come last: calls and settings change in the rows as they were.
    base = factory.former or factory
    with _reading_description(where):
        old, new = json.loads(former.description), json.loads(store.description)
        if base is not factory:
            new = json.loads(base.description)
        steps = [_Step(*each, where, added_calls) for each in _pairs(base, old, new, where)]
        before = _as_it_was(base, old, steps).open(None, store.owner.bucket)
    # The old query runs its own log: only its operators know what those rows did.
    former.rebuild(head, before)
    before.take_late()
    after = base.open(directory if base is factory else None, store.owner.bucket)
    changes = no_rows(after.root.schema)
    try:
        for step, was, now in zip(steps, before.operators, after.operators, strict=True):
            changes = step.carry(was, now, clock)
    except StateMismatchError as error:
        raise StateMismatchError(f"{where}: {error}") from None
    # One bucket speaks for all of them.
    if store.owner.bucket == 0:
        for step in steps:
            step.tell()
    if base is factory:
        return after, changes
    wider = factory.open(directory, store.owner.bucket)
    for was, now in zip(after.operators, wider.operators, strict=True):
        now.take_narrower(was)
    return wider, fill_columns(changes, wider.root.schema)


def changed_calls(
    factory: FragmentFactory, old: Description, new: Description, where: str, added_calls: str
) -> str:
    """Return the changes of the calls, in a line; "" if nothing has changed.

    Raises StateMismatchError as `evolve_state` would, without a look at the state.
    """
    with _reading_description(where):
        steps = [_Step(*each, where, added_calls) for each in _pairs(factory, old, new, where)]
    return "; ".join(step.calls.line for step in steps if step.parts is not None)


def compare_operators(
    old: Query,
    new: Query,
    factories: Sequence[FragmentFactory],
    added_calls: str,
    *,
    warns: bool = True,
) -> list[tuple[str, int]]:
    """Return the calls that have changed, an operator a line, each with its number of buckets.

    old, new: the query that the checkpoint knows, and the one that is to continue from it. A warning names what has
    changed above the operators, if `warns`. Raises StateMismatchError where anything else differs.
    """
    differing = compare_queries(old, new)
    if differing is not None:
        raise differing
    changes = []
    for was, now, factory in zip(old.operators, new.operators, factories, strict=True):
        where = f"state of {now['operator']}"
        if was["buckets"] != now["buckets"]:
            raise StateMismatchError(
                f"{where}: written with {was['buckets']} buckets, this query has {now['buckets']}. "
                f"The number is fixed for the life of a checkpoint: pass buckets={was['buckets']}."
            )
        calls = changed_calls(factory, was, now, where, added_calls)
        if calls:
            changes.append((calls, int(now["buckets"])))
    above = changed_above(old, new)
    if above and warns:
        _LOG.warning("what was emitted before does not follow: %s", "; ".join(above))
    return changes


@contextmanager
def _reading_description(where: str) -> Iterator[None]:
    """Raise StateCorruptError for what Python raises over a description that is not what is written here."""
    try:
        yield
    except AggloomError:
        raise
    except (AttributeError, KeyError, TypeError, ValueError, IndexError, RecursionError) as error:
        raise StateCorruptError(
            f"{where}: the description in the checkpoint cannot be read: {type(error).__name__}: {error}. "
            "Restore the checkpoint from a copy, or start over with an empty checkpoint directory."
        ) from error


class _Step:
    """The step of one operator of a fragment from an old query to a new one; made, it is known to be possible."""

    def __init__(
        self,
        handler: HandlerText | None,
        spec: OperatorSpec[Any],
        old: Description,
        new: Description,
        where: str,
        added_calls: str,
    ) -> None:
        self.calls = compare(old, new, where)
        self.same = old["digest"] == new["digest"]
        self.parts = (
            None if self.same else _parts(handler, old, new, self.calls, where, added_calls)
        )
        self._handler, self._spec, self._old = handler, spec, old

    def carry(self, before: Operator, after: Operator, clock: Clock) -> Rows:
        """Bring the new operator to the state of the old one; the changes that this brings."""
        if self.parts is None:
            return change_settings(before, after, clock)
        return evolve(before, after, self.parts, clock)

    def handler(self) -> HandlerText | None:
        """The handler that wrote the state; `compare` has found all of its functions in the new query.

        Where only settings differ it is the one that there is, which a user may have edited.
        """
        if self.same or self._handler is None:
            return self._handler
        source = generate(_spec(self._old), backend=self._handler.load().BACKEND)
        source.refuse_untrusted()
        return HandlerText(source.text, source.digest)

    def spec(self) -> OperatorSpec[Any]:
        """The operator's spec with the settings that wrote the state."""
        return self._spec.with_changing(self._old["settings"])

    def tell(self) -> None:
        """Say once, in the log of a worker, what has become of the state."""
        if self.parts is None:
            return
        _LOG.warning("the calls of the query have changed: %s", self.calls.line)
        if self.calls.reused:
            _LOG.warning(
                "under the name of another call of before: %s", ", ".join(self.calls.reused)
            )
        if self.parts.empty:
            names = ", ".join(describe_call(call) for call in self.parts.empty)
            _LOG.warning("without the rows from before: %s", names)


def _pairs(
    factory: FragmentFactory, old: Description, new: Description, where: str
) -> Iterator[tuple[HandlerText | None, OperatorSpec[Any], Description, Description]]:
    """Each operator's handler, spec, and descriptions; raises StateMismatchError if they do not correspond."""
    check_fragments(old, new, where)
    return zip(factory.handlers, factory.fragment.specs, old["parts"], new["parts"], strict=True)


def _parts(
    text: HandlerText | None,
    old: Description,
    new: Description,
    calls: CallChanges,
    where: str,
    added_calls: str,
) -> Carried:
    if text is None:
        raise StateMismatchError(
            f"{where}: other columns reach it than those of which its rows are kept. Run the query that this "
            "checkpoint belongs to, or give this one a checkpoint directory of its own."
        )
    handler = text.load()
    try:
        parts = match_state(_spec(old), handler.spec(), handler.BACKEND)
    except StateMismatchError as error:
        raise StateMismatchError(f"{where}: {error}\n  - calls: {calls.line}") from None
    if parts.empty and added_calls == "refuse" and may_retract(new):
        names = ", ".join(describe_call(call) for call in parts.empty)
        raise StateMismatchError(
            f"{where}: {names} cannot know the rows from before it was added, which may be retracted. Start over with "
            "an empty checkpoint directory, or pass added_calls='empty' to let it count changes from now on."
            f"\n  - calls: {calls.line}"
        )
    return parts


def _spec(description: Description) -> AggSpec:
    return AggSpec.from_json(json.dumps(description["spec"]))


def _as_it_was(
    factory: FragmentFactory, old: Description, steps: Sequence[_Step]
) -> FragmentFactory:
    """The factory of the fragment that wrote the state."""
    feeds = (feeds_from(part["feeds"]) for part in old["parts"])
    parts = tuple(
        replace(part, spec=step.spec(), inputs=fed)
        for part, step, fed in zip(factory.fragment.parts, steps, feeds, strict=True)
    )
    fragment = FragmentSpec(parts, inputs_from(old["inputs"]))
    return replace(factory, handlers=tuple(step.handler() for step in steps), fragment=fragment)
