"""Checks of the arguments of public functions, before anything is asked of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aggloom.errors import AggloomError, SpecError, nearest

_TRIGGERS = ("availableNow", "once", "processingTime")
"""Spark has more (continuous, realTime), which none of our sinks can run in."""


def check_query(call: str, query: Any) -> None:
    """Raise SpecError unless it is a streaming query."""
    # A DataFrame takes what is asked of it for a column: its class is asked.
    if not hasattr(type(query), "awaitTermination"):
        raise SpecError(
            f"{call}: the query is a {type(query).__name__}; give what al.write_changes, or start() of Spark, returned"
        )


def check_session(call: str, spark: Any) -> None:
    """Raise SpecError unless it is a session of Spark."""
    if not hasattr(type(spark), "createDataFrame"):
        raise SpecError(
            f"{call}: the session is a {type(spark).__name__}; give one of Spark's, such as al.session() makes"
        )
    java: Any = getattr(getattr(spark, "_sc", None), "_gateway", None)
    process = getattr(java, "proc", None)
    if process is not None and process.poll() is not None:
        raise AggloomError(
            f"{call}: the session's Java has ended: it was killed, as by a kernel without memory. Start Python again; "
            "queries go on from their checkpoints."
        )


def check_text(call: str, name: str, text: Any) -> None:
    """Raise SpecError unless it is a text, and not an empty one."""
    if not isinstance(text, str) or not text.strip():
        raise SpecError(f"{call}: {name} is {text!r}; it must be a text that is not empty")


def check_trigger(call: str, trigger: Any) -> None:
    """Raise SpecError unless it is one of Spark's triggers, by its keyword and what goes with it."""
    form = 'as in trigger={"processingTime": "5 seconds"} or {"availableNow": True}'
    if not isinstance(trigger, Mapping) or len(trigger) != 1:
        raise SpecError(f"{call}: trigger is {trigger!r}; give a mapping of one entry, {form}")
    ((name, value),) = trigger.items()
    if name not in _TRIGGERS:
        raise SpecError(f"{call}: there is no trigger {name!r}. {nearest(str(name), _TRIGGERS)}")
    if name != "processingTime" and value is not True:
        raise SpecError(f"{call}: trigger {name} is {value!r}; it must be True")
    if name == "processingTime" and (not isinstance(value, str) or not value.strip()):
        raise SpecError(f"{call}: trigger {name} is {value!r}; it must be a text, {form}")


def mapping_of(call: str, name: str, value: Any, example: str) -> dict[str, Any]:
    """A mapping by names, empty for None; raises SpecError for anything else."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise SpecError(
            f"{call}: {name} is a {type(value).__name__}; it must be a mapping, {example}"
        )
    for key in value:
        if not isinstance(key, str):
            raise SpecError(f"{call}: {name} has the name {key!r}; names are texts, {example}")
    return dict(value)
