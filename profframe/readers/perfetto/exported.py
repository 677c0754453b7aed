"""Metadata that profframe adds to its exports, so that they read back unchanged.

Viewers ignore it. An event with such a message is a row; one without is there only for viewers,
such as the ends of slices.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from profframe.intervals import Ints
from profframe.readers.build.row_tables import Batch, RowTable, conform
from profframe.readers.chrome.columns import batch_of
from profframe.readers.chrome.device_args import with_device_args
from profframe.readers.chrome.job import Job, job_of
from profframe.readers.chrome.parsing import members_of_args
from profframe.readers.chrome.session import Session
from profframe.readers.json import exact
from profframe.readers.perfetto.wire import LENGTH, VARINT, Bytes, Fields, fields, texts

EVENT_KEY: Final = 9901
"""Field of an event with a message that says what it was."""
TRACK_KEY: Final = 9901
"""Field of a track with its process and thread, as a JSON list of texts."""
PHASE: Final = 1
DURATION: Final = 2
ID: Final = 3
SCOPE: Final = 4
BINDING_POINT: Final = 5
ARGS: Final = 6
"""Arguments as text, if annotations do not cover all of them."""
BIND_ID: Final = 7
DIRECTION: Final = 8
"""Whether the arrow with that id comes in (1), goes out (2), or both."""
LABELS_KEY: Final = "profframe labels"
"""Metadata with the labels of processes and threads."""
ZERO_KEY: Final = "profframe zero_ns"
"""Metadata with the moment that times count from."""
_SLICE: Final = "X"
_MARK: Final = b"\xea\xea\x04"
"""Tag of a track's process and thread."""


@dataclass
class Exported:
    """Metadata of an exported file.

    Attributes
    ----------
    zero_ns
        The moment that its times count from.
    header
        Members around its events, as Chrome's JSON has them.
    labels
        Labels of processes and threads.
    """

    zero_ns: int
    header: dict[str, Any] = field(default_factory=dict)
    labels: list[Any] = field(default_factory=list)

    @cached_property
    def job(self) -> Job | None:
        """The traces that the file was made from; they are listed before all events."""
        return job_of(self.header)

    def take(self, members: Mapping[str, str]) -> None:
        """Take what a packet says; what is not JSON is ignored."""
        for name, text in members.items():
            value = _loaded(text)
            if name == LABELS_KEY:
                self.labels += value if isinstance(value, list) else []
            elif name != ZERO_KEY:
                self.header[name] = value

    def batch(self) -> Batch:
        """The labels as rows."""
        kept = [label for label in self.labels if isinstance(label, dict)]
        columns: dict[str, list[str | None]] = {
            name: [_text(label.get(name)) for label in kept] for name in ("name", "pid", "tid")
        }
        columns["args"] = [exact.dumps(label.get("args")) for label in kept]
        is_label = [name in _LABELS for name in columns["name"]]
        arrays = {
            name: pa.array(values, pa.string()).filter(pa.array(is_label, pa.bool_()))
            for name, values in columns.items()
        }
        return {RowTable.THREADS: conform(RowTable.THREADS, arrays)} if any(is_label) else {}


_LABELS: Final = (
    "process_name", "process_labels", "process_sort_index", "thread_name", "thread_sort_index",
)  # fmt: skip


def exported_of(members: Mapping[str, str]) -> Exported | None:
    """Parse the metadata of an exported file; None if another program wrote it."""
    zero_ns = _loaded(members.get(ZERO_KEY, ""))
    if type(zero_ns) is not int or not -1 << 62 < zero_ns < 1 << 62:
        return None
    return Exported(zero_ns)


def line_of(text: bytes) -> tuple[str | None, str | None] | None:
    """Process and thread in the description of a track."""
    if _MARK not in text:
        return None
    buffer = np.frombuffer(text + bytes(16), np.uint8)
    parts, _ = fields(buffer, np.array([0]), np.array([len(text)]))
    own = parts.of(TRACK_KEY, LENGTH)
    for at, size in zip(own.value.tolist(), own.size.tolist(), strict=True):
        line = _loaded(text[at : at + size].decode("utf-8", "replace"))
        if isinstance(line, list) and len(line) == 2 and all(map(_is_text, line)):
            return line[0], line[1]
    return None


def rows_of(
    buffer: Bytes,
    parts: Fields,
    members: Mapping[str, pa.Array],
    file: Exported,
    session: Session,
) -> tuple[Batch, int]:
    """Rows of events as they were, and how many of the messages are damaged.

    ``members`` has what else packets and events say: process, thread, time, names, arguments.
    """
    count = len(members["args"])
    messages = parts.of(EVENT_KEY, LENGTH)
    inside, damaged = fields(buffer, messages.value, messages.value + messages.size)
    owner = messages.owner[inside.owner]
    inside = Fields(owner, inside.number, inside.wire, inside.value, inside.size)

    def text(number: int) -> pa.Array:
        chosen = inside.of(number, LENGTH)
        place = np.full(count, -1, np.int64)
        place[chosen.owner] = np.arange(chosen.owner.size)
        return texts(buffer, chosen.value, chosen.size).take(pa.array(place, mask=place < 0))

    duration = inside.of(DURATION, VARINT)
    lacks = np.ones(count, np.bool_)
    lacks[duration.owner] = False
    direction = inside.numbers(DIRECTION, count)
    no_flags = pa.nulls(count, pa.bool_())
    shown = {
        **members,
        "ph": pc.fill_null(text(PHASE), _SLICE),
        "dur_ns": pa.array(inside.numbers(DURATION, count), mask=lacks),
        "id": text(ID),
        "s": text(SCOPE),
        "bp": text(BINDING_POINT),
        **dict.fromkeys(("bad_time", "bad_dur", "rounded"), no_flags),
    }
    if inside.has(BIND_ID, count).any():
        shown["bind_id"] = text(BIND_ID)
        shown |= {"flow_in": _flags(direction, 1), "flow_out": _flags(direction, 2)}
    shown |= members_of_args(pc.coalesce(text(ARGS), members["args"]), session)
    pids = {} if file.job is None else file.job.pids
    return with_device_args(batch_of(shown, pids), session), int(damaged.sum())


def _flags(numbers: Ints, bit: int) -> pa.Array:
    return pa.array(numbers & bit != 0)


def _loaded(text: str) -> Any:
    try:
        return exact.loads(text)
    except (ValueError, RecursionError):
        return None


def _text(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value)


def _is_text(value: object) -> bool:
    return value is None or isinstance(value, str)
