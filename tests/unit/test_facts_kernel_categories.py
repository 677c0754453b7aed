"""What kernels are: names as libraries write them, by the category that a person would give."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import profframe
from profframe import schema
from profframe.errors import ParameterError
from profframe.facts import kernel_categories
from profframe.facts.kernel_categories import builtin_document, entries_of
from profframe.intervals import Ints, Mask
from profframe.loaders.options import FactOptions, fact_options
from profframe.readers.build.row_tables import Header, RawTrace
from tests.builders import event, loaded, tables

DATA = json.loads((Path(__file__).parents[1] / "data" / "kernel_names.json").read_text())
NAMES: dict[str, list[str]] = DATA["names"]
"""Names as they are in traces and in the sources of the libraries."""
OPS: list[list[str]] = DATA["ops"]
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


def test_a_kernel_that_was_seen_before_is_not_matched_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = [kernel("ampere_sgemm_32x32_tn"), kernel("no_category_at_all"), kernel(None)]
    first = categories(*rows)
    asked: list[int] = []
    matches = kernel_categories._matches

    def counted(pattern: str, texts: pa.Array, codes: Ints) -> Mask:
        asked.extend(codes.tolist())
        return matches(pattern, texts, codes)

    monkeypatch.setattr(kernel_categories, "_matches", counted)
    assert categories(*rows) == first == ["gemm", "other", "other"]
    assert not asked
    monkeypatch.setattr(kernel_categories, "_MOST", 0)
    assert categories(kernel("a_new_gemm_of_this_test"), *rows) == ["gemm", *first]
    assert set(asked) == {0, -1}  # the new name, without an op or a collective
    assert categories(*rows) == first
    options = FactOptions(kernel_categories=entries_of({"^no_category": "copy"}))
    trace = options.add(RawTrace(tables(*rows), Header("kineto", "utc")))
    assert trace.tables["events"]["kernel_category"].to_pylist() == ["gemm", "copy", "other"]


def test_every_category_has_names() -> None:
    assert list(NAMES) == list(schema.KERNEL_CATEGORIES)


def test_an_op_of_torch_decides_and_what_communicates_does_not_ask_it() -> None:
    rows = []
    for number, (op, name, _) in enumerate(OPS):
        at, ids = 100 * number, {"correlation": number + 1}
        rows += [
            event(op, at, at + 50),
            event("cudaLaunchKernel", at + 1, at + 5, category="cuda_runtime", **ids),
        ]
        rows += [kernel(name, at + 10, **ids)]
    assert categories(*rows)[2::3] == [category for *_, category in OPS]


def test_the_op_may_be_the_first_event() -> None:
    ids = {"correlation": 1}
    rows = [
        event("aten::addmm", 0, 50),
        event("cudaLaunchKernel", 1, 5, category="cuda_runtime", **ids),
        kernel("at::native::elementwise_kernel<128, 4, direct_copy_kernel_cuda>", 10, **ids),
    ]
    assert categories(*rows) == [None, None, "gemm"]


def test_copies_alone_have_their_category() -> None:
    row = event("Memcpy HtoD", 1, 2, category="gpu_memcpy", thread=9)
    assert categories(row) == ["copy"]


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
        "void deep_gemm::sm100_fp8_fp4_mega_moe_impl<8192u, 7168u>(int)",
        "kernel_cutlass_fc1fc2_kernel_impl_MegaMoE_object_at__",
    )
    frame = loaded(*(kernel(name) for name in names)).events
    assert frame["kernel_category"].to_list() == [
        "collective", "gemm", "collective", "grouped_gemm", "grouped_gemm",
    ]  # fmt: skip
    assert frame["computes_and_communicates"].to_list() == [True, True, False, True, True]


def test_names_like_communication_without_a_category_are_counted() -> None:
    quality = loaded(
        kernel("merge"),
        kernel("void mine::token_dispatch<8>(int)"),
        kernel("void mine::token_dispatch<8>(int)"),
        kernel("void mine::walk<Dispatch>(int)"),
        kernel("void at::native::vectorized_elementwise_kernel<4, dispatch>(int)"),
    ).quality
    (row,) = quality.filter(issue="unknown_communication").rows(named=True)
    assert (row["events"], row["example_event_id"]) == (2, 1)
    assert row["detail"].endswith("mine::token_dispatch")


@pytest.mark.parametrize(("count", "more"), [(3, ""), (4, " and 1 more")])
def test_three_names_of_unknown_communication_are_said(count: int, more: str) -> None:
    quality = loaded(*(kernel(f"mine::dispatch{n}") for n in range(count))).quality
    (row,) = quality.filter(issue="unknown_communication").rows(named=True)
    names = ", ".join(f"mine::dispatch{n}" for n in range(3))
    assert row["detail"].endswith(f": {names}{more}")


def test_what_has_a_category_is_no_unknown_communication() -> None:
    quality = loaded(
        kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL(int)"),
        kernel("void mine::token_dispatch(int)"),
        kernel("void deep_ep::intranode::dispatch<8>(int)"),
    ).quality
    (row,) = quality.filter(issue="unknown_communication").rows(named=True)
    assert (row["events"], row["example_event_id"]) == (1, 1)
    assert row["detail"].endswith(": mine::token_dispatch")


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
    assert not trace.quality.filter(issue="unknown_communication").height
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
    assert (
        profframe.load(tmp_path / "store").time_breakdown()["exposed_communication_ns"][0] == 8000
    )
    with pytest.raises(ParameterError, match="kernel_categories are given to kernels when a trace"):
        profframe.load(tmp_path / "store", kernel_categories=mine)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (7, "kernel_categories: needs an object of entries by their names, got 7"),
        ({"a": "gem"}, "kernel_categories: 'a': no category 'gem'; categories are gemm, "),
        ({"(": "gemm"}, r"kernel_categories: '\(': '\(' is not a regular expression: "),
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
    plain, mine = (
        FactOptions(),
        fact_options({"kernel_categories": {"a": "gemm"}}),
    )
    assert len({plain.key(), mine.key()}) == 2
