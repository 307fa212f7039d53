"""The fault simulator: a query under fire must give what it gives undisturbed, batch for batch.

From a seed come a query, its input, and what happens: attempts are killed at any step, stopped and overtaken, tried
again on other hosts; commits are lost; everything restarts; directories for live state vanish, are damaged, or come
back from the past.

    python tests/support/simulator.py --seed 7            one seed, with the script of what happens
    python tests/support/simulator.py --seeds 10000       many
"""

from __future__ import annotations

import argparse
import logging
import multiprocessing
import os
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path

import pytest
from simulated_chaos import disturb, lose_pages
from simulated_queries import Batch, Query, arrow, batches, draw
from simulated_reference import Outputs, Undisturbed, by_key, folded, shown, table_of
from simulated_spark import (
    STEPS,
    Attempt,
    Checkpoint,
    Host,
    PackedRow,
    State,
    Task,
    Timers,
    simulated,
)

from aggloom.runtime.spark.node.partitioning import hash_int
from aggloom.runtime.spark.node.state_files import fetch_row
from aggloom.runtime.storage import arena


class Failure(AssertionError):
    """A run that differs from the undisturbed one."""


class _Restart(Exception):
    """The driver is gone, and every process with it."""


class World:
    """One query under fire, and the script of what happened."""

    def __init__(self, seed: int, directory: Path) -> None:
        self.rng = random.Random(seed)
        self.script: list[str] = []
        self.query: Query = draw(self.rng)
        self.say(f"query: {self.query.name}")
        self.attic = directory / "attic"
        self.attic.mkdir()
        count = self.rng.choice([1, 1, 2, 3])
        self.hosts = [Host(directory / f"host {number}") for number in range(count)]
        self.stopped: list[Attempt] = []
        self.committed: list[State] = [{} for _ in self.query.operators]
        self.candidates: dict[str, list[Attempt]] = {}
        self.fire = self.rng.choice([0.2, 0.5, 0.9])
        kept, file_bytes = self.rng.choice([1, 2, 4]), self.rng.choice([None, 1, 200, 1000])
        self.checkpoint = Checkpoint(directory / "checkpoint", kept, file_bytes)
        self.versions: list[list[State]] = []
        self._tries = 0

    def say(self, what: str) -> None:
        """Note it in the script."""
        self.script.append(what)

    def run(self) -> None:
        """Play every batch; raises Failure."""
        undisturbed, every = Undisturbed(self.query), []
        given = list(batches(self.rng, self.query))
        for batch in given:
            packed = self._pack_rows(batch)
            expected = undisturbed.run(batch, packed)
            self.say(
                f"batch {batch.number}: {sum(map(len, batch.tasks))} rows, now {batch.now}, watermark "
                f"{batch.watermark}, {sum(map(len, expected.values()))} changes"
            )
            if batch is given[-1] and self.rng.random() < 0.5:
                self.say("every directory is deleted")
                for host in self.hosts:
                    self._kill_stopped(host)
                    shutil.rmtree(host.root, ignore_errors=True)
            found = self._batch(batch, packed)
            self._same(batch, expected, found)
            every.append(found)
            self._meanwhile()
            if self._happens(0.3):
                self._restart()
        for host in self.hosts:
            self._kill_stopped(host)
        self._check_table(given, every, undisturbed)

    def _check_table(
        self, given: list[Batch], every: list[Outputs], undisturbed: Undisturbed
    ) -> None:
        """The changes fold to the operators' table, and that is the table of the rows that are there."""
        if not self.query.plain:
            return
        contents = undisturbed.contents()
        if self.query.before and folded(every) != contents:
            raise Failure(f"the changes fold to {folded(every)}, the table is {contents}")
        if not self.query.orphans and contents != table_of(given):
            raise Failure(f"the table is {contents}, of the rows it is {table_of(given)}")

    def _pack_rows(self, batch: Batch) -> list[PackedRow]:
        """The rows of a batch as they leave the map tasks."""
        found = []
        for partition, rows in enumerate(batch.tasks):
            for each in self.query.pack.pack([arrow(self.query, rows)], partition):
                found += [tuple(row.values()) for row in each.to_pylist()]
        return found

    def _batch(self, batch: Batch, packed: list[PackedRow]) -> Outputs:
        """Try a batch until it is committed; its changes."""
        while True:
            self._tries += 1
            try:
                states, outputs = self._nodes(batch, packed)
            except _Restart:
                continue
            if self._happens(0.2):
                self.say("all tasks are done, and the commit is lost")
                self._restart()
                continue
            for committed, state in zip(self.committed, states, strict=True):
                committed |= state
            self.say(f"batch {batch.number} is committed")
            self._check_versions()
            return outputs

    def _check_versions(self) -> None:
        """Each version to which Spark may go back has all its files."""
        self.versions.append([dict(committed) for committed in self.committed])
        for states in self.versions[-self.checkpoint.kept - 1 :]:
            for state in states:
                for bucket in state.values():
                    for row in bucket.values.get("log") or ():
                        fetch_row(row[0], self.checkpoint.root)

    def _nodes(self, batch: Batch, packed: list[PackedRow]) -> tuple[list[State], Outputs]:
        """Run the tasks of every stateful node; what they would commit, and the changes of the last."""
        states, outputs = [], {}
        self.candidates = {}
        for place in range(len(self.query.operators)):
            partitions = self.rng.choice([1, 2, 3])
            tasks = [self._task(batch, place, packed, p, partitions) for p in range(partitions)]
            for task in self.rng.sample(tasks, len(tasks)):
                if task.rows or task.due_timers:
                    self._attempts(task)
            packed, state, outputs = [], {}, {}
            for task in tasks:
                done = self.candidates.get(task.name, [])
                if not done:
                    continue
                # Whose state is uploaded last, and whose rows are taken, need not be the same.
                state |= self.rng.choice(done).written
                taken = self.rng.choice(done).outputs
                if place < len(self.query.operators) - 1:
                    packed += [
                        row[:5]
                        for frames in taken.values()
                        for f in frames
                        for row in f.itertuples(index=False)
                        if row.blob is not None
                    ]
                else:
                    outputs |= self._unpack_outputs(taken)
            states.append(state)
        return states, outputs

    def _unpack_outputs(self, taken: dict[int, list]) -> Outputs:
        found = {}
        for key, frames in taken.items():
            changes = shown(self.query, frames)
            if changes:
                found[key] = changes
        return found

    def _task(
        self, batch: Batch, place: int, packed: list[PackedRow], partition: int, partitions: int
    ) -> Task:
        def here(key: int) -> bool:
            return hash_int(key) % partitions == partition

        return Task(
            f"task {place}.{partition} of {partitions}, try {self._tries}",
            batch.number,
            self.checkpoint,
            self.query.operators[place],
            {key: rows for key, rows in by_key(packed).items() if here(key)},
            Timers(batch.now, batch.watermark),
            {key: bucket for key, bucket in self.committed[place].items() if here(key)},
        )

    def _attempts(self, task: Task) -> None:
        """Run attempts at a task until one is done, and perhaps another."""
        done = self.candidates.setdefault(task.name, [])
        number = 0
        while not done or (number < 4 and self._happens(0.15)):
            if number == 0 or self.rng.random() < 0.3:
                host = self.rng.choice(self.hosts)
            fate = self._fate() if number < 4 else {}
            attempt = Attempt(task, host, fate, random.Random(self.rng.random()))
            self.say(f"{task.name}: attempt {number} on {host.root.name}")
            attempt.run(may_stop=any(happens is _stop for happens in fate.values()))
            self._after(attempt)
            number += 1
            if self._happens(0.3):
                self._meanwhile()
            if self._happens(0.04):
                self._restart()
                raise _Restart

    def _after(self, attempt: Attempt) -> None:
        """An attempt has come to its end, or to a stop."""
        self.say(f"{attempt.task.name}: {attempt.status} on {attempt.host.root.name}")
        if attempt.status == "stopped":
            self.stopped.append(attempt)
        if attempt.status == "done" and attempt.task.name in self.candidates:
            self.candidates[attempt.task.name].append(attempt)

    def _fate(self) -> dict:
        """Draw the faults of an attempt, by step."""
        if self.rng.random() > self.fire:
            return {}
        kinds = [_die, _die, _stop, _stop, self._disturb_running]
        count = self.rng.choice([1, 2, 3, 5])
        steps = [
            (self.rng.choice(STEPS), self.rng.choice([1, 1, 1, 2, 3, 9])) for _ in range(count)
        ]
        return {step: self.rng.choice(kinds) for step in steps}

    def _disturb_running(self, attempt: Attempt, name: str) -> None:
        self.say(f"  at {name!r} on {attempt.host.root.name}:")
        self._disturb(attempt.host, idle=False)

    def _disturb(self, host: Host, idle: bool) -> None:
        self.say(f"  {host.root.name}: {disturb(self.rng, host.root, idle, self.attic)}")

    def _meanwhile(self) -> None:
        """Between attempts: stopped ones go on or are killed, and directories suffer."""
        for attempt in list(self.stopped):
            if self.rng.random() < 0.5:
                self.stopped.remove(attempt)
                die = self.rng.random() < 0.3
                self.say(f"{attempt.task.name} {'is killed' if die else 'goes on'}")
                attempt.resume(die)
                self._after(attempt)
        if self._happens(0.3):
            host = self.rng.choice(self.hosts)
            self._disturb(host, not any(each.host is host for each in self.stopped))

    def _restart(self) -> None:
        """Every process is gone; hosts may have started anew."""
        self.say("restart")
        self.candidates = {}
        for host in self.hosts:
            self._kill_stopped(host)
            if self.rng.random() < 0.4:
                host.boot = f"boot {self.rng.random()}"
                lose_pages(self.rng, host.root)
                self.say(f"  {host.root.name} has crashed and started anew")
            if self._happens(0.3):
                self._disturb(host, True)

    def _kill_stopped(self, host: Host) -> None:
        for attempt in [each for each in self.stopped if each.host is host]:
            self.stopped.remove(attempt)
            attempt.resume(die=True)

    def _happens(self, chance: float) -> bool:
        return self.rng.random() < chance * self.fire

    def _same(self, batch: Batch, expected: Outputs, found: Outputs) -> None:
        """Raise Failure unless a batch has given what it should."""
        for key in sorted({*expected, *found}):
            if expected.get(key) != found.get(key):
                raise Failure(
                    f"batch {batch.number}, bucket {hash_int(key)}:\n  expected {expected.get(key)}\n"
                    f"  found    {found.get(key)}"
                )


def _die(attempt: Attempt, name: str) -> None:
    attempt.die(name)


def _stop(attempt: Attempt, name: str) -> None:
    attempt.stop(name)


def play(seed: int) -> None:
    """Run a seed; raises Failure with the script of what happened, and how to run it again."""
    rng = random.Random(-seed)
    base = Path("/dev/shm") if Path("/dev/shm").is_dir() else None
    directory = Path(tempfile.mkdtemp(prefix="simulated-", dir=base))
    world = None
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(logging.getLogger("aggloom"), "disabled", True)
            simulated(patch, rng.choice([2, 4, 256]), rng.choice([200, 1000, 1 << 20]))
            # Most arrays here are small, so that few would lie in files of their own.
            patch.setattr(arena, "OWN_FILE", 1 if seed % 4 else arena.OWN_FILE)
            world = World(seed, directory)
            world.run()
    except Exception as e:
        script = "\n".join(world.script) if world else ""
        again = f"again: make simulate SEED={seed}"
        raise Failure(f"seed {seed}\n{script}\n{type(e).__name__}: {e}\n{again}") from e
    finally:
        for each in world.stopped if world else ():
            each.resume(die=True)
        shutil.rmtree(directory, ignore_errors=True)


def told(seed: int) -> str | None:
    """Play a seed; return its failure, or None."""
    try:
        play(seed)
    except Failure as e:
        return str(e)
    return None


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="A query under fire, by the seed.")
    parser.add_argument("--seed", type=int, help="one seed, and the script of what happens")
    parser.add_argument("--seeds", type=int, default=1000, help="how many")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes")
    asked = parser.parse_args()
    if asked.seed is not None:
        play(asked.seed)
        print(f"seed {asked.seed}: nothing lost, nothing twice")
        return
    start, failed = time.perf_counter(), 0
    seeds = range(asked.first, asked.first + asked.seeds)
    with multiprocessing.get_context("spawn").Pool(asked.jobs) as pool:
        for number, trouble in enumerate(pool.imap(told, seeds, chunksize=10), 1):
            if trouble:
                failed += 1
                print(trouble, file=sys.stderr)
            if number % 1000 == 0 or number == len(seeds):
                took = time.perf_counter() - start
                print(f"{number} seeds in {took:.0f} s, {failed} failed", flush=True)
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
