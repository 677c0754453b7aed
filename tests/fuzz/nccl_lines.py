"""Files of NCCL's Inspector and example profiler, damaged and odd: `pickles` says what has to hold.

Besides, each line of an Inspector's file is a row, or counted.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Mapping
from copy import deepcopy
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, Final

import profframe
from examples.synthetic_nccl import VERSIONS, Job, inspector_lines
from tests.fuzz.pickles import damaged, main, read

NAME: Final = "node-a-pid1.log"
_FORMS: Final = (*VERSIONS, "brief", "example")
_HOSTILE: Final = "</script>'; DROP TABLE x; \x1b[31m\u202e\"\\"
_ODD: Final[tuple[Any, ...]] = (
    None, True, -1, 0, 2**31, 2**63, 2**64, -(2**63), 1.5, 1e300, float("nan"), float("-inf"), "",
    "7", _HOSTILE, "x" * 5000, [], [1], {}, {"id": 1}, [[[[[[[[]]]]]]]], "v4.2", "0x1", 10**40,
)  # fmt: skip


def case(seed: int) -> None:
    """Load one."""
    text = content(seed)
    read(NAME, text, seed)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, NAME)
        path.write_bytes(text)
        try:
            trace = profframe.load(path)
        except profframe.ProfframeError:
            return
        if {*trace.traces["format"]} != {"nccl_inspector"}:
            return
        lines = [line for line in text.decode(errors="replace").split("\n") if line.strip()]
        assert trace.traces["source_events"].sum() == len(lines)
        rows = trace.recorded_collectives.height
        assert rows == len(lines) or trace.quality.height or {*trace.traces["accounted"]}
        accounted = [json.loads(row) for row in trace.traces["accounted"]]
        assert sum(row.get("recorded_collectives", 0) for row in accounted) == rows
        lost = sum(row.get("dropped", 0) for row in accounted)
        assert not lost or trace.quality.height, accounted
        if seed % 20 == 0:
            for name in ("collectives", "stragglers", "collective_traffic", "clock_skew"):
                trace.answer(name)
            trace.answer("collectives", per="size")
            str(trace)


def content(seed: int) -> bytes:
    """The bytes of a seed."""
    random = Random(seed)  # noqa: S311 - damage, no secret
    form = random.choice(_FORMS)
    if random.random() < 0.5:
        return damaged(_sound(form), random)
    lines = json.loads(json.dumps(_values(form)))
    for _ in range(random.choice((1, 1, 3, 10, 40))):
        at = random.randrange(len(lines))
        change = random.randrange(6)
        if change == 0:
            del lines[at]
        elif change == 1:
            lines.insert(random.randrange(len(lines)), deepcopy(lines[at]))
        else:
            _change(lines[at], random)
        if not lines:
            break
    texts = [json.dumps(line) for line in lines]
    if random.random() < 0.3 and texts:
        at = random.randrange(len(texts))
        texts[at] = _doubled(texts[at], random)
    if random.random() < 0.1 and texts:
        depth = random.choice((20, 2000, 200_000))
        texts[random.randrange(len(texts))] = '{"header":' * depth + "1" + "}" * depth
    if form == "example":
        return ("[\n" + ",\n".join(texts) + ",\n{}]\n").encode()
    return "".join(text + "\n" for text in texts).encode()


def _change(line: Any, random: Random) -> None:
    """Another value of one member, or without it."""
    holders = [line, *(value for value in _objects(line) if value)]
    holder = random.choice(holders)
    if not isinstance(holder, dict) or not holder:
        return
    key = random.choice([*holder])
    change = random.randrange(4)
    if change == 0:
        del holder[key]
    elif change == 1:
        holder[random.choice((_HOSTILE, "coll_perf", "header", "dump_stats"))] = deepcopy(
            holder[key]
        )
    else:
        holder[key] = deepcopy(random.choice(_ODD))


def _objects(value: Any) -> list[dict[str, Any]]:
    parts: list[Any] = []
    if isinstance(value, Mapping):
        parts = [*value.values()]
    elif isinstance(value, list):
        parts = value
    own = [part for part in parts if isinstance(part, dict)]
    return [*own, *(inner for part in parts for inner in _objects(part))]


def _doubled(text: str, random: Random) -> str:
    """A line with a member that is there twice."""
    places = [at for at, sign in enumerate(text) if sign == "{" and text[at + 1 : at + 2] == '"']
    if not places:
        return text
    at = random.choice(places) + 1
    name = text[at : text.index('"', at + 1) + 1]
    return f"{text[:at]}{name}: {json.dumps(random.choice(_ODD))}, {text[at:]}"


@cache
def _values(form: str) -> list[dict[str, Any]]:
    if form == "example":
        return _example()
    version = "v4.3" if form == "brief" else form
    return [*inspector_lines(Job(3), 5, version, is_verbose=form != "brief")]


def _example() -> list[dict[str, Any]]:
    """What the example plugin writes of some calls."""
    events: list[dict[str, Any]] = []
    for number, call in enumerate(Job(2).of(0)):
        common = {"ph": "b", "id": number, "pid": 1, "tid": 1, "ts": call.start}
        args: dict[str, Any] = {"CommHash": call.group.hash, "Rank": 0, "Count": call.size // 4}
        args |= {"Datatype": "ncclFloat32", "nChannels": 1}
        args |= {"Peer": call.peer} if call.is_p2p else {"SeqNum": call.number}
        clock = {"StartGpuClk": call.start * 1000, "StopGpuClk": call.stop * 1000}
        cat = "P2P" if call.is_p2p else "COLL"
        name = "Send" if call.is_p2p else "AllReduce"
        end = {**common, "ph": "e", "ts": call.stop}
        events += [
            {"name": name, "cat": cat, **common, "args": args},
            {"name": "KernelCh", "cat": "GPU", **common, "args": {"Channel": 0, **clock}},
            {"name": "KernelCh", "cat": "GPU", **end},
            {"name": name, "cat": cat, **end},
        ]
    return events


@cache
def _sound(form: str) -> bytes:
    texts = [json.dumps(line) for line in _values(form)]
    if form == "example":
        return ("[\n" + ",\n".join(texts) + ",\n{}]\n").encode()
    return "".join(text + "\n" for text in texts).encode()


if __name__ == "__main__":
    main(content, NAME, sys.argv[1:])
