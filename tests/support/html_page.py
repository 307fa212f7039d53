"""A page as a test reads it: its elements in a tree, and what must hold of any page."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from itertools import pairwise

VOID = {"meta", "link", "br", "wbr", "input", "hr", "img"}
SHAPES = {"rect", "path", "circle", "polygon", "text", "title", "g", "svg"}


@dataclass
class Element:
    """An element, what is in it, and its own text."""

    tag: str
    attributes: dict[str, str | None]
    parent: Element | None = None
    inner: list[Element] = field(default_factory=list)
    own: str = ""

    def all(self, tag: str = "") -> Iterator[Element]:
        """The elements in it with a tag, in order."""
        for each in self.inner:
            if each.tag == tag or not tag:
                yield each
            yield from each.all(tag)

    @property
    def text(self) -> str:
        """All text in it."""
        return self.own + "".join(each.text for each in self.inner)

    def get(self, name: str) -> str:
        """An attribute; empty if it is not there."""
        return self.attributes.get(name) or ""


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root = self.at = Element("", {})

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        made = Element(tag, dict(attrs), self.at)
        assert len(made.attributes) == len(attrs), f"<{tag}> has an attribute twice"
        self.at.inner.append(made)
        if tag not in VOID:
            self.at = made

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.at.inner.append(Element(tag, dict(attrs), self.at))

    def handle_endtag(self, tag: str) -> None:
        assert self.at.tag == tag, f"</{tag}> within <{self.at.tag}>"
        assert self.at.parent is not None
        self.at = self.at.parent

    def handle_data(self, data: str) -> None:
        # Text stands where it is: after the elements before it.
        self.at.inner.append(Element("#text", {}, self.at, own=data))


def parsed(html: str) -> Element:
    """The tree of a page; raises AssertionError where an element is not closed as it should be."""
    reader = _Reader()
    reader.feed(html)
    reader.close()
    assert reader.at is reader.root, f"<{reader.at.tag}> is not closed"
    check(reader.root)
    return reader.root


def check(root: Element) -> None:
    """Check the rules of every page: one main, headings in order, tables with captions, labels, no other origin."""
    ids = [each.get("id") for each in root.all() if each.get("id")]
    assert len(ids) == len(set(ids)), [each for each in ids if ids.count(each) > 1]
    assert [each.get("lang") for each in root.all("html")] == ["en"]
    assert len(list(root.all("main"))) == 1 and len(list(root.all("header"))) == 1
    assert next(root.all("title")).text.strip()
    levels = [
        int(e.tag[1]) for e in root.all() if len(e.tag) == 2 and e.tag[0] == "h" and e.tag != "hr"
    ]
    assert levels[0] == 1
    assert all(b <= a + 1 for a, b in pairwise(levels)), levels
    for table in root.all("table"):
        assert next(table.all("caption")).text.strip()
        assert all(each.get("scope") in ("col", "row") for each in table.all("th"))
        widths = {len([c for c in row.inner if c.tag in ("td", "th")]) for row in table.all("tr")}
        assert len(widths) == 1, widths
    labels = {each.get("for") for each in root.all("label")}
    for field_ in root.all("input"):
        within = field_.parent is not None and field_.parent.tag == "label"
        assert field_.get("type") == "hidden" or within or field_.get("id") in labels
    for svg in root.all("svg"):
        # A bar beside its number says nothing more.
        hidden = svg.get("aria-hidden") == "true"
        assert hidden or (svg.get("role") == "img" and svg.get("aria-label"))
    for each in root.all():
        assert not [
            n for n in each.attributes if n.startswith("on") or n == "style"
        ], each.attributes
        for name in ("src", "href", "action", "data"):
            link = each.get(name)
            assert not link or link.startswith(("#", "/c/", "data:")) or link == "/", link


def facts(root: Element) -> dict[str, str]:
    """Return the values in the lists of facts, by their words."""
    return {
        next(pair.all("dt")).text: next(pair.all("dd")).text.strip()
        for each in root.all("dl")
        for pair in each.all("div")
    }


def rows(root: Element, caption: str) -> list[dict[str, str]]:
    """The rows of the table with a caption, by column."""
    (table,) = (t for t in root.all("table") if next(t.all("caption")).text.startswith(caption))
    names = [each.text for each in next(table.all("thead")).all("th")]
    return [
        dict(zip(names, (c.text for c in row.inner if c.tag in ("td", "th")), strict=True))
        for row in next(table.all("tbody")).all("tr")
    ]
