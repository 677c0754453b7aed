"""FLOPs and bytes of one call of each formula, typed by hand."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from profframe.errors import ParameterError
from profframe.facts.formulas import (
    DTYPES,
    FORMULAS,
    PATTERNS,
    Formula,
    Op,
    Unknown,
    checked_formulas,
    count,
    counted,
    formula_of,
)
from profframe.facts.formulas.convolutions import UNPADDED
from profframe.facts.formulas.dtypes import (
    BF16,
    FP4,
    FP8,
    FP16,
    FP32,
    FP64,
    INT8,
    INT64,
    SCALAR_TYPES,
    Dtype,
)
from profframe.facts.formulas.formula import meet
from profframe.facts.formulas.ops import Tensor, parsed
from tests import needs
from tests.unit.calls import NONE, Argument, byte, f, fp8, full, h, listed, long, op_of, truth, v
from tests.unit.library_calls import LIBRARY_CASES, PATTERN_CASES, u8

IMAGE, WINDOW = f(2, 4, 5, 6), f(6, 2, 3, 3)
"""Two images of 4 channels, 5 by 6; 6 channels out of 2 each, in two groups, 3 by 3."""
CONV = (v([1, 2]), v([1, 0]), v([1, 1]))
"""Stride, padding and dilation: 5 by 2 come out. 2 * 2 images * 10 * 108 weights = 4320."""
QKV = (f(2, 6, 5, 4), f(2, 3, 7, 4), f(2, 3, 7, 8))
"""240 floats, 168 and 336; 480 come out. 2 * 12 heads * 5 * 7 pairs * (4 + 8) = 10080."""
BACK = 2 * 12 * 35 * (3 * 4 + 2 * 8)
SUMS = f(2, 6, 5)
YES, NO = v(value=True), v(value=False)
STATES = listed([4, 6], [3])
"""27 numbers: 108 bytes in fp32."""

GONE = {
    "_cat", "_linear", "cudnn_convolution_backward_input", "miopen_convolution_backward_input",
    "__and_", "__or_", "__xor_",
}  # fmt: skip
"""Ops of older torch, and names that end in an underscore."""

CASES: list[tuple[str, tuple[Argument, ...], int | None, int | None]] = [
    # Products: 2 m n k.
    ("mm", (f(4, 5), f(5, 3)), 120, 4 * (20 + 15 + 12)),
    ("_int_mm", (byte(4, 5), byte(5, 3)), 120, 20 + 15 + 4 * 12),
    ("addmm", (h(3), h(4, 5), h(5, 3), v(1), v(1)), 120, 2 * (3 + 20 + 15 + 12)),
    ("bmm", (f(2, 4, 5), f(2, 5, 3)), 240, 4 * (40 + 30 + 24)),
    ("baddbmm", (f(2, 4, 3), f(2, 4, 5), f(2, 5, 3), v(1), v(1)), 240, 4 * (24 + 40 + 30 + 24)),
    ("addbmm", (f(4, 3), f(2, 4, 5), f(2, 5, 3), v(1), v(1)), 240, 4 * (12 + 40 + 30 + 12)),
    ("matmul", (f(2, 1, 4, 5), f(7, 5, 3)), 1680, 4 * (40 + 105 + 168)),
    ("matmul", (f(5), f(5)), 10, 4 * (5 + 5 + 1)),
    ("addmv", (f(4), f(4, 5), f(5), v(1), v(1)), 40, 4 * (4 + 20 + 5 + 4)),
    ("linear", (f(2, 4, 5), f(3, 5), f(3)), 240, 4 * (40 + 15 + 3 + 24)),
    ("linear", (f(5), f(3, 5), NONE), 30, 4 * (5 + 15 + 3)),
    ("linear_backward", (f(4, 5), f(4, 3), f(3, 5), v([True, True, True])), 240,
     4 * (20 + 12 + 15 + 20 + 15 + 3)),
    ("linear_backward", (f(4, 5), f(4, 3), f(3, 5), v([True, False, True])), 120,
     4 * (20 + 12 + 15 + 20 + 3)),
    ("linear_backward", (f(4, 5), f(4, 3), f(3, 5), v([False, True, False])), 120,
     4 * (20 + 12 + 15 + 15)),
    ("linear_backward", (f(4, 5), f(4, 3), f(3, 5), v([False, False, True])), 0,
     4 * (20 + 12 + 15 + 3)),
    ("_scaled_mm", (fp8(16, 32), fp8(32, 16), f(), f(), NONE, NONE, v(15), NO), 16384,
     512 + 512 + 4 + 4 + 2 * 256),
    ("_scaled_mm_v2", (fp8(16, 32), fp8(32, 16)), 16384, None),
    ("_grouped_mm", (h(10, 4), h(3, 4, 5), ([3], "int", ""), NONE, NONE), 400,
     2 * (40 + 60 + 50) + 12),
    ("_grouped_mm", (h(4, 10), h(10, 5), ([3], "int", ""), NONE, NONE), 400,
     2 * (40 + 50 + 60) + 12),
    ("_grouped_mm", (h(3, 4, 2), h(2, 10), ([3], "int", ""), NONE, NONE), 160,
     2 * (24 + 20 + 40) + 12),
    ("_scaled_grouped_mm",
     (fp8(16, 32), fp8(2, 32, 16), f(16), f(2, 16), ([2], "int", ""), NONE, NONE, v(15), NO),
     16384, 512 + 1024 + 64 + 128 + 8 + 2 * 256),
    ("_weight_int8pack_mm", (h(4, 5), ([3, 5], "signed char", ""), h(3)), 120, 40 + 15 + 6 + 24),
    ("_weight_int4pack_mm", (h(4, 64), ([2, 1, 32, 4], "int", ""), v(32), h(2, 16, 2)), 8192,
     512 + 1024 + 128 + 128),
    # Convolutions: 2 * places that come out * weights; 60 of 4 channels are 240 floats.
    ("convolution", (IMAGE, WINDOW, f(6), *CONV, NO, v([0, 0]), v(2)), 4320,
     4 * (240 + 108 + 6 + 120)),
    ("convolution", (f(2, 4, 5, 6), f(4, 3, 3, 3), NONE, v([2, 2]), v([0, 0]), v([1, 1]), YES,
                     v([1, 0]), v(2)), 12960, 4 * (240 + 108 + 2 * 6 * 12 * 13)),
    ("conv2d", (IMAGE, WINDOW, f(6), *CONV, v(2)), 4320, 4 * (240 + 108 + 6 + 120)),
    ("conv2d", (f(4, 5, 6), WINDOW, NONE, v([1, 1]), ([], "", "same"), v([2, 1]), v(2)), 6480,
     4 * (120 + 108 + 180)),
    ("conv1d", (f(2, 4, 9), f(6, 4, 3), NONE, v([2]), ([], "", "valid"), v([1]), v(1)), 1152,
     4 * (72 + 72 + 48)),
    ("conv_transpose1d", (f(2, 4, 8), f(4, 3, 3), f(3), v([2]), v([1]), v([1]), v(1), v([1])),
     1152, 4 * (64 + 36 + 3 + 2 * 3 * 16)),
    ("_slow_conv2d_forward", (f(2, 2, 5, 6), WINDOW, v([3, 3]), f(6), v([1, 2]), v([1, 0])), 4320,
     4 * (120 + 108 + 6 + 120)),
    ("_conv_depthwise2d", (f(2, 6, 5, 6), f(6, 1, 3, 3), v([3, 3]), NONE, *CONV), 2160,
     4 * (360 + 54 + 120)),
    ("slow_conv_transpose2d", (f(2, 4, 5, 6), f(4, 3, 3, 3), v([3, 3]), f(3), v([2, 2]),
                               v([0, 0]), v([1, 0]), v([1, 1])), 12960,
     4 * (240 + 108 + 3 + 2 * 3 * 12 * 13)),
    ("cudnn_convolution", (IMAGE, WINDOW, CONV[1], CONV[0], CONV[2], v(2), YES, NO, YES), 4320,
     4 * (240 + 108 + 120)),
    ("cudnn_convolution_transpose", (f(2, 4, 8), f(4, 3, 3), v([1]), v([1]), v([2]), v([1]), v(1)),
     1152, 4 * (64 + 36 + 2 * 3 * 16)),
    ("mkldnn_convolution", (IMAGE, WINDOW, f(6), CONV[1], CONV[0], CONV[2], v(2)), 4320,
     4 * (240 + 108 + 6 + 120)),
    ("cudnn_convolution_add_relu", (IMAGE, WINDOW, f(2, 6, 5, 2), v(1), f(6), *CONV, v(2)), 4320,
     4 * (240 + 108 + 120 + 6 + 120)),
    ("convolution_backward", (f(2, 6, 5, 2), IMAGE, WINDOW, v([6]), *CONV, NO, v([0, 0]), v(2),
                              v([True, True, True])), 8640,
     4 * (120 + 240 + 108 + 240 + 108 + 6)),
    ("convolution_backward", (f(2, 6, 5, 2), IMAGE, WINDOW, v([0]), *CONV, NO, v([0, 0]), v(2),
                              v([False, True, False])), 4320, 4 * (120 + 240 + 108 + 108)),
    ("convolution_backward_overrideable", (f(2, 6, 5, 2), IMAGE, WINDOW, *CONV, NO, v([0, 0]),
                                           v(2), v([True, False, False])), 4320,
     4 * (120 + 240 + 108 + 240)),
    ("cudnn_convolution_backward_input", (v([]), f(2, 6, 5, 2), WINDOW), 4320, None),
    ("_slow_conv2d_backward", (f(2, 6, 5, 2), f(2, 2, 5, 6), WINDOW, v([3, 3]), v([1, 2]),
                               v([1, 0]), v([True, True, False])), 8640,
     4 * (120 + 120 + 108 + 120 + 108)),
    # Attention.
    ("scaled_dot_product_attention", (*QKV, f(5, 7), v(0.0), NO, NONE, YES), 10080,
     4 * (240 + 168 + 336 + 35 + 480)),
    ("_scaled_dot_product_flash_attention", (*QKV, v(0.0), YES, NO, NONE), 10080,
     4 * (240 + 168 + 336 + 480)),
    ("_scaled_dot_product_flash_attention_for_cpu", (*QKV, v(0.0), NO, f(5, 7), NONE), 10080,
     4 * (240 + 168 + 336 + 35 + 480)),
    ("_scaled_dot_product_flash_attention_backward",
     (f(2, 6, 5, 8), *QKV, f(2, 6, 5, 8), SUMS, NONE, NONE, v(5), v(7), v(0.0), NO), BACK,
     4 * (480 + 744 + 480 + 60 + 744)),
    ("_scaled_dot_product_efficient_attention_backward",
     (f(2, 6, 5, 8), *QKV, NONE, f(2, 6, 5, 8), SUMS, v(0)), BACK,
     4 * (480 + 744 + 480 + 60 + 744)),
    ("_scaled_dot_product_cudnn_attention_backward",
     (f(2, 6, 5, 8), *QKV, f(2, 6, 5, 8), SUMS, v(0), v(0), f(5, 7)), BACK,
     4 * (480 + 744 + 480 + 60 + 35 + 744)),
    ("_scaled_dot_product_fused_attention_overrideable_backward",
     (f(2, 6, 5, 8), *QKV, f(5, 7), v([True] * 4), f(2, 6, 5, 8), SUMS), BACK,
     4 * (480 + 744 + 35 + 480 + 60 + 744)),
    ("_flash_attention_forward",
     (f(9, 6, 4), f(9, 3, 4), f(9, 3, 8), ([3], "int", ""), ([3], "int", ""), v(5), v(7)), 10080,
     4 * (216 + 108 + 216 + 432)),
    ("_efficient_attention_forward",
     (f(1, 9, 6, 4), f(1, 9, 3, 4), f(1, 9, 3, 8), NONE, ([3], "int", ""), ([3], "int", ""), v(5),
      v(7)), 10080, 4 * (216 + 108 + 216 + 432)),
    ("_flash_attention_backward",
     (f(9, 6, 8), f(9, 6, 4), f(9, 3, 4), f(9, 3, 8), f(9, 6, 8), f(6, 9), ([3], "int", ""),
      ([3], "int", ""), v(5), v(7)), BACK, 4 * (432 + 540 + 432 + 54 + 540)),
    ("_efficient_attention_backward",
     (f(1, 9, 6, 8), f(1, 9, 6, 4), f(1, 9, 3, 4), f(1, 9, 3, 8), NONE, f(1, 9, 6, 8),
      ([3], "int", ""), ([3], "int", ""), v(5), v(7), f(1, 6, 9)), BACK,
     4 * (432 + 540 + 432 + 54 + 540)),
    ("flex_attention", QKV, 10080, None),
    ("flex_attention_backward", QKV, BACK, None),
    ("flash_attn::_flash_attn_forward", (h(2, 5, 6, 4), h(2, 7, 3, 4), h(2, 7, 3, 8)), 10080,
     2 * (240 + 168 + 336 + 480)),
    ("flash_attn::_flash_attn_backward",
     (h(2, 5, 6, 8), h(2, 5, 6, 4), h(2, 7, 3, 4), h(2, 7, 3, 8), h(2, 5, 6, 8), f(2, 6, 5)), BACK,
     2 * (480 + 744 + 480 + 744) + 4 * 60),
    ("flash_attn::_flash_attn_varlen_forward",
     (h(10, 6, 4), h(14, 3, 4), h(14, 3, 8), ([3], "int", ""), ([3], "int", ""), v(5), v(7)),
     10080, 2 * (240 + 168 + 336 + 480)),
    ("flash_attn::_flash_attn_varlen_forward",
     (h(9, 6, 4), h(14, 3, 4), h(14, 3, 8), ([3], "int", ""), ([3], "int", ""), v(5), v(7)), None,
     2 * (216 + 168 + 336 + 432)),
    # Elements.
    ("exp", (f(4, 6),), 24, 4 * 48),
    ("exp", (long(4, 6),), 24, 8 * 24 + 4 * 24),
    ("exp_", (f(4, 6),), 24, 4 * 48),
    ("relu", (h(4, 6),), 24, 2 * 48),
    ("relu_", (h(4, 6),), 24, 2 * 48),
    ("isnan", (f(4, 6),), 24, 96 + 24),
    ("logical_not_", (truth(4, 6),), 24, 48),
    ("add", (f(4, 1), f(3, 1, 6), v(1)), 72, 4 * (4 + 18 + 72)),
    ("mul", (h(4, 6), f(6)), 24, 48 + 24 + 96),
    ("mul", (h(4, 6), ([], "double", "")), 24, 48 + 8 + 48),
    ("mul", (long(4, 6), v(2.5)), 24, 8 * 24 + 4 * 24),
    ("mul", (long(4, 6), v(2)), 24, 8 * 48),
    ("add_", (f(4, 6), h(6), v(1)), 24, 96 + 12 + 96),
    ("div", (long(4, 6), long(6)), 24, 8 * 30 + 4 * 24),
    ("div_", (f(4, 6), v(2)), 24, 4 * 48),
    ("gt", (f(4, 6), v(0)), 24, 96 + 24),
    ("eq_", (f(4, 6), f(6)), 24, 4 * (24 + 6 + 24)),
    ("clamp", (f(4, 6), v(0), v(1)), 48, 4 * 48),
    ("clamp_", (f(4, 6), v(0), v(1)), 48, 4 * 48),
    ("clamp_min", (f(4, 6), v(0)), 24, 4 * 48),
    ("clamp_min_", (f(4, 6), v(0)), 24, 4 * 48),
    ("addcmul", (f(4, 6), f(4, 6), f(4, 6), v(1)), 48, 4 * 96),
    ("addcdiv_", (f(4, 6), f(4, 6), f(4, 6), v(1)), 48, 4 * 96),
    ("lerp", (f(4, 6), f(4, 6), v(0.1)), 72, 4 * 72),
    ("lerp_", (f(4, 6), f(4, 6), v(0.1)), 72, 4 * 72),
    ("masked_fill", (f(4, 6), truth(6), v(1)), 0, 96 + 6 + 96),
    ("masked_fill_", (f(4, 6), truth(6), v(1)), 0, 96 + 6 + 96),
    ("gelu_backward", (f(4, 6), f(4, 6), NONE), 24, 4 * 72),
    ("elu_backward", (f(4, 6), v(1), v(1), v(1), NO, f(4, 6)), 24, 4 * 72),
    ("where", (truth(4, 6), f(), f(4, 6)), 0, 24 + 4 + 96 + 96),
    ("native_dropout", (f(4, 6), v(0.5), YES), 48, 96 + 96 + 24),
    ("_masked_scale", (f(4, 6), ([4, 6], "unsigned char", ""), v(2.0)), 48, 96 + 24 + 96),
    ("mse_loss", (f(4, 6), f(4, 6), v(1)), 72, 4 * 49),
    ("l1_loss", (f(4, 6), f(4, 6), v(0)), 48, 4 * 72),
    ("mse_loss_backward", (f(), f(4, 6), f(4, 6), v(1)), 72, 4 * 73),
    ("cumsum", (truth(4, 6), v(0), NONE), 24, 24 + 8 * 24),
    # Lists of tensors.
    ("_foreach_sqrt", (STATES,), 27, 2 * 108),
    ("_foreach_mul_", (STATES, v(0.9)), 27, 2 * 108),
    ("_foreach_add_", (STATES, STATES, v(1)), 27, 3 * 108),
    ("_foreach_mul_", (STATES, f()), 27, 2 * 108 + 4),
    ("_foreach_addcmul_", (STATES, STATES, STATES, v(1)), 54, 4 * 108),
    ("_foreach_lerp_", (STATES, STATES, v(0.1)), 81, 3 * 108),
    ("_foreach_copy_", (STATES, STATES, NO), 0, 2 * 108),
    ("_foreach_zero_", (STATES,), 0, 108),
    ("_foreach_norm", (STATES, v(2)), 54, 108 + 8),
    ("_amp_foreach_non_finite_check_and_unscale_", (STATES, f(1), f()), 27, 2 * 108),
    ("_fused_adam_", (*[STATES] * 4, listed(), listed([], []), *[v(0.1)] * 3, v(0.0)), 351,
     7 * 108),
    ("_fused_adam_", (*[STATES] * 5, listed([], []), *[v(0.1)] * 3, v(0.01)), 432, 9 * 108),
    ("_fused_adamw_", (*[STATES] * 4, listed(), listed([], []), *[v(0.1)] * 4), 378, 7 * 108),
    ("_fused_adagrad_", (*[STATES] * 3, listed([], []), v(0.1), v(0.0), v(0.0)), 189, 5 * 108),
    ("_fused_sgd_", (STATES, STATES, STATES, v(0.0), v(0.9)), 108, 5 * 108),
    ("_fused_sgd_", (STATES, STATES, listed(), v(0.1), v(0.0)), 108, 3 * 108),
    # Reductions.
    ("sum", (f(4, 6), v([1]), NO, NONE), 24, 4 * 28),
    ("sum", (f(4, 6), NONE), 24, 4 * 25),
    ("sum", (h(4, 6), v(6)), 24, 48 + 4),
    ("sum", (truth(4, 6), v([0, -1]), NO, NONE), 24, 24 + 8),
    ("mean", (h(4, 6), v([]), NO, v(6)), 24, 48 + 4),
    ("amax", (f(4, 6), v([0]), NO), 24, 4 * 30),
    ("logsumexp", (f(4, 6), v([0]), NO), 72, 4 * 30),
    ("any", (f(4, 6), v(1), NO), 24, 96 + 4),
    ("argmax", (f(4, 6), NONE, NO), 24, 96 + 8),
    ("max", (f(4, 6),), 24, 4 * 25),
    ("max", (f(4, 6), v(1), NO), 24, 4 * 28 + 8 * 4),
    ("min", (f(4, 6), f(6)), 24, 4 * (24 + 6 + 24)),
    ("std", (f(4, 6), NONE, NONE, NO), 96, 4 * 25),
    ("var_mean", (f(4, 6), v([1]), NONE, NO), 96, 4 * 32),
    ("linalg_vector_norm", (f(4, 6), v(2), NONE, NO, NONE), 48, 4 * 25),
    ("_softmax", (h(4, 6), v(1), YES), 120, 48 + 96),
    ("_log_softmax", (f(4, 6), v(1), NO), 120, 4 * 48),
    ("_softmax_backward_data", (f(4, 6), f(4, 6), v(1), v(15)), 96, 4 * 48 + 2 * 24),
    ("native_layer_norm", (h(4, 6), v([6]), f(6), f(6), v(1e-5)), 168, 48 + 48 + 48),
    ("native_layer_norm", (h(4, 6), v([6]), NONE, NONE, v(1e-5)), 120, 96),
    ("_fused_rms_norm", (f(4, 6), v([6]), f(6), NONE), 96, 4 * (24 + 6 + 24)),
    ("native_group_norm", (f(4, 6, 2), f(6), f(6), v(4)), 336, 4 * (48 + 12 + 48)),
    ("native_batch_norm", (f(4, 6), *[f(6)] * 4, YES, v(0.1), v(1e-5)), 168, 4 * (24 + 24 + 24)),
    ("native_batch_norm", (f(4, 6), *[f(6)] * 4, NO, v(0.1), v(1e-5)), 96, 4 * (24 + 24 + 24)),
    ("_native_batch_norm_legit_no_training", (f(4, 6), *[f(6)] * 4, v(0.1), v(1e-5)), 96, 4 * 72),
    ("native_layer_norm_backward", (f(4, 6), f(4, 6), v([6]), f(4, 1), f(4, 1), f(6), f(6),
                                    v([True, True, True])), 288,
     4 * (24 + 24 + 4 + 4 + 6 + 6 + 24 + 6 + 6)),
    ("_fused_rms_norm_backward", (f(4, 6), f(4, 6), v([6]), f(4, 1), f(6), v([True, True])), 216,
     4 * (24 + 24 + 4 + 6 + 24 + 6)),
    ("native_group_norm_backward", (f(4, 6, 2), f(4, 6, 2), f(4, 2), f(4, 2), f(6), v(4), v(6),
                                    v(2), v(2), v([True, False, False])), 432,
     4 * (48 + 48 + 8 + 8 + 6 + 48)),
    ("native_batch_norm_backward", (f(4, 6), f(4, 6), *[f(6)] * 5, YES, v(1e-5),
                                    v([True, True, True])), 288,
     4 * (24 + 24 + 30 + 24 + 12)),
    ("cudnn_batch_norm_backward", (f(4, 6), f(4, 6), *[f(6)] * 5, v(1e-5)), 288,
     4 * (24 + 24 + 30 + 24 + 12)),
    ("max_pool2d_with_indices", (f(1, 2, 8, 8), v([2, 2]), v([]), v([0, 0]), v([1, 1]), NO), 128,
     4 * (128 + 32) + 8 * 32),
    ("max_pool3d_with_indices", (f(2, 4, 4, 4), v([2]), v([2]), v([0]), v([1]), NO), 128,
     4 * (128 + 16) + 8 * 16),
    ("avg_pool2d", (f(1, 2, 8, 7), v([3, 3]), v([2, 2]), v([1, 1]), YES, YES, NONE), 360,
     4 * (112 + 40)),
    ("avg_pool3d", (f(1, 2, 4, 4, 4), v([2, 2, 2]), v([2, 2, 2]), v([0, 0, 0]), NO), 128,
     4 * (128 + 16)),
    ("max_pool2d_with_indices_backward",
     (f(1, 2, 4, 4), f(1, 2, 8, 8), v([2, 2]), v([]), v([0, 0]), v([1, 1]), NO, long(1, 2, 4, 4)),
     32, 4 * (32 + 128) + 8 * 32),
    ("avg_pool2d_backward", (f(1, 2, 4, 4), f(1, 2, 8, 8), v([2, 2])), 128, 4 * (32 + 128)),
    ("_adaptive_avg_pool2d", (f(1, 2, 8, 8), v([1, 1])), 128, 4 * (128 + 2)),
    ("_adaptive_avg_pool2d_backward", (f(1, 2, 1, 1), f(1, 2, 8, 8)), 128, 4 * (2 + 128)),
    ("upsample_nearest2d", (f(1, 2, 8, 8), v([16, 16]), v(2.0), v(2.0)), 0, 4 * (128 + 512)),
    ("upsample_bilinear2d", (f(1, 2, 8, 8), v([4, 4]), NO), 224, 4 * (128 + 32)),
    ("nll_loss_forward", (f(4, 6), long(4), NONE, v(1), v(-100)), 4, 32 + 4 * (4 + 1)),
    ("nll_loss_backward", (f(), f(4, 6), long(4), NONE, v(1), v(-100), f()), 4, 4 + 32 + 96),
    # Moves.
    ("copy_", (h(4, 6), f(6), NO), 0, 48 + 24),
    ("clone", (f(4, 6), NONE), 0, 192),
    ("fill_", (f(4, 6), v(0)), 0, 96),
    ("uniform_", (f(4, 6), v(0), v(1), NONE), None, 96),
    ("cat", (listed([4, 6], [3, 6]), v(0)), 0, 4 * 84),
    ("embedding", (h(100, 8), long(3, 2), v(-1), NO, NO), 0, 48 + 2 * 2 * 48),
    ("embedding_dense_backward", (h(3, 2, 8), long(3, 2), v(100), v(-1), NO), 48,
     96 + 48 + 1600),
    ("_embedding_bag", (f(100, 8), long(6), long(2), NO, v(0)), 48, 48 + 16 + 4 * 8 * (6 + 2)),
    ("index_select", (f(4, 6), v(0), long(3)), 0, 24 + 2 * 4 * 18),
    ("gather", (f(4, 6), v(1), long(4, 2), NO), 0, 64 + 2 * 32),
    ("scatter_", (f(4, 6), v(1), long(4, 2), v(1)), 0, 64 + 32),
    ("scatter_", (f(4, 6), v(1), long(4, 2), f(4, 2)), 0, 64 + 2 * 32),
    ("scatter_add_", (f(4, 6), v(1), long(4, 2), f(4, 2)), 8, 64 + 3 * 32),
    ("index_add_", (f(4, 6), v(0), long(2), f(2, 6), v(1)), 12, 16 + 3 * 48),
    ("index", (f(4, 6), NONE), 0, None),
    ("index_put_", (f(4, 6), NONE, f(2, 6), NO), 0, 2 * 48),
    ("index_put_", (f(4, 6), NONE, f(2, 6), YES), 12, 3 * 48),
    # Other libraries.
    ("_C::silu_and_mul", (h(4, 6), h(4, 12)), 48, 48 + 96),
    ("_C::rms_norm", (h(4, 6), h(4, 6), h(6), v(1e-5)), 96, 48 + 12 + 48),
    ("_C::fused_add_rms_norm", (h(4, 6), h(4, 6), h(6), v(1e-5)), 120, 4 * 48 + 12),
    ("aiter::add_rmsnorm", (h(4, 6), h(4, 6), h(4, 6), h(4, 6), h(6), v(1e-5)), 120, 4 * 48 + 12),
]  # fmt: skip


@pytest.mark.parametrize(("name", "arguments", "flops", "moved"), [*CASES, *LIBRARY_CASES])
def test_by_hand(
    name: str, arguments: tuple[Argument, ...], flops: int | None, moved: int | None
) -> None:
    op = op_of(full(name), *arguments)
    formula = FORMULAS[full(name)]
    assert (count(formula.flops, op), count(formula.bytes, op)) == (flops, moved)


@pytest.mark.parametrize(("name", "arguments", "flops", "moved"), PATTERN_CASES)
def test_by_hand_where_a_pattern_names_the_op(
    name: str, arguments: tuple[Argument, ...], flops: int | None, moved: int | None
) -> None:
    op, formula = op_of(name, *arguments), formula_of(name) or Formula()
    assert (count(formula.flops, op), count(formula.bytes, op)) == (flops, moved)


def test_there_is_a_case_for_every_pattern() -> None:
    seen = {id(formula_of(name)) for name, *_ in PATTERN_CASES}
    assert [pattern for pattern, formula in PATTERNS if id(formula) not in seen] == []


def test_there_is_a_case_for_every_formula() -> None:
    seen = {id(FORMULAS[full(name)]) for name, *_ in (*CASES, *LIBRARY_CASES)}
    assert [name for name, formula in FORMULAS.items() if id(formula) not in seen] == []


@pytest.mark.parametrize("name", {id(formula): name for name, formula in FORMULAS.items()}.values())
def test_what_is_missing_or_foreign_is_unknown(name: str) -> None:
    formula = FORMULAS[name]
    odd: list[list[Any]] = [[], [[]], [None] * 12, ["x"] * 12, [[[[]]]] * 12, [[-1, 2]] * 12, [{}]]
    for dims in odd:
        lists: list[list[Any]] = [[], ["("] * 12, ["[None]"] * 12, [{}] * 12]
        words: list[list[Any]] = [[], ["float"] * 12, [[]] * 12, ["TensorList"] * 12]
        for values, types in product(lists, words):
            op = Op(name, dims, types, [], values)
            for part in (formula.flops, formula.bytes):
                number = count(part, op)
                assert number is None or number >= 0


@pytest.mark.parametrize("name", [name for name, *_ in PATTERN_CASES])
def test_what_is_missing_or_foreign_is_unknown_by_patterns(name: str) -> None:
    formula = formula_of(name) or Formula()
    odd: list[list[Any]] = [
        [],
        [[]],
        [None] * 12,
        ["x"] * 12,
        [[[[]]]] * 12,
        [[-1, 2]] * 12,
        [{}],
        [[0]] * 9,
    ]
    for dims in odd:
        for values, types in product(([], ["("] * 12, ["[None]"] * 12), ([], ["float"] * 12)):
            op = Op(name, dims, types, [], values)
            for part in (formula.flops, formula.bytes):
                assert (count(part, op) or 0) >= 0


@pytest.mark.parametrize(
    ("name", "arguments", "dtype"),
    [
        ("aiter::gemm_a8w8", (byte(4, 5), byte(3, 5), f(4, 1), f(1, 3)), INT8),
        ("aiter::batched_gemm_a8w8", (h(2, 4, 5), fp8(2, 3, 5), f(2)), FP8),
        ("aiter::gemm_a4w4", (u8(4, 5), u8(3, 5), u8(4, 1)), FP4),
        ("aiter::gemm_a16w16", (h(4, 5), h(3, 5)), BF16),
        ("aiter::fused_moe_", (h(4, 6), fp8(3, 10, 6), fp8(3, 6, 5)), FP8),
        ("vllm::outplace_fused_experts", (h(4, 6), byte(3, 10, 6), byte(3, 6, 5)), BF16),
        ("_C::rotary_embedding", (long(3), h(3, 16), h(3, 8), v(8), f(64, 4)), BF16),
        ("_C::scaled_fp4_quant", (f(1), fp8(4, 8), h(4, 16)), BF16),
    ],
)
def test_what_libraries_compute_in(
    name: str, arguments: tuple[Argument, ...], dtype: Dtype
) -> None:
    formula = formula_of(name)
    assert formula is not None
    assert formula.dtype is not None
    assert formula.dtype(op_of(name, *arguments)) == dtype


def test_lengths_are_a_reason_of_their_own() -> None:
    attention = FORMULAS["aiter::mha_varlen_fwd"]
    rows = (h(6, 4, 8), h(10, 2, 8), h(10, 2, 8))
    uneven = op_of("x", *rows, long(3), long(3), v(4), v(6))
    even = op_of("x", *rows, long(3), long(3), v(3), v(5))
    assert counted(attention.flops, uneven) == (None, True)
    assert counted(attention.flops, even) == (3840, False)
    assert counted(attention.flops, op_of("x", *rows)) == (None, False)
    assert counted(None, even) == (None, False)


MOE = (h(4, 6), h(4, 3), NONE)
"""Four rows, and what each makes of three experts."""


def inside(*views: tuple[Argument, Argument], choices: int = 2) -> list[Op]:
    """A routing to so many experts, and views."""
    routing = op_of("TopK", h(4, 3), v(choices), YES)
    return [routing, *(op_of("aten::view", *view) for view in views)]


def test_experts_whose_weights_are_seen_inside() -> None:
    formula = FORMULAS["vllm::moe_forward"]
    layer = op_of("vllm::moe_forward", *MOE)
    first, second = (u8(3, 3, 10), v([3, 3, 10])), (h(3, 5, 6), v([3, 5, 6]))
    rows = (h(4, 6), v([4, 6])), (h(3, 8), v([24]))

    def work(*views: tuple[Argument, Argument]) -> tuple[int | None, int | None]:
        call = replace(layer, inside=inside(*views))
        return count(formula.flops, call), count(formula.bytes, call)

    # 6 * 10 and 5 * 6 products for 8 rows; half a byte for each number of the first weight.
    assert work(*rows, first, second) == (2 * 8 * 90, 90 + 180 + 96)
    assert work(first) == (None, None)
    assert work(first, second, second) == (None, None)
    assert work(second, first) == (None, None)
    assert formula.inside == ("TopK", "aten::view")


def test_an_expanded_dimension_is_read_once() -> None:
    add = FORMULAS["aten::add"]
    strides = [[0, 1], [6, 1]]
    op = Op("aten::add", [[4, 6], [4, 6], []], ["float", "float", "Scalar"], [*strides, []])
    assert count(add.bytes, op) == 4 * (6 + 24 + 24)


def test_sizes_are_known_without_types_bytes_are_not() -> None:
    mm = FORMULAS["aten::mm"]
    op = Op("aten::mm", [[4, 5], [5, 3]])
    assert (count(mm.flops, op), count(mm.bytes, op)) == (120, None)
    odd = Op("aten::mm", [[4, 5], [5, 3]], ["c10::Unheard", "float"])
    assert (count(mm.flops, odd), count(mm.bytes, odd)) == (120, None)


def test_sizes_that_do_not_fit_are_unknown() -> None:
    for dims in ([[4, 5], [4, 3]], [[4, 5, 1], [5, 3]], [[1 << 40, 1 << 40], [1 << 40, 3]]):
        assert count(FORMULAS["aten::mm"].flops, Op("aten::mm", dims)) is None


def test_torchs_reports_leave_out_padding() -> None:
    op = op_of("aten::convolution", IMAGE, WINDOW, NONE, *CONV, NO, v([0, 0]), v(2))
    assert count(UNPADDED["aten::convolution"].flops, op) == 2 * 2 * 3 * 2 * 108


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[[4,5],[]]", [[4, 5], []]),
        ('"4,5;5,3"', [[4, 5], [5, 3]]),
        ("4,5;\r\n;\r\n3", [[4, 5], [], [3]]),
        ("float;\r\nNone", ["float", "None"]),
        ("4,5;" + "7" * 5000, [[4, 5], "7" * 5000]),
        ("", []),
        (None, []),
        ("[[4,", []),
        ("[" * 100_000, []),
        ('{"a": 1}', ['{"a": 1}']),
    ],
)
def test_columns_of_inputs(text: str | None, expected: list[Any]) -> None:
    assert parsed(text) == expected


def test_values_as_profilers_write_them() -> None:
    values = ["[1, 1]", "True", "0.", "1e-05", "same", "[True, False]", "", "inf", "x" * 200_000]
    op = Op("any", [[]] * 9, ["Scalar"] * 9, [], values)
    found = [op.value(place) for place in (0, 1, 2, 3, 4, 5, 7)]
    assert found == [[1, 1], True, 0.0, 1e-05, "same", [True, False], "inf"]
    for place in (6, 8, 9, -1):
        with pytest.raises(Unknown):
            op.value(place)


def test_types() -> None:
    sizes = {name: dtype.size for name, dtype in DTYPES.items()}
    assert {sizes[name] for name in ("bool", "signed char", "unsigned char", "c10::qint8")} == {1}
    assert [sizes[n] for n in ("c10::Half", "c10::BFloat16", "short int")] == [2, 2, 2]
    assert [sizes[n] for n in ("float", "int", "double", "long int", "long")] == [4, 4, 8, 8, 8]
    assert [sizes[n] for n in DTYPES if "Float8" in n or "Float4" in n] == [1] * 6
    assert sizes["c10::complex<double>"] == 16
    assert (SCALAR_TYPES[15], SCALAR_TYPES[6], SCALAR_TYPES[4]) == (BF16, FP32, INT64)


def test_types_meet() -> None:
    def of(*tensors: tuple[tuple[int, ...], Any]) -> Any:
        return meet(Tensor(shape, dtype) for shape, dtype in tensors)

    assert of(((2,), FP16), ((2,), BF16)) == FP32
    assert of(((2,), FP16), ((), FP64)) == FP16
    assert of(((2,), INT64), ((), FP32)) == FP32
    assert of(((2,), INT64), ((2,), FP16)) == FP16
    assert of(((2,), None), ((2,), FP16)) is None


def test_the_type_of_the_work() -> None:
    assert op_of("x", long(3), f(), h(2, 2)).work_dtype == BF16
    assert op_of("x", long(3), f()).work_dtype == FP32
    assert op_of("x", long(3), v(1)).work_dtype == INT64
    assert op_of("x", listed([3])).work_dtype == FP32
    assert op_of("x", listed([3]), h(2)).work_dtype == BF16
    assert op_of("x", v(1)).work_dtype is None


def test_a_value_of_the_greatest_length_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("profframe.facts.formulas.ops._LONGEST", len("[1, 22]"))
    assert op_of("x", v([1, 22])).value(0) == [1, 22]
    with pytest.raises(Unknown):
        op_of("x", v([11, 22])).value(0)


def test_formulas_are_checked() -> None:
    right = {"a": Formula(), "b": None}
    assert checked_formulas(right) is right
    odd: list[Any] = [[], {"a": 1}, {1: None}, {"a": len}]
    for wrong in odd:
        with pytest.raises(ParameterError, match="formulas map names of ops to Formula"):
            checked_formulas(wrong)


@pytest.mark.parametrize(
    ("given", "expected"),
    [(True, 1), (2.0, 2), (-1, None), (1 << 62, None), (float("inf"), None), (None, None)],
)
def test_a_formula_may_give_any_number(given: Any, expected: int | None) -> None:
    assert count(lambda _: given, Op("x", [[4]])) == expected


def test_shapes_that_fit_no_formula_are_unknown() -> None:
    """Of whatever op: one shape and no types, as old profilers and broken files have them."""
    for name, formula in FORMULAS.items():
        for dims in ([[8, 16]], [[0, 4], [], [3]], [[8, 16]] * 12):
            for types in ([], ["float"] * len(dims)):
                op = Op(name, dims, types)
                for term in (formula.flops, formula.bytes):
                    number = count(term, op)
                    assert number is None or 0 <= number < 1 << 62


LENGTHS_FIRST = (f(2, 5, 6, 4), f(2, 7, 3, 4), f(2, 7, 3, 8))
"""`QKV` as flash-attn has them."""


def test_values_that_are_not_as_many_as_their_keys_are_unknown() -> None:
    for name, rows, fewer in (
        ("flash_attn::_flash_attn_forward", LENGTHS_FIRST, f(2, 6, 3, 8)),
        ("aten::scaled_dot_product_attention", QKV, f(2, 3, 6, 8)),
    ):
        flops = FORMULAS[name].flops
        assert count(flops, op_of("x", *rows)) == 10080
        assert count(flops, op_of("x", *rows[:2], fewer)) is None


def test_keys_that_are_not_as_wide_as_their_queries_are_unknown() -> None:
    for name, rows, narrower in (
        ("flash_attn::_flash_attn_forward", LENGTHS_FIRST, f(2, 7, 3, 2)),
        ("aten::scaled_dot_product_attention", QKV, f(2, 3, 7, 2)),
    ):
        flops = FORMULAS[name].flops
        assert count(flops, op_of("x", rows[0], narrower, rows[2])) is None


def test_sequences_in_one_whose_keys_fit_nothing_are_unknown() -> None:
    flops = FORMULAS["aten::_flash_attention_forward"].flops
    query, key, value = f(10, 6, 4), f(14, 3, 4), f(14, 3, 8)
    lengths = long(3), long(3), v(5), v(7)
    assert count(flops, op_of("x", query, key, value, *lengths)) == 10080
    assert count(flops, op_of("x", query, f(14, 3, 2), value, *lengths)) is None
    assert count(flops, op_of("x", query, key, f(13, 3, 8), *lengths)) is None


def test_keys_without_heads_are_unknown() -> None:
    """Beside queries that have some; neither are they in pages."""
    moved = FORMULAS["flash_attn::_flash_attn_varlen_forward"].bytes
    query, ends = f(10, 6, 4), (long(3), long(3), v(5), v(7))
    assert count(moved, op_of("x", query, f(14, 3, 4), f(14, 3, 8), *ends)) == 4 * (
        240 + 168 + 336 + 480
    )
    assert count(moved, op_of("x", query, f(14, 4), f(14, 8), *ends)) is None
    assert count(moved, op_of("x", query, f(14, 3, 4), f(14, 8), *ends)) is None


def test_lengths_below_zero_are_unknown() -> None:
    shapes = [[1, 64, 4, 32]] * 3
    op = Op(
        "aten::_efficient_attention_forward",
        [*shapes, [], [3], [3], [], []],
        ["float"] * 3 + ["", "int", "int", "Scalar", "Scalar"],
        values=["", "", "", "", "", "", "-1", "-1"],
    )
    assert count(FORMULAS[op.name].flops, op) is None


def test_names_are_torchs() -> None:
    torch = needs.torch()
    names = {name.removeprefix("aten::") for name in FORMULAS if name.startswith("aten::")}
    made = {name.removesuffix("_") for name in names}  # some have no form that changes its input
    assert {name for name in made if not hasattr(torch.ops.aten, name)} - GONE == set()
