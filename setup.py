"""The packages of the wheel: each folder of pyproject.toml's `package-dir`, and each folder of modules below it.

The pages of docs/ go along, for `aggloom docs`.
"""

import shutil
import tomllib
from pathlib import Path

from setuptools import find_packages, setup
from setuptools.command.build_py import build_py

HERE = Path(__file__).parent
FOLDERS = tomllib.loads((HERE / "pyproject.toml").read_text("utf-8"))["tool"]["setuptools"][
    "package-dir"
]
PAGES = ("docs/*.md", "docs/releases/*.md")


class BuildWithPages(build_py):
    """The modules, and the pages below `aggloom/docs`."""

    def run(self) -> None:
        super().run()
        if self.editable_mode:
            return
        for pattern in PAGES:
            for page in HERE.glob(pattern):
                copy = Path(self.build_lib) / "aggloom" / page.relative_to(HERE)
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(page, copy)


setup(
    cmdclass={"build_py": BuildWithPages},
    packages=[
        *FOLDERS,
        *(
            f"{name}.{below}"
            for name, folder in FOLDERS.items()
            for below in find_packages(HERE / folder)
        ),
    ],
)
