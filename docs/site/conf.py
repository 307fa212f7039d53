"""The site: `make site` lays these pages beside those of the tree, and Sphinx makes one static site of them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from pygments.lexers.special import TextLexer

import aggloom

project = "aggloom"
version = release = aggloom.__version__
copyright = "the authors of aggloom"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx_click"]
root_doc = "index"
exclude_patterns = ["docs/site", "aggloom", "tests", "**/.*"]

html_theme = "furo"
html_title = f"aggloom {version}"
html_copy_source = False
html_show_sphinx = False

myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence"]

# Some pages have no headings between the first and the third level.
suppress_warnings = ["myst.header"]

autodoc_typehints = "signature"
autodoc_member_order = "bysource"
# Docstrings are plain words with code in single backquotes.
default_role = "literal"
smartquotes = False

_CODE = re.compile(r"(`[^`]*`)")
_LINK = re.compile(r"\[([^\]]+)\]\(([^)#:]+)\)")
_MARKUP = re.compile(r"([*|]|(?<=\w)_(?=\W|$))")


def plain(app: Any, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Let nothing in a docstring be markup but code in backquotes."""
    for number, line in enumerate(lines):
        parts = _CODE.split(line)
        parts[::2] = [_MARKUP.sub(r"\\\1", part) for part in parts[::2]]
        lines[number] = "".join(parts)


def without_folders(app: Any, page: str, source: list[str]) -> None:
    """Leave only the words of links to folders, which are no pages."""
    place = Path(app.srcdir) / Path(page).parent

    def words(link: re.Match[str]) -> str:
        return link[1] if (place / link[2]).is_dir() else link[0]

    source[0] = _LINK.sub(words, source[0])


def setup(app: Any) -> None:
    """Say what the pages need: words in fences that are no language, and docstrings as they are."""
    for name in ("aggloom", "flink", "tables"):
        app.add_lexer(name, TextLexer)
    app.connect("source-read", without_folders)
    app.connect("autodoc-process-docstring", plain)
