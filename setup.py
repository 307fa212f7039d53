"""The packages of the wheel: each folder of pyproject.toml's `package-dir`, and each folder of modules below it."""

import tomllib
from pathlib import Path

from setuptools import find_packages, setup

HERE = Path(__file__).parent
FOLDERS = tomllib.loads((HERE / "pyproject.toml").read_text("utf-8"))["tool"]["setuptools"][
    "package-dir"
]

setup(
    packages=[
        *FOLDERS,
        *(
            f"{name}.{below}"
            for name, folder in FOLDERS.items()
            for below in find_packages(HERE / folder)
        ),
    ]
)
