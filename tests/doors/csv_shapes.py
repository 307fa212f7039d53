"""CSV files by chance, in the dialects of other writers, packed or not, and below directories that are columns."""

from __future__ import annotations

import bz2
import csv
import datetime as dt
import gzip
import io
import random
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any
from urllib.parse import quote as percent

import zstandard

from doors.example import damaged
from doors.shape import (
    MEANS,
    SHAPE_COLUMNS,
    SYSTEMS,
    TEXTS,
    Change,
    Shape,
    System,
    Values,
    cased,
    draw_values,
    draw_word,
)

_UTF16 = "utf-16"
_INTEGER = re.compile(r"-?(0|[1-9][0-9]{0,19})")
_MOMENT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?")
PACKERS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": lambda content: gzip.compress(content, mtime=0),
    ".bz2": bz2.compress,
    ".zst": zstandard.compress,
}


def unpacked(content: bytes, suffix: str) -> bytes | None:
    """The content of packed bytes by the standard libraries; None where these refuse them."""
    try:
        if suffix == ".gz":
            return gzip.decompress(content)
        if suffix == ".bz2":
            return bz2.decompress(content)
        with zstandard.ZstdDecompressor().stream_reader(content, read_across_frames=True) as stream:
            whole: bytes = stream.read()
        ended = zstandard.ZstdDecompressor().decompressobj(read_across_frames=True)
        ended.decompress(content)
        return whole if not ended.unused_data else None
    except (OSError, EOFError, ValueError, zstandard.ZstdError):
        return None
    except Exception as error:  # zlib.error is no OSError
        assert type(error).__name__ == "error", error
        return None


def _has_rest(content: bytes, suffix: str) -> bool:
    """Tell whether there is something behind packed bytes that is packed by bzip2 no more."""
    while suffix == ".bz2" and content:
        member = bz2.BZ2Decompressor()
        try:
            member.decompress(content)
        except OSError:
            return True
        content = member.unused_data
    return False


def packed(r: random.Random, content: bytes, suffix: str) -> bytes:
    """Packed bytes, in one member or in two, as `cat a.gz b.gz` makes them."""
    pack = PACKERS[suffix]
    cut = r.randrange(len(content) + 1) if r.random() < 0.4 else len(content)
    return pack(content[:cut]) + (pack(content[cut:]) if cut < len(content) else b"")


def _shown(name: str, value: Any, null: str) -> str:
    if value is None:
        return null
    if name == "at":
        return str(value.isoformat(" "))
    return str(value)


class _Dialect:
    """A dialect by chance, with the options that say it."""

    def __init__(self, r: random.Random) -> None:
        self.separator = r.choice([",", ",", "\t", ";", "|", "||", "::"])
        self.tab_name = self.separator == "\t" and r.random() < 0.5
        self.quote = r.choice(['"', '"', '"', "'"])
        self.null = r.choice(["", "", "\\N", "NULL"])
        self.header = r.random() < 0.7
        self.encoding = r.choice(["utf-8"] * 4 + ["iso-8859-1", _UTF16])
        self.comment = r.choice(["", "", "", "#"])
        self.ends = r.choice(["\n", "\r\n"])
        self.options: dict[str, Any] = {}
        if self.separator != "," and not self.tab_name:
            shown = "\\t" if self.separator == "\t" and r.random() < 0.5 else self.separator
            self.options[r.choice(["sep", "delimiter"])] = shown
        if self.quote != '"':
            self.options["quote"] = self.quote
        if self.null:
            self.options["nullValue"] = self.null
        if not self.header:
            self.options["header"] = r.choice(["false", False])
        if self.encoding != "utf-8":
            self.options["encoding"] = self.encoding
        if self.comment:
            self.options["comment"] = self.comment

    def fits(self, text: str) -> bool:
        """True if a text can be written, and means one thing."""
        if text in (self.null, "NULL") or ("\\" in text and text != "a\\b"):
            return False
        if self.encoding == "iso-8859-1" and any(ord(letter) > 255 for letter in text):
            return False
        return "\r" not in text

    def value(self, r: random.Random, text: str, plain: bool) -> str:
        """A value as it stands in the file; plain: NULL, which is never in quotes."""
        special = (self.separator, self.quote, "\n", "\r", self.comment or self.quote)
        must = any(part in text for part in special) or self.separator[0] in text
        must = must or text != text.strip()
        if not plain and (must or r.random() < 0.3):
            doubled = text.replace(self.quote, self.quote * 2)
            return f"{self.quote}{doubled}{self.quote}"
        return text


def _rows(
    r: random.Random, dialect: _Dialect, system: System | None, names: list[str], count: int
) -> tuple[list[str], list[Change]]:
    texts = tuple(text for text in TEXTS if dialect.fits(text))
    lines, changes = [], list[Change]()
    for _ in range(count):
        values = draw_values(r, texts)
        word, kind = draw_word(r, system)
        cells = []
        for name in names:
            lower = name.lower()
            if lower in SHAPE_COLUMNS:
                value = values[lower]
                cells.append(dialect.value(r, _shown(lower, value, dialect.null), value is None))
            elif system is not None and name == system.column:
                cells.append(str(word).lower() if isinstance(word, bool) else str(word))
            else:
                cells.append(r.choice(["", "x", "1"]))
        lines.append(dialect.separator.join(cells))
        changes.append((kind, values))
        if dialect.comment and r.random() < 0.2:
            lines.append(f"{dialect.comment} no row{dialect.quote}")
    return lines, changes


def csv_shape(r: random.Random) -> Shape:
    """One CSV file in a dialect, with the change column of a system or none."""
    dialect = _Dialect(r)
    system = r.choice([None, *SYSTEMS])
    columns = list(SHAPE_COLUMNS)
    if dialect.header:
        more = [] if system is None else [system.column, *system.beside]
        columns = [cased(r, name) for name in columns] + r.sample(["other"], r.randrange(2)) + more
        r.shuffle(columns)
    elif system is not None:
        columns = [system.column, *columns]
    lines, changes = _rows(r, dialect, system, columns, r.randrange(0, 6))
    header = [dialect.separator.join(columns)] if dialect.header else []
    text = dialect.ends.join([*header, *lines]) + r.choice(["", dialect.ends])
    content = text.encode(dialect.encoding)
    if dialect.encoding == "utf-8" and r.random() < 0.15:
        content = b"\xef\xbb\xbf" + content
    name = "t.tsv" if dialect.tab_name else r.choice(["t.csv", "t.txt"])
    options = dialect.options | ({} if system is None else system.options)
    keys = ("id",) if system is not None and system.keyed else ()
    label = f"csv {'of ' + system.name if system else 'of rows'}"
    shape = Shape(label, "csv", {name: content}, options, changes, keys=keys)
    if len(dialect.separator) == 1 and dialect.encoding == "utf-8":
        found = csv_rows(content, dialect, system)
        assert found == changes, ("the oracle is wrong", found, shape)
        if r.random() < 0.25:
            hurt = damaged(r, content)
            read = csv_rows(hurt, dialect, system)
            shape.files = {name: hurt}
            shape.changes, shape.unclear = (
                (None, read == "unclear") if isinstance(read, str) else (read, False)
            )
    return shape


def packed_shape(r: random.Random) -> Shape:
    """A CSV file that is packed, sound or damaged."""
    shape = csv_shape(r)
    ((name, content),) = shape.files.items()
    suffix = r.choice(list(PACKERS))
    small = packed(r, content, suffix)
    shape.name = f"{suffix} csv"
    if r.random() < 0.3:
        small = damaged(r, small)
        same = unpacked(small, suffix)
        if same is None:
            shape.changes, shape.unclear = None, False
        elif same != content or small.endswith(b"\0") or _has_rest(small, suffix):
            # Some readers pass over what is behind the end, such as the zeros of tapes.
            shape.unclear = True
    shape.files = {name + suffix: small}
    return shape


def partition_shape(r: random.Random) -> Shape:
    """CSV files below directories that are columns."""
    files, changes = dict[str, bytes](), list[Change]()
    for number in range(r.randrange(1, 4)):
        name, cnt = r.choice(["a", "x y", "a:b", "größe", "02", None]), r.choice([1, -5, 7])
        rows = []
        for _ in range(r.randrange(0, 4)):
            values = draw_values(r) | {"name": name, "cnt": cnt}
            rows.append(f"{values['id']},{_shown('at', values['at'], '')}\n")
            changes.append(("insert", values))
        shown = "__HIVE_DEFAULT_PARTITION__" if name is None else percent(name, safe=" ")
        files[f"cnt={cnt}/name={shown}/{number}.csv"] = ("id,at\n" + "".join(rows)).encode()
    is_known = all(file.isascii() and "%C3" not in file for file in files)
    return Shape("csv in directories", "csv", files, {}, changes, by_spark=is_known)


def csv_rows(content: bytes, dialect: _Dialect, system: System | None) -> Any:
    """The changes of a file by Python's csv module; "bad" if none can be read, "unclear" if readers may differ."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return "bad"
    if (
        "\\" in text.replace("\\N", "")
        or "\0" in text
        or re.search("\r(?!\n)", text)
        or "\ufeff" in text
    ):
        return "unclear"
    if dialect.comment:
        kept = [line for line in text.splitlines(keepends=True) if not line.startswith("#")]
        if any(line.count(dialect.quote) % 2 for line in kept):
            return _unclear_or(text, dialect, system, kept)
        text = "".join(kept)
    return _parsed(text, dialect, system)


def _unclear_or(text: str, dialect: _Dialect, system: System | None, kept: list[str]) -> Any:
    """The changes of a file whose quoted values have line breaks, unless a line in one may be a comment."""
    breaks = any(line.startswith("#") for line in text.splitlines())
    return "unclear" if breaks and len(kept) < 2 else _parsed("".join(kept), dialect, system)


def _parsed(text: str, dialect: _Dialect, system: System | None) -> Any:
    if re.search(
        rf"[^{re.escape(dialect.separator)}\n{dialect.quote}]{dialect.quote}",
        _outside(text, dialect),
    ):
        return "unclear"
    blanks = "[ ]" if dialect.separator == "\t" else "[ \\t]"
    if re.search(rf"{dialect.quote}{blanks}+([{re.escape(dialect.separator)}\n]|$)", text):
        # Blanks behind a closing quote: this module takes them for text, others pass over them.
        return "unclear"
    reader = csv.reader(
        io.StringIO(text, newline=""),
        delimiter=dialect.separator,
        quotechar=dialect.quote,
        strict=True,
    )
    try:
        rows = [row for row in reader if row]
    except csv.Error:
        return "bad"
    if not rows:
        return []
    if any(len(row) == 1 and not row[0].strip() for row in rows):
        return "unclear"
    names = (
        rows.pop(0) if dialect.header else [*([system.column] if system else []), *SHAPE_COLUMNS]
    )
    known = {name.lower() for name in names}
    if len(known) < len(names) or not {*SHAPE_COLUMNS} <= known:
        return "unclear"
    if any(
        name not in (*SHAPE_COLUMNS, "other", *_own(system)) and name.lower() not in SHAPE_COLUMNS
        for name in names
    ):
        return "unclear"
    if system is not None and system.column not in names:
        return "unclear"
    if any(len(row) != len(names) for row in rows):
        return "bad"
    found = [_typed(dict(zip(names, row, strict=True)), dialect, system) for row in rows]
    worst = [row for row in found if isinstance(row, str)]
    return ("unclear" if "unclear" in worst else "bad") if worst else found


def _own(system: System | None) -> tuple[str, ...]:
    return () if system is None else (system.column, *system.beside)


def _outside(text: str, dialect: _Dialect) -> str:
    """The text without what is in quotes that stand at the edges of values."""
    edge = rf"(^|[{re.escape(dialect.separator)}\n])"
    return re.sub(
        rf"{edge}{dialect.quote}(?:[^{dialect.quote}]|{dialect.quote * 2})*{dialect.quote}",
        r"\1",
        text,
    )


def _typed(row: dict[str, str], dialect: _Dialect, system: System | None) -> Any:
    values: Values = {}
    for name, text in row.items():
        lower = name.lower()
        if lower not in SHAPE_COLUMNS:
            continue
        if text in ("", dialect.null):
            values[lower] = None
        elif lower == "name":
            values[lower] = text
        elif lower == "at":
            if not _MOMENT.fullmatch(text):
                return "unclear"
            try:
                values[lower] = dt.datetime.fromisoformat(text)
            except ValueError:
                return "bad"
        elif not _INTEGER.fullmatch(text):
            return "unclear"
        else:
            number = int(text)
            if (lower == "cnt" and not -(2**31) <= number < 2**31) or abs(number) >= 10**20:
                return "bad"
            values[lower] = Decimal(number) if lower == "id" else number
    if values["id"] is None and system is not None and system.keyed:
        return "unclear"
    ordered = {name: values[name] for name in SHAPE_COLUMNS}
    if system is None:
        return "insert", ordered
    words = {
        str(word).lower() if isinstance(word, bool) else word: kind for word, kind in system.values
    }
    kind = words.get(row[system.column])
    if kind is None:
        # Truth values may be spelt in several ways.
        return (
            "unclear" if system.name == "fivetran" or row[system.column] == dialect.null else "bad"
        )
    return MEANS[kind], ordered
