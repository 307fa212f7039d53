"""The usual output of Spark stays away from the terminal; all other output comes through."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from aggloom.runtime.spark.sessions.start_output import drop_chatter

SAID = b"""\
WARNING: Using incubator modules: jdk.incubator.vector
Using Spark's default log4j profile: org/apache/spark/log4j2-defaults.properties
Setting default log level to "WARN".
26/11/23 05:15:27 WARN NativeCodeLoader: Unable to load native-hadoop library for your platform... using builtin-java
26/11/23 05:15:28 WARN TaskSetManager: Lost task 0.0

Starting Streaming TransformWithStateInPandas Python worker.

Streaming TransformWithStateInPandas Python worker Completed execution of UDF: f.

a user's own line, with an empty one after it

"""


def test_only_lines_that_are_always_said_are_left_out() -> None:
    assert b"".join(drop_chatter(SAID.splitlines(keepends=True))) == (
        b"26/11/23 05:15:28 WARN TaskSetManager: Lost task 0.0\n\n"
        b"a user's own line, with an empty one after it\n\n"
    )


@pytest.mark.spark
def test_a_session_says_nothing_and_hides_nothing(tmp_path: Path) -> None:
    program = """
        import os, sys
        import aggloom as al

        spark = al.session("quiet", master="local[1]", aggloom__chatter={chatter})
        spark.range(3).count()
        spark._jvm.java.lang.System.err.println("what Java has to say")
        # In one piece: Java writes beside it.
        sys.stderr.write("what Python has to say\\n")
        spark.stop()
    """
    heard = {}
    for chatter in (False, True):
        text = textwrap.dedent(program).replace("{chatter}", str(chatter))
        done = subprocess.run(
            [sys.executable, "-c", text], cwd=tmp_path, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        heard[chatter] = done.stderr.splitlines()
    assert sorted(heard[False]) == ["what Java has to say", "what Python has to say"]
    assert len(heard[True]) > 3 and set(heard[False]) < set(heard[True])
