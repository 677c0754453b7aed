"""FLOPs are those of ``torch.utils.flop_counter``, for every op that it knows."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import polars as pl
import pytest

from tests import needs

torch = needs.torch()

import hypothesis.strategies as st  # noqa: E402
from hypothesis import given, settings  # noqa: E402
from torch.utils.flop_counter import FlopCounterMode, flop_registry  # noqa: E402

import profframe  # noqa: E402
from profframe.facts.formulas.attention import ATTENTION  # noqa: E402
from profframe.facts.formulas.convolutions import CONVOLUTIONS  # noqa: E402
from profframe.facts.formulas.matrices import MATRICES  # noqa: E402
from profframe.facts.torch_compat.releases import installed  # noqa: E402
from tests.parity.recorded_ops import measured, recorded  # noqa: E402

functional = torch.nn.functional
aten = torch.ops.aten
Draw = Callable[..., Any]

COUNTED = {*MATRICES, *CONVOLUTIONS, *ATTENTION}
SOME: Final = settings(max_examples=max(1, settings().max_examples * 2 // 3))
SIDES = st.integers(1, 7)
CONVOLUTION = ["", "", "", "[2, 2]", "[3, 3]", "[1, 1]", "False", "[0, 0]", "1"]
ADDITION = ["", "", "", "1", "1"]

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def counter_flops(call: Callable[[], Any]) -> int:
    """What torch counts while something runs."""
    with FlopCounterMode(display=False) as counter:
        call()
    return int(counter.get_total_flops())


def owned_flops(call: Callable[[], Any]) -> int:
    """What is counted here in a profile of it, by the ops that own the work."""
    with torch.profiler.profile(record_shapes=True) as profile:
        call()
    events = profframe.load(profile).events
    owners = events.filter(pl.col("event_id") == pl.col("work_id"), pl.col("name").is_in(COUNTED))
    return int(owners["flops"].sum())


def tensor(*shape: int, grad: bool = True, dtype: Any = torch.float32) -> Any:
    return torch.zeros(shape, requires_grad=grad, dtype=dtype)


def backward(result: Any) -> None:
    """Gradients of all inputs."""
    result.backward(torch.ones_like(result))


@st.composite
def products(draw: Draw) -> Callable[[], None]:
    """Products of matrices, forward and backward."""
    b, m, k, n = (draw(SIDES) for _ in range(4))
    kind = draw(st.sampled_from(("mm", "addmm", "bmm", "baddbmm", "linear", "matmul")))
    batched = kind in {"bmm", "baddbmm"}
    first = tensor(*([b] * batched), m, k)
    second = tensor(*([b] * batched), k, n)
    added = tensor(*draw(st.sampled_from([(n,), (m, n), (1, n)])))
    if kind in {"mm", "bmm"}:
        return lambda: backward(getattr(torch, kind)(first, second))
    if kind in {"addmm", "baddbmm"}:
        more = added if kind == "addmm" else tensor(b, m, n)
        return lambda: backward(getattr(torch, kind)(more, first, second))
    if kind == "linear":
        outer = draw(st.lists(SIDES, min_size=0, max_size=3))
        bias = draw(st.none() | st.just(tensor(n)))
        source, weight = tensor(*outer, m, k), tensor(n, k)
        return lambda: backward(functional.linear(source, weight, bias))
    left = draw(st.lists(SIDES, max_size=2))
    right = draw(st.sampled_from([[], left, [1] * len(left)]))
    source, other = tensor(*left, m, k), tensor(*right, k, n)
    return lambda: backward(torch.matmul(source, other))


@st.composite
def convolutions(draw: Draw, groups: int | None = None) -> Callable[[], Any]:
    """Convolutions of one to three dimensions, ready to run forward."""
    ndim = draw(st.integers(1, 3))
    of_groups = groups or draw(st.integers(1, 3))
    channels, out = (of_groups * draw(st.integers(1, 3)) for _ in range(2))
    window = [draw(st.integers(1, 3)) for _ in range(ndim)]
    stride, dilation = (draw(st.integers(1, 3)) for _ in range(2))
    image = [draw(st.integers(dilation * 2 + 1, 9)) for _ in range(ndim)]
    batch = [draw(st.integers(1, 3))] if draw(st.booleans()) else []
    source = tensor(*batch, channels, *image)
    bias = draw(st.none() | st.just(tensor(out)))
    if draw(st.booleans()):
        more = draw(st.integers(0, max(stride, dilation) - 1))
        weight = tensor(channels, out // of_groups, *window)
        run = getattr(functional, f"conv_transpose{ndim}d")
        settled = {"output_padding": more, "padding": draw(st.integers(0, 1))}
    else:
        weight = tensor(out, channels // of_groups, *window)
        run = getattr(functional, f"conv{ndim}d")
        padding = draw(st.integers(0, 2) | st.sampled_from(["same", "valid"]))
        stride = 1 if padding == "same" else stride
        settled = {"padding": padding}
    options = {"stride": stride, "dilation": dilation, "groups": of_groups, **settled}
    return lambda: run(source, weight, bias, **options)


def runs(call: Callable[[], Any]) -> bool:
    """Whether torch takes these arguments."""
    try:
        call()
    except RuntimeError:
        return False
    return True


@SOME
@given(st.lists(products(), min_size=1, max_size=4))
def test_products_forward_and_backward(calls: Sequence[Callable[[], None]]) -> None:
    def run() -> None:
        for call in calls:
            call()

    assert owned_flops(run) == counter_flops(run)


@SOME
@given(st.lists(convolutions(), min_size=1, max_size=4))
def test_convolutions_forward(calls: Sequence[Callable[[], Any]]) -> None:
    sound = [call for call in calls if runs(call)]

    def run() -> None:
        for call in sound:
            call()

    assert owned_flops(run) == counter_flops(run)


@SOME
@given(st.lists(convolutions(groups=1), min_size=1, max_size=4))
def test_convolutions_backward(calls: Sequence[Callable[[], Any]]) -> None:
    sound = [call for call in calls if runs(call)]

    def run() -> None:
        for call in sound:
            backward(call())

    assert owned_flops(run) == counter_flops(run)


@SOME
@given(convolutions(groups=2))
def test_the_backward_of_grouped_convolutions_is_twice_the_forward(call: Callable[[], Any]) -> None:
    if runs(call):
        assert owned_flops(lambda: backward(call())) == 3 * counter_flops(call)


@st.composite
def attentions(draw: Draw, kind: str) -> Callable[[], None]:
    """Attention on a CPU, forward and backward."""
    b, kv, n, s, d = (draw(SIDES) for _ in range(5))
    repeat = draw(st.integers(1, 3))
    causal = draw(st.booleans())
    value_width = draw(SIDES) if kind == "math" else d
    query = tensor(b, kv * repeat, n, d)
    key, value = tensor(b, kv, s, d), tensor(b, kv, s, value_width)
    mask = None if causal else draw(st.none() | st.just(tensor(n, s, grad=False)))
    backends = torch.nn.attention.SDPBackend
    chosen = backends.MATH if kind == "math" else backends.FLASH_ATTENTION

    def run() -> None:
        with torch.nn.attention.sdpa_kernel(chosen):
            attend = functional.scaled_dot_product_attention
            backward(attend(query, key, value, mask, is_causal=causal, enable_gqa=repeat > 1))

    return run


@SOME
@given(attentions("math"))
def test_attention_of_products(call: Callable[[], None]) -> None:
    assert owned_flops(call) == counter_flops(call)


def test_flash_attention_on_a_cpu() -> None:
    """torch does not count it. 240 pairs (2 * 3 * 5 * 8), 4 wide: two products, then five."""
    query, key = tensor(2, 3, 5, 4), tensor(2, 3, 8, 4)

    def call() -> Any:
        return functional.scaled_dot_product_attention(query, key, key)

    assert owned_flops(call) == 3840
    assert owned_flops(lambda: backward(call())) == 3840 + 9600


def test_a_causal_mask_and_heads_that_are_shared_change_nothing() -> None:
    query, key = tensor(2, 6, 5, 4), tensor(2, 3, 5, 4)

    def call(causal: bool) -> Any:
        attend = functional.scaled_dot_product_attention
        return attend(query, key, key, is_causal=causal, enable_gqa=True)

    assert owned_flops(lambda: call(causal=True)) == owned_flops(lambda: call(causal=False)) == 4800


# What no CPU runs: rows are made of the arguments, as the profiler writes them.


def meta(*shape: int, dtype: Any = torch.float16) -> Any:
    return torch.empty(shape, dtype=dtype, device="meta")


def agree(packet: Any, *args: Any, **kwargs: Any) -> None:
    """Here and in torch the same number for one call, of tensors without data."""
    flops, bytes_ = measured(str(packet).replace(".", "::"), recorded(packet, *args, **kwargs))
    assert flops == counter_flops(lambda: packet(*args, **kwargs)) > 0
    assert bytes_ is not None
    assert bytes_ > 0


def test_rows_are_made_as_the_profiler_writes_them() -> None:
    source, weight = tensor(2, 4, 5, 6), tensor(6, 2, 3, 3)
    args = (source, weight, None, [1, 1], [1, 2], [1, 1], False, [0, 0], 2)
    with torch.profiler.profile(record_shapes=True) as profile:
        aten.convolution(*args)
        aten.sum(source, [0, 2], True)
    columns = ("input_dims", "input_types", "input_strides", "concrete_inputs")
    events = profframe.load(profile).events
    for packet, given_ in ((aten.convolution, args), (aten.sum, (source, [0, 2], True))):
        name = str(packet).replace(".", "::")
        (row,) = events.filter(pl.col("name") == name).select(columns).rows(named=True)
        if packet is aten.convolution:
            assert row == recorded(packet, *given_)
        assert row["input_dims"].startswith("[[2,4,5,6],")


@SOME
@given(SIDES, SIDES, SIDES, st.sampled_from([torch.bfloat16, torch.float32]))
def test_scaled_mm(m: int, k: int, n: int, out: Any) -> None:
    m, k, n = 16 * m, 16 * k, 16 * n
    fp8 = torch.float8_e4m3fn
    scale = meta(dtype=torch.float32)
    agree(
        aten._scaled_mm,
        meta(m, k, dtype=fp8),
        meta(n, k, dtype=fp8).t(),
        scale,
        scale,
        out_dtype=out,
    )


LENGTHS_FIRST: Final = (2, 15)
"""Until then torch took the lengths of these two for their heads."""


@SOME
@given(SIDES, SIDES, SIDES, SIDES, SIDES, st.integers(1, 3), st.booleans())
def test_attention_of_devices(  # noqa: PLR0917
    b: int, kv: int, n: int, s: int, d: int, repeat: int, causal: bool
) -> None:
    h, d = kv * repeat, 8 * d
    query, key = meta(b, h, n, d), meta(b, kv, s, d)
    sums, seed = meta(b, h, n, dtype=torch.float32), meta(dtype=torch.int64)
    forward = (query, key, key)
    agree(aten._scaled_dot_product_flash_attention, *forward, 0.0, causal)
    agree(aten._scaled_dot_product_efficient_attention, *forward, None, True, 0.0, causal)
    agree(aten._scaled_dot_product_cudnn_attention, *forward, None, True, 0.0, causal)
    if installed() >= LENGTHS_FIRST:
        flash = (meta(b, n, h, d), meta(b, s, kv, d), meta(b, s, kv, d))
        agree(aten._flash_attention_forward, *flash, None, None, n, s, 0.0, causal, False)
        agree(
            aten._flash_attention_backward,
            flash[0],
            *flash,
            flash[0],
            sums,
            None,
            None,
            n,
            s,
            0.0,
            causal,
            seed,
            seed,
        )
    agree(aten._efficient_attention_forward, *forward, None, None, None, None, None, 0.0, 0)
    back = (query, *forward)
    agree(
        aten._scaled_dot_product_flash_attention_backward,
        *back, query, sums, None, None, n, s, 0.0, causal, seed, seed,
    )  # fmt: skip
    agree(
        aten._scaled_dot_product_efficient_attention_backward,
        *back, None, query, sums, seed, seed, 0.0, [True] * 4, causal,
    )  # fmt: skip
    agree(
        aten._scaled_dot_product_cudnn_attention_backward,
        *back, query, sums, seed, seed, None, None, None, n, s, 0.0, causal,
    )  # fmt: skip
    agree(
        aten._efficient_attention_backward,
        *back, None, query, None, None, n, s, sums, 0.0, seed, seed, 0, False,
    )  # fmt: skip


@SOME
@given(SIDES, SIDES, SIDES, SIDES, SIDES, SIDES)
def test_attention_of_sequences_behind_each_other(  # noqa: PLR0917
    count: int, tokens: int, n: int, s: int, heads: int, d: int
) -> None:
    d = 8 * d
    packed = meta(tokens, heads, d)
    ends = meta(count + 1, dtype=torch.int32)
    sums, seed = meta(heads, tokens, dtype=torch.float32), meta(dtype=torch.int64)
    agree(aten._flash_attention_forward, *[packed] * 3, ends, ends, n, s, 0.0, False, False)
    agree(
        aten._flash_attention_backward,
        *[packed] * 5, sums, ends, ends, n, s, 0.0, False, seed, seed,
    )  # fmt: skip
    packed = packed[None]
    agree(aten._efficient_attention_forward, *[packed] * 3, None, ends, ends, n, s, 0.0, 0)
    agree(
        aten._efficient_attention_backward,
        *[packed] * 4, None, packed, ends, ends, n, s, sums, 0.0, seed, seed, 0, False,
    )  # fmt: skip


@SOME
@given(SIDES, SIDES, SIDES, st.integers(1, 3), st.integers(1, 2), st.integers(0, 2))
def test_convolutions_of_devices(  # noqa: PLR0917
    batch: int, channels: int, out: int, window: int, stride: int, padding: int
) -> None:
    source, weight = meta(batch, channels, 7, 8), meta(out, channels, window, window)
    pairs = [stride] * 2, [padding] * 2, [1, 1]
    sizes = [(size + 2 * padding - window) // stride + 1 for size in (7, 8)]
    result = meta(batch, out, *sizes)
    agree(aten._convolution, source, weight, None, *pairs, False, [0, 0], 1, *[False] * 4)
    agree(aten.convolution, source, weight, None, *pairs, False, [0, 0], 1)
    expected = 2 * batch * math.prod(sizes) * weight.numel()
    calls = {
        aten.convolution_overrideable: (source, weight, None, *pairs, False, [0, 0], 1),
        aten.cudnn_convolution: (source, weight, pairs[1], pairs[0], pairs[2], 1, *[False] * 3),
    }
    for packet, args in calls.items():
        name = str(packet).replace(".", "::")
        torchs = flop_registry[packet](*args, out_val=result)
        assert measured(name, recorded(packet, *args))[0] == torchs == expected
    slow = aten._slow_conv2d_forward  # torch's own count of it ends in a TypeError
    args = (source, weight, [window] * 2, None, *pairs[:2])
    assert measured("aten::_slow_conv2d_forward", recorded(slow, *args))[0] == expected


@SOME
@given(SIDES, SIDES, SIDES, SIDES, SIDES)
def test_flexible_attention(b: int, h: int, n: int, s: int, d: int) -> None:
    query, key = meta(b, h, n, d), meta(b, h, s, d)
    registry = {str(op): count for op, count in flop_registry.items()}
    forward = (query, key, key)
    of = {"flex_attention": forward, "flex_attention_backward": (*forward, query, query, query)}
    for name, args in of.items():
        dims = str([list(arg.shape) for arg in args]).replace(" ", "")
        assert measured(name, {"input_dims": dims})[0] == registry[name](*args)


def test_every_op_that_torch_counts_has_a_formula() -> None:
    names = {str(op).replace("aten.", "aten::") for op in flop_registry}
    assert names <= COUNTED


EXAMPLE: Final = (
    ("cpu_op", "aten::convolution", 10, 90, 1340, [[1, 3, 224, 224], [64, 3, 7, 7]], CONVOLUTION),
    ("cpu_op", "aten::_convolution", 20, 80, 1341, [[1, 3, 224, 224], [64, 3, 7, 7]], CONVOLUTION),
    ("cpu_op", "aten::addmm", 200, 300, 1619, [[1000], [1, 2048], [2048, 1000]], ADDITION),
    ("kernel", "void cutlass_addmm", 200, 300, 1619, None, None),
    ("kernel", "void convolution_kernel", 200, 280, 1342, None, None),
    ("cpu_op", "aten::convolution", 20, 80, 1342, [[1, 3, 224, 224], [64, 3, 7, 7]], CONVOLUTION),
)
"""The work of upstream's ``test_augment_trace_helper_unit``."""


def example() -> dict[str, Any]:
    """It as a trace."""
    events = []
    for category, name, start, end, number, dims, values in EXAMPLE:
        args: dict[str, Any] = {"External id": number}
        if dims is not None and values is not None:
            missing: list[list[int]] = [[]] * (len(values) - len(dims))
            types = ["float" if shape else "Scalar" for shape in dims + missing]
            args |= {"Input Dims": dims + missing, "Input type": types, "Concrete Inputs": values}
        times = {"ts": start, "dur": end - start, "pid": 1, "tid": 1}
        events.append({"ph": "X", "cat": category, "name": name, **times, "args": args})
    device = {"id": 0, "name": "NVIDIA H100"}
    return {"schemaVersion": 1, "deviceProperties": [device], "traceEvents": events}


def kernel_flops(path: Path, compat: str | None) -> list[int]:
    """FLOPs of the product and its kernel, of the convolution's kernel and of the convolution."""
    events = profframe.load(path, compat=compat).events
    return events["flops"].to_list()[2:]


def test_what_upstream_expects_of_its_example(tmp_path: Path) -> None:
    """It leaves out the padding of 3; with it a side is 112 long, not 109."""
    # Not while tests are collected: to import the compiler takes two seconds in each worker.
    from torch._inductor.analysis.profile_analysis import _augment_trace_helper

    path = tmp_path / "example.json"
    path.write_text(json.dumps(example()))
    assert kernel_flops(path, "torch") == [4096000, 4096000, 223552896, 223552896]
    assert kernel_flops(path, None) == [4096000, 4096000, 236027904, 236027904]
    augmented = _augment_trace_helper(example())["traceEvents"]
    torchs = [event["args"].get("kernel_flop") for event in augmented]
    assert torchs[2:] == [4096000, 4096000, 223552896, 223552896]
