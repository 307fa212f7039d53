"""The page about checkpoints says what is in them, whatever lies there, and opens no door; all without Spark."""

from __future__ import annotations

import base64
import datetime as dt
import hashlib
import http.client
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from prometheus_client.parser import text_string_to_metric_families

pytest.importorskip("pyspark")

import page_checkpoint as made
from html_page import Element, facts, parsed, rows

from aggloom.cli import main
from aggloom.codegen import describe_call, lines_of_calls
from aggloom.codegen.handler.emit import stated_spec
from aggloom.errors import CheckpointError, SpecError
from aggloom.runtime.hosting.journal_files import PLAN_FILE, PROGRESS_FILE
from aggloom.runtime.inspection.heaviest import KeyWeight, KeyWindow
from aggloom.runtime.page import BackgroundReads, Checkpoints, PageServer, Watched, write_report
from aggloom.runtime.page.charts import windows
from aggloom.runtime.page.history import history_of
from aggloom.runtime.page.metrics import format_metrics
from aggloom.runtime.page.pages import Pages
from aggloom.runtime.page.render import policy

HOSTILE = "</script><script>alert('x')</script>&\"'<b>\u202e größe 🎈"


def page_of(root: Path, place: str = "/") -> Element:
    pages = Pages(Checkpoints([str(root)]), BackgroundReads())
    return parsed(pages.index() if place == "/" else pages.checkpoint(Watched(0, str(root))))


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made.write(tmp_path_factory.mktemp("page") / "sums", 3)


@contextmanager
def served(*paths: Path, **options: Any) -> Iterator[PageServer]:
    with PageServer(Checkpoints(map(str, paths)), **options) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def ask(server: PageServer, path: str, method: str = "GET", host: str = "") -> Any:
    """(status, headers, text) of an answer."""
    asked = http.client.HTTPConnection(*server.server_address[:2], timeout=60)
    headers = {"Host": host} if host else {}
    asked.request(method, path, headers=headers)
    answer = asked.getresponse()
    found = answer.status, dict(answer.headers), answer.read().decode()
    asked.close()
    return found


def test_a_page_says_what_the_checkpoint_has(checkpoint: Path) -> None:
    root, history = page_of(checkpoint), history_of(checkpoint)
    told = facts(root)
    assert (told["last batch"], told["rows read"], told["changes"]) == ("2", "33", "6")
    assert (told["it took"], told["orphans dropped"]) == ("402 ms", "3")
    assert told["watermark"] == "2023-11-14 22:13:10 UTC"
    assert told["files waiting"] == "3 3 batches ago: 5"
    # Lag and throughput come first: 33 rows in the 2.4 seconds from the first batch to the end of the last.
    assert list(told)[:3] == ["files waiting", "watermark behind", "rows a second"]
    assert told["rows a second"] == "13.7 33 rows in 3 batches"
    listed = rows(root, "Batches")
    assert [int(each["batch"]) for each in listed] == [2, 1, 0]
    assert [int(each["rows read"]) for each in listed] == [
        b.rows for b in reversed(history.batches)
    ]
    assert listed[0]["began"] == "2023-11-14 22:13:22 UTC"
    assert "addBatch 302 ms" in listed[0]["of that"]
    (operator,) = rows(root, "Operators")
    assert operator["place"] == "0.0" and operator["calls"] == "SUM(cnt) AS total, MAX(cnt) AS top"
    assert (operator["rows in"], operator["keys"], operator["live state"]) == ("33", "6", "2.9 kB")
    assert rows(root, "Sources")[0] == {"source": "Files[in]", "rows read": "12"}
    (node,) = (e for e in root.all("div") if e.get("class") == "node state")
    assert "33 rows in, 6 changes out" in node.text
    assert "holds 6 keys, 2.9 kB (in the 3 of 4 buckets" in node.text
    assert "70 ms of work (100%)" in node.text
    ids = {each.get("id") for each in root.all()}
    for link in node.all("a"):
        # To its operator, its keys and its source.
        assert link.get("href").startswith("/c/0/state#state-op0.0") or link.get("href")[1:] in ids
    assert [link.text for link in node.all("a")] == [
        "operator",
        "heaviest keys",
        "find a key",
        "source",
    ]
    assert made.SQL in next(root.all("pre")).text


def test_the_source_and_the_lines_of_its_calls(checkpoint: Path) -> None:
    root = page_of(checkpoint)
    lines = {each.get("id"): each for each in root.all("span") if each.get("id").startswith("o0l")}
    marked = {at for at, each in lines.items() if "c1" in each.get("class").split()}
    assert any("ordered_accumulate" in lines[at].text for at in marked)
    assert not any("sum_cnt" in lines[at].text and "# " in lines[at].text for at in marked)
    sums, tops = rows(root, "Lines of each call")
    assert (sums["call"], tops["call"]) == ("SUM(cnt) AS total", "MAX(cnt) AS top")
    targets = [a.get("href")[1:] for a in root.all("a") if a.get("href").startswith("#o0l")]
    assert targets and set(targets) <= set(lines)
    choices = [each for each in root.all("input") if each.get("type") == "radio"]
    assert [each.get("value") for each in choices] == ["none", "0", "1"]


@pytest.mark.parametrize(
    "name", ["account_balance", "flights_by_carrier", "sum_max_by_name_plain", "delays_in_windows"]
)
def test_lines_of_calls_are_lines_that_work_for_them(name: str) -> None:
    file = Path(__file__).parents[2] / "generated" / f"{name}.py"
    text, spec = file.read_text(), stated_spec(file)
    lines, found = text.splitlines(), lines_of_calls(file.read_text(), spec)
    assert list(found) == [describe_call(call) for call in spec.calls]
    for call, numbers in found.items():
        assert numbers == sorted(set(numbers)) and numbers
        assert all(lines[number - 1].strip() for number in numbers)
        # Each comment that names the call is in, and what stands there has to do with it alone or shared.
        commented = [n for n, line in enumerate(lines, 1) if f"# {call}" in line]
        assert set(commented) <= set(numbers)
        alone = [n for n in numbers if not any(n in o for c, o in found.items() if c != call)]
        assert any(f"out.out_{call.rpartition(' AS ')[2]}" in lines[n - 1] for n in alone)
    everywhere = {n for numbers in found.values() for n in numbers}
    free = [n for n, line in enumerate(lines, 1) if line.startswith("def ") or "reset_row(" in line]
    assert not everywhere & set(free)


def test_names_are_text_and_never_markup(tmp_path: Path) -> None:
    quoted = HOSTILE.replace("`", "")
    sql = f"SELECT `{quoted}`, SUM(`v<i>`) AS `</style><b>` FROM t GROUP BY `{quoted}`"
    import pyarrow as pa

    schema = pa.schema([(quoted, pa.string()), ("v<i>", pa.int32())])
    root = made.write(tmp_path / "<img src=x>", 2, sql, {"t": schema})  # type: ignore[dict-item]
    with (root / PROGRESS_FILE).open("a") as log:
        entry = {"batch": 2, "rows": 1, "sources": [{"name": HOSTILE * 40, "rows": 1}]}
        operators = {"<b>0.0": {"name": HOSTILE, "keys": 1}, "0.0": {"name": HOSTILE}}
        log.write(json.dumps(entry | {"operators": operators, "lag": {HOSTILE: 1}}) + "\n")
    for page in (page_of(root), parsed(Pages(Checkpoints([str(root)]), BackgroundReads()).index())):
        assert [each.tag for each in page.all() if each.tag in ("script", "b", "img", "i")] == [
            "script"
        ]
        assert HOSTILE in page.text and "</style><b>" in page.text
    write_report(Checkpoints([str(root)]), tmp_path / "r.html")
    report = parsed((tmp_path / "r.html").read_text())
    assert not list(report.all("script")) and HOSTILE in report.text
    families = text_string_to_metric_families(format_metrics([Watched(0, str(root))]).decode())
    names = {s.labels.get("operator") for family in families for s in family.samples}
    assert HOSTILE in names


def test_a_checkpoint_without_batches_and_what_is_none(tmp_path: Path) -> None:
    made.write_logs(tmp_path / "new", 0)
    made.query_record.write(tmp_path / "new", None)
    root = page_of(tmp_path / "new", "/c/0")
    assert "There is no batch yet." in root.text
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").write_text("mine")
    assert "this is no checkpoint; found there: notes.txt" in page_of(tmp_path / "other").text
    assert "there is no such directory" in page_of(tmp_path / "gone").text
    foreign = tmp_path / "foreign"
    made.write_logs(foreign, 1)
    assert "the checkpoint of another query of Spark's" in page_of(foreign).text
    (tmp_path / "empty").mkdir()
    listed = parsed(Pages(Checkpoints([str(tmp_path / "empty")]), BackgroundReads()).index())
    assert "There is no checkpoint here yet." in listed.text
    away = parsed(Pages(Checkpoints(["s3://bucket/state"]), BackgroundReads()).index())
    assert "is not on this machine's disk" in away.text


def test_without_notes_batches_are_told_from_sparks_logs(tmp_path: Path) -> None:
    root = made.write(tmp_path / "c", 4)
    for name in (PLAN_FILE, PROGRESS_FILE):
        (root / name).unlink()
    for number in range(4):
        at = made.START / 1000 + number + 0.25 * (number + 1)
        os.utime(root / "commits" / str(number), (at, at))
    page = page_of(root)
    assert [b.duration_ms for b in history_of(root).batches] == [250, 500, 750, 1000]
    assert facts(page)["it took"] == "1.0 s"
    assert "Whether the query runs is not noted here" in page.text
    assert "The plan is not noted in this checkpoint" in page.text
    assert [each["operator"] for each in rows(page, "Operators")] == ["GROUP BY name"]


@pytest.mark.parametrize("damage", ["flip", "cut", "empty", "types", "deep"])
@pytest.mark.parametrize("name", [PLAN_FILE, PROGRESS_FILE, "aggloom-query.json", "offsets/1"])
def test_damage_is_named_on_the_page(tmp_path: Path, name: str, damage: str) -> None:
    root = made.write(tmp_path / "c", 3)
    file = root / name
    data = bytearray(file.read_bytes())
    if damage == "flip":
        data[len(data) // 2] ^= 0x01
    elif damage == "cut":
        del data[len(data) // 2 :]
    elif damage == "empty":
        data.clear()
    else:
        odd = (
            "[" * 100_000
            if damage == "deep"
            else '{"batch": [], "query": 1, "described": {"plan": 7}}'
        )
        data = bytearray(
            made.with_checksum(odd).encode() if file.suffix == ".json" else odd.encode()
        )
    file.write_bytes(data)
    page = page_of(root)
    told = [each.text for each in page.all("p") if each.get("class") == "problem"]
    if name == "aggloom-query.json":
        assert any(
            "aggloom-query.json is damaged" in each or "cannot be read" in each for each in told
        )
    if name == PLAN_FILE:
        assert told and not any("node state" in e.get("class") for e in page.all("div"))
    if name == "offsets/1" and damage == "empty":
        assert any("offsets/1 is empty" in each for each in told)
    if name == PROGRESS_FILE and damage in ("empty", "types", "deep"):
        assert facts(page)["last batch"] == "2"
    assert "Traceback" not in page.text
    format_metrics([Watched(0, str(root))])


def test_a_checkpoint_that_is_written_meanwhile(tmp_path: Path) -> None:
    root = made.write(tmp_path / "c", 3)
    stop, failed = threading.Event(), list[BaseException]()
    text = (root / PROGRESS_FILE).read_text()

    def work() -> None:
        number = 3
        while not stop.is_set():
            (root / "offsets" / str(number)).write_text((root / "offsets" / "2").read_text())
            with (root / PROGRESS_FILE).open("a") as log:
                log.write(text.splitlines()[-2][:200])
            (root / "commits" / str(number)).write_text("v1\n{}")
            (root / PROGRESS_FILE).write_text(text)
            for name in ("commits", "offsets"):
                (root / name / str(number)).unlink()

    worker = threading.Thread(target=work)
    worker.start()
    try:
        for _ in range(25):
            assert int(facts(page_of(root))["last batch"]) in (2, 3)
    finally:
        stop.set()
        worker.join()
    assert not failed


def test_whether_a_query_runs(tmp_path: Path) -> None:
    running = made.write(tmp_path / "running", 2, ended=False)
    now = (running / PROGRESS_FILE).stat().st_mtime
    assert history_of(running, now + 5).status == "running"
    assert history_of(running, now + 60).status == "silent"
    assert history_of(made.write(tmp_path / "ended", 2)).status == "ended"
    failed = made.write(tmp_path / "failed", 2, error="row 7 is <bad>")
    assert history_of(failed).status == "failed"
    assert "The query failed. row 7 is <bad>" in page_of(failed).text


def test_two_checkpoints_have_an_index_and_keep_their_numbers(tmp_path: Path) -> None:
    made.write(tmp_path / "b", 2)
    found = Checkpoints([str(tmp_path)])
    assert [each.name for each in found.all()] == ["b"]
    made.write(tmp_path / "a", 3, error="no room")
    assert [(each.number, each.name) for each in found.all()] == [(0, "b"), (1, "a")]
    page = parsed(Pages(found, BackgroundReads()).index())
    listed = rows(page, "Checkpoints")
    # The one that failed comes first.
    assert [each["last batch"] for each in listed] == ["2", "1"]
    assert [each["rows read"] for each in listed] == ["33", "21"]
    assert [each["status"] for each in listed] == ["✕ Failed", "■ Ended"]
    assert "The query failed. no room" in listed[0]["checkpoint"]
    assert next(page.all("title")).text.startswith("1 failed, ")
    links = [a.get("href") for a in page.all("a") if a.get("href").startswith("/c/")]
    assert links == ["/c/1", "/c/0"]
    write_report(found, tmp_path / "r.html")
    report = parsed((tmp_path / "r.html").read_text())
    assert [each.text for each in report.all("h1")] == ["b", "a"]


def test_the_server_answers_only_what_it_should(tmp_path: Path, checkpoint: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    with served(checkpoint) as server:
        status, headers, text = ask(server, "/c/0")
        assert status == 200 and parsed(text)
        for place in (
            "/c/1",
            "/c/-1",
            "/c/0/../../secret",
            "/../../etc/passwd",
            "/c/%2e%2e/secret",
            "//etc/passwd",
            "/c/0/state/x",
            "/c/%D9%A3",
            f"/c/{'9' * 5000}",
        ):
            assert ask(server, place)[0] == 404, place
        for method in ("POST", "PUT", "DELETE", "OPTIONS"):
            assert ask(server, "/c/0", method)[0] == 501
        assert ask(server, "/c/0", "HEAD")[2] == ""
        for host in ("evil.example", "evil.example:80", "localhost.evil.example", "[", ""):
            if host:
                assert ask(server, "/", host=host)[0] == 421, host
        for host in ("localhost:1", "127.0.0.1", "[::1]:80", "192.168.0.7:9090"):
            assert ask(server, "/c/0", "HEAD", host)[0] == 200, host
        many = "&".join(f"v{n}=1" for n in range(500))
        assert ask(server, f"/c/0/key?{many}")[0] == 400
        unknown = ask(server, "/c/0/key?operator=9.9&v0=%3Cb%3E")[2]
        assert "There is no such operator" in parsed(unknown).text
    assert headers["X-Content-Type-Options"] == "nosniff" and headers["Cache-Control"] == "no-store"
    assert "Server" not in headers or "Python" not in headers["Server"]


def test_the_policy_admits_our_style_and_script_only(tmp_path: Path, checkpoint: Path) -> None:
    with served(checkpoint) as server:
        _, headers, text = ask(server, "/c/0")
    rules = dict(
        rule.strip().partition(" ")[::2] for rule in headers["Content-Security-Policy"].split(";")
    )
    assert rules["default-src"] == "'none'" and rules["connect-src"] == "'self'"
    assert not re.search("unsafe|http|\\*", headers["Content-Security-Policy"])
    for tag, rule in (("style", "style-src"), ("script", "script-src")):
        (found,) = re.findall(f"<{tag}>(.*?)</{tag}>", text, re.S)
        digest = base64.b64encode(hashlib.sha256(found.encode()).digest()).decode()
        assert rules[rule] == f"'sha256-{digest}'"
    write_report(Checkpoints([str(checkpoint)]), tmp_path / "r.html")
    report = (tmp_path / "r.html").read_text()
    (meta,) = (e for e in parsed(report).all("meta") if e.get("http-equiv"))
    assert meta.get("content") == policy(live=False) and "script-src" not in policy(live=False)
    assert not re.search(r"(src|href|url)\s*[=(]\s*[\"']?(https?:)?//", report)


def test_metrics_are_what_the_history_says(checkpoint: Path, tmp_path: Path) -> None:
    with served(checkpoint, tmp_path / "gone") as server:
        status, headers, text = ask(server, "/metrics")
    assert status == 200 and headers["Content-Type"].startswith("text/plain; version=0.0.4")
    found = {
        (s.name, *sorted(s.labels.items())): s.value
        for family in text_string_to_metric_families(text)
        for s in family.samples
    }
    own, history = ("checkpoint", str(checkpoint)), history_of(checkpoint)
    assert found["aggloom_readable", own] == 1
    assert found["aggloom_readable", ("checkpoint", str(tmp_path / "gone"))] == 0
    assert found["aggloom_rows_total", own] == history.total["rows"] == 33
    assert found["aggloom_last_batch", own] == 2
    assert found["aggloom_last_batch_seconds", own] == 0.402
    assert found["aggloom_waiting", own, ("unit", "files")] == 3
    place = own, ("operator", "GROUP BY name"), ("place", "0.0")
    assert found["aggloom_operator_keys", *place] == 6
    assert found["aggloom_operator_rows_total", *place] == 33


def test_a_port_in_use_is_told(checkpoint: Path) -> None:
    with served(checkpoint) as server:
        port = server.server_address[1]
        with pytest.raises(SpecError, match=f"cannot be served at 127.0.0.1:{port}.*--port"):
            PageServer(Checkpoints([str(checkpoint)]), port=port)
        done = CliRunner().invoke(main, ["ui", str(checkpoint), "--port", str(port)])
        assert done.exit_code == 2 and "cannot be served" in done.output


def test_the_commands(checkpoint: Path, tmp_path: Path) -> None:
    def run(*words: str) -> Any:
        return CliRunner().invoke(main, list(words))

    for command in ("ui", "report"):
        wrong = run(command, str(tmp_path / "gone"))
        assert wrong.exit_code == 2 and "there is no such directory" in wrong.output
    file = tmp_path / "report.html"
    none = run("report", str(tmp_path), "-o", str(file))
    assert none.exit_code == 2 and "there is no checkpoint in" in none.output and not file.exists()
    done = run("report", str(checkpoint), "-o", str(file), "--no-state")
    assert (done.exit_code, done.output) == (0, f"{file}\n")
    assert "The state was left out" in parsed(file.read_text()).text
    assert [each.name for each in tmp_path.iterdir()] == ["report.html"]
    both = run("report", str(checkpoint), "--no-state", "--key", "name=a")
    assert both.exit_code == 2 and "leave out --no-state" in both.output


def test_ctrl_c_ends_the_server(checkpoint: Path) -> None:
    command = [sys.executable, "-m", "aggloom", "ui", str(checkpoint)]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert child.stdout is not None
    line = child.stdout.readline()
    address = re.match(r"http://127\.0\.0\.1:(\d+)/", line)
    assert address
    asked = http.client.HTTPConnection("127.0.0.1", int(address[1]), timeout=60)
    asked.request("GET", "/")
    assert asked.getresponse().status == 200
    child.send_signal(signal.SIGINT)
    _, said = child.communicate(timeout=60)
    assert child.returncode == 0 and "Traceback" not in said


def test_who_reads_does_not_wait_for_long(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, asked = threading.Event(), list[str]()

    def read(path: str, **given: Any) -> list[Any]:
        asked.append(path)
        assert gate.wait(20)
        if len(asked) == 2:
            raise CheckpointError("<no> state")
        return []

    monkeypatch.setattr("aggloom.runtime.inspection.weight.weigh_checkpoint", read)
    pages = Pages(Checkpoints([str(checkpoint)]), BackgroundReads(object(), patience=0.05))
    (watched,) = pages.checkpoints.all()
    for _ in range(3):
        waiting = parsed(pages.state(watched))
        assert "The state is being read." in waiting.text
        again = [e.get("content") for e in waiting.all("meta") if e.get("http-equiv")]
        assert again == [f"2; url=/c/{watched.number}/state"]
    assert asked == [str(checkpoint)]
    gate.set()
    end = time.monotonic() + 60
    while "is being read" in (read_now := parsed(pages.state(watched)).text):
        assert time.monotonic() < end
        time.sleep(0.05)
    assert "State of sums" in read_now
    # The next question is another reading.
    assert "<no> state" in parsed(pages.state(watched)).text
    assert len(asked) == 2


def test_pictures_say_in_words_what_they_show() -> None:
    hour = dt.timedelta(hours=1)
    start = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
    spans = tuple(KeyWindow(start + n * hour, start + (n + 1) * hour, n) for n in range(3))
    keys = [
        KeyWeight({"k": "<a>"}, 0, 3, 3, spans),
        KeyWeight({"k": None}, 1, 1, 1, (KeyWindow(1, 2, 3),)),
    ]
    drawn = windows(keys, start + hour)
    assert "3 windows of 1 keys, from 2020-01-01 00:00 to 2020-01-01 03:00" in drawn
    assert "the watermark is 2020-01-01 01:00" in drawn and drawn.count('class="bar"') == 3
    assert "<a>" not in drawn and 'class="mark"' in drawn
    # A watermark of another year is said, and not drawn.
    far = windows(keys, start - 9000 * hour)
    assert 'class="mark"' not in far and "the watermark is 2018" in far
    assert windows(keys[1:], None) == ""


def test_of_a_large_history_the_last_hundred_stand(tmp_path: Path) -> None:
    page = page_of(made.write(tmp_path / "c", 400))
    assert len(rows(page, "Batches")) == 100
    assert facts(page)["last batch"] == "399"
