"""Moments, correlation and regression."""

# All of them are computed from exact sums, so a retraction leaves no rounding error behind.

from __future__ import annotations

from aggloom.codegen.catalogue.basic import COUNT, NONE, NUMBER
from aggloom.codegen.catalogue.entry import (
    Aggregate,
    Argument,
    Example,
    Field,
    ResultType,
    Shape,
    View,
)
from aggloom.codegen.catalogue.result_types import bigint, double, spread

_TOTAL = Field(
    "total", "real", "add(total, x)", "combine(total, other_total)", "subtract(total, x)"
)
_SQUARES = Field(
    "squares",
    "real",
    "add_product(squares, x, x)",
    "combine(squares, other_squares)",
    "subtract_product(squares, x, x)",
)
_CUBES = Field(
    "cubes",
    "real",
    "add_power(cubes, x, 3)",
    "combine(cubes, other_cubes)",
    "subtract_power(cubes, x, 3)",
)
_FOURTHS = Field(
    "fourths",
    "real",
    "add_power(fourths, x, 4)",
    "combine(fourths, other_fourths)",
    "subtract_power(fourths, x, 4)",
)


def _sum_of(name: str, left: str, right: str | None = None) -> Field:
    """An exact sum of an argument, or of the product of two."""
    if right is None:
        changes = f"add({name}, {left})", f"subtract({name}, {left})"
    else:
        changes = (
            f"add_product({name}, {left}, {right})",
            f"subtract_product({name}, {left}, {right})",
        )
    return Field(name, "real", changes[0], f"combine({name}, other_{name})", changes[1])


_Y, _X = _sum_of("total_y", "y"), _sum_of("total_x", "x")
_YY, _XX, _XY = _sum_of("yy", "y", "y"), _sum_of("xx", "x", "x"), _sum_of("xy", "x", "y")
# The sums about the means.
_LETS = (
    ("sxx", "deviation(total_x, total_x, xx, count)"),
    ("syy", "deviation(total_y, total_y, yy, count)"),
    ("sxy", "deviation(total_x, total_y, xy, count)"),
)
_PAIR = (Argument("y", "number"), Argument("x", "number"))
_POINTS = ((1.0, 2.0), (3.0, 4.0), (4.0, 8.0), (None, 9.0))
_O1 = "O(1) per row and per read"


def _spread(
    name: str, doc: str, value: str, empty: str, example: float, aliases: tuple[str, ...] = ()
) -> Aggregate:
    return Aggregate(
        name,
        doc,
        arguments=(NUMBER,),
        result=spread,
        append=Shape((COUNT, _TOTAL, _SQUARES), value, empty, _DEVIATION),
        examples=(Example((1.0, None, 2.0, 6.0), example, types=("DOUBLE",)),),
        keeps="120 bytes",
        cost=_O1,
        oracle=f"{name.lower()}({{x}})",
        aliases=aliases,
    )


def _pair(
    name: str,
    doc: str,
    state: tuple[Field, ...],
    value: str,
    empty: str | None,
    example: object,
    result: ResultType = double,
) -> Aggregate:
    return Aggregate(
        name,
        doc,
        arguments=_PAIR,
        result=result,
        append=Shape((COUNT, *state), value, empty, _LETS),
        examples=(Example(_POINTS, example, types=("DOUBLE", "DOUBLE")),),
        keeps=f"{8 + 56 * len(state)} bytes",
        cost=_O1,
        oracle=f"{name.lower()}({{y}}, {{x}})",
    )


_DEVIATION = (("deviation", "deviation(total, total, squares, count)"),)
_NO_SPREAD = "count == 0 or deviation == 0"

ENTRIES = (
    _spread("VAR_POP", "Population variance.", "deviation / count", NONE, 14.0 / 3),
    _spread(
        "VAR_SAMP",
        "Sample variance; NULL for fewer than two values.",
        "deviation / (count - 1)",
        "count < 2",
        7.0,
        ("VARIANCE",),
    ),
    _spread(
        "STDDEV_POP",
        "Population standard deviation.",
        "sqrt(deviation / count)",
        NONE,
        (14.0 / 3) ** 0.5,
    ),
    _spread(
        "STDDEV_SAMP",
        "Sample standard deviation; NULL for fewer than two values.",
        "sqrt(deviation / (count - 1))",
        "count < 2",
        7.0**0.5,
        ("STDDEV", "STD"),
    ),
    _spread(
        "SEM",
        "Standard error of the mean, as in DuckDB: the population standard deviation over the root of the count.",
        "sqrt(deviation / count / count)",
        NONE,
        (14.0 / 9) ** 0.5,
    ),
    Aggregate(
        "SKEWNESS",
        "Population skewness, as in Spark; NULL if all values are equal.",
        arguments=(NUMBER,),
        result=double,
        append=Shape(
            (COUNT, _TOTAL, _SQUARES, _CUBES),
            "skewness(total, squares, cubes, count)",
            _NO_SPREAD,
            _DEVIATION,
        ),
        examples=(Example((1.0, None, 1.0, 4.0), 2**-0.5, types=("DOUBLE",)),),
        keeps="176 bytes",
        cost=_O1,
    ),
    Aggregate(
        "KURTOSIS",
        "Excess population kurtosis, as in Spark; NULL if all values are equal.",
        arguments=(NUMBER,),
        result=double,
        append=Shape(
            (COUNT, _TOTAL, _SQUARES, _CUBES, _FOURTHS),
            "kurtosis(total, squares, cubes, fourths, count)",
            _NO_SPREAD,
            _DEVIATION,
        ),
        examples=(Example((1.0, None, 1.0, 4.0), -1.5, types=("DOUBLE",)),),
        keeps="232 bytes",
        cost=_O1,
        oracle="kurtosis_pop({x})",
    ),
    Aggregate(
        "PRODUCT",
        "Product of the live values, in ascending order so that arrival has no effect. NULL if there are none.",
        arguments=(NUMBER,),
        result=double,
        append=Shape((View("ordered", "real"),), "product(ordered)", "none(ordered)"),
        examples=(Example((3, None, 0, 4), 0.0), Example((3, -4), -12.0)),
        keeps="16 bytes per distinct value",
        cost="O(log n) per row, O(distinct values) per read",
        oracle="product({x})",
    ),
    _pair(
        "COVAR_POP",
        "Population covariance of the pairs without a NULL.",
        (_Y, _X, _XY),
        "sxy / count",
        NONE,
        26.0 / 9,
    ),
    _pair(
        "COVAR_SAMP",
        "Sample covariance; NULL for fewer than two pairs.",
        (_Y, _X, _XY),
        "sxy / (count - 1)",
        "count < 2",
        13.0 / 3,
    ),
    _pair(
        "CORR",
        "Pearson's correlation; NULL if all x or all y are equal.",
        (_Y, _X, _YY, _XX, _XY),
        "correlation(sxx, syy, sxy)",
        "count == 0 or sxx == 0 or syy == 0",
        0.9285714285714286,
    ),
    _pair(
        "REGR_COUNT",
        "The number of pairs without a NULL.",
        state=(),
        value="count",
        empty=None,
        example=3,
        result=bigint,
    ),
    _pair(
        "REGR_AVGX", "Mean of x over the pairs.", (_X,), "average(total_x, count)", NONE, 14.0 / 3
    ),
    _pair(
        "REGR_AVGY", "Mean of y over the pairs.", (_Y,), "average(total_y, count)", NONE, 8.0 / 3
    ),
    _pair("REGR_SXX", "Sum of squares of x about its mean.", (_X, _XX), "sxx", NONE, 56.0 / 3),
    _pair("REGR_SYY", "Sum of squares of y about its mean.", (_Y, _YY), "syy", NONE, 14.0 / 3),
    _pair(
        "REGR_SXY",
        "Sum of products of x and y about their means.",
        (_Y, _X, _XY),
        "sxy",
        NONE,
        26.0 / 3,
    ),
    _pair(
        "REGR_SLOPE",
        "Slope of the least-squares line; NULL if all x are equal.",
        (_Y, _X, _XX, _XY),
        "sxy / sxx",
        "count == 0 or sxx == 0",
        26.0 / 56,
    ),
    _pair(
        "REGR_INTERCEPT",
        "Value of the least-squares line at x = 0; NULL if all x are equal.",
        (_Y, _X, _XX, _XY),
        "average(total_y, count) - sxy / sxx * average(total_x, count)",
        "count == 0 or sxx == 0",
        0.5,
    ),
    _pair(
        "REGR_R2",
        "Coefficient of determination; 1 if all y are equal, NULL if all x are equal.",
        (_Y, _X, _YY, _XX, _XY),
        "1.0 if syy == 0 else correlation(sxx, syy, sxy) ** 2",
        "count == 0 or sxx == 0",
        0.8622448979591837,
    ),
)
