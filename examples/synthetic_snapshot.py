"""Make up a memory snapshot as torch 2.14 writes them: synthetic, no machine ran it.

The example file is made by it, from the repository's root::

    python -m examples.synthetic_snapshot examples/snapshot.pickle

It has what `torch.cuda.memory._record_memory_history(record_pinned_host_memory=True)` records and
`_dump_snapshot(augment_with_fx_traces=True)` writes. Each of three steps runs compiled code, which
keeps what backward needs; a program labels its memory with `_set_memory_metadata`, and a tensor
with `_annotate_tensor`. A CUDA graph has a pool of its own. The loader pins a batch in each step,
and never lets go of it.
"""

from __future__ import annotations

import argparse
import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

STEPS: Final = 3
STEP_US: Final = 10_000
BASE_US: Final = 1_790_000_000_000_000
MIB: Final = 1 << 20
PARAMETERS, GRAPH, ADDMM, GELU = (0x7F00_0000_0000 + i * 128 * MIB for i in range(4))
PINNED: Final = 0x7E00_0000_0000
Row = dict[str, Any]


def frame(name: str, file: str, line: int, **more: str) -> Row:
    """A frame of a stack."""
    return {"filename": file, "name": name, "line": line, **more}


def node(name: str, line: int, target: str, source: str) -> Row:
    """A frame of code that FX generated, with the node that its line is of."""
    return frame(
        "forward",
        "/tmp/torchinductor/fx_generated_5d1c.py",  # noqa: S108 - a name in a made-up file
        line,
        fx_node_op="call_function",
        fx_node_name=name,
        fx_node_target=target,
        fx_original_trace=f'File "model.py", line {line + 8}, in forward\n    {source}',
    )


STEP: Final = frame("step", "train.py", 40)
STACKS: Final = {
    "parameters": [frame("__init__", "model.py", 6), frame("main", "train.py", 12)],
    "graph": [frame("capture", "train.py", 25), frame("main", "train.py", 60)],
    "addmm": [node("addmm", 4, "aten.addmm.default", "h = self.up(x)"), STEP],
    "gelu": [node("gelu", 5, "aten.gelu.default", "a = F.gelu(h)"), STEP],
    "save": [frame("pack", "hooks.py", 9), STEP],
    "pin": [frame("prefetch", "loader.py", 31), frame("main", "train.py", 61)],
}


def record(action: str, us: int, address: int, mib: int, stack: str = "", **more: Any) -> Row:
    """A record of an allocator."""
    return {
        "action": action, "addr": address, "size": mib * MIB, "stream": 0,
        "time_us": BASE_US + us, "compile_context": "N/A", "user_metadata": "", "pool_id": (0, 0),
        "frames": STACKS.get(stack, []), **more,
    }  # fmt: skip


def device_records() -> list[Row]:
    """What the allocator of the GPU did."""
    rows = [
        record("segment_alloc", 1, PARAMETERS, 64),
        record("alloc", 2, PARAMETERS, 64, "parameters", user_metadata="parameters"),
        record("segment_alloc", 3, GRAPH, 24, pool_id=(0, 1)),
        record("alloc", 4, GRAPH, 24, "graph", user_metadata="graph", pool_id=(0, 1)),
    ]
    for step in range(STEPS):
        start = (step + 1) * STEP_US
        forward = {"user_metadata": "forward", "compile_context": "0/0"}
        for us, address, mib, name in ((1000, ADDMM, 32, "addmm"), (2000, GELU, 48, "gelu")):
            if not step:
                rows.append(record("segment_alloc", start + us, address, mib))
            rows.append(record("alloc", start + us, address, mib, name, **forward))
        rows.append(
            record("annotate", start + 2500, GELU, 48, "save", user_metadata="saved for backward")
        )
        for us, address, mib in ((6000, GELU, 48), (7000, ADDMM, 32)):
            backward = {"user_metadata": "backward"}
            rows.append(record("free_requested", start + us, address, mib, **backward))
            rows.append(record("free_completed", start + us, address, mib, **backward))
    return rows


def host_records() -> list[Row]:
    """What the allocator of pinned memory did: one block a segment."""
    return [
        record(action, (step + 1) * STEP_US + 100, PINNED + step * 16 * MIB, 16, "pin")
        for step in range(STEPS)
        for action in ("segment_alloc", "alloc")
    ]


def segment(device: int, address: int, mib: int, stack: str, pool: tuple[int, int]) -> Row:
    """A segment of one block; without a stack the block is free."""
    used = mib * MIB if stack else 0
    block = {
        "address": address, "size": mib * MIB, "requested_size": used,
        "state": "active_allocated" if stack else "inactive", "frames": STACKS.get(stack, []),
    }  # fmt: skip
    return {
        "device": device, "address": address, "total_size": mib * MIB, "allocated_size": used,
        "active_size": used, "requested_size": used, "stream": 0, "segment_type": "large",
        "segment_pool_id": pool, "is_expandable": False, "frames": [], "blocks": [block],
    }  # fmt: skip


def marks() -> list[Row]:
    """Annotations: a step, and forward in it."""
    return [
        {"name": name.format(step), "stage": stage, "device": 0,
         "time_us": BASE_US + (step + 1) * STEP_US + us}
        for step in range(STEPS)
        for name, stage, us in (
            ("ProfilerStep#{}", "START", 0), ("## forward ##", "START", 500),
            ("## forward ##", "END", 3000), ("ProfilerStep#{}", "END", 9000),
        )
    ]  # fmt: skip


def snapshot() -> dict[str, Any]:
    """The whole snapshot."""
    return {
        "segments": [
            segment(0, PARAMETERS, 64, "parameters", (0, 0)),
            segment(0, GRAPH, 24, "graph", (0, 1)),
            segment(0, ADDMM, 32, "", (0, 0)),
            segment(0, GELU, 48, "", (0, 0)),
        ],
        "device_traces": [device_records()],
        "allocator_settings": {"PYTORCH_CUDA_ALLOC_CONF": "", "expandable_segments": False},
        "external_annotations": marks(),
        "host_segments": [
            segment(-1, PINNED + step * 16 * MIB, 16, "pin", (0, 0)) for step in range(STEPS)
        ],
        "host_traces": host_records(),
        "comment": "synthetic: no machine ran it (examples/synthetic_snapshot.py)",
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the file."""
    parser = argparse.ArgumentParser()
    parser.add_argument("output", type=Path)
    path = parser.parse_args(arguments).output
    path.write_bytes(pickle.dumps(snapshot(), 4))


if __name__ == "__main__":
    main()
