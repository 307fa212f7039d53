"""Rendering: a plan becomes the text of a module. Pure: nothing is read but the templates, nothing is written.

A module states the digest of its own text, so that an edit by hand shows wherever the file is moved.
"""

from __future__ import annotations

import functools
import hashlib
import re
from pathlib import Path

import black
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from aggloom.codegen.handler.plan_parts import HandlerPlan
from aggloom.codegen.spec.agg_call import describe_call

_ROOT = Path(__file__).resolve().parent.parent
_STATED = re.compile(r'^(DIGEST = )"([0-9a-f]*)"$', re.MULTILINE)
_SUPPORT = {
    "numba": (
        "arrivals",
        "bins",
        "bits",
        "compiled",
        "errorfree",
        "floats",
        "hashing",
        "indexing",
        "jit",
        "limbs",
        "lists",
        "moments",
        "multiset",
        "numeric",
        "ordered",
        "own",
        "pairs",
        "percentiles",
        "pool",
        "quantiles",
        "ranked",
        "registers",
        "sequence",
        "stamped",
        "superaccumulator",
        "tree",
        "words",
    ),
    "python": (
        "literals",
        "plain",
        "plain_floats",
        "plain_own",
        "plain_sketches",
        "plain_values",
        "plain_views",
        "plain_words",
    ),
}


def render(plan: HandlerPlan) -> str:
    """The module's text, formatted by black."""
    spec = plan.spec
    calls = ", ".join(describe_call(c) for c in spec.calls) or "keys only"
    keys = ", ".join(spec.group_by[:-1] if spec.namespace else spec.group_by)
    title = f"{calls} GROUP BY {keys}" if keys else calls
    title = _docstring(f"{title} in windows" if spec.namespace else title)
    text = (
        _environment()
        .get_template("handler.py.j2")
        .render(
            plan=plan,
            title=title,
            spec_json=_literal(spec.to_json()),
            support=support_digest(plan.backend),
        )
    )
    text = black.format_str(text, mode=black.Mode(line_length=100, preview=False))
    return _STATED.sub(lambda line: f'{line[1]}"{text_digest(text)}"', text, count=1)


def text_digest(text: str) -> str:
    """The digest of a module's text, whatever digest the text states."""
    bare = _STATED.sub(r'\1""', text, count=1)
    return hashlib.sha256(bare.encode()).hexdigest()[:16]


def stated_digest(text: str) -> str | None:
    """The digest that a module says it was written with; None if it says nothing."""
    stated = _STATED.search(text)
    return stated[2] if stated else None


@functools.cache
def support_digest(backend: str) -> str:
    """The hash of the run-time modules that a handler's compiled code takes in; Numba's cache cannot see them."""
    digest = hashlib.sha256()
    for name in _SUPPORT[backend]:
        digest.update((_ROOT / "runtime" / f"{name}.py").read_bytes())
    return digest.hexdigest()[:16]


@functools.cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_ROOT / "templates"),
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
        keep_trailing_newline=True,
    )
    environment.filters["literal"] = _literal
    environment.filters["comment"] = _comment
    environment.filters["data"] = _data
    return environment


def _literal(value: str) -> str:
    """A Python string literal, quoted as black does: the one way by which user text enters generated code."""
    text = ascii(value)
    return text if '"' in text else f'"{text[1:-1]}"'


def _data(value: object) -> str:
    """A literal of nested tuples, texts and numbers."""
    if isinstance(value, tuple):
        return f"({', '.join(map(_data, value))}{',' * (len(value) == 1)})"
    return _literal(value) if isinstance(value, str) else ascii(value)


def _comment(text: str) -> str:
    """User text inside a comment: one line, no control characters."""
    return re.sub(r"[\x00-\x1f\x7f\u0085\u2028\u2029]+", " ", text)


def _docstring(text: str) -> str:
    """User text inside a docstring: one line, nothing that ends or escapes it."""
    return _comment(text).replace("\\", "\\\\").replace('"', '\\"')
