"""rocprofv3's database and JSON: hand-typed recordings, and what is odd in them."""

from __future__ import annotations

import dataclasses
import gzip
import itertools
import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import polars as pl
import pytest

import profframe
from profframe.errors import NotATraceError, SourceError
from profframe.readers.formats import format_of
from profframe.trace.trace import Trace
from tests.databases import accounted, columns, found
from tests.rocprof_files import (
    MI300X,
    Allocation,
    Call,
    Copy,
    Kernel,
    Process,
    document,
    write_database,
    write_document,
)

GEMM: Final = "Cijk_Ailk_Bljk_HHS_BH_MT128x128x32"
STEP: Final = Process(
    symbols=(GEMM, "void add<float>(float*, int)"),
    counters=("SQ_WAVES", "GRBM_COUNT"),
    calls=(
        Call(api="marker_api", name="roctxThreadRangeA", start=9_000, end=20_000, tid=100,
             correlation=5, message='step "1"'),
        Call(api="marker_api", name="roctxMarkA", start=9_500, end=9_500, tid=101, correlation=6,
             message="mark"),
        Call(api="hip_api", name="hipLaunchKernel", start=10_000, end=10_500, tid=100,
             correlation=7, arguments=(("dim3", 'num"Blocks', "{1,1,1}"),)),
        Call(api="hip_api", name="hipMemcpyAsync", start=11_000, end=11_100, tid=101,
             correlation=8),
        Call(api="hsa_api", name="hsa_init", start=11_010, end=11_020, tid=101, correlation=9,
             ancestor=8),
        Call(api="rccl_api", name="ncclAllReduce", start=12_000, end=12_100, tid=100,
             correlation=10),
    ),
    kernels=(
        Kernel(symbol=1, start=12_000, end=15_000, tid=100, correlation=7, agent=1, dispatch=1,
               stream=3, lds=512, block=(64, 2, 1), grid=(640, 3, 1),
               counters=(("SQ_WAVES", 3.0), ("GRBM_COUNT", 9.5), ("SQ_WAVES", 4.0))),
        Kernel(symbol=2, start=15_000, end=15_700, tid=100, correlation=17, agent=1, dispatch=2,
               stream=3),
    ),
    copies=(
        Copy(name="MEMORY_COPY_DEVICE_TO_HOST", start=16_000, end=17_000, tid=101, correlation=8,
             source=1, target=0, bytes=4096, stream=3),
    ),
    allocations=(
        Allocation(name="MEMORY_ALLOCATION_ALLOCATE", start=9_100, end=9_200, tid=100,
                   correlation=3, agent=1, bytes=1 << 20, address=0x7F00),
        Allocation(name="MEMORY_ALLOCATION_FREE", start=18_100, end=18_200, tid=100,
                   correlation=4, agent=None, bytes=0, address=0x7F00),
        Allocation(name="MEMORY_ALLOCATION_FREE", start=18_300, end=18_350, tid=100,
                   correlation=12, agent=None, bytes=0, address=0x7F00),
        Allocation(name="SCRATCH_MEMORY_ALLOC", start=9_300, end=9_400, tid=100, correlation=11,
                   agent=1, bytes=77),
    ),
)  # fmt: skip
FORMS: Final = pytest.mark.parametrize("form", ["database", "json"])


def written(folder: Path, form: str, *processes: Process) -> Path:
    if form == "database":
        return write_database(folder / "100_results.db", processes)
    return write_document(folder / "100_results.json", processes)


def loaded(folder: Path, form: str, *processes: Process) -> Trace:
    return profframe.load(written(folder, form, *processes))


def rows_in(path: Path) -> int:
    """Rows of all tables, by SQLite alone."""
    with closing(sqlite3.connect(path)) as connection:
        listed = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        names = [name for (name,) in listed if not name.startswith("sqlite_")]
        counts = [connection.execute(f"SELECT count(*) FROM {n}").fetchone()[0] for n in names]
    return sum(counts)


@FORMS
def test_everything_of_one_process(tmp_path: Path, form: str) -> None:
    trace = loaded(tmp_path, form, STEP)
    slices = trace.events.sort("start_ns", "event_id").select(
        "kind", "name", "start_ns", "dur_ns", "tid", "device", "stream", "correlation", "bytes"
    )
    on, line = (1, 3), "STREAM [3]"
    assert slices.rows() == [
        ("annotation", 'step "1"', 9_000, 11_000, "100", None, None, 5, None),
        ("runtime", "MEMORY_ALLOCATION_ALLOCATE", 9_100, 100, "100", None, None, 3, None),
        ("overhead", "SCRATCH_MEMORY_ALLOC", 9_300, 100, "100", None, None, 11, None),
        ("annotation", "mark", 9_500, 0, "101", None, None, 6, None),
        ("runtime", "hipLaunchKernel", 10_000, 500, "100", None, None, 7, None),
        ("runtime", "hipMemcpyAsync", 11_000, 100, "101", None, None, 8, None),
        ("driver", "hsa_init", 11_010, 10, "101", None, None, 9, None),
        *sorted(
            [
                ("runtime", "ncclAllReduce", 12_000, 100, "100", None, None, 10, None),
                ("kernel", GEMM, 12_000, 3_000, line, *on, 7, None),
            ],
            reverse=True,
        ),
        ("kernel", "void add<float>(float*, int)", 15_000, 700, line, *on, 17, None),
        ("memcpy", "MEMORY_COPY_DEVICE_TO_HOST", 16_000, 1_000, line, *on, 8, 4096),
        ("runtime", "MEMORY_ALLOCATION_FREE", 18_100, 100, "100", None, None, 4, None),
        ("runtime", "MEMORY_ALLOCATION_FREE", 18_300, 50, "100", None, None, 12, None),
    ]  # fmt: skip
    assert trace.threads.sort("tid").select("tid", "process_name", "thread_name").rows() == [
        ("100", "/opt/app", "app"), ("101", "/opt/app", "THREAD 1"), (line, "/opt/app", None),
    ]  # fmt: skip
    row = trace.traces.row(0, named=True)
    assert row["format"] == {"database": "rocpd", "json": "rocprofv3"}[form]
    assert (row["clock"], row["device_type"]) == ("relative", "CUDA")
    assert found(trace) == {"kernel_without_launch": 1}


@FORMS
def test_work_belongs_to_its_call_and_kernels_have_their_launch(tmp_path: Path, form: str) -> None:
    trace = loaded(tmp_path, form, STEP)
    launches = trace.sql("""
        SELECT work.kind, call.name FROM events AS work
        LEFT JOIN events AS call ON work.launch_id = call.event_id
        WHERE work.device IS NOT NULL ORDER BY work.start_ns""").rows()
    assert launches == [
        ("kernel", "hipLaunchKernel"), ("kernel", None), ("memcpy", "hipMemcpyAsync"),
    ]  # fmt: skip
    kernel = trace.events.filter(pl.col("name") == GEMM).row(0, named=True)
    shown = ("grid", "block", "registers", "shared_memory_bytes", "kernel_category")
    assert [kernel[name] for name in shown] == ["[10,2,1]", "[64,2,1]", 36, 512, "gemm"]
    args = json.loads(kernel["args"])
    assert args == {
        "tid": 100, "kernel_id": 1, "dispatch_id": 1, "queue": 0, "Scratch_Size": 0,
        "LDS_Block_Size": 512, "VGPR_Count": 32, "Accum_VGPR_Count": 4, "SGPR_Count": 96,
        "workgroup_size": 128, "grid_size": 1920, "stream_ID": 3, "SQ_WAVES": 7, "GRBM_COUNT": 9.5,
    }  # fmt: skip
    call = trace.events.filter(pl.col("name") == "hipLaunchKernel")["args"][0]
    assert json.loads(call)["arguments"] == {'num"Blocks': "{1,1,1}"}
    inner = trace.events.filter(pl.col("name") == "hsa_init")["args"][0]
    assert json.loads(inner) == {"ancestor_id": 8}


@FORMS
def test_counters_belong_to_their_kernel(tmp_path: Path, form: str) -> None:
    trace = loaded(tmp_path, form, STEP)
    kernel = trace.events.filter(pl.col("name") == GEMM)["event_id"][0]
    rows = trace.counters.select("name", "series", "value", "device", "time_ns", "event_id")
    assert rows.rows() == [
        ("SQ_WAVES", "SQ_WAVES", 7.0, 1, 12_000, kernel),
        ("GRBM_COUNT", "GRBM_COUNT", 9.5, 1, 12_000, kernel),
    ]
    counts = accounted(trace)
    assert counts == {"events": 13, "counters": 3, "metadata": counts["metadata"]}
    if form == "database":
        assert sum(counts.values()) == rows_in(tmp_path / "100_results.db")
    by_op = trace.counters_by_op().select("op", "series", "total", "matched_by").rows()
    assert by_op == [
        ('step "1"', "GRBM_COUNT", 9.5, "correlation"), ('step "1"', "SQ_WAVES", 7.0, "correlation")
    ]  # fmt: skip


@FORMS
def test_kernels_with_counters_keep_their_launch(tmp_path: Path, form: str) -> None:
    """They run in another order than they were launched in."""
    calls = tuple(
        Call(api="hip_api", name="hipLaunchKernel", start=at, end=at + 10, tid=100, correlation=n)
        for n, at in ((1, 100), (2, 200))
    )
    kernels = tuple(
        Kernel(symbol=n, start=at, end=at + 50, tid=100, correlation=n, agent=1, dispatch=n,
               stream=n, counters=(("SQ_WAVES", 1.0),))
        for n, at in ((1, 900), (2, 300))
    )  # fmt: skip
    process = Process(symbols=("a", "b"), counters=("SQ_WAVES",), calls=calls, kernels=kernels)
    rows = loaded(tmp_path, form, process).sql("""
        SELECT work.name, call.start_ns FROM events AS work
        JOIN events AS call ON work.launch_id = call.event_id ORDER BY 1""")
    assert rows.rows() == [("a", 100), ("b", 200)]


@FORMS
def test_counters_without_a_trace_of_kernels(tmp_path: Path, form: str) -> None:
    """As ``rocprofv3 --pmc`` alone records: the database has the kernels, JSON only counters."""
    path = written(tmp_path, form, STEP)
    if form == "json":
        whole = json.loads(path.read_text())
        whole["rocprofiler-sdk-tool"][0]["buffer_records"]["kernel_dispatch"] = []
        path.write_text(json.dumps(whole))
    trace = profframe.load(path)
    kernel = trace.events.filter(pl.col("name") == GEMM)
    assert kernel.select("start_ns", "dur_ns", "device", "stream").rows() == [(12_000, 3_000, 1, 3)]
    assert trace.counters["event_id"].to_list() == [kernel["event_id"][0]] * 2


@FORMS
def test_memory_that_is_allocated_and_freed(tmp_path: Path, form: str) -> None:
    """A second free of the same address frees nothing."""
    memory = loaded(tmp_path, form, STEP).memory
    shown = ("time_ns", "address", "bytes", "device_type", "device", "total_allocated_bytes")
    assert memory.select(shown).rows() == [
        (9_100, 0x7F00, 1 << 20, "CUDA", 1, 1 << 20), (18_100, 0x7F00, -(1 << 20), "CUDA", 1, 0),
    ]  # fmt: skip


@FORMS
def test_devices_have_the_peaks_of_their_product(tmp_path: Path, form: str) -> None:
    trace = loaded(tmp_path, form, STEP)
    row = trace.devices.row(0, named=True)
    assert (row["device"], row["name"], row["model"]) == (1, MI300X, MI300X)
    assert (row["memory_bytes"], row["multiprocessors"]) == (206_141_652_992, 304)
    assert row["compute_capability"] == "9.4"
    assert row["bf16_flop_per_s"] == 1.3074e15
    properties = json.loads(trace.traces["device_properties"][0])
    assert properties[0]["gcnArchName"] == "gfx942"


@FORMS
def test_several_processes_have_their_own_calls(tmp_path: Path, form: str) -> None:
    """Both have the correlations of the other; the second is on another machine."""
    second = dataclasses.replace(STEP, machine="other", command=("/opt/app2",), counters=())
    second = dataclasses.replace(second, kernels=(), copies=(), allocations=(), pid=200)
    both = dataclasses.replace(STEP, calls=STEP.calls[:2])
    trace = loaded(tmp_path, form, both, second)
    assert set(trace.events["pid"].unique()) == {"100", "200"}
    assert found(trace)["kernel_without_launch"] == 3
    names = trace.threads.select("pid", "process_name").unique().sort("pid").rows()
    assert names == [("100", "/opt/app"), ("200", "/opt/app2")]


@FORMS
def test_processes_with_the_same_number(tmp_path: Path, form: str) -> None:
    other = dataclasses.replace(STEP, machine="other")
    trace = loaded(tmp_path, form, STEP, other, other)
    assert trace.events["pid"].unique().sort().to_list() == ["1:100", "2:100", "2:100 (2)"]
    launched = trace.sql("""
        SELECT count(*) FROM events AS work JOIN events AS call
        ON work.launch_id = call.event_id AND work.pid = call.pid""").rows()
    assert launched == [(6,)]


@FORMS
def test_work_without_streams_is_on_queues(tmp_path: Path, form: str) -> None:
    """As of a program of HSA alone: copies are on lines of threads, and on no stream."""
    one, two = (
        dataclasses.replace(kernel, stream=0, queue=queue)
        for kernel, queue in zip(STEP.kernels, (1, 3), strict=True)
    )
    copy = dataclasses.replace(STEP.copies[0], stream=0)
    calls = tuple(call for call in STEP.calls if call.api != "hip_api")
    process = dataclasses.replace(STEP, calls=calls, kernels=(one, two), copies=(copy,))
    trace = loaded(tmp_path, form, process)
    work = trace.events.filter(pl.col("device").is_not_null()).sort("start_ns")
    assert work.select("tid", "stream").rows() == [
        ("COMPUTE Agent [1] QUEUE [0] GPU", 0), ("COMPUTE Agent [1] QUEUE [2] GPU", 2),
        ("COPY to AGENT [0] THREAD [1] (CPU)", None),
    ]  # fmt: skip
    with_calls = loaded(tmp_path / "..", form, dataclasses.replace(process, calls=STEP.calls))
    assert with_calls.events["stream"].drop_nulls().unique().to_list() == [0]


def test_another_version_of_the_schema_is_refused(tmp_path: Path) -> None:
    for version in ("3.0.1", "3.9"):
        path = write_database(tmp_path / f"{version}.db", [STEP], version=version)
        assert profframe.load(path).events.height == 13
    path = write_database(tmp_path / "four.db", [STEP], version="4")
    with pytest.raises(SourceError, match=r"four.db: a rocpd database of schema version 4, not 3"):
        profframe.load(path)


def test_tables_without_a_uuid(tmp_path: Path) -> None:
    path = write_database(tmp_path / "a.db", [STEP], guids=[""])
    assert profframe.load(path).events.height == 13


def test_a_table_of_nobody_is_counted(tmp_path: Path) -> None:
    path = write_database(tmp_path / "a.db", [STEP])
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE other AS SELECT 1 AS a UNION SELECT 2")
    trace = profframe.load(path)
    assert accounted(trace)["other"] == 2
    assert found(trace)["rows_not_loaded"] == 2


def test_rows_that_refer_to_nothing(tmp_path: Path) -> None:
    path = write_database(tmp_path / "a.db", [STEP])
    with closing(sqlite3.connect(path)) as connection, connection:
        tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master")]
        for base in ("rocpd_string_", "rocpd_info_agent_", "rocpd_info_kernel_symbol_"):
            (name,) = (name for name in tables if name.startswith(base))
            connection.execute(f"DELETE FROM {name}")
    trace = profframe.load(path)
    assert trace.events.height == 13
    assert trace.events["device"].null_count() == 13
    checks = found(trace)
    assert checks["lost_text"] == 16
    assert checks["unnamed_device"] == 3


def test_sampled_values_belong_to_no_slice(tmp_path: Path) -> None:
    """Another writer of the schema samples a counter of the host on a track."""
    path = write_database(tmp_path / "a.db", [STEP], guids=[""])
    with closing(sqlite3.connect(path)) as connection, connection:
        for statement in (
            "INSERT INTO rocpd_string (id, string) VALUES (900, 'process_sampling')",
            "INSERT INTO rocpd_track (id, nid, pid, tid) VALUES (90, 1, 100, 101)",
            "INSERT INTO rocpd_event (id, category_id) VALUES (900, 900)",
            "INSERT INTO rocpd_sample (track_id, timestamp, event_id) VALUES (90, 14000, 900)",
            "INSERT INTO rocpd_info_pmc (id, nid, pid, name, symbol) VALUES (70, 1, 1, 'rss', '')",
            "INSERT INTO rocpd_pmc_event (event_id, pmc_id, value) VALUES (900, 70, 12.5)",
            "INSERT INTO rocpd_pmc_event (event_id, pmc_id, value) VALUES (901, 70, 1)",
        ):  # fmt: skip
            connection.execute(statement)
    trace = profframe.load(path)
    row = trace.counters.filter(pl.col("name") == "rss")
    assert row.select("value", "time_ns", "tid", "event_id").rows() == [(12.5, 14_000, "101", None)]
    assert trace.events.height == 13
    assert found(trace)["rows_not_loaded"] == 1


def test_samples_are_of_their_agent_and_have_its_unit(tmp_path: Path) -> None:
    """rocprof-sys has one event with all values of a GPU, and a sample for each of them."""
    path = write_database(tmp_path / "a.db", [STEP], guids=[""])
    with closing(sqlite3.connect(path)) as connection, connection:
        statements = [
            f"INSERT INTO rocpd_info_pmc (id, nid, pid, agent_id, name, symbol, units) VALUES {row}"
            for row in (
                "(70, 1, 1, 2, 'device_power', '', 'w')",
                "(71, 1, 1, 2, 'device_temp', '', '°C')",
                "(72, 1, 1, 0, 'cpu_power', '', 'w')",
            )
        ]
        for event, time in ((900, 12_000), (901, 13_000), (902, 14_000)):
            statements += [
                f"INSERT INTO rocpd_event (id, category_id) VALUES ({event}, 1)",
                *(
                    f"INSERT INTO rocpd_pmc_event (event_id, pmc_id, value) VALUES {row}"
                    for row in (f"({event}, 70, 300)", f"({event}, 71, 50)", f"({event}, 72, 9)")
                ),
                *(
                    "INSERT INTO rocpd_sample (track_id, timestamp, event_id) "
                    f"VALUES ({track}, {time}, {event})"
                    for track in (90, 91, 92)
                ),
            ]
        for track in (90, 91, 92):
            statements.append(f"INSERT INTO rocpd_track (id, nid, pid) VALUES ({track}, 1, 100)")
        for statement in statements:
            connection.execute(statement)
    trace = profframe.load(path)
    sampled = trace.counters.filter(pl.col("event_id").is_null())
    assert sampled.select("name", "device", "unit").unique().sort("name").rows() == [
        ("cpu_power", None, "w"),
        ("device_power", 1, "w"),
        ("device_temp", 1, "°C"),
    ]
    assert sampled.height == 9
    assert trace.energy().select("counter", "device", "energy_j", "work_j").rows() == [
        ("device_power", 1, 0.0006, 0.0006),
        ("cpu_power", None, 1.8e-05, None),
    ]


def test_lines_are_queues_where_no_record_has_a_stream(tmp_path: Path) -> None:
    """As before ROCm 7; two kernels of two queues overlap."""
    kernels = [
        dataclasses.replace(STEP.kernels[0], queue=queue, dispatch=queue, start=12_000 + queue)
        for queue in (1, 2)
    ]
    whole = document([dataclasses.replace(STEP, kernels=tuple(kernels))])
    (process,) = whole["rocprofiler-sdk-tool"]
    arrays = process["buffer_records"] | process["callback_records"]
    for record in itertools.chain.from_iterable(arrays.values()):
        record.pop("stream_id", None)
    path = tmp_path / "a.json"
    path.write_text(json.dumps(whole))
    trace = profframe.load(path)
    work = trace.events.filter(pl.col("device").is_not_null()).sort("start_ns")
    lines = work.join(trace.threads, on="thread", maintain_order="left")
    assert lines.select("kind", "stream", "tid").rows() == [
        ("kernel", 0, "COMPUTE Agent [1] QUEUE [0] GPU"),
        ("kernel", 1, "COMPUTE Agent [1] QUEUE [1] GPU"),
        ("memcpy", None, "COPY to AGENT [0] THREAD [1] (CPU)"),
    ]


@pytest.mark.parametrize(
    ("environments", "rank", "world_size", "source"),
    [
        (['{"PATH": "/bin", "RANK": "3", "WORLD_SIZE": "8"}'], 3, 8, "environment"),
        (['{"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2"}'], 1, 2, "environment"),
        (['{"SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "2", "RANK": "0", "WORLD_SIZE": "4"}'],
         0, 4, "environment"),
        (['{"RANK": "1", "WORLD_SIZE": "2"}'] * 2, 1, 2, "environment"),
        (['{"RANK": "0", "WORLD_SIZE": "1"}'], 0, None, "assumed"),
        (['{"RANK": "8", "WORLD_SIZE": "8"}'], 0, None, "assumed"),
        (['{"RANK": "3"}'], 0, None, "assumed"),
        (['{"RANK": 3, "WORLD_SIZE": [8]}'], 0, None, "assumed"),
        (['{"RANK": "-1", "WORLD_SIZE": "8"}'], 0, None, "assumed"),
        (["[3]"], 0, None, "assumed"),
        (['{"RANK": "0", "WORLD_SIZE": "2"}', '{"RANK": "1", "WORLD_SIZE": "2"}'],
         0, None, "assumed"),
    ],
)  # fmt: skip
def test_launchers_tell_processes_their_rank(
    tmp_path: Path, environments: list[str], rank: int, world_size: int | None, source: str
) -> None:
    processes = [dataclasses.replace(STEP, pid=100 + n) for n in range(len(environments))]
    path = write_database(tmp_path / "4242_results.db", processes)
    with closing(sqlite3.connect(path)) as connection, connection:
        for number, text in enumerate(environments):
            table = f"rocpd_info_process_0198a1b2_0000_7000_8000_{number:012x}"
            connection.execute(f"UPDATE {table} SET environment = ?", (text,))
    (row,) = profframe.load(path).traces.to_dicts()
    assert (row["rank"], row["world_size"], row["rank_source"]) == (rank, world_size, source)


def test_categories_of_rocprof_sys_are_those_of_rocprofv3(tmp_path: Path) -> None:
    path = write_database(tmp_path / "a.db", [STEP], guids=[""])
    kinds = ("kind", "launch_id", "category")
    before = profframe.load(path).events.select(kinds)
    names = {"HIP_RUNTIME_API_EXT": "hip", "HSA_CORE_API": "hsa", "MARKER_CORE_RANGE_API": "marker"}
    with closing(sqlite3.connect(path)) as connection, connection:
        for name, word in names.items():
            own = (f"rocm_{word}_api", name)
            connection.execute("UPDATE rocpd_string SET string = ? WHERE string = ?", own)
    assert profframe.load(path).events.select(kinds).equals(before)
    assert before["launch_id"].count() == 2


def test_what_json_has_no_table_for_is_counted(tmp_path: Path) -> None:
    whole = document([STEP])
    records = whole["rocprofiler-sdk-tool"][0]["buffer_records"]
    records["pc_sample_host_trap"] = [{"record": {"timestamp": 5}, "inst_index": 0}] * 3
    records["new_in_rocm_9"] = [{"size": 1}]
    path = tmp_path / "a.json"
    path.write_text(json.dumps(whole))
    trace = profframe.load(path)
    assert accounted(trace) == {
        "events": 13, "counters": 3, "metadata": 3, "pc_sample_host_trap": 3, "new_in_rocm_9": 1,
    }  # fmt: skip
    assert found(trace)["rows_not_loaded"] == 4


def test_json_whose_members_are_in_another_order(tmp_path: Path) -> None:
    """Texts look like the names of arrays, and like their ends."""
    hostile = 'x"}], "hsa_api": [{"start_timestamp": 1}, ], "buffer_records": {"hip_api": ['
    calls = (*STEP.calls, dataclasses.replace(STEP.calls[0], correlation=99, message=hostile))
    whole = document([dataclasses.replace(STEP, calls=calls)])
    path = tmp_path / "a.json"
    path.write_text(json.dumps(_reversed(whole), separators=(",", ":")))
    trace = profframe.load(path)
    assert trace.events.height == 14
    assert hostile in trace.events["name"].to_list()
    assert found(trace) == {"kernel_without_launch": 1}


def _reversed(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _reversed(value[key]) for key in reversed(value)}
    return [_reversed(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize("where", ["in a record", "between arrays", "behind a name"])
def test_json_that_ends_early(tmp_path: Path, where: str) -> None:
    """What came before is read, with its names; calls of HIP are behind kernels."""
    path = write_document(tmp_path / "a.json", [STEP])
    text = path.read_text()
    end = text.index('"rccl_api"', text.index('"hip_api"'))
    cut = {
        "in a record": text.rindex("retval", 0, end), "between arrays": end - 2,
        "behind a name": end + 6,
    }[where]  # fmt: skip
    path.write_text(text[:cut])
    trace = profframe.load(path)
    names = trace.events["name"].to_list()
    assert "hipLaunchKernel" in names
    assert GEMM in names
    assert trace.events.height == {"in a record": 4}.get(where, 7)
    assert "truncated" in found(trace)
    assert "unreadable_header" not in found(trace)


def test_json_with_damage_in_an_element(tmp_path: Path) -> None:
    path = write_document(tmp_path / "a.json", [STEP])
    text = path.read_text()
    at = text.index('"correlation_id"', text.index('"memory_copy": ['))
    path.write_text(text[:at] + "@" + text[at + 1 :])
    trace = profframe.load(path)
    assert trace.events.filter(pl.col("kind") == "kernel").height == 2
    assert sum(found(trace).values()) > 1


def test_json_with_members_of_another_type(tmp_path: Path) -> None:
    """They become NULL, and are counted; counters that are no numbers are in no sum."""
    whole = document([STEP])
    process = whole["rocprofiler-sdk-tool"][0]
    records = process["buffer_records"]
    records["memory_copy"][0]["bytes"] = "many"
    records["kernel_dispatch"][0]["dispatch_info"]["grid_size"]["y"] = None
    del records["hip_api"][0]["correlation_id"]
    records["marker_api"].append("no record")
    for record in process["callback_records"]["counter_collection"][0]["records"][:2]:
        record["value"] = float("nan")
    path = tmp_path / "a.json"
    path.write_text(json.dumps(whole))
    trace = profframe.load(path)
    checks = found(trace)
    assert (checks["odd_member"], checks["non_finite_number"]) == (3, 2)
    assert accounted(trace)["dropped"] == checks["not_an_event"] == 1
    assert trace.events.filter(pl.col("kind") == "memcpy")["bytes"].to_list() == [None]
    assert trace.counters.select("name", "value").rows() == [
        ("SQ_WAVES", 4.0),
        ("GRBM_COUNT", None),
    ]


@pytest.mark.parametrize("text", ['{"rocprofiler-sdk-tool": 3}', '{"rocprofiler-sdk-tool": '])
def test_json_without_processes(tmp_path: Path, text: str) -> None:
    path = tmp_path / "a.json"
    path.write_text(text)
    with pytest.raises(NotATraceError, match=r"a\.json: not a trace: it has no processes"):
        profframe.load(path)


def test_json_of_a_process_without_records(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"rocprofiler-sdk-tool": [{}]}')
    assert found(profframe.load(path)) == {"no_events": 0}


def test_both_are_recognised_by_their_content(tmp_path: Path) -> None:
    database, text = (
        shutil.copy(written(tmp_path, form, STEP), tmp_path / form) for form in ("database", "json")
    )
    assert (format_of(Path(database)), format_of(Path(text))) == ("rocpd", "rocprofv3")
    packed = tmp_path / "packed"
    packed.write_bytes(gzip.compress(Path(text).read_bytes()))
    assert columns(profframe.load(packed), "name") == columns(profframe.load(text), "name")


def test_a_damaged_database_is_named(tmp_path: Path) -> None:
    path = written(tmp_path, "database", STEP)
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2 + 7])
    with pytest.raises(SourceError, match=r"100_results\.db"):
        profframe.load(path)
