"""Compile a model with Inductor's provenance, and record it: a trace, and what kernels come from.

From the repository's root, with a compiler for C++, a minute on a CPU::

    python -m examples.capture_compiled examples/compiled

The folder gets ``trace.json.gz`` and the part of torch's structured log that is about kernels,
``dedicated_log_torch_trace.log``, without what shows the machine. The break between the layers of
the model makes two graphs of it, with kernels that have the same names.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import nn

from examples.neutral import export

_ENVIRONMENT = {
    "INDUCTOR_PROVENANCE": "1",
    "TORCHINDUCTOR_CPP_ENABLE_KERNEL_PROFILE": "1",
}
_RECORDS = (
    b'"inductor_output_code"',
    b'"inductor_provenance_tracking_',
    b'"fx_graph_cache_miss"',
)
_KEY = re.compile(rb'"key": "\w+"')
_CALL = re.compile(rb".*(?:Provenance debug handles|AOT ID).*")


class Layer(nn.Module):
    """A linear layer whose activation is computed in float64, as nobody asked for."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width, width)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """One layer on (batch, width)."""
        hidden = self.linear(hidden)
        gate = torch.sigmoid(hidden.double()).to(hidden.dtype)
        return hidden * gate


class Model(nn.Module):
    """Two layers with a graph break between them."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first = Layer(width)
        self.second = Layer(width)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """The sum over all outputs."""
        hidden = self.first(hidden)
        torch._dynamo.graph_break()  # noqa: SLF001 - the public name of it
        return self.second(hidden).sum()


def record(folder: Path, width: int, batch: int, steps: int) -> None:
    """Compile and run the model, and write its trace."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = torch.compile(Model(width))
    inputs = torch.randn(batch, width)
    model(inputs).backward()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as prof:
        for _ in range(steps):
            model(inputs).backward()
            prof.step()
    export(prof, folder / "trace.json.gz")


def records_of(log: bytes) -> Iterator[bytes]:
    """The records about kernels; of code the comments, of a cache the key."""
    for record in re.split(rb"(?m)^(?=[VDIWEC]\d{4} )", log):
        header, _, payload = record.partition(b"\n")
        if not any(word in header for word in _RECORDS):
            continue
        if b"inductor_output_code" in header:
            header = re.sub(rb'("file(?:name|_path)": )"[^"]*"', rb'\1"output_code.py"', header)
            payload = b"\n".join(_CALL.findall(payload)) + b"\n"
        elif b"fx_graph_cache_miss" in header:
            match = _KEY.search(payload)
            payload = b"\t{" + (match[0] if match else b"") + b"}\n"
        yield header + b"\n" + payload


def neutral(text: bytes) -> bytes:
    """Text with paths from the repository on."""
    here = os.fsencode(Path(__file__).resolve().parent.parent)
    return text.replace(here + b"/", b"")


def main() -> None:
    """Run this script in a process of its own, with the environment that it needs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    if options.here:
        record(options.folder, options.width, options.batch, options.steps)
        return
    with tempfile.TemporaryDirectory() as scratch:
        made = Path(scratch)
        places = {
            "TORCH_TRACE": made / "logs",
            "TORCHINDUCTOR_CACHE_DIR": made / "cache",
        }
        environment = {**os.environ, **_ENVIRONMENT, **{n: str(p) for n, p in places.items()}}
        command = [sys.executable, "-m", "examples.capture_compiled", *sys.argv[1:], "--here"]
        subprocess.run(command, check=True, env=environment)
        (log,) = (made / "logs").glob("*.log")
        text = b"".join(records_of(log.read_bytes()))
        (options.folder / "dedicated_log_torch_trace.log").write_bytes(neutral(text))


if __name__ == "__main__":
    main()
