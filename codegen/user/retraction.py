"""Retractions for classes without `retract`: an inverse that the source proves exact, or the live rows of each key."""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace
from functools import lru_cache

import pyarrow as pa

from aggloom.codegen.catalogue.entry import Aggregate, Code
from aggloom.codegen.spec.dtypes import parse_type
from aggloom.codegen.user import source as user_source
from aggloom.codegen.user import trust as user_trust
from aggloom.codegen.user.inverse import DECIMAL, INTEGER, OTHER, derive_retract
from aggloom.codegen.user.live_rows import keep_live_rows

_EXACT_DIGITS = 18
"""The largest digits of a DECIMAL of which ten thousand million values have an exact sum in Python's 28 digits."""


@dataclass(frozen=True)
class Retraction:
    """The way in which a class retracts rows over arguments of some types.

    entry: with a class that has `retract`. inverse: the text of a derived one. why: the reason why none is derived, and
    the live rows are kept.
    """

    entry: Aggregate
    inverse: str = ""
    why: str = ""

    @property
    def origin(self) -> str:
        """The origin of the class, for the comment in a generated module."""
        if self.inverse:
            return "as its user wrote it, with a retract that is derived from accumulate"
        if self.why:
            return "in a class that keeps the live rows of a key; own_ is what its user wrote"
        return "as its user wrote it"


def with_retract(entry: Aggregate, types: tuple[pa.DataType, ...]) -> Retraction:
    """The entry with a class that can retract rows; an entry whose class can, or that has no class, is unchanged."""
    if entry.code is None or "retract" in entry.code.methods:
        return Retraction(entry)
    kinds = tuple(
        _kind(argument.kind, dtype) for argument, dtype in zip(entry.arguments, types, strict=True)
    )
    names = tuple(argument.name for argument in entry.arguments)
    result = user_source.ROWS if entry.emits_rows else "value"
    text, inverse, why = _derive(entry.code.source, entry.name, names, kinds, result)
    parsed = user_source.parse(text, entry.name)
    code = Code(text, tuple(parsed.methods), entry.code.columns)
    with_step = replace(entry, code=code)
    if user_trust.is_trusted(entry):
        # It does nothing that the user's source does not do.
        user_trust.trust(with_step)
    return Retraction(with_step, inverse, why)


@lru_cache(maxsize=256)
def _derive(
    source: str, name: str, arguments: tuple[str, ...], kinds: tuple[str, ...], result: str
) -> tuple[str, str, str]:
    """(source with a retract, text of the inverse or "", reason why there is none or "")."""
    parsed = user_source.parse(source, name)
    method = derive_retract(parsed, dict(zip(arguments, kinds, strict=True)))
    tree = user_source.bare(source)
    (owner,) = (node for node in tree.body if isinstance(node, ast.ClassDef))
    if isinstance(method, str):
        keep_live_rows(tree, arguments, result)
        return ast.unparse(ast.fix_missing_locations(tree)), "", method
    text = ast.unparse(method)
    # The source was stripped of `self`, which the method needs where it calls others of the class.
    if "accumulate" in parsed.selves:
        method.args.args.insert(0, ast.arg("self"))
    owner.body.append(method)
    return ast.unparse(ast.fix_missing_locations(tree)), text, ""


def _kind(declared: str, dtype: pa.DataType) -> str:
    """The kind of an argument of a type, as far as a method may rely on it."""
    if declared[:1].isupper() and parse_type(declared) == pa.float64():
        return OTHER
    if pa.types.is_integer(dtype) or pa.types.is_boolean(dtype):
        return INTEGER
    if pa.types.is_decimal(dtype) and dtype.precision <= _EXACT_DIGITS:
        return DECIMAL
    return OTHER
