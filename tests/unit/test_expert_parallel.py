"""A trace of expert-parallel training: its all-to-all is communication in every answer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import profframe
from profframe.show.kernel_names import short_name
from tests.conftest import Run

DISPATCH = "void dpsk::ep::internode::dispatch<false, 8, false, 3072, 8>(int4*, float*, long*)"
NOTIFY = "void dpsk::ep::internode::notify_dispatch<false, 8>(int const*, int*, int)"
CACHED = "void dpsk::ep::internode::cached_notify<false, 2>(int, int)"
COMBINE = "void dpsk::ep::internode::combine<false, 8, __nv_bfloat16, 24>(int4*, float*)"
GEMM = "nvjet_tst_128x256_64x4_2x1_v_bz_coopA_TNT"
WORK = (
    (GEMM, 7, 0, 300),
    (NOTIFY, 20, 200, 50),
    (DISPATCH, 20, 250, 250),
    (GEMM, 7, 600, 100),
    (CACHED, 20, 700, 20),
    (COMBINE, 20, 720, 180),
)
"""Name, stream, start and duration in microseconds; exposed are 300-500 and 700-900."""


def slices() -> list[dict[str, Any]]:
    def piece(category: str, name: str, at: float, length: float, **args: object) -> dict[str, Any]:
        line = args.pop("line", 1)
        where = {"pid": 0, "tid": line} if category == "kernel" else {"pid": 1, "tid": 1}
        return (
            {"ph": "X", "cat": category, "name": name, "ts": at, "dur": length}
            | where
            | {"args": args}
        )

    rows = [piece("user_annotation", "ProfilerStep#1", 0, 1000)]
    for number, (name, stream, at, length) in enumerate(WORK):
        what = "dispatch(F)" if "dispatch" in name else "combine(F)" if name != GEMM else "mm"
        ids = {"correlation": number + 1, "External id": number + 10}
        rows += [
            piece("user_annotation", what, 10 * number + 1, 8),
            piece("cuda_runtime", "cudaLaunchKernelExC", 10 * number + 2, 5, **ids),
            piece("kernel", name, at, length, line=stream, device=0, stream=stream, **ids),
        ]
    return [*rows, piece("cuda_runtime", "cudaDeviceSynchronize", 100, 850)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "rank0.json"
    file.write_text(json.dumps({"traceEvents": slices()}))
    return file


def test_every_answer_counts_it_as_communication(path: Path) -> None:
    trace = profframe.load(path)
    whole = trace.time_breakdown().row(0, named=True)
    assert (whole["compute_ns"], whole["exposed_communication_ns"]) == (400_000, 400_000)
    assert whole["hidden_communication_ns"] == 100_000
    assert trace.kernel_overlap()["communication_ns"].to_list() == [500_000]
    categories = trace.kernel_categories().select("category", "class", "total_ns", "exposed_ns")
    assert categories.rows() == [
        ("expert_parallel", "communication", 500_000, 400_000),
        ("gemm", "compute", 400_000, 400_000),
    ]
    classes = trace.kernels(per="class").select("name", "total_ns").rows()
    assert classes == [("communication", 500_000), ("compute", 400_000)]
    exposed = trace.annotations().select("name", "exposed_communication_ns")
    assert exposed.filter(name="dispatch(F)")["exposed_communication_ns"].sum() == 200_000
    bounds = trace.critical_path().bounds.filter(bound="communication")
    assert bounds["total_ns"].item() == 500_000
    assert trace.step_times()["exposed_communication_ns"].to_list() == [400_000]


def test_advice_names_it_once(path: Path) -> None:
    advice = profframe.load(path).advice()
    rules = advice["rule"].to_list()
    assert rules.count("exposed_expert_parallel") == 2
    assert "exposed_communication" not in rules
    assert "communication_share" not in rules  # all of it is in these two
    first = advice.filter(rule="exposed_expert_parallel")["finding"].to_list()
    assert first[0] == (
        "Expert-parallel dispatch is exposed 200 us of 1.0 ms per step (20 %), "
        "80 % of its own time, in 1 kernel"
    )


def test_a_file_of_categories_on_the_command_line(path: Path, tmp_path: Path, run: Run) -> None:
    mine = tmp_path / "mine.json"
    mine.write_text(json.dumps({"dispatch|combine|notify": "gemm"}))
    question = ["answer", "kernel_categories", str(path), "--format", "csv"]
    for options, rows in (((), 2), (("--kernel-categories", str(mine)), 1)):
        printed = run(*question, *options)[1]
        assert len(printed.splitlines()) == 1 + rows
    store = tmp_path / "store"
    for expected in ("written", "unchanged"):
        files = profframe.convert(path, store, kernel_categories=mine)
        assert files["status"].to_list() == [expected]
    assert profframe.load(store).kernel_categories()["category"].to_list() == ["gemm"]
    assert profframe.convert(path, store)["status"].to_list() == ["written"]
    assert profframe.load(store).kernel_categories().height == 2


def test_what_a_person_reads_has_short_names(path: Path, run: Run) -> None:
    shown = run("show", path)[1]
    assert "dpsk::ep::internode::dispatch" in shown
    assert "void dpsk" not in shown
    assert "expert_parallel 55.6 %, gemm 44.4 %" in shown
    full = run("show", path, "--full-names")[1]
    assert DISPATCH[:60] in full
    table = run("answer", "kernels", path, "-p", "per=launch")[1]
    assert "void dpsk" not in table
    page = path.with_suffix(".html")
    profframe.load(path).report(page, sections=["kernels"])
    assert "Where device time went" in page.read_text()


def test_short_names_are_those_of_sql(path: Path) -> None:
    names = [
        DISPATCH,
        "void at::native::(anonymous namespace)::gemm<float, (bool)1>(int, A<B<2> >)",
        "fill(int) [clone .kd]",
        "(anonymous)",
        "ncclDevKernel_AllReduce(Args<4096ul>)",
        "std::enable_if<!(false), void>::type internal::gemvx::kernel<int, int>(int)",
        "_ZN5aiter24add_rmsnorm_quant_kernelI",
        "_ZN5aiter24add_rmsnorm_quant_kernelIDF16bDF16bLi64EEEvPT0_i",
        "_ZN2at6native12_GLOBAL__N_14copyIfEEvT_",
        "_ZN2at60cut",
        "_ZL4fillPf",
        "_ZN7ck_tile6kentryILi256ELi2ENS_13FmhaFwdKernelE",
        "Cijk_Alik_Bljk_BBS_BH_MT128x256x32_MI16x16x1_SN_LDSB1_AFC1",
        "Custom_Cijk_Alik_Bljk_BBS_BH_MT64x64x32_SE_K1",
        "kernel_cutlass_kernel_gemm_object_at__0x7f",
        "triton_poi_fused_add_0",
        "plain name",
        "mm",
        "a<b",
        "",
        "bool operator->(int) const",
        "void f<decltype(x->y)>(int)",
    ]
    texts = ", ".join("(" + "'" + name.replace("'", "''") + "')" for name in names)
    rows = profframe.load(path).sql(
        f"SELECT name, short_name('kernel', name) AS short FROM (VALUES {texts}) AS t(name)"
    )
    assert {name: short_name(name) for name in names} == dict(rows.rows())
