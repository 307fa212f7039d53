"""A bucket whose checkpoint was written by the query as it was before: read as that query, and carried over.

Each bucket holds its own description, so that it is carried over when it is first met, however long after. Nothing in
the checkpoint changes before the commit, which writes a whole snapshot and the new description.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from aggloom.codegen import AggSpec, Carried, carried, describe_call, generate
from aggloom.errors import StateMismatchError
from aggloom.runtime.operators.comparison import CallChanges, Description, compare, takes_back
from aggloom.runtime.operators.evolution import evolve, resettled
from aggloom.runtime.operators.steps import Rows
from aggloom.runtime.operators.windows.base import WindowOperator
from aggloom.runtime.operators.windows.make import WindowSettings
from aggloom.runtime.spark.routes import HandlerText
from aggloom.runtime.spark.store import BucketStore, Head, Operator
from aggloom.runtime.values.clock import Clock

_WINDOW_SETTINGS = ("on_orphan_retraction", "update_before", "chained", "per_record")
_LOG = logging.getLogger("aggloom")


def evolved(
    factory: Any,
    store: BucketStore,
    head: Head,
    directory: Path | None,
    clock: Clock,
    added_calls: str,
) -> tuple[Operator, Rows]:
    """The operator in the state that another version of the query has left, and the changes that this brings.

    Raises StateMismatchError with a comparison if that query differs in more than its calls and settings.
    """
    former = store.former(head)
    old: Description = json.loads(former.description)
    new: Description = json.loads(store.description)
    where = store.owner.where
    calls = compare(old, new, where)
    same = old["digest"] == new["digest"]
    parts = None if same else _parts(factory, old, new, calls, where, added_calls)
    before = _as_it_was(factory, old, same).open(None, store.owner.bucket)
    former.rebuild(head, before)
    if isinstance(before, WindowOperator):
        before.take_late()
    after = factory.open(directory, store.owner.bucket)
    try:
        if parts is None:
            return after, resettled(before, after, clock)
        changes = evolve(before, after, parts, clock)
    except StateMismatchError as error:
        raise StateMismatchError(f"{where}: {error}") from None
    if store.owner.bucket == 0:
        _tell(calls, parts)
    return after, changes


def _parts(
    factory: Any,
    old: Description,
    new: Description,
    calls: CallChanges,
    where: str,
    added_calls: str,
) -> Carried:
    handler = factory.handler.load()
    try:
        parts = carried(_spec(old), handler.spec(), handler.BACKEND)
    except StateMismatchError as error:
        raise StateMismatchError(f"{where}: {error}\n  - calls: {calls.line}") from None
    if parts.empty and added_calls == "refuse" and takes_back(new):
        names = ", ".join(describe_call(call) for call in parts.empty)
        raise StateMismatchError(
            f"{where}: {names} cannot know the rows from before it was added, which may be taken back. Start over with "
            "an empty checkpoint directory, or pass added_calls='empty' to let it count changes from now on."
            f"\n  - calls: {calls.line}"
        )
    return parts


def _spec(description: Description) -> AggSpec:
    return AggSpec.from_json(json.dumps(description["spec"]))


def _as_it_was(factory: Any, old: Description, same: bool) -> Any:
    """The factory of the operator that wrote the state; `compare` has found all of its functions in the new query.

    same: only settings differ, so that the handler, which a user may have edited, is the one that there is.
    """
    given: Mapping[str, Any] = old["settings"]
    settings: Any = tuple(given.items())
    if isinstance(factory.settings, WindowSettings):
        settings = replace(factory.settings, **{name: given[name] for name in _WINDOW_SETTINGS})
    if same:
        return replace(factory, settings=settings)
    spec = _spec(old)
    source = generate(spec, backend=factory.handler.load().BACKEND)
    source.refuse_untrusted()
    handler = HandlerText(source.text, source.digest)
    return replace(factory, handler=handler, input_schema=spec.handler_schema, settings=settings)


def _tell(calls: CallChanges, parts: Carried) -> None:
    """Say once, in the log of a worker, what has become of the state."""
    _LOG.warning("the calls of the query have changed: %s", calls.line)
    if calls.reused:
        _LOG.warning("under the name of another call of before: %s", ", ".join(calls.reused))
    if parts.empty:
        names = ", ".join(describe_call(call) for call in parts.empty)
        _LOG.warning("without the rows from before: %s", names)
