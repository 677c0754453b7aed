"""Capture a graph of CUDA or HIP, replay it, and run the same without one.

Four traces are written, from the repository's root, on a machine with a GPU::

    python -m examples.capture_graph folder

``eager.json.gz`` runs the model as it is; ``capture.json.gz`` is of the capture, with a run before
it; ``replay.json.gz`` has the replays alone, and ``both.json.gz`` all of it in one. Then the ops of
the replays, by the captures, are held against those of the eager run: calls, kernels and FLOPs.
Without a GPU nothing can be captured: all four are runs of the model on the CPU.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import polars as pl
import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile, record_function

import profframe
from examples.neutral import export


class Block(nn.Module):
    """Attention and two linear layers, as in a decoder."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """One layer on (batch, length, width)."""
        query, key, value = self.qkv(self.norm(hidden)).chunk(3, dim=-1)
        weights = torch.softmax(query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5, dim=-1)
        hidden = hidden + self.out(weights @ value)
        return hidden + self.down(torch.relu(self.up(hidden)))


def recorded(path: Path, work: Callable[[], None], device: torch.device) -> None:
    """Profile some work, and write its trace."""
    activities = [ProfilerActivity.CPU]
    if device.type == "cuda":
        activities.append(ProfilerActivity.CUDA)
    with profile(activities=activities, record_shapes=True, with_stack=True) as prof:
        work()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
    export(prof, path)


def traces(folder: Path, device: torch.device, layers: int, width: int, replays: int) -> None:
    """Write the four traces."""
    model = nn.Sequential(*(Block(width) for _ in range(layers))).to(device).eval()
    batch = torch.randn(4, 16, width, device=device)
    graph = torch.cuda.CUDAGraph() if device.type == "cuda" else None

    def run() -> None:
        with record_function("model"), torch.inference_mode():
            model(batch)

    def capture() -> None:
        run()
        with nullcontext() if graph is None else torch.cuda.graph(graph):
            run()

    def replay() -> None:
        for _ in range(replays):
            with record_function("replay"):
                run() if graph is None else graph.replay()

    def both() -> None:
        capture()
        replay()

    def eager() -> None:
        for _ in range(replays):
            run()

    run()  # what is done once only: handles, workspaces, choices of algorithms
    recorded(folder / "eager.json.gz", eager, device)
    recorded(folder / "capture.json.gz", capture, device)
    recorded(folder / "replay.json.gz", replay, device)
    graph = torch.cuda.CUDAGraph() if graph is not None else None
    recorded(folder / "both.json.gz", both, device)


def ops(trace: profframe.Trace, around: str) -> pl.DataFrame:
    """Calls, kernels and FLOPs of each op that launched work, or ran, in annotations of a name."""
    return trace.sql(f"""
        SELECT op.name, op.input_dims, count(DISTINCT (op.event_id, if(work.attributed_by = 'launch', 0, work.launch_id))) AS calls,
               list(DISTINCT work.name ORDER BY work.name) AS kernels, sum(work.flops)::BIGINT AS flops
        FROM events AS work JOIN events AS op ON work.op_id = op.event_id
        WHERE work.kind IN ('kernel', 'memcpy', 'memset') AND work.attributed_by {around}
        GROUP BY ALL ORDER BY ALL""")  # noqa: S608, E501


def compare(folder: Path) -> pl.DataFrame:
    """Ops of the eager run and of the replays, side by side; none where they agree."""
    eager = ops(profframe.load(folder / "eager.json.gz"), "= 'launch'")
    replayed = profframe.load(folder / "replay.json.gz", captures=folder / "capture.json.gz")
    both = [(eager, "eager"), (ops(replayed, "<> 'launch'"), "replayed")]
    sides = [rows.with_columns(side=pl.lit(name)) for rows, name in both]
    keys = ["name", "input_dims", "calls", "kernels", "flops"]
    return pl.concat(sides).filter(pl.len().over(keys) == 1).sort(keys[:2])


def main() -> None:
    """Bind the command line to a run."""
    parser = argparse.ArgumentParser(description="Capture a graph, and replay it.")
    parser.add_argument("folder", type=Path, help="where the traces are written")
    parser.add_argument("--layers", type=int, default=4, help="layers (default 4)")
    parser.add_argument("--width", type=int, default=256, help="width (default 256)")
    parser.add_argument("--replays", type=int, default=3, help="replays (default 3)")
    arguments = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    arguments.folder.mkdir(parents=True, exist_ok=True)
    traces(arguments.folder, device, arguments.layers, arguments.width, arguments.replays)
    if device.type == "cpu":
        print("no GPU: nothing was captured")
        return
    differences = compare(arguments.folder)
    print("ops agree" if differences.is_empty() else differences)
    raise SystemExit(bool(differences.height))


if __name__ == "__main__":
    main()
