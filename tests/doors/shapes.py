"""Shapes of other writers through the doors: files of each in turn, some of which Spark reads as well."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from doors.column_shapes import directory_shape, marked_shape, nested_shape
from doors.csv_shapes import csv_shape, packed_shape, partition_shape
from doors.envelope_shapes import document_shape, envelope_shape, partial_shape
from doors.json_shapes import flat_shape, upsert_shape
from doors.shape import Shape, check_shape

SHAPES: tuple[Callable[[random.Random], Shape], ...] = (
    *(csv_shape, packed_shape, partition_shape),
    *(flat_shape, upsert_shape, envelope_shape, partial_shape, document_shape),
    *(marked_shape, nested_shape, directory_shape),
)
"""Makers of files of every kind."""
BY_SPARK = 3
"""Number of shapes of which Spark reads a file, too."""


def check_shapes(spark: Any, seed: str, examples: int, directory: Path, done: Counter[str]) -> None:
    """Check so many files of each shape in a harness, and a few by Spark unless it is None; raises AssertionError."""
    for make in SHAPES:
        for number in range(examples):
            _check(make, f"{seed} {make.__name__} {number}", directory, done, None)
    for make in (
        random.Random(f"{seed} by Spark").sample(SHAPES, BY_SPARK) if spark is not None else ()
    ):
        _check(make, f"{seed} {make.__name__} by Spark", directory, done, spark)


def _check(
    make: Callable[[random.Random], Shape],
    seed: str,
    directory: Path,
    done: Counter[str],
    spark: Any,
) -> None:
    place = directory / "shape"
    place.mkdir(parents=True)
    shape = make(random.Random(seed))
    try:
        check_shape(shape, place, done, spark if shape.by_spark else None)
    except AssertionError as error:
        raise AssertionError(seed, *error.args) from error
    shutil.rmtree(place)
