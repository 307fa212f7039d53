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
    """List what a build needs: the packages' folders and the three files beside them."""
    found = [Path(name) for name in ("pyproject.toml", "README.md", "LICENSE")]
    for folder in {Path(folder).parts[0] for folder in SETTINGS["package-dir"].values()}:
        found += [
            path.relative_to(ROOT)
            for path in (ROOT / folder).rglob("*")
            if path.is_file() and "__pycache__" not in path.parts
        ]
    return found


def package_of(folder: Path) -> str:
    """Name the package that lies in a folder: its own line of package-dir, or that of the folder above it."""
    packages = {Path(place): package for package, place in SETTINGS["package-dir"].items()}
    if folder in packages:
        return packages[folder]
    return f"{package_of(folder.parent)}.{folder.name}"


def expected() -> set[str]:
    """Name each file of the packages as it must stand in the wheel."""
    names = set()
    for path in tree_files():
        if path.name.endswith(SHIPPED) and path.parent.parts:
            package = package_of(path.parent)
            assert package in SETTINGS["packages"], f"{package} is not listed in pyproject.toml"
            names.add(f"{package.replace('.', '/')}/{path.name}")
    return names


def test_wheel_is_the_tree(wheel: set[str]) -> None:
    shipped = {name for name in wheel if ".dist-info/" not in name}
    assert shipped == expected()


def test_no_other_root_name_leaks(wheel: set[str]) -> None:
    roots = {name.split("/")[0] for name in wheel}
    assert {root for root in roots if not root.endswith(".dist-info")} == {"aggloom"}


def test_every_package_has_a_folder_and_each_folder_stands_once() -> None:
    folders = {package_of(path.parent) for path in tree_files() if path.suffix in {".py", ".j2"}}
    assert folders == set(SETTINGS["packages"])
    assert set(SETTINGS["package-dir"]) <= {"aggloom", *(p for p in folders if p.count(".") == 1)}
