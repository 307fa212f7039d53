"""Typical mistakes at the command line: the first line of each error, and the seconds until it is there.

    python benchmarks/mistakes.py --command aggloom > benchmarks/results/mistakes.md

Each command runs in a process of its own, in a folder of a few files, where `java` is a stand-in that leaves a mark: a
command that starts Spark for what is wrong is seen. tests/commands/test_mistakes.py takes the same list.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TABLE = "orders=changes/,format=debezium-json,schema=customer STRING, amount INT"
QUERY = "SELECT customer, SUM(amount) AS s FROM orders GROUP BY customer"
OF_ORDERS = ("run", "--table", TABLE, "--sql")
OF_FILE = ("run", "--sql", "SELECT * FROM o", "--table")
KEYLESS = (*OF_ORDERS, "SELECT customer FROM orders", "--checkpoint", "state", "--sink")
NO_DRIVER = "database,table=t,connect=x,driver=nodriver"
WINDOW = (
    "SELECT window_start, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE o, DESCRIPTOR(ts), INTERVAL '1' HOUR)) "
    "GROUP BY window_start, window_end"
)
FILES = {
    "o.csv": "shop,amount\na,3\n",
    "semi.csv": "shop;amount\na;3\n",
    "bad.jsonl": '{"a": 1}\nnot json\n',
    "array.json": '[{"a": 1}, {"a": 2}]',
    "job.yaml": "sql: SELECT 1\ntabels: {}\n",
    "broken.yaml": "sql: [\n",
    "empty.sql": "",
    "show.sql": "SHOW TABELS;\n",
    "tabel.sql": "CREATE TABEL o (a INT);\nSELECT a FROM o;\n",
    "file.txt": "hi\n",
    "dir/x.txt": "",
    "window.sql": "CREATE TABLE o (shop STRING, ts TIMESTAMP(3)) WITH ('connector' = 'filesystem', 'path' = 'o.csv',"
    f" 'format' = 'csv');\n{WINDOW};",
}
MISTAKES: list[tuple[tuple[str, ...], str]] = [
    (
        (*OF_ORDERS, "SELECT custmer FROM orders"),
        "there is no column 'custmer'. Did you mean 'customer'?",
    ),
    ((*OF_ORDERS, "SELECT SUMM(amount) FROM orders"), "has a function SUMM. Did you mean 'SUM'"),
    ((*OF_ORDERS, "SELECT * FROM oders"), "there is no table 'oders'. Did you mean 'orders'?"),
    ((*OF_ORDERS, "SELCT * FROM orders"), "there is no statement SELCT. Did you mean 'SELECT'"),
    ((*OF_ORDERS, "SELECT customer, SUM(amount) FROM orders"), "add it to GROUP BY"),
    ((*OF_ORDERS, f"{QUERY} ORDER BY s"), "ORDER BY is not supported here"),
    ((*OF_ORDERS, "SELECT SUM(customer) FROM orders"), "SUM needs a number, got STRING"),
    ((*OF_ORDERS, QUERY, "--sink", "tabel"), "unknown sink 'tabel'. Did you mean 'table'"),
    ((*OF_ORDERS, QUERY, "--sink", "jsonl:out"), "there is no `checkpoint`"),
    (
        (*OF_ORDERS, QUERY, "--sink", "jsonl:file.txt", "--checkpoint", "state"),
        "file.txt is a file",
    ),
    ((*OF_ORDERS, QUERY, "--checkpoint", "file.txt"), "'file.txt' is a file"),
    (
        (*OF_ORDERS, QUERY, "--set", "table.exec.state.tll=1 h"),
        "Did you mean 'table.exec.state.ttl'",
    ),
    ((*OF_ORDERS, QUERY, "--set", "table.exec.state.ttl=soon"), "it must be a duration"),
    ((*OF_ORDERS, QUERY, "--set", "table.exec.state.ttl"), "it must be OPTION=VALUE"),
    (
        (*OF_ORDERS, QUERY, "--set", "spark.sql.ansi.enabled=true"),
        "there is no option 'spark.sql.ansi",
    ),
    ((*OF_ORDERS, QUERY, "--mode", "fast"), "'fast' is not one of"),
    ((*OF_ORDERS, QUERY, "--backend", "cython"), "'cython' is not one of"),
    ((*OF_ORDERS, QUERY, "--table", TABLE), "table 'orders' is given twice"),
    ((*KEYLESS, "database,table=t,connect=x"), "sink database: no columns tell the rows"),
    ((*KEYLESS, "delta,path=d"), "sink delta: no columns tell the rows"),
    (
        (
            *OF_ORDERS,
            QUERY,
            "--checkpoint",
            "state",
            "--sink",
            f"{NO_DRIVER},dialect=postgresql",
        ),
        "the driver 'nodriver' is not installed; pip install nodriver",
    ),
    ((*OF_FILE, "o=ordrs.csv"), "there is no file or directory 'ordrs.csv'"),
    ((*OF_FILE, "o=o.csv,format=cvs"), "no format 'cvs'. Did you mean 'csv'?"),
    ((*OF_FILE, "o=o.csv,fromat=csv"), "Did you mean 'format'"),
    ((*OF_FILE, "o=o.csv,schema=shop STRNG"), "Did you mean 'STRING'?"),
    ((*OF_FILE, "o.csv"), "it must read t=PATH"),
    ((*OF_FILE, "o=semi.csv"), "say sep=;"),
    ((*OF_FILE, "o=array.json"), "this is a JSON array"),
    ((*OF_FILE, "o=bad.jsonl"), "bad.jsonl, line 2 is no JSON"),
    ((*OF_FILE, "o=dir/"), "add the format, one of"),
    ((*OF_FILE, "o=file.txt,format=parquet"), "cannot be read as Parquet"),
    ((*OF_FILE, "o=o.csv,maxFilesPerTrigger=zero"), "must be a whole number"),
    ((*OF_FILE, "o=o.csv,changes=upsert"), "upserts need a key"),
    ((*OF_FILE, "o=o.csv,watermark=ts 5 seconds"), "its watermark names column 'ts'"),
    (
        ("run", "--sql", WINDOW, "--table", "o=o.csv,schema=shop STRING, ts TIMESTAMP"),
        "say watermark=COLUMN",
    ),
    (("run", "window.sql"), "WATERMARK FOR column AS column"),
    (("run", "--sql", "SELECT * FROM o"), "there is no `tables`"),
    (("run", "--table", TABLE), "there is no `sql`"),
    (("run", "job.yaml"), "there is no entry 'tabels'. Did you mean 'tables'?"),
    (("run", "broken.yaml"), "broken.yaml: the job file cannot be read"),
    (("run", "nojob.yaml"), "there is no such file"),
    (("run", "empty.sql"), "the script is empty"),
    (("run", "show.sql"), "there is no SHOW TABELS. Did you mean 'TABLES'?"),
    (("run", "tabel.sql"), "there is no statement CREATE TABEL. Did you mean 'CREATE TABLE'"),
    (("rum",), "Did you mean 'run'?"),
    (("run", "--tabel", TABLE), "No such option '--tabel'"),
    (("state", "nothere"), "there is no such directory"),
    (("why", "dir", "--key", "a=1"), "dir: there is no checkpoint in it"),
    (("state", "dir"), "dir: there is no checkpoint in it"),
    (("report", "dir"), "there is no checkpoint in it"),
    (("explain", "--sql", "SELECT a FROM t"), "a query is --sql with --schema"),
]


def write_files(folder: Path) -> None:
    """Write the files that the commands name into a folder."""
    from aggloom.sample import write_sample

    write_sample(folder / "changes")
    (folder / "dir").mkdir()
    for name, text in FILES.items():
        (folder / name).write_text(text)


def stand_in_for_java(folder: Path) -> dict[str, str]:
    """The environment of a machine whose Java leaves a mark and fails."""
    java = folder / "jdk" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\ntouch {shlex.quote(str(folder / 'started'))}\nexit 1\n")
    java.chmod(0o755)
    path = f"{java.parent}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "JAVA_HOME": str(java.parents[1]), "PATH": path}


def time_mistake(
    command: list[str], folder: Path, environment: dict[str, str]
) -> tuple[str, float]:
    """The first line of the error that a command prints, and the seconds until it is there."""
    begun = time.perf_counter()
    none = subprocess.DEVNULL
    with subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        text=True,
        stdin=none,
        stdout=none,
        stderr=subprocess.PIPE,
    ) as process:
        for line in process.stderr or ():
            if line.startswith(("aggloom: ", "Error: ")):
                seconds = time.perf_counter() - begun
                process.communicate()
                return line.rstrip(), seconds
    return f"no error; exit code {process.returncode}", time.perf_counter() - begun


def measure(command: list[str], rounds: int) -> tuple[list[tuple[str, str, float]], list[str]]:
    """For each mistake its command, first line and least seconds of so many runs; and what went wrong."""
    found, wrong = list[tuple[str, str, float]](), list[str]()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "files"
        folder.mkdir()
        write_files(folder)
        environment = stand_in_for_java(Path(name))
        for arguments, said in MISTAKES:
            runs = [
                time_mistake([*command, *arguments], folder, environment) for _ in range(rounds)
            ]
            line = runs[0][0]
            shown = shlex.join(["aggloom", *map(_shorten, arguments)])
            found.append((shown, line, min(seconds for _, seconds in runs)))
            if said not in line:
                wrong.append(f"{shown}: {line}")
            if (Path(name) / "started").exists():
                wrong.append(f"{shown}: Java was started")
                (Path(name) / "started").unlink()
    return found, wrong


def _shorten(argument: str) -> str:
    """An argument as the table shows it: what is right and the same everywhere is cut."""
    return argument.replace(TABLE, "orders=changes/,..").replace(QUERY, "SELECT .. FROM orders ..")


def page_of(found: list[tuple[str, str, float]], rounds: int) -> str:
    """The page with the table."""
    seconds = sorted(each for *_, each in found)
    about = (
        f"{len(found)} mistakes, each in a process of its own, the least of {rounds} runs: {seconds[0]:.2f} to"
        f" {seconds[-1]:.2f} s, median {seconds[len(seconds) // 2]:.2f} s. Java was not started for any of them."
    )
    machine = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    rows = [
        f"| {_cell(shown, 110)} | {_cell(line.removeprefix('aggloom: '), 400)} | {took:.2f} |"
        for shown, line, took in found
    ]
    head = "| command | first line of the error | s |\n| --- | --- | --- |"
    command = "python benchmarks/mistakes.py --command aggloom"
    parts = [
        "# Mistakes at the command line",
        f"`{command}`: {machine}.",
        about,
        "\n".join([head, *rows]),
    ]
    return "\n\n".join(parts) + "\n"


def _cell(text: str, width: int) -> str:
    """A cell of a table, as code, cut at its width."""
    text = " ".join(text.split()).replace("|", "\\|")
    return f"`{text if len(text) <= width else text[: width - 2] + '..'}`"


def main() -> int:
    """Print the page, or the figures as JSON; exit with 1 where an error is not as it should be."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--command", default=f"{sys.executable} -m aggloom", help="how aggloom is called"
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    found, wrong = measure(shlex.split(given.command), given.rounds)
    print(json.dumps(found) if given.json else page_of(found, given.rounds), end="")
    print(*wrong, sep="\n", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
