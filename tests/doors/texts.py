"""Files of text by chance: JSON lines, Debezium envelopes and CSV, good, bad and damaged."""

from __future__ import annotations

import json
import random
from typing import Any

from doors.example import BAD, DAMAGED, KINDS, Example, Row, damaged

NAMES = [
    "?",
    "a",
    "",
    "null",
    "a}{b",
    '"op"',
    "größe",
    "日本",
    "a,b",
    "x y",
    "\\",
    "0",
    "__op",
    "'",
    "[",
    "🐍",
]
WORDS = [
    "insert",
    "delete",
    "update_preimage",
    "update_postimage",
    "+I",
    "-D",
    "-U",
    "+U",
    "INSERT",
]
BAD_WORDS: list[Any] = [None, "", "x", "Insert", " +I"]


def _case(r: random.Random, name: str) -> str:
    return r.choice([name] * 4 + [name.upper(), name.title()])


def _name(r: random.Random) -> str | None:
    return r.choice([*NAMES, None])


def _count(r: random.Random) -> int | None:
    return r.choice([0, 1, -5, 2**31 - 1, -(2**31), None])


def _image(r: random.Random) -> tuple[dict[str, Any], tuple[str | None, int | None]]:
    name, cnt = _name(r), _count(r)
    fields = [
        (_case(r, "name"), name),
        (_case(r, "cnt"), cnt),
        ("other", r.choice([1, {"name": 2}])),
    ]
    r.shuffle(fields)
    return dict(fields), (name, cnt)


def _json_line(r: random.Random, bad: bool) -> tuple[str, list[Row]]:
    image, row = _image(r)
    word = "insert"
    if r.random() < 0.7:
        word = r.choice(WORDS)
        image[r.choice(["op", "_change_type", "OP", "_Change_Type"])] = word
    text = json.dumps(image, ensure_ascii=r.random() < 0.5)
    if bad:
        plain = {"name": "a", "cnt": 1}
        text = r.choice(
            [
                *(json.dumps(plain | {r.choice(["op", "_change_type"]): w}) for w in BAD_WORDS),
                *(text + text, text + " x", text[:-1], f"[{text}]", "{}", "3", text + "]"),
                json.dumps(plain | {"op": "+I", "_change_type": "insert"}),
                json.dumps(plain | {r.choice(["__op", "__deleted"]): "d"}),
                json.dumps(plain | {"cnt": r.choice([2**31, "x", 1.5, [1]])}),
                json.dumps({"NAME": "a", "Name": "b", "cnt": 1}),
                json.dumps({"NAME": "a", "CNT": r.choice(["x", 2**31, 1.5])}),
                r.choice(['{"name":"a","name":"b","cnt":1}', '{"cnt":1,"name":"a","cnt":1}']),
                json.dumps({"name": r.choice(["\ud83d", "x\udc0d"]), "cnt": 1}),
            ]
        )
    return text, [(*row, KINDS[word])]


def _debezium_line(r: random.Random, bad: bool) -> tuple[str, list[Row]]:
    op = r.choice("crud")
    (before, old), (after, new) = _image(r), _image(r)
    if bad:
        gone = r.choice(["name", "cnt"])
        lacking = {key: value for key, value in after.items() if key.lower() != gone}
        message: Any = r.choice(
            [
                {"op": r.choice(["u", "d"]), "before": lacking, "after": after},
                {"op": "c", "before": None, "after": lacking},
                {"op": r.choice([None, "x", "", "C"]), "before": before, "after": after},
                {"op": "u", "before": None, "after": after},
                {"before": before, "after": after},
                {"op": "c", "after": {"name": "a", _case(r, "cnt"): r.choice([2**31, "x", 0.5])}},
                {"op": "c", "after": {"name": "\ud83d", "cnt": 1}},
            ]
        )
        text = json.dumps(message)
        good = json.dumps({"op": "c", "after": after})
        return r.choice([text, text, text, good + good, good + "x", good[:-1], f"[{good}]"]), []
    message = {
        "op": op,
        "before": None if op in "cr" else before,
        "after": None if op == "d" else after,
    }
    if r.random() < 0.3:
        message = {"schema": {"type": "struct"}, "payload": message}
    kinds = {"c": ["insert"], "r": ["insert"], "d": ["delete"]}
    words = kinds.get(op, ["update_preimage", "update_postimage"])
    images = {"insert": new, "delete": old, "update_preimage": old, "update_postimage": new}
    return json.dumps(message, ensure_ascii=r.random() < 0.5), [(*images[w], w) for w in words]


def _csv(r: random.Random, lines: int, bad: bool) -> tuple[str, list[Row]]:
    change = r.choice([None, "op", "_change_type", "OP"])
    header = [_case(r, "name"), _case(r, "cnt"), *r.sample(["other", "third"], r.randrange(3))]
    header += [change] if change else []
    r.shuffle(header)
    out, rows = [",".join(header)], []
    for _ in range(lines):
        # A text is quoted as Spark writes it; an empty one and NULL are the same there.
        name, cnt, word = _name(r) or None, _count(r), r.choice(WORDS)
        name = None if name and set(name) & set('"\\') else name
        shown = {
            "name": "" if name is None else f'"{name}"',
            "cnt": "" if cnt is None else str(cnt),
        }
        shown |= {"op": word, "_change_type": word}
        out.append(",".join(shown.get(column.lower(), "x") for column in header))
        rows.append((name, cnt, KINDS[word] if change else "insert"))
    if bad:
        what = r.randrange(6)
        if what == 0:
            out[0] = ",".join("cmt" if column.lower() == "cnt" else column for column in header)
        elif what == 1:
            out.append(",".join(["1"] * (len(header) + r.choice([-1, 1]))))
        elif what == 2:
            out.append('"' + ",".join(["1"] * len(header)))
        elif what == 3:
            out.append(",".join('"a""b"' for _ in header))
        elif what == 4:
            out.append(",".join("x" if c.lower() == "cnt" else "insert" for c in header))
        else:
            out[0], out[1:] = out[0] + ",__op", [line + ",c" for line in out[1:]]
    ends = r.choice(["\n", "\r\n"])
    return ends.join(out) + r.choice(["", ends]), rows


def text_example(r: random.Random, format: str) -> Example:
    """One file of 1 to 5 messages."""
    bad = r.random() < BAD
    count = r.randrange(1, 6)
    if format == "csv":
        text, rows = _csv(r, count, bad)
        content = text.encode()
    else:
        make = _json_line if format == "jsonl" else _debezium_line
        worst = r.randrange(count) if bad else -1
        made = [make(r, place == worst) for place in range(count)]
        rows = [row for _, found in made for row in found]
        lines = [line for line, _ in made]
        if r.random() < 0.3:
            lines.insert(r.randrange(len(lines) + 1), r.choice(["", " ", "null"]))
        content = ("\n".join(lines) + r.choice(["", "\n"])).encode()
    if not bad and r.random() < DAMAGED:
        return Example(damaged(r, content), None, damaged=True)
    return Example(content, None if bad else rows)
