"""Checkpoints with right checksums and wrong contents: heads, frames of the log, descriptions, and files of ours."""

from __future__ import annotations

import copy
import json
import random
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from recorded import Recorded, Single, Variable

from aggloom.errors import AggloomError
from aggloom.runtime.hosting import query_record
from aggloom.runtime.hosting.blobs import is_partial, read_blob, write_blob
from aggloom.runtime.hosting.bucket_store import BucketStore, Head
from aggloom.runtime.hosting.checkpoint_paths import QUERY_FILE
from aggloom.runtime.hosting.framing import DESCRIPTION, LOG, SNAPSHOT, CheckedFrame, Owner, seal
from aggloom.runtime.hosting.framing import unseal as opened
from aggloom.runtime.hosting.journal_files import PLAN_FILE, read_plan
from aggloom.runtime.inspection import FragmentDescription
from aggloom.runtime.inspection.description import reading_description
from aggloom.runtime.page.checkpoints import Watched
from aggloom.runtime.page.views import view_of
from aggloom.runtime.storage.checksums import with_checksum
from aggloom.runtime.values.clock import Clock
from mutated.mutations import mutate
from mutated.queries import feed

_ODD: tuple[Any, ...] = (None, -1, 0, 1, 2**31, 2**63, 10**30, "", "x", "k", [], {}, [1], True, 1.5)


class Base:
    """The checkpoint of a query over some rows, and its fragment."""

    def __init__(self, make: Any, rows: int) -> None:
        harness = make()
        kept, rng, live = Recorded(harness), random.Random(1), {}
        feed(harness, rng, live, False, rows)
        feed(harness, rng, live, False)
        head, log = kept.variables[0]
        self.about = kept.about
        self.head, self.rows = head.rows[0][0], [row[0] for row in log.rows]
        self.fragment = harness.pipeline.fragments[0].spec
        self.handlers = [each.handler_class for each in harness.pipeline.fragments[0].operators]
        self.owner = Owner(self.about["operator"], self.about["digest"], 0, self.about["buckets"])


def use_mutated(base: Base, seed: int) -> None:
    """Change one part of a checkpoint, and do all with it that a restart, `state`, `why` and the page do."""
    rng = random.Random(seed)
    head, rows, about = base.head, list(base.rows), base.about
    way = rng.random()
    if way < 0.1:
        head = json.dumps(_changed(json.loads(head), rng))
    elif way < 0.6:
        place = rng.randrange(len(rows))
        rows[place] = _frame(rows[place], base.owner, rng)
    else:
        about = _changed(copy.deepcopy(about), rng)
        rows[0] = seal(json.dumps(about).encode(), base.owner, DESCRIPTION)
    steps = [
        lambda: _replay(base, head, rows),
        lambda: _describe(base, rows),
        lambda: _show(about, rng),
    ]
    errors = []
    for step in steps:
        try:
            step()
        except AggloomError as error:
            errors.append(error)
    if errors:
        raise errors[0]


def _replay(base: Base, text: str, rows: list[bytes]) -> None:
    """Bring a fragment to the state that the log tells of, and write it."""
    head, log = Single(), Variable()
    head.update((text,))
    log.put([(row,) for row in rows])
    store = BucketStore(head, log, base.owner, json.dumps(base.about))
    found = store.head()
    assert found is not None
    fragment = base.fragment.make(base.handlers)
    store.rebuild(found, fragment)
    fragment.snapshot()
    store.former(found)


def _describe(base: Base, rows: list[bytes]) -> None:
    """Make the fragment again from what the checkpoint says, and replay with it."""
    text = bytes(opened(rows[0], base.owner, DESCRIPTION).payload)
    described = FragmentDescription.parse(text)
    for part in described.parts:
        _ = part.call_names, part.plain_settings, part.key_names
    if described.fragment.handler_specs != base.fragment.handler_specs:
        return
    fragment = described.open(base.handlers, 0)
    head, log = Single(), Variable()
    log.put([(row,) for row in rows])
    owner = replace(
        base.owner, digest=described.digest if isinstance(described.digest, str) else ""
    )
    with reading_description(described.operator):
        BucketStore(head, log, owner, "").rebuild(Head.of(base.head), fragment)


def _show(about: Any, rng: random.Random) -> None:
    """Look at files of ours with the description in them, as a start and the page do."""
    query = query_record.Query((about,), {"HAVING": "n > 1"}, "UTC")
    noted: Any = [{"since": 0, "query": asdict(query)}]
    plan: Any = {"query": "SELECT 1", "described": about, "operators": {"1": "0.0"}}
    if rng.random() < 0.3:
        noted, plan = _changed(copy.deepcopy(noted), rng), _changed(copy.deepcopy(plan), rng)
    with tempfile.TemporaryDirectory() as place:
        root = Path(place)
        (root / "commits").mkdir()
        (root / "commits" / "0").write_text("v1\n{}")
        (root / QUERY_FILE).write_text(with_checksum(json.dumps(noted)))
        (root / PLAN_FILE).write_text(with_checksum(json.dumps(plan)))
        view_of(Watched(0, place))
        with suppress(ValueError):
            read_plan(root)
        found = query_record.read_committed_query(root)
        if found is not None:
            query_record.compare_queries(found, query_record.Query((), {}, "UTC"))
            query_record.changed_above(found, query)


def _frame(blob: bytes, owner: Owner, rng: random.Random) -> bytes:
    """A frame with another header or payload, and a right checksum."""
    content = next(each for each in (SNAPSHOT, LOG, DESCRIPTION) if blob[6] == each)
    frame = opened(blob, owner, content)
    payload = bytes(frame.payload)
    if rng.random() < 0.25:
        return _headed(frame, payload, owner, rng)
    if content == DESCRIPTION:
        payload = _bytes(payload, rng)
    elif content == SNAPSHOT or is_partial(payload):
        payload = mutate(payload, rng)
    elif rng.random() < 0.5:
        payload = _bytes(payload, rng)
    elif payload:
        payload = _rows(payload, rng)
    return _sealed(frame, payload, owner)


def _sealed(frame: CheckedFrame, payload: bytes, owner: Owner) -> bytes:
    return seal(
        payload,
        owner,
        frame.content,
        frame.entry,
        frame.part,
        frame.parts,
        frame.clock,
        frame.input,
    )


def _headed(frame: CheckedFrame, payload: bytes, owner: Owner, rng: random.Random) -> bytes:
    small = rng.choice([0, 1, 2, 2**31, 2**32 - 1])
    large = rng.choice([0, 1, -1, 2**62, -(2**62), 2**63 - 1, -(2**63)])
    name = rng.choice(["entry", "part", "parts", "input", "clock", "content", "watermark"])
    clocks = {"clock": frame.clock._replace(processing=large), "watermark": Clock(0, large)}
    if name in clocks:
        return _sealed(replace(frame, clock=clocks[name]), payload, owner)
    value = rng.randrange(4) if name == "content" else small
    return _sealed(replace(frame, **{name: value}), payload, owner)


def _bytes(data: bytes, rng: random.Random) -> bytes:
    """Bytes of which a few differ, or the end is missing."""
    found = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 8])):
        if found:
            found[rng.randrange(len(found))] = rng.choice(
                [0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)]
            )
    return bytes(found[: rng.randrange(len(found) + 1)] if rng.random() < 0.1 else found)


def _rows(blob: bytes, rng: random.Random) -> bytes:
    """A stream of Arrow's that is one, of other rows: other kinds, types, columns, NULL, or texts that are none."""
    batches = [batch for batch, _ in read_blob(blob)]
    batch = batches[0]
    columns, names = list(batch.columns), list(batch.schema.names)
    place = rng.randrange(len(columns))
    way = rng.random()
    if way < 0.2:
        columns[-1] = pa.array([rng.randint(-128, 127)] * len(batch), pa.int8())
    elif way < 0.4:
        del columns[place], names[place]
    elif way < 0.6:
        columns[place] = pa.nulls(len(batch), columns[place].type)
    elif way < 0.8:
        kind = rng.choice([pa.int64(), pa.string(), pa.binary(), pa.float64(), pa.null()])
        columns[place] = pa.nulls(len(batch), kind)
    else:
        columns[place] = _texts(columns[place], rng)
    whole = pa.RecordBatch.from_arrays(columns, names=names)
    return write_blob(whole.schema, [(whole, rng.randbytes(rng.randrange(20)))])


def _texts(column: pa.Array, rng: random.Random) -> pa.Array:
    """A column of texts with bytes that are not UTF-8; another as it is."""
    if not pa.types.is_string(column.type):
        return column
    data = pa.array([rng.randbytes(3) for _ in range(len(column))], pa.binary())
    return pa.Array.from_buffers(pa.string(), len(data), data.buffers())


def _changed(data: Any, rng: random.Random) -> Any:
    """JSON data of which one value somewhere differs, is missing, or has another name."""
    for _ in range(rng.choice([1, 1, 2])):
        places = list(_places(data))
        if not places:
            return rng.choice(_ODD)
        inner, key = rng.choice(places)
        way = rng.random()
        if way < 0.15:
            del inner[key]
        elif way < 0.3 and isinstance(inner[key], int) and not isinstance(inner[key], bool):
            inner[key] += rng.choice([1, -1, 100, -(2**40)])
        elif way < 0.4:
            inner[key] = copy.deepcopy(rng.choice(places)[0])
            if len(json.dumps(data)) > 1 << 20:
                return data
        else:
            inner[key] = rng.choice(_ODD)
    return data if rng.random() < 0.98 else rng.choice(_ODD)


def _places(data: Any) -> list[tuple[Any, Any]]:
    """Every place of a value in JSON data."""
    found: list[tuple[Any, Any]] = []
    waiting = [data]
    while waiting:
        inner = waiting.pop()
        pairs = inner.items() if isinstance(inner, Mapping) else enumerate(inner)
        for key, value in pairs:
            found.append((inner, key))
            if isinstance(value, dict | list):
                waiting.append(value)
    return found
