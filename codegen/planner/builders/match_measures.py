"""MEASURES: the values that a match gives, and the expressions over them that the query sees."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from aggloom.codegen.operators.match import MatchMeasure
from aggloom.codegen.planner.builders.match_define import counted_variables, resolved_call
from aggloom.codegen.planner.builders.match_references import (
    PatternNames,
    is_navigation,
    is_reference,
)
from aggloom.codegen.sql.calls import lower
from aggloom.codegen.sql.dialect import CallNode
from aggloom.codegen.sql.errors import place_error, refusal
from aggloom.codegen.sql.match_parser import MatchFunction
from aggloom.codegen.sql.scope import Scope, make_column
from aggloom.codegen.sql.shape import check_expression
from aggloom.errors import SqlError

_CLOCK = "PROCTIME"


class MeasureBuilder:
    """Lowers the items of MEASURES over the columns of a scope, and collects the values that they are made of.

    time: the column by which rows come in order.
    """

    def __init__(self, scope: Scope, names: PatternNames, time: str) -> None:
        self.scope, self.names, self.time = scope, names, time
        self.measure_names: dict[MatchMeasure, str] = {}

    @property
    def measures(self) -> tuple[MatchMeasure, ...]:
        """The values that items are made of, under their names."""
        return tuple(replace(measure, name=name) for measure, name in self.measure_names.items())

    def expression(self, node: exp.Expression, *, final: bool) -> exp.Expression:
        """An item as an expression over the values; raises SqlError and its kin."""
        check_expression(node)

        def visit(part: exp.Expression) -> exp.Expression:
            value = self._value(part, final)
            return part if value is None else value

        return node.transform(visit, copy=True)

    def _value(self, node: exp.Expression, final: bool) -> exp.Expression | None:
        """The stand-in for a value of the match; None for what is computed from such."""
        if isinstance(node, MatchFunction) and not is_navigation(node):
            return self._fact(node, final)
        if is_reference(node):
            reference = self.names.reference(node)
            column = self.scope.column(self.scope.resolve(self.names.row_part(node)))
            return self._note(
                MatchMeasure("", reference.function, column, *reference[1:], final=final)
            )
        if isinstance(node, CallNode):
            for part in node.find_all(CallNode, MatchFunction):
                if part is not node:
                    raise refusal(
                        part,
                        f"{part.name.upper()} inside of an aggregate is",
                        "compute it in a sub-query",
                    )
            call = lower(self.scope, resolved_call(self.scope, self.names, node), None)
            # The filter of a call is a column that the matcher reads, for which rows count is known in the match
            # only.
            own, call = call.filter or "", replace(call, filter=None)
            variables = counted_variables(self.names, node)
            return self._note(
                MatchMeasure("", "", variables=variables, filter=own, final=final, call=call)
            )
        return None

    def _fact(self, node: MatchFunction, final: bool) -> exp.Expression:
        """CLASSIFIER, MATCH_NUMBER, MATCH_ROWTIME and MATCH_PROCTIME."""
        if node.name == "MATCH_PROCTIME":
            self._refuse_arguments(node)
            return exp.Anonymous(this=_CLOCK, expressions=[])
        if node.name == "MATCH_ROWTIME":
            arguments = [each.name for each in node.expressions]
            if arguments and (
                len(arguments) > 1 or arguments[0].casefold() != self.time.casefold()
            ):
                message = (
                    f"MATCH_ROWTIME takes no argument, or the column of ORDER BY ({self.time})."
                )
                raise place_error(SqlError(message), node)
            return self._note(MatchMeasure("", "LAST", self.time))
        self._refuse_arguments(node)
        return self._note(MatchMeasure("", node.name, final=final))

    def _refuse_arguments(self, node: MatchFunction) -> None:
        if node.expressions:
            fix = "write it without, which is the variable of the last row"
            raise refusal(
                node,
                f"{node.name} of a value is",
                fix if node.name == "CLASSIFIER" else "take it out",
            )

    def _note(self, measure: MatchMeasure) -> exp.Expression:
        # Equal values of several items are computed once.
        name = self.measure_names.setdefault(measure, f"$measure {len(self.measure_names)}")
        return make_column(name)
