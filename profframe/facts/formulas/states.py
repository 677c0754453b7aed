"""State spaces: Mamba's scans and the causal convolution before them.

A scan updates, for each element and number of its state: the step times A and its exponential, the
product with B, the state times that, the sum, the product with C and its sum: 7. In chunks (Mamba
2) it is four products of matrices, of which the parts within a chunk are as long as it. A
convolution counts as any other: 2 for each weight.

Sources of the order of arguments: mamba_ssm's ``ops/selective_scan_interface.py`` and
``ops/triton/ssd_combined.py``, causal-conv1d's ``cpp_functions.py``, vLLM's
``csrc/torch_bindings.cpp``.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Final, NamedTuple

from profframe.facts.formulas.formula import Formula, by_op, dense, like, read
from profframe.facts.formulas.ops import Op, Tensor
from profframe.facts.formulas.unknowns import Unknown


def _scan_flops(op: Op) -> int:
    """Also the step times the input, the skip (2), and the gate (2)."""
    source, states = op.tensor(0), op.tensor(2)
    if len(states.shape) != 2 or states.shape[0] not in source.shape:
        raise Unknown
    skip, gate = (op.optional(place) is not None for place in (5, 6))
    return source.count * (7 * states.shape[1] + 1 + 2 * skip + 2 * gate)


def _scan_bytes(op: Op) -> int:
    return read(op, 0, 1, 2, 3, 4, 5, 6, 7) + like(0)(op)


class Chunks(NamedTuple):
    """Rows, heads, their width, groups times states, states, and the length of a chunk."""

    rows: int
    heads: int
    width: int
    grouped: int
    states: int
    chunk: int

    @property
    def flops(self) -> int:
        """C times B, that times the input; B times the input, C times the state."""
        inside = self.chunk * (self.grouped + self.heads * self.width)
        across = 2 * self.heads * self.states * self.width
        return 2 * self.rows * (inside + across)


def _chunk_scan(op: Op) -> Chunks:
    """``(batch, length, heads, width)``; B of ``(batch, length, groups, states)`` at 3."""
    source, factor = op.tensor(0), op.tensor(3)
    if len(source.shape) != 4 or len(factor.shape) != 4 or source.shape[:2] != factor.shape[:2]:
        raise Unknown
    rows, (heads, width), (groups, states) = (
        math.prod(source.shape[:2]), source.shape[2:], factor.shape[2:]
    )  # fmt: skip
    return Chunks(rows, heads, width, groups * states, states, op.ints(5, 1)[0])


class MambaLayer(NamedTuple):
    """Parts of a layer of Mamba 2: its scan, its convolution, and the weight of its output."""

    scan: Chunks
    channels: int
    taps: int
    output: Tensor | None

    @property
    def inner(self) -> int:
        """Elements of a row inside the layer."""
        return self.scan.heads * self.scan.width


def _layer(op: Op) -> MambaLayer:
    """Projections of a row in one: the gate, the input, B, C, and the steps.

    Their sizes follow from that of the convolution; the groups are the number after the width.
    """
    rows, weight, steps = op.tensor(0), op.tensor(1), op.tensor(3)
    (channels, taps), (heads,) = weight.shape, steps.shape
    inner = rows.shape[-1] - channels - heads
    if not heads or inner <= 0 or inner % heads or (channels - inner) % 2:
        raise Unknown
    width, grouped = inner // heads, (channels - inner) // 2
    numbers = [_number(op, place) for place in range(7, len(op.values))]
    pairs = pairwise(numbers)
    groups = next(second for first, second in pairs if first == width and second)
    chunk = op.ints(6, 1)[0]
    scan = Chunks(math.prod(rows.shape[:-1]), heads, width, grouped, grouped // groups, chunk)
    outputs = [t for t in map(op.optional, range(7, len(op.dims))) if t and len(t.shape) == 2]
    fitting = [output for output in outputs if output.shape[1] == inner]
    return MambaLayer(scan, channels, taps, fitting[0] if fitting else None)


def _number(op: Op, place: int) -> int | None:
    try:
        return op.ints(place, 1)[0]
    except Unknown:
        return None


def _layer_flops(op: Op) -> int:
    layer = _layer(op)
    output = layer.output.count if layer.output is not None else 0
    return layer.scan.flops + 2 * layer.scan.rows * (layer.channels * layer.taps + output)


def _layer_bytes(op: Op) -> int:
    layer = _layer(op)
    columns = layer.inner if layer.output is None else layer.output.shape[0]
    weights = 0 if layer.output is None else layer.output.bytes
    written = layer.scan.rows * columns * op.tensor(0).size
    return read(op, 0, 1, 2, 3, 4, 5) + weights + written


def _taps(weight: Tensor, channels: int, *others: int) -> int:
    """Width of a convolution with a row of weights for each channel."""
    if len(weight.shape) != 2 or weight.shape[0] not in {channels, *others}:
        raise Unknown
    return weight.shape[1]


def _convolved(source: int, weight: int, each: int, *reads: int) -> Formula:
    """``each`` operations for a weight; the results are as large as the input."""

    def flops(op: Op) -> int:
        rows = op.tensor(source)
        return each * rows.count * _taps(op.tensor(weight), *rows.shape)

    return Formula(flops, lambda op: read(op, source, weight, *reads) + like(source)(op))


def _update(op: Op) -> int:
    """A step: the states of its sequences are read and written, too."""
    source, state = op.tensor(0), op.tensor(1)
    if len(state.shape) != 3:
        raise Unknown
    states = source.shape[0] * state.shape[1] * state.shape[2]
    return read(op, 0, 2, 3) + dense(source) + 2 * states * state.size


STATES: Final = by_op(
    {
        "SelectiveScanFn _C::selective_scan_fwd": Formula(_scan_flops, _scan_bytes),
        "MambaChunkScanCombinedFn": Formula(
            lambda op: _chunk_scan(op).flops, lambda op: read(op, 0, 1, 2, 3, 4, 6, 7) + like(0)(op)
        ),
        "MambaSplitConv1dScanCombinedFn": Formula(_layer_flops, _layer_bytes),
        "DaoAILab::_causal_conv1d_fwd_cpp CausalConv1dFn _C::causal_conv1d_fwd"
        " sgl_kernel::causal_conv1d_fwd": _convolved(0, 1, 2, 2),
        # input, weight, bias, gradient: both gradients
        "DaoAILab::_causal_conv1d_bwd_cpp": _convolved(0, 1, 4, 2, 3),
        "DaoAILab::_causal_conv1d_update_cpp _C::causal_conv1d_update"
        " sgl_kernel::causal_conv1d_update": Formula(
            lambda op: 2 * op.tensor(0).count * _taps(op.tensor(2), *op.tensor(0).shape), _update
        ),
    },
    "{}",
)
"""Name of the op -> its formula."""
