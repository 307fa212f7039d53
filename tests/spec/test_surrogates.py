"""A name with half a character in it is a typed error."""

from __future__ import annotations

import pytest

from aggloom.codegen.spec.dtypes import parse_schema
from aggloom.errors import SpecError


@pytest.mark.parametrize("text", ["`k\ud800` INT", "k INT, s STRUCT<`x\udfff`: INT>"])
def test_a_lone_surrogate_in_a_schema(text: str) -> None:
    with pytest.raises(SpecError, match="lone surrogate"):
        parse_schema(text)
