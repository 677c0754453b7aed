"""Kernels of compiled graphs and what they come from: a real sample, forms of files, bad files."""

from __future__ import annotations

import json
import re
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import profframe
from profframe.errors import (
    NotATraceError,
    NoTraceFoundError,
    ParameterError,
    ProfframeError,
    SourceError,
)
from profframe.facts.fact import Tables
from profframe.facts.pipeline import add_facts
from profframe.readers.provenance.reading import read
from profframe.trace.trace import Trace
from tests import hostile
from tests.builders import Row, event, tables
from tests.places import ROOT

SAMPLE = ROOT / "examples" / "compiled"
TRACE, LOG = SAMPLE / "trace.json.gz", SAMPLE / "dedicated_log_torch_trace.log"
CALL = "## Call CompiledFxGraph {} ##"
STACK = '  File "/m/model.py", line {}, in forward\n    x = f(a)\n        ^^^^\n'


def payloads() -> list[tuple[str, str, str]]:
    """Compilation, name and text of each record of the sample's log."""
    records = []
    for header, payload in re.findall(
        r"(?m)^V\d{4} [^{]*(\{.*\})\n((?:\t.*\n?)+)", LOG.read_text()
    ):
        envelope = json.loads(header)
        name = envelope["artifact"]["name"] if "artifact" in envelope else "inductor_output_code"
        compilation = f"-_{envelope['frame_id']}_{envelope['frame_compile_id']}"
        text = re.sub(r"(?m)^\t", "", payload)
        records.append((f"{compilation}_{envelope['attempt']}", name, text))
    return records


def as_tlparse(folder: Path) -> Path:
    """The files that tlparse writes of the log: numbered, with sorted keys, code as HTML."""
    for number, (compilation, name, text) in enumerate(payloads()):
        own = folder / compilation
        own.mkdir(exist_ok=True, parents=True)
        if name == "inductor_output_code":
            lines = (f'<span style="color:#969896;">{line}\n</span>' for line in text.splitlines())
            (own / f"{name}_cabc_{number}.html").write_text("".join(lines))
        else:
            value = json.dumps(json.loads(text), sort_keys=True, indent=2)
            (own / f"{name}_{number}.json").write_text(value)
    return folder


def as_debug_folder(folder: Path) -> Path:
    """The files that TORCH_COMPILE_DEBUG=1 writes: mappings of forward graphs, code of all."""
    number = -1
    for _, name, text in payloads():
        number += name == "inductor_output_code"
        own = folder / f"model__{number}_graph_{number}.0"
        own.mkdir(exist_ok=True, parents=True)
        if name == "inductor_output_code":
            (own / "output_code.py").write_text(text)
        elif "mappings" in name and "cppCodeToPost" in text:
            (own / f"{name}.json").write_text(text)
    return folder


def issues(trace: Trace) -> dict[str, int]:
    return dict(trace.quality.select("issue", "events").rows())


def linked(trace: Trace) -> pl.DataFrame:
    return trace.sql("""
        SELECT
            event.name AS slice, kernel.name, kernel.handle, compiled_by, compiled_kernel_id,
            count(*) AS calls
        FROM events AS event JOIN compiled_kernels AS kernel USING (run, rank, compiled_kernel_id)
        GROUP BY ALL ORDER BY kernel.handle, kernel.name, slice, compiled_kernel_id""")


class TestSample:
    def test_every_call_has_its_kernel_by_key(self) -> None:
        trace = profframe.load(TRACE, provenance=LOG)
        assert issues(trace) == {}
        rows = linked(trace)
        assert rows["compiled_by"].unique().to_list() == ["key"]
        assert rows["calls"].to_list() == [3] * 11
        assert trace.sql("SELECT count(*) FROM compiled_kernels").item() == 11

    def test_lines_of_a_graph_are_not_those_of_one_with_the_same_kernels(self) -> None:
        """torch's stacks of the first backward graph have those of the second one, too."""
        trace = profframe.load(TRACE, provenance=LOG)
        own = trace.sql("""
            SELECT graph, handle FROM compiled_kernels
            WHERE name = 'extern_kernels.mm' ORDER BY graph, handle""")
        stale = json.loads(
            [text for _, name, text in payloads() if name.endswith("stack_traces")][-1]
        )
        others = {int(key.rpartition(":")[2]) for key in stale if key.startswith("extern_kernels")}
        first = own.filter(pl.col("graph") == "0/0_1 backward")["handle"].to_list()
        second = own.filter(pl.col("graph") == "1/0 backward")["handle"].to_list()
        assert others == {*first, *second}
        assert set(first).isdisjoint(second)

    @pytest.mark.parametrize("form", [as_tlparse, as_debug_folder], ids=["tlparse", "debug"])
    def test_other_forms_say_the_same(self, form: Any, tmp_path: Path) -> None:
        got = linked(profframe.load(TRACE, provenance=form(tmp_path / "files")))
        wanted = linked(profframe.load(TRACE, provenance=LOG))
        both = ("slice", "name", "handle", "calls")
        assert got.select(both).sort(both).equals(wanted.select(both).sort(both))
        ways = {"files": "key"} if form is as_tlparse else {"files": "kernels"}
        assert got["compiled_by"].unique().to_list() == [*ways.values()]

    def test_time_by_node_adds_up(self) -> None:
        trace = profframe.load(TRACE, provenance=LOG)
        total = trace.sql(
            "SELECT sum(dur_ns)::BIGINT FROM events WHERE compiled_kernel_id IS NOT NULL"
        ).item()
        for per in ("post_grad", "pre_grad", "line"):
            rows = trace.fx_nodes(per=per)
            assert rows["split_ns"].sum() == total
            assert rows["share"].sum() == pytest.approx(1)
        lines = trace.fx_nodes(per="line")["name"].to_list()
        assert all(line.startswith("examples/capture_compiled.py(") for line in lines)
        assert trace.fx_nodes(per="pre_grad").filter(name="gate")["graph"].sort().to_list() == [
            "0/0_1 forward",
            "1/0 forward",
        ]

    def test_ops_get_lines_and_it_says_so(self) -> None:
        lines = profframe.load(TRACE, provenance=LOG).python_lines()
        assert lines["lines_from"].unique().to_list() == ["provenance"]
        assert "examples/capture_compiled.py" in lines["name"][0]
        assert profframe.load(TRACE).python_lines().is_empty()

    def test_a_store_keeps_it(self, tmp_path: Path) -> None:
        trace = profframe.load(TRACE, provenance=LOG)
        trace.to_parquet(tmp_path / "store")
        again = profframe.load(tmp_path / "store")
        for name in ("compiled_kernels", "events"):
            assert again.tables[name].equals(trace.tables[name])
        assert again.fx_nodes().equals(trace.fx_nodes())
        with pytest.raises(ParameterError, match="provenance is joined when a trace is loaded"):
            profframe.load(tmp_path / "store", provenance=LOG)

    def test_a_batch_and_a_cache_keep_it(self, tmp_path: Path) -> None:
        profframe.convert(TRACE, tmp_path / "store", provenance=LOG)
        rows = profframe.load(tmp_path / "store").fx_nodes(columns="graph,name,split_ns")
        for _ in range(2):
            cached = profframe.load(TRACE, cache=tmp_path / "cache", provenance=LOG)
            assert cached.fx_nodes(columns="graph,name,split_ns").equals(rows)
        assert profframe.load(TRACE, cache=tmp_path / "cache").fx_nodes().is_empty()

    def test_the_report_has_them(self, tmp_path: Path) -> None:
        path = tmp_path / "report.html"
        profframe.load(TRACE, provenance=LOG).report(path)
        assert "Compiled kernels by line of code" in path.read_text()
        profframe.load(TRACE).report(path)
        assert "Compiled kernels" not in path.read_text()

    def test_a_folder_of_both(self) -> None:
        trace = profframe.load(SAMPLE, provenance=SAMPLE)
        assert issues(trace) == {}
        assert trace.fx_nodes().height > 0

    def test_without_it_nothing_changes(self) -> None:
        trace = profframe.load(TRACE)
        assert trace.events["compiled_kernel_id"].null_count() == trace.events.height
        assert trace.fx_nodes().is_empty()
        assert issues(trace) == {}


def written(folder: Path, files: Mapping[str, object]) -> Path:
    folder.mkdir(exist_ok=True, parents=True)
    for name, value in files.items():
        text = value if isinstance(value, str) else json.dumps(value)
        (folder / name).write_text(text)
    return folder


def mappings(
    kernels: Mapping[str, list[str]], before: Mapping[str, list[str]] | None = None
) -> Any:
    return {"cppCodeToPost": kernels, "postToPre": before or {}, "version": 2.0}


MAPPINGS = "inductor_provenance_tracking_node_mappings_2.json"
STACKS = "inductor_provenance_tracking_kernel_stack_traces_3.json"
KEY = "fx_graph_cache_miss_4.json"


def graph_files(folder: Path, key: str | None, kernels: Mapping[str, int]) -> Path:
    """Files of a graph: kernels, each with a node and the number of its line."""
    nodes = {name: [f"n{line}"] for name, line in kernels.items()}
    stacks = {name: [STACK.format(line)] for name, line in kernels.items()}
    cache = {} if key is None else {KEY: {"key": key}}
    return written(folder, {MAPPINGS: mappings(nodes), STACKS: stacks} | cache)


def joined(folder: Path, *rows: Row) -> Tables:
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return add_facts(tables(*rows), provenance=read(paths).graphs)


def kernels_of(got: Tables) -> list[tuple[str, str, int | None] | None]:
    kernels = got["compiled_kernels"].to_pylist()
    return [
        None if n is None else (kernels[n]["graph"], kernels[n]["name"], kernels[n]["handle"])
        for n in got["events"]["compiled_kernel_id"].to_pylist()
    ]


def notes(got: Tables) -> dict[str, int]:
    return {row["issue"]: row["events"] for row in got["quality"].to_pylist()}


def call(key: str, start: int, end: int) -> Row:
    return event(CALL.format(key), start, end, category="user_annotation")


def launch(start: int, number: int) -> Row:
    return event("cuLaunchKernel", start, start + 1, category="cuda_driver", correlation=number)


def work(name: str, start: int, number: int) -> Row:
    place = {"category": "kernel", "thread": 9, "pid": "0", "device": 0, "stream": 7}
    return event(name, start, start + 10, correlation=number) | place


class TestLinks:
    def test_triton_kernels_and_extern_ones_on_a_device(self, tmp_path: Path) -> None:
        graph_files(tmp_path / "g", "fa", {"triton_poi_fused_add_0:1": 7, "extern_kernels.mm:2": 8})
        got = joined(
            tmp_path,
            call("fa", 0, 100),
            event("triton_poi_fused_add_0", 10, 20),
            launch(12, 1),
            event("aten::mm", 30, 60),
            event("aten::empty", 31, 32),
            launch(40, 2),
            launch(45, 3),
            work("triton_poi_fused_add_0", 200, 1),
            work("sgemm_128x64", 220, 2),
            work("splitKreduce", 240, 3),
        )
        add, mm = ("g", "triton_poi_fused_add_0", 1), ("g", "extern_kernels.mm", 2)
        assert kernels_of(got) == [None, add, None, mm, None, None, None, add, mm, mm]
        assert got["events"]["stack"].to_pylist()[1] == "/m/model.py(7): forward"
        assert got["events"]["stack_from"].to_pylist() == [
            "provenance" if n in {1, 3} else None for n in range(10)
        ]

    def test_a_replayed_graph_has_kernels_by_name(self, tmp_path: Path) -> None:
        graph_files(tmp_path / "g", "fa", {"triton_a:1": 1, "triton_b:2": 2, "triton_a:3": 3})
        got = joined(
            tmp_path,
            call("fa", 0, 100),
            event("cudaGraphLaunch", 10, 20, category="cuda_runtime", correlation=1),
            *(work(n, 200 + 20 * i, 1) for i, n in enumerate(["triton_a", "triton_b", "triton_a"])),
        )
        assert [k[2] for k in kernels_of(got)[2:] if k is not None] == [1, 2, 3]

    def test_one_name_in_two_graphs_goes_by_the_key(self, tmp_path: Path) -> None:
        for key, line in (("fa", 7), ("fb", 9)):
            graph_files(tmp_path / key, key, {"triton_poi_fused_add_0:1": line})
        rows = [
            call("fb", 0, 10), event("triton_poi_fused_add_0", 2, 5),
            call("fa", 20, 30), event("triton_poi_fused_add_0", 22, 25),
            call("fc", 40, 50), event("triton_poi_fused_add_0", 42, 45),
        ]  # fmt: skip
        got = joined(tmp_path, *rows)
        assert [k and k[0] for k in kernels_of(got)] == [None, "fb", None, "fa", None, None]
        assert notes(got) == {"unknown_compiled_graph": 1}

    def test_without_keys_two_graphs_alike_are_ambiguous(self, tmp_path: Path) -> None:
        for folder, line in (("a", 7), ("b", 9)):
            graph_files(tmp_path / folder, None, {"triton_poi_fused_add_0:1": line})
        got = joined(tmp_path, call("fa", 0, 10), event("triton_poi_fused_add_0", 2, 5))
        assert kernels_of(got) == [None, None]
        assert notes(got) == {"ambiguous_compiled_kernel": 1}

    def test_one_graph_without_a_key_belongs_to_one_key(self, tmp_path: Path) -> None:
        graph_files(tmp_path / "a", None, {"triton_add_0:1": 7})
        one = [call("fa", 0, 10), event("triton_add_0", 2, 5)]
        two = [call("fb", 20, 30), event("triton_add_0", 22, 25)]
        assert kernels_of(joined(tmp_path, *one))[1] == ("a", "triton_add_0", 1)
        got = joined(tmp_path, *one, *two)
        assert kernels_of(got) == [None] * 4
        assert notes(got) == {"ambiguous_compiled_kernel": 2}

    def test_other_numbers_of_calls_than_in_the_code_are_ambiguous(self, tmp_path: Path) -> None:
        graph_files(tmp_path / "a", "fa", {"extern_kernels.mm:1": 7, "extern_kernels.mm:2": 8})
        rows = [call("fa", 0, 90), *(event("aten::mm", n, n + 5) for n in (10, 20, 30))]
        got = joined(tmp_path, *rows)
        assert kernels_of(got) == [None] * 4
        assert notes(got) == {"ambiguous_compiled_kernel": 3}
        two = joined(tmp_path, *rows[:3])
        assert [k and k[2] for k in kernels_of(two)] == [None, 1, 2]

    def test_a_marker_names_the_call(self, tmp_path: Path) -> None:
        name = "torch.ops.aten.mul.Tensor"
        graph_files(tmp_path / "a", "fa", {f"{name}:1": 7, f"{name}:2": 8})
        got = joined(
            tmp_path,
            call("fa", 0, 90),
            event(f"## inductor_kernel:{name}:2 ##", 10, 20),
            event("aten::mul", 11, 19),
        )
        assert kernels_of(got) == [None, ("a", name, 2), None]
        assert notes(got) == {}

    def test_outside_of_graphs_only_generated_kernels_count(self, tmp_path: Path) -> None:
        graph_files(tmp_path / "a", None, {"triton_add_0:1": 7, "extern_kernels.mm:2": 8})
        got = joined(tmp_path, event("triton_add_0", 0, 5), event("aten::mm", 10, 20))
        assert kernels_of(got) == [("a", "triton_add_0", 1), None]
        assert got["events"]["compiled_by"].to_pylist() == ["name", None]

    def test_work_without_a_launch_is_of_no_graph_if_graphs_are_called(
        self, tmp_path: Path
    ) -> None:
        graph_files(tmp_path / "a", None, {"triton_add_0:1": 7})
        lost = work("triton_add_0", 50, 9)
        assert kernels_of(joined(tmp_path, lost)) == [("a", "triton_add_0", 1)]
        got = joined(tmp_path, lost, call("fz", 0, 10))
        assert kernels_of(got) == [None, None]
        assert notes(got) == {
            "kernel_without_launch": 1,
            "ambiguous_compiled_kernel": 1,
            "unknown_compiled_graph": 1,
        }

    def test_old_releases_have_one_kernel_for_all_calls_of_a_name(self, tmp_path: Path) -> None:
        kernels = {"extern_kernels.mm": ["mm", "mm_1"], "triton_add_0": ["add"]}
        written(tmp_path / "a", {MAPPINGS: mappings(kernels), KEY: {"key": "fa"}})
        rows = [call("fa", 0, 90), event("aten::mm", 1, 2), event("aten::mm", 3, 4)]
        got = joined(tmp_path, *rows)
        assert [k and k[2] for k in kernels_of(got)] == [None, None, None]
        assert kernels_of(got)[1:] == [("a", "extern_kernels.mm", None)] * 2

    def test_a_stack_of_the_trace_stays(self, tmp_path: Path) -> None:
        graph_files(tmp_path / "a", "fa", {"extern_kernels.mm:1": 7})
        got = joined(tmp_path, call("fa", 0, 90), event("aten::mm", 1, 2, stack="own.py(3): f"))
        assert got["events"]["stack"].to_pylist()[1] == "own.py(3): f"
        assert got["events"]["stack_from"].null_count == 2


class TestForms:
    def test_the_four_mappings_say_the_same_in_both_directions(self, tmp_path: Path) -> None:
        there = {"cppCodeToPost": {"k:1": ["a", "b"]}, "postToPre": {"a": ["x"], "b": ["x", "y"]}}
        back = {
            "postToCppCode": {"a": ["k:1"], "b": ["k:1"]},
            "preToPost": {"x": ["a", "b"], "y": ["b"]},
        }
        for name, value in (("there", there), ("back", back)):
            (kernel,) = (
                read([written(tmp_path / name, {MAPPINGS: value}) / MAPPINGS]).graphs[0].kernels
            )
            assert (kernel.post_grad, kernel.pre_grad) == (("a", "b"), ("x", "y"))

    def test_kernel_information_alone_and_in_a_package(self, tmp_path: Path) -> None:
        value = {
            "triton_a:1": {
                "stack_traces": [STACK.format(4)],
                "post_grad_nodes": ["mul"],
                "pre_grad_nodes": ["z"],
                "extern_io": {"any": "thing"},
            }
        }
        alone = written(tmp_path / "m", {"kernel_information.json": value})
        with zipfile.ZipFile(tmp_path / "model.pt2", "w") as package:
            package.writestr("model/data/aotinductor/m/kernel_information.json", json.dumps(value))
        for path in (alone / "kernel_information.json", tmp_path / "model.pt2"):
            (graph,) = read([path]).graphs
            (kernel,) = graph.kernels
            assert (graph.name, kernel.handle, kernel.pre_grad) == ("m", 1, ("z",))
            assert kernel.stacks == ("/m/model.py(4): forward",)

    def test_files_without_numbers_are_not_mixed(self, tmp_path: Path) -> None:
        """Of two of a kind in one folder, nothing says which belong together."""
        for name in ("a", "b"):
            written(tmp_path, {f"{name}.json": mappings({f"triton_{name}:1": [name]})})
        written(tmp_path, {"c.json": {"triton_a:1": [STACK.format(1)]}})
        graphs = read(sorted(tmp_path.iterdir())).graphs
        assert sorted(graph.kernels[0].name for graph in graphs) == ["triton_a"] * 2 + ["triton_b"]

    def test_graphs_of_other_ranks_are_left_out(self, tmp_path: Path) -> None:
        for rank in range(2):
            graph_files(tmp_path / f"rank_{rank}" / "g", "fa", {f"triton_{rank}:1": rank})
        trace = profframe.load(TRACE, rank=1, provenance=tmp_path)
        assert trace.sql("SELECT name FROM compiled_kernels").to_series().to_list() == ["triton_1"]

    def test_compressed_files_are_read(self, tmp_path: Path) -> None:
        import gzip

        path = tmp_path / "dedicated_log_torch_trace.log.gz"
        path.write_bytes(gzip.compress(LOG.read_bytes()))
        assert profframe.load(TRACE, provenance=tmp_path).fx_nodes().height > 0


class TestBadFiles:
    @pytest.mark.parametrize(
        ("name", "text", "message"),
        [
            ("a.json", "{", "not JSON: Expecting property name .* at line 1, column 2"),
            (MAPPINGS, "[]", "expected a JSON object, not list"),
            ("a.json", "{}", "neither mappings of nodes nor stack traces"),
            ("a.json", "[" * 200_000, "not JSON that can be read"),
            (STACKS, '{"k": ["' + "x" * 50, "Unterminated string .* at line 1, column 8"),
            ("a.json", '{"a": 1' + "0" * 5000 + "}", "not JSON that can be read"),
            ("model.pt2", "no zip", "cannot be read: File is not a zip file"),
        ],
    )
    def test_a_named_file_is_an_error_with_its_place(
        self, name: str, text: str, message: str, tmp_path: Path
    ) -> None:
        written(tmp_path, {name: text})
        with pytest.raises(SourceError, match=message) as caught:
            profframe.load(TRACE, provenance=tmp_path / name)
        assert str(caught.value).startswith(str(tmp_path / name))
        assert "\n" not in str(caught.value)

    def test_in_a_folder_it_is_a_row_of_quality(self, tmp_path: Path) -> None:
        written(tmp_path, {MAPPINGS: "{", STACKS: {"triton_a:1": [STACK.format(1)]}})
        trace = profframe.load(TRACE, provenance=tmp_path)
        assert issues(trace) == {"skipped_file": 0, "unknown_compiled_graph": 12}
        assert MAPPINGS in trace.quality.filter(issue="skipped_file")["detail"][0]

    def test_nothing_to_read(self, tmp_path: Path) -> None:
        with pytest.raises(NoTraceFoundError, match="no file below it is provenance of Inductor"):
            profframe.load(TRACE, provenance=tmp_path)
        with pytest.raises(NoTraceFoundError, match="no such file or directory"):
            profframe.load(TRACE, provenance=tmp_path / "a.json")
        with pytest.raises(NoTraceFoundError, match="no files are given"):
            profframe.load(TRACE, provenance=[])
        with pytest.raises(ParameterError, match="a source is a path"):
            profframe.load(TRACE, provenance=3)  # type: ignore[arg-type]

    def test_a_trace_is_no_provenance(self) -> None:
        with pytest.raises(NotATraceError, match="not provenance of Inductor"):
            profframe.load(TRACE, provenance=TRACE)

    def test_odd_values_are_counted_and_the_rest_is_read(self, tmp_path: Path) -> None:
        value = {
            "cppCodeToPost": {"triton_a:1": ["a", 7, None], "triton_b:2": "x", "triton_c:3": ["c"]},
            "postToPre": 4,
        }
        written(tmp_path, {MAPPINGS: value})
        trace = profframe.load(TRACE, provenance=tmp_path)
        row = trace.quality.filter(issue="odd_provenance").row(0, named=True)
        assert row["events"] == 3
        assert row["detail"].endswith(f"{MAPPINGS}: postToPre")
        nodes = trace.sql(
            "SELECT post_grad_nodes FROM compiled_kernels ORDER BY handle"
        ).to_series()
        assert nodes.to_list() == ['["a"]', '["c"]']

    def test_a_cut_log_keeps_what_is_whole(self, tmp_path: Path) -> None:
        text = LOG.read_bytes()
        place = text.rindex(b"kernel_stack_traces")
        (tmp_path / LOG.name).write_bytes(text[: place + 400])
        trace = profframe.load(TRACE, provenance=tmp_path / LOG.name)
        assert issues(trace)["odd_provenance"] == 1
        assert re.search(
            r"line \d+: not JSON", trace.quality.filter(issue="odd_provenance")["detail"][0]
        )
        assert trace.fx_nodes().height > 0

    @pytest.mark.long
    def test_a_key_of_100_mb(self, tmp_path: Path) -> None:
        kernels = {"k" * 100_000_000: ["a"], "triton_a:1": ["a" * 100_000_000, "b"]}
        written(tmp_path, {MAPPINGS: mappings(kernels)})
        trace = profframe.load(TRACE, provenance=tmp_path)
        assert issues(trace)["odd_provenance"] == 2
        assert trace.sql("SELECT post_grad_nodes FROM compiled_kernels").item() == '["b"]'

    def test_hostile_names_are_only_names(self, tmp_path: Path) -> None:
        names = [*hostile.NAMES, "a;b", "\ud800", "\0", "x" * 70_000, "triton_a:9" * 9]
        kernels = {f"triton_{n}:{n}": [name, *names] for n, name in enumerate(names)}
        kernels |= {name: ["n"] for name in names}
        stacks = {
            key: [f'  File "{name}", line {10**30}, in {name}\n  x\n', name]
            for key, name in zip(kernels, names, strict=False)
        }
        written(tmp_path, {MAPPINGS: mappings(kernels), STACKS: stacks, KEY: {"key": names[0]}})
        trace = profframe.load(TRACE, provenance=tmp_path)
        assert trace.sql("SELECT count(*) FROM compiled_kernels").item() >= len(names)
        trace.to_parquet(tmp_path / "store")
        assert profframe.load(tmp_path / "store").tables["compiled_kernels"].num_rows > 0


_ODD: st.SearchStrategy[Any] = st.sampled_from(
    [None, True, 0, -1, 2**70, 1.5, "", "x", "k:1", "\ud800", [], [[]], {}, {"a": 1}, ["a", 3]]
)


@st.composite
def documents(draw: st.DrawFn) -> Any:
    """A document with a value of another type at a place."""
    document: Any = {
        "cppCodeToPost": {"triton_a:1": ["mul", "add"], "extern_kernels.mm:2": ["mm"]},
        "postToCppCode": {"mul": ["triton_a:1"]},
        "postToPre": {"mul": ["x"], "mm": ["y"]},
        "preToPost": {"x": ["mul"]},
        "version": 2.0,
    }
    if draw(st.booleans()):
        one = {"stack_traces": [STACK], "post_grad_nodes": ["a"], "pre_grad_nodes": []}
        document = {"triton_a:1": one, "triton_b:2": dict(one)}
    holder = document
    for _ in range(draw(st.integers(0, 3))):
        inner = [v for v in (holder.values() if isinstance(holder, dict) else holder) if v]
        inner = [v for v in inner if isinstance(v, (dict, list))]
        if not inner:
            break
        holder = draw(st.sampled_from(inner))
    if isinstance(holder, dict):
        holder[draw(st.sampled_from([*holder, "new", ":", "a:99999999999999999999"]))] = draw(_ODD)
    else:
        holder.insert(0, draw(_ODD))
    return document


FILES = [MAPPINGS, STACKS, "kernel_information.json", "own.json", KEY]


@given(document=documents(), name=st.sampled_from(FILES))
def test_wrong_types_are_an_error_or_a_row(document: Any, name: str) -> None:
    _check(name, json.dumps(document).encode())


@given(new=st.binary(max_size=6), place=st.integers(0, 17_000), cut=st.integers(0, 300))
def test_damaged_logs_are_an_error_or_a_row(new: bytes, place: int, cut: int) -> None:
    text = LOG.read_bytes()
    _check(LOG.name, text[:place] + new + text[place + cut :])


@given(place=st.integers(0, 2000), new=st.binary(max_size=3))
def test_cut_files_are_an_error_or_a_row(place: int, new: bytes) -> None:
    value = {f"triton_{n}:{n}": [STACK.format(n)] for n in range(20)}
    _check(STACKS, json.dumps(value).encode()[:place] + new)


def _check(name: str, content: bytes) -> None:
    """A named file is read, or an error of one line; in a folder, it is always read."""
    source = tables(event(CALL.format("fa"), 0, 9), event("triton_a", 1, 2))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, name)
        path.write_bytes(content)
        optional = read([path], frozenset([path]))
        add_facts(source, provenance=optional.graphs)
        if not optional.skipped:
            assert read([path]).graphs == optional.graphs
            return
        with pytest.raises(ProfframeError) as caught:
            read([path])
        assert str(caught.value).startswith(str(path))
        assert "\n" not in str(caught.value)
