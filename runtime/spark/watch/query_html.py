"""A running query in a notebook: what it has counted until it is looked at."""

from __future__ import annotations

from pyspark.errors import PySparkException
from pyspark.sql.streaming.query import StreamingQuery

from aggloom.display import html_block, html_line
from aggloom.masking import mask_secrets
from aggloom.runtime.spark.plan.metrics import progress


def add_notebook_view(query: StreamingQuery) -> StreamingQuery:
    """The query, which notebooks show from now on with its counts: they ask for a method of this name."""

    def html() -> str:
        return query_html(query)

    query._repr_html_ = html
    return query


def query_html(query: StreamingQuery) -> str:
    """Return, as HTML, whether a query runs, waits, has ended or failed, and its counts so far."""
    counts = progress(query)._repr_html_()
    return html_block(html_line(f"query {query.name or query.id}: {_state(query)}"), counts)


def _state(query: StreamingQuery) -> str:
    try:
        failure = query.exception()
        if failure is not None:
            return f"failed: {mask_secrets(str(failure).strip().splitlines()[0])}"
        return str(query.status["message"]) if query.isActive else "ended"
    except PySparkException as error:
        # Its session has ended.
        return mask_secrets(str(error).strip().splitlines()[0])
