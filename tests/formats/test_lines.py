"""Files of messages in blocks: the lines that are read one by one, with their places."""

from __future__ import annotations

import gzip
import random
from itertools import chain
from pathlib import Path

import pytest

from aggloom.runtime.formats import lines
from aggloom.runtime.formats.lines import read_blocks, read_lines

LINES = (
    b'{"k": 1}',
    b'{"k": 2}',
    b"",
    b"  ",
    b"null",
    b" null\t",
    b"\xef\xbb\xbf{}",
    b"[1]",
    b"x|y",
    b"|",
)
ENDS = (b"\n", b"\r\n", b"\n\n")


@pytest.mark.parametrize("separator", [None, "|"])
def test_blocks_have_the_messages_of_lines(
    separator: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "_AT_ONCE", 30)
    draw = random.Random(5)
    for most in (1, 3, 1_000):
        paths = []
        for number in range(12):
            text = b"".join(
                draw.choice(LINES) + draw.choice(ENDS) for _ in range(draw.randrange(9))
            )
            text = (
                draw.choice((b"", b"\xef\xbb\xbf"))
                + text
                + draw.choice((b"", b'{"k": 3}', b"null"))
            )
            paths.append(tmp_path / f"{number}.json{'.gz' if number % 3 == 0 else ''}")
            paths[-1].write_bytes(gzip.compress(text) if number % 3 == 0 else text)
        blocks = list(read_blocks(paths, separator, False, most))
        assert list(chain.from_iterable(blocks)) == list(read_lines(paths, separator))
        assert all(len(block) >= most for block in blocks[:-1])
    assert list(read_blocks([], separator, False, 5)) == []
