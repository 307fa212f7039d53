"""Rendering: a plan becomes the text of a module. Pure: it reads only the templates, and writes nothing.

A module contains the digest of its own text, so that an edit by hand is recognised wherever the file is moved.
"""

from __future__ import annotations

import functools
import hashlib
import re
from pathlib import Path

from aggloom.codegen.handler.plan_parts import HandlerPlan
from aggloom.codegen.spec.agg_call import describe_call
from aggloom.codegen.templating import escape_docstring, literal, template_environment

_ROOT = Path(__file__).resolve().parent.parent.parent
_STATED = re.compile(r'^(DIGEST = )"([0-9a-f]*)"$', re.MULTILINE)
_SUPPORT = {
    "numba": "aggloom.runtime.handlers.vocabulary",
    "python": "aggloom.runtime.plain.vocabulary",
}
_SUPPORT_ROOMS = ("arithmetic", "handlers", "plain", "storage", "values", "views")
_IMPORT = re.compile(r"^ *from (aggloom\.runtime[\w.]*) import ([\w, *]+)", re.MULTILINE)


def render(plan: HandlerPlan) -> str:
    """Return the text of the module."""
    return format_draft(render_draft(plan))


def render_draft(plan: HandlerPlan) -> str:
    """The module's text before it is formatted."""
    spec = plan.spec
    calls = ", ".join(describe_call(c) for c in spec.calls) or "keys only"
    keys = ", ".join(spec.group_by[:-1] if spec.namespace else spec.group_by)
    title = f"{calls} GROUP BY {keys}" if keys else calls
    title = escape_docstring(f"{title} in windows" if spec.namespace else title)
    return (
        template_environment()
        .get_template("handler.py.j2")
        .render(
            plan=plan,
            title=title,
            spec_json=literal(spec.to_json()),
            support=support_digest(plan.backend),
        )
    )


def format_draft(draft: str) -> str:
    """A draft as black writes it, with its digest in it."""
    # Late: a draft that was formatted once is not again, and black takes as long to import as to do it.
    import black

    text = black.format_str(draft, mode=black.Mode(line_length=100, preview=False))
    return _STATED.sub(lambda line: f'{line[1]}"{text_digest(text)}"', text, count=1)


def text_digest(text: str) -> str:
    """The digest of a module's text, whatever digest the text states."""
    # A text cannot contain its own hash, so the line that states it counts as empty.
    bare = _STATED.sub(r'\1""', text, count=1)
    return hashlib.sha256(bare.encode()).hexdigest()[:16]


def stated_digest(text: str) -> str | None:
    """The digest that a module says it was written with; None if it says nothing."""
    stated = _STATED.search(text)
    return stated[2] if stated else None


@functools.cache
def support_digest(backend: str) -> str:
    """The hash of the run-time modules that a handler's code takes in; Numba's cache cannot see them."""
    digest = hashlib.sha256()
    for path in support_files(backend):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def support_files(backend: str) -> list[Path]:
    """The files of the vocabulary that a handler imports, and of what they import in the rooms of values and state."""
    paths: set[Path] = set()
    waiting = [_SUPPORT[backend]]
    while waiting:
        path = _ROOT.joinpath(*waiting.pop().split(".")[1:]).with_suffix(".py")
        if path in paths or path.parent.name not in _SUPPORT_ROOMS or not path.is_file():
            continue
        paths.add(path)
        # Imports are read and not run: importing these modules would start Numba.
        for module, names in _IMPORT.findall(path.read_text(encoding="utf-8")):
            waiting += [module, *(f"{module}.{name.strip()}" for name in names.split(","))]
    return sorted(paths)
