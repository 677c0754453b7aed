"""Make up a training job on four GPUs: synthetic traces, no machine ran it.

The example traces are made by it, from the repository's root::

    python -m examples.synthetic_job examples/job

The ranks hold a part of the model each, as with FSDP: the weights of a block are gathered before
it, and its gradients are reduced after it, on a stream of their own, while another block computes.
A collective moves data as soon as its last rank is there. The job has faults to look for: the
storage of rank 2 is slow, so its batches are late; batches are not pinned; and the loss is read
back in each step.
"""
# ruff: noqa: SIM117 -- blocks are nested as the calls are

from __future__ import annotations

import argparse
import gzip
import json
import random
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final

from examples.synthetic_gpu import GAP, HALF, Machine, Tensor

RANKS: Final = 4
SLOW: Final = 2
"""The rank whose loader is late."""
TOKENS: Final = 4096
WIDTH: Final = 2048
LINK_BYTES_PER_S: Final = 180e9
BLOCKS: Final = 3
WEIGHTS: Final = 12 * WIDTH * WIDTH
"""Elements of a block."""
MAIN_STREAM, COMMUNICATION = 7, 20


class Rank(Machine):
    """A host and a device with a stream for computation and one for collectives."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number
        self.communicating = 0
        self._random = random.Random(number)  # noqa: S311 -- the same noise each time

    def collective(self, name: str, seq: int, *, after_compute: bool) -> dict[str, Any]:
        """Launch a collective of a block; how long its kernel takes is not known yet."""
        part, whole = WEIGHTS // RANKS, WEIGHTS
        sizes = (whole, part) if after_compute else (part, whole)
        said = {
            "Collective name": name,
            "dtype": "BFloat16",
            "In msg nelems": sizes[0],
            "Out msg nelems": sizes[1],
            "Group size": RANKS,
            "Process Group Name": "0",
            "Process Group Description": "default_pg",
            "Process Group Ranks": str(list(range(RANKS))),
            "Seq": seq,
        }
        tensor: Tensor = ((sizes[0],), HALF)
        with self.op(f"c10d::{name}_", tensor), self.op("record_param_comms", tensor, **said):
            ready = 0
            if after_compute:
                self._wait(COMMUNICATION, on=MAIN_STREAM)
                ready = self.free + GAP
            launched = self.now
            correlation = self._call("cudaLaunchKernelExC", 6)
        start = max(launched + 3_200, ready, self.communicating + GAP)
        kind = "ReduceScatter_Sum_bf16" if after_compute else "AllGather"
        title = f"ncclDevKernel_{kind}_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
        kernel = self._event("kernel", title, start, 0)
        kernel |= {"pid": 0, "tid": COMMUNICATION}
        kernel["args"] = {**said, "correlation": correlation, "device": 0}
        kernel["args"] |= {"stream": COMMUNICATION, "context": 1}
        self.events.append(kernel)
        return kernel

    def wait_for_collectives(self) -> None:
        """Let the stream that computes wait for the collectives so far."""
        self._wait(MAIN_STREAM, on=COMMUNICATION)
        self.free = max(self.free, self.communicating)

    def _wait(self, stream: int, *, on: int) -> None:
        """Let a stream wait for what another one has to do so far."""
        recorded, called = self._call("cudaEventRecord", 1.5), self.now
        correlation = self._call("cudaStreamWaitEvent", 1.5)
        wait = self._event("cuda_sync", "Stream Wait Event", called, 1_000)
        wait |= {"pid": 0, "tid": stream}
        wait["args"] = {"cuda_sync_kind": "Stream Wait Event", "wait_on_stream": on}
        wait["args"] |= {"wait_on_cuda_event_record_corr_id": recorded, "stream": stream}
        wait["args"] |= {"correlation": correlation, "device": 0, "context": 1}

    def _call(self, api: str, cost: float) -> int:
        """Call the runtime; its correlation."""
        correlation, called = self._count(), self.now
        self.spend(cost)
        call = self._event("cuda_runtime", api, called, self.now - called)
        self.events.append(call | {"args": {"correlation": correlation}})
        return correlation

    def document(self) -> dict[str, Any]:
        """The trace."""
        text = super().document()
        text["comment"] = "synthetic: made by examples/synthetic_job.py, no machine ran it"
        text |= {"profile_memory": 0, "with_stack": 1, "with_modules": 1}
        text["distributedInfo"] = {
            "backend": "nccl",
            "rank": self.number,
            "world_size": RANKS,
            "pg_count": 1,
        }
        label = {"ph": "M", "name": "thread_name", "ts": 0, "pid": 0, "tid": COMMUNICATION}
        text["traceEvents"].insert(0, label | {"args": {"name": f"stream {COMMUNICATION}"}})
        return text


class Job:
    """What all ranks do, in the order in which they do it."""

    def __init__(self) -> None:
        self.ranks = [Rank(number) for number in range(RANKS)]
        self.sequence = 0
        self._undone: dict[int, list[tuple[int, Tensor, Tensor]]] = {}

    def step(self, number: int) -> None:
        """One step; its regions are open on all ranks at once."""
        steps = self._open(f"ProfilerStep#{number}")
        for rank in self.ranks:
            self._undone[rank.number] = []
            self._load(rank)
        forward = self._open("forward")
        self._communicate("_allgather_base")
        for block in range(BLOCKS):
            for rank in self.ranks:
                rank.wait_for_collectives()
            if block + 1 < BLOCKS:
                self._communicate("_allgather_base")
            for rank in self.ranks:
                self._forward(rank, block)
        self._close(forward)
        backward = self._open("backward")
        for _ in range(BLOCKS):
            for rank in self.ranks:
                for _ in _LAYERS:
                    self._backward(rank, self._undone[rank.number])
            self._communicate("_reduce_scatter_base", after_compute=True)
        self._close(backward)
        for rank in self.ranks:
            self._update(rank)
        self._close(steps)

    def _open(self, name: str) -> list[AbstractContextManager[None]]:
        regions: list[AbstractContextManager[None]] = []
        for rank in self.ranks:
            regions.append(rank.slice(name, "user_annotation"))
            regions[-1].__enter__()
        return regions

    @staticmethod
    def _close(regions: Sequence[AbstractContextManager[None]]) -> None:
        for region in regions:
            region.__exit__(None, None, None)

    def _load(self, rank: Rank) -> None:
        name = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
        with rank.slice(name, "user_annotation"):
            with rank.slice("train.py(24): next_batch", "python_function"):
                with rank.slice("data.py(31): __getitem__", "python_function"):
                    rank.spend(1900 if rank.number == SLOW else 450)
                with rank.slice("data.py(47): pad", "python_function"):
                    rank.spend(120)
        size: Tensor = ((TOKENS, WIDTH), HALF)
        with rank.op("aten::to", size), rank.op("aten::copy_", size, size):
            rank.copy("Memcpy HtoD (Pageable -> Device)", 2 * TOKENS * WIDTH, wait=True)

    def _forward(self, rank: Rank, block: int) -> None:
        with rank.slice("train.py(31): loss", "python_function"):
            said = {"Python module id": block}
            with rank.slice(f"nn.Module: Block_{block}", "python_function", **said):
                for part, (name, out, width) in enumerate(_LAYERS):
                    module = 10 * (block + 1) + part
                    self._layer(rank, f"{name}_{block}", module, out, width)

    def _layer(self, rank: Rank, name: str, module: int, out: int, width: int) -> None:
        self.sequence += 1
        rows: Tensor = ((TOKENS, width), HALF)
        weight: Tensor = ((width, out), HALF)
        numbered = {"Sequence number": self.sequence, "Fwd thread id": 0}
        said = {"Python module id": module}
        with rank.slice(f"nn.Module: {name}", "python_function", **said):
            if name.startswith("Attention"):
                heads: Tensor = ((8, 16, TOKENS // 8, WIDTH // 16), HALF)
                with rank.op(
                    "aten::_scaled_dot_product_flash_attention", heads, heads, heads, **numbered
                ):
                    rank.spend(6)
                    rank.launch(
                        "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<128, 64>>",
                        flops=4.0 * TOKENS * (TOKENS // 8) * WIDTH,
                    )
                rows, weight = heads, heads
            else:
                with rank.op("aten::mm", rows, weight, **numbered):
                    rank.spend(6)
                    rank.launch(
                        "nvjet_tst_128x256_64x4_coopA_TNT", flops=2.0 * TOKENS * width * out
                    )
        self._undone[rank.number].append((self.sequence, rows, weight))

    @staticmethod
    def _backward(rank: Rank, undone: list[tuple[int, Tensor, Tensor]]) -> None:
        sequence, rows, weight = undone.pop()
        said = {"Sequence number": sequence, "Fwd thread id": 1}
        is_attention = len(rows[0]) == 4
        node = "ScaledDotProductFlashAttentionBackward0" if is_attention else "MmBackward0"
        with rank.slice(f"autograd::engine::evaluate_function: {node}", "cpu_op", **said):
            if is_attention:
                with rank.op("aten::_scaled_dot_product_flash_attention_backward", rows, rows):
                    rank.spend(8)
                    rank.launch(
                        "void pytorch_flash::flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<128>",
                        flops=10.0 * TOKENS * (TOKENS // 8) * WIDTH,
                    )
                return
            (tokens, width), (_, out) = rows[0], weight[0]
            for first, second in (((tokens, out), (out, width)), ((width, tokens), (tokens, out))):
                with rank.op("aten::mm", (first, HALF), (second, HALF)):
                    rank.spend(5)
                    rank.launch(
                        "nvjet_tst_128x256_64x4_coopA_NNT", flops=2.0 * tokens * width * out
                    )

    def _communicate(self, name: str, *, after_compute: bool = False) -> None:
        """A collective: it ends on all ranks when the data of the last to come is there."""
        self.sequence += 1
        kernels = [
            rank.collective(name, self.sequence, after_compute=after_compute) for rank in self.ranks
        ]
        last = max(round(kernel["ts"] * 1000) for kernel in kernels)
        moved = 2 * WEIGHTS * (RANKS - 1) / RANKS
        end = last + 15_000 + round(1e9 * moved / LINK_BYTES_PER_S)
        for rank, kernel in zip(self.ranks, kernels, strict=True):
            kernel["dur"] = (end - round(kernel["ts"] * 1000)) / 1000
            rank.communicating = end

    def _update(self, rank: Rank) -> None:
        rank.wait_for_collectives()
        tensors: Tensor = ((), "TensorList")
        with rank.slice("Optimizer.step#AdamW.step", "user_annotation"):
            with rank.op("aten::_fused_adamw_", tensors, tensors, tensors, tensors):
                rank.spend(30)
                name = (
                    "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<FusedAdam>"
                )
                rank.launch(name, moved=14.0 * BLOCKS * WEIGHTS / RANKS)
        with rank.slice("train.py(38): log", "python_function"):
            scalar: Tensor = ((), "float")
            with rank.op("aten::item", scalar), rank.op("aten::_local_scalar_dense", scalar):
                rank.copy("Memcpy DtoH (Device -> Pageable)", 4, wait=True)
        rank.spend(40)


_LAYERS: Final = (
    ("Projection", 3 * WIDTH, WIDTH),
    ("Attention", WIDTH, WIDTH),
    ("Output", WIDTH, WIDTH),
    ("Up", 4 * WIDTH, WIDTH),
    ("Down", WIDTH, 4 * WIDTH),
    ("Gate", WIDTH, WIDTH),
)
"""Modules of a block, with the widths that they give and take."""


def main() -> None:
    """Bind the command line to the traces of a job."""
    parser = argparse.ArgumentParser(description="Make up a training job on four GPUs.")
    parser.add_argument(
        "folder", type=Path, help="where to write rank0.json.gz, rank1.json.gz, ..."
    )
    parser.add_argument("--steps", type=int, default=4, help="profiler steps (default 4)")
    arguments = parser.parse_args()
    job = Job()
    for number in range(1, arguments.steps + 1):
        job.step(number)
    arguments.folder.mkdir(parents=True, exist_ok=True)
    for rank in job.ranks:
        text = json.dumps(rank.document(), separators=(", ", ": "))
        path = arguments.folder / f"rank{rank.number}.json.gz"
        path.write_bytes(gzip.compress(text.encode(), mtime=0))


if __name__ == "__main__":
    main()
