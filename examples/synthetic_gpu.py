"""Make up a training run on a GPU: a synthetic trace, no machine ran it.

The example trace is made by it, from the repository's root::

    python -m examples.synthetic_gpu examples/gpu_training.json.gz
    python -m examples.synthetic_gpu examples/gpu_training_fused.json.gz --fused

Host and device are two clocks: each op moves the host on, each launch puts a kernel behind those
that wait, and a kernel takes as long as its work at a part of the peak of an H100 (989 TFLOP/s in
bfloat16, 3.35 TB/s). A language model of two blocks takes three steps. It has the faults that
tutorials look for: batches are made on the thread that trains, the norm of the gradients is read
back before they are used, the optimizer launches a kernel for every little thing, and the logits
are kept in two types. With ``--fused`` the optimizer is one kernel, and the loader has workers that
pin its batches.
"""
# ruff: noqa: SIM117 -- blocks are nested as the calls are

from __future__ import annotations

import argparse
import gzip
import json
import math
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

FLOPS_PER_S: Final = 989e12 * 0.62
BYTES_PER_S: Final = 3.35e12 * 0.72
BATCH, LENGTH, WIDTH, HEADS, VOCABULARY, BLOCKS = 8, 512, 1024, 16, 32_000, 2
TOKENS: Final = BATCH * LENGTH
HALF, FLOAT, LONG = "c10::BFloat16", "float", "long int"
SIZES: Final = {HALF: 2, FLOAT: 4, LONG: 8}
MAIN, BACKWARD = 4242, 4250
GAP: Final = 900
"""Nanoseconds between two kernels of a stream."""

Tensor = tuple[Sequence[int], str]


class Machine:
    """A host with two threads, and a device with one stream; times are nanoseconds."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.now = 1_000_000
        self.free = 0
        self.thread = MAIN
        self.allocated = self.reserved = 0
        self._number = 0
        self._next_address = 1 << 40
        self._random = random.Random(1)  # noqa: S311 -- the same noise each time

    def spend(self, microseconds: float) -> None:
        """Move the host on, by about so much."""
        self.now += round(1000 * microseconds * self._random.uniform(0.85, 1.2))

    @contextmanager
    def slice(self, name: str, category: str, **args: Any) -> Iterator[None]:
        """A slice of the host around what is done inside it."""
        number = self._count()
        event = self._event(category, name, self.now, 0)
        event["args"] = {"External id": number} if category == "cpu_op" else {}
        event["args"] |= args
        thread, start = self.thread, self.now
        self.spend(1.2)
        yield
        self.spend(0.8)
        event["dur"] = (self.now - start) / 1000
        event["tid"] = thread

    def op(self, name: str, *tensors: Tensor, **args: Any) -> Any:
        """An operator on tensors."""
        said = {
            "Input Dims": [list(shape) for shape, _ in tensors],
            "Input type": [dtype for _, dtype in tensors],
        }
        return self.slice(name, "cpu_op", **said, **args)

    def launch(self, kernel: str, *, flops: float = 0, moved: float = 0) -> None:
        """Launch a kernel that does some work."""
        duration = max(1_900, 1e9 * flops / FLOPS_PER_S, 1e9 * moved / BYTES_PER_S)
        self._device_work("cudaLaunchKernel", 4.4, "kernel", kernel, round(duration))

    def copy(self, name: str, size: int, *, wait: bool) -> None:
        """Copy between host and device; the host waits for the end of all work, or not."""
        duration = 1_500 + round(size / 24)
        extra = {"bytes": size, "memory bandwidth (GB/s)": size / duration}
        self._device_work("cudaMemcpyAsync", 9, "gpu_memcpy", name, duration, **extra)
        if wait:
            start = self.now
            self.now = max(self.now + 2_000, self.free + 1_500)
            self.events.append(
                self._event("cuda_runtime", "cudaStreamSynchronize", start, self.now - start)
            )

    def allocate(self, shape: Sequence[int], dtype: str = HALF) -> tuple[int, int]:
        """Take memory of the device."""
        size = -(-SIZES[dtype] * math.prod(shape) // 512) * 512
        block = self._next_address, size
        self._next_address += size
        self._memory(*block)
        return block

    def release(self, block: tuple[int, int]) -> None:
        """Give memory back."""
        self._memory(block[0], -block[1])

    def document(self) -> dict[str, Any]:
        """The trace."""
        device = {
            "id": 0,
            "name": "NVIDIA H100 80GB HBM3",
            "totalGlobalMem": 85_000_000_000,
            "computeMajor": 9,
            "computeMinor": 0,
            "numSms": 132,
        }
        return {
            "schemaVersion": 1,
            "comment": "synthetic: made by examples/synthetic_gpu.py, no machine ran it",
            "deviceProperties": [device],
            "profile_memory": 1,
            "record_shapes": 1,
            "host_name": "example",
            "displayTimeUnit": "ms",
            "baseTimeNanoseconds": 1_790_000_000_000_000_000,
            "traceName": "example",
            "traceEvents": [*self._labels(), *sorted(self.events, key=lambda e: e["ts"])],
        }

    def _device_work(
        self,
        api: str,
        cost: float,
        category: str,
        name: str,
        duration: int,
        **extra: float,
    ) -> None:
        correlation = self._count()
        launched = self.now
        self.spend(cost)
        link = {"correlation": correlation}
        call = self._event("cuda_runtime", api, launched, self.now - launched)
        self.events.append(call | {"args": link})
        start = max(launched + 3_200, self.free + GAP)
        self.free = start + round(duration * self._random.uniform(0.97, 1.05))
        work = self._event(category, name, start, self.free - start)
        place = {"pid": 0, "tid": 7}
        args = {**link, "device": 0, "stream": 7, "context": 1, **extra}
        self.events.append(work | place | {"args": args})

    def _memory(self, address: int, size: int) -> None:
        self.allocated += size
        self.reserved = max(self.reserved, -(-self.allocated // (20 << 20)) * (20 << 20))
        args = {
            "Addr": address,
            "Bytes": size,
            "Device Type": 1,
            "Device Id": 0,
            "Total Allocated": self.allocated,
            "Total Reserved": self.reserved,
        }
        self.events.append(
            {"ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", "pid": MAIN}
            | {"tid": self.thread, "ts": self.now / 1000, "args": args}
        )
        self.now += 300

    def _event(self, category: str, name: str, start: int, duration: int) -> dict[str, Any]:
        event = {"ph": "X", "cat": category, "name": name, "pid": MAIN, "tid": self.thread}
        event |= {"ts": start / 1000, "dur": duration / 1000}
        if category not in ("cuda_runtime", "kernel", "gpu_memcpy"):
            self.events.append(event)
        return event

    def _count(self) -> int:
        self._number += 1
        return self._number

    @staticmethod
    def _labels() -> list[dict[str, Any]]:
        names = (
            ("process_name", MAIN, MAIN, "python"),
            ("process_labels", MAIN, MAIN, "CPU"),
            ("thread_name", MAIN, MAIN, "main"),
            ("thread_name", MAIN, BACKWARD, "autograd"),
            ("process_name", 0, 0, "python"),
            ("process_labels", 0, 0, "GPU 0"),
            ("thread_name", 0, 7, "stream 7"),
        )
        return [
            {"ph": "M", "name": what, "ts": 0, "pid": pid, "tid": tid}
            | {"args": {"labels" if what.endswith("labels") else "name": name}}
            for what, pid, tid, name in names
        ]


class Training:
    """The program: what is called in which order, and what is kept until when."""

    def __init__(self, machine: Machine, *, fused: bool = False) -> None:
        self.on = machine
        self.fused = fused
        self.sequence = 0
        self.kept: list[tuple[int, int]] = []
        """Blocks that forward keeps for backward."""
        self.undone: list[tuple[int, str, Tensor, Tensor]] = []
        """Matrix products: number in the sequence, node, input, weight."""
        one_block = [(3 * WIDTH, WIDTH), (WIDTH, WIDTH), (4 * WIDTH, WIDTH), (WIDTH, 4 * WIDTH)]
        biases = [(shape[0],) for shape in one_block]
        self.parameters: list[tuple[int, ...]] = [(VOCABULARY, WIDTH), (VOCABULARY, WIDTH)]
        self.parameters += [*one_block, *biases, (WIDTH,), (WIDTH,)] * BLOCKS
        elements = sum(math.prod(shape) for shape in self.parameters)
        machine.allocated = elements * (2 + 4 + 4)  # weights and two moments, from before the trace

    def step(self, number: int) -> None:
        """One step."""
        with self._region(f"ProfilerStep#{number}"):
            batch = self._next_batch(slow=2.2 if number == 1 else 1)
            with self._region("forward"):
                loss = self._forward()
            with self._region("backward"):
                gradients = self._backward()
            with self._region("clip gradients"):
                self._clip()
            with self._region("Optimizer.step#AdamW.step"):
                self._update()
            with self._region("Optimizer.zero_grad#AdamW.zero_grad"):
                for block in [*gradients, batch, loss]:
                    self.on.release(block)
            with self._region("log loss"):
                self._read()
            self.on.spend(60)

    def _region(self, name: str) -> Any:
        return self.on.slice(name, "user_annotation")

    def _python(self, frame: str, **args: Any) -> Any:
        return self.on.slice(frame, "python_function", **args)

    def _next_batch(self, slow: float) -> tuple[int, int]:
        on = self.on
        if self.fused:
            with self._region("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"):
                with self._python("torch/utils/data/dataloader.py(741): __next__"):
                    on.spend(60 * slow)
        else:
            self._make_batch(slow)
        with self._region("copy batch"), on.op("aten::to", ((BATCH, LENGTH), LONG)):
            with on.op("aten::_to_copy", ((BATCH, LENGTH), LONG)):
                batch = on.allocate((BATCH, LENGTH), LONG)
                with on.op("aten::copy_", ((BATCH, LENGTH), LONG), ((BATCH, LENGTH), LONG)):
                    kind = "Pinned" if self.fused else "Pageable"
                    name = f"Memcpy HtoD ({kind} -> Device)"
                    on.copy(name, 8 * TOKENS, wait=not self.fused)
        return batch

    def _make_batch(self, slow: float) -> None:
        on = self.on
        with self._region("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"):
            with self._python("torch/utils/data/dataloader.py(741): __next__"):
                with self._python("train.py(18): __getitem__"):
                    on.spend(2600 * slow)
                with self._python("torch/utils/data/_utils/collate.py(389): default_collate"):
                    with on.op("aten::stack", ((LENGTH,), LONG)):
                        on.spend(90)
                        with on.op("aten::cat", ((LENGTH,), LONG)):
                            on.spend(120 * slow)

    def _forward(self) -> tuple[int, int]:
        on = self.on
        with on.op("aten::embedding", ((VOCABULARY, WIDTH), HALF), ((BATCH, LENGTH), LONG)):
            on.spend(5)
            self._keep((BATCH, LENGTH, WIDTH))
            on.launch(
                "void at::native::vectorized_gather_kernel<16, long>", moved=4.0 * TOKENS * WIDTH
            )
        for number in range(BLOCKS):
            with self._python(f"nn.Module: Block_{number}", **{"Python module id": number}):
                self._block()
        logits = self._linear("MmBackward0", VOCABULARY, WIDTH, bias=False)
        shape: Tensor = ((TOKENS, VOCABULARY), HALF)
        with on.op("aten::to", shape), on.op("aten::_to_copy", shape):
            whole = on.allocate((TOKENS, VOCABULARY), FLOAT)
            with on.op("aten::copy_", ((TOKENS, VOCABULARY), FLOAT), shape):
                on.launch(_elementwise("direct_copy_kernel_cuda"), moved=6.0 * TOKENS * VOCABULARY)
        shape = ((TOKENS, VOCABULARY), FLOAT)
        with on.op("aten::cross_entropy_loss", shape, ((TOKENS,), LONG)):
            with on.op("aten::_log_softmax", shape):
                self.kept.append(on.allocate((TOKENS, VOCABULARY), FLOAT))
                name = "void (anonymous namespace)::cunn_SoftMaxForward<8, float, float>"
                on.launch(name, moved=8.0 * TOKENS * VOCABULARY)
            with on.op("aten::nll_loss_forward", shape, ((TOKENS,), LONG)):
                loss = on.allocate((1,), FLOAT)
                name = (
                    "void at::native::(anonymous namespace)::nll_loss_forward_reduce_cuda_kernel_2d"
                )
                on.launch(name, moved=8.0 * TOKENS)
        self.kept += [logits, whole]
        return loss

    def _block(self) -> None:
        on, shape = self.on, ((BATCH, LENGTH, WIDTH), HALF)
        self._norm()
        self._linear("AddmmBackward0", 3 * WIDTH, WIDTH)
        heads: Tensor = ((BATCH, HEADS, LENGTH, WIDTH // HEADS), HALF)
        three = heads, heads, heads
        with (
            on.op("aten::scaled_dot_product_attention", *three),
            on.op("aten::_scaled_dot_product_flash_attention", *three),
        ):
            self._keep((BATCH, LENGTH, WIDTH))
            with on.op("aten::_flash_attention_forward", *three):
                name = "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128>>"
                on.launch(name, flops=8.0 * TOKENS * LENGTH * WIDTH)
        self._linear("AddmmBackward0", WIDTH, WIDTH)
        self._elementwise("aten::add", "CUDAFunctor_add<c10::BFloat16>", shape, shape)
        self._norm()
        self._linear("AddmmBackward0", 4 * WIDTH, WIDTH)
        self._elementwise("aten::gelu", "GeluCUDAKernelImpl", ((BATCH, LENGTH, 4 * WIDTH), HALF))
        self._linear("AddmmBackward0", WIDTH, 4 * WIDTH)
        self._elementwise("aten::add", "CUDAFunctor_add<c10::BFloat16>", shape, shape)

    def _norm(self) -> None:
        on, shape = self.on, ((BATCH, LENGTH, WIDTH), HALF)
        weight: Tensor = ((WIDTH,), HALF)
        tensors = shape, ((), "ScalarList"), weight, weight
        with on.op("aten::layer_norm", *tensors), on.op("aten::native_layer_norm", *tensors):
            on.spend(4)
            self._keep((BATCH, LENGTH, WIDTH))
            name = "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float>"
            on.launch(name, moved=4.0 * TOKENS * WIDTH)

    def _linear(self, node: str, out: int, width: int, *, bias: bool = True) -> tuple[int, int]:
        """A layer; the product is kept unless it is given away."""
        on, rows, weight = self.on, ((TOKENS, width), HALF), ((out, width), HALF)
        turned: Tensor = ((width, out), HALF)
        self.sequence += 1
        numbered = {"Sequence number": self.sequence, "Fwd thread id": 0}
        with on.op("aten::linear", ((BATCH, LENGTH, width), HALF), weight):
            with on.op("aten::t", weight):
                on.spend(1)
            tensors = (((out,), HALF), rows, turned) if bias else (rows, turned)
            with on.op("aten::addmm" if bias else "aten::mm", *tensors, **numbered):
                on.spend(5)
                block = on.allocate((TOKENS, out))
                tile = "128x256" if out > WIDTH else "128x128"
                on.launch(f"nvjet_tst_{tile}_64x4_coopA_bias_TNT", flops=2.0 * TOKENS * width * out)
        self.undone.append((self.sequence, node, rows, weight))
        if bias:
            self.kept.append(block)
        return block

    def _elementwise(self, name: str, functor: str, *tensors: Tensor) -> None:
        with self.on.op(name, *tensors):
            self.on.spend(3)
            shape = tensors[0][0]
            self._keep(shape)
            count = TOKENS * shape[-1]
            self.on.launch(_elementwise(functor), moved=2.0 * count * (1 + len(tensors)))

    def _keep(self, shape: Sequence[int]) -> None:
        self.kept.append(self.on.allocate(shape))

    def _backward(self) -> list[tuple[int, int]]:
        """On its own thread, while the main thread waits."""
        on = self.on
        gradients = []
        on.thread = BACKWARD
        shape: Tensor = ((TOKENS, VOCABULARY), FLOAT)
        with _node(on, "LogSoftmaxBackward0", 0), on.op("aten::_log_softmax_backward_data", shape):
            whole = on.allocate((TOKENS, VOCABULARY), FLOAT)
            name = "void (anonymous namespace)::cunn_SoftMaxBackward<4, float, float>"
            on.launch(name, moved=12.0 * TOKENS * VOCABULARY)
        with _node(on, "ToCopyBackward0", 0), on.op("aten::_to_copy", shape):
            half = on.allocate((TOKENS, VOCABULARY))
            on.launch(_elementwise("bfloat16_copy_kernel_cuda"), moved=6.0 * TOKENS * VOCABULARY)
        for block in (whole, *(self.kept.pop() for _ in range(3))):
            on.release(block)
        for sequence, node, (rows, _), (weight, _) in reversed(self.undone):
            out, width = weight
            flops = 2.0 * rows[0] * width * out
            with _node(on, node, sequence):
                for first, second in (((out, rows[0]), rows), ((rows[0], out), weight)):
                    with on.op("aten::mm", (first, HALF), (second, HALF)):
                        on.spend(4)
                        shape_of = (first[0], second[1])
                        block = on.allocate(shape_of)
                        on.launch("nvjet_tst_128x256_64x4_coopA_NNT", flops=flops)
                    if shape_of == tuple(weight):
                        gradients.append(block)
                    else:
                        self.kept.append(block)
            if self.kept:
                on.release(self.kept.pop(0))
        self.undone.clear()
        on.release(half)
        tensor: Tensor = ((TOKENS, WIDTH), HALF)
        with (
            _node(on, "EmbeddingBackward0", 0),
            on.op("aten::embedding_dense_backward", tensor),
        ):
            gradients.append(on.allocate((VOCABULARY, WIDTH)))
            on.launch("void at::native::compute_grad_weight", moved=1.2e8)
        while self.kept:
            on.release(self.kept.pop())
        on.thread = MAIN
        return gradients

    def _clip(self) -> None:
        """The norm of all gradients, which the host waits for."""
        on = self.on
        moved = 2.0 * sum(math.prod(shape) for shape in self.parameters)
        with on.op("aten::_foreach_norm", ((), "TensorList")):
            on.spend(40)
            on.launch("void at::native::(anonymous namespace)::lpnorm_cleanup", moved=moved)
        self._read()

    def _read(self) -> None:
        """Read a number back; the host waits until all that was launched before is done."""
        on = self.on
        with on.op("aten::item", ((), FLOAT)), on.op("aten::_local_scalar_dense", ((), FLOAT)):
            on.copy("Memcpy DtoH (Device -> Pageable)", 4, wait=True)

    def _update(self) -> None:
        """A kernel for each of six little things, of each parameter; or one for all."""
        if self.fused:
            with self.on.op("aten::_fused_adamw_", ((), "TensorList")):
                self.on.spend(35)
                count = sum(map(math.prod, self.parameters))
                name = (
                    "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<FusedAdam>"
                )
                self.on.launch(name, moved=20.0 * count)
            return
        parts = (
            ("aten::mul_", "AUnaryFunctor<float, MulFunctor>", 1),
            ("aten::lerp_", "lerp_scalar_kernel", 2),
            ("aten::mul_", "AUnaryFunctor<float, MulFunctor>", 1),
            ("aten::addcmul_", "addcmul_cuda_scalar_kernel", 3),
            ("aten::sqrt", "sqrt_kernel_cuda", 1),
            ("aten::addcdiv_", "addcdiv_cuda_kernel", 3),
        )
        for shape in self.parameters:
            count = math.prod(shape)
            for name, functor, tensors in parts:
                with self.on.op(name, *[(shape, FLOAT)] * tensors):
                    self.on.spend(3.5)
                    self.on.launch(_elementwise(functor), moved=4.0 * count * (tensors + 1))


def _node(on: Machine, name: str, sequence: int) -> Any:
    """A node of the backward pass."""
    said = {"Sequence number": sequence, "Fwd thread id": 1} if sequence else {}
    return on.slice(f"autograd::engine::evaluate_function: {name}", "cpu_op", **said)


def _elementwise(functor: str) -> str:
    return f"void at::native::vectorized_elementwise_kernel<4, at::native::{functor}>"


def main() -> None:
    """Bind the command line to a trace."""
    parser = argparse.ArgumentParser(description="Make up a training run on a GPU.")
    parser.add_argument("output", type=Path, help="the trace to write (.json.gz)")
    parser.add_argument("--steps", type=int, default=3, help="profiler steps (default 3)")
    parser.add_argument("--fused", action="store_true", help="mend the optimizer and the loader")
    arguments = parser.parse_args()
    machine = Machine()
    training = Training(machine, fused=arguments.fused)
    for number in range(1, arguments.steps + 1):
        training.step(number)
    text = json.dumps(machine.document(), separators=(", ", ": "))
    arguments.output.write_bytes(gzip.compress(text.encode(), mtime=0))


if __name__ == "__main__":
    main()
