"""FLOPs and bytes of one call of each op of other libraries, typed by hand.

Rows are 4, weights have 3 rows of 5: 2 * 4 * 3 * 5 = 120. Attention has 2 sequences of 3 queries in
4 heads and 5 keys in 2, of width 8: 2 * 8 * 3 * 5 * 16 = 3840; 384 bytes of queries and as many of
the result, 320 of keys and of values; with one key for each query, 192 each.
"""

from __future__ import annotations

from tests.unit.calls import NONE, Argument, byte, f, fp8, h, long, v


def i32(*shape: int) -> Argument:
    return list(shape), "int", ""


def u8(*shape: int) -> Argument:
    return list(shape), "unsigned char", ""


def fp4(*shape: int) -> Argument:
    return list(shape), "c10::Float4_e2m1fn_x2", ""


YES, NO = v(value=True), v(value=False)
Q, K = h(6, 4, 8), h(10, 2, 8)
ENDS = i32(3)
PAGES = h(9, 16, 2, 8)
VLLM_PAGES = (h(9, 2, 1, 16, 8), h(9, 2, 8, 16))
BACK = (h(6, 4, 8), Q, K, K, h(6, 4, 8), f(4, 6))
"""2912 bytes: gradients of all inputs are 1024."""
EXPERTS = h(3, 10, 6), h(3, 6, 5)
"""A gate and 5 numbers in between: 90 products for a row, 540 bytes. Of 4 rows, each to 2 experts,
1440 operations; 96 bytes of rows are read and written."""
SMALL = fp8(3, 10, 6), fp8(3, 6, 5)
"""270 bytes."""

_NORMS: list[tuple[str, tuple[Argument, ...], int | None, int | None]] = [
    ("_C::swigluoai_and_mul", (h(4, 6), h(4, 12), v(1.7), v(7.0)), 120, 48 + 96),
    ("_C::gelu_new", (h(4, 6), h(4, 6)), 24, 96),
    ("LigerSiLUMulFunction", (h(4, 6), h(4, 6)), 48, 144),
    ("LigerGELUMulFunction", (h(4, 6), h(4, 6)), 48, 144),
    ("aiter::rms_norm", (h(4, 6), h(6), v(1e-5)), 96, 48 + 12 + 48),
    ("aiter::rms_norm", (h(4, 6), h(4, 6), h(6), v(1e-5)), 96, 48 + 12 + 48),
    ("vllm::rocm_aiter_rmsnorm2d_fwd_with_add", (h(4, 6), h(4, 6), h(6), v(1e-5)), 120,
     4 * 48 + 12),
    ("vllm::rocm_aiter_rms_norm", (h(4, 6), h(6), v(1e-5)), 96, 48 + 12 + 48),
    ("aiter::_fused_qk_rmsnorm_kernel", (h(4, 6), h(6), v(1e-5), h(4, 2), h(2), v(1e-5)), 128,
     2 * (48 + 16) + 12 + 4),
    ("aiter::_groupnorm_run", (h(2, 6, 5), v(3), h(6), h(6), v(1e-6)), 7 * 60, 120 + 24 + 120),
    ("LigerCrossEntropyFunction", (h(4, 6), long(4)), 144, 2 * 48 + 32),
    ("CrossEntropyFunction", (h(4, 6), long(4)), 144, 2 * 48 + 32),
    ("primus::fused_ln_modulate", (h(2, 3, 4), h(3, 4), h(3, 4), v(1e-6)), 7 * 24,
     48 + 24 + 24 + 48),
    ("aiter::mhc_post", (h(4, 2, 5), h(4, 5), h(4, 2, 5), f(4, 2, 1), f(4, 2, 2)), 2 * 40 * 3,
     80 + 40 + 80 + 32 + 64),
    ("aiter::mixed_sample_outer_exponential", (i32(4), h(4, 6), f(4, 6), f(4)), 48,
     16 + 48 + 96 + 16),
]  # fmt: skip

_QUANTISED: list[tuple[str, tuple[Argument, ...], int | None, int | None]] = [
    ("_C::static_scaled_fp8_quant", (fp8(4, 6), h(4, 6), f(1)), 24, 24 + 48 + 4),
    ("_C::dynamic_per_token_scaled_fp8_quant", (fp8(4, 6), h(4, 6), f(4, 1), NONE), 72,
     24 + 48 + 16),
    ("_C::per_token_group_fp8_quant", (h(4, 64), fp8(4, 64), f(4, 2), v(32)), 768,
     512 + 256 + 32),
    ("aiter::fused_dynamic_mxfp4_quant_moe_sort_hip",
     (u8(4, 32), u8(4, 2), h(4, 64), i32(8), i32(1)), 768, 128 + 8 + 512 + 32 + 4),
    ("vllm::triton_per_token_group_quant_fp8", (h(4, 64), v(32)), 768, 512 + 256 + 8 * 4),
    ("vllm::rocm_aiter_rmsnorm_fp8_group_quant", (h(4, 64), h(64), v(1e-5), v(32)), 7 * 256,
     512 + 128 + 256 + 8 * 4),
    ("vllm::rocm_aiter_rmsnorm_with_add_fp8_group_quant",
     (h(4, 64), h(4, 64), h(64), v(1e-5), v(32)), 8 * 256, 3 * 512 + 128 + 256 + 8 * 4),
    ("sglang_profiler::quant_dynamic_mxfp4_quant", (h(4, 64),), 768, 512 + 128 + 8),
    ("sglang_profiler::fused_mxfp4_quant_fused_flatten_mxfp4_quant", (h(4, 2, 32),), 768,
     512 + 128 + 8),
    ("primus_turbo::quantize_mxfp4_dual", (h(4, 64), v(45)), 768, 512 + 2 * 128 + 4 * 2 + 64),
    ("primus_turbo::quantize_fp8_tensorwise", (h(4, 6), f(1)), 72, 48 + 24),
    ("_C::rms_norm_static_fp8_quant", (fp8(4, 6), h(4, 6), h(6), f(1), v(1e-5)), 120,
     24 + 48 + 12 + 4),
    ("_C::fused_add_rms_norm_static_fp8_quant",
     (fp8(4, 6), h(4, 6), h(4, 6), h(6), f(1), v(1e-5)), 144, 24 + 48 + 48 + 12 + 4),
    ("_C::rms_norm_dynamic_per_token_quant",
     (fp8(4, 6), h(4, 6), h(6), f(4, 1), v(1e-5), NONE, NONE), 168, 24 + 48 + 12 + 16),
    ("_C::rms_norm_dynamic_per_token_quant",
     (fp8(4, 6), h(4, 6), h(6), f(4, 1), v(1e-5), NONE, h(4, 6)), 192, 24 + 96 + 12 + 16),
    ("aiter::rmsnorm2d_fwd_with_dynamicquant_ck",
     (fp8(4, 6), h(4, 6), f(4, 1), h(6), v(1e-5), v(0)), 168, 24 + 48 + 16 + 12),
    ("aiter::rmsnorm2d_fwd_with_add_dynamicquant_ck",
     (fp8(4, 6), h(4, 6), h(4, 6), h(4, 6), f(4, 1), h(6), v(1e-5)), 192, 24 + 144 + 16 + 12),
    ("_C::silu_and_mul_quant", (fp8(4, 6), h(4, 12), f(1)), 72, 24 + 96 + 4),
    ("_C::silu_and_mul_per_block_quant", (fp8(4, 6), h(4, 12), f(4, 1), v(6)), 120,
     24 + 96 + 16),
]  # fmt: skip

_CACHED: list[tuple[str, tuple[Argument, ...], int | None, int | None]] = [
    ("sglang::store_cache", (h(3, 8), h(3, 8), h(50, 8), h(50, 8), long(3), v(16), v(0)), 0,
     3 * (32 + 32) + 24),
    # Four rows, of which three have a place; a cache of bytes.
    ("_C_cache_ops::reshape_and_cache_flash",
     (h(4, 2, 8), h(4, 2, 8), u8(9, 16, 2, 8), u8(9, 16, 2, 8), long(3), NONE, f(1), f(1)), 0,
     3 * 2 * 16 * (2 + 1) + 24),
    ("aiter::reshape_and_cache_with_pertoken_quant",
     (h(4, 2, 8), h(4, 2, 8), fp8(9, 2, 8), fp8(9, 2, 8), f(9), f(9), long(4)), 0,
     4 * 2 * 16 * (2 + 1) + 32),
    ("_C_cache_ops::concat_and_cache_mla",
     (h(3, 8), h(3, 2), h(9, 16, 10), long(3), NONE, f(1)), 0, 3 * 10 * 4 + 24),
    ("flashinfer::append_paged_kv_cache",
     (h(3, 2, 4), h(3, 2, 4), i32(3), i32(3), h(9, 16, 2, 4)), 0, 3 * 2 * 8 * 4),
    ("_C_cache_ops::concat_mla_q", (h(3, 2, 8), h(3, 2, 4), h(3, 2, 12)), 0, 96 + 48 + 144),
    ("_C_cache_ops::gather_and_maybe_dequant_cache", (u8(9, 16, 10), h(7, 10), i32(2, 4)), 0,
     70 * 3),
    ("_C_cache_ops::concat_and_cache_mla_rope_fused",
     (long(3), h(3, 2, 4), h(3, 4), h(3, 8), h(64, 4), YES, long(3), fp8(9, 16, 12)), 3 * 36,
     24 + 24 + 2 * 48 + 24 + 48 + 36),
    ("aiter::fused_qk_rope_concat_and_cache_mla",
     (h(3, 2, 8), h(3, 2, 4), h(3, 8), h(3, 4), fp8(9, 1, 12), fp8(3, 2, 12), long(3)), 3 * 36,
     96 + 48 + 48 + 24 + 72 + 36),
    ("aiter::fused_qk_rope_cat_and_cache_mla",
     (h(3, 2, 8), h(3, 2, 4), h(3, 1, 8), h(3, 1, 4), h(9, 1, 12)), 3 * 36, 216 + 144 + 72),
    # Half of each head of 8 is turned: 24 numbers of queries and 12 of keys.
    ("_C::rotary_embedding", (long(3), h(3, 16), h(3, 8), v(8), h(64, 4), YES), 3 * 36,
     24 + 2 * 72),
    ("_C::rotary_embedding", (long(3), h(3, 16), NONE, v(8), h(64, 4), YES), 3 * 24, 24 + 2 * 48),
    ("sgl_kernel::apply_rope_pos_ids_cos_sin_cache",
     (h(3, 2, 8), h(3, 1, 8), h(3, 2, 8), h(3, 1, 8), f(64, 4), long(3)), 3 * 36, 2 * (96 + 48)),
    ("_C::fused_qk_norm_rope", (h(3, 32), v(2), v(1), v(1), v(8), v(1e-5)), 7 * 72, 2 * 144),
    ("aiter::rope_2c_fwd_impl",
     (h(3, 1, 2, 8), h(3, 1, 1, 8), h(3, 1, 2, 8), h(3, 1, 1, 8), f(3, 1, 1, 4)), 3 * 72,
     2 * (96 + 48)),
    ("aiter::rope_fwd_impl", (h(3, 1, 2, 8), h(3, 1, 2, 8), f(3, 1, 1, 4)), 3 * 48, 192),
    ("FusedRoPEFunc", (h(3, 1, 2, 8), f(3, 1, 1, 4)), 3 * 24, 192),
    ("replication_pad1d", (f(2, 3, 4), v([1, 2])), 0, 4 * (24 + 42)),
    ("replication_pad3d", (f(2, 1, 2, 3, 4), v([1, 1, 1, 0, 2, 0])), 0, 4 * (48 + 2 * 4 * 4 * 6)),
    ("replication_pad1d_backward", (f(2, 3, 7), f(2, 3, 4), v([1, 2])), 42, 4 * (42 + 24)),
    ("constant_pad_nd", (f(2, 3, 4), v([1, -2]), v(0)), 0, 4 * (18 + 18)),
]  # fmt: skip

_HOPPER = (NONE, NONE, NONE, NONE)
_ATTENTION: list[tuple[str, tuple[Argument, ...], int | None, int | None]] = [
    ("FlashAttnFunc", (h(2, 3, 4, 8), h(2, 5, 2, 8), h(2, 5, 2, 8), v(0.0)), 3840, 1408),
    ("aiter::fmha_v3_fwd", (h(2, 3, 4, 8), h(2, 5, 2, 8), h(2, 5, 2, 8), v(0.0)), 3840, 1408),
    ("aiter::wrapper_fmha_v3_fwd", (NONE, h(2, 3, 4, 8), h(2, 5, 2, 8), h(2, 5, 2, 8)), 3840,
     1408),
    ("aiter::fmha_v3_bwd",
     (h(2, 3, 4, 8), h(2, 3, 4, 8), h(2, 5, 2, 8), h(2, 5, 2, 8), h(2, 3, 4, 8), f(2, 4, 3)),
     9600, 2912),
    ("aiter::mha_varlen_fwd", (Q, K, K, ENDS, ENDS, v(3), v(5), v(0.0)), 3840, 1408),
    ("FlashAttnVarlenFunc", (Q, K, K, ENDS, ENDS, v(3), v(5), v(0.0)), 3840, 1408),
    # One sequence; several that are not all of the greatest length.
    ("aiter::mha_varlen_fwd", (Q, K, K, i32(2), i32(2), v(6), v(10), v(0.0)), 7680, 1408),
    ("aiter::mha_varlen_fwd", (Q, K, K, ENDS, ENDS, v(4), v(6), v(0.0)), None, 1408),
    ("aiter::mha_varlen_fwd", (Q, PAGES, PAGES, ENDS, ENDS, v(3), v(5), v(0.0)), None, None),
    ("aiter::mha_varlen_bwd", (*BACK, ENDS, ENDS, v(3), v(5)), 9600, 2912),
    ("flash_attn::_flash_attn_varlen_backward", (*BACK, Q, K, K, ENDS, ENDS, v(3), v(5)), 9600,
     2912),
    ("_vllm_fa2_C::varlen_fwd", (Q, K, K, NONE, ENDS, ENDS, *_HOPPER, v(3), v(5), v(0.0)), 3840,
     1408),
    ("_vllm_fa2_C::varlen_fwd",
     (Q, K, K, NONE, ENDS, ENDS, NONE, NONE, NONE, v(3), v(5), v(0.0)), 3840, 1408),
    ("_vllm_fa2_C::varlen_fwd",
     (Q, PAGES, PAGES, NONE, ENDS, ENDS, i32(2), NONE, i32(2, 4), NONE, v(3), v(5)), None, None),
    ("flash_attn_3::fwd", (h(2, 3, 4, 8), h(2, 5, 2, 8), h(2, 5, 2, 8), *_HOPPER * 3), 3840, 1408),
    ("_vllm_fa3_C::fwd",
     (Q, K, K, *_HOPPER, ENDS, ENDS, NONE, NONE, NONE, v(3), v(5), NONE), 3840, 1408),
    ("sgl_kernel::fwd",
     (Q, PAGES, PAGES, *_HOPPER, ENDS, NONE, NONE, NONE, i32(2), v(3), NONE, i32(2, 4)), None,
     None),
    ("flash_attn_3::bwd", (*BACK, Q, K, K, ENDS, ENDS, NONE, NONE, v(3), v(5)), 9600, 2912),
    # As many keys as queries, since the last query sees all keys and none has more than three: of
    # nine pairs the mask leaves six.
    ("aiter::mha_batch_prefill",
     (Q, h(50, 2, 8), h(50, 2, 8), ENDS, ENDS, i32(64), v(3), v(3), v(0.0), v(0.5), v(0.0), NO,
      YES), 1536, 384 + 384 + 384),
    ("aiter::mha_batch_prefill",
     (Q, h(50, 2, 8), h(50, 2, 8), ENDS, ENDS, i32(64), v(3), v(5), v(0.0), v(0.5), v(0.0), NO,
      YES), None, None),
    ("aiter::mha_batch_prefill",
     (Q, h(9, 2, 1, 16, 8), h(9, 2, 2, 8, 8), ENDS, ENDS, i32(64), v(3), v(3), v(0.0), v(0.5),
      v(0.0), NO, NO), None, None),
    ("FusedAttnFunc",
     (YES, v(3), v(5), ENDS, ENDS, h(3, 2, 4, 8), h(5, 2, 2, 8), h(5, 2, 2, 8)), 3840, 1408),
    ("FusedAttnFunc",
     (YES, v(3), v(5), ENDS, ENDS, NONE, NONE, h(2, 3, 4, 8), h(2, 5, 2, 8), h(2, 5, 2, 8)), 3840,
     1408),
    ("FusedAttnFunc", (YES, v(3), v(5), ENDS, ENDS, Q, K, K), 3840, 1408),
    ("sglang_profiler::attention_paged_attention_ragged",
     (Q, u8(999), Q, h(50, 1, 2, 8), h(50, 1, 2, 8), i32(7)), None, None),
    ("_C::paged_attention_v1", (Q, Q, *VLLM_PAGES, v(2)), None, None),
    ("_rocm_C::paged_attention", (Q, f(6, 4, 1), f(6, 4, 1), h(6, 4, 1, 8), Q, *VLLM_PAGES),
     None, None),
    ("aiter::pa_fwd_asm", (Q, *VLLM_PAGES, i32(6, 4), i32(6)), None, None),
    ("vllm::unified_attention_with_output", (Q, h(6, 2, 8), h(6, 2, 8), Q, NONE), None, None),
    ("vllm::unified_attention", (Q, h(6, 2, 8), h(6, 2, 8), NONE), None, None),
    ("vllm::unified_mla_attention_with_output", (h(6, 4, 12), h(6, 8), h(6, 4), h(6, 32)), None,
     None),
    ("vllm::unified_mla_attention", (h(6, 4, 12), h(6, 8), h(6, 4), NONE), None, None),
    ("aiter::mla_decode_stage1_asm_fwd",
     (h(6, 4, 12), h(50, 1, 1, 12), i32(7), i32(7), i32(99), i32(6), h(6, 4, 8)), None,
     None),
    ("_flashmla_C::fwd_kvcache_mla", (h(6, 1, 4, 12), h(9, 64, 1, 12)), None, None),
    ("sgl_kernel::cutlass_mla_decode", (Q, Q, h(6, 4, 4), h(9, 64, 12), i32(6)), None,
     None),
    ("_C::sm100_cutlass_mla_decode", (Q, f(6, 4), Q, h(6, 4, 4), h(9, 64, 12)), None,
     None),
    ("sgl_kernel::merge_state", (Q, f(6, 4), Q, f(6, 4), Q, f(6, 4)), 3 * 192, 3 * (384 + 96)),
    ("_C::merge_attn_states", (Q, f(4, 6), Q, f(4, 6), Q, f(4, 6), NONE), 3 * 192,
     3 * (384 + 96)),
]  # fmt: skip

_STATES: list[tuple[str, tuple[Argument, ...], int | None, int | None]] = [
    ("SelectiveScanFn",
     (h(2, 3, 5), h(2, 3, 5), f(3, 4), h(2, 4, 5), h(2, 4, 5), f(3), h(2, 3, 5), f(3), YES),
     30 * (7 * 4 + 1 + 2 + 2), 60 + 60 + 48 + 80 + 80 + 12 + 60 + 12 + 60),
    # 12 rows, chunks of 2: 2 * (3 + 32) inside, 2 * 4 * 3 * 8 across.
    ("MambaChunkScanCombinedFn",
     (h(2, 6, 4, 8), h(2, 6, 4), f(4), h(2, 6, 1, 3), h(2, 6, 1, 3), v(2), f(4)),
     2 * 12 * (70 + 192), 768 + 96 + 16 + 72 + 72 + 16 + 768),
    # 2 heads of 4, 3 states: 14 channels, 24 columns.
    ("MambaSplitConv1dScanCombinedFn",
     (h(2, 6, 24), h(14, 4), h(14), h(2), f(2), f(2), v(2), NONE, NONE, NONE, NO, NONE, NONE,
      v(1e-6), NONE, NONE, v(4), v(1), YES),
     2 * 12 * (22 + 48) + 2 * 12 * 56, 576 + 112 + 28 + 4 + 8 + 8 + 192),
    ("MambaSplitConv1dScanCombinedFn",
     (h(2, 6, 24), h(14, 4), h(14), h(2), f(2), f(2), v(2), NONE, NONE, NONE, NO, NONE, h(8),
      v(1e-6), h(5, 8), NONE, v(4), v(1), YES),
     2 * 12 * (22 + 48) + 2 * 12 * (56 + 40), 736 + 80 + 120),
    ("DaoAILab::_causal_conv1d_fwd_cpp",
     (h(2, 3, 5), h(3, 4), h(3), NONE, NONE, h(2, 3, 5), NONE, YES), 240, 60 + 24 + 6 + 60),
    ("DaoAILab::_causal_conv1d_bwd_cpp", (h(2, 3, 5), h(3, 4), h(3), h(2, 3, 5)), 480,
     60 + 24 + 6 + 60 + 60),
    ("DaoAILab::_causal_conv1d_update_cpp", (h(2, 3), h(7, 3, 3), h(3, 4), h(3)), 48,
     12 + 24 + 6 + 12 + 2 * 36),
]  # fmt: skip

_PRODUCTS: list[tuple[str, tuple[Argument, ...], int | None, int | None]] = [
    ("aiter::flatmm_a8w8_blockscale_asm",
     (fp8(4, 5), fp8(3, 5), f(4, 1), f(1, 1), h(4, 3)), 120, 20 + 15 + 16 + 4 + 24),
    ("vllm::rocm_unquantized_gemm", (h(2, 2, 5), h(3, 5), h(3)), 120, 40 + 30 + 6 + 24),
    ("aiter::hipb_mm", (h(4, 5), h(5, 3), v(0)), 120, 40 + 30 + 24),
    ("_C::cutlass_scaled_mm", (h(4, 3), fp8(4, 5), fp8(5, 3), f(4, 1), f(3), NONE), 120,
     20 + 15 + 16 + 12 + 24),
    ("_C::cutlass_scaled_fp4_mm", (h(4, 3), u8(4, 5), u8(3, 5), fp8(4, 1), fp8(3, 1), f(1)), 240,
     20 + 15 + 4 + 3 + 4 + 24),
    ("sgl_kernel::bmm_fp8", (fp8(2, 4, 5), fp8(2, 5, 3), h(2, 4, 3), f(1), f(1)), 240,
     40 + 30 + 8 + 48),
    ("trtllm::nvfp4_gemm", (u8(4, 5), u8(3, 5), u8(4, 1), u8(3, 1), f(1), v(15)), 240,
     20 + 15 + 4 + 3 + 4 + 24),
    ("aiter::mhc_pre_gemm_sqrsum", (f(1, 4, 8), f(1, 4), h(4, 2, 5), f(8, 10)), 2 * 40 * 9,
     128 + 16 + 80 + 320),
    ("vllm::fp8_gemm_nt_op", (fp8(4, 5), f(4, 1), fp8(3, 5), f(1, 1), h(4, 3)), 120,
     20 + 15 + 16 + 4 + 24),
    ("_rocm_C::wvSplitK", (h(3, 5), h(4, 5), v(304)), 120, 30 + 40 + 24),
    ("_C::marlin_gemm",
     (h(4, 16), NONE, i32(1, 6), NONE, h(1, 3), NONE, NONE, v(4), v(4), v(3), v(16), YES), 384,
     128 + 24 + 6 + 24),
    ("_C::awq_gemm", (h(4, 16), i32(16, 1), h(1, 8), i32(1, 1), v(8)), 2 * 4 * 8 * 16,
     128 + 64 + 16 + 4 + 64),
    ("_C::gptq_gemm", (h(4, 16), i32(2, 3), i32(1, 1), h(1, 3), i32(16)), 384,
     128 + 24 + 4 + 6 + 24),
    ("tex_ts::te_gemm_ts",
     (fp8(3, 5), f(1), v(0), v(0), v(1), fp8(4, 5), f(1), v(0), v(0), v(0), h(4, 3)), 120,
     15 + 20 + 24),
    ("_Linear", (h(3, 5), h(2, 2, 5), h(3), NONE), 120, 40 + 30 + 24),
    ("_LayerNormLinear", (h(4, 5), h(5), h(5), h(3, 5), h(3)), 120, 40 + 30 + 24),
    # A gate: 6 numbers become 3.
    ("_LayerNormMLP", (h(4, 5), h(5), h(5), h(6, 5), h(6), h(5, 3), h(5)), 2 * 4 * 45,
     80 + 60 + 30),
    ("_GroupedLinear", (h(4, 5), v([1, 3]), h(3, 5), h(3, 5)), 120, 40 + 60 + 24),
    ("primus_turbo::hipblaslt_gemm", (h(5, 4), h(5, 3), v(15), YES, NO, NO), 120, 40 + 30 + 24),
    ("primus_turbo::hipblaslt_gemm_fp8",
     (fp8(4, 5), f(1), fp8(3, 5), f(1), v(15), NO, YES, NO, NONE), 120, 20 + 15 + 8 + 24),
    # Swapped: the transposed product of the second with the first.
    ("primus_turbo::hipblaslt_gemm_fp8",
     (fp8(5, 3), f(1), fp8(4, 5), f(1), v(15), YES, YES, YES, NONE), 120, 15 + 20 + 8 + 24),
    ("primus_turbo::hipblaslt_gemm", (h(5, 4), h(5, 3), v(15), YES, NO, YES), 120, 40 + 30 + 24),
    ("primus_turbo::hipblaslt_gemm", (h(4, 5), h(3, 5), v(15), NO, NO, NO), None, None),
    ("primus_turbo::hipblaslt_gemm_fp4",
     (fp4(4, 5), u8(4, 1), fp4(3, 5), u8(3, 1), v(15), NO, YES, NO, NONE), 240,
     20 + 15 + 4 + 3 + 24),
    ("primus_turbo::grouped_gemm", (h(4, 5), h(2, 5, 3), long(2), long(3), NO, NO, NONE), 120,
     40 + 60 + 24),
    ("primus_turbo::grouped_gemm", (h(4, 5), h(2, 3, 5), long(2), long(3), NO, YES, NONE), 120,
     40 + 60 + 24),
    ("primus_turbo::grouped_gemm_fp8",
     (fp8(4, 5), fp8(2, 3, 5), f(1), f(1), long(2), long(3), NO, YES), 120, 20 + 30 + 24),
    ("GroupedGemm", (h(4, 5), h(2, 5, 3), long(2), NO), 120, 40 + 60 + 24),
    ("_C::cutlass_moe_mm", (h(4, 3), fp8(4, 5), fp8(2, 5, 3), f(4), f(2)), 120, 20 + 30 + 24),
    ("_C::cutlass_fp4_group_mm", (h(4, 3), u8(4, 5), u8(2, 3, 5), u8(4), u8(2)), 240,
     20 + 30 + 24),
    ("sgl_kernel::fp8_blockwise_scaled_grouped_mm",
     (h(4, 3), *[long(2)] * 5, fp8(4, 5), fp8(2, 3, 5), f(4), f(2)), 120, 20 + 30 + 24),
    ("primus_turbo::grouped_gemm_variable_k", (h(4, 5), h(4, 3), long(2), long(3), YES, NO), 120,
     40 + 24 + 60),
    ("primus_turbo::grouped_gemm_fp8_variable_k",
     (fp8(4, 5), fp8(4, 3), f(1), f(1), long(2), long(3), YES, NO), 120, 20 + 12 + 60),
]  # fmt: skip

_EXPERTS: list[tuple[str, tuple[Argument, ...], int | None, int | None]] = [
    ("vllm::outplace_fused_experts", (h(4, 6), *EXPERTS, f(4, 2), long(4, 2)), 1440, 540 + 96),
    # One row reaches two of three experts.
    ("vllm::outplace_fused_experts", (h(1, 6), *EXPERTS, f(1, 2), long(1, 2)), 360, 360 + 24),
    ("aiter::fused_moe_", (h(4, 6), *SMALL, f(4, 2), i32(4, 2)), 1440, 270 + 96),
    # Four bits: 72 products for a row.
    ("aiter::fused_moe_", (h(4, 6), u8(3, 8, 3), u8(3, 6, 2), f(4, 2), i32(4, 2)), 1152, 108 + 96),
    ("aiter::fmoe_fp8_blockscale_g1u1",
     (h(4, 6), fp8(4, 6), *SMALL, i32(9), f(9), i32(2), i32(1), v(2)), 1440, 270 + 96),
    ("aiter::ck_moe_stage1", (fp8(4, 6), *SMALL, i32(9), i32(2), i32(1), h(4, 2, 5)), 960,
     180 + 24 + 80),
    ("aiter::ck_moe_stage2", (h(4, 2, 5), *SMALL, i32(9), i32(2), i32(1), h(4, 6)), 480,
     90 + 80 + 48),
    ("aiter::moe_cktile2stages_gemm1_ck", (h(4, 6), u8(3, 10, 3), h(4, 2, 5)), 960, 90 + 48 + 80),
    ("aiter::moe_cktile2stages_gemm2_ck", (h(4, 2, 6), u8(3, 6, 3), h(4, 6)), 576, 54 + 96 + 48),
    ("sglang_profiler::fused_moe_triton_kernels_invoke_fused_moe_kernel",
     (h(4, 6), fp8(3, 10, 6), NONE, h(8, 10), NONE, NONE, NONE, f(4, 2), i32(4, 2)), 960,
     180 + 48 + 160),
    ("sgl_kernel::moe_wna16_marlin_gemm",
     (h(4, 16), NONE, i32(3, 1, 6), h(3, 1, 3), NONE, NONE, NONE, i32(9), i32(8), i32(1), i32(1),
      f(4, 2), v(8), v(2), NO, NO, v(1), v(4), v(3), v(16), YES), 768, 128 + 72 + 18 + 48),
    ("vllm::moe_forward", (h(4, 6), h(4, 3), NONE), None, None),
    ("_moe_C::topk_softmax", (f(4, 2), i32(4, 2), i32(4, 2), f(4, 3)), 12, 3 * 32 + 48),
    ("sgl_kernel::topk_softmax", (f(4, 2), i32(4, 2), f(4, 3), YES), 12, 2 * 32 + 48),
    ("aiter::biased_grouped_topk_hip", (f(4, 3), f(3), f(4, 2), i32(4, 2)), 12, 48 + 12 + 64),
    ("_moe_C::moe_align_block_size", (i32(4, 2), v(3), v(8), i32(9), i32(2), i32(1)), 0,
     32 + 36 + 8 + 4),
    ("_moe_C::moe_sum", (h(4, 2, 6), h(4, 6)), 48, 96 + 48),
]  # fmt: skip

LIBRARY_CASES = [
    *_NORMS, *_QUANTISED, *_CACHED, *_ATTENTION, *_STATES, *_PRODUCTS, *_EXPERTS,
]  # fmt: skip

_PLANNED = (u8(99), u8(9), v([1]), Q)
PATTERN_CASES: list[tuple[str, tuple[Argument, ...], int | None, int | None]] = [
    ("aiter::gemm_a16w16", (h(4, 5), h(3, 5), NONE, v(15)), 120, 40 + 30 + 24),
    ("aiter::_gemm_a16w16_asm", (h(4, 5), h(3, 5), f(4, 3), ([999], "unsigned int", "")), 120,
     40 + 30 + 48),
    ("aiter::gemm_a8w8_blockscale_bpreshuffle_ck",
     (fp8(4, 5), fp8(3, 5), f(4, 1), f(1, 1), h(4, 3)), 120, 20 + 15 + 16 + 4 + 24),
    ("aiter::gemm_a8w8", (byte(4, 5), byte(3, 5), f(4, 1), f(1, 3)), 120, 20 + 15 + 16 + 12 + 24),
    ("aiter::_gemm_a4w4_asm", (fp4(4, 5), fp4(3, 5), u8(4, 1), u8(3, 1), h(4, 3)), 240,
     20 + 15 + 4 + 3 + 24),
    ("aiter::batched_gemm_a16wfp4_", (h(2, 4, 10), u8(2, 3, 5), u8(2, 3, 1)), 480,
     160 + 30 + 6 + 48),
    ("vllm::rocm_aiter_triton_gemm_a8w8_blockscale",
     (fp8(4, 5), fp8(3, 5), f(4, 1), f(1, 1), v(15)), 120, 20 + 15 + 16 + 4 + 24),
    ("sglang_profiler::fp8_utils_gemm_a8w8_blockscale_84",
     (fp8(4, 5), fp8(3, 5), f(4, 1), f(1, 1)), 120, 20 + 15 + 16 + 4 + 24),
    ("aiter::moe_gemm_a8w8", (fp8(4, 5), fp8(3, 5)), None, None),
    ("sglang_profiler::attention_paged_attention_ragged_100",
     (Q, u8(999), Q, h(50, 1, 2, 8), h(50, 1, 2, 8), i32(7)), None, None),
    ("flashinfer::batch_prefill_bf16_ragged_run", (*_PLANNED, K, K, ENDS, ENDS, Q), None, 1408),
    ("flashinfer::batch_prefill_bf16_ragged_run", (*_PLANNED, K, K, i32(2), i32(2), Q), 7680,
     1408),
    ("flashinfer::batch_prefill_bf16_paged_run", (*_PLANNED, PAGES, PAGES, ENDS, ENDS), None,
     None),
    ("flashinfer::batch_decode_with_kv_cache_bf16_run",
     (*_PLANNED, h(9, 2, 16, 8), h(9, 2, 16, 8), ENDS), None, None),
    ("triton_poi_fused_add_0", (h(4, 6), h(4, 6), h(4, 6), v(24)), None, 144),
    # The first is read and written: the last has too few elements to be a result.
    ("triton_poi_fused_addmm_gelu_1", (h(4, 6), h(6), v(24)), None, 48 + 12 + 48),
    # Of a table no more is read than the kernel has elements.
    ("triton_poi_fused_embedding_2", (long(4), h(1000, 6), h(4, 6), v(24)), None, 32 + 48 + 48),
    ("triton_red_fused_native_layer_norm_3", (h(4, 6), h(6), f(4), v(4), v(6)), None,
     48 + 12 + 16),
    ("triton_per_fused_add_4", (h(4, 6), h(2), v(4), v(6)), None, 48 + 4 + 48),
    # Several kernels in one have their sizes in their code.
    ("triton_poi_fused_0", (long(4), h(1000, 6), h(4, 6)), None, 32 + 48 + 48),
    ("triton_for_fused_5", (f(4), f(4)), None, 32),
    ("triton_poi_fused_6", (v(24),), None, None),
    ("triton_tem_fused_mm_relu_7", (h(4, 5), h(5, 3), h(4, 3)), 120, 40 + 30 + 24),
    ("triton_tem_fused_bmm_8", (h(2, 4, 5), h(2, 5, 3), h(2, 4, 3)), 240, 188),
    # What is added comes first, or after the factors where it has become part of an epilogue.
    ("triton_tem_fused_addmm_1", (f(16), f(64, 32), f(32, 16), f(64, 16)), 65536,
     4 * (16 + 2048 + 512 + 1024)),
    ("triton_tem_fused_addmm_relu_1", (h(4, 5), h(5, 3), h(3), h(4, 3)), 120, 40 + 30 + 6 + 24),
    ("triton_tem_fused_baddbmm_1", (h(4, 3), h(2, 4, 5), h(2, 5, 3), h(2, 4, 3)), 240, 212),
    ("triton_tem_fused__scaled_mm_1", (fp8(4, 5), fp8(5, 3), f(4, 1), f(1, 3), h(4, 3)), 120,
     20 + 15 + 16 + 12 + 24),
    # The result is changed in place, so it is the first.
    ("triton_tem_fused_add_mm_2", (h(4, 3), h(4, 5), h(5, 3)), 120, 94),
    ("triton_tem_fused_add_addmm_2", (h(4, 3), h(3), h(4, 5), h(5, 3)), 120, 100),
    ("triton_tem_fused_add_mm_3", (h(4, 5), h(5, 3), h(4, 5), h(5, 3), h(4, 3)), 240, 164),
    # Two products are added, or two tensors to one: shapes do not say.
    ("triton_tem_fused_add_mm_4", (h(4, 4),) * 5, None, 160),
    ("triton_tem_fused_convolution_backward_9", (f(2, 2, 5, 6), f(2, 2, 3, 3), f(2, 2, 10, 12)),
     None, 4 * (120 + 36 + 480)),
    ("triton_tem_fused_convolution_9", (f(2, 4, 5, 6), f(6, 4, 3, 3), f(2, 6, 3, 4)),
     2 * 144 * 36, 4 * (240 + 216 + 144)),
    ("triton_tem_fused_flex_attention_10",
     (h(2, 4, 3, 8), h(2, 2, 5, 8), h(2, 2, 5, 8), f(2, 4, 3), h(2, 4, 3, 8)), 3840,
     384 + 640 + 96 + 384),
    ("triton_tem_fused_flex_attention_backward_11",
     (h(2, 4, 3, 8), h(2, 2, 5, 8), h(2, 2, 5, 8), h(2, 4, 3, 8)), None, 384 + 640 + 384),
    ("triton_tem_fused_other_12", (h(4, 5), h(5, 3), h(4, 3)), None, 94),
    ("sage_fwd_1",
     (byte(2, 4, 3, 8), byte(2, 4, 5, 8), fp8(2, 4, 5, 8), v(-1), f(2, 4, 1), f(2, 4, 1),
      h(2, 4, 3, 8)), 3840, 192 + 320 + 320 + 32 + 32 + 384),
    ("sage_fwd_1",
     (byte(2, 3, 4, 8), byte(2, 5, 4, 8), fp8(2, 5, 4, 8), v(-1), f(2, 4, 1), f(2, 4, 1)), 3840,
     192 + 320 + 320 + 32 + 32),
    ("sage_quant_kernel_0", (h(2, 3), byte(2, 3), f(2)), None, 12 + 6 + 8),
]  # fmt: skip
"""Calls of ops that are known by patterns of their names, and one that is not."""
