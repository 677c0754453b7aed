"""``key_averages`` against torch written out in plain Python: filter, nest, merge, add up."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from profframe.query.catalogue import find
from profframe.query.run import run
from tests.cases import Rows, connected

INTERNAL = "aten::is_leaf"


@dataclass
class Op:
    """One op of a tree; its duration is its own time and that of its children."""

    name: str
    self_ns: int
    children: list[Op]
    event_id: int = -1
    start_ns: int = 0
    merged_into: int | None = None
    parent_id: int | None = None
    dur_ns: int = field(init=False)

    def __post_init__(self) -> None:
        self.dur_ns = self.self_ns + sum(child.dur_ns for child in self.children)


OPS = st.recursive(
    st.builds(Op, st.sampled_from(["f", "g", INTERNAL]), st.integers(0, 9), st.just([])),
    lambda ops: st.builds(
        Op, st.sampled_from(["f", "g", INTERNAL]), st.integers(0, 9), st.lists(ops, max_size=3)
    ),
    max_leaves=12,
)


def number(op: Op, start_ns: int, into: list[Op], parent: Op | None = None) -> None:
    """Give the ops of a tree their ids, starts and parents, in preorder."""
    op.event_id, op.start_ns = len(into), start_ns
    op.parent_id = None if parent is None else parent.event_id
    into.append(op)
    for child in op.children:
        number(child, start_ns, into, op)
        start_ns += child.dur_ns


def kept_children(op: Op) -> list[Op]:
    """Children after the internal ops are filtered out, which lifts their children."""
    return [
        kept
        for child in op.children
        for kept in (kept_children(child) if child.name == INTERNAL else [child])
    ]


def mark_duplicates(op: Op) -> None:
    """Merge an only child of its parent's name into the survivor around it."""
    children = kept_children(op)
    for child in children:
        if op.name == child.name and op.name != INTERNAL and len(children) == 1:
            child.merged_into = op.event_id if op.merged_into is None else op.merged_into
        mark_duplicates(child)


def averages_by_hand(roots: list[Op]) -> dict[str, tuple[int, int, int]]:
    """Calls, time and self time by name: the self time is what torch's children leave."""
    sums: dict[str, tuple[int, int, int]] = {}

    def surviving_children(op: Op) -> list[Op]:
        return [
            survivor
            for child in kept_children(op)
            for survivor in ([child] if child.merged_into is None else surviving_children(child))
        ]

    def add(op: Op) -> None:
        children = surviving_children(op)
        if op.name != INTERNAL and op.merged_into is None:
            calls, total, own = sums.get(op.name, (0, 0, 0))
            left = op.dur_ns - sum(child.dur_ns for child in children)
            sums[op.name] = (calls + 1, total + op.dur_ns, own + left)
        for child in children:
            add(child)

    for root in roots:
        add(root)
    return sums


@given(st.lists(st.lists(OPS, max_size=3), min_size=1, max_size=8))
def test_as_torch_does(drawn: list[list[Op]]) -> None:
    """Each run has a tree of its own: several are asked for at once."""
    roots = {f"r{place}": Op("root", 1, trees) for place, trees in enumerate(drawn)}
    rows: Rows = []
    for run_name, root in roots.items():
        ops: list[Op] = []
        number(root, 0, ops)
        mark_duplicates(root)
        rows += rows_of(run_name, ops)
    relation = run(connected({"events": rows}), find("key_averages"))
    found = relation.project("run, name, calls, cpu_ns, self_cpu_ns").fetchall()
    assert {(name, op): tuple(sums) for name, op, *sums in found} == {
        (name, op): sums
        for name, root in roots.items()
        for op, sums in averages_by_hand([root]).items()
    }


def rows_of(run_name: str, ops: list[Op]) -> Rows:
    return [
        {
            "run": run_name, "rank": 0, "kind": "host_op", "event_id": op.event_id, "name": op.name,
            "start_ns": op.start_ns, "dur_ns": op.dur_ns, "self_ns": op.self_ns,
            "parent_id": op.parent_id, "merged_into": op.merged_into,
        }
        for op in ops
    ]  # fmt: skip
