"""The tests of Spark under other versions of it: `make matrix SPARK="4.0 4.1 4.2"`; says how each has done in a table.

An environment, build/matrix/X.Y, holds pyspark; all else is that of the environment that made it, which stands behind
it on the path.
"""

from __future__ import annotations

import re
import shutil
import site
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pyspark

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENTS = ROOT / "build" / "matrix"
_VERSION = re.compile(r"\d+\.\d+")
_COUNT = re.compile(r"(\d+) (passed|failed|skipped|error)")
_LEFT_OUT = (
    "house/test_benchmarks",
    "commands/test_delays_demo",
    "spark/test_matrix",
    "house/test_readme",
)
"""Those that tell nothing of a version that others do not, and take long."""


class UnavailableError(Exception):
    """An environment that cannot be made here."""


def python_of(version: str) -> Path:
    """The interpreter of the environment with a version of Spark, which is made if need be; raises UnavailableError."""
    place = ENVIRONMENTS / version
    python = place / "bin" / "python"
    if (place / "complete").exists():
        return python
    shutil.rmtree(place, ignore_errors=True)
    _run_command(sys.executable, "-m", "venv", "--without-pip", str(place))
    pip = (sys.executable, "-m", "pip", "--python", str(python), "--disable-pip-version-check")
    # Nothing but what it lacks: the packages of this environment are not there yet.
    _run_command(*pip, "install", "--quiet", "--no-deps", f"pyspark=={version}.*")
    (inside,) = place.glob("lib/python*/site-packages")
    behind = [path for path in site.getsitepackages() if Path(path).is_dir()]
    lines = [f"import site; site.addsitedir({path!r})\n" for path in behind]
    (inside / "behind.pth").write_text("".join(lines))
    (place / "complete").touch()
    return python


def add_connector(version: str) -> None:
    """Fetch Spark's connector for Kafka into an environment that needs one of its own; without it tests are skipped."""
    place = ENVIRONMENTS / version / "connector"
    described = ROOT / ".ci" / "connectors.xml"
    if place.exists() or f'name="{version}"' not in described.read_text():
        return
    try:
        fetch(described, version, place)
    except UnavailableError as why:
        print(f"no connector of Spark {version} for Kafka: {why}", file=sys.stderr)
        place.mkdir(exist_ok=True)


def fetch(described: Path, conf: str, place: Path) -> None:
    """Fetch the jars of a configuration of a file for Ivy into a directory; raises UnavailableError."""
    (ivy,) = (Path(pyspark.__file__).parent / "jars").glob("ivy-*.jar")
    found = f"{place}/[artifact]-[revision].[ext]"
    told = ("-confs", conf, "-types", "jar", "bundle", "-retrieve", found)
    cache = str(ROOT / "build" / "ivy")
    _run_command("java", "-jar", str(ivy), "-cache", cache, "-ivy", str(described), *told)


def _run_command(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise UnavailableError((done.stderr or done.stdout).strip().splitlines()[-1])


@dataclass(frozen=True)
class Outcome:
    """The results of the tests under a version."""

    version: str
    counts: dict[str, int]
    seconds: float
    failed: tuple[str, ...] = ()

    @property
    def line(self) -> str:
        """A row of the table."""
        cells = [str(self.counts.get(name, 0)) for name in ("passed", "failed", "error", "skipped")]
        return f"| {self.version} | {' | '.join(cells)} | {self.seconds:,.0f} s |"


def run(version: str, arguments: list[str]) -> Outcome:
    """Run the tests that need Spark under a version."""
    python = python_of(version)
    add_connector(version)
    left_out = [f"--ignore=tests/{name}.py" for name in _LEFT_OUT]
    command = [str(python), "-m", "pytest", "-v", "-m", "spark", *left_out, *arguments]
    began = time.monotonic()
    tests = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert tests.stdout is not None
    failed: list[str] = []
    last = ""
    for line in tests.stdout:
        print(line, end="", flush=True)
        if line.startswith(("FAILED ", "ERROR ")):
            failed.append(line.split()[1])
        last = line if _COUNT.search(line) else last
    if tests.wait() and not failed:
        failed.append(f"pytest ended with {tests.returncode}")
    counts = {name: int(number) for number, name in _COUNT.findall(last)}
    return Outcome(version, counts, time.monotonic() - began, tuple(failed))


def main() -> int:
    """Run them all, with what else is given to pytest; the table is the last that is said."""
    versions = [each for each in sys.argv[1:] if _VERSION.fullmatch(each)]
    arguments = [each for each in sys.argv[1:] if each not in versions]
    rows, bad = [], []
    for version in versions:
        try:
            outcome = run(version, arguments)
        except UnavailableError as why:
            print(f"Spark {version} cannot be installed: {why}", file=sys.stderr)
            rows.append(f"| {version} | not installed |")
            continue
        rows.append(outcome.line)
        bad += [f"{version}: {name}" for name in outcome.failed]
    print("\n| Spark | passed | failed | errors | skipped | took |")
    print("| --- | --- | --- | --- | --- | --- |")
    print("\n".join(rows))
    for line in bad:
        print(line)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
