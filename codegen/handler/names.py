"""Identifiers of generated code, made of the names that users give."""

from __future__ import annotations

import re


class Names:
    """Identifiers from the user's names: ASCII, never a keyword, never twice."""

    def __init__(self) -> None:
        self._identifiers: dict[str, str] = {}

    def __getitem__(self, name: str) -> str:
        if name not in self._identifiers:
            stem = re.sub(r"[^0-9A-Za-z_]+", "_", name).strip("_").lower()[:40] or "column"
            ident = stem if stem[0].isalpha() else f"c_{stem}"
            names_in_use = set(self._identifiers.values())
            number = 2
            unique = ident
            while unique in names_in_use:
                unique, number = f"{ident}_{number}", number + 1
            self._identifiers[name] = unique
        return self._identifiers[name]
