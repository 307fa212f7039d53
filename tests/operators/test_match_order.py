"""The automaton of a row pattern: its ways through rows, in the order of preference, are those of the model."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from match_model import NAMES, START, Matcher, Query, random_pattern, text_of

from aggloom.codegen.match.automaton import ACCEPT, Automaton, automaton_of
from aggloom.codegen.match.pattern import parse_pattern

END = "E"
Fits = list[frozenset[str]]
"""The variables to which each row may be mapped."""


def automaton_ways(automaton: Automaton, fits: Fits) -> Iterator[tuple[str, ...]]:
    """Yield the ways through an automaton, the preferred first."""

    def onward(state: int, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        for target in automaton.transitions[state]:
            name = automaton.variables[automaton.variable[target]]
            if target == ACCEPT:
                yield path
            elif len(path) < len(fits) and name in fits[len(path)]:
                yield from onward(target, (*path, name))

    return onward(0, ())


def model_ways(pattern: tuple, fits: Fits) -> Iterator[tuple[str, ...]]:
    defines = {
        name: ("", lambda look, name=name: name in fits[len(look.path) - 1])
        for name in (*NAMES, END)
    }
    rows = [{"ts": START} for _ in fits]
    return Matcher(Query(pattern, defines), rows, None).ways(pattern, 0, ())


def without_repeats(ways: Iterator[tuple[str, ...]]) -> list[tuple[str, ...]]:
    return list(dict.fromkeys(ways))


@pytest.mark.parametrize("seed", range(100))
def test_the_ways_of_random_patterns(seed: int) -> None:
    rng = random.Random(seed)
    # With a last row, since a way that ends is never compared with longer ones.
    pattern = ("seq", (random_pattern(rng, 3), ("var", END)))
    automaton = automaton_of(parse_pattern(text_of(pattern)))
    for _ in range(20):
        fits = [
            frozenset(name for name in (*NAMES, END) if rng.random() < 0.6)
            for _ in range(rng.randint(1, 5))
        ]
        ways = without_repeats(automaton_ways(automaton, fits))
        assert ways == without_repeats(model_ways(pattern, fits)), text_of(pattern)


@pytest.mark.parametrize(
    ("pattern", "ways"),
    [
        # The round that must be there is empty, and one with a row follows it.
        ("A (D??)+ B", ["ADDB", "ADB", "AB"]),
        ("A (D?)+ B", ["ADDB", "ADB", "AB"]),
        ("A (D??)+? B", ["AB", "ADB", "ADDB"]),
        ("A (D??){2,} B", ["ADDB", "ADB", "AB"]),
        ("A (D??){2} B", ["AB", "ADB", "ADDB"]),
        ("A (D??)* B", ["ADDB", "ADB", "AB"]),
        # A row may end a round and begin the next one of the loops around it.
        ("A (D*?)+ B", ["ADDB", "ADB", "AB"]),
        ("A (D*?)* B", ["ADDB", "ADB", "AB"]),
        ("A ((D*)*)+? B", ["ADDB", "ADB", "AB"]),
    ],
)
def test_rounds_without_a_row(pattern: str, ways: list[str]) -> None:
    automaton = automaton_of(parse_pattern(pattern))
    fits = [frozenset("A"), frozenset("BD"), frozenset("BD"), frozenset("B")]
    assert ["".join(way) for way in without_repeats(automaton_ways(automaton, fits))] == ways
