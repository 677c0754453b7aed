"""What other distributions offer by entry points; nothing is looked up until it is needed."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from types import MappingProxyType


@cache
def plugins(group: str) -> Mapping[str, EntryPoint]:
    """The entry points of a group, by name; the first distribution that has a name counts.

    Examples
    --------
    >>> plugins("profframe.no_such_group")
    mappingproxy({})
    """
    points = sorted(entry_points(group=group), key=lambda point: (point.name, owner(point)))
    first = {point.name: point for point in reversed(points)}
    return MappingProxyType(dict(sorted(first.items())))


def owner(point: EntryPoint) -> str:
    """The distribution of an entry point, with its version, for messages."""
    return (
        "an unnamed distribution"
        if point.dist is None
        else f"{point.dist.name} {point.dist.version}"
    )
