"""The wheel holds the tree's packages, all of each, and no root name but aggloom."""

from __future__ import annotations

import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
FOLDERS = {Path(folder): package for package, folder in SETTINGS["package-dir"].items()}
SHIPPED = (".py", ".j2", ".json", ".yaml", ".md", "py.typed")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """Build a wheel from a copy of the tree, which stays clean, and list its files."""
    copy, out = tmp_path_factory.mktemp("tree"), tmp_path_factory.mktemp("wheel")
    for path in tree_files():
        target = copy / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes((ROOT / path).read_bytes())
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-q"]
    built = subprocess.run([*command, "-w", out, copy], capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    (archive,) = out.glob("*.whl")
    return set(zipfile.ZipFile(archive).namelist())


def tree_files() -> list[Path]:
    """List the files of a build: the packages' folders, the files beside them, the pages."""
    names = ("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE")
    found = [Path(name) for name in names] + pages()
    for folder in FOLDERS:
        found += [
            path.relative_to(ROOT)
            for path in (ROOT / folder).rglob("*")
            if path.is_file() and "__pycache__" not in path.parts
        ]
    return found


def pages() -> list[Path]:
    """List the pages that `aggloom docs` prints."""
    found = (ROOT / "docs").glob("*.md"), (ROOT / "docs" / "releases").glob("*.md")
    return [path.relative_to(ROOT) for each in found for path in each]


def package_of(folder: Path) -> str:
    """Name the package that lies in a folder: by package-dir, or after that of the folder above it."""
    return FOLDERS.get(folder) or f"{package_of(folder.parent)}.{folder.name}"


def expected() -> set[str]:
    """Name each file of the packages as it must stand in the wheel."""
    shipped = {f"aggloom/{page.as_posix()}" for page in pages()}
    return shipped | {
        f"{package_of(path.parent).replace('.', '/')}/{path.name}"
        for path in tree_files()
        if path.name.endswith(SHIPPED) and path.parts[0] in map(str, FOLDERS)
    }


def test_wheel_is_the_tree(wheel: set[str]) -> None:
    shipped = {name for name in wheel if ".dist-info/" not in name}
    assert shipped == expected()


def test_no_other_root_name_leaks(wheel: set[str]) -> None:
    roots = {name.split("/")[0] for name in wheel}
    assert {root for root in roots if not root.endswith(".dist-info")} == {"aggloom"}


def test_settings_name_no_folder_twice() -> None:
    text = (ROOT / "pyproject.toml").read_text()
    assert {package for package in FOLDERS.values() if text.count(f'"{package}" =') != 1} == set()
    # A folder in one of these follows from it.
    assert {folder for folder in FOLDERS if folder.parent in FOLDERS} == set()


def test_the_wheel_runs_as_one_command() -> None:
    """Programs of the repository, as those that write pages or run cases, lie outside of the packages."""
    programs = {
        path.as_posix()
        for path in tree_files()
        if path.suffix == ".py" and 'if __name__ == "__main__":' in (ROOT / path).read_text("utf-8")
    }
    # Spark runs the daemon by its name.
    assert programs == {"aggloom/__main__.py", "aggloom/cli.py", "aggloom/daemon.py"}
