"""Run the examples of docs/windows.md, and write their output and pictures into the page."""

from __future__ import annotations

import ast
import contextlib
import io
import re
import sys
from pathlib import Path
from typing import Any, NamedTuple

from aggloom.errors import SpecError
from aggloom.runtime.local.timeline import Timeline

_EXAMPLE = re.compile(
    r"^```python\n(?P<code>.*?)^```\n(?:```text\n(?P<text>.*?)^```\n)?"
    r"(?:\n!\[[^\]]*\]\((?P<picture>[\w/.-]+)\)\n)?",
    re.M | re.S,
)


class RenderedPage(NamedTuple):
    """The updated page, and its pictures by their path beside it."""

    page: str
    pictures: dict[str, str]


def render_page(page: str) -> RenderedPage:
    """Return the page with the output of its examples; they run in order and share their names.

    An example is a block `python`, then optionally a block `text` with its output, and a picture of its last line.
    """
    names: dict[str, Any] = {"__name__": "__windows__"}
    pictures: dict[str, str] = {}

    def example(match: re.Match[str]) -> str:
        line = page.count("\n", 0, match.start()) + 2
        out, value = _run(match["code"], names, line)
        whole = match[0]
        if out and match["text"] is None:
            raise SpecError(f"line {line}: the example prints something; add a block `text`.")
        if match["text"] is not None:
            old = f"```text\n{match['text']}```\n"
            whole = whole.replace(old, f"```text\n{out}```\n", 1)
        if match["picture"] is not None:
            if not isinstance(value, Timeline):
                raise SpecError(f"line {line}: the last line of the example is no timeline.")
            pictures[match["picture"]] = value.svg
        return whole

    return RenderedPage(_EXAMPLE.sub(example, page), pictures)


def _run(code: str, names: dict[str, Any], line: int) -> tuple[str, Any]:
    """Run an example; return its output and the value of its last line, None if that is no expression."""
    tree = ast.parse("\n" * (line - 1) + code, "docs/windows.md")
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    out, value = io.StringIO(), None
    with contextlib.redirect_stdout(out):
        exec(compile(tree, "docs/windows.md", "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "docs/windows.md", "eval"), names)
    return out.getvalue(), value


def main(arguments: list[str]) -> None:
    """Update the named page and the pictures beside it."""
    if len(arguments) != 1:
        raise SpecError("windows: name one page, such as docs/windows.md.")
    path = Path(arguments[0])
    page, pictures = render_page(path.read_text(encoding="utf-8"))
    for name, svg in pictures.items():
        place = path.parent / name
        place.parent.mkdir(exist_ok=True)
        place.write_text(svg, encoding="utf-8")
    path.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
