from __future__ import annotations

import pyarrow as pa
import pytest

from profframe.facts.kinds import RULES, Rule, kinds
from profframe.facts.pipeline import add_facts
from tests.builders import event, tables


def kind_of(category: str | None, name: str = "x", process: str | None = "python 3") -> str:
    source = tables(
        event(name, 0, 1, category=category), threads=[{"thread": 0, "process_name": process}]
    )
    (kind,) = kinds(source)["events"]["kind"].to_pylist()
    assert isinstance(kind, str)
    return kind


@pytest.mark.parametrize(
    ("category", "kind"),
    [
        ("cpu_op", "host_op"),
        ("Operator", "host_op"),
        ("user_annotation", "annotation"),
        ("python_function", "python"),
        ("cuda_runtime", "runtime"),
        ("Runtime", "runtime"),
        ("mtia_runtime", "runtime"),
        ("privateuse1_runtime", "runtime"),
        ("cuda_driver", "driver"),
        ("xpu_driver", "driver"),
        ("kernel", "kernel"),
        ("Kernel", "kernel"),
        ("concurrent_kernel", "kernel"),
        ("gpu_memcpy", "memcpy"),
        ("Memcpy", "memcpy"),
        ("gpu_memset", "memset"),
        ("Memset", "memset"),
        ("cuda_sync", "sync"),
        ("gpu_user_annotation", "device_annotation"),
        ("overhead", "overhead"),
        ("Trace", "profiler"),
        ("cuda_profiler_range", "other"),
        ("PERF", "other"),
        (None, "other"),
    ],
)
def test_words_of_kineto(category: str | None, kind: str) -> None:
    assert kind_of(category) == kind


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("__amd_rocclr_copyBuffer", "memcpy"),
        ("__amd_rocclr_copyBuffer.kd", "memcpy"),
        ("__amd_rocclr_copyBufferAligned", "memcpy"),
        ("__amd_rocclr_copyBufferRect", "memcpy"),
        ("__amd_rocclr_copyBufferRectAligned", "memcpy"),
        ("__amd_rocclr_copyImageToBuffer", "memcpy"),
        ("MEMORY_COPY_HOST_TO_DEVICE", "memcpy"),
        ("MEMORY_COPY_DEVICE_TO_DEVICE", "memcpy"),
        ("__amd_rocclr_fillBuffer", "memset"),
        ("__amd_rocclr_fillBufferAligned", "memset"),
        ("__amd_rocclr_fillBufferAligned2D.kd", "memset"),
        ("__amd_rocclr_streamOpsWait", "kernel"),
        ("my__amd_rocclr_copyBuffer", "kernel"),
        ("memory_copy_kernel", "kernel"),
        ("void at::native::copy_kernel", "kernel"),
    ],
)
@pytest.mark.parametrize("category", ["kernel", "Kernel", "concurrent_kernel"])
def test_rocm_writes_copies_and_fills_as_kernels(category: str, name: str, kind: str) -> None:
    assert kind_of(category, name) == kind
    assert kind_of("cpu_op", name) == "host_op"


def test_a_category_is_matched_whole() -> None:
    assert kind_of("my_kernel") == "other"
    assert kind_of("kernels") == "other"


@pytest.mark.parametrize(
    ("name", "kind"),
    [("dma_request", "memcpy"), ("event_wait", "sync"), ("fc", "kernel")],
)
def test_mtia_names_tell_what_its_queues_do(name: str, kind: str) -> None:
    assert kind_of("mtia_ccp_events", name, "MTIA 0") == kind


@pytest.mark.parametrize(
    ("name", "process", "kind"),
    [
        ("MatMul", "Ascend Hardware", "kernel"),
        ("NOTIFY_WAIT", "Ascend Hardware", "sync"),
        ("MEMCPY_ASYNC", "Ascend Hardware", "memcpy"),
        ("MemcopyAsync", "Ascend Hardware", "memcpy"),
        ("Notify Wait", "Ascend Hardware", "sync"),
        ("Notify Record", "Ascend Hardware", "sync"),
        ("EVENT_WAIT", "Ascend Hardware", "sync"),
        ("Write Value", "Ascend Hardware", "sync"),
        ("Invalidate Data Context", "Ascend Hardware", "sync"),
        ("PROFILING_DISABLE", "Ascend Hardware", "sync"),
        ("SDMA", "Ascend Hardware", "memcpy"),
        ("SDMA_SQE", "Ascend Hardware", "memcpy"),
        ("aclnnNotifyDispatch", "Ascend Hardware", "kernel"),
        ("hcom_allReduce__123_0_1", "Communication", "kernel"),
        ("Notify Wait", "Communication", "device_annotation"),
        ("hcom_allReduce__538_0_1", "HCCL", "kernel"),
        ("Notify_Wait", "HCCL", "device_annotation"),
        ("MatMul", "CANN", "runtime"),
        ("Computing", "Overlap Analysis", "profiler"),
        ("MatMul", None, "other"),
    ],
)
def test_ascend_processes_tell_what_a_slice_without_category_is(
    name: str, process: str | None, kind: str
) -> None:
    assert kind_of(None, name, process) == kind


@pytest.mark.parametrize(
    ("name", "process", "kind"),
    [
        ("aten::mm", "CPU functions", "host_op"),
        ("MmBackward", "CPU functions", "host_op"),
        ("ProfilerStep#3", "CPU functions", "annotation"),
        ("Optimizer.step#SGD.step", "CPU functions", "annotation"),
        ("train.py(12): step", "CPU functions", "python"),
        ("nn.Module: Linear_0", "CPU functions", "python"),
        ("cudaLaunchKernel", "CPU functions", "runtime"),
        ("void gemm<float>(int)", "CUDA functions", "kernel"),
        ("Memcpy HtoD (Pageable -> Device)", "CUDA functions", "memcpy"),
        ("Memset (Device)", "CUDA functions", "memset"),
    ],
)
def test_lists_of_torch_events_have_names_only(name: str, process: str, kind: str) -> None:
    source = tables(
        event(name, 0, 1, category=None, pid=process), threads=[{"thread": 0, "pid": process}]
    )
    assert kinds(source)["events"]["kind"].to_pylist() == [kind]


def test_a_category_without_a_process_is_enough() -> None:
    assert kind_of("cpu_op", process=None) == "host_op"


def test_own_rules_take_the_place_of_the_default_ones() -> None:
    source = tables(event("mine::a", 0, 1), event("aten::mm", 1, 2), event(None, 2, 3))
    mine = (Rule("annotation", name=r"mine::.*"), *RULES)
    assert add_facts(source, classifier=mine)["events"]["kind"].to_pylist() == [
        "annotation",
        "host_op",
        "host_op",
    ]


def test_a_rule_for_an_unknown_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="'gpu' is not a kind; kinds are host_op, "):
        Rule("gpu")


def test_chunks_with_dictionaries_of_their_own() -> None:
    source = tables(event("a", 0, 1, category="kernel"))
    other = tables(event("b", 0, 1, category="cpu_op"))
    events = pa.concat_tables([source["events"], other["events"]])
    assert kinds({**source, "events": events})["events"]["kind"].to_pylist() == [
        "kernel",
        "host_op",
    ]
