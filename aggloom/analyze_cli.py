"""The command `aggloom analyze`: figures of a query, node by node."""

from __future__ import annotations

import json
from typing import Literal

import click

from aggloom.inspect_cli import session_for
from aggloom.options_cli import SingleOption, debug_option, form_option, trust_checkpoint_option


@click.command(cls=SingleOption)
@click.argument("checkpoint")
@click.option(
    "--no-state",
    is_flag=True,
    help="Leave the heaviest keys out. Reading them starts Spark if the checkpoint is Spark's.",
)
@form_option
@trust_checkpoint_option
@debug_option
def analyze(checkpoint: str, no_state: bool, form: Literal["text", "json"], trust: bool) -> None:
    """Show the plan of CHECKPOINT with rows, changes, time and bytes by node, while its query runs or afterwards.

    Also where batches spend their time, the heaviest keys, and which table holds the watermark back.
    """
    spark = None if no_state else session_for(checkpoint)
    from aggloom.runtime.page.analysis import analyze as analyze_checkpoint

    analysis = analyze_checkpoint(checkpoint, with_keys=not no_state, trust=trust, spark=spark)
    if form == "json":
        click.echo(json.dumps(analysis.to_dict(), ensure_ascii=False, indent=2))
    else:
        click.echo(analysis.text(), nl=False)
