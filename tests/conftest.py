"""Shared fixtures: one Spark session in a process for all its tests that need one.

The helper modules beside the tests (`model`, `strategies`) are made importable. Hypothesis draws the same examples in
every run, so that a failure is the change's fault; `make soak` draws others.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

# A busy machine draws and compiles slowly, which is no fault of a test.
QUIET = [HealthCheck.too_slow]
settings.register_profile("same", derandomize=True, deadline=None, suppress_health_check=QUIET)
settings.register_profile("other", derandomize=False, deadline=None, suppress_health_check=QUIET)
settings.load_profile(os.environ.get("AGGLOOM_EXAMPLES", "same"))
# Constants of the modules that are loaded would be drawn, too: a tenth of the time went into reading generated handlers
# for them, and examples were others when other tests had run before.
providers._get_local_constants = lambda: providers._local_constants
HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE / "support"), str(HERE), str(HERE.parent / "docs"), str(HERE.parent)]

import kafka  # noqa: E402

# For the plainest processor of its kind code is compiled in three quarters of the time; here and in Spark's workers.
os.environ.setdefault("NUMBA_CPU_NAME", "generic")
# A JVM that lives for a minute gains nothing from its second compiler: without it, and with the collector that has no
# threads, queries on Spark took 41 seconds of processor time instead of 58.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
# Compiling makes objects by the million, which stay: 6 of 86 seconds went into looking through them again and again.
gc.set_threshold(50_000, 20, 100)

_WITH_BACKEND = (
    ("aggloom.runtime.local.harness", "Harness.__init__"),
    ("aggloom.runtime.local.harness", "Harness.from_sql"),
    ("aggloom.runtime.spark.api.query", "sql"),
    ("aggloom.runtime.spark.api.window_aggregate", "window_aggregate"),
    ("aggloom.local", "sql"),
)
"""Modules and their functions with a keyword `backend`, which is "numba" by default."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let a test drop rows without a warning, and skip tests of shortcuts where there are none.

    Many tests drop rows on purpose. A mark, unlike a setting, also holds where `-W error` is asked for; a test that has
    one of its own keeps it. With the switch of the platform off there are no shortcuts to test.
    """
    _mark_what_is_not_sampled(items)
    is_plain = os.environ.get("AGGLOOM_PLATFORM") == "plain"
    for item in items:
        if is_plain and item.get_closest_marker("shortcut"):
            item.add_marker(pytest.mark.skip(reason="a shortcut, which AGGLOOM_PLATFORM turns off"))
        if item.get_closest_marker("filterwarnings") is None:
            item.add_marker(pytest.mark.filterwarnings("ignore::aggloom.errors.DroppedRowsWarning"))


def _mark_what_is_not_sampled(items: list[pytest.Item]) -> None:
    """Mark the cases that `sampled(n)` leaves out as `thorough`: of each function n stay, at equal distances."""
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("sampled") is not None:
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for each in cases.values():
        mark = each[0].get_closest_marker("sampled")
        assert mark is not None
        (count,) = mark.args
        kept = {place * len(each) // count for place in range(count)}
        for place, item in enumerate(each):
            if place not in kept:
                item.add_marker(pytest.mark.thorough)


@pytest.fixture(scope="session", autouse=True)
def state_directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The directory of live state in this test run; set before any test can start Spark, whose workers inherit it."""
    root = tmp_path_factory.mktemp("state")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AGGLOOM_STATE_DIR", str(root))
        yield root


@pytest.fixture(autouse=True)
def _session_of_test(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give a test with the mark `spark` the shared session, and hide that session from all others.

    A command that starts Spark in this process would otherwise start it without the connector's jars, and the JVM
    keeps the jars with which it started.
    """
    if request.node.get_closest_marker("spark") is not None:
        request.getfixturevalue("spark")
        return
    loaded = sys.modules.get("pyspark.sql")
    if loaded is not None:
        monkeypatch.setattr(loaded.SparkSession, "getActiveSession", lambda: None)


@pytest.fixture(autouse=True)
def _backend_of_test(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give a test with the mark `interpreted` handlers of plain Python where it names no backend.

    Numba compiles a handler for seconds, for each query anew. That both backends do the same is tested without Spark.
    """
    if request.node.get_closest_marker("interpreted") is None:
        return
    for name, path in _WITH_BACKEND:
        # Without PySpark there is no such module, and no test that calls it.
        if ".spark." in name and "pyspark" not in sys.modules:
            continue
        function: Any = import_module(name)
        for part in path.split("."):
            function = getattr(function, part)
        function = getattr(function, "__func__", function)
        monkeypatch.setitem(function.__kwdefaults__, "backend", "python")


@contextmanager
def _keep_functions() -> Iterator[None]:
    """Forget what is registered inside of it: aggregates and table functions."""
    from aggloom.codegen.catalogue.registry import USER_DEFINED
    from aggloom.codegen.user.table_functions import _REGISTERED

    kept: list[tuple[dict[str, Any], dict[str, Any]]] = [
        (functions, dict(functions)) for functions in (USER_DEFINED, _REGISTERED)
    ]
    yield
    for functions, before in kept:
        functions.clear()
        functions.update(before)


@pytest.fixture(scope="module", autouse=True)
def _functions_of_file() -> Iterator[None]:
    """Forget the functions that a file registers: another file of the same process may use their names."""
    with _keep_functions():
        yield


@pytest.fixture
def registry() -> Iterator[None]:
    """Forget the functions that a test registers, after it."""
    with _keep_functions():
        yield


@pytest.fixture(scope="session")
def spark(state_directory: Path) -> Iterator[Any]:
    """A small local session; for a few rows, compiling a query to Java would take longer than running it."""
    from aggloom.runtime.spark import session

    made = session(
        "tests",
        master="local[2]",
        **{
            "spark.driver.memory": "1500m",
            "spark.sql.warehouse.dir": str(state_directory / "warehouse"),
            "spark.sql.streaming.stateStore.maintenanceInterval": "600s",
            "spark.sql.codegen.wholeStage": "false",
            "spark.sql.codegen.factoryMode": "NO_CODEGEN",
            **kafka.connector_settings(),
        },
    )
    yield made
    made.stop()


@pytest.fixture
def killed_after_writing(
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[[], AbstractContextManager[None]]:
    """A place in which a query ends with "killed" when its sink has a batch, and Spark's checkpoint does not."""
    from aggloom.runtime.spark.write.each_batch import EachBatch

    written = EachBatch.__call__

    def killed(self: EachBatch, batch: Any, number: int) -> None:
        written(self, batch, number)
        raise RuntimeError("killed")

    @contextmanager
    def place() -> Iterator[None]:
        with monkeypatch.context() as patch:
            patch.setattr(EachBatch, "__call__", killed)
            yield

    return place


@pytest.fixture(scope="session")
def broker() -> Iterator[kafka.Kafka]:
    """A broker of Kafka; tests have topics of their own."""
    with kafka.broker() as made:
        yield made
