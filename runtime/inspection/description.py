"""What a state was made from, as it lies in a checkpoint: handler and operator are made from it again.

A checkpoint is untrusted input. Nothing in it is executed: the handler is generated from the spec, windows are made
from built-in classes, and a spec that carries Python source is refused unless the user trusts it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from aggloom.codegen import AggSpec, describe_call, generate, load
from aggloom.errors import (
    SpecError,
    StateCorruptError,
    StateError,
    StateMismatchError,
    UntrustedCodeError,
)
from aggloom.runtime.operators.group_aggregate import GroupAggOperator
from aggloom.runtime.operators.windows.make import WindowSettings

_WRITTEN = ("operator", "buckets", "digest", "spec", "windows", "settings")
_PLAIN_STATE = b'"plain.state"'
"""The array in which the plain backend keeps its accumulators: arenas list their arrays by name."""


@dataclass(frozen=True)
class Description:
    """An operator by name, and what its state is made from, as data.

    trust: whether Python source in the spec may run.
    """

    operator: str
    buckets: int
    digest: str
    spec: Mapping[str, Any]
    windows: str | None
    settings: Mapping[str, Any]
    trust: bool = False

    @classmethod
    def parse(cls, text: bytes, trust: bool = False) -> Description:
        """What the JSON text of a description says; raises StateCorruptError."""
        try:
            data = json.loads(text)
            values = {name: data[name] for name in _WRITTEN}
            if not isinstance(values["spec"], dict) or not isinstance(values["settings"], dict):
                raise TypeError("spec and settings must be mappings")
            return cls(**values, trust=trust)
        except (ValueError, KeyError, TypeError) as error:
            raise StateCorruptError(
                f"the description in the checkpoint cannot be read: {error!r}. "
                "Restore the checkpoint from a copy, or run the version of aggloom that wrote it."
            ) from None

    @property
    def where(self) -> str:
        """The words that open an error message."""
        return f"operator {self.operator}"

    @cached_property
    def agg_spec(self) -> AggSpec:
        """The spec; raises UntrustedCodeError if it carries Python source that is not trusted."""
        functions = self.spec.get("functions") or ()
        own = [each for each in functions if isinstance(each, Mapping) and "source" in each]
        if own and not self.trust:
            names = ", ".join(str(each.get("name")) for each in own)
            raise UntrustedCodeError(
                f"{self.where}: its spec carries Python source of {names}, which would run here. "
                "If you trust whoever wrote the checkpoint, pass --trust (trust=True)."
            )
        try:
            return AggSpec.from_json(json.dumps(self.spec), trust=self.trust)
        except SpecError as error:
            raise StateMismatchError(
                f"{self.where}: this version of aggloom cannot read its spec: {error} "
                "Run the version that wrote the checkpoint."
            ) from error

    @cached_property
    def window_settings(self) -> WindowSettings | None:
        """The windows of the operator, None without; raises StateMismatchError if they cannot be made again."""
        if self.windows is None:
            return None
        if "windowing" not in self.settings:
            raise StateMismatchError(
                f"{self.where}: an older version of aggloom wrote only the name of its windows. "
                "Run a batch of the query with this version; it writes them down."
            )
        try:
            return WindowSettings.from_data(self.settings)
        except SpecError as error:
            raise StateMismatchError(
                f"{self.where}: its windows cannot be made again from the checkpoint. {error}"
            ) from error

    @property
    def key_names(self) -> tuple[str, ...]:
        """The columns of the query's key."""
        keys = tuple(self.spec.get("group_by", ()))
        return keys if self.windows is None else keys[:-1]

    @property
    def call_names(self) -> tuple[str, ...]:
        """The calls of the query; none where the spec cannot be read."""
        try:
            return tuple(describe_call(call) for call in self.agg_spec.calls)
        except StateError:
            return ()

    @property
    def plain_settings(self) -> dict[str, Any]:
        """The settings that are one word or number."""
        return {n: v for n, v in self.settings.items() if isinstance(v, str | int | bool)}

    def handler(self, *states: bytes | memoryview) -> type[Any]:
        """The handler class, generated from the spec for the backend that wrote these states."""
        plain = any(_PLAIN_STATE in bytes(state) for state in states)
        return load(generate(self.agg_spec, "python" if plain else "numba"))

    def open(self, handler: type[Any], bucket: int) -> Any:
        """An operator as it runs a bucket of the query, without state."""
        if self.window_settings is not None:
            return self.window_settings.make(handler, bucket)
        try:
            return GroupAggOperator(handler, **self.settings)
        except TypeError as error:
            raise StateMismatchError(
                f"{self.where}: this version of aggloom cannot read its settings: {error}. "
                "Run the version that wrote the checkpoint."
            ) from error

    @property
    def moves_last(self) -> bool:
        """Whether the clock moves after a bundle's rows: those of another window operator."""
        settings = self.window_settings
        return settings is not None and settings.chained and settings.windowing.assigner.event_time
