"""Pages from templates: values from a checkpoint are escaped, and one style sheet and one script are allowed."""

from __future__ import annotations

import base64
import functools
import hashlib
from typing import Any

from jinja2 import Environment
from markupsafe import Markup

from aggloom.codegen import template_environment
from aggloom.runtime.local.timeline_marks import style as timeline_style
from aggloom.runtime.page import formatting


@functools.cache
def environment() -> Environment:
    """The environment of all templates, with autoescape and the filters of pages."""
    page_environment = template_environment().overlay(autoescape=True)
    own = {"count": formatting.count, "size": formatting.size, "moment": formatting.moment}
    page_environment.filters = {**page_environment.filters, **own}
    return page_environment


def page(template: str, *, live: bool, follows: bool = False, **values: Any) -> str:
    """A page; live: on a server; follows: its script polls the server for changes."""
    more = {"live": live, "style": Markup(style()), "script": Markup(script()) if follows else ""}
    return environment().get_template(template).render(**more, **values)


@functools.cache
def style() -> str:
    """The style sheet of all pages."""
    own = environment().get_template("page.css.j2").render()
    return f"\n{own}{timeline_style()}\n"


@functools.cache
def script() -> str:
    """The script of a page on a server."""
    return "\n" + environment().get_template("page.js.j2").render()


def policy(live: bool) -> str:
    """Return the Content-Security-Policy of a page: a live page may run our script, and query its own server."""
    rules = [
        "default-src 'none'",
        "base-uri 'none'",
        "img-src data:",
        f"style-src {_hash(style())}",
    ]
    if live:
        rules += [f"script-src {_hash(script())}", "connect-src 'self'", "form-action 'self'"]
        rules += ["frame-ancestors 'none'"]
    else:
        rules += ["form-action 'none'"]
    return "; ".join(rules)


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
