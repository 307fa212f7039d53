"""The automaton of a pattern: states in which a row was mapped to a variable, each with its transitions in order.

State 0 is before the first row. A transition leads to a state, to whose variable the next row must be mapped, or to
ACCEPT: the rows so far are a match. The first transition that leads to a match is used, so their order is the
preference of SQL.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from aggloom.codegen.match.pattern import (
    Pattern,
    PatternEither,
    PatternRepeat,
    PatternSequence,
    PatternVariable,
    variables_of,
)

ACCEPT: Final = 0
"""The target of a transition that ends the match; none leads back to state 0."""
MOST_STATES: Final = 1_000


@dataclass(frozen=True)
class Automaton:
    """The automaton of a row pattern. variables: names. variable: by state the index of its variable; -1 of state 0.

    transitions: by state the states that may follow it, the preferred first.
    """

    variables: tuple[str, ...]
    variable: tuple[int, ...]
    transitions: tuple[tuple[int, ...], ...]

    @property
    def may_be_empty(self) -> bool:
        """True if no row at all is a match."""
        return ACCEPT in self.transitions[0]

    @property
    def is_prompt(self) -> bool:
        """True if a match is known with its last row, whatever rows follow."""
        # Unless a preferred transition could still make the match longer, its last row decides.
        return all(self._ends_match(target) for each in self.transitions for target in each[:-1])

    def avoids(self, variables: frozenset[int], start: int = 0) -> bool:
        """Tell whether a match may continue from a state without a row of these variables."""
        # Each state once, since the automaton may have loops.
        visited, waiting = {start}, [start]
        while waiting:
            for target in self.transitions[waiting.pop()]:
                if target == ACCEPT:
                    return True
                if target not in visited and self.variable[target] not in variables:
                    visited.add(target)
                    waiting.append(target)
        return False

    def starts_with(self, variables: frozenset[int]) -> tuple[int, ...]:
        """The states of a first row that is mapped to one of these variables."""
        return tuple(s for s in self.transitions[0] if s and self.variable[s] in variables)

    def _ends_match(self, target: int) -> bool:
        """Tell whether a transition to a state ends the match."""
        return target == ACCEPT or self.transitions[target][0] == ACCEPT


def automaton_of(pattern: Pattern) -> Automaton | None:
    """The automaton of a pattern; None if it would have more than MOST_STATES states.

    Example:
        >>> from aggloom.codegen.match.pattern import parse_pattern
        >>> automaton_of(parse_pattern("A B* C"))
        Automaton(variables=('A', 'B', 'C'), variable=(-1, 0, 1, 2), transitions=((1,), (2, 3), (2, 3), (0,)))
    """
    graph = _Graph()
    entry = graph.enter(pattern, graph.END)
    if entry is None:
        return None
    return graph.number_states(entry, variables_of(pattern))


class _Place(NamedTuple):
    """A node on a way between two rows, and the loops that have begun a round on this way, which has no row yet."""

    node: int
    rounds: frozenset[int]


class _Graph:
    """Nodes that lead on: a variable to one node, a fork to several in order."""

    END: Final = 0

    def __init__(self) -> None:
        self.variables: list[str | None] = [None]
        self.onward: list[list[int]] = [[]]
        self.bodies: dict[int, int] = {}
        """The node by which a round is entered, for each loop."""

    def enter(self, pattern: Pattern, after: int) -> int | None:
        """The node by which a pattern is entered that leads to `after`; None if there are too many nodes."""
        # Repetitions multiply: the limit is checked on the way, before memory is.
        if len(self.variables) > 4 * MOST_STATES:
            return None
        if isinstance(pattern, PatternVariable):
            # A variable takes a row; all other nodes only lead on.
            return self._add(pattern.name, [after])
        if isinstance(pattern, PatternSequence):
            entry: int | None = after
            # From the end: each part has to know what it leads to.
            for part in reversed(pattern.parts):
                if entry is None:
                    return None
                entry = self.enter(part, entry)
            return entry
        if isinstance(pattern, PatternEither):
            entries = [self.enter(part, after) for part in pattern.parts]
            return (
                None if None in entries else self._add(None, [e for e in entries if e is not None])
            )
        return self._repeat(pattern, after)

    def _repeat(self, pattern: PatternRepeat, after: int) -> int | None:
        entry: int | None = after
        copies = pattern.least
        if pattern.most is None:
            loop = self._add(None, [])
            body = self.enter(pattern.part, loop)
            if body is None:
                return None
            self.bodies[loop] = body
            # The order of the transitions is the preference: a greedy loop repeats first.
            self.onward[loop] = [after, body] if pattern.reluctant else [body, after]
            # The last of the copies that must be there is the body of the loop.
            entry, copies = (body, copies - 1) if copies else (loop, 0)
        else:
            # Copies that may be left out stand inside each other: B{0,2} is (B(B)?)?.
            for _ in range(pattern.most - pattern.least):
                if entry is None:
                    return None
                body = self.enter(pattern.part, entry)
                if body is None:
                    return None
                entry = self._add(None, [after, body] if pattern.reluctant else [body, after])
        for _ in range(copies):
            entry = None if entry is None else self.enter(pattern.part, entry)
        return entry

    def number_states(self, entry: int, variables: tuple[str, ...]) -> Automaton | None:
        """The states that are reached, in the order in which they are."""
        numbers: dict[int, int] = {}
        order: list[int] = []
        transitions: list[tuple[int, ...]] = []
        waiting = [self._ways([entry])]
        # Breadth first, and by preference: the numbers follow from which states are reached, and not from the order in
        # which the parts of the pattern were entered.
        while len(transitions) < len(waiting):
            nodes = waiting[len(transitions)]
            for node in nodes:
                if node != self.END and node not in numbers:
                    numbers[node] = len(numbers) + 1
                    order.append(node)
                    waiting.append(self._ways(self.onward[node]))
            # Repeats within repeats multiply. They are refused here, before the tables are as large.
            if len(numbers) > MOST_STATES:
                return None
            transitions.append(tuple(numbers.get(node, ACCEPT) for node in nodes))
        named = [variables.index(str(self.variables[node])) for node in order]
        return Automaton(variables, (-1, *named), tuple(transitions))

    def _ways(self, nodes: list[int]) -> list[int]:
        """The variables, and the end, that nodes lead to without a row, the preferred first; the end is last."""
        targets: list[int] = []
        visited: set[_Place] = set()
        waiting = [_Place(node, frozenset()) for node in reversed(nodes)]
        while waiting:
            place = waiting.pop()
            if place in visited:
                continue
            visited.add(place)
            if place.node == self.END or self.variables[place.node] is not None:
                if place.node not in targets:
                    targets.append(place.node)
                if place.node == self.END:
                    # What follows the end is never preferred to it.
                    break
            else:
                waiting += reversed(self._next_places(place))
        return targets

    def _next_places(self, place: _Place) -> list[_Place]:
        """The places that a node which takes no row leads to, the preferred first."""
        node, rounds = place
        if node in rounds:
            # A round of a loop without a row leads nowhere new.
            return []
        body = self.bodies.get(node)
        return [_Place(n, rounds | {node} if n == body else rounds) for n in self.onward[node]]

    def _add(self, variable: str | None, onward: list[int]) -> int:
        self.variables.append(variable)
        self.onward.append(onward)
        return len(self.variables) - 1
