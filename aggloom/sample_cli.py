"""The command `aggloom sample`: files to try aggloom with, and the command that runs a query over them."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from aggloom.sample import write_sample

# A file a batch, so that `aggloom why` distinguishes them.
_SETTINGS = "format=debezium-json,schema=customer STRING, amount INT,maxFilesPerTrigger=1"
_NEXT = """
They hold orders, corrections and cancellations. Add them up for each customer:

aggloom run --table {table} \\
    --sql "SELECT customer, COUNT(*) AS orders, SUM(amount) AS spent, MAX(amount) AS largest
           FROM orders GROUP BY customer" \\
    --sink table --checkpoint state/
"""


def show_sample(directory: Path) -> None:
    """Write the files, print where they are, and the command to run next."""
    for path in write_sample(directory):
        click.echo(str(path))
    table = f"orders={directory}/,{_SETTINGS}"
    click.echo(_NEXT.format(table=shlex.quote(table)), nl=False)
