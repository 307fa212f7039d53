"""The needs of a cluster: aggloom where its executors are, and directories that all of its hosts have."""

from __future__ import annotations

import atexit
import logging
import shutil
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import aggloom.errors
import aggloom.runtime
from aggloom.runtime.spark.arguments import check_session
from aggloom.runtime.spark.sessions.session import is_here, is_local

_ROOMS = ("codegen", "runtime", "generated", "templates")
_KINDS = (".py", ".j2", ".json", ".typed")
_SINCE_1980 = (1980, 1, 1, 0, 0, 0)
_ARCHIVE = "aggloom.zip"

_log = logging.getLogger("aggloom")


def ship(spark: Any) -> None:
    """Send this aggloom to the executors of a session; what it needs (numba, pyarrow, ...) has to be there.

    spark: the session. Executors that have it installed start faster: what Numba compiles of shipped modules is kept
    for one application. Raises SpecError if it is no session.

    Example:
        >>> import aggloom as al
        >>> al.ship(al.session())
    """
    check_session("ship", spark)
    # Spark serves the file as it lies there, as long as this process runs.
    place = Path(tempfile.mkdtemp(prefix="aggloom-ship-"))
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    path = str(write_archive(place / _ARCHIVE))
    if is_here(spark):
        spark.sparkContext.addPyFile(path)
    else:
        spark.addArtifacts(path, pyfile=True)


def write_archive(path: Path) -> Path:
    """Write the modules of aggloom as an archive that Python imports from, such as for `spark-submit --py-files`."""
    package = Path(aggloom.errors.__file__).parent
    # In a checkout most rooms lie beside the package.
    beside = Path(aggloom.runtime.__path__[0]).parent
    entries = [(package, file) for folder in ("*", "sample/*") for file in package.glob(folder)]
    entries += [(beside, file) for room in _ROOMS for file in (beside / room).rglob("*")]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for top, file in sorted(entries):
            if file.suffix in _KINDS and file.is_file():
                inside = Path("aggloom", file.relative_to(top)).as_posix()
                entry = zipfile.ZipInfo(inside, _SINCE_1980)
                archive.writestr(entry, file.read_bytes(), zipfile.ZIP_DEFLATED)
    return path


def check_shared(spark: Any, what: str, path: str | Path) -> None:
    """Warn of a directory of one machine where executors of a cluster are to use it, too."""
    if is_local(spark):
        return
    try:
        master = spark.sparkContext.master
        default = spark.sparkContext._jsc.hadoopConfiguration().get("fs.defaultFS")
    except Exception:
        # A Connect session does not say what its server runs on.
        return
    scheme = (
        str(path).partition(":")[0]
        if ":" in str(path)
        else str(default or "file").partition(":")[0]
    )
    if scheme == "file":
        _log.warning(
            "%s %s is a path on each machine's own disk, and executors of %s use it, too: they have to run on this "
            "machine, or share that directory.",
            what,
            path,
            master,
        )
