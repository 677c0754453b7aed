"""What kernels are: names as libraries write them, by the category that a person would give."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import profframe
from profframe import schema
from profframe.errors import ParameterError
from profframe.facts.kernel_categories import builtin_document, entries_of
from profframe.loading.options import FactOptions, fact_options
from tests.builders import event, loaded

NAMES = {
    "gemm": (
        "ampere_sgemm_128x64_tn",
        "volta_h884gemm_64x64_ldg8_nn",
        "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_segment_k_off_kernel__5x_cublas",
        "nvjet_sm103_tst_256x16_64x6_4x1_v_bz_TNT",
        "void cublasLt::splitKreduce_kernel<32, 16, int, float, __nv_bfloat16>(int)",
        "void gemv2T_kernel_val<int, int, float, float, float, float, 128, 16, 4, 4, false, false>(int)",
        "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_128x64_64x6_tn_align8>(int)",
        "void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<cute::tuple<int, int, int, int>>>(int)",
        "kernel_cutlass_kernel_blackwell_dense_gemm_persistentPersistentDenseGemmKernel_object_at_",
        "void deep_gemm::sm90_fp8_gemm_1d2d_impl<0u, 7168u, 2048u, 1u, 64u, (deep_gemm::GemmType)0>(int)",
        "Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT128x256x32_MI16x16x1_SN",
        "Custom_Cijk_Alik_Bljk_F8BS_BH_Bias_SHB_HAS_SAB_SAV_NTD_SK3_UserArgs",
        "_ZN2ck27kernel_gemm_xdl_cshuffle_v3INS_41GridwiseGemmMultiD_xdl_cshuffle_v3I",
        "void ck_tile::kentry<1, ck_tile::GemmKernel<ck_tile::GemmTile1DPartitioner>>(int)",
        "_ZN5aiter42bf16gemm_fp32bf16_tn_64x64_splitk_cleanE",
        "f4gemm_bf16_per1x32Fp4_BpreShuffle_256x256",
        "_gemm_a8w8_blockscale_kernel",
        "void marlin::Marlin<__nv_bfloat16, 1125899906909960l>(int)",
        "void vllm::wvSplitK_hf_sml_<__hip_bfloat16, 64, 2, 16, 8, 2, 4>(int)",
        "void kgemm_4bit_inference_naive<__nv_bfloat16, 128, 16>(int)",
        "gemm_kernel",
        "MatMulV2_ND_ND_1c2f",
        "triton_tem_fused_addmm_relu_2",
    ),
    "grouped_gemm": (
        "fused_moe_kernel",
        "_matmul_ogs_NNT_bf16xbf16xmxfp4_128x128x128x1_swiglu",
        "void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<cutlass::gemm::GroupProblemShape<cute::tuple<int, int, int>>>>(int)",
        "void cutlass::Kernel<cutlass::gemm::kernel::GemmGrouped<int>>(int)",
        "void deep_gemm::sm90_fp8_gemm_1d2d_impl<0u, 4096u, 7168u, 8u, 64u, (deep_gemm::GemmType)1>(int)",
        "void marlin_moe_wna16::Marlin<__nv_bfloat16, 1l>(int)",
        "bmm_Bfloat16_MxE2m1Bfloat16_Fp32_t128x8x256_s5_et64x8_m64x8x32_routedAct",
        "_ZN5aiter47fmoe_bf16_blockscaleFp8_g1u1_vs_silu_1tg_32x256E",
        "_ZN2ck16kernel_moe_gemm_ILb1ENS_11GridwiseMoeGemm",
        "GroupedMatmul_ND_1",
    ),
    "attention_prefill": (
        "_ZN7ck_tile6kentryILi2ENS_38FmhaBatchPrefillWithPagedKVCacheKernelINS_40Block",
        "void flashinfer::BatchPrefillWithRaggedKVCacheKernel<flashinfer::KernelTraits>(int)",
        "void flashinfer::SinglePrefillWithKVCacheKernel<flashinfer::KernelTraits>(int)",
        "fmhaSm100fKernel_QkvBfloat16OBfloat16H64PagedKvCausalP64VarSeqQ128Kv128PersistentContext",
        "_ZN5aiter36mla_pfl_bf16_a16w16_causal_subQ128_mqa16E",
        "PromptFlashAttention_1",
    ),
    "attention_decode": (
        "void vllm::paged_attention_v2_kernel<unsigned short, unsigned short, 128, 16, 128>(int)",
        "void paged_attention_ll4mi_QKV_mfma16_kernel<0, __hip_bfloat16>(int)",
        "void flashinfer::BatchDecodeWithPagedKVCacheKernel<(flashinfer::PosEncodingMode)0, 2u>(int)",
        "void sm90::flash_fwd_splitkv_mla_kernel<cutlass::bfloat16_t>(int)",
        "void flash_fwd_splitkv_mla_kernel<Flash_fwd_kernel_traits_mla<576>>(int)",
        "fmhaSm100fKernel_QkvBfloat16OBfloat16H128PagedKvCausalP64VarSeqQ8Kv128PersistentSwapsAbForGen",
        "void tensorrt_llm::kernels::masked_multihead_attention_kernel<__nv_bfloat16>(int)",
        "kernel_mha_xqa",
        "_fwd_grouped_kernel_stage1",
        "_fwd_kernel_stage2",
        "kernel_unified_attention_3d",
        "_ZN5aiter36mla_dec_stage1_bf16_a16w16_subQ16_mqa16E",
        "IncreFlashAttention_3",
        "triton_tem_fused_flex_decoding_0",
    ),
    "attention_backward": (
        "void pytorch_flash::flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<pytorch_flash::Flash_bwd_kernel_traits<64>>(int)",
        "void flash_bwd_dot_do_o_kernel<true, Flash_bwd_kernel_traits<64>>(int)",
        "void cutlass::device_kernel<flash::enable_sm90<flash::FlashAttnBwdSm90<flash::CollectiveMainloopBwdSm90<2>>>>(int)",
        "kernel_cutlass_kernel_flash_attncuteflash_bwd_sm100FlashAttentionBackwardSm100_object_at__",
        "fmha_cutlassB_f32_aligned_64x64_k64_dropout_sm80(PyTorchMemEffAttention::AttentionBackwardKernel<int>::Params)",
        "cudnn_generated_fort_native_sdpa_sm90_flash_bprop_wgmma_f16_knob_31_64x64x128_4x1x1_kernel0_0",
        "_ZN5aiter32fmha_bwd_hd128_bf16_causal_a16_rtneE",
        "_bwd_kernel_dkdv",
        "bwd_kernel_dk_dv",
        "triton_tem_fused_flex_attention_backward_3",
        "FlashAttentionScoreGrad_12",
    ),
    "attention": (
        "void pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits<32, 128, 128>>(int)",
        "void flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits<128, 64, 128>>(int)",
        "void cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashAttnFwdSm90<flash::CollectiveMainloopFwdSm90<2>>>>(int)",
        "kernel_cutlass_kernel_flash_attncuteflash_fwd_sm100FlashAttentionForwardSm100_object_at__",
        "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x128_4x1x1_kernel0_0",
        "fmha_cutlassF_bf16_aligned_64x128_rf_sm80(PyTorchMemEffAttention::AttentionKernel<int>::Params)",
        "fmha_v2_flash_attention_bf16_64_128_S_q_paged_kv_128_causal_tma_ws_sm90_kernel",
        "attn_fwd",
        "kernel_unified_attention_2d",
        "_ZN5aiter24fmha_fwd_hd128_bf16_causalE",
        "triton_tem_fused_flex_attention_1",
        "FlashAttentionScore_7",
        "micro_sdpa",
    ),
    "convolution": (
        "volta_scudnn_128x64_relu_interior_nn_v1",
        "void cudnn::detail::dgrad_engine<float, 512, 6, 5, 3, 3, 3, false>(int)",
        "void implicit_convolve_sgemm<float, float, 1024, 6, 7, 3, 3, 5, 1, false, true, true>(int)",
        "sm80_xmma_fprop_implicit_gemm_tf32f32_tf32f32_f32_nhwckrsc_nhwc_tilesize64x128x32_stage5",
        "igemm_fwd_gtcx3_nhwc_bf16_bx0_ex1_bt128x256x32",
        "miopenSp3AsmConv_v30_3_1_gfx9_fp32_f2x3_stride1",
        "_ZN2ck16tensor_operation6device12_GLOBAL__N_139kernel_grouped_conv_fwd_xdl_cshuffle_v3I",
        "void at::native::(anonymous namespace)::conv_depthwise2d_forward_kernel<3, float, int>(int)",
        "void causal_conv1d_fwd_kernel<Causal_conv1d_fwd_kernel_traits<128, 4>>(int)",
        "Conv2DBackpropFilter97",
        "gen_conv",
    ),
    "normalisation": (
        "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float, float>(int)",
        "void cudnn::bn_bw_1C11_kernel_new<float, float, float2, 512, true, 1>(int)",
        "void vllm::fused_add_rms_norm_kernel<c10::BFloat16, 8>(int)",
        "_ZN5aiter24add_rmsnorm_quant_kernelIDF16bDF16bLi64ELi8E",
        "void transformer_engine::normalization::ln_fwd_tuned_kernel<int>(int)",
        "_rms_norm_forward_kernel",
        "void cuApplyLayerNorm<float, float, float>(int)",
        "MIOpenBatchNormFwdTrainSpatialNorm",
        "kernel_cutlass_kernel_flashinfernormkernelsfused_add_rmsnormFusedAddRMSNormKernel_object_at__",
    ),
    "softmax": (
        "void (anonymous namespace)::softmax_warp_forward<float, float, float, 8, false, false>(int)",
        "void at::native::(anonymous namespace)::cunn_SoftMaxForward<4, float, float, float>(int)",
        "liger_cross_entropy_kernel",
        "LogSoftmaxV237",
    ),
    "elementwise": (
        "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul> >(int)",
        "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, std::array<char*, 1ul> >(int)",
        "void vllm::act_and_mul_kernel<c10::BFloat16, &vllm::silu_kernel<c10::BFloat16>, true>(int)",
        "_swiglu_forward_kernel",
        "void transformer_engine::gated_act_kernel<float>(int)",
        "void (anonymous namespace)::elementwise_kernel_with_index<int, at::native::arange_cuda_out(int)>(int)",
        "Mul70",
    ),
    "reduction": (
        "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::MeanOps<float, float, float, float> > >(int)",
        "void cub::DeviceReduceKernel<int>(int)",
        "void at::native::(anonymous namespace)::max_pool_forward_nchw<float, float>(int)",
        "void at::native::tensor_kernel_scan_innermost_dim<float, std::plus<float> >(float*)",
        "ReduceSum98",
    ),
    "index_embedding": (
        "void at::native::index_elementwise_kernel<128, 4, at::native::gpu_index_kernel<int>>(int)",
        "void at::native::(anonymous namespace)::indexSelectLargeIndex<float, long, unsigned int, 2, 2, -2, true>(int)",
        "void split_embedding_codegen_forward_unweighted_kernel<float, float, float, long, 5ul>(int)",
        "void vllm::reshape_and_cache_flash_kernel<__hip_bfloat16, __hip_bfloat16>(int)",
        "void (anonymous namespace)::store_kvcache<2048l, 4, false, long>(int)",
        "create_flashinfer_kv_indices_triton",
        "GatherV2_3",
    ),
    "sort_topk": (
        "void cub::DeviceRadixSortOnesweepKernel<cub::DeviceRadixSortPolicy<long, int, int>::Policy800>(int)",
        "void at::native::sbtopk::gatherTopK<float, unsigned int, 2, false>(int)",
        "void flashinfer::sampling::TopKTopPSamplingFromProbKernel<1024u>(int)",
        "TopKV241",
    ),
    "moe_routing": (
        "void vllm::moe::topkGatingSoftmax<8, 128, 4, 16, 32, int>(int)",
        "void vllm::moe::moe_align_block_size_kernel<int>(int)",
        "void deep_ep::layout::get_dispatch_layout<256, 4, 8>(long const*, int*)",
        "_ZN7ck_tile6kentryILi1ENS_16MoeSortingKernelINS_",
        "void tensorrt_llm::kernels::expandInputRowsKernel<int>(int)",
        "_combined_routing_compute",
        "_fwd_kernel_ep_scatter_1",
        "moe_fused_gate_kernel",
    ),
    "quantisation": (
        "void vllm::scaled_fp8_quant_kernel<float, c10::Float8_e4m3fn>(int)",
        "void per_token_group_quant_8bit_kernel<c10::BFloat16, c10::Float8_e4m3fn>(int)",
        "void kDequantizeBlockwise<__nv_bfloat16, 512, 64, 8, 2>(int)",
        "void transformer_engine::detail::cast_transpose_optimized_kernel<true>(int)",
        "_dynamic_mxfp4_quant_kernel",
        "sage_quant_kernel",
    ),
    "rotary": (
        "void vllm::rotary_embedding_kernel<c10::BFloat16, true>(int)",
        "void (anonymous namespace)::fused_rope_kernel<true, 128l, true>(int)",
        "void flashinfer::BatchQKApplyRotaryPosIdsCosSinCacheKernel<true, 128u>(int)",
        "_triton_rope",
    ),
    "state_space": (
        "void selective_scan_fwd_kernel<Selective_Scan_fwd_kernel_traits<128, 16>>(int)",
        "_chunk_scan_fwd_kernel",
        "_state_passing_fwd_kernel",
        "_selective_scan_update_kernel",
        "fused_recurrent_gated_delta_rule_fwd_kernel",
        "chunk_gated_delta_rule_fwd_kernel_h_blockdim64",
    ),
    "optimizer": (
        "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous namespace)::FusedOptimizerTensorListMetadata<4>, at::native::(anonymous namespace)::FusedAdamMathFunctor<float, 4>>(int)",
        "void multi_tensor_apply_kernel<TensorListMetadata<4>, AdamFunctor<float>>(int)",
        "void kOptimizerStatic8bit2StateBlockwise<float, 0, 256, 1>(int)",
    ),
    "random": (
        "void at::native::(anonymous namespace)::distribution_elementwise_grid_stride_kernel<float, 4, int>(int)",
        "void at::native::(anonymous namespace)::fused_dropout_kernel_vec<float, float, unsigned int, 1, 4, bool>(int)",
        "StatelessDropOutGenMask25",
    ),
    "triton_fused": (
        "triton_poi_fused_addmm_gelu_view_15",
        "triton_red_fused_add_native_layer_norm_9",
        "triton_per_fused__softmax_all_gather_into_tensor_2",
        "triton__0d1d2d3de",
    ),
    "collective": (
        "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
        "ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)",
        "void rccl::something()",
        "hcom_allReduce__538_3_1",
        "nvshmem_alltoall",
        "void vllm::cross_device_reduce_1stage<float, 2>(int)",
        "void quickreduce::allreduce_prototype_twoshot<quickreduce::AllReduceTwoshot<__half>, __half>(int)",
        "void (anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16, 16>(int)",
        "void (anonymous namespace)::two_shot_all_reduce_kernel_inplace<c10::BFloat16, 16, 2>(int)",
        "userbuffers_fp16_sum_inplace_gpu_rw_ag",
        "void mscclpp::collective::allreducePacket<float>(int)",
        "void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport<1, __nv_bfloat16, 8, true>(int)",
        "void flashinfer::trtllm_mnnvl_allreduce::twoshotAllreduceKernel<8, __nv_bfloat16>(int)",
        "REDUCE_ASYNC_V2",
    ),
    "expert_parallel": (
        "void dpsk::ep::internode::dispatch<false, 8, false, 3072, 8>(int4*, float*, long*)",
        "void dpsk::ep::internode::combine<false, 8, __nv_bfloat16, 24>(int4*, float*)",
        "void dpsk::ep::internode::notify_dispatch<false, 8>(int const*, int*, int)",
        "void dpsk::ep::internode::cached_notify<false, 2>(int)",
        "void deep_ep::intranode::dispatch<8, 768, 8192>(int4*, float*)",
        "void deep_ep::intranode::cached_notify_combine<8>(void**, int*)",
        "void deep_ep::internode_ll::combine<false, 7168, 9, 3>(void*)",
        "_ZN7deep_ep9internode8dispatchILb0ELi8ELb0ELi3072ELi8EEEvP4int4",
        "void hybrid_ep::dispatch_kernel<hybrid_ep::Config>(int)",
        "EpDispatchInterNodeV1Kernel_bf16",
        "void tensorrt_llm::kernels::moe_comm::moeAllToAllKernel<int>(int)",
        "void moeA2ADispatchKernel<8, false>(int)",
        "MoeDistributeDispatchV2_1",
    ),
    "point_to_point": (
        "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)",
        "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclWorkElem)",
        "kuserbuffers_pushrecv(int, int, int, int, int*, int*, int)",
        "void nvshmem_put_kernel<float>(int)",
    ),
    "copy": (
        "void at::native::elementwise_kernel<128, 2, at::native::gpu_kernel_impl_nocast<at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)>>(int)",
        "void at::native::(anonymous namespace)::CatArrayBatchedCopy<float, unsigned int, 2, 128, 1>(int)",
        "batched_transpose_32x32_half",
        "trans_TransData_3",
    ),
    "other": (
        "merge",
        "void probe_group_by_GPU2<128, 4>(int*)",
        "my_dispatch_kernel",
    ),
}  # fmt: skip
"""Names as they are in traces and in the sources of the libraries."""
OPS = (
    ("aten::mm", "void splitKreduce_kernel<float, float>(int)", "gemm"),
    ("aten::addmm", "void at::native::elementwise_kernel<128, 4, at::native::direct_copy_kernel_cuda(int)>(int)", "gemm"),
    ("aten::cudnn_convolution", "volta_sgemm_128x64_nn", "convolution"),
    ("aten::native_layer_norm", "void at::native::vectorized_elementwise_kernel<4, int>(int)", "normalisation"),
    ("aten::index_put_", "void cub::DeviceRadixSortOnesweepKernel<int>(int)", "index_embedding"),
    ("aten::mm", "ncclDevKernel_AllReduce_Sum_f32_RING_LL(int)", "collective"),
    ("aten::sum", "gemm_kernel_sum<0>", "reduction"),
    ("vllm::unified_attention_with_output", "void vllm::reshape_and_cache_flash_kernel<int>(int)", "index_embedding"),
    ("vllm::unified_attention_with_output", "some_kernel", "attention"),
    ("aiter::rmsnorm", "some_kernel", "normalisation"),
    ("aten::_foreach_add_", "some_kernel", "optimizer"),
    ("triton_poi_fused_add_3", "some_kernel", "triton_fused"),
    ("my::op", "some_kernel", "other"),
)  # fmt: skip
"""Op, kernel, category: what decides where the two disagree."""


def kernel(name: str | None, start: int = 10, **others: Any) -> dict[str, Any]:
    return event(name, start, start + 5, category="kernel", thread=9, device=0, stream=7, **others)


def categories(*events: dict[str, Any]) -> list[str | None]:
    return loaded(*events).events["kernel_category"].to_list()


def test_names_as_libraries_write_them() -> None:
    pairs = [(category, name) for category, names in NAMES.items() for name in names]
    rows = categories(*(kernel(name) for _, name in pairs))
    wrong = [(*pair, row) for pair, row in zip(pairs, rows, strict=True) if pair[0] != row]
    assert wrong == []


def test_every_category_has_names() -> None:
    assert list(NAMES) == list(schema.KERNEL_CATEGORIES)


def test_an_op_of_torch_decides_and_what_communicates_does_not_ask_it() -> None:
    rows = []
    for number, (op, name, _) in enumerate(OPS):
        at, ids = 100 * number, {"correlation": number + 1}
        rows += [event(op, at, at + 50), event("cudaLaunchKernel", at + 1, at + 5, category="cuda_runtime", **ids)]
        rows += [kernel(name, at + 10, **ids)]
    assert categories(*rows)[2::3] == [category for *_, category in OPS]


def test_what_is_no_kernel_has_no_category_but_for_copies_and_fills() -> None:
    rows = (
        event("aten::mm", 0, 9),
        event("Memcpy HtoD", 1, 2, category="gpu_memcpy", thread=9),
        event("Memset (Device)", 3, 4, category="gpu_memset", thread=9),
        kernel(None),
    )
    trace = loaded(*rows)
    assert trace.events["kernel_category"].to_list() == [None, "copy", "copy", "other"]
    assert trace.events["computes_and_communicates"].to_list() == [None, None, None, False]


def test_a_collective_of_sends_and_receives_is_told_by_its_metadata() -> None:
    name = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"
    rows = [kernel(name, collective=what) for what in ("all_to_allv", "send", None)]
    rows.append(kernel("a_new_backend", collective="allgather"))
    assert categories(*rows) == ["collective", "point_to_point", "point_to_point", "collective"]


def test_kernels_that_compute_and_communicate_at_once() -> None:
    names = (
        "void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_twoshot_sync<1>(int)",
        "void bytedance::flux::GemmReduceScatter<int>(int)",
        "ncclDevKernel_AllReduce_Sum_f32_RING_LL(int)",
    )
    frame = loaded(*(kernel(name) for name in names)).events
    assert frame["kernel_category"].to_list() == ["collective", "gemm", "collective"]
    assert frame["computes_and_communicates"].to_list() == [True, True, False]


def test_names_like_communication_without_a_category_are_counted() -> None:
    quality = loaded(
        kernel("merge"),
        kernel("void mine::token_dispatch<8>(int)"),
        kernel("void mine::token_dispatch<8>(int)"),
        kernel("void mine::walk<Dispatch>(int)"),
        kernel("void at::native::vectorized_elementwise_kernel<4, dispatch>(int)"),
    ).quality
    (row,) = quality.filter(check="unknown_communication").rows(named=True)
    assert (row["events"], row["example_event_id"]) == (2, 1)
    assert row["detail"].endswith("mine::token_dispatch")


@pytest.fixture
def trace_file(tmp_path: Path) -> Path:
    events = [
        {"ph": "X", "cat": "kernel", "name": name, "ts": 10 * at, "dur": 8, "pid": 0, "tid": 7,
         "args": {"device": 0, "stream": 7}}
        for at, name in enumerate(["mine_dispatch", "nvjet_tst_128x256"])
    ]  # fmt: skip
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": events}))
    return path


def test_entries_of_the_user_come_first(trace_file: Path, tmp_path: Path) -> None:
    short = {"^mine_": "expert_parallel", "nvjet": "convolution"}
    trace = profframe.load(trace_file, kernel_categories=short)
    assert trace.events["kernel_category"].to_list() == ["expert_parallel", "convolution"]
    assert not trace.quality.filter(check="unknown_communication").height
    long = {
        "ours": {
            "category": "gemm",
            "match": [{"name": "^mine_"}],
            "computes_and_communicates": True,
            "source": "https://example.org",
            "note": "fused",
        }
    }
    path = tmp_path / "categories.json"
    path.write_text(json.dumps(long))
    for given in (path, str(path), long):
        frame = profframe.load(trace_file, kernel_categories=given).events
        assert frame["kernel_category"].to_list() == ["gemm", "gemm"]
        assert frame["computes_and_communicates"].to_list() == [True, False]


def test_a_cache_and_a_store_keep_categories_apart(trace_file: Path, tmp_path: Path) -> None:
    cache, mine = tmp_path / "cache", {"^mine_": "collective"}
    for _ in range(2):
        plain = profframe.load(trace_file, cache=cache).events["kernel_category"]
        own = profframe.load(trace_file, cache=cache, kernel_categories=mine)
        assert plain.to_list() == ["other", "gemm"]
        assert own.events["kernel_category"].to_list() == ["collective", "gemm"]
    own.to_parquet(tmp_path / "store")
    assert profframe.load(tmp_path / "store").time_breakdown()["exposed_communication_ns"][0] == 8000
    with pytest.raises(ParameterError, match="kernel_categories are given to kernels when a trace"):
        profframe.load(tmp_path / "store", kernel_categories=mine)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (7, "kernel_categories: needs an object of entries by their names, got 7"),
        ({"a": "gem"}, "kernel_categories: 'a': no category 'gem'; categories are gemm, "),
        ({"(": "gemm"}, r"kernel_categories: '\(': '\(' is no regular expression: "),
        ({"a": 1}, "'a': needs a category or an object, got 1"),
        ({"a": {"category": "gemm"}}, "'a': needs the field match"),
        ({"a": {"match": [{"name": "x"}]}}, "'a': needs the field category"),
        ({"a": {"category": "gemm", "match": []}}, "'a': match must be a list of descriptions"),
        ({"a": {"category": "gemm", "match": [{}]}}, "'a': match needs objects with name, op,"),
        ({"a": {"category": "gemm", "match": [{"kind": "x"}]}}, "no condition 'kind'"),
        ({"a": {"category": "gemm", "match": [{"name": 5}]}}, "a pattern must be text, got 5"),
        ({"a": {"category": ["x"], "match": [{"name": "x"}]}}, r"no category \['x'\]"),
        ({"a": {"category": "gemm", "match": [{"name": "x"}], "also": 1}}, "no field 'also'"),
        ({"a": {"category": "gemm", "match": [{"name": "x"}], "note": 1}}, "note must be text"),
        (
            {"a": {"category": "gemm", "match": [{"name": "x"}], "computes_and_communicates": 1}},
            "must be true or false",
        ),
        ({"": "gemm"}, "the name of an entry must be text"),
    ],
)
def test_what_has_not_the_form_is_one_error(value: object, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        entries_of(value)  # type: ignore[arg-type]


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match=r"nothing\.json: cannot be read: "):
        entries_of(tmp_path / "nothing.json")
    (tmp_path / "bad.json").write_text("{")
    with pytest.raises(ParameterError, match=r"bad\.json: not a JSON file of categories: "):
        entries_of(str(tmp_path / "bad.json"))


def test_the_built_in_file_has_the_form_and_sources() -> None:
    document = builtin_document()
    assert len(entries_of(document)) == len(document)
    assert all(entry["source"].startswith("https://") for entry in document.values())
    assert {entry["category"] for entry in document.values()} == set(schema.KERNEL_CATEGORIES) - {
        "other"
    }


def test_options_with_other_entries_have_another_key() -> None:
    plain, mine = FactOptions(), fact_options(None, None, None, None, None, {"a": "gemm"})
    assert len({plain.key(), mine.key()}) == 2
