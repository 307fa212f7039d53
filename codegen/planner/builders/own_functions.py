"""Calls of users' own table functions: arguments fit the declared types, columns are those declared."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pyarrow as pa

from aggloom.codegen.operators import UserRows
from aggloom.codegen.operators.base import Key
from aggloom.codegen.planner.builders.generators import CallArguments
from aggloom.codegen.planner.builders.planned_call import PlannedCall
from aggloom.codegen.scalar.promotion import wider
from aggloom.codegen.spec.dtypes import type_name
from aggloom.codegen.user.table_functions import UserFunction, find_table_function


def find_own_function(name: str) -> Callable[[CallArguments], PlannedCall] | None:
    """The builder of calls of a registered table function; None if there is none of this name."""
    function = find_table_function(name)
    return None if function is None else partial(_plan_own_call, function)


def _plan_own_call(function: UserFunction, call: CallArguments) -> PlannedCall:
    """A call of a function; its arguments are cast to wider types where they have others."""
    nodes = call.take(len(function.arguments), len(function.arguments))
    arguments = []
    for node, declared in zip(nodes, function.types, strict=True):
        dtype = call.type_of(node)
        # A cast to a wider type loses nothing; any other could change the value without a word.
        if dtype != declared and wider(dtype, declared, texts=False) != declared:
            raise call.wrong_type(node, type_name(declared), dtype)
        arguments.append((node, declared))

    def make(names: Key, answers: pa.Schema, ordinality: tuple[str, int] | None) -> UserRows:
        return UserRows(
            function.name,
            names,
            answers,
            source=function.source,
            nulls=function.nulls,
            ordinality=ordinality,
        )

    return PlannedCall(function.name, tuple(arguments), function.schema, make)
