"""The options of the sinks `print` and `blackhole`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from aggloom.runtime.sinks.options import flink_word, read_options


@dataclass(frozen=True)
class PrintOptions:
    """Options of printed changes. identifier: precedes each line. standard_error: where the lines go."""

    identifier: str = field(default="", metadata=flink_word("print-identifier"))
    standard_error: bool = field(default=False, metadata=flink_word("standard-error"))
    kind: ClassVar[str] = "print"
    needs_key: ClassVar[bool] = False


@dataclass(frozen=True)
class BlackholeOptions:
    """Options of a sink that keeps nothing: none."""

    kind: ClassVar[str] = "blackhole"
    needs_key: ClassVar[bool] = False


def print_options(entries: Mapping[str, Any]) -> PrintOptions:
    """The options of a mapping; raises SpecError for one that nobody reads."""
    return read_options(PrintOptions, "print", entries, {}, {})


def blackhole_options(entries: Mapping[str, Any]) -> BlackholeOptions:
    """The options of a mapping, which has none; raises SpecError."""
    return read_options(BlackholeOptions, "blackhole", entries, {}, {})
