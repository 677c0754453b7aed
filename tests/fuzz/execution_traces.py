"""Execution traces with odd values, and with bytes that are flipped, cut, doubled and spliced.

Whatever comes of them, `profframe.load` raises nothing but a `ProfframeError` of one line, and text
that Python's `json` reads has a row for each node that is an object, or a note.
"""

from __future__ import annotations

import gzip
import json
import tempfile
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from random import Random
from typing import Any, Final

import profframe
from tests.fuzz.verbs import check_verb
from tests.unit.test_execution_traces import OPS, ROOTS, node, old, tensor

_ODD: Final[tuple[Any, ...]] = (
    None, True, -1, 0, 1.5, 2**31, 2**62, 2**63, 2**64, -(2**63) - 1, 10**40, "", "x", "7", "NaN",
    "\ud800", "\0", "<b>", "Tensor(", "Tensor(float)", "GenericList[Tensor(float),Tensor(int)]",
    [], [[]], [[[]]], {}, {"a": 1}, {"name": "rf_id", "value": []}, [None] * 7, [1, 2, 3, 4, 5],
    "aten::mm(Tensor(a!)[] self, Tensor(", "(" * 200, "[" * 200, "1.1.1-chakra.0.0.4",
)  # fmt: skip
_BYTES: Final = (
    b"{", b"}", b"[", b"]", b'"', b",", b":", b"\\", b"\\u", b"\x00", b"\xff", b"\xed\xa0\x80",
    b"nan", b"1e999", b"null", b'{"id":', b'"nodes": [', b"[" * 300, b"/*", b"\xef\xbb\xbf",
)  # fmt: skip
_GROUP: Final[dict[str, Any]] = {
    "pg_name": "0", "pg_desc": "default_pg", "pg_size": 4, "collective_name": "allreduce",
    "dtype": "Float", "in_msg_nelems": 6, "out_msg_nelems": 6, "global_rank_start": 0,
    "global_rank_stride": 1,
}  # fmt: skip
_LARGE_SHARE: Final = 0.02
_MANY: Final = 600
"""Copies of the nodes in a file of about a megabyte."""


def case(seed: int) -> None:
    """Load a damaged file, ask a little, and see what is said of it."""
    content = changed(seed)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "et.json")
        path.write_bytes(content)
        try:
            trace = profframe.load(path)
        except profframe.ProfframeError as error:
            told = str(error)
            assert told.startswith(f"{path}: "), told
            assert "\n" not in told, told
        else:
            _check(trace, content)
        if seed % 8 == 0:
            check_verb("info", str(path))


def changed(seed: int) -> bytes:
    """The content of the file."""
    random = Random(seed)  # noqa: S311 - damage, no secret
    document = _document(random)
    for _ in range(random.choice((0, 1, 1, 3, 10))):
        _make_odd(document, random)
    content = json.dumps(document).encode()
    if random.random() < 0.6:
        content = _damaged(content, random)
    if random.random() < 0.1:
        content = gzip.compress(content, 1)
        if random.random() < 0.5:
            content = _damaged(content, random)
    return content


def _check(trace: profframe.Trace, content: bytes) -> None:
    nodes = trace.nodes
    trace.sql("SELECT count(*), min(time_ns) FROM flows")
    trace.sql("SELECT count(*) FROM tensors JOIN nodes USING (run, rank, node_id)")
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        return
    rows = document.get("nodes") if isinstance(document, dict) else None
    if isinstance(rows, list) and trace.traces["format"].to_list() == ["execution_trace"]:
        objects = sum(isinstance(row, dict) for row in rows)
        left = trace.quality["events"].sum() or 0
        assert objects - left <= nodes.height <= objects, (objects, left, nodes.height)


def _document(random: Random) -> dict[str, Any]:
    nodes = [*ROOTS, *OPS, node(7, "record_param_comms", [tensor(13)], parent=2, **_GROUP)]
    form = random.choice((dict, dict, old))
    copies = _MANY if random.random() < _LARGE_SHARE else random.choice((1, 1, 3))
    version = random.choice(("1.0.1", "1.0.2-chakra.0.0.4", "1.1.1-chakra.0.0.4"))
    rows = [form(json.loads(json.dumps(row))) for _ in range(copies) for row in nodes]
    if copies > 1 and random.random() < 0.8:
        for number, row in enumerate(rows, 1):
            row["id"] = number
    return {"schema": version, "pid": 7, "time": "", "start_ts": 5, "nodes": rows}


def _make_odd(document: dict[str, Any], random: Random) -> None:
    """Replace, remove or add one value, anywhere."""
    node = random.choice(document["nodes"] or [document])
    inside = node if isinstance(node, dict | list) and node else document
    places = [*_places(random.choice((document, inside)))]
    holder, key = random.choice(places)
    change = random.randrange(5)
    if change == 0 and isinstance(holder, dict) and key != "nodes":
        del holder[key]
    elif change == 1 and isinstance(holder, dict):
        holder[random.choice(("ctrl_deps", "attrs", "rf_id", "inputs", "x"))] = deepcopy(
            random.choice(_ODD)
        )
    elif change == 2 and isinstance(holder, list):
        holder.insert(key, deepcopy(random.choice(_ODD)))
    elif key != "nodes":
        holder[key] = deepcopy(random.choice(_ODD))


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every place of a value, of no more than a few nodes."""
    items = value.items() if isinstance(value, dict) else enumerate(value[:9])
    for key, item in [*items]:
        yield value, key
        if isinstance(item, dict | list):
            yield from _places(item)


def _damaged(content: bytes, random: Random) -> bytes:
    text = bytearray(content)
    for _ in range(random.choice((1, 1, 2, 5, 20))):
        at = random.randrange(len(text) + 1)
        size = random.choice((1, 1, 2, 8, 60, 500))
        change = random.randrange(5)
        if change == 0:
            text[at : at + 1] = bytes([random.randrange(256)])
        elif change == 1:
            del text[at : at + size]
        elif change == 2:
            text[at:at] = random.choice(_BYTES)
        elif change == 3:
            other = random.randrange(len(text) + 1)
            text[at:at] = text[other : other + size]
        elif random.random() < 0.3:
            del text[at:]
    return bytes(text)
