"""Every function in every form over every type, derived from the catalogue: the specs that its laws run on."""

from __future__ import annotations

import functools
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from model import is_moment, is_sketch
from strategies import ARGUMENTS, DOMAINS, ERRS, NESTED, SCALARS, required, samples, spec_over

from aggloom.codegen import AggCall, AggSpec
from aggloom.codegen.catalogue import registry as catalogue
from aggloom.codegen.catalogue.entry import Aggregate
from aggloom.codegen.catalogue.registry import CATALOGUE

Row = tuple[Any, ...]
FAMILIES: dict[str, tuple[str, ...]] = {
    family.__name__.rpartition("catalogue_")[2]: tuple(
        e.name for e in family.ENTRIES if e.name not in ERRS
    )
    for family in catalogue._FAMILIES
}
_PARTNERS = {"separator": "text", "frequency": "tiny"}


def arguments_over(entry: Aggregate, domain: str) -> Iterator[tuple[str, ...]]:
    """Arguments with the column in each place, others beside it; with and without those that are optional."""
    least = sum(not a.optional for a in entry.arguments)
    for place, fitting in enumerate(ARGUMENTS[entry.name]):
        if domain not in fitting:
            continue
        for width in range(max(least, place + 1), len(entry.arguments) + 1):
            columns = [_partner(entry, at, domain) for at in range(width)]
            columns[place] = domain
            yield tuple(columns)
    if entry.arguments[-1].many:
        yield domain, _partner(entry, 0, domain)


def _partner(entry: Aggregate, place: int, domain: str) -> str:
    """Another column that fits: of the named, the next in line, so that types meet in many ways."""
    fitting = ARGUMENTS[entry.name][place]
    fixed = _PARTNERS.get(entry.arguments[place].name)
    return fixed or fitting[(list(DOMAINS).index(domain) + 5) % len(fitting)]


def calls_over(entry: Aggregate, domain: str) -> Iterator[AggCall]:
    """Calls of a function over a column, each form on its own and DISTINCT and FILTER beside them."""
    for args in arguments_over(entry, domain):
        base = AggCall(entry.name, args, options=tuple(required(entry).items()))
        given = {argument.name for argument in entry.arguments[: len(args)]}
        plain = [base, *_with_options(base, entry, given), *_with_clauses(base, entry, domain)]
        yield from plain
        yield replace(base, filter="flag")
        # A frequency has no place in a set of values.
        if "frequency" not in given:
            yield replace(base, distinct=True)
            yield replace(base, distinct=True, filter="flag")
            yield from (
                replace(call, distinct=True)
                for call in plain
                if call.nulls == "respect" and not call.order_by
            )
            if entry.ordered is not None and domain in SCALARS and args[0] == domain:
                yield replace(base, distinct=True, order_by=(f"{domain} DESC",))  # type: ignore[arg-type]


def _with_options(base: AggCall, entry: Aggregate, given: set[str]) -> Iterator[AggCall]:
    for option in entry.options:
        if option.name not in given:
            for value in samples(option)[1 if option.required else 0 :]:
                options = {**dict(base.options), option.name: value}
                yield replace(base, options=tuple(options.items()))


def _with_clauses(base: AggCall, entry: Aggregate, domain: str) -> Iterator[AggCall]:
    if entry.nulls is not None:
        yield replace(base, nulls="respect")
        yield replace(base, nulls="ignore")
    if entry.ordered is None:
        return
    other = SCALARS[(list(DOMAINS).index(domain) + 3) % len(SCALARS)]
    orders = [(other,), (f"{other} DESC NULLS FIRST", "whole")]
    orders += [(f"{domain} DESC",)] if domain not in NESTED else []
    for order in orders:
        yield replace(base, order_by=order)  # type: ignore[arg-type]
        if entry.nulls is not None:
            yield replace(base, order_by=order, nulls="respect")  # type: ignore[arg-type]


@functools.cache
def chunk(family: str, domain: str, dialect: str, changes: str) -> AggSpec | None:
    """All calls of a family over a column as one spec without keys; None where nothing fits."""
    calls: list[AggCall] = []
    for name in FAMILIES[family]:
        if changes == "append" or not CATALOGUE[name].instead:
            calls += calls_over(CATALOGUE[name], domain)
    if not calls:
        return None
    named = [replace(call, alias=f"r{place}") for place, call in enumerate(dict.fromkeys(calls))]
    return spec_over(named, (), dialect, changes)


def chunks() -> list[tuple[str, str]]:
    """Families and columns that have something in common."""
    return [(f, d) for f in FAMILIES for d in DOMAINS if chunk(f, d, "spark", "append")]


def dialect_of(domain: str) -> str:
    """One of the dialects for each column, where one of them is enough."""
    return ("spark", "flink")[list(DOMAINS).index(domain) % 2]


def rows_for(spec: AggSpec, seed: int, size: int = 14) -> list[Row]:
    """Rows of few values, many of them equal, a fifth of them NULL, extremes among them."""
    draw = random.Random(f"{seed} {spec.schema.names}")
    pools = [draw.sample(values, min(len(values), 4)) for values in _values(spec)]
    return [
        tuple(None if draw.random() < 0.2 else draw.choice(pool) for pool in pools)
        for _ in range(size)
    ]


def every_value(spec: AggSpec) -> list[Row]:
    """Rows in which each column has each of its values."""
    columns = _values(spec)
    longest = max(map(len, columns))
    return [tuple(values[i % len(values)] for values in columns) for i in range(longest)]


def _values(spec: AggSpec) -> list[list[Any]]:
    return [DOMAINS[name][1] for name in spec.schema.names]


def changes_for(rows: Sequence[Row], seed: int) -> list[tuple[Any, ...]]:
    """Changes that add the rows and take some of them back."""
    draw, live, out = random.Random(seed), [], []  # type: ignore[var-annotated]
    for row in rows:
        live.append(row)
        out.append(("+I", *row))
        if draw.random() < 0.4:
            out.append(("-D", *live.pop(draw.randrange(len(live)))))
    return out


def picked(spec: AggSpec, keep: Iterable[bool]) -> AggSpec:
    """The spec with some of its calls."""
    calls = tuple(call for call, kept in zip(spec.calls, keep, strict=True) if kept)
    return replace(spec, calls=calls)


def exact(spec: AggSpec) -> list[bool]:
    """Which calls are not approximate."""
    return [not is_sketch(CATALOGUE[call.function]) for call in spec.calls]


def compiled() -> dict[str, AggSpec]:
    """A few specs that hold every function: what Numba is asked to compile.

    Moments stand over the same two columns, so that they share their sums: each sum of its own takes seconds. Of
    others there are a few in a spec, for the time to compile an update grows with the square of their number.
    """
    made: dict[str, AggSpec] = {}
    for number, family in enumerate(FAMILIES):
        calls = list(dict.fromkeys(_compiled_calls(family, number)))
        size = 20 if family == "statistics" else 5
        for part, start in enumerate(range(0, len(calls), size)):
            named = [replace(c, alias=f"r{i}") for i, c in enumerate(calls[start : start + size])]
            made[f"{family}{part}"] = spec_over(named, (), ("spark", "flink")[part % 2])
    return made


def _compiled_calls(family: str, number: int) -> Iterator[AggCall]:
    for place, name in enumerate(FAMILIES[family]):
        entry = CATALOGUE[name]
        if entry.instead:
            continue
        if is_moment(entry):
            args = ("double", "small")[: len(entry.arguments)]
            yield AggCall(name, args, options=tuple(required(entry).items()))
            continue
        domains = ARGUMENTS[name][0]
        forms = list(calls_over(entry, domains[(3 * place + number) % len(domains)]))
        yield forms[(5 * place + 2) % len(forms)]
