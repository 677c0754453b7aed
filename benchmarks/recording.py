"""What recording costs: each option of torch's profiler, on a small model on the CPU.

    python -m benchmarks.recording

Times are CPU time of the process, so what else the machine does counts little. Of each option there
is the step's time over that without a profiler, and the bytes of a step in the trace.
"""

from __future__ import annotations

import argparse
import gzip
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import torch
from torch import nn
from torch.profiler import profile, schedule

from examples.capture_cpu_training import Classifier

OPTIONS: Final[Mapping[str, Mapping[str, bool]]] = MappingProxyType(
    {
        "none": {},
        "record_shapes": {"record_shapes": True},
        "profile_memory": {"profile_memory": True},
        "with_flops": {"with_flops": True},
        "with_modules": {"with_modules": True},
        "with_stack": {"with_stack": True},
        "all": {
            "record_shapes": True,
            "profile_memory": True,
            "with_flops": True,
            "with_modules": True,
            "with_stack": True,
        },
    }
)
"""What is switched on, by name."""


def steps(width: int) -> Iterator[None]:
    """Steps of a training run, without an end."""
    torch.manual_seed(0)
    model = Classifier(width, layers=4)
    optimizer = torch.optim.Adam(model.parameters())
    tokens, classes = torch.randint(0, 1000, (16, 64)), torch.randint(0, 10, (16,))
    while True:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(tokens), classes).backward()
        optimizer.step()
        yield


def seconds(training: Iterator[None], count: int, prof: Any = None) -> float:
    """CPU seconds of a step."""
    start = time.process_time()
    for _ in range(count):
        next(training)
        if prof is not None:
            prof.step()
    return (time.process_time() - start) / count


def recorded(
    options: Mapping[str, bool], count: int, width: int, folder: Path
) -> tuple[float, ...]:
    """CPU seconds of a recorded step, its bytes in a file and in gzip, and seconds to write it."""
    training, path = steps(width), folder / "trace.json.gz"
    with profile(schedule=schedule(wait=1, warmup=2, active=count), **options) as prof:
        seconds(training, 3, prof)
        took = seconds(training, count, prof)
    start = time.process_time()
    prof.export_chrome_trace(str(path))
    written = time.process_time() - start
    packed = path.read_bytes()
    raw = gzip.decompress(packed)
    return took, len(raw) / count, len(packed) / count, written / count


def main() -> None:
    """Print a table of Markdown."""
    parser = argparse.ArgumentParser(description="What recording costs.")
    parser.add_argument(
        "--steps", type=int, default=10, help="steps that are recorded (default 10)"
    )
    parser.add_argument("--repeats", type=int, default=3, help="the least of so many (default 3)")
    parser.add_argument("--width", type=int, default=256, help="model width (default 256)")
    size = parser.parse_args()
    torch.set_num_threads(1)
    training = steps(size.width)
    seconds(training, 3)
    plain = min(seconds(training, size.steps) for _ in range(size.repeats))
    print(f"A step without a profiler takes {plain * 1000:.1f} ms of CPU time.\n")
    print(
        "| options | step | a step in the file | in gzip | writing a step |\n|---|---|---|---|---|"
    )
    with tempfile.TemporaryDirectory() as folder:
        for name, options in OPTIONS.items():
            runs = [
                recorded(options, size.steps, size.width, Path(folder)) for _ in range(size.repeats)
            ]
            took, raw, packed, written = map(min, zip(*runs, strict=True))
            print(
                f"| `{name}` | {took / plain:.2f}x | {raw / 1e6:.2f} MB | {packed / 1e3:.0f} kB | "
                f"{written * 1000:.1f} ms |"
            )


if __name__ == "__main__":
    main()
