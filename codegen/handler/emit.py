"""Writing generated modules, once, and loading them: the only code here that touches the disk.

A module's file is named after the digest of its text, so it never changes under its name, unless the user gives it
a name. A file that was edited by hand is never overwritten. Modules are loaded only from a directory that belongs to
the user.
"""

from __future__ import annotations

import ast
import glob
import importlib.util
import keyword
import os
import re
import sys
import tempfile
import warnings
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from aggloom.codegen.handler.plan import plan_of
from aggloom.codegen.handler.protocol import Handler
from aggloom.codegen.handler.render import format_draft, render_draft, stated_digest, text_digest
from aggloom.codegen.spec.agg_spec import AggSpec
from aggloom.codegen.spec.choices import BACKENDS, Backend
from aggloom.codegen.user import trust as user_trust
from aggloom.display import html_fold, html_text
from aggloom.errors import GeneratedSourceError, HandlerEditedWarning, SpecError
from aggloom.garbage_pause import pause_collection
from aggloom.platform_switch import is_tuned
from aggloom.private_directory import cache_directory, refuse_foreign
from aggloom.writable import writing_cache

CLASS_NAME = "GroupAggsHandler"
NAMESPACE_CLASS_NAME = "NamespaceAggsHandler"
_PREFIX = "agg_"
_SQL = re.compile(r"\s*(?:SELECT|WITH|SET|CREATE|INSERT|EXPLAIN)\s", re.IGNORECASE)
_SHOWN = 60
_DRAFTS = "drafts"
"""The folder of files that are named by the digest of a draft and hold that of the module made of it."""


@dataclass(frozen=True)
class GeneratedSource:
    """A generated module.

    text: its source. digest: of the text. path: where it lies. class_name: the class to load. backend: "numba" or
    "python". untrusted: the functions in it whose Python source may not run here.

    Example:
        >>> import aggloom as al
        >>> spec = al.AggSpec.from_sql("SELECT SUM(n) AS s FROM t", "n INT")
        >>> source = al.generate(spec, backend="python")
        >>> source.backend, source.class_name, "def retract" in source.text
        ('python', 'GroupAggsHandler', True)
    """

    text: str
    digest: str
    path: Path
    class_name: str = CLASS_NAME
    backend: str = "numba"
    untrusted: tuple[str, ...] = ()

    def _repr_html_(self) -> str:
        about = f"class {self.class_name}, digest {self.digest}, {self.backend}: {self.path}"
        return html_fold(about, html_text(self.text), is_open=True)

    def refuse_untrusted(self) -> None:
        """Raise UntrustedCodeError if a function in it may not run here."""
        user_trust.refuse(self.untrusted)


def generate(
    spec: AggSpec,
    backend: Backend = "numba",
    directory: str | Path | None = None,
    name: str | None = None,
) -> GeneratedSource:
    """Write the handler of a spec into a directory, unless it exists already.

    spec: the aggregation. backend: "numba" compiles; "python" writes plain Python. A user's class that Numba cannot
    compile makes it plain Python whatever the backend; `explain` says why. So does one whose source is not trusted: it
    is written, but not run. directory: the directory of the module (default: the user's cache). name: the module's
    name; by default it contains the digest.

    Raises GeneratedSourceError if the file `name`.py was edited by hand or is no generated module; an edited file
    under a digest is left unchanged, and `load` warns.

    Example:
        >>> import aggloom as al
        >>> spec = al.AggSpec.from_sql("SELECT shop, SUM(n) AS s FROM t GROUP BY shop", "shop STRING, n INT")
        >>> al.generate(spec, backend="python", directory="generated", name="sums").path.as_posix()
        'generated/sums.py'
    """
    if backend not in BACKENDS:
        raise GeneratedSourceError(f"backend {backend!r} does not exist; use 'numba' or 'python'")
    if not isinstance(spec, AggSpec):
        raise SpecError(
            f"generate: the spec is a {type(spec).__name__}; make one with AggSpec.from_sql(sql, schema)"
        )
    if not isinstance(directory, str | Path | None):
        raise SpecError(f"generate: directory is {directory!r}; it must be the path of a directory")
    plan = plan_of(spec, backend)
    draft = render_draft(plan)
    place = Path(directory) if directory is not None else cache_directory()
    if name is None:
        text = _formatted_once(draft, place)
        path = write_once(text, text_digest(text), place)
    else:
        text = format_draft(draft)
        path = write_named(text, name, place)
    digest = text_digest(text)
    class_name = NAMESPACE_CLASS_NAME if spec.namespace else CLASS_NAME
    return GeneratedSource(text, digest, path, class_name, plan.backend, spec.untrusted_functions)


def refresh(path: Path, *, trust: bool = False) -> GeneratedSource:
    """Write a named module again from the spec in it, as this version of aggloom would.

    Raises GeneratedSourceError if it was edited by hand, or is named by its digest; UntrustedCodeError where only
    running Python source in the spec shows what to write, unless `trust=True` lets it run.
    """
    if path.stem.startswith(_PREFIX):
        raise GeneratedSourceError(
            f"{path} is named by its digest, which a changed file would not have; generate a new one"
        )
    stated = _read_constants(path)
    spec = AggSpec.from_json(stated["SPEC_JSON"], trust=trust)
    # Whether Numba can compile a user's class is found out by running it; plain Python is written from the text alone.
    if stated["BACKEND"] == "numba":
        user_trust.refuse(spec.untrusted_functions)
    return generate(spec, stated["BACKEND"], path.parent, path.stem)  # type: ignore[arg-type]


def stated_spec(path: Path) -> AggSpec:
    """The spec that a module was generated from; the module is read, not run."""
    return AggSpec.from_json(_read_constants(path)["SPEC_JSON"])


def _read_constants(path: Path) -> dict[str, str]:
    """Read the constants that say what a module was made from; it is not run: its run time may be another version's."""
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except (OSError, SyntaxError, UnicodeDecodeError) as e:
        raise GeneratedSourceError(f"{path}: cannot be read: {e}") from e
    stated = {
        node.targets[0].id: ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and node.targets[0].id in ("SPEC_JSON", "BACKEND")
    }
    if len(stated) < 2:
        raise GeneratedSourceError(f"{path}: no SPEC_JSON; it is not a generated handler")
    return stated


def write_once(text: str, digest: str, directory: Path) -> Path:
    """The path of the module in `directory`, written whole or not at all, and only if it is not there."""
    path = directory / f"{_PREFIX}{digest}.py"
    if not path.exists():
        _write(text, path)
    return path


def _formatted_once(draft: str, directory: Path) -> str:
    """A draft's formatted text: that of the module in `directory` that was made of it, if it is as it was written."""
    # Formatting takes longer than everything else here, so a draft that was formatted before is found by its digest.
    draft_digest = directory / _DRAFTS / text_digest(draft)
    try:
        digest = draft_digest.read_text(encoding="utf-8")
        text = (directory / f"{_PREFIX}{digest}.py").read_text(encoding="utf-8")
        # A module that was edited since is not what the draft gives.
        if text_digest(text) == digest == stated_digest(text):
            return text
    except (OSError, UnicodeDecodeError):
        pass
    text = format_draft(draft)
    _write(text_digest(text), draft_digest)
    return text


def write_named(text: str, name: str, directory: Path) -> Path:
    """The path of the module under a name of the user's, written unless that loses an edit."""
    # Also keeps the file within its directory: an identifier has no slash and no dot.
    if not isinstance(name, str) or not name.isidentifier() or keyword.iskeyword(name):
        raise GeneratedSourceError(
            f"name {name!r}: a module's name is a Python identifier, and no keyword"
        )
    path = directory / f"{name}.py"
    old = path.read_text(encoding="utf-8") if path.exists() else None
    if old == text:
        return path
    # A module says its own digest. Where it no longer fits, somebody has changed the text since.
    if old is not None and stated_digest(old) != text_digest(old):
        raise GeneratedSourceError(
            f"{path} was edited by hand, and is not overwritten; choose another name, or remove it"
        )
    _write(text, path)
    return path


def _write(text: str, path: Path) -> None:
    with writing_cache(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
        draft = Path(name)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
            # mkstemp lets only the owner read, and the workers of a cluster may be other users.
            draft.chmod(0o644)
            # A rename is whole or not at all: a process that loads the module meanwhile never reads half of it.
            draft.replace(path)
        finally:
            draft.unlink(missing_ok=True)


def load(source: GeneratedSource | str | Path) -> type[Handler]:
    """Load the handler class of a generated source or of a module's path.

    source: what `generate` gives, or the path of such a module. A module whose text no longer has the digest that it
    states was edited by hand: it loads, with a warning.

    Raises GeneratedSourceError if there is no such module, if others may write to it, or if it has no handler;
    UntrustedCodeError for a generated source with functions that are not trusted; SpecError for SQL, or no path at
    all.

    Example:
        >>> import aggloom as al
        >>> spec = al.AggSpec.from_sql("SELECT MAX(n) AS largest FROM t", "n INT")
        >>> handler = al.load(al.generate(spec, backend="python"))()
        >>> handler.setAccumulators(handler.createAccumulators())
        >>> handler.accumulate((7,))
        >>> handler.getValue()
        (7,)
    """
    if isinstance(source, GeneratedSource):
        source.refuse_untrusted()
    elif not isinstance(source, str | Path) or not str(source):
        raise SpecError(
            f"the handler is {source!r}; give an AggSpec, a loaded handler class, or the path of a generated module."
        )
    # A query that is given in place of a path would otherwise be reported as a missing file.
    elif _SQL.match(str(source)):
        raise SpecError(
            f"the handler is the SQL {str(source)[:_SHOWN]!r}; make a spec of it with AggSpec.from_sql(sql, schema), "
            "or give the query to al.sql or Harness.from_sql."
        )
    path = Path(source.path if isinstance(source, GeneratedSource) else source).resolve()
    if not path.is_file():
        raise GeneratedSourceError(f"{path}: no such module; write it with 'aggloom generate'")
    text = path.read_text(encoding="utf-8")
    digest = text_digest(text)
    if stated_digest(text) != digest:
        warnings.warn(
            f"{path} was edited after it was generated (its digest is now {digest}); it is used as it is",
            HandlerEditedWarning,
            stacklevel=2,
        )
    return _load(path, digest)


def load_text(text: str, digest: str, directory: Path | None = None) -> type[Any]:
    """The handler class of a module's text, as shipped to a worker.

    Raises GeneratedSourceError if the text does not have the digest.
    """
    if text_digest(text) != digest:
        raise GeneratedSourceError(
            f"handler {digest}: the text has another digest; generate it again"
        )
    path = write_once(text, digest, directory if directory is not None else cache_directory())
    if path.read_text(encoding="utf-8") != text:
        # Somebody edited the file of this name: it is theirs, and this text goes beside it.
        path = write_once(text, digest, path.parent / "shipped")
    return _load(path, digest)


def _load(path: Path, digest: str) -> type[Any]:
    refuse_foreign(path)
    # The digest is part of the name, so that two texts of one file are two modules in a process.
    module_name = f"aggloom_handler_{path.stem}_{digest}"
    module = sys.modules.get(module_name) or import_module(module_name, path)
    handler = getattr(module, CLASS_NAME, None) or getattr(module, NAMESPACE_CLASS_NAME, None)
    if handler is None or not hasattr(handler, "KERNELS"):
        raise GeneratedSourceError(f"{path}: no class {CLASS_NAME}; it is not a generated handler")
    _drop_stale_cache(handler.KERNELS.update, path, module_name)
    handler.SOURCE_PATH, handler.DIGEST = path, digest
    return handler  # type: ignore[no-any-return]


def _drop_stale_cache(kernel: Any, path: Path, module_name: str) -> None:
    """Delete what Numba kept of the same file with another text: it names a module that is no more."""
    # Our kernels are kept under the digest of their text. Asking one here would import Numba, perhaps for nothing.
    if is_tuned() or not hasattr(kernel, "stats"):
        return
    for index in Path(kernel.stats.cache_path).glob(f"{glob.escape(path.stem)}.*.nbi"):
        if module_name.encode() not in index.read_bytes():
            index.unlink(missing_ok=True)


def import_module(module_name: str, path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(module_name, path)
    if spec is None or spec.loader is None:
        raise GeneratedSourceError(f"{path}: it is no Python file, such as a generated handler is")
    module = importlib.util.module_from_spec(spec)
    # Known before it runs: dataclasses look up the module in which they are defined.
    sys.modules[module_name] = module
    try:
        with pause_collection():
            spec.loader.exec_module(module)
    except Exception as e:
        # Or the next import would find a module that ran halfway.
        del sys.modules[module_name]
        raise GeneratedSourceError(f"{path}: cannot be loaded: {e}") from e
    _name_tuples(module)
    return module


def _name_tuples(module: ModuleType) -> None:
    """Give the named tuples of a generated module names that those of no other module have.

    Numba finds the compiled form of a kernel by the names of its arguments' classes and what is in them. Where the
    `State` of two handlers looks the same, each call of the second would be resolved anew, in milliseconds.
    """
    suffix = module.__name__.rpartition("_")[2]
    for each in vars(module).values():
        # A class alone is asked for its fields: a kernel would make its dispatcher to answer, and import Numba.
        if (
            isinstance(each, type)
            and hasattr(each, "_fields")
            and each.__module__ == module.__name__
        ):
            each.__name__ = f"{each.__name__}_{suffix}"
