"""Approximate functions: bounded state instead of exact answers."""

from __future__ import annotations

from aggloom.codegen.catalogue.basic import NUMBER, X
from aggloom.codegen.catalogue.entry import Aggregate, Example, Option, Shape, View
from aggloom.codegen.catalogue.result_types import bigint, percentile, sketched_percentile

_FRACTION = Option("fraction", "fractions", required=True)

ENTRIES = (
    Aggregate(
        "APPROX_COUNT_DISTINCT",
        "About how many distinct values there are: HyperLogLog with the given relative standard error.",
        arguments=(X,),
        result=bigint,
        append=Shape((View("hyperloglog"),), "estimate(hyperloglog)"),
        examples=(Example((3, None, 4, 3), 2),),
        keeps="(1.04 / error)**2 bytes, up to the next power of two: 512 for 0.05",
        cost="O(1) a row, O(registers) a read",
        options=(Option("error", "fraction", 0.05),),
        ignores_distinct=True,
        instead="COUNT(DISTINCT ...)",
        aliases=("APPROX_DISTINCT",),
    ),
    Aggregate(
        "APPROX_PERCENTILE",
        "A value whose rank is within 1 / accuracy of the fraction: a Greenwald-Khanna summary.",
        arguments=(NUMBER,),
        result=sketched_percentile,
        append=Shape(
            (View("quantiles"),), "summary_percentile(quantiles, fraction)", "none(quantiles)"
        ),
        examples=(Example((4, 3, None, 8, 9), 4, (("fraction", 0.5),)),),
        keeps="100 to 400 bytes an entry, fewer than 2 * accuracy of them (few while there are few values)",
        cost="O(log n) a row, O(entries) a read",
        options=(_FRACTION, Option("accuracy", "whole", 10000)),
        by_arrival=True,
        instead="PERCENTILE, or LOG_PERCENTILE for bounded state",
        aliases=("PERCENTILE_APPROX",),
    ),
    Aggregate(
        "LOG_PERCENTILE",
        "A value within a relative error of the percentile: a histogram of logarithmic bins, which rows can leave.",
        arguments=(NUMBER,),
        result=percentile,
        append=Shape(
            (View("ddsketch", "real"),), "binned_percentile(ddsketch, fraction)", "none(ddsketch)"
        ),
        examples=(Example((100, None), 100.49456770856703, (("fraction", 0.5),)),),
        keeps="24 bytes a bin that is in use: at most 2,100 at error 0.01 for values from 1e-9 to 1e9",
        cost="O(log bins) a row and a read",
        options=(_FRACTION, Option("error", "fraction", 0.01)),
    ),
)
