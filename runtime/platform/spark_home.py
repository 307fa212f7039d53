"""A SPARK_HOME that starts quickly: links to the installed package in the user's cache, and its classes in one archive.

It lacks the archives of Python modules, which each process that Java starts would compile again. The classes are in an
archive of class data (JEP 350), which Java maps; otherwise it searches 250 files for each class and verifies it. Java
writes the archive when the first session ends, and ignores one of another Java. A home is for one installation of Spark
and of Java; its path is part of what Java compares.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import pyspark

from aggloom.platform_switch import is_tuned
from aggloom.private_directory import cache_directory, refuse_foreign

_HOME: Final = "SPARK_HOME"
_CLASSES: Final = "classes.jsa"
_MAGIC: Final = b"\xa8\xab\x0b\xf0"
"""The first bytes of a complete archive: Java writes its header last."""
_WRITER: Final = "writer"
_EXPIRY_SECONDS: Final = 3600.0
_PATHS: Final = ("SPARK_CONF_DIR", "HADOOP_CONF_DIR", "YARN_CONF_DIR", "SPARK_DIST_CLASSPATH")
"""Variables that add directories to the class path, for which Java writes no archive."""
# Ten times the usual thresholds of Java's second compiler, which costs seconds of a core at a start.
_THRESHOLDS: Final = {
    "Tier4InvocationThreshold": 50_000,
    "Tier4MinInvocationThreshold": 6_000,
    "Tier4CompileThreshold": 150_000,
    "Tier4BackEdgeThreshold": 400_000,
}


@contextmanager
def quick_home(settings: Mapping[str, object]) -> Iterator[str]:
    """Set SPARK_HOME while Spark's Java starts, and yield options for Java; settings: those of the session.

    A SPARK_HOME of the user stays. With the switch off there are no options either.
    """
    if not is_tuned():
        yield ""
        return
    thresholds = [f"-XX:{name}={calls}" for name, calls in _THRESHOLDS.items()]
    if _HOME in os.environ:
        yield " ".join(thresholds)
        return
    home, classes = _home()
    try:
        if home is not None:
            os.environ[_HOME] = str(home)
        has_own_path = "spark.driver.extraClassPath" in settings
        has_own_path = has_own_path or any(name in os.environ for name in _PATHS)
        archive = [] if classes is None or has_own_path else _archive_options(classes)
        yield " ".join([*archive, *thresholds])
    finally:
        os.environ.pop(_HOME, None)


def _home() -> tuple[Path | None, Path | None]:
    """The directory of links, and the path of the archive; None for either that cannot be created."""
    with suppress(OSError):
        directory = cache_directory() / f"spark-{_installation()}"
        if directory.exists():
            # Spark and its archive of classes are loaded from there.
            refuse_foreign(directory)
        home = directory / "home"
        if not home.exists():
            directory.mkdir(mode=0o700, exist_ok=True)
            draft = _link_package(directory)
            with suppress(OSError):
                draft.rename(home)
            shutil.rmtree(draft, ignore_errors=True)
        return home, directory / _CLASSES
    with suppress(OSError):
        draft = _link_package(None)
        atexit.register(shutil.rmtree, draft, ignore_errors=True)
        return draft, None
    return None, None


def _link_package(where: Path | None) -> Path:
    """A new directory of links to all parts of the package except the archives."""
    draft = Path(tempfile.mkdtemp(prefix="aggloom-spark-", dir=where))
    for part in Path(pyspark.__file__).parent.iterdir():
        if part.name != "python":
            (draft / part.name).symlink_to(part)
    return draft


def _installation() -> str:
    """Return a hash that identifies this Spark and this Java."""
    package = Path(pyspark.__file__).parent
    java = shutil.which(
        f"{os.environ['JAVA_HOME']}/bin/java" if "JAVA_HOME" in os.environ else "java"
    )
    parts: list[object] = [pyspark.__version__, package, (package / "jars").stat().st_mtime_ns]
    if java is not None:
        program = Path(java).resolve()
        parts += [program, program.stat().st_mtime_ns]
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def _archive_options(classes: Path) -> list[str]:
    """Options by which Java maps the archive, or writes one at its end if no other session does."""
    # Java warns of classes that cannot be in an archive, which is of no use to users.
    quiet = "-Xlog:cds*=off"
    _adopt_archive(classes)
    if classes.exists():
        return [f"-XX:SharedArchiveFile={classes}", quiet]
    if not _may_write(classes.with_name(_WRITER)):
        return []
    return [f"-XX:ArchiveClassesAtExit={classes}.{os.getpid()}", quiet]


def _adopt_archive(classes: Path) -> None:
    """Rename the archive that an earlier session has written, if it is complete; delete an old incomplete one."""
    for draft in classes.parent.glob(f"{_CLASSES}.*"):
        with suppress(OSError):
            with draft.open("rb") as file:
                is_complete = file.read(len(_MAGIC)) == _MAGIC
            if is_complete:
                draft.replace(classes)
            elif time.time() - draft.stat().st_mtime > _EXPIRY_SECONDS:
                draft.unlink()


def _may_write(writer: Path) -> bool:
    """Tell whether this session's Java writes the archive: no other session has claimed that within an hour."""
    with suppress(OSError):
        if time.time() - writer.stat().st_mtime < _EXPIRY_SECONDS:
            return False
    with suppress(OSError):
        writer.unlink(missing_ok=True)
        writer.touch(exist_ok=False)
        return True
    return False
