"""Result types of aggregate functions: one function for each rule, by argument types, dialect and options."""

from __future__ import annotations

import pyarrow as pa

from aggloom.codegen.catalogue.entry import Options, Types


def bigint(types: Types, dialect: str, options: Options) -> pa.DataType:
    """BIGINT."""
    return pa.int64()


def double(types: Types, dialect: str, options: Options) -> pa.DataType:
    """DOUBLE."""
    return pa.float64()


def boolean(types: Types, dialect: str, options: Options) -> pa.DataType:
    """BOOLEAN."""
    return pa.bool_()


def text(types: Types, dialect: str, options: Options) -> pa.DataType:
    """STRING."""
    return pa.string()


def first(types: Types, dialect: str, options: Options) -> pa.DataType:
    """The type of the first argument."""
    return types[0]


def sum_type(types: Types, dialect: str, options: Options) -> pa.DataType:
    """Spark: BIGINT, DOUBLE, DECIMAL(p + 10, s). Flink: the argument's own type, DECIMAL(38, s)."""
    argument = types[0]
    if pa.types.is_decimal(argument):
        # Spark: room for ten thousand million rows of the largest value.
        precision = 38 if dialect == "flink" else min(38, argument.precision + 10)
        return pa.decimal128(precision, argument.scale)
    if dialect == "flink":
        return argument
    return pa.float64() if pa.types.is_floating(argument) else pa.int64()


def average(types: Types, dialect: str, options: Options) -> pa.DataType:
    """Spark: DOUBLE, DECIMAL(p + 4, s + 4). Flink: the argument's own type, DECIMAL(38, max(6, s))."""
    argument = types[0]
    if pa.types.is_decimal(argument):
        if dialect == "flink":
            return pa.decimal128(38, max(6, argument.scale))
        return pa.decimal128(min(38, argument.precision + 4), min(38, argument.scale + 4))
    return argument if dialect == "flink" else pa.float64()


def spread(types: Types, dialect: str, options: Options) -> pa.DataType:
    """Return the type of variances and deviations. Spark: DOUBLE. Flink: as AVG."""
    return average(types, dialect, options) if dialect == "flink" else pa.float64()


def percentile(types: Types, dialect: str, options: Options) -> pa.DataType:
    """DOUBLE, or an ARRAY of them for several fractions."""
    several = isinstance(options.get("fraction"), tuple)
    return pa.list_(pa.float64()) if several else pa.float64()


def discrete_percentile(types: Types, dialect: str, options: Options) -> pa.DataType:
    """DOUBLE of numbers, as in Spark; the argument's type of others; an ARRAY for several fractions."""
    argument = types[0]
    numeric = is_number(argument)
    one = pa.float64() if numeric else argument
    return pa.list_(one) if isinstance(options.get("fraction"), tuple) else one


def sketched_percentile(types: Types, dialect: str, options: Options) -> pa.DataType:
    """The argument's type, as in Spark, or an ARRAY of it for several fractions."""
    return pa.list_(types[0]) if isinstance(options.get("fraction"), tuple) else types[0]


def array(types: Types, dialect: str, options: Options) -> pa.DataType:
    """ARRAY of the argument's type."""
    return pa.list_(types[0])


def multiset(types: Types, dialect: str, options: Options) -> pa.DataType:
    """MULTISET of the argument's type: MAP of it to INT."""
    return pa.map_(types[0], pa.int32())


def histogram(types: Types, dialect: str, options: Options) -> pa.DataType:
    """MAP of the argument's type to BIGINT."""
    return pa.map_(types[0], pa.int64())


def items(types: Types, dialect: str, options: Options) -> pa.DataType:
    """ARRAY<STRUCT<item, count BIGINT>>, as in Spark."""
    return pa.list_(pa.struct([("item", types[0]), ("count", pa.int64())]))


def is_number(dtype: pa.DataType) -> bool:
    """Tell whether a type can be summed."""
    return bool(
        pa.types.is_integer(dtype) or pa.types.is_floating(dtype) or pa.types.is_decimal(dtype)
    )


def widens(source: pa.DataType, target: pa.DataType) -> bool:
    """Tell whether every value of a type is one of the wanted type too: the same, or a narrower number."""
    if pa.types.is_decimal(source) and pa.types.is_decimal(target):
        # Digits on both sides of the point have to fit, not their sum.
        whole = target.precision - target.scale
        return bool(source.scale <= target.scale and source.precision - source.scale <= whole)
    if pa.types.is_integer(source) and pa.types.is_integer(target):
        return bool(source.bit_width <= target.bit_width)
    # A BIGINT beyond 2**53 is rounded, as every cast to DOUBLE does in SQL.
    if target == pa.float64():
        return bool(pa.types.is_integer(source) or pa.types.is_floating(source))
    return bool(source == target)
