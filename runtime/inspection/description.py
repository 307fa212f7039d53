"""The description of a state in a checkpoint, from which handler and operator are created again.

A checkpoint is untrusted input. Nothing in it is executed: the handler is generated from the spec, windows are made
from built-in classes, and a spec that carries Python source is refused unless the user trusts it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any

import pyarrow as pa

from aggloom.codegen import AggSpec, describe_call, generate, load
from aggloom.errors import (
    AggloomError,
    SpecError,
    StateCorruptError,
    StateError,
    StateMismatchError,
    UntrustedCodeError,
)
from aggloom.runtime.operators.base import OperatorSpec
from aggloom.runtime.operators.fragment import (
    Fragment,
    FragmentPart,
    FragmentSpec,
    feeds_from,
    inputs_from,
)
from aggloom.runtime.operators.registry import operator_from

_FRAGMENT = ("operator", "buckets", "digest", "inputs", "parts")
_WRITTEN = ("operator", "digest", "kind", "keys", "spread", "feeds", "spec", "windows", "settings")
# What a damaged description, or one of a later version, can make Python raise on the way to an operator.
_RAW = (
    *(ValueError, KeyError, IndexError, TypeError, AttributeError, OverflowError, MemoryError),
    *(RecursionError, ZeroDivisionError, AssertionError, pa.ArrowException),
)
_PLAIN_STATE = b'"plain.state"'
"""The array in which the plain backend keeps its accumulators: arenas list their arrays by name."""


@dataclass(frozen=True)
class FragmentDescription:
    """The fragment of a stateful node: its name, its operators, each after those that feed it, and its inputs.

    place: its number in the query, by which it counts; the result's own is 0.
    """

    operator: str
    buckets: int
    digest: str
    parts: tuple[Description, ...]
    inputs: Sequence[Any]
    place: int = -1

    @classmethod
    def parse(cls, text: bytes, trust: bool = False) -> FragmentDescription:
        """Return the description that a JSON text holds; raises StateCorruptError."""
        with reading_description():
            data = json.loads(text)
            name, buckets, digest, inputs, listed = (data[key] for key in _FRAGMENT)
            if not isinstance(name, str) or not isinstance(digest, str):
                raise TypeError("its name and its digest must be texts")
            if type(buckets) is not int or buckets < 1:
                raise TypeError(f"there cannot be {buckets!r} buckets")
            parts = tuple(Description.read(part, buckets, trust) for part in listed)
            # An empty fragment would open without an error, and then have no operator to look at.
            if not parts:
                raise ValueError("it has no operators")
            return cls(name, buckets, digest, parts, inputs, int(data.get("place", -1)))

    @cached_property
    def fragment(self) -> FragmentSpec:
        """Return the specification of the fragment; raises StateMismatchError if it cannot be rebuilt."""
        with reading_description(self.operator):
            parts = (each.part for each in self.parts)
            return FragmentSpec(tuple(parts), inputs_from(self.inputs))

    def handlers(self, *states: bytes | memoryview) -> list[type[Any] | None]:
        """The handler class of each operator, for the backend that wrote these states; None where it has none."""
        return [each.handler(*states) for each in self.parts]

    def open(self, handlers: Sequence[Any], bucket: int) -> Fragment:
        """The fragment as it runs a bucket of the query, without state."""
        with reading_description(self.operator):
            return self.fragment.make(handlers, bucket)


@dataclass(frozen=True)
class Description:
    """An operator by name, and what its state is made from, as data.

    spread: the columns of its key by which rows lie in buckets. delay: of its watermark. trust: whether Python source
    in the spec may run. backend: of the handler that wrote the state, if it is known.
    """

    operator: str
    digest: str
    kind: str
    keys: Sequence[str]
    spread: Sequence[str]
    feeds: Sequence[Any]
    spec: Mapping[str, Any]
    windows: str | None
    settings: Mapping[str, Any]
    delay: int = 0
    buckets: int = 1
    trust: bool = False
    backend: str = ""

    @classmethod
    def read(cls, data: Mapping[str, Any], buckets: int, trust: bool) -> Description:
        """The operator of what a fragment's description says; raises KeyError and TypeError."""
        # Read before anything is checked, so that a name that is missing is the first thing to be reported.
        values = {name: data[name] for name in _WRITTEN}
        if not isinstance(values["spec"], dict) or not isinstance(values["settings"], dict):
            raise TypeError("spec and settings must be mappings")
        texts = [values["operator"], values["digest"], values["kind"]]
        lists = [values["keys"], values["spread"]]
        if not all(isinstance(each, list) for each in lists):
            raise TypeError("keys and spread must be lists")
        if not all(isinstance(each, str) for each in (*texts, *chain(*lists))):
            raise TypeError("names of operators and columns must be texts")
        backend = str(data.get("backend", ""))
        delay = int(data.get("delay", 0))
        return cls(**values, delay=delay, buckets=buckets, trust=trust, backend=backend)

    @property
    def where(self) -> str:
        """The words that open an error message."""
        return f"operator {self.operator}"

    @cached_property
    def agg_spec(self) -> AggSpec:
        """The spec; raises UntrustedCodeError if it carries Python source that is not trusted."""
        functions = self.spec.get("functions") or ()
        # A function of the user's that is only named has no source here, and nothing of it can run.
        own = [each for each in functions if isinstance(each, Mapping) and "source" in each]
        if own and not self.trust:
            names = ", ".join(str(each.get("name")) for each in own)
            raise UntrustedCodeError(
                f"{self.where}: its spec carries Python source of {names}, which would run here. "
                "If you trust whoever wrote the checkpoint, pass --trust (trust=True)."
            )
        try:
            with reading_description():
                return AggSpec.from_json(json.dumps(self.spec), trust=self.trust)
        except SpecError as error:
            raise StateMismatchError(
                f"{self.where}: this version of aggloom cannot read its spec: {error} "
                "Run the version that wrote the checkpoint."
            ) from error

    @cached_property
    def settings_of(self) -> OperatorSpec[Any]:
        """Return the specification of the operator; raises StateMismatchError if it cannot be made again."""
        with reading_description(self.operator):
            return operator_from(self.kind, self.settings, self.agg_spec)

    @property
    def part(self) -> FragmentPart:
        """The operator in its fragment; raises StateMismatchError and SpecError."""
        keys, spread = tuple(self.keys), tuple(self.spread)
        feeds = feeds_from(self.feeds)
        return FragmentPart(self.settings_of, self.operator, keys, spread, feeds, self.delay)

    @property
    def key_names(self) -> tuple[str, ...]:
        """The columns of the query's key."""
        return tuple(self.keys)

    @property
    def key_fields(self) -> list[pa.Field]:
        """The columns of the key with their types, as the spec has them, or, as of an OVER, the operator's rows."""
        count, names = len(self.keys), list(self.keys)
        # An OVER has its rows in a spec of their own, so the key's columns are not the first of the aggregate's.
        schema = self.agg_spec.aggregate_schema
        if schema.names[:count] != names:
            schema = self.settings_of.rows
        return [schema.field(name) for name in names]

    @property
    def call_names(self) -> tuple[str, ...]:
        """The calls of the query; none of an operator without a handler, or where the spec cannot be read."""
        try:
            if self.settings_of.handler_spec is None:
                return ()
            return tuple(describe_call(call) for call in self.agg_spec.calls)
        # Whoever lists the calls also reports the error of the spec, so it is not raised a second time here.
        except StateError:
            return ()

    @property
    def plain_settings(self) -> dict[str, Any]:
        """The settings that are one word or number, under the names that users give them."""
        plain = {n: v for n, v in self.settings.items() if isinstance(v, str | int | bool)}
        return {n.removesuffix("_ms"): v for n, v in plain.items()}

    def handler(self, *states: bytes | memoryview) -> type[Any] | None:
        """The handler class, generated from the spec for the backend that wrote these states; None if it has none."""
        if self.settings_of.handler_spec is None:
            return None
        plain = self.backend == "python" or any(_PLAIN_STATE in bytes(each) for each in states)
        return load(generate(self.agg_spec, "python" if plain else "numba"))


@contextmanager
def reading_description(operator: str = "") -> Iterator[None]:
    """Raise StateCorruptError for what Python raises over a description that is not what is written here.

    operator: what the description is of, if that is known. Raises StateMismatchError for what cannot be made again.
    """
    try:
        yield
    except SpecError as error:
        # Without a name the caller adds it, and turns the error into one of the operator.
        if not operator:
            raise
        raise unreadable(operator, error) from error
    except AggloomError:
        raise
    except _RAW as error:
        place = f"operator {operator}: " if operator else ""
        raise StateCorruptError(
            f"{place}the description in the checkpoint cannot be read: {error!r}. "
            "Restore the checkpoint from a copy, or run the version of aggloom that wrote it."
        ) from error


def unreadable(operator: str, error: SpecError) -> StateMismatchError:
    """The error for what this version cannot make again."""
    return StateMismatchError(
        f"operator {operator}: it cannot be made again from the checkpoint. {error} "
        "Run the version of aggloom that wrote it."
    )
