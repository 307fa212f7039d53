"""The handler class that runs a spec: generated, or one that a user gives for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from aggloom.codegen import AggSpec, Backend, generate, load
from aggloom.codegen.planner import Plan, WindowAggregate, walk
from aggloom.errors import SpecError
from aggloom.runtime.local.pipeline import handlers


def spec_handler(
    spec: AggSpec | type[Any] | str | Path, handler: type[Any] | str | Path | None, backend: Backend
) -> type[Any]:
    """The handler class of a spec without windows: generated, or the one that is given for it.

    Raises SpecError if the given one was made from another spec, or if `spec` is a handler itself.
    """
    if isinstance(spec, AggSpec):
        if handler is None:
            return load(generate(spec, backend=backend))
        return _load_handler(spec, handler, "generate(spec)")
    if handler is not None:
        raise SpecError(
            "spec: it is a handler already; leave out handler=..., or give the AggSpec."
        )
    return _class_of("spec", spec, "generate(spec)")


def window_handler(
    plan: Plan, handler: type[Any] | str | Path | None, backend: Backend
) -> type[Any]:
    """The handler class of a plan's one window aggregate: generated, or the one that is given for it.

    Raises SpecError if the given one was made from another spec.
    """
    # Only queries with exactly one window aggregate are planned with a class of the user's.
    (spec,) = (each.spec for each in walk(plan.root) if isinstance(each, WindowAggregate))
    if handler is None:
        return handlers(backend)(spec)
    return _load_handler(spec, handler, "generate(window_spec(spec, window))")


def _load_handler(spec: AggSpec, handler: type[Any] | str | Path, how: str) -> type[Any]:
    """A given handler class; raises SpecError unless it was made from the spec."""
    loaded = _class_of("handler", handler, how)
    # A class of another spec would read its state as its own, so the whole spec is compared.
    if loaded.spec() != spec:
        raise SpecError(f"handler: it was generated from another spec; generate it by {how}.")
    return loaded


def _class_of(name: str, handler: type[Any] | str | Path, how: str) -> type[Any]:
    """A handler class, or the one in the file at a path; raises SpecError for any other class."""
    loaded = handler if isinstance(handler, type) else load(handler)
    # A user's class of the right shape may still be none of ours; the spec in it is what tells.
    if not hasattr(loaded, "SPEC_JSON"):
        raise SpecError(f"{name}: {loaded!r} is no generated handler class; generate it by {how}.")
    return loaded
