"""The command `aggloom docs`: the pages that help texts and errors refer to, from the package."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from aggloom.errors import SpecError, nearest
from aggloom.options_cli import SingleOption

_PACKAGE = Path(__file__).parent


def find_pages() -> dict[str, Path]:
    """The pages by name, such as `formats`: those in the package or, in a clone, those of its docs folder."""
    shipped = _PACKAGE / "docs"
    folder = shipped if shipped.is_dir() else _PACKAGE.parent / "docs"
    pages = [*sorted(folder.glob("*.md")), *sorted((folder / "releases").glob("*.md"))]
    return {page.relative_to(folder).as_posix().removesuffix(".md"): page for page in pages}


@click.command("docs", cls=SingleOption)
@click.argument("page", required=False)
def show_docs(page: str | None) -> None:
    """Print a page of the documentation, or list the pages: aggloom docs formats."""
    pages = find_pages()
    if page is None:
        width = max(map(len, pages))
        for name, path in pages.items():
            with path.open(encoding="utf-8") as file:
                title = file.readline().lstrip("# ").rstrip()
            click.echo(f"{name:{width}}  {title}")
        return
    name = page.removeprefix("docs/").removesuffix(".md")
    if name not in pages:
        raise SpecError(f"there is no page {page!r}. {nearest(name, pages)}")
    text = pages[name].read_text("utf-8")
    if sys.stdout.isatty():
        click.echo_via_pager(text)
    else:
        click.echo(text, nl=False)
