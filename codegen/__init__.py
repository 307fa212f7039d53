"""Build time: specs, the catalogue, generation and loading. This is its public face."""

from __future__ import annotations

from aggloom.codegen.dtypes import parse_type, type_name
from aggloom.codegen.emit import GeneratedSource, generate, load, load_text
from aggloom.codegen.expressions import finish, having_kinds, prepare
from aggloom.codegen.plan import describe_call, plan_of
from aggloom.codegen.call import AggCall, SortKey
from aggloom.codegen.spec import AggSpec, Computed

__all__ = [
    "AggCall",
    "AggSpec",
    "Computed",
    "GeneratedSource",
    "SortKey",
    "describe_call",
    "finish",
    "generate",
    "having_kinds",
    "load",
    "load_text",
    "parse_type",
    "plan_of",
    "prepare",
    "type_name",
]
