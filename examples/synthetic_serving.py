"""Make up a server of a language model on a GPU: a synthetic trace, no machine ran it.

The example trace is made by it, from the repository's root::

    python -m examples.synthetic_serving examples/serving.json.gz

The steps have the names that vLLM gives to them: how many prompts with how many tokens, and how
many requests that generate a token each. Prefill has matrix products that fill the device; decode
reads the weights for a few tokens, kernel by kernel, and the host cannot launch them fast enough.
"""
# ruff: noqa: SIM117 -- blocks are nested as the calls are

from __future__ import annotations

import argparse
import gzip
import json
from pathlib import Path
from typing import Final

from examples.synthetic_gpu import HALF, Machine, Tensor

WIDTH: Final = 2048
LAYERS: Final = 3
STEPS: Final = (
    (2, 1024, 0, 0),
    *(((0, 0, 2, 2),) * 5),
    (1, 700, 2, 2),
    *(((0, 0, 3, 3),) * 5),
    (2, 1500, 0, 0),
    *(((0, 0, 5, 5),) * 5),
)
"""Of each step: prompts and their tokens, requests that generate and their tokens."""


class Server:
    """A model that serves the requests of a step at once."""

    def __init__(self, machine: Machine) -> None:
        self.on = machine

    def step(self, prompts: int, prompt_tokens: int, requests: int, generated: int) -> None:
        """One step of the server: make the batch, run the model, take a token of each request."""
        on, tokens = self.on, prompt_tokens + generated
        with on.slice("scheduler.py(88): schedule", "python_function"):
            on.spend(70)
        name = f"execute_context_{prompts}({prompt_tokens})_generation_{requests}({generated})"
        with on.slice(name, "user_annotation"):
            with on.slice("model_runner.py(142): execute_model", "python_function"):
                on.spend(25)
                for _ in range(LAYERS):
                    self._layer(tokens)
                with on.slice("sampler.py(31): sample", "python_function"):
                    self._product(max(prompts + requests, 1), WIDTH, 16_000)
                    shape: Tensor = ((prompts + requests, 16_000), HALF)
                    with on.op("aten::argmax", shape):
                        on.launch("void at::native::reduce_kernel<512, 1, ArgMaxOps>", moved=1e5)
                    with on.op("aten::to", shape), on.op("aten::copy_", shape):
                        size = 8 * (prompts + requests)
                        on.copy("Memcpy DtoH (Device -> Pinned)", size, wait=True)

    def _layer(self, tokens: int) -> None:
        on, shape = self.on, ((tokens, WIDTH), HALF)
        with on.op("_C::rms_norm", shape):
            on.spend(3)
            on.launch("void vllm::rms_norm_kernel<c10::BFloat16>", moved=4.0 * tokens * WIDTH)
        self._product(tokens, WIDTH, 3 * WIDTH)
        with on.op("vllm::unified_attention", shape, shape, shape):
            on.spend(9)
            name = "void flash::flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits<128, 64>>"
            on.launch(name, flops=4.0 * tokens * 512 * WIDTH, moved=2e6)
        self._product(tokens, WIDTH, WIDTH)
        self._product(tokens, WIDTH, 4 * WIDTH)
        with on.op("_C::silu_and_mul", ((tokens, 4 * WIDTH), HALF)):
            on.spend(3)
            on.launch("void vllm::act_and_mul_kernel<c10::BFloat16>", moved=24.0 * tokens * WIDTH)
        self._product(tokens, 4 * WIDTH, WIDTH)

    def _product(self, tokens: int, width: int, out: int) -> None:
        """A linear layer; of few tokens it takes as long as its weights are read."""
        on = self.on
        with on.op("aten::mm", ((tokens, width), HALF), ((width, out), HALF)):
            on.spend(6)
            tile = "128x256" if tokens > 128 else "8x64"
            moved = 2.0 * (width * out + tokens * (width + out))
            name = f"nvjet_tst_{tile}_64x4_coopA_TNT"
            on.launch(name, flops=2.0 * tokens * width * out, moved=moved)


def main() -> None:
    """Bind the command line to a trace."""
    parser = argparse.ArgumentParser(description="Make up a server of a language model.")
    parser.add_argument("output", type=Path, help="the trace to write (.json.gz)")
    arguments = parser.parse_args()
    machine = Machine()
    server = Server(machine)
    for step in STEPS:
        server.step(*step)
    document = machine.document()
    document["comment"] = "synthetic: made by examples/synthetic_serving.py, no machine ran it"
    document |= {"profile_memory": 0, "with_stack": 1}
    text = json.dumps(document, separators=(", ", ": "))
    arguments.output.write_bytes(gzip.compress(text.encode(), mtime=0))


if __name__ == "__main__":
    main()
