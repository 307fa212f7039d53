"""A script with tables of its own as jobs: `CREATE TABLE .. WITH (..)`, `INSERT INTO .. SELECT ..`, `EXPLAIN`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from aggloom.codegen import insertions, read_script
from aggloom.connectors import sink_of, source_of
from aggloom.errors import SpecError
from aggloom.job import Job, check_job
from aggloom.job_plan import explain_job


def jobs_of(
    job: Job, folder: Path | None = None, *, alone: bool = False
) -> tuple[list[Job], list[str]]:
    """A job for each query of a job's script, and the plans that EXPLAIN asks for.

    folder: to what paths in WITH are relative. What goes INTO a table has its checkpoint under that table's name, so
    that a script may get further queries. alone: without Spark a query may read no table, and needs no checkpoint.
    Raises SpecError and its kin, with the place in the text.
    """
    jobs, plans = list[Job](), list[str]()
    for text in insertions(job.sql):
        script = read_script(text)
        table_names = {table.name.casefold() for table in job.tables}
        streams = [
            source_of(table, folder, job.dialect)
            for name, table in script.streams.items()
            if name.casefold() not in table_names
        ]
        one = replace(job, sql=text, tables=(*job.tables, *streams))
        if script.explains is not None:
            plans.append(explain_job(one, ordered=alone))
            continue
        if script.target is None:
            jobs.append(check_job(one, "run"))
            continue
        if job.sink != Job.sink:
            raise SpecError(
                "the script says with INSERT INTO where the result goes; leave sink out."
            )
        target_name = script.target.name.casefold()
        for name, table in script.created.items():
            if name.casefold() == target_name:
                place = job.checkpoint and job.checkpoint / name
                sink = sink_of(table, folder)
                whole = replace(one, sink=sink, key=table.key, into=name, checkpoint=place)
                jobs.append(whole if alone else check_job(whole, f"INSERT INTO {name}"))
                break
        else:
            # The planner knows the place in the text, and says it.
            explain_job(one)
    _check_apart(jobs)
    return jobs, plans


def _check_apart(jobs: list[Job]) -> None:
    """Raise SpecError where two jobs go into one table, or write files into one directory."""
    names = [job.checkpoint for job in jobs if job.checkpoint]
    # Each query of a script has its checkpoint below the name of its table, so two of them would write one directory.
    if len(jobs) > 1 and len(set(names)) < len(names):
        raise SpecError(
            "two queries of the script go into one table; give each a table, or UNION ALL them."
        )
    sinks = [job.sink for job in jobs if isinstance(job.sink, str)]
    # Resolved, since `out` and `./out` and a link to it are one directory.
    outputs = [Path(path).resolve() for sink in sinks if (path := sink.partition(":")[2])]
    for output in outputs:
        if outputs.count(output) > 1:
            raise SpecError(
                f"two queries of the script write files into {output}; give each a directory of its own, or UNION ALL "
                "them."
            )
