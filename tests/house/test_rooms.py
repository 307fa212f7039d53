"""Which folder may import what: the layers of ARCHITECTURE.md, held by reading imports."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
COMPILER = {"pyarrow", "numpy", "jinja2", "black", "sqlglot", "yaml", "click", "rich"}
KERNEL = {"numpy", "numba", "pyarrow"}
SHARED = {
    "aggloom.active_session",
    "aggloom.checkpoint_file",
    "aggloom.durable_files",
    "aggloom.errors",
    "aggloom.masking",
    "aggloom.type_layout",
    "aggloom.private_directory",
    "aggloom.display",
    "aggloom.platform_switch",
    "aggloom.garbage_pause",
    "aggloom.on_demand",
    "aggloom.writable",
}
CODEGEN = {"aggloom.codegen!", "aggloom.codegen.planner!", "aggloom.codegen.windows!"}
PLANS = KERNEL | SHARED | CODEGEN
"""Rooms that a folder of runtime may import if it reads specs or plans."""
VARIANTS = {"aggloom.runtime.scalar.variant_columns"}
"""The room that those may import in which VARIANTs come in or leave."""
HOST = {"pyspark", "py4j", "pandas", "google", "rich", "click"}

VALUES = ("storage", "arithmetic", "values")
HANDLERS = (*VALUES, "views", "handlers")
OPERATORS = ("plain", "state", "operators")


OPERATORS_BY_NAME = {
    *("AggregateNode", "GroupAggregate", "LocalAggregate", "LocalWindowAggregate"),
    *("IncrementalAggregate", "WindowTable", "WindowAssign", "WindowAggregate", "Deduplicate"),
    *("GroupAggOperator", "GroupAggSpec", "LocalAggregator", "DeduplicateOperator"),
    *("MultiJoin", "MultiJoinOperator", "MultiJoinSpec"),
    *("Over", "OverOperator", "OverOnceOperator", "OverSpec"),
    *("Rank", "RankOperator", "RankSpec", "Join", "JoinOperator", "JoinSpec"),
    *("MatchRows", "MatchOperator", "MatchSpec"),
    *("AsOfJoin", "AsOfOperator", "NearestOperator", "TemporalOperator", "AsOfSpec"),
    *("Dimension", "Lookup", "LookupJoin", "MaterialisedLookup", "LookupOperator", "LookupSpec"),
    *("DeduplicateSpec", "WindowOperator", "WindowSettings", "SlicingWindowOperator"),
    *("SessionWindowOperator", "GeneralWindowOperator"),
    *("CurrentJoin", "CurrentJoinOperator", "CurrentJoinSpec"),
    *("TimedJoin", "TimedJoinOperator", "TimedJoinSpec"),
    *("IntervalJoinOperator", "WindowJoinOperator"),
}
STEPS = {"WindowAssign", "WindowTable"}
FACE = "aggloom.codegen.planner"


def _in(tower: str, *rooms: str) -> set[str]:
    """The rooms of codegen or of runtime, as rules."""
    return {f"aggloom.{tower}.{room}" for room in rooms}


# A folder's row: what it may import besides the standard library; "aggloom.x" admits aggloom.x and
# what is below it, "aggloom.x!" only the package's own public face.
ROOMS: dict[str, set[str]] = {
    "codegen": COMPILER | SHARED | {"aggloom.codegen"},
    **{
        f"codegen/{room}": COMPILER | SHARED | {"aggloom.codegen"}
        for room in (
            *("catalogue", "handler", "match", "operators", "planner", "scalar"),
            *("planner/builders", "planner/rules", "planner/scripts", "spec", "sql", "user"),
        )
    },
    "codegen/views": {"pyarrow"} | _in("codegen", "views"),
    "codegen/windows": COMPILER | SHARED | _in("codegen", "spec", "windows"),
    "runtime": KERNEL,
    "runtime/storage": KERNEL | SHARED | _in("runtime", "storage", "platform.kernels"),
    "runtime/arithmetic": KERNEL | _in("runtime", "storage", "arithmetic"),
    "runtime/values": KERNEL | SHARED | _in("runtime", *VALUES),
    "runtime/views": KERNEL | _in("runtime", *VALUES, "views"),
    "runtime/state": KERNEL | SHARED | _in("runtime", *VALUES, "state"),
    "runtime/scalar": KERNEL | SHARED | _in("runtime", *VALUES, "scalar"),
    "runtime/handlers": PLANS | VARIANTS | _in("runtime", *VALUES, "views", "handlers"),
    "runtime/plain": PLANS | _in("runtime", *HANDLERS, "plain"),
    "runtime/operators": PLANS | _in("runtime", *HANDLERS, *OPERATORS),
    **{
        f"runtime/operators/{room}": PLANS | _in("runtime", *VALUES, "state", "operators")
        for room in (
            *("as_of", "deduplicate", "join", "match", "multi_join", "over", "rank"),
            *("temporal_filter", "windows"),
        )
    },
    "runtime/avro": KERNEL | SHARED | {"fastavro"} | _in("runtime", "avro"),
    "runtime/formats": PLANS | VARIANTS | _in("runtime", *VALUES, "avro", "formats"),
    "runtime/local": PLANS
    | VARIANTS
    | _in("runtime", *HANDLERS, "formats", "connectors.files", "operators", "local"),
    # Of formats it needs the cutting of times alone, of connectors those that it asks.
    "runtime/lookup": PLANS
    | _in("runtime", "values", "formats.time_digits", "lookup")
    | _in("runtime", "connectors.database.lookup", "connectors.files.lookup"),
    "runtime/operators/lookup": PLANS | _in("runtime", *VALUES, "state", "lookup", "operators"),
    "runtime/platform": SHARED
    | HOST
    | {"pyarrow", "aggloom.codegen!"}
    | _in("runtime", "platform"),
    "runtime/platform/kernels": {"numba", "llvmlite", "numpy", "aggloom.interpreted_start"}
    | SHARED
    | _in("runtime", "platform.kernels"),
    "runtime/sinks": KERNEL | SHARED | _in("runtime", *VALUES, "avro", "sinks"),
    "runtime/lakes": KERNEL | SHARED | _in("runtime", *VALUES, "sinks", "lakes"),
    "runtime/connectors": KERNEL
    | SHARED
    | _in("runtime", "values", "connectors")
    | {"aggloom.codegen.planner!"},
    "runtime/connectors/database": PLANS
    | VARIANTS
    | _in("runtime", "values", "lookup", "sinks", "connectors.database"),
    "runtime/connectors/delta": KERNEL
    | SHARED
    | _in("runtime", *VALUES, "lakes", "sinks", "connectors.source_options", "connectors.delta"),
    "runtime/connectors/datagen": PLANS | _in("runtime", "connectors.datagen"),
    "runtime/connectors/printing": KERNEL
    | SHARED
    | _in("runtime", "values", "sinks", "connectors.printing"),
    "runtime/connectors/files": PLANS
    | _in(
        "runtime",
        *VALUES,
        "formats",
        "lookup",
        "connectors.files",
        "hosting.arguments",
        "hosting.checkpoint_paths",
        "sinks",
    ),
    "runtime/connectors/iceberg": KERNEL
    | SHARED
    | _in("runtime", *VALUES, "lakes", "sinks", "connectors.source_options", "connectors.iceberg"),
    "runtime/connectors/kafka": KERNEL
    | SHARED
    | _in(
        "runtime",
        *VALUES,
        "avro",
        "formats",
        "sinks",
        "connectors.source_options",
        "connectors.kafka",
        "hosting.checkpoint_paths",
    ),
    "runtime/connectors/kafka/transactions": KERNEL
    | SHARED
    | _in("runtime", "avro", "formats", "connectors.kafka"),
    "runtime/sizing": PLANS | _in("runtime", *VALUES, "operators", "local", "sizing"),
    "runtime/hosting": PLANS | _in("runtime", *HANDLERS, "operators", "hosting"),
    "runtime/engine": PLANS
    | VARIANTS
    | _in("runtime", *HANDLERS, "operators", "hosting", "local", "formats", "lakes", "lookup")
    | _in("runtime", "connectors", "inspection", "engine"),
    # Of engines it needs the readers of their checkpoints.
    "runtime/inspection": PLANS
    | {"rich"}
    | _in("runtime", *HANDLERS, "operators", "hosting", "inspection")
    | _in("runtime", "engine.state_reader", "spark.watch.state_reader"),
    "runtime/asking": KERNEL
    | SHARED
    | {"sqlglot", "duckdb", "google"}
    | _in("runtime", "inspection", "connectors.files.table_file", "hosting", "asking"),
    "runtime/page": PLANS
    | {"jinja2", "markupsafe", "prometheus_client"}
    | _in("runtime", "inspection", "local", "spark", "page", "hosting", "engine", "values")
    | _in("runtime", "connectors.files.table_file"),
    **{
        f"runtime/spark{room}": PLANS | HOST | {"aggloom.runtime"}
        for room in (
            "",
            "/api",
            "/moving",
            "/node",
            "/plan",
            "/read",
            "/sessions",
            "/watch",
            "/write",
        )
    },
    "generated": KERNEL | {"aggloom.runtime"},
    "aggloom": {"click", "pyarrow", "rich", "yaml", "aggloom"},
    "aggloom/forget": {"pyarrow", "aggloom"},
    "aggloom/project": {"aggloom.errors", "aggloom.sample"},
    "aggloom/sample": {"aggloom.errors"},
    "aggloom/testing": {"click", "pyarrow", "yaml", "aggloom"},
}
# Tools beside the runtime: the harness asks Spark to evaluate expressions if it is given a session.
# The probe compiles users' functions at plan time, to know whether they can be.
TOOLS = {
    "runtime/connectors/delta/sink.py": {"deltalake"},
    "runtime/connectors/delta/table.py": {"deltalake"},
    "runtime/connectors/iceberg/changes.py": {"pyiceberg"},
    "runtime/connectors/iceberg/sink.py": {"pyiceberg"},
    "runtime/connectors/iceberg/table.py": {"pyiceberg"},
    "runtime/connectors/kafka/broker.py": {"confluent_kafka"},
    "runtime/connectors/kafka/clients.py": {"confluent_kafka"},
    "runtime/connectors/kafka/sink.py": {"confluent_kafka"},
    # Files of connectors that read and write by Spark.
    **{
        f"runtime/connectors/{name}.py": {
            "pyspark",
            "py4j",
            "aggloom.runtime.spark",
            "aggloom.codegen!",
        }
        for name in (
            *("delta/source", "iceberg/source"),
            *("files/frames", "files/paths", "files/sink", "files/source", "files/source_log"),
            *("kafka/source", "kafka/spark_package", "kafka/topics"),
        )
    },
    "codegen/user/probe.py": {"numba"},
    "runtime/local/pipeline.py": {"aggloom.runtime.spark"},
    "runtime/local/plan_driver.py": {"pandas"},
    "runtime/local/table.py": {"pandas"},
}


def imports(tree: ast.AST) -> list[str]:
    """List the modules that a parsed file imports, in full, wherever the statement stands."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            found.append("." * node.level + (node.module or ""))
    return found


def forbidden(module: str, allowed: set[str]) -> bool:
    """Say whether a folder with these permissions may not import the module."""
    top = module.split(".")[0]
    if top in sys.stdlib_module_names:
        return False
    if top != "aggloom":
        return top not in allowed
    return not any(
        module == rule.rstrip("!") or (module + ".").startswith(rule + ".") for rule in allowed
    )


def trespasses(source: str, room: str, extra: Iterable[str] = ()) -> list[str]:
    """Name the imports of a source text that its folder may not have."""
    found = set(imports(ast.parse(source)))
    allowed = ROOMS[room] | set(extra)
    beyond = {module for module in found if forbidden(module, allowed)}
    if room == "runtime" and "aggloom.runtime.spark" not in allowed:
        beyond |= {module for module in found if module.startswith("aggloom.runtime.spark")}
    return sorted(beyond)


def files(room: str) -> list[Path]:
    """List a folder's own modules, not those of the folders in it."""
    return sorted((ROOT / room).glob("*.py"))


@pytest.mark.parametrize("room", ROOMS)
def test_folder_imports_only_what_it_may(room: str) -> None:
    for path in files(room):
        name = path.relative_to(ROOT).as_posix()
        assert trespasses(path.read_text(), room, TOOLS.get(name, ())) == [], name


@pytest.mark.parametrize(
    ("room", "source"),
    [
        ("codegen", "import numba"),
        ("codegen", "from aggloom.runtime.storage.arena import Arena"),
        ("codegen", "def late():\n    import pyspark"),
        ("runtime", "import pyspark.sql"),
        ("runtime", "import jinja2"),
        ("runtime", "from aggloom.codegen.handler.plan import plan_of"),
        ("runtime", "import aggloom"),
        ("runtime", "from aggloom.runtime.spark import session"),
        ("runtime", "from . import arena"),
        ("runtime/spark", "from aggloom.codegen.spec.agg_spec import AggSpec"),
        ("generated", "from aggloom.codegen import AggSpec"),
        ("generated", "import pandas"),
    ],
)
def test_a_trespass_is_seen(room: str, source: str) -> None:
    assert trespasses(source, room)


def test_the_rules_admit_what_the_layers_need() -> None:
    assert trespasses("from aggloom.codegen import AggSpec, load", "runtime/local") == []
    assert (
        trespasses("import math\nfrom aggloom.runtime.storage.arena import Arena", "generated")
        == []
    )


@pytest.mark.parametrize("folder", ["codegen/planner", "runtime/spark", "tests"])
def test_a_large_folder_has_rooms(folder: str) -> None:
    """The first look at a folder shows at most a dozen files."""
    assert len(list((ROOT / folder).glob("*.py"))) <= 12


def test_no_room_lists_a_folder_that_is_not_there() -> None:
    assert all(files(room) for room in ROOMS)
    towers = [path for tower in ("codegen", "runtime") for path in (ROOT / tower).rglob("*.py")]
    packages = {path.parent.relative_to(ROOT).as_posix() for path in towers}
    assert packages <= set(ROOMS), "a new folder needs a row in ROOMS and in pyproject.toml"


def test_the_layers_of_the_page_are_all_of_them() -> None:
    layers = (ROOT / "ARCHITECTURE.md").read_text().partition("## Layers")[2]
    tops = {room for room in ROOMS if room.count("/") == 1}
    assert {room for room in tops if f"{room.partition('/')[2]}/`" not in layers} == set()


def test_templates_carry_no_whitespace_marks() -> None:
    templates = sorted((ROOT / "templates").glob("*.j2"))
    assert templates
    for path in templates:
        text = path.read_text()
        marks = [mark for mark in ("{%-", "-%}", "{{-", "-}}", "{#-", "-#}") if mark in text]
        assert marks == [], f"{path.name}: trim_blocks and lstrip_blocks make marks unnecessary"


# What a rule is about it names; so do front doors, and what draws windows. Accumulators on their way over an exchange
# are made by a LocalAggregator, which is no operator: it remembers nothing.
NAMED = {
    "codegen/planner/__init__.py": {
        *("Lookup", "LookupJoin", "MaterialisedLookup"),
        *("GroupAggregate", "LocalAggregate", "IncrementalAggregate"),
        *("WindowAggregate", "Deduplicate", "Join", "AsOfJoin", "MultiJoin", "Over", "Rank"),
        *("MatchRows", "TimedJoin", *STEPS),
    },
    "codegen/planner/builders/as_of.py": {"AsOfJoin", "CurrentJoin"},
    "codegen/planner/builders/versions.py": {"Deduplicate"},
    "codegen/planner/builders/hints.py": {"AggregateNode"},
    "codegen/planner/rules/logged_changes.py": {"WindowTable"},
    "codegen/planner/rules/incremental.py": {
        "GroupAggregate",
        "IncrementalAggregate",
        "LocalAggregate",
    },
    "codegen/planner/rules/join_state.py": {"Join", "MultiJoin"},
    "codegen/planner/builders/join_tree.py": {"Join"},
    "codegen/planner/rules/multi_join.py": {"Join", "MultiJoin"},
    "codegen/planner/builders/logical.py": {"AggregateNode"},
    "codegen/planner/builders/lookup_join.py": {"Dimension", "LookupJoin"},
    "codegen/planner/builders/spec_plan.py": {"AggregateNode"},
    "codegen/planner/rules/lift_projections.py": {"Join"},
    "codegen/planner/rules/monotonic_extremes.py": {"AggregateNode"},
    "codegen/planner/builders/match.py": {"MatchRows"},
    "codegen/planner/builders/over_window.py": {"Over"},
    "codegen/planner/plan.py": {"WindowAggregate"},
    "codegen/planner/rules/rank_strategy.py": {"Rank"},
    "codegen/planner/rules/spread_joins.py": {"AggregateNode", "Join"},
    "codegen/planner/rules/split_distinct.py": {"AggregateNode", "WindowAggregate"},
    "codegen/planner/rules/timed_joins.py": {"Join", "TimedJoin"},
    "codegen/planner/rules/session_rows.py": {"WindowTable"},
    "codegen/planner/rules/window_checks.py": {"WindowAggregate", "WindowTable"},
    "codegen/planner/rules/clock_columns.py": {"WindowTable"},
    "codegen/planner/builders/window_query.py": {"WindowTable"},
    "codegen/planner/rules/window_ranks.py": {"Rank", "WindowAggregate", "WindowTable"},
    "codegen/planner/rules/horizons.py": {"AggregateNode"},
    "codegen/planner/rules/lifted_windows.py": {"WindowTable"},
    "codegen/planner/rules/windows.py": {
        *("AggregateNode", "Deduplicate", "Join"),
        *("WindowAggregate", "WindowAssign"),
    },
    "runtime/local/handler_choice.py": {"WindowAggregate"},
    "runtime/local/pipeline.py": {"LocalAggregator"},
    "runtime/local/timeline_player.py": {"WindowAggregate", "WindowAssign"},
    "runtime/local/timeline_story.py": {"WindowAggregate"},
    "runtime/spark/plan/lookup_frame.py": {"Lookup", "LookupJoin"},
    "runtime/spark/plan/column_frames.py": {"Lookup", "LookupJoin"},
    "runtime/hosting/local_phase.py": {"LocalAggregator"},
    "aggloom/__init__.py": {"GroupAggOperator", "WindowOperator"},
}


def named_operators(source: str) -> set[str]:
    """Name the concrete operators that a source text imports."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        module = node.module or "" if isinstance(node, ast.ImportFrom) else ""
        if isinstance(node, ast.ImportFrom) and (".operators" in module or module == FACE):
            found |= {alias.name for alias in node.names} & OPERATORS_BY_NAME
    return found


def test_operators_are_named_only_where_it_is_written_down() -> None:
    found = {
        path.relative_to(ROOT).as_posix(): named_operators(path.read_text())
        for top in ("codegen", "runtime", "aggloom")
        for path in (ROOT / top).rglob("*.py")
        if path.relative_to(ROOT).parts[1] != "operators"
    }
    assert {name: names for name, names in found.items() if names} == NAMED


def test_a_name_is_seen() -> None:
    assert named_operators(
        "from aggloom.runtime.operators.deduplicate import Keep, DeduplicateSpec"
    ) == {"DeduplicateSpec"}


def modules_of_the_tree() -> dict[str, Path]:
    """Name every module of production by its file."""
    found = {}
    for top in ("codegen", "runtime", "aggloom"):
        for path in (ROOT / top).rglob("*.py"):
            parts = list(path.relative_to(ROOT).with_suffix("").parts)
            dotted = ["aggloom", *parts[parts[0] == "aggloom" :]]
            found[".".join(dotted[:-1] if dotted[-1] == "__init__" else dotted)] = path
    return found


def modules_imported(source: str, known: Iterable[str]) -> set[str]:
    """Name the known modules that a text imports: late and for types alone, too."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            # A name is a module of the package, or something that the package's own file holds.
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= inner & set(known)
            found |= {node.module or ""} if inner - set(known) else set()
    return found & set(known)


def circles(arrows: dict[str, set[str]]) -> list[list[str]]:
    """List the modules that reach themselves: what is left once those that import nothing left are taken out."""
    left = {name: set(targets) - {name} for name, targets in arrows.items()}
    while leaves := {name for name, targets in left.items() if not targets & set(left)}:
        left = {name: targets for name, targets in left.items() if name not in leaves}
    # What only leads to a circle is not in one.
    while roots := set(left) - {target for targets in left.values() for target in targets}:
        left = {name: targets for name, targets in left.items() if name not in roots}
    return [[name, *sorted(targets & set(left))] for name, targets in sorted(left.items())]


def test_no_file_imports_itself_in_a_circle() -> None:
    files_of = modules_of_the_tree()
    arrows = {name: modules_imported(path.read_text(), files_of) for name, path in files_of.items()}
    assert circles(arrows) == []


@pytest.mark.parametrize(
    "late",
    [
        "from aggloom.b import c",
        "import aggloom.b",
        "def f():\n    from aggloom import b",
        "if TYPE_CHECKING:\n    from aggloom.b import C",
    ],
)
def test_a_circle_is_seen(late: str) -> None:
    known = ("aggloom", "aggloom.a", "aggloom.b", "aggloom.c")
    arrows = {name: set[str]() for name in known} | {
        "aggloom.a": modules_imported(late, known),
        "aggloom.b": modules_imported("import aggloom.a", known),
        "aggloom.c": {"aggloom.a"},
    }
    assert circles(arrows) == [["aggloom.a", "aggloom.b"], ["aggloom.b", "aggloom.a"]]
    assert circles({**arrows, "aggloom.a": set()}) == []


def test_no_file_of_production_is_long() -> None:
    lengths = {
        path.relative_to(ROOT).as_posix(): path.read_text().count("\n")
        for path in modules_of_the_tree().values()
    }
    assert {name for name, lines in lengths.items() if lines > 400} == set()
    assert sorted(lengths.values())[len(lengths) // 2] <= 150


def test_no_module_takes_what_another_keeps_to_itself() -> None:
    taken = {
        f"{name}: {alias.name}"
        for name, path in modules_of_the_tree().items()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("aggloom")
        for alias in node.names
        if alias.name.startswith("_") and not alias.name.startswith("__")
    }
    assert taken == set()
