"""Approximate functions: bounded state instead of exact answers."""

from __future__ import annotations

from aggloom.codegen.catalogue.basic import NUMBER, X
from aggloom.codegen.catalogue.entry import Aggregate, Example, Option, Shape, View
from aggloom.codegen.catalogue.result_types import bigint, percentile, sketched_percentile

_FRACTION = Option("fraction", "fractions", required=True)

ENTRIES = (
    Aggregate(
        "APPROX_COUNT_DISTINCT",
        "The approximate number of distinct values, by HyperLogLog with the given relative standard error.",
        arguments=(X,),
        result=bigint,
        append=Shape((View("hyperloglog"),), "estimate(hyperloglog)"),
        examples=(Example((3, None, 4, 3), 2),),
        keeps="(1.04 / error)**2 bytes, rounded up to a power of two: 512 for 0.05",
        cost="O(1) per row, O(registers) per read",
        options=(Option("error", "fraction", 0.05),),
        ignores_distinct=True,
        instead="COUNT(DISTINCT ...)",
        aliases=("APPROX_DISTINCT",),
    ),
    Aggregate(
        "APPROX_PERCENTILE",
        "A value whose rank is within 1 / accuracy of the fraction, by a Greenwald-Khanna summary.",
        arguments=(NUMBER,),
        result=sketched_percentile,
        append=Shape(
            (View("quantiles"),), "summary_percentile(quantiles, fraction)", "none(quantiles)"
        ),
        examples=(Example((4, 3, None, 8, 9), 4, (("fraction", 0.5),)),),
        keeps="100 to 400 bytes per entry; fewer than 2 * accuracy entries, and few while there are few values",
        cost="O(log n) per row, O(entries) per read",
        options=(_FRACTION, Option("accuracy", "whole", 10000)),
        by_arrival=True,
        instead="PERCENTILE, or LOG_PERCENTILE for bounded state",
        aliases=("PERCENTILE_APPROX",),
    ),
    Aggregate(
        "LOG_PERCENTILE",
        "A value within a relative error of the percentile, by a histogram with logarithmic bins. It can retract.",
        arguments=(NUMBER,),
        result=percentile,
        append=Shape(
            (View("ddsketch", "real"),), "binned_percentile(ddsketch, fraction)", "none(ddsketch)"
        ),
        examples=(Example((100, None), 100.49456770856703, (("fraction", 0.5),)),),
        keeps="24 bytes per bin in use; at most 2,100 bins at error 0.01 for values from 1e-9 to 1e9",
        cost="O(log bins) per row and per read",
        options=(_FRACTION, Option("error", "fraction", 0.01)),
    ),
)
