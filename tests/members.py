"""Long lists of parameters: all members in one test, or a few in every run, the rest at night."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest


def in_one(
    members: Iterable[Any], ids: Callable[[Any], str] = str
) -> Callable[[Callable[[Any], None]], Callable[[], None]]:
    """One test for all members, which names each that fails.

    For what takes no time: pytest takes a millisecond for each test of its own.
    """

    def decorate(test: Callable[[Any], None]) -> Callable[[], None]:
        def all_members() -> None:
            wrong = {}
            for member in members:
                try:
                    test(member)
                except AssertionError as error:
                    wrong[ids(member)] = str(error)
            assert not wrong, "\n".join(f"{name}: {why}" for name, why in wrong.items())

        all_members.__name__ = test.__name__
        all_members.__doc__ = test.__doc__
        return all_members

    return decorate


def few(members: Iterable[Any], keep: int | Sequence[Any], *, arguments: int = 1) -> list[Any]:
    """Members as parameters of a test; all but some are `long`.

    Those that are kept are named, or so many of them, evenly from the first to the last. Where a
    test takes several arguments by one list, each member is a tuple of so many.
    """
    all_of_them = list(members)
    if isinstance(keep, int):
        last = len(all_of_them) - 1
        places = {round(n * last / max(keep - 1, 1)) for n in range(keep)}
    else:
        places = {place for place, member in enumerate(all_of_them) if member in keep}
        assert len(places) == len(keep), "a member that is kept is none of them"
    return [
        member
        if place in places
        else pytest.param(*member.values, id=member.id, marks=_long(member))
        for place, member in enumerate(_parameter(member, arguments) for member in all_of_them)
    ]


def _parameter(member: Any, arguments: int) -> Any:
    if hasattr(member, "marks"):
        return member
    return pytest.param(*(member if arguments > 1 else (member,)))


def _long(member: Any) -> list[Any]:
    return [*member.marks, pytest.mark.long]
