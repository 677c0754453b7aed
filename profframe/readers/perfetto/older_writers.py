"""Events of older writers, which are described in the words of Chrome's JSON."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from profframe.intervals import Ints
from profframe.readers.build.begin_end import LOCAL_ID
from profframe.readers.perfetto.wire import LENGTH, VARINT, Bytes, Fields, texts

_NAME_IID: Final = 1
_PHASE: Final = 2
_DURATION_US: Final = 3
_UNSCOPED_ID: Final = 6
_SCOPE: Final = 7
_BIND_ID: Final = 8
_LOCAL_ID: Final = 10
_GLOBAL_ID: Final = 11
_TO_ENCLOSING: Final = 12
_DIRECTION: Final = 13
_PID: Final = 18
_TID: Final = 19
_IN: Final = (1, 3)
_OUT: Final = (2, 3)
"""Directions of arrows that events are on."""


def legacy_members(  # noqa: PLR0917
    inside: Fields,
    owner: Ints,
    type_: Ints,
    members: dict[str, pa.Array],
    names: Callable[[Ints], list[str | None]],
    buffer: Bytes,
) -> dict[str, pa.Array]:
    """Members of all events, with what these messages say about the events that contain them.

    Parameters
    ----------
    inside
        Fields of the messages.
    owner
        The event of each message.
    type_
        The type in each event itself; 0 leaves it to the message.
    members
        What is known about the events.
    names
        Gives interned names of events by their numbers.
    """
    count, size = type_.size, owner.size
    place = np.full(count, -1, np.int64)
    place[owner] = np.arange(size)
    at = pa.array(place, mask=place < 0)

    def spread(values: pa.Array) -> pa.Array:
        return values.take(at)

    phase = inside.numbers(_PHASE, size)
    shown = pa.array([chr(p) if 32 < p < 127 else None for p in phase.tolist()], pa.string())
    duration = inside.numbers(_DURATION_US, size) * 1000
    has_duration = inside.has(_DURATION_US, size)
    changed = {
        "ph": pc.if_else(pa.array(type_ == 0), spread(shown), members["ph"]),
        "dur_ns": spread(pa.array(duration, mask=~has_duration)),
        "name": pc.coalesce(
            members["name"], spread(pa.array(names(inside.numbers(_NAME_IID, size)), pa.string()))
        ),
        "id": spread(_ids(inside, buffer, size)),
        "bp": spread(pa.array(["e" if b else None for b in inside.numbers(_TO_ENCLOSING, size)])),
        "pid": pc.coalesce(spread(_overrides(inside, _PID, size)), members["pid"]),
        "tid": pc.coalesce(spread(_overrides(inside, _TID, size)), members["tid"]),
    }
    bound = inside.has(_BIND_ID, size)
    if bound.any():
        bind_id = inside.numbers(_BIND_ID, size).astype(np.uint64)
        direction = inside.numbers(_DIRECTION, size)
        changed["bind_id"] = spread(pa.array(bind_id, mask=~bound).cast(pa.string()))
        for name, directions in (("flow_in", _IN), ("flow_out", _OUT)):
            is_on = np.isin(direction, directions) & bound
            changed[name] = pc.fill_null(spread(pa.array(is_on)), fill_value=False)
    return changed


def _ids(inside: Fields, buffer: Bytes, size: int) -> pa.Array:
    """Ids of operations and arrows; those that are local to a process are marked."""
    ids = pa.nulls(size, pa.string())
    for number, beginning in ((_UNSCOPED_ID, ""), (_GLOBAL_ID, ""), (_LOCAL_ID, LOCAL_ID)):
        has = inside.has(number, size)
        values = inside.numbers(number, size).view(np.uint64)
        own = pa.array(values, mask=~has).cast(pa.string())
        ids = pc.coalesce(ids, pc.binary_join_element_wise(beginning, own, ""))
    scopes = inside.of(_SCOPE, LENGTH)
    if scopes.owner.size:
        place = np.full(size, -1, np.int64)
        place[scopes.owner] = np.arange(scopes.owner.size)
        scope = texts(buffer, scopes.value, scopes.size).take(pa.array(place, mask=place < 0))
        ids = pc.coalesce(pc.binary_join_element_wise(ids, scope, ":"), ids)
    return ids


def _overrides(inside: Fields, number: int, size: int) -> pa.Array:
    own = inside.of(number, VARINT)
    values = np.zeros(size, np.int64)
    values[own.owner] = own.value
    mask = np.ones(size, np.bool_)
    mask[own.owner] = False
    return pa.array(values, mask=mask).cast(pa.string())
