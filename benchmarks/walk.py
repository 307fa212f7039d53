"""The first pages as a new user follows them: every block word for word, from the wheel, with the time of each step.

    python -m pip wheel --no-deps -w build/wheel .
    python benchmarks/walk.py --wheel build/wheel/aggloom-0.1.0-py3-none-any.whl > benchmarks/results/walk.md

An environment of its own, an empty home, and an empty folder for each page; without Java and pyspark, unless --spark
installs the extra. What a block prints is compared with the `text` block below it.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PAGES = ("README.md", "docs/notebooks.md", "docs/testing.md", "docs/engines.md")
PROJECT = "shop"
"""The directory that `aggloom init` makes, whose README is followed, too."""
_FENCE = re.compile(r"^```(\w+)\n(.*?)^```\n", re.M | re.S)
_EXCERPT = "@rt.part\ndef "
_NEEDS_SPARK = "al.session("
_OF_THE_CLONE = ("make ", "pip ")
_LATER = "aggloom move "
"""A block about a run that the page has only described."""
DRIVER = """
import contextlib, io, json, sys, time
names = {"__name__": "__main__"}
for line in sys.stdin:
    out, begun = io.StringIO(), time.perf_counter()
    with contextlib.redirect_stdout(out):
        exec(compile(json.loads(line), "<block>", "exec"), names)
    print(json.dumps([out.getvalue(), time.perf_counter() - begun]), flush=True)
"""
"""Runs the blocks of a page in one process, as a notebook does."""


@dataclass(frozen=True)
class Step:
    """A block of a page with its line, the first line of its text, its seconds, and how its output compares."""

    page: str
    line: int
    text: str
    seconds: float
    output: str


@dataclass(frozen=True)
class Place:
    """The environment of a walk: the folder of the page, the commands of the installation, the variables."""

    folder: Path
    bin: Path
    variables: dict[str, str]
    spark: bool


def variables_of(home: Path, bin_folder: Path, with_java: bool) -> dict[str, str]:
    """The variables of a machine without anybody's caches and, unless asked for, without Java."""
    found = {n: v for n, v in os.environ.items() if not n.startswith(("AGGLOOM", "PYTHON", "XDG"))}
    folders = found["PATH"].split(os.pathsep)
    if not with_java:
        found.pop("JAVA_HOME", None)
        folders = [each for each in folders if not Path(each, "java").exists()]
        # Where java lies among the system's commands, these are named one by one.
        tools = home / "tools"
        tools.mkdir(parents=True, exist_ok=True)
        for name in ("bash", "cat", "env", "ls", "mkdir", "sh", "uname"):
            path = shutil.which(name)
            if path and not (tools / name).exists():
                (tools / name).symlink_to(path)
        folders.append(str(tools))
    return {**found, "HOME": str(home), "PATH": os.pathsep.join([str(bin_folder), *folders])}


def install(wheel: Path, folder: Path, extra: str) -> float:
    """Make an environment with the wheel; the seconds that takes."""
    begun = time.perf_counter()
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    pip = [str(folder / "bin" / "pip"), "install", "--quiet", f"{wheel}{extra}"]
    subprocess.run(pip, check=True)
    return time.perf_counter() - begun


def walk(page: str, tree: Path, place: Place, folder: str = "") -> list[Step]:
    """Run the blocks of a page in their order. folder: of the page, as the table names it."""
    text = (tree / page).read_text("utf-8")
    fences = list(_FENCE.finditer(text))
    steps = []
    driver: Any = None
    for number, fence in enumerate(fences):
        kind, code = fence[1], fence[2]
        line = text.count("\n", 0, fence.start()) + 1
        following = fences[number + 1] if number + 1 < len(fences) else None
        shown = following and following[1] == "text" and following.start() == fence.end()
        wanted = following[2] if shown and following else None
        begun = time.perf_counter()
        if kind == "yaml" and (named := re.match(r"# (\S+\.yaml)\n", code)):
            file = place.folder / named[1]
            file.parent.mkdir(exist_ok=True)
            file.write_text(code, "utf-8")
            continue
        if kind == "shell" and not code.startswith((*_OF_THE_CLONE, _LATER)):
            printed = _run_shell(code, place)
        elif kind == "python" and not code.startswith(_EXCERPT):
            if _NEEDS_SPARK in code and not place.spark:
                continue
            driver = driver or _start_driver(place)
            printed = _run_python(driver, code)
        else:
            continue
        seconds = time.perf_counter() - begun
        output = "" if wanted is None else "as shown" if _same(printed, wanted) else "differs"
        steps.append(Step(str(Path(folder, page)), line, _first_line(code), seconds, output))
        if output == "differs":
            print(f"{page}, line {line}: printed\n{printed}\ninstead of\n{wanted}", file=sys.stderr)
    if driver is not None:
        driver.stdin.close()
        driver.wait()
    return steps


def _run_shell(code: str, place: Place) -> str:
    done = subprocess.run(
        ["bash", "-ec", code],
        cwd=place.folder,
        env=place.variables,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    if done.returncode:
        print(f"{code}\nexit code {done.returncode}\n{done.stdout}{done.stderr}", file=sys.stderr)
    return done.stdout


def _start_driver(place: Place) -> Any:
    return subprocess.Popen(
        [place.bin / "python", "-c", DRIVER],
        cwd=place.folder,
        env=place.variables,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def _run_python(driver: Any, code: str) -> str:
    driver.stdin.write(json.dumps(code) + "\n")
    driver.stdin.flush()
    line = driver.stdout.readline()
    if not line:
        return "the process has ended"
    printed: str = json.loads(line)[0]
    return printed


def _same(printed: str, wanted: str) -> bool:
    """Compare outputs, without what depends on the number of cores, and without what a run says around a table."""
    if wanted.startswith("┏"):
        printed, wanted = (
            "\n".join(sorted(line for line in each.splitlines() if line[:1] in set("┏┃┡│└")))
            for each in (printed, wanted)
        )
    printed, wanted = (
        re.sub(r"\d+(?= rows of all keys)|(?<=, bucket )\d+|[ \t]+$", "", each, flags=re.M)
        for each in (printed, wanted)
    )
    return printed.strip() == wanted.strip()


def _first_line(code: str) -> str:
    lines = [
        line for line in code.splitlines() if line and not line.startswith(("import ", "from "))
    ]
    return lines[0].rstrip("\\ ")[:90]


def page_of(steps: list[Step], installed: float, size: int, extra: str) -> str:
    """The page with the table."""
    total = installed + sum(step.seconds for step in steps)
    minutes = [step.seconds for step in steps if step.page == "README.md"]
    machine = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    about = (
        f"`python benchmarks/walk.py{' --spark' if extra else ''}`: {machine}, with empty caches,"
        f" {'with' if extra else 'without'} pyspark and Java. The environment takes {size} MB. README from the"
        f" installation to its last block: {installed + sum(minutes):.0f} s; all pages: {total:.0f} s."
    )
    head = "| page, line | block | s | output |\n| --- | --- | --- | --- |"
    rows = [f"| | `pip install aggloom-..whl{extra}` | {installed:.1f} | |"]
    for step in steps:
        place = f"{step.page}, {step.line}" if step.line else step.page
        text = step.text.replace("|", "\\|")
        rows.append(f"| {place} | `{text}` | {step.seconds:.1f} | {step.output} |")
    return "\n\n".join(["# A walk over the first pages", about, "\n".join([head, *rows])]) + "\n"


def main() -> int:
    """Print the page; exit with 1 if an output differs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--wheel", type=Path, required=True)
    parser.add_argument("--tree", type=Path, default=ROOT, help="where the pages lie")
    parser.add_argument(
        "--spark", action="store_true", help="install the extra, and leave Java there"
    )
    parser.add_argument("--pages", nargs="*", default=list(PAGES))
    given = parser.parse_args()
    extra = "[spark]" if given.spark else ""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        took = install(given.wheel.resolve(), folder / "environment", extra)
        files = (each for each in (folder / "environment").rglob("*") if not each.is_symlink())
        size = sum(each.stat().st_size for each in files) >> 20
        steps = []
        for number, page in enumerate(given.pages):
            empty = folder / f"page-{number}"
            empty.mkdir()
            own = folder / "environment" / "bin"
            variables = variables_of(folder / "home", own, given.spark)
            steps += walk(page, given.tree, Place(empty, own, variables, given.spark))
        begun = time.perf_counter()
        init = [str(own / "aggloom"), "init", PROJECT]
        subprocess.run(init, cwd=folder, env=variables, check=True, capture_output=True)
        seconds = time.perf_counter() - begun
        steps.append(Step("a project", 0, f"aggloom init {PROJECT}", seconds, ""))
        project = folder / PROJECT
        steps += walk("README.md", project, Place(project, own, variables, given.spark), PROJECT)
    print(page_of(steps, took, size, extra), end="")
    return 1 if any(step.output == "differs" for step in steps) else 0


if __name__ == "__main__":
    sys.exit(main())
