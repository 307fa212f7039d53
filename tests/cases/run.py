"""Run expected changelogs, written down as data, through the harness.

    make cases DIR=..

The runner knows kinds of cases, never single ones. What this release does not have is "not
supported", and the reason shown is the error that the product itself raised.
"""

from __future__ import annotations

import functools
import json
import re
import sys
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import click
import pyarrow as pa

from aggloom.codegen import AggSpec, Backend, generate, load
from aggloom.errors import AggloomError, UnsupportedExpressionError
from cases import joins, rows, windows
from cases.compare import difference, typed
from cases.format import Case, NotSupported, Phase, column_type, fitting_decimal, read_cases
from cases.overs import OPERATOR_KINDS as OVER_KINDS
from cases.overs import SHIFTS, last_shift, with_query
from cases.program import Program, first_line, planning, query_program, spec_program
from cases.ranks import rank_programs
from cases.replay import CaseFailed, Tables, events, replay, tolerance_of
from cases.settings import Setting, settings

_KNOWN_EXTRA = frozenset(
    (
        *("message_count", "materialized", "tolerance_percent", "watermark_out"),
        *("late_records_dropped", "compare", "as_set"),
        *("state_after_each_event", "state_at_end", "state_entries_at_end", "sort_keys_not_found"),
        "finish_bundle_count",
    )
)
_AGGREGATE_KINDS = frozenset(("group_agg", "mini_batch_agg", "incremental_agg"))
_ANY_SIZE = re.compile(r"DECIMAL\(arbitrary\)", re.IGNORECASE)
SessionProvider = Callable[[], Any]


@dataclass(frozen=True)
class Outcome:
    """The result of one case: passed, failed, deviation or not supported, why, and the params that nothing read."""

    family: str
    id: str
    status: str
    reason: str = ""
    unheeded: str = ""


class Runner:
    """Runs cases on the given backends; Spark starts only for a case whose expressions need it."""

    def __init__(
        self,
        backends: Sequence[Backend] = ("python",),
        session: SessionProvider | None = None,
        committed: bool = False,
    ) -> None:
        self._backends, self._committed = tuple(backends), committed
        self._session = functools.cache(session) if session else None

    def run(self, case: Case) -> Outcome:
        """The outcome of one case; an error of the product is a failure, a refusal is not."""
        try:
            status, said = "passed", self._dispatch(case)
        except NotSupported as reason:
            return Outcome(case.family, case.id, "not supported", str(reason))
        except CaseFailed as error:
            status, said = "failed", str(error)
        except Exception as error:
            status, said = "failed", f"{type(error).__name__}: {first_line(error)}"
        unheeded = ", ".join(case.params.unheeded)
        return Outcome(case.family, case.id, status, said, unheeded)

    def _dispatch(self, case: Case) -> str:
        if case.unknown:
            raise NotSupported(f"unknown {case.unknown}")
        for phase in case.phases:
            unknown = set(phase.expect.extra) - _KNOWN_EXTRA
            if unknown:
                raise NotSupported(f"expectation {', '.join(sorted(unknown))}")
        if case.kind == "agg_function" and case.params["function"] in SHIFTS:
            case = last_shift(case)
        if case.kind == "agg_function":
            self._run_function(case if case.params["arg_types"] else _of_rows(case))
            return ""
        if case.kind in _AGGREGATE_KINDS or case.kind.endswith("_sql"):
            return self._run_query(case, query_program(case))
        if case.kind in windows.OPERATOR_KINDS:
            return self._run_query(case, windows.window_program(case))
        if case.kind in rows.OPERATOR_KINDS:
            return self._run_query(case, rows.row_program(case))
        if case.kind in joins.OPERATOR_KINDS:
            return self._run_query(case, joins.join_program(case))
        if case.kind in OVER_KINDS:
            case = with_query(case)
            return self._run_query(case, query_program(case))
        if case.kind in ("topn", "window_topn"):
            remarks = [self._run_query(case, program) for program in rank_programs(case)]
            return next(filter(None, remarks), "")
        raise NotSupported(f"operators of the kind {case.kind} are not there yet")

    def _run_function(self, case: Case) -> None:
        """One aggregate without keys: the operator's table, and the handler's own life cycle."""
        params = case.params
        raw_rows = [e["row"] for phase in case.phases for e in phase.events if "row" in e]
        for first in params.get("applies_to_types") or params["arg_types"][:1]:
            names = [first, *params["arg_types"][1:]]
            any_size = any(_ANY_SIZE.fullmatch(name) for name in names)
            types = [
                (
                    fitting_decimal(row[i] for row in raw_rows)
                    if _ANY_SIZE.fullmatch(name)
                    else pa.string() if _is_opaque(name, params["function"]) else column_type(name)
                )
                for i, name in enumerate(names)
            ]
            schema = pa.schema([(f"f{i}", kind) for i, kind in enumerate(types)])
            with planning():
                spec = AggSpec.from_sql(
                    f"SELECT {_call_sql(params, schema)} AS r FROM t",
                    schema,
                    "retract" if params.get("retract_supported", True) else "append",
                    "flink",
                )
            for backend in self._backends:
                self._replay(case, spec_program(spec), Setting(None, backend), rounded=any_size)
                self._life_cycle(case, spec, backend, any_size)

    def _life_cycle(self, case: Case, spec: AggSpec, backend: Backend, rounded: bool) -> None:
        """Accumulate, retract, merge and reset on the loaded handler, with the case's inputs."""
        handler_class: Any = load(generate(spec, backend=backend))
        handler = handler_class()
        fresh = handler.createAccumulators()
        handler.setAccumulators(handler.createAccumulators())
        result = spec.output_schema
        for phase in case.phases:
            rows = list(events(phase, spec.schema))
            for kind, row in rows:
                (handler.accumulate if kind in ("+I", "+U") else handler.retract)(row)
            if phase.expect.mode == "accumulator_empty":
                if not handler.getAccumulators() == fresh:
                    raise CaseFailed(
                        "the accumulator differs from a fresh one after retracting everything"
                    )
            elif phase.expect.mode == "materialized":
                self._expect_value(phase, handler, result, rounded, "handler")
            if (
                case.params.get("merge_supported")
                and all(kind == "+I" for kind, _ in rows)
                and rows
            ):
                for cut in (_half(rows, len(spec.schema)), 0):
                    _merge_halves(handler_class, handler, [row for _, row in rows], cut)
                    if phase is case.phases[0] and phase.expect.mode == "materialized":
                        self._expect_value(phase, handler, result, rounded, f"merge at {cut}")
                _load_all(handler, [row for kind, row in rows])
        handler.resetAccumulators()
        if not handler.getAccumulators() == fresh:
            raise CaseFailed("the accumulator differs from a fresh one after a reset")

    @staticmethod
    def _expect_value(
        phase: Phase, handler: Any, result: pa.Schema, rounded: bool, where: str
    ) -> None:
        got = [("+I", tuple(handler.getValue()))]
        found = difference(
            "unordered",
            typed(phase.expect.rows, result, rounded),
            got,
            result,
            tolerance_of(phase.expect),
        )
        if found:
            raise CaseFailed(f"{where}: {found}")

    def _run_query(self, case: Case, program: Program) -> str:
        """A query over its tables, under every setting that the case lists; a remark on what was compared."""
        tables: Tables | None = None
        for each in settings(case, self._backends):
            setting = replace(each, committed=self._committed)
            try:
                found = self._replay(case, program, setting, reference=tables)
            except CaseFailed as error:
                raise CaseFailed(f"[{setting}] {error}") from error
            tables = found if tables is None else tables
        return "" if tables is not None else "messages compared only as the table that they fold to"

    def _replay(
        self,
        case: Case,
        program: Program,
        setting: Setting,
        *,
        rounded: bool = False,
        reference: Tables | None = None,
    ) -> Tables | None:
        """Replay without Spark, and once more with it if an expression needs it."""
        try:
            return replay(case, program, setting, rounded, None, reference)
        except UnsupportedExpressionError:
            if self._session is None:
                raise NotSupported("an expression that only Spark evaluates") from None
            return replay(case, program, setting, rounded, self._session(), reference)


def _call_sql(params: Mapping[str, Any], schema: pa.Schema) -> str:
    """The call as SQL: the text that the case gives, unless that says more than SQL can."""
    text = str(params.get("sql", ""))
    return text if text.endswith(")") else f"{params['function']}({', '.join(schema.names)})"


def _is_opaque(type_name: str, function: str) -> bool:
    """Tell whether values of a Java type may stand as texts: the function only asks whether they are equal."""
    return type_name.upper().startswith("RAW") and function in ("COLLECT", "COUNT")


def _of_rows(case: Case) -> Case:
    """A case of a call without arguments, over rows of one column that it does not read."""
    params = case.params.changed(arg_types=["INT"], sql=f"{case.params['function']}(*)")
    phases = tuple(
        replace(p, events=tuple({**e, "row": [0]} if "row" in e else e for e in p.events))
        for p in case.phases
    )
    return replace(case, params=params, phases=phases)


def _half(rows: Sequence[Any], width: int) -> int:
    """Return the index at which two accumulators share the rows: the middle, at the beginning of a row's values."""
    return len(rows) // 2 // width * width


def _load_all(handler: Any, rows: Iterable[tuple[Any, ...]]) -> None:
    handler.setAccumulators(handler.createAccumulators())
    for row in rows:
        handler.accumulate(row)


def _merge_halves(
    handler_class: Any, handler: Any, rows: Sequence[tuple[Any, ...]], cut: int
) -> None:
    """Leave in the handler the merge of two accumulators, one for each side of the cut."""
    other = handler_class()
    _load_all(other, rows[:cut] if cut == 0 else rows[cut:])
    _load_all(handler, rows if cut == 0 else rows[:cut])
    handler.merge(other.getAccumulators())


def deviations() -> frozenset[str]:
    """The ids in the first column of the table of deliberate deviations."""
    path = Path(__file__).resolve().parents[2] / "docs" / "deviations.md"
    if not path.is_file():
        return frozenset()
    text = path.read_text(encoding="utf-8")
    return frozenset(re.findall(r"^\|\s*`([^`]+)`\s*\|", text, flags=re.MULTILINE))


def run_directory(
    directory: Path,
    *,
    backends: Sequence[Backend] = ("python",),
    family: str | None = None,
    case_id: str | None = None,
    known: frozenset[str] = frozenset(),
    session: SessionProvider | None = None,
    committed: bool = False,
) -> list[Outcome]:
    """Run the cases of a directory; a failing case listed in `known` counts as a deviation.

    committed: on the local engine, each bundle from the checkpoint of the one before.
    """
    runner = Runner(backends, session, committed)
    outcomes = []
    for case in read_cases(directory):
        if (family and case.family != family) or (case_id and case.id != case_id):
            continue
        outcome = runner.run(case)
        if outcome.status == "failed" and case.id in known:
            outcome = replace(outcome, status="deviation")
        outcomes.append(outcome)
    return outcomes


def report(outcomes: Iterable[Outcome], verbose: bool) -> Iterator[str]:
    """One line for each family, then the ids that failed and how often each reason stood against running a case."""
    by_family: dict[str, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        by_family[outcome.family].append(outcome)
    for family, members in by_family.items():
        counts = Counter(o.status for o in members)
        deviating = f", {counts['deviation']} deviations" if counts["deviation"] else ""
        yield (
            f"{family}: {counts['passed']} passed, {counts['failed']} failed, "
            f"{counts['not supported']} not supported{deviating}"
        )
        for outcome in members:
            if outcome.status == "failed":
                yield f"  failed {outcome.id}" + (f"\n    {outcome.reason}" if verbose else "")
            elif verbose and outcome.reason:
                yield f"  {outcome.status} {outcome.id}: {outcome.reason}"
        for names, found in _by_params(members).items():
            yield f"  not heeded: {names}, in {', '.join(found)}"
        if not verbose:
            reasons = Counter(o.reason for o in members if o.status == "not supported")
            yield from (f"  {n} not supported: {why}" for why, n in reasons.most_common())


def _by_params(outcomes: Iterable[Outcome]) -> dict[str, list[str]]:
    """The ids of the cases by the params that were not heeded."""
    found: dict[str, list[str]] = defaultdict(list)
    for outcome in outcomes:
        if outcome.unheeded:
            found[outcome.unheeded].append(outcome.id)
    return found


def _spark_session() -> Any:
    from aggloom.runtime.spark import session

    return session("aggloom-cases")


@click.command()
@click.argument("directory", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--family", help="Only the cases of this file (its name without .json).")
@click.option("--id", "case_id", help="Only the case with this id.")
@click.option(
    "--backend", type=click.Choice(["python", "numba", "both"]), default="both", show_default=True
)
@click.option(
    "--engine",
    type=click.Choice(["harness", "local"]),
    default="harness",
    show_default=True,
    help="What runs the plans; local: each bundle is committed, and the next runs from the checkpoint.",
)
@click.option("--verbose", is_flag=True, help="Show reasons.")
@click.option("--json", "as_json", is_flag=True, help="Print the outcomes as JSON.")
def main(
    directory: Path,
    family: str | None,
    case_id: str | None,
    backend: str,
    engine: str,
    verbose: bool,
    as_json: bool,
) -> None:
    """Run every case file of DIRECTORY; exit 1 if a case fails."""
    warnings.simplefilter("ignore")
    backends: tuple[Backend, ...] = ("python", "numba")
    if backend != "both":
        backends = ("numba",) if backend == "numba" else ("python",)
    try:
        outcomes = run_directory(
            directory,
            backends=backends,
            family=family,
            case_id=case_id,
            known=deviations(),
            session=_spark_session,
            committed=engine == "local",
        )
    except AggloomError as error:
        raise click.ClickException(str(error)) from error
    if as_json:
        click.echo(json.dumps([asdict(outcome) for outcome in outcomes], indent=1))
    else:
        for line in report(outcomes, verbose):
            click.echo(line)
    sys.exit(any(outcome.status == "failed" for outcome in outcomes))
