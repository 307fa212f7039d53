"""A home of Spark that starts quickly: links to the installed package in the user's cache, and its classes in one file.

Left out are the archives of Python modules, which each process that Java starts would compile anew. The classes are
what Java calls an archive of class data (JEP 350): mapped as they are, where Java would look for each in 250 files and
verify it. Java writes the archive when the first session ends, and ignores one that is not of its own making. A home
is for one installation of Spark and one of Java; its place is part of what Java compares.
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
"""The first bytes of an archive once it is whole: Java writes its header last."""
_WRITER: Final = "writer"
_GIVEN_UP: Final = 3600.0
_PATHS: Final = ("SPARK_CONF_DIR", "HADOOP_CONF_DIR", "YARN_CONF_DIR", "SPARK_DIST_CLASSPATH")
"""Variables that put directories among the places of classes, of which Java makes no archive."""
# Java compiles a method again, for seconds of a core at a start, only after ten times as many calls.
_LATER: Final = {
    "Tier4InvocationThreshold": 50_000,
    "Tier4MinInvocationThreshold": 6_000,
    "Tier4CompileThreshold": 150_000,
    "Tier4BackEdgeThreshold": 400_000,
}


@contextmanager
def quick_home(settings: Mapping[str, object]) -> Iterator[str]:
    """While Spark's Java starts: it finds this home; yields options for it. Settings: those of the session.

    Has no home where the user has said what it is, and neither home nor options with the switch off.
    """
    if not is_tuned():
        yield ""
        return
    later = [f"-XX:{name}={calls}" for name, calls in _LATER.items()]
    if _HOME in os.environ:
        yield " ".join(later)
        return
    home, classes = _home()
    try:
        if home is not None:
            os.environ[_HOME] = str(home)
        foreign = any(name in os.environ for name in _PATHS)
        foreign = foreign or "spark.driver.extraClassPath" in settings
        yield " ".join([*([] if classes is None or foreign else _archive_options(classes)), *later])
    finally:
        os.environ.pop(_HOME, None)


def _home() -> tuple[Path | None, Path | None]:
    """The directory of links, and where the archive belongs; None if they cannot be."""
    with suppress(OSError):
        place = cache_directory() / f"spark-{_installation()}"
        if place.exists():
            # Spark and its archive of classes are loaded from there.
            refuse_foreign(place)
        home = place / "home"
        if not home.exists():
            place.mkdir(mode=0o700, exist_ok=True)
            draft = _link_package(place)
            with suppress(OSError):
                draft.rename(home)
            shutil.rmtree(draft, ignore_errors=True)
        return home, place / _CLASSES
    with suppress(OSError):
        draft = _link_package(None)
        atexit.register(shutil.rmtree, draft, ignore_errors=True)
        return draft, None
    return None, None


def _link_package(where: Path | None) -> Path:
    """A new directory of links to all parts of the package but the archives."""
    draft = Path(tempfile.mkdtemp(prefix="aggloom-spark-", dir=where))
    for part in Path(pyspark.__file__).parent.iterdir():
        if part.name != "python":
            (draft / part.name).symlink_to(part)
    return draft


def _installation() -> str:
    """Return the text that distinguishes this Spark and this Java from others."""
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
    """Options by which Java maps the archive, or writes one as it ends if nobody else does."""
    # What it says of classes that cannot be in the archive is nobody's business.
    quiet = "-Xlog:cds*=off"
    _take_up(classes)
    if classes.exists():
        return [f"-XX:SharedArchiveFile={classes}", quiet]
    if not _may_write(classes.with_name(_WRITER)):
        return []
    return [f"-XX:ArchiveClassesAtExit={classes}.{os.getpid()}", quiet]


def _take_up(classes: Path) -> None:
    """Give what a session has left behind its name, if it is whole; what became nothing is deleted."""
    for left in classes.parent.glob(f"{_CLASSES}.*"):
        with suppress(OSError):
            with left.open("rb") as file:
                whole = file.read(len(_MAGIC)) == _MAGIC
            if whole:
                left.replace(classes)
            elif time.time() - left.stat().st_mtime > _GIVEN_UP:
                left.unlink()


def _may_write(writer: Path) -> bool:
    """Tell whether this session is the one whose Java writes; one that did not get to it is given up after an hour."""
    with suppress(OSError):
        if time.time() - writer.stat().st_mtime < _GIVEN_UP:
            return False
    with suppress(OSError):
        writer.unlink(missing_ok=True)
        writer.touch(exist_ok=False)
        return True
    return False
