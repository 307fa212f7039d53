"""Read text files a second time: Python's json and csv decide, line by line, which are good."""

from __future__ import annotations

import csv
import json
import re
from collections import Counter
from collections.abc import Callable
from typing import Any

from doors.example import KINDS, Row, Verdict

COLUMNS = ("name", "cnt")
CHANGES = ("_change_type", "op")
FLATTENED = ("__op", "__deleted")
ONE_WORD = {
    **dict.fromkeys(("insert", "+I", "INSERT"), "insert"),
    **dict.fromkeys(("delete", "-D", "DELETE"), "delete"),
    **dict.fromkeys(
        ("update_preimage", "-U", "UPDATE_BEFORE", "UPDATE_PREIMAGE"), "update_preimage"
    ),
    **dict.fromkeys(
        ("update_postimage", "+U", "UPDATE_AFTER", "UPDATE_POSTIMAGE"), "update_postimage"
    ),
}
"""The words of changes, and the one that stands for each kind."""
RETRACTIONS = {word for word, one in ONE_WORD.items() if one in ("delete", "update_preimage")}
_LINES = re.compile(rb"\r\n|\n|\r")
_NUMBER = re.compile(r"[+-]?[0-9]+")
_TRIMMED = "".join(map(chr, range(33))) + "\x7f"
_FIELD = re.compile(r'"(?:[^"\\]|\\")*"|[^"\\,][^",\\]*|')


class _Bad(Exception):
    """The file has to be refused."""


class _Unsure(Exception):
    """A reader may refuse the line, or read it."""


class _Object(dict[str, Any]):
    """A JSON object; twice: names that occur more than once."""

    twice: tuple[str, ...] = ()


def judge(format: str, content: bytes) -> Verdict:
    """Read a file of a format, and judge it."""
    content = content.removeprefix(b"\xef\xbb\xbf")
    verdict = Verdict()
    lines = _LINES.split(content)
    if format == "csv":
        return _csv(content, lines)
    read = _json_line if format == "jsonl" else _debezium
    seen: set[str] = set()
    for line in lines:
        if line.strip(b" \t\r\n") in (b"", b"null"):
            continue
        _line(verdict, lambda line=line: read(_object(line), seen))  # type: ignore[misc]
    lacks = [name for name in COLUMNS if name not in seen]
    if format == "jsonl" and seen and lacks and not verdict.unsure:
        verdict.bad = verdict.bad or f"no line has {lacks}"
    return verdict


def _line(verdict: Verdict, read: Callable[[], list[Row]]) -> None:
    try:
        verdict.rows += read()
    except _Unsure:
        verdict.unsure += 1
    except _Bad as bad:
        verdict.bad = verdict.bad or str(bad)


def _object(line: bytes) -> _Object:
    """A line as one object; raises what is to come of it else."""
    try:
        text = line.decode()
    except UnicodeDecodeError:
        raise _Bad("not UTF-8") from None

    def constant(name: str) -> None:
        raise _Unsure

    try:
        # A byte order mark inside of a file, and other space than JSON's, are no part of it.
        found = json.loads(text, object_pairs_hook=_pairs, parse_constant=constant)
    except (ValueError, RecursionError) as error:
        if "'" in text.replace('"\'"', ""):
            raise _Unsure from None  # Spark takes names and texts in single quotes, too.
        raise _Bad(f"no JSON: {error}") from None
    if not isinstance(found, _Object):
        raise _Bad("no object")
    if re.search("[\ud800-\udfff]", json.dumps(found, ensure_ascii=False)):
        raise _Bad("half of a surrogate pair") if _half(found) else _Unsure
    return found


def _half(value: Any) -> bool:
    """Tell whether one of the columns has half of a surrogate pair."""
    if not isinstance(value, dict):
        return False
    names = {key.lower(): each for key, each in value.items()}
    texts = [names.get("name"), *(names.get(n) for n in CHANGES)]
    inner = any(_half(value.get(n)) for n in ("before", "after", "payload"))
    return inner or any(isinstance(t, str) and re.search("[\ud800-\udfff]", t) for t in texts)


def _pairs(pairs: list[tuple[str, Any]]) -> _Object:
    made = _Object(pairs)
    made.twice = tuple(key for key, n in Counter(k for k, _ in pairs).items() if n > 1)
    return made


def _spelled(found: list[str], declared: tuple[str, ...]) -> list[str]:
    """Names as they are declared; one in another case is the declared one, unless that is there too."""
    return [n.lower() if n.lower() in declared and n.lower() not in found else n for n in found]


def _named(image: _Object, declared: tuple[str, ...]) -> dict[str, Any]:
    """An object by declared names."""
    names = _spelled(list(image), declared)
    twice = [n for n in names if names.count(n) > 1 and n in declared]
    twice += [n for n in _spelled(list(image.twice), declared) if n in declared]
    if twice:
        raise _Bad(f"{twice} twice")
    return dict(zip(names, image.values(), strict=True))


def _values(image: dict[str, Any]) -> tuple[str | None, int | None]:
    name, cnt = image.get("name"), image.get("cnt")
    if isinstance(cnt, bool) or not isinstance(cnt, int | None):
        raise _Bad("cnt is no number")
    if cnt is not None and not -(2**31) <= cnt < 2**31:
        raise _Bad("cnt does not fit")
    if not isinstance(name, str | None):
        raise _Unsure  # Spark takes its text.
    return name, cnt


def _word(word: Any) -> str:
    if not isinstance(word, str) or word not in ONE_WORD:
        raise _Bad(f"change type {word!r}")
    return KINDS[word]


def _json_line(found: _Object, seen: set[str]) -> list[Row]:
    seen |= {name.lower() for name in found} & set(COLUMNS)
    row = _named(found, (*COLUMNS, *CHANGES, *FLATTENED))
    if any(name in row for name in FLATTENED) or not any(name in row for name in COLUMNS):
        raise _Bad("flattened, or no column")
    words = [row[name] for name in CHANGES if name in row]
    if len(words) > 1:
        raise _Bad("two change columns")
    return [(*_values(row), _word(words[0]) if words else "insert")]


def _debezium(found: _Object, _: set[str]) -> list[Row]:
    if {*found.twice} & {"before", "after", "op", "payload", "schema"}:
        raise _Unsure
    message = found.get("payload")
    if message is None:
        if found.get("schema") is not None and "payload" in found and found.get("op") is None:
            return []
        message = found
    elif not isinstance(message, _Object):
        raise _Bad("payload")
    if {*message.twice} & {"before", "after", "op"}:
        raise _Unsure
    images = {}
    for image, used in (("before", "ud"), ("after", "cru")):
        fields = message.get(image)
        if not isinstance(fields, _Object | None):
            raise _Bad(f"{image} is no object")
        if message.get("op") in [*used]:
            if fields is None:
                raise _Bad(f"no {image}")
            named = _named(fields, COLUMNS)
            if not set(COLUMNS) <= named.keys():
                raise _Bad(f"{image} lacks a column")
            images[image] = _values(named)
        elif fields is not None:
            try:
                _values(_named(fields, COLUMNS))
            except _Bad:
                raise _Unsure from None
    old, new = images.get("before", (None, None)), images.get("after", (None, None))
    match message.get("op"):
        case "c" | "r":
            return [(*new, "insert")]
        case "d":
            return [(*old, "delete")]
        case "u":
            return [(*old, "update_preimage"), (*new, "update_postimage")]
    raise _Bad("op")


def _csv(content: bytes, lines: list[bytes]) -> Verdict:
    verdict = Verdict()
    try:
        content.decode()
    except UnicodeDecodeError:
        return Verdict(bad="not UTF-8")
    if not content:
        return verdict
    try:
        header = _cut(lines[0].decode())
        names = _spelled(header, (*COLUMNS, *CHANGES, *FLATTENED))
        known = (*COLUMNS, *CHANGES)
        if any(names.count(name) > 1 for name in known) or any(n in names for n in FLATTENED):
            raise _Bad("a name twice, or a flattened record")
        if not set(COLUMNS) <= set(names) or set(CHANGES) <= set(names):
            raise _Bad("a column is missing, or two say the change")
    except _Unsure:
        return Verdict(unsure=len(lines))
    except _Bad as bad:
        return Verdict(bad=str(bad))
    for line in lines[1:]:
        if line.strip(b" \t"):
            _line(verdict, lambda line=line: [_csv_row(_cut(line.decode()), names)])  # type: ignore[misc]
    return verdict


def _cut(line: str) -> list[str]:
    """A line's values; a quote is at the edge of a value, or nobody agrees what it means."""
    if "\\" in line or "\0" in line:
        raise _Unsure
    at = 0
    while True:
        found = _FIELD.match(line, at)
        assert found is not None
        at = found.end()
        if at == len(line):
            return next(csv.reader([line]), [""])
        if line[at] != ",":
            if line[at] == " " or line[found.start()] != '"':
                raise _Unsure  # Spark leaves out spaces after a quote, and takes quotes in the middle as they are.
            raise _Bad("a quote inside, or open")
        at += 1


def _csv_row(values: list[str], names: list[str]) -> Row:
    if len(values) != len(names):
        raise _Bad("not as many values")
    row = dict(zip(names, values, strict=True))
    words = [row[name] for name in CHANGES if name in row]
    number = row["cnt"].strip(_TRIMMED)
    if row["cnt"] and not _NUMBER.fullmatch(number):
        raise _Bad("cnt is no number")
    cnt = int(number) if row["cnt"] else None
    if cnt is not None and not -(2**31) <= cnt < 2**31:
        raise _Bad("cnt does not fit")
    return row["name"] or None, cnt, _word(words[0]) if words else "insert"
