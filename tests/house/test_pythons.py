"""Each Python that CI runs has versions to install, and these are what pyproject.toml asks for."""

from __future__ import annotations

import re
import tomllib
from itertools import chain
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
CONSTRAINTS = sorted((ROOT / ".ci").glob("constraints-*.txt"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def versions_in(path: Path) -> dict[str, str]:
    """Return the versions that a file of constraints pins, by package."""
    pins = (line.split("==") for line in path.read_text().splitlines())
    return {canonicalize_name(name): version for name, version in pins}


def test_every_python_of_ci_has_constraints() -> None:
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())["jobs"]
    pythons = set(jobs["quick"]["strategy"]["matrix"]["python"])
    pythons |= {
        step["with"]["python-version"]
        for step in jobs["all"]["steps"]
        if "setup-python" in step.get("uses", "")
    }
    assert {path.stem for path in CONSTRAINTS} == {f"constraints-{each}" for each in pythons}
    least = re.fullmatch(r">=(3\.\d+)", PROJECT["requires-python"])
    assert least is not None and least[1] in pythons


@pytest.mark.parametrize("path", CONSTRAINTS, ids=lambda path: path.stem)
def test_constraints_are_what_the_project_asks_for(path: Path) -> None:
    listed = chain(PROJECT["dependencies"], *PROJECT["optional-dependencies"].values())
    asked = [each for each in map(Requirement, listed) if canonicalize_name(each.name) != "aggloom"]
    versions = versions_in(path)
    # Up to Python 3.11, `pip freeze` lists no setuptools.
    named = {canonicalize_name(each.name) for each in asked} - {"setuptools"}
    assert named <= versions.keys()
    wrong = [
        f"{each} but {versions[canonicalize_name(each.name)]}"
        for each in asked
        if canonicalize_name(each.name) in versions
        and not each.specifier.contains(versions[canonicalize_name(each.name)])
    ]
    assert wrong == []
