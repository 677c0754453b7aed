"""Convolutions: each output is a sum over the window and the channels of its group."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from profframe.facts.formulas.formula import Count, Formula, by_op, dense, product, read
from profframe.facts.formulas.ops import Op, Shape
from profframe.facts.formulas.unknowns import Unknown


@dataclass(frozen=True, slots=True)
class ArgumentPlaces:
    """Places of an op's arguments; ``transposed`` is a place, or the same for all calls."""

    stride: int
    padding: int
    dilation: int | None = None
    bias: int | None = None
    transposed: int | bool = False
    output_padding: int | None = None
    groups: int | None = None
    others: tuple[int, ...] = ()

    def image(self, op: Op) -> tuple[Shape, Shape]:
        """Sizes of the input without batch and channels, and those of the window."""
        image, window = op.tensor(0).shape, op.tensor(1).shape
        if len(window) < 3 or len(image) not in {len(window), len(window) - 1}:
            raise Unknown
        ndim = len(window) - 2
        return image[-ndim:], window[-ndim:]

    def is_transposed(self, op: Op) -> bool:
        """Whether it is a transposed convolution, which enlarges images."""
        if isinstance(self.transposed, bool):
            return self.transposed
        return bool(op.value(self.transposed))

    def out(self, op: Op) -> Shape:
        """Sizes of the output without batch and channels."""
        image, window = self.image(op)
        ndim = len(image)
        stride = op.ints(self.stride, ndim)
        dilation = (1,) * ndim if self.dilation is None else op.ints(self.dilation, ndim)
        reach: Sequence[int] = [d * (k - 1) for d, k in zip(dilation, window, strict=True)]
        padding: Sequence[int]
        if self.is_transposed(op):
            output_padding = (0,) * ndim
            if self.output_padding is not None:
                output_padding = op.ints(self.output_padding, ndim)
            padding = [2 * p for p in op.ints(self.padding, ndim)]
            sizes = [
                (n - 1) * s - a + r + e + 1
                for n, s, a, r, e in zip(image, stride, padding, reach, output_padding, strict=True)
            ]
        else:
            padding = self._padding(op, reach)
            sizes = [
                (n + a - r - 1) // s + 1
                for n, a, r, s in zip(image, padding, reach, stride, strict=True)
            ]
        if any(n < 0 for n in sizes):
            raise Unknown
        return tuple(sizes)

    def _padding(self, op: Op, reach: Sequence[int]) -> Sequence[int]:
        """Padding of the image, both sides together."""
        padding = op.value(self.padding)
        if padding == "same":
            return reach
        if padding == "valid":
            return [0] * len(reach)
        return [2 * p for p in op.ints(self.padding, len(reach))]

    def batch(self, op: Op) -> int:
        """Images in the batch; 1 without a batch dimension."""
        image, window = op.tensor(0).shape, op.tensor(1).shape
        return image[0] if len(image) == len(window) else 1

    def channels(self, op: Op) -> int:
        """Channels of the output."""
        weight = op.tensor(1).shape
        if not self.is_transposed(op):
            return weight[0]
        groups = 1 if self.groups is None else op.ints(self.groups, 1)[0]
        return weight[1] * groups


def _forward(places: ArgumentPlaces) -> Formula:
    """Each weight is used at each place of the output, or of the input if transposed."""

    def flops(op: Op) -> int:
        positions = places.image(op)[0] if places.is_transposed(op) else places.out(op)
        return 2 * places.batch(op) * math.prod(positions) * op.tensor(1).count

    def bytes_(op: Op) -> int:
        outputs = places.batch(op) * places.channels(op) * math.prod(places.out(op))
        others = () if places.bias is None else (places.bias,)
        return read(op, 0, 1, *others, *places.others) + outputs * op.tensor(0).size

    return Formula(flops, bytes_)


@dataclass(frozen=True, slots=True)
class Backward:
    """Places of a backward op's arguments; ``mask`` is that of the output gradients."""

    gradient: int
    image: int
    weight: int
    transposed: int | bool
    mask: int | tuple[bool, bool, bool]

    def gradients(self, op: Op) -> tuple[bool, bool, bool]:
        """Whether the gradients of input, weight and bias are computed."""
        mask = op.value(self.mask) if isinstance(self.mask, int) else self.mask
        if not isinstance(mask, (list, tuple)) or not 2 <= len(mask) <= 3:
            raise Unknown
        of_image, of_weight, of_bias = (*map(bool, mask), False)[:3]
        return of_image, of_weight, of_bias

    def flops(self, op: Op) -> int:
        """As many as forward for input and weight each; the sum for the bias is not counted."""
        always = isinstance(self.transposed, bool)
        transposed = self.transposed if always else bool(op.value(self.transposed))
        shape = op.tensor(self.image if transposed else self.gradient).shape
        weight = op.tensor(self.weight).shape
        if len(shape) != len(weight) or len(weight) < 3:
            raise Unknown
        of_image, of_weight, _ = self.gradients(op)
        forward = 2 * shape[0] * math.prod(shape[2:]) * math.prod(weight)
        return forward * (of_image + of_weight)

    def bytes(self, op: Op) -> int:
        """The inputs, and the gradients in the mask."""
        gradient, image, weight = map(op.tensor, (self.gradient, self.image, self.weight))
        of_image, of_weight, of_bias = self.gradients(op)
        output_bytes = of_image * dense(image) + of_weight * dense(weight)
        if of_bias:
            output_bytes += gradient.shape[1] * weight.size
        return read(op, self.gradient, self.image, self.weight) + output_bytes


def _input_gradient(op: Op) -> int:
    """FLOPs from gradient and weight, because the size of the input is not recorded."""
    gradient, weight = op.tensor(1).shape, op.tensor(2)
    return 2 * gradient[0] * math.prod(gradient[2:]) * weight.count


def _backward(places: Backward) -> Formula:
    return Formula(places.flops, places.bytes)


def _unpadded(stride: int) -> Count:
    """FLOPs without padding, dilation or transposition."""

    def flops(op: Op) -> int:
        (batch, _, *image), (_, _, *window) = op.tensor(0).shape, op.tensor(1).shape
        steps = op.ints(stride, len(image))
        out = [(n - k) // s + 1 for n, k, s in zip(image, window, steps, strict=True)]
        return 2 * batch * product(out) * op.tensor(1).count

    return flops


CONVOLUTIONS: Final = by_op(
    {
        "convolution _convolution convolution_overrideable": _forward(
            ArgumentPlaces(
                bias=2, stride=3, padding=4, dilation=5, transposed=6, output_padding=7, groups=8
            )
        ),
        "conv1d conv2d conv3d _convolution_mode cudnn_convolution_relu miopen_convolution_relu": (
            _forward(ArgumentPlaces(bias=2, stride=3, padding=4, dilation=5))
        ),
        "conv_transpose1d conv_transpose2d conv_transpose3d": _forward(
            ArgumentPlaces(
                bias=2, stride=3, padding=4, output_padding=5, groups=6, dilation=7, transposed=True
            )
        ),
        "_slow_conv2d_forward thnn_conv2d slow_conv3d slow_conv3d_forward": _forward(
            ArgumentPlaces(bias=3, stride=4, padding=5)
        ),
        "_conv_depthwise2d conv_depthwise3d slow_conv_dilated2d slow_conv_dilated3d": _forward(
            ArgumentPlaces(bias=3, stride=4, padding=5, dilation=6)
        ),
        "slow_conv_transpose2d slow_conv_transpose3d": _forward(
            ArgumentPlaces(
                bias=3, stride=4, padding=5, output_padding=6, dilation=7, transposed=True
            )
        ),
        "cudnn_convolution": _forward(ArgumentPlaces(padding=2, stride=3, dilation=4)),
        "cudnn_convolution_transpose": _forward(
            ArgumentPlaces(
                padding=2, output_padding=3, stride=4, dilation=5, groups=6, transposed=True
            )
        ),
        "miopen_convolution mkldnn_convolution miopen_depthwise_convolution": _forward(
            ArgumentPlaces(bias=2, padding=3, stride=4, dilation=5)
        ),
        "cudnn_convolution_add_relu": _forward(
            ArgumentPlaces(bias=4, stride=5, padding=6, dilation=7, others=(2,))
        ),
        "convolution_backward": _backward(Backward(0, 1, 2, transposed=7, mask=10)),
        "convolution_backward_overrideable": _backward(Backward(0, 1, 2, transposed=6, mask=9)),
        "cudnn_convolution_backward_input miopen_convolution_backward_input": Formula(
            _input_gradient
        ),
        "_slow_conv2d_backward": _backward(Backward(0, 1, 2, transposed=False, mask=6)),
    }
)
"""Name of the op -> its formula.

``torch.utils.flop_counter`` has the same numbers, except for the weight gradient of grouped
convolutions, where it counts all channels for each group.
"""

UNPADDED: Final = MappingProxyType(
    {
        name: Formula(_unpadded(stride), CONVOLUTIONS[name].bytes)
        for name, stride in (
            ("aten::convolution", 3),
            ("aten::_convolution", 3),
            ("aten::convolution_overrideable", 3),
            ("aten::cudnn_convolution", 3),
            ("aten::_slow_conv2d_forward", 4),
        )
    }
)
"""Formulas with FLOPs as ``torch._inductor.analysis`` counts them."""
