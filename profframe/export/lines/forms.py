"""Two forms of an exported event: a line of JSON, or a row of columns."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Final, Protocol

LINE: Final = "line"
"""The one column of a query of lines."""


@dataclass(frozen=True, slots=True)
class Event:
    """The members of an event, each as SQL; None for what it does not have.

    Attributes
    ----------
    phase, category, name, pid, tid, scope, binding_point
        Texts.
    thread
        Number of its thread, instead of ``pid`` and ``tid``.
    time_ns, dur_ns
        Nanoseconds, on the clock of the file.
    id
        Id that is known outside its process; ``counter_id`` is that of a counter.
    operation
        Id of an operation, which may be known only in its process.
    arrow
        Whether it names an arrow among its arguments.
    mark
        More members of JSON.
    args
        JSON text.
    number
        The ``event_id`` of a slice.
    """

    phase: str
    time_ns: str
    category: str | None = None
    name: str | None = None
    pid: str | None = None
    tid: str | None = None
    thread: str | None = None
    dur_ns: str | None = None
    id: str | None = None
    counter_id: str | None = None
    operation: str | None = None
    scope: str | None = None
    binding_point: str | None = None
    arrow: str | None = None
    mark: str | None = None
    args: str | None = None
    number: str | None = None


class Form(Protocol):
    """A form of events."""

    names: str
    """Columns of its queries."""

    def selected(self, event: Event) -> str:
        """What a query of such events selects."""


class Json:
    """A line of text, which begins with a comma; see `json_macros`. concat() leaves out NULL.

    Examples
    --------
    >>> Json().selected(Event("'i'", "time_ns", name="name"))[-38:]
    ", at_time(time_ns, NULL), '}') AS line"
    """

    names = LINE

    def selected(self, event: Event) -> str:
        """What a query of such events selects."""
        pid, tid = event.pid or "NULL", event.tid or "NULL"
        category, name = event.category or "NULL", event.name or "NULL"
        members = [f"""',\n{{"ph":' || coalesce(to_json({event.phase}), 'null')"""]
        if event.thread is None:
            members.append(f"common({category}, {name}, {pid}, {tid})")
        else:
            members += [
                f"common({category}, {name}, NULL, NULL)",
                f"getvariable('thread_keys')[{event.thread} + 1]",
            ]
        members.append(f"at_time({event.time_ns}, {event.dur_ns or 'NULL'})")
        if event.scope is not None:
            members.append(f"""',"s":' || to_json({event.scope})""")
        if event.id is not None:
            members.append(f"""',"id":' || shared_id({event.id})""")
        if event.counter_id is not None:
            members.append(f"""',"id":' || ident({event.counter_id})""")
        if event.operation is not None:
            members.append(f"operation({event.operation}, args)")
        if event.binding_point is not None:
            members.append(f"""',"bp":' || to_json({event.binding_point})""")
        if event.arrow is not None:
            members.append(_ARROW.format(event.arrow))
        if event.mark is not None:
            members.append(event.mark)
        members.append("'}'" if event.args is None else f"with_args({event.args})")
        return f"concat({', '.join(members)}) AS {LINE}"


_ARROW: Final = """
    CASE WHEN {} THEN concat(',"bind_id":' || (args->'$.bind_id')::VARCHAR,
                             ',"flow_in":' || (args->'$.flow_in')::VARCHAR,
                             ',"flow_out":' || (args->'$.flow_out')::VARCHAR) ELSE '' END"""
_COLUMNS: Final[dict[str, str]] = {
    "phase": "VARCHAR",
    "category": "VARCHAR",
    "name": "VARCHAR",
    "pid": "VARCHAR",
    "tid": "VARCHAR",
    "time_ns": "BIGINT",
    "dur_ns": "BIGINT",
    "id": "VARCHAR",
    "scope": "VARCHAR",
    "binding_point": "VARCHAR",
    "bind_id": "VARCHAR",
    "flow_in": "BOOLEAN",
    "flow_out": "BOOLEAN",
    "args": "VARCHAR",
    "number": "BIGINT",
}


class Columns:
    """A row of columns, with ids as texts."""

    names = ", ".join(_COLUMNS)

    def selected(self, event: Event) -> str:
        """What a query of such events selects."""
        given = {field.name: getattr(event, field.name) for field in fields(event)}
        if event.thread is not None:
            for name in ("pid", "tid"):
                given[name] = f"getvariable('thread_{name}s')[{event.thread} + 1]"
        if event.id is not None:
            given["id"] = f"shared_text({event.id})"
        if event.counter_id is not None:
            given["id"] = event.counter_id
        if event.operation is not None:
            given["id"] = f"operation_text({event.operation}, args)"
        if event.arrow is not None:
            for name in ("bind_id", "flow_in", "flow_out"):
                given[name] = f"CASE WHEN {event.arrow} THEN args->>'$.{name}' END"
        return ", ".join(
            f"({given.get(name) or 'NULL'})::{type_} AS {name}" for name, type_ in _COLUMNS.items()
        )


JSON: Final = Json()
COLUMNS: Final = Columns()
