"""The rule `loop_indexing` against a plain loop over names."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

from hypothesis import given
from hypothesis import strategies as st

from profframe.query.catalogue import advice
from profframe.query.run import run
from tests.cases import connected

ROUNDS: Final = 3
OPS: Final = 3
SELECT: Final = "aten::select"
ADVICE: Final = advice()
RULE: Final = ADVICE.only([rule for rule in ADVICE.rules if rule.name == "loop_indexing"])


def loops(names: list[str]) -> list[list[int]]:
    """Places of the selects that begin the rounds of each loop."""
    begins = [
        place
        for place, name in enumerate(names)
        if name == SELECT and (place == 0 or names[place - 1] != SELECT)
    ]
    rounds = [names[a:b] for a, b in pairwise([*begins, len(names)])]
    found = []
    first = 0
    while first < len(rounds):
        words = rounds[first]
        behind = first
        while behind < len(rounds) and rounds[behind] == words:
            behind += 1
        before = names[: begins[first]]
        lead = next(
            (n for n in range(len(words) - 1, 0, -1) if before[-n:] == words[-n:]),
            0,
        )
        needed = words[: len(words) - lead]
        places = begins[first:behind]
        if behind < len(rounds) and rounds[behind][: len(needed)] == needed:
            places.append(begins[behind])
        if len(words) <= OPS and len(places) >= ROUNDS:
            found.append(places)
        first = behind
    return found


ROUND: Final = st.lists(st.sampled_from(["a", "b"]), max_size=3).map(lambda ops: [SELECT, *ops])
NAMES: Final = st.lists(
    st.tuples(ROUND, st.integers(1, 4)).map(lambda pair: pair[0] * pair[1]), max_size=8
).map(lambda parts: [name for part in parts for name in part])


@given(names=NAMES, lead=st.lists(st.sampled_from(["a", "b"]), max_size=2))
def test_loops_are_those_of_a_plain_loop(names: list[str], lead: list[str]) -> None:
    names = [*lead, *names]
    rows: list[dict[str, object]] = [
        {
            "run": "r",
            "rank": 0,
            "thread": 0,
            "event_id": place,
            "kind": "host_op",
            "name": name,
            "start_ns": place,
            "dur_ns": 1,
            "preorder": place,
            "last_descendant_id": place,
        }
        for place, name in enumerate(names)
    ]
    parameters = {"loop_indexing_rounds": ROUNDS, "loop_indexing_ops": OPS}
    findings = run(connected({"events": rows}), RULE, parameters).fetchall()
    evidence = sorted(place for row in findings for place in row[5])
    assert evidence == sorted(place for places in loops(names) for place in places)
    assert sum(row[6] for row in findings) == len(evidence)
