"""Build time: specs, the catalogue, generation and loading. This is its public face."""

from __future__ import annotations

from aggloom.codegen.dtypes import type_name
from aggloom.codegen.emit import GeneratedSource, generate, load, load_text
from aggloom.codegen.expressions import finish, having_kinds, prepare
from aggloom.codegen.plan import describe_call, plan_of
from aggloom.codegen.spec import AggCall, AggSpec, Computed

__all__ = [
    "AggCall",
    "AggSpec",
    "Computed",
    "GeneratedSource",
    "describe_call",
    "finish",
    "generate",
    "having_kinds",
    "load",
    "load_text",
    "plan_of",
    "prepare",
    "type_name",
]
