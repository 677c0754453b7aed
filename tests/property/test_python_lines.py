"""Time by line, with libraries on demand, against a plain loop over each nanosecond."""

from __future__ import annotations

from collections import Counter
from typing import Final

from hypothesis import given
from hypothesis import strategies as st

from tests.builders import Row, event, loaded

LIBRARIES: Final = {
    "train.py(1): main": ("own",),
    "data/sets.py(2): __getitem__": ("own",),
    "torch/nn/functional.py(3): linear": ("torch", "torch/nn"),
    "/usr/lib/python3.11/site-packages/torch/optim/adam.py(4): step": ("torch",),
    r"C:\Python\Lib\site-packages\PIL\Image.py(5): open": ("PIL",),
    "/usr/lib/python3.11/random.py(6): random": ("random",),
    "torchvision/datasets/random.py(7): read": ("torchvision", "random"),
    "<built-in method open>": (),
    "aten::mm": (),
}
"""Libraries of each frame, and those without a line."""
INTO: Final = ("none", "all", "torch", "torch/nn", "PIL", "random", "torchvision", "tor", "PI")

FRAME: Final = "python_function"

Slice = tuple[int, int, str]


def category(name: str) -> str:
    return "cpu_op" if "::" in name else FRAME


@st.composite
def nested(draw: st.DrawFn, start: int = 0, end: int = 40, depth: int = 0) -> list[Slice]:
    """Slices of a thread in each other, the outer ones first."""
    slices: list[Slice] = []
    while start < end and draw(st.booleans()):
        begin = draw(st.integers(start, end - 1))
        stop = draw(st.integers(begin + 1, end))
        slices.append((begin, stop, draw(st.sampled_from(sorted(LIBRARIES)))))
        if depth < 5:
            slices += draw(nested(begin, stop, depth + 1))
        start = stop
    return slices


def expected(threads: list[list[Slice]], into: str) -> dict[str, tuple[int, int, int]]:
    """Calls, total and self time of each line."""
    wanted = {"own", into}
    lines = {
        name
        for name, libraries in LIBRARIES.items()
        if wanted.intersection(libraries) or (into == "all" and libraries)
    }
    calls, total, own = Counter[str](), Counter[str](), Counter[str]()
    for slices in threads:
        calls.update(name for _, _, name in slices if name in lines)
        for at in range(40):
            around = [name for begin, end, name in slices if begin <= at < end and name in lines]
            total.update({*around})
            own.update(around[-1:])
    return {name: (calls[name], total[name], own[name]) for name in calls}


@given(st.lists(nested(), min_size=1, max_size=2), st.sampled_from(INTO))
def test_calls_and_times_of_lines(threads: list[list[Slice]], into: str) -> None:
    rows: list[Row] = [
        event(name, begin, end, category=category(name), thread=number)
        for number, slices in enumerate(threads)
        for begin, end, name in slices
    ]
    if not any(row["category"] == FRAME for row in rows):
        return
    lines = loaded(*rows).python_lines(into=into)
    result = {
        row["name"]: (row["calls"], row["total_ns"], row["self_ns"]) for row in lines.to_dicts()
    }
    assert result == expected(threads, into)
