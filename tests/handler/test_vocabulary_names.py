"""Words that the generator prints for users' functions are words of a vocabulary, in plain Python or compiled."""

from __future__ import annotations

import re
from pathlib import Path

from aggloom.codegen.handler import plan_user
from aggloom.runtime.handlers import user
from aggloom.runtime.plain import vocabulary


def test_words_for_user_functions_are_there() -> None:
    text = Path(plan_user.__file__).read_text(encoding="utf-8")
    words = set(re.findall(r"\brt\.([a-z_]+)", text))
    assert len(words) > 3
    known = {*dir(vocabulary), *dir(user)}
    assert sorted(words - known) == []
