"""A plan's picture is well-formed SVG with every node and arrow in it, whatever the names in the query."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

import aggloom as al
from aggloom.codegen.planner import (
    Plan,
    PlanOptions,
    as_svg,
    as_text,
    as_tree,
    describe,
    plan_query,
    plan_spec,
)

T = "a BIGINT, b INT, c STRING"
SPLIT = PlanOptions.of({"table.optimizer.distinct-agg.split.enabled": "true"})


def kinds(tree: str) -> list[str]:
    """The nodes of a tree of text, from the result down."""
    return re.findall(r"^[ :+-]*(\w+)\(", tree, re.M)


def picture(plan: Plan) -> ElementTree.Element:
    return ElementTree.fromstring(as_svg(plan))


def drawn(root: ElementTree.Element, kind: str) -> list[ElementTree.Element]:
    return [each for each in root.iter() if each.get("class") == kind]


def test_a_picture_has_every_node_and_arrow() -> None:
    plan = plan_query(
        "SELECT a, COUNT(DISTINCT c) AS n FROM (SELECT * FROM t UNION ALL SELECT * FROM u) GROUP BY a",
        {"t": T, "u": T},
        input_changes="append",
        options=SPLIT,
    )
    root = picture(plan)
    nodes = len(as_tree(plan).splitlines())
    boxes = {kind: drawn(root, kind) for kind in ("box", "state", "exchange")}
    assert (len(boxes["state"]), len(boxes["exchange"])) == (2, 2)
    assert sum(map(len, boxes.values())) == nodes
    assert len(drawn(root, "flow")) == nodes
    names = [each.text for each in drawn(root, "ink name")]
    assert sorted(str(name).split(" ")[0] for name in names) == sorted(kinds(as_tree(plan)))
    text = as_svg(plan)
    assert "prefers-color-scheme:dark" in text and "stroke-dasharray" in text
    assert "✓ split_distinct: keys are spread" in text
    assert "http" not in text.replace('xmlns="http://www.w3.org/2000/svg"', "")


def test_boxes_of_a_picture_do_not_touch() -> None:
    sql = "SELECT * FROM t UNION ALL SELECT * FROM t UNION ALL SELECT a, b, c FROM t WHERE a > 1"
    root = picture(plan_query(sql, {"t": T}, input_changes="append"))
    width, height = int(root.get("width", 0)), int(root.get("height", 0))
    places = [
        [int(each.get(name, 0)) for name in ("x", "y", "width", "height")]
        for kind in ("box", "state", "exchange")
        for each in drawn(root, kind)
    ]
    for at, (x, y, w, h) in enumerate(places):
        assert x > 0 and y > 0 and x + w < width and y + h < height
        for x2, y2, w2, h2 in places[at + 1 :]:
            assert x + w < x2 or x2 + w2 < x or y + h < y2 or y2 + h2 < y


HOSTILE = [
    "</text><script>alert(1)</script>",
    'a"b&amp;',
    "new\nline\x00\x1b[31m",
    "]]>",
    "列" * 90,
    "`",
    ", x=[y]",
]


@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_names(name: str) -> None:
    spec = al.AggSpec({name: "INT", "x": "INT"}, (name,), (al.AggCall("SUM", ("x",), alias="s"),))
    plan = plan_spec(spec)
    assert len(as_tree(plan).splitlines()) == 3
    assert not re.search(r"[\x00-\x09\x0b-\x1f]", as_text(plan))
    assert describe(plan)["unique_key"] == [name]
    root = picture(plan)
    assert not [each for each in root.iter() if "script" in each.tag]
    (title,) = (
        each.text for each in root.iter() if "title" in each.tag and "SUM" in str(each.text)
    )
    if name.isprintable():
        assert name.replace("`", "``") in str(title)
    assert all(len(str(each.text)) <= 66 for each in root.iter() if each.tag.endswith("}text"))
