"""Lists, sets, texts, JSON, modes, medians and percentiles."""

from __future__ import annotations

from aggloom.codegen.catalogue.basic import NUMBER, ORDERED, SEQUENCE, X
from aggloom.codegen.catalogue.entry import Aggregate, Argument, Example, Option, Shape, View
from aggloom.codegen.catalogue.result_types import (
    array,
    discrete_percentile,
    double,
    first,
    histogram,
    items,
    multiset,
    percentile,
    text,
)

_ROWS = (
    "32 bytes per live value, and each distinct text once; "
    "with ORDER BY 16 bytes and the bytes of the row per distinct row"
)
_TREE = "16 bytes per distinct value, and each distinct text once"
_LISTED = "O(1) per row (O(log n) with ORDER BY), O(n) per read"
_SCANNED = "O(log n) per row, O(distinct values) per read"
_FRACTION = Option("fraction", "fractions", required=True)
_ON_NULL = Option("on_null", "choice", "absent", choices=("null", "absent"))
_RANKED = View("ranked", "real")
_K = Option("k", "whole", 5)


def _list(name: str, nulls: tuple[str, str], empty_in: tuple[str, ...], oracle: str) -> Aggregate:
    return Aggregate(
        name,
        "The values as an array, in order of arrival or by ORDER BY.",
        arguments=(X,),
        result=array,
        append=Shape((SEQUENCE,), "elements(sequence)", "none(sequence)"),
        examples=(
            Example((3, 1, 3), [3, 1, 3]),
            Example(((1, 5), (2, 9), (3, 1)), [3, 1, 2], types=("INT", "INT"), order_by=("y",)),
        ),
        keeps=_ROWS,
        cost=_LISTED,
        ordered=Shape((ORDERED,), "sorted_elements(ordered)", "none(ordered)"),
        nulls=nulls,
        returns="array",
        by_arrival=True,
        empty_in=empty_in,
        oracle=oracle,
    )


ENTRIES = (
    Aggregate(
        "LISTAGG",
        "The values as one text with separators, in order of arrival or by ORDER BY. NULL if there are none.",
        arguments=(Argument("x", "scalar"), Argument("separator", "scalar", optional=True)),
        result=text,
        append=Shape((SEQUENCE,), "elements(sequence)", "none(sequence)"),
        examples=(
            Example(("b", None, "a"), "b,a", (("separator", ","),), ("STRING",)),
            Example((("b", 2), ("a", 1)), "a-b", (("separator", "-"),), ("STRING", "INT"), ("y",)),
        ),
        keeps=_ROWS,
        cost=_LISTED,
        options=(Option("separator", "text", "", flink=",", column=True),),
        ordered=Shape((ORDERED,), "sorted_elements(ordered)", "none(ordered)"),
        returns="join",
        by_arrival=True,
        oracle="string_agg({x}, '{separator}')",
        aliases=("STRING_AGG", "GROUP_CONCAT"),
        skips=("x",),
        positions=("x", "separator"),
    ),
    _list(
        "ARRAY_AGG", ("ignore", "respect"), ("flink",), "list({x}) FILTER (WHERE {x} IS NOT NULL)"
    ),
    _list(
        "COLLECT_LIST",
        ("ignore", "ignore"),
        (),
        "coalesce(list({x}) FILTER (WHERE {x} IS NOT NULL), [])",
    ),
    Aggregate(
        "COLLECT_SET",
        "The distinct values as an array, in ascending order.",
        arguments=(X,),
        result=array,
        append=Shape((ORDERED,), "distinct_elements(ordered)"),
        examples=(Example((3, 1, None, 3), [1, 3]),),
        keeps=_TREE,
        cost=_SCANNED,
        returns="array",
        ignores_distinct=True,
        oracle="coalesce(list_sort(list(DISTINCT {x}) FILTER (WHERE {x} IS NOT NULL)), [])",
    ),
    Aggregate(
        "COLLECT",
        "The values as a multiset: a map from each value to its count.",
        arguments=(X,),
        result=multiset,
        append=Shape((ORDERED,), "counted_elements(ordered)"),
        examples=(Example((3, 1, None, 3), [(1, 1), (3, 2)]),),
        keeps=_TREE,
        cost=_SCANNED,
        returns="map",
    ),
    Aggregate(
        "HISTOGRAM",
        "A map from each value to its count. NULL if there are no values.",
        arguments=(X,),
        result=histogram,
        append=Shape((ORDERED,), "counted_elements(ordered)", "none(ordered)"),
        examples=(Example((3, 1, None, 3), [(1, 1), (3, 2)]),),
        keeps=_TREE,
        cost=_SCANNED,
        returns="map",
        oracle="histogram({x})",
    ),
    Aggregate(
        "TOP_K",
        "The k most frequent values and their counts, the most frequent first. Ties: the smaller value first.",
        arguments=(X,),
        result=items,
        append=Shape((ORDERED,), "top_elements(ordered, k)"),
        examples=(
            Example((3, 1, 3, 2), [{"item": 3, "count": 2}, {"item": 1, "count": 1}], (("k", 2),)),
        ),
        keeps=_TREE,
        cost=_SCANNED,
        options=(_K,),
        returns="items",
    ),
    Aggregate(
        "APPROX_TOP_K",
        "The same as TOP_K, and exact. max_items, which bounds the sketch in Spark, is accepted and has no effect.",
        arguments=(X,),
        result=items,
        append=Shape((ORDERED,), "top_elements(ordered, k)"),
        examples=(
            Example((3, 1, 3, 2), [{"item": 3, "count": 2}, {"item": 1, "count": 1}], (("k", 2),)),
        ),
        keeps=_TREE,
        cost=_SCANNED,
        options=(_K, Option("max_items", "whole", 10000)),
        returns="items",
    ),
    Aggregate(
        "MODE",
        "The most frequent value. If several are equally frequent, the smallest of them.",
        arguments=(X,),
        result=first,
        append=Shape((ORDERED,), "mode(ordered)"),
        examples=(Example((4, 3, None, 3, 4), 3),),
        keeps=_TREE,
        cost=_SCANNED,
    ),
    Aggregate(
        "MEDIAN",
        "The middle one of the sorted values, or the mean of the two in the middle.",
        arguments=(NUMBER,),
        result=double,
        append=Shape((_RANKED,), "percentile(ranked, 0.5)", "none(ranked)"),
        examples=(Example((4, 3, None, 8, 9), 6.0),),
        keeps="24 bytes per distinct value",
        cost="O(log n) a row and a read",
        oracle="median({x}::DOUBLE)",
    ),
    Aggregate(
        "PERCENTILE",
        "The value at a fraction of the sorted values, interpolated. A frequency says how many times its value counts.",
        arguments=(NUMBER, Argument("frequency", "integer", optional=True)),
        result=percentile,
        append=Shape((_RANKED,), "percentile(ranked, fraction)", "none(ranked)"),
        examples=(
            Example((4, 3, None, 8, 9), 3.75, (("fraction", 0.25),)),
            Example(((4, 3), (8, 1), (9, 0)), 4.0, (("fraction", 0.5),), ("INT", "INT")),
            Example((4, 3), [3.0, 3.5], (("fraction", (0.0, 0.5)),)),
        ),
        keeps="24 bytes per distinct value",
        cost="O(log n) a row and a read",
        options=(_FRACTION,),
        oracle="quantile_cont({x}::DOUBLE, {fraction})",
        positions=("x", "fraction", "frequency"),
    ),
    Aggregate(
        "PERCENTILE_CONT",
        "The value at a fraction of the sorted values, interpolated.",
        arguments=(NUMBER,),
        result=percentile,
        append=Shape((_RANKED,), "percentile(ranked, fraction)", "none(ranked)"),
        examples=(Example((4, 3, None, 8, 9), 3.75, (("fraction", 0.25),)),),
        keeps="24 bytes per distinct value",
        cost="O(log n) a row and a read",
        options=(_FRACTION,),
        oracle="quantile_cont({x}::DOUBLE, {fraction})",
    ),
    Aggregate(
        "PERCENTILE_DISC",
        "The first of the sorted values at which the fraction of them is reached.",
        arguments=(X,),
        result=discrete_percentile,
        append=Shape(
            (View("ranked", "rank"),), "discrete_percentile(ranked, fraction)", "none(ranked)"
        ),
        examples=(
            Example((4, 3, None, 8, 9), 4.0, (("fraction", 0.5),)),
            Example(("b", "a"), "b", (("fraction", 0.51),), ("STRING",)),
        ),
        keeps="24 bytes per distinct value, and each distinct text once",
        cost="O(log n) a row and a read",
        options=(_FRACTION,),
        oracle="quantile_disc({x}, {fraction})",
    ),
    Aggregate(
        "JSON_ARRAYAGG",
        "The values as a JSON array, in order of arrival or by ORDER BY.",
        arguments=(X,),
        result=text,
        append=Shape((SEQUENCE,), "elements(sequence)"),
        examples=(Example(("b", None, "a"), '["b","a"]', types=("STRING",)),),
        keeps=_ROWS,
        cost=_LISTED,
        options=(_ON_NULL,),
        ordered=Shape((ORDERED,), "sorted_elements(ordered)"),
        returns="json_array",
        by_arrival=True,
    ),
    Aggregate(
        "JSON_OBJECTAGG",
        "Keys and values as a JSON object, in order of arrival. If a key occurs twice, its last value counts.",
        arguments=(Argument("key", "scalar"), Argument("value")),
        result=text,
        append=Shape((SEQUENCE,), "elements(sequence)"),
        examples=(Example((("a", 1), ("b", None)), '{"a":1,"b":null}', types=("STRING", "INT")),),
        keeps="32 bytes and the bytes of the row per live row",
        cost="O(1) per row, O(n) per read",
        options=(Option("on_null", "choice", "null", choices=("null", "absent")),),
        row=("key", "value"),
        skips=("key",),
        returns="json_object",
        by_arrival=True,
    ),
)
