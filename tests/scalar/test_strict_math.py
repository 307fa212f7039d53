"""Exponentials, logarithms, angles and their kin have Java's bits: here and now, and those written down of them."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from scalar_oracle import by_spark, lowered

ROWS = 6_000
EDGES = [
    *(0.0, -0.0, 1.0, -1.0, 2.0, 0.5, np.inf, -np.inf, np.nan, 5e-324, 2.2250738585072014e-308),
    *(1e-320, 1.7976931348623157e308, -1.7976931348623157e308, 22.0, 0.4375, 0.6875, 1.1875),
    *(2.4375, 709.782712893384, -745.1332191019411, 1024.0, -1075.0, 0.3465735902799727),
]
# Of all values of one function as Spark 4.3 on Java 17 has them.
DIGESTS = {
    "exp(x)": "ad4e1466bb5ff97a",
    "expm1(x)": "e23f54aa96db0213",
    "ln(x)": "22ecb1fc74087169",
    "log(y, x)": "749e099a2d09a010",
    "log2(x)": "c49e5b2b14a8b9ac",
    "log10(x)": "a489e8e9c5338b5d",
    "log1p(x)": "41db6ec7e8f3ac98",
    "power(x, y)": "165de0b460aa06c9",
    "power(y, 2.5D)": "abf9183231ef1c7d",
    "cbrt(x)": "49b6e7f1e692008e",
    "hypot(x, y)": "7167a0f12e1d3fe6",
    "sinh(x)": "2f1ba363ec2d2c19",
    "cosh(x)": "faa9f273ec7276ec",
    "tanh(x)": "40d179015c0a8282",
    "asinh(x)": "a4ddb2a96d224979",
    "acosh(x)": "fa4b6dde81f3f620",
    "atanh(x)": "97eba4dd9122b46f",
    "asin(x)": "5383a5de6302811e",
    "acos(x)": "ac1f9ed34ffb307a",
    "atan(x)": "9a597ba15a8a3c77",
    "atan2(y, x)": "15b33175b4799531",
}

# Of its StrictMath, for what Spark answers here is the processor's.
CIRCULAR = {
    "sin(x)": "4715f3f9050b1c69",
    "cos(x)": "ba74b49a1e7ea88b",
    "tan(x)": "241ad343b91c4f2b",
    "sin(y * 1000)": "b95e31358b60f4f0",
    "cot(x)": "33f53ba11a71a8a9",
    "csc(x)": "bd723e49f202055f",
    "sec(x)": "c0dcdf89e44961fc",
}


def bits(salt: int, rows: int = ROWS) -> NDArray[np.uint64]:
    """Random words, the same on every machine and with every NumPy."""
    word = np.arange(1, rows + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    word ^= np.uint64(salt * 0x2545F4914F6CDD1D % 2**64)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        word = (word ^ (word >> np.uint64(shift))) * np.uint64(factor)
    return word ^ (word >> np.uint64(31))


def doubles(salt: int) -> NDArray[np.float64]:
    """Any bits at all, numbers of every size that has an EXP, numbers within 1, whole ones, and edges."""
    word = bits(salt)
    unit = (word >> np.uint64(11)).astype(np.float64) * 2.0**-52 - 1.0
    kind = bits(salt + 1) % np.uint64(5)
    numbers = np.select(
        [kind == 0, kind == 1, kind == 2, kind == 3],
        [word.view(np.float64), unit * 800.0, unit, np.floor(unit * 50.0)],
        1.0 + unit * 2.0 ** -(bits(salt + 2) % np.uint64(52)).astype(np.float64),
    )
    edges = np.array(EDGES)
    places = bits(salt + 3) % np.uint64(10 * len(edges))
    return np.where(places < len(edges), edges[places % np.uint64(len(edges))], numbers)


def digest(values: pa.Array | pa.ChunkedArray) -> str:
    """The bits of all values; one for every NaN."""
    column = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    numbers = column.fill_null(-1.25).to_numpy(zero_copy_only=False)
    numbers = np.where(np.isnan(numbers), np.nan, numbers)
    valid = column.is_valid().to_numpy(zero_copy_only=False)
    return hashlib.sha256(numbers.tobytes() + valid.tobytes()).hexdigest()[:16]


BATCH = pa.record_batch({"x": doubles(1), "y": doubles(11)})


@pytest.mark.parametrize("sql", [*DIGESTS, *CIRCULAR])
def test_bits_are_those_of_java(sql: str) -> None:
    assert digest(lowered(sql, BATCH)) == (DIGESTS | CIRCULAR)[sql]


def test_multiples_of_a_right_angle_lose_no_digit() -> None:
    """Near them all digits of the first parts of pi/2 cancel; the sine is what is left, as Python knows pi."""
    angles = np.arange(1, 400) * (np.pi / 2)
    batch = pa.record_batch({"x": np.concatenate([angles, np.pi * 2.0 ** np.arange(1, 900)])})
    found = lowered("sin(x)", batch).to_numpy()
    assert np.allclose(found, np.sin(batch.column(0).to_numpy()), rtol=1e-15, atol=0)


@pytest.mark.spark
def test_bits_written_down_are_spark_s(spark: Any) -> None:
    table = by_spark(spark, list(DIGESTS), BATCH)
    assert {sql: digest(table.column(at)) for at, sql in enumerate(DIGESTS)} == DIGESTS


@pytest.mark.spark
def test_circular_bits_are_those_of_strict_math(spark: Any) -> None:
    names = {
        "sin(x)": ("sin", "x"),
        "cos(x)": ("cos", "x"),
        "tan(x)": ("tan", "x"),
        "sin(y * 1000)": ("sin", "y * 1000"),
    }
    asked = [
        f"CAST(java_method('java.lang.StrictMath', '{name}', {argument}) AS DOUBLE)"
        for name, argument in names.values()
    ]
    table = by_spark(spark, asked, BATCH)
    assert {sql: digest(table.column(at)) for at, sql in enumerate(names)} == {
        sql: CIRCULAR[sql] for sql in names
    }
