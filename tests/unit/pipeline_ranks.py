"""A rank of a pipeline of torch on gloo; run as a process: RANK RANKS SCHEDULE FOLDER.

Stages are equal, and one step of four microbatches is recorded. As a whole, in which
`tests/data/pipelines` was made: ``python -m tests.unit.pipeline_ranks FOLDER``.
"""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path

SCHEDULES = {"GPipe": (3, 1), "1F1B": (3, 1), "Interleaved1F1B": (2, 2)}
"""Ranks, and stages of each."""
MICROBATCHES = 4


def main(rank: int, ranks: int, schedule: str, folder: Path) -> None:
    """Train for some steps, and write the trace of the last one."""
    import torch
    import torch.distributed as dist
    from torch.distributed.pipelining import PipelineStage
    from torch.distributed.pipelining.schedules import get_schedule_class
    from torch.profiler import ProfilerActivity, profile

    torch.set_num_threads(1)
    store = dist.FileStore(str(folder / "store"), ranks)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=ranks)
    torch.manual_seed(0)
    own = SCHEDULES[schedule][1]
    stages = [
        PipelineStage(
            torch.nn.Sequential(*(torch.nn.Linear(256, 256) for _ in range(2))),
            rank + ranks * turn,
            ranks * own,
            torch.device("cpu"),
        )
        for turn in range(own)
    ]
    run = get_schedule_class(schedule)(
        stages[0] if own == 1 else stages, MICROBATCHES, loss_fn=torch.nn.functional.mse_loss
    )
    batch, target = torch.randn(256, 256), torch.randn(256, 256)

    def step() -> None:
        inputs = (batch,) if rank == 0 else ()
        run.step(*inputs, **({"target": target} if rank == ranks - 1 else {}))

    for _ in range(3):
        step()
    dist.barrier()
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as recorded:
        step()
    recorded.export_chrome_trace(str(folder / f"rank{rank}.json"))
    dist.barrier()
    dist.destroy_process_group()


def record(schedule: str, folder: Path) -> None:
    """Run all ranks of a schedule; their traces are in the folder, without the host's name."""
    folder.mkdir(parents=True)
    ranks = SCHEDULES[schedule][0]
    command = [sys.executable, __file__]
    started = [
        subprocess.Popen([*command, str(rank), str(ranks), schedule, str(folder)])
        for rank in range(ranks)
    ]
    assert [process.wait(120) for process in started] == [0] * ranks
    (folder / "store").unlink(missing_ok=True)
    for path in folder.glob("rank*.json"):
        found = json.loads(path.read_text(encoding="utf-8"))
        kept = {key: found[key] for key in KEPT if key in found}
        text = json.dumps(kept, separators=(",", ":"))
        path.with_suffix(".json.gz").write_bytes(gzip.compress(text.encode(), 9, mtime=0))
        path.unlink()


KEPT = ("schemaVersion", "distributedInfo", "displayTimeUnit", "baseTimeNanoseconds", "traceEvents")

if __name__ == "__main__":
    if len(sys.argv) == 2:
        for name in SCHEDULES:
            record(name, Path(sys.argv[1]) / name)
    else:
        main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], Path(sys.argv[4]))
