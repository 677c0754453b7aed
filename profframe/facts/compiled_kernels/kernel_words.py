"""Names of kernels in generated code, and those that a trace has for their calls."""

from __future__ import annotations

import re
from typing import Final

_GRAPH: Final = re.compile(r"graph_\d+_(?=cpp_)")
"""What C++ kernels have before their name in a trace."""
_EXTERN: Final = re.compile(r"extern_kernels\.(?:bias_(?=addmm))?(\w+)")
_DISPATCHED: Final = re.compile(r"torch\.ops\.(\w+)\.(\w+)(?:\.\w+)?")
_SHIM: Final = re.compile(r"aoti_torch_(?:cpu_|cuda_|xpu_|mps_)?(?:_?)(\w+?)(?:_out)?")
_GENERATED: Final = re.compile(r"(?:triton|cpp|cutlass|cuda|rocm|ck|pallas|cutedsl|helion)_\w+")
_CALL: Final = re.compile(r"## Call CompiledFxGraph ([^\s]+) ##")
_MARKER: Final = re.compile(r"## inductor_kernel:(.+):(\d{1,18}) ##", re.DOTALL)
NO_KEY: Final = "None"
"""What is in the place of a key that a graph does not have."""


def word_of(name: str) -> str:
    """A word that a kernel in generated code and its call in a trace have in common.

    Examples
    --------
    >>> word_of("graph_0_cpp_fused_add_1"), word_of("extern_kernels.mm")
    ('cpp_fused_add_1', 'aten::mm')
    >>> word_of("torch.ops.lib.op.default"), word_of("aoti_torch_cpu_mm_out"), word_of("aten::mm")
    ('lib::op', 'aten::mm', 'aten::mm')
    """
    if match := _EXTERN.fullmatch(name):
        return f"aten::{match[1]}"
    if match := _DISPATCHED.fullmatch(name):
        return f"{match[1]}::{match[2]}"
    if match := _SHIM.fullmatch(name):
        return f"aten::{match[1]}"
    return _GRAPH.sub("", name, 1) if _GRAPH.match(name) else name


def is_generated(name: str) -> bool:
    """Whether a kernel is one that Inductor generated, rather than an op that its code calls.

    Examples
    --------
    >>> is_generated("triton_poi_fused_add_0"), is_generated("extern_kernels.mm")
    (True, False)
    """
    return _GENERATED.fullmatch(name) is not None


def key_of_call(name: str) -> str | None:
    """The key of the graph that an annotation is a call of; None if it is none.

    Examples
    --------
    >>> key_of_call("## Call CompiledFxGraph fabc ##"), key_of_call("step")
    ('fabc', None)
    """
    match = _CALL.fullmatch(name)
    return match[1] if match else None


def marked_kernel(name: str) -> tuple[str, int] | None:
    """Name and handle of the kernel that a marker is around the call of; None if it is none.

    Examples
    --------
    >>> marked_kernel("## inductor_kernel:torch.ops.aten.mul.Tensor:1 ##")
    ('torch.ops.aten.mul.Tensor', 1)
    """
    match = _MARKER.fullmatch(name)
    return (match[1], int(match[2])) if match else None
