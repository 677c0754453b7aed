"""Lines of NCCL's Inspector: what they become, alone and beside a trace, and what is lost.

No public sample was found: `examples.synthetic_nccl` writes them as the plugin's source does.
"""

from __future__ import annotations

import gzip
import json
import pickle
import shutil
import zipfile
from pathlib import Path
from typing import Any, Final

import polars as pl
import pytest

import profframe
from examples.synthetic_nccl import (
    BEGIN_US,
    LATE,
    SMALLEST,
    VERSIONS,
    Job,
    write_inspector,
    write_traces,
)
from profframe import cli
from profframe.readers.formats import format_of
from profframe.trace.file_summaries import question
from profframe.workers.inline import InlineExecutor

FILES: Final = "job/node-a-pid1.log"
COLLECTIVES: Final = (
    "ranks", "process_group", "collective_seq", "expected_ranks", "missing_ranks", "mismatch",
    "bytes", "imbalance", "start_ns", "dur_ns", "wait_ns", "transfer_ns", "start_skew_ns",
    "end_skew_ns", "last_rank", "latency_ns", "algorithm_gb_per_s", "bus_gb_per_s", "is_corrected",
)  # fmt: skip
"""Columns that traces and records have; numbers of collectives differ."""
SIZES: Final = (
    "ranks", "process_group", "bytes", "calls", "mismatches", "total_ns", "mean_ns", "min_ns",
    "p50_ns", "max_ns", "skew_ns", "max_skew_ns", "algorithm_gb_per_s", "bus_gb_per_s",
    "is_corrected",
)  # fmt: skip
STRAGGLERS: Final = (
    "rank", "collectives", "times_last", "last_share", "times_first", "late_ns", "mean_late_ns",
    "max_late_ns", "wait_ns", "mean_wait_ns", "communication_ns", "is_corrected",
)  # fmt: skip


def header(**changed: Any) -> dict[str, Any]:
    said = {"id": "0x1f", "comm_name": "unknown", "rank": 0, "n_ranks": 2, "nnodes": 1}
    return said | changed


def metadata(version: str = "v4.0", **changed: Any) -> dict[str, Any]:
    said = {
        "inspector_output_format_version": version, "git_rev": "", "hostname": "node-a", "pid": 1,
        "rec_mechanism": "nccl_profiler_interface", "dump_timestamp_us": 1_700_000_000_000_900,
    }  # fmt: skip
    return said | changed


def perf(number: int = 0, **changed: Any) -> dict[str, Any]:
    said = {
        "coll": "AllGather", "coll_sn": number, "coll_msg_size_bytes": 8192,
        "coll_exec_time_us": 16, "coll_timing_source": "kernel_gpu", "coll_algobw_gbs": 1.024,
        "coll_busbw_gbs": 0.512,
    }  # fmt: skip
    return said | changed


def line(number: int = 0, **changed: Any) -> dict[str, Any]:
    return {"header": header(), "metadata": metadata(), "coll_perf": perf(number)} | changed


def marker(records: int, version: str = "v4.3", **changed: Any) -> dict[str, Any]:
    stats = {"coll_records": records, "coll_dropped_total": 0, "p2p_records": 0} | changed
    return {"header": header(), "metadata": metadata(version), "dump_stats": stats}


def written(folder: Path, *lines: dict[str, Any] | str, name: str = FILES) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    texts = (text if isinstance(text, str) else json.dumps(text) for text in lines)
    path.write_text("".join(text + "\n" for text in texts))
    return path


def loaded(folder: Path, *lines: dict[str, Any] | str) -> profframe.Trace:
    return profframe.load(written(folder, *lines))


def issues(trace: profframe.Trace) -> dict[str, int]:
    rows = trace.sql("SELECT issue, sum(events)::BIGINT AS n FROM quality GROUP BY issue")
    return dict(rows.rows())


def compared(trace: profframe.Trace, name: str, columns: tuple[str, ...], **given: Any) -> Any:
    rows = pl.DataFrame(trace.answer(name, **given)).select(columns)
    return rows.sort(pl.all()).rows()


class TestRows:
    def test_a_line_is_a_row(self, tmp_path: Path) -> None:
        times = [
            {"channel_id": 0, "kernel_start_ts": 1_700_000_000_000_205, "kernel_stop_ts": 0},
            {
                "channel_id": 1,
                "kernel_start_ts": 1_700_000_000_000_203,
                "kernel_stop_ts": 1_700_000_000_000_220,
            },
        ]
        traced = {
            "coll_start_ts": 1_700_000_000_000_100, "coll_stop_ts": 1_700_000_000_000_110,
            "kernel_events": times,
        }  # fmt: skip
        named = header(comm_name="dp", rank=1)
        first = line(3, header=named, coll_perf=perf(3, event_trace_ts=traced, coll_algo="RING"))
        trace = loaded(tmp_path, first)
        (row,) = trace.recorded_collectives.to_dicts()
        text = json.dumps(times, separators=(",", ":"))
        assert {name: value for name, value in row.items() if value is not None} == {
            "run": "job", "rank": 1, "record_id": 0, "process_group": "dp", "group_size": 2,
            "collective_seq": 3, "is_p2p": False, "kind": "all_gather", "backend": "nccl",
            "state": "completed", "created_ns": 1_700_000_000_000_100_000,
            "started_ns": 1_700_000_000_000_203_000, "completed_ns": 1_700_000_000_000_220_000,
            "dur_ns": 16_000, "recorder": "nccl_inspector", "communicator": "0x1f",
            "group_rank": 1, "nodes": 1, "message_bytes": 8192, "algorithm": "RING",
            "channels": 2, "timing_source": "kernel_gpu", "algorithm_gb_per_s": 1.024,
            "bus_gb_per_s": 0.512, "enqueued_ns": 1_700_000_000_000_110_000,
            "written_ns": 1_700_000_000_000_900_000, "channel_events": text,
        }  # fmt: skip
        assert issues(trace) == {"unrecorded_collectives": 3}
        (row,) = trace.traces.to_dicts()
        assert (row["format"], row["clock"], row["rank_source"]) == (
            "nccl_inspector", "utc", "communicator",
        )  # fmt: skip
        assert row["start_ns"] == 1_700_000_000_000_100_000
        assert row["end_ns"] == 1_700_000_000_000_900_000

    def test_bandwidth_is_that_of_the_plugin(self, tmp_path: Path) -> None:
        for rank in (0, 1):
            said = line(0, header=header(rank=rank), metadata=metadata(pid=rank))
            written(tmp_path, said, name=f"job/node-a-pid{rank}.log")
        (row,) = profframe.load(tmp_path / "job").collectives().to_dicts()
        assert (row["bytes"], row["latency_ns"], row["wait_ns"]) == (16_384, 16_000, None)
        assert (row["algorithm_gb_per_s"], row["bus_gb_per_s"]) == (1.024, 0.512)
        assert (row["process_group"], row["matched_by"]) == ("0x1f", "seq")

    def test_a_send_has_its_peer(self, tmp_path: Path) -> None:
        for rank, word in enumerate(("Send", "Recv")):
            sent = {"p2p": word, "p2p_sn": 1, "p2p_peer": 1 - rank, "p2p_msg_size_bytes": 8192}
            sent |= {"p2p_exec_time_us": 8 + rank, "p2p_timing_source": "kernel_gpu"}
            said = {"header": header(rank=rank), "metadata": metadata(pid=rank), "p2p_perf": sent}
            written(tmp_path, said, name=f"job/node-a-pid{rank}.log")
        trace = profframe.load(tmp_path / "job")
        assert trace.recorded_collectives["group_peer"].to_list() == [1, 0]
        assert trace.recorded_collectives["is_p2p"].to_list() == [True, True]
        (row,) = trace.collectives().to_dicts()
        assert (row["ranks"], row["bytes"], row["latency_ns"], row["matched_by"]) == (
            2, 8192, 8000, "order",
        )  # fmt: skip
        (row,) = trace.collective_traffic().to_dicts()
        assert (row["rank"], row["peer_rank"], row["bytes"]) == (0, 1, 8192)

    @pytest.mark.parametrize("version", VERSIONS)
    def test_all_formats_give_equal_rows(self, version: str, tmp_path: Path) -> None:
        job = Job(3, ranks=4)
        write_inspector(job, tmp_path / "a" / "job", version)
        write_inspector(job, tmp_path / "b" / "job", "v4.2")
        first, second = (
            pl.DataFrame(profframe.load(tmp_path / name / "job").recorded_collectives)
            for name in "ab"
        )
        if version < "v4.2":
            assert first["algorithm"].null_count() == first.height
            second = second.with_columns(algorithm=first["algorithm"], protocol=first["protocol"])
        assert first.equals(second)
        assert first.height == sum(call.size >= SMALLEST for call in job.calls)

    def test_a_process_of_several_devices_has_several_ranks(self, tmp_path: Path) -> None:
        other = header(id="0x2", n_ranks=9, rank=0)
        lines = [line(0, header=header(rank=rank)) for rank in (0, 1, 1)]
        lines[2]["coll_perf"] = perf(1)
        small = line(0, header=header(id="0x3", n_ranks=1, rank=0))
        trace = loaded(tmp_path, *lines, small)
        assert trace.traces["rank"].to_list() == [0, 1]
        assert trace.recorded_collectives.group_by("rank").len().sort("rank").rows() == [
            (0, 1), (1, 2),
        ]  # fmt: skip
        assert issues(trace)["unplaced_record"] == 1
        (row,) = loaded(tmp_path, line(0, header=other), small).traces.to_dicts()
        assert row["rank"] == 0

    def test_processes_with_one_number_get_ranks_in_order(self, tmp_path: Path) -> None:
        for pid in (7, 12, 3):
            said = line(0, metadata=metadata(pid=pid), header=header(id=hex(pid)))
            later = line(1, header=header(id=hex(pid)))
            later["metadata"] = metadata(pid=pid, dump_timestamp_us=1_700_000_000_001_000)
            written(tmp_path, said, later, name=f"job/node-a-pid{pid}.log")
        trace = profframe.load(tmp_path / "job")
        assert trace.traces.select("rank", "rank_source").rows() == [
            (0, "assumed"), (1, "assumed"), (2, "assumed"),
        ]  # fmt: skip
        sources = [Path(path).name for path in trace.traces["source"]]
        assert sources == [f"node-a-pid{pid}.log" for pid in (3, 7, 12)]
        assert issues(trace) == {"assumed_ranks": 6}

    def test_a_restarted_process_is_a_later_cycle(self, tmp_path: Path) -> None:
        for pid in (1, 2):
            time = 1_700_000_000_000_000 + pid * 1_000_000
            said = line(0, metadata=metadata(pid=pid, dump_timestamp_us=time))
            written(tmp_path, said, name=f"job/node-a-pid{pid}.log")
        trace = profframe.load(tmp_path / "job")
        assert trace.traces.select("run", "rank").rows() == [("job", 0), ("job.1", 0)]


class TestSources:
    def test_archives_and_compressed_files(self, tmp_path: Path) -> None:
        job = Job(2)
        paths = write_inspector(job, tmp_path / "plain" / "job")
        packed = tmp_path / "packed" / "job"
        packed.mkdir(parents=True)
        for path in paths:
            (packed / f"{path.stem}.jsonl.gz").write_bytes(gzip.compress(path.read_bytes()))
        archive = tmp_path / "job.zip"
        with zipfile.ZipFile(archive, "w") as file:
            for path in paths:
                file.write(path, f"job/{path.name}")
        plain = pl.DataFrame(profframe.load(tmp_path / "plain" / "job").recorded_collectives)
        for source in (packed, archive):
            assert pl.DataFrame(profframe.load(source).recorded_collectives).equals(plain)
        assert format_of(paths[0]) == "nccl_inspector"

    def test_the_first_screen_says_what_matters(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        write_inspector(Job(10), tmp_path / "job")
        assert cli.run([str(tmp_path / "job")]) == 0
        said = " ".join(capsys.readouterr().out.split())
        assert "records of 480 collectives, of 80 sends and receives, 7 communicators" in said
        assert "Most time is in all_reduce of 64.00 MiB in world (8 ranks)" in said
        assert f"Rank {LATE} comes last in 30 of 60 collectives and holds up the others" in said
        assert "Bandwidth of all_reduce of 16.00 MiB in tp1 (4 ranks) varies from 60.93" in said

    def test_a_store_has_the_same(self, tmp_path: Path) -> None:
        job = Job(4, ranks=4)
        write_inspector(job, tmp_path / "job")
        write_traces(job, tmp_path / "job", steps=[2, 3])
        files = profframe.convert(tmp_path / "job", tmp_path / "store", executor=InlineExecutor())
        assert {*files["status"]} <= {"written", "joined"}
        stored = pl.DataFrame(profframe.load(tmp_path / "store").recorded_collectives)
        plain = pl.DataFrame(profframe.load(tmp_path / "job").recorded_collectives)
        assert stored.sort("rank", "record_id").equals(plain.sort("rank", "record_id"))
        assert plain["event_id"].count() > 0

    def test_dumps_of_flight_recorders_join_the_same_traces(self, tmp_path: Path) -> None:
        job, folder = Job(2, ranks=2), tmp_path / "job"
        write_inspector(job, folder)
        write_traces(job, folder)
        alone = profframe.load(folder)
        (tmp_path / "dumps").mkdir()
        for rank in range(job.ranks):
            entries = [
                {
                    "record_id": number, "pg_id": 0, "process_group": ("0", "default_pg"),
                    "collective_seq_id": number, "p2p_seq_id": 0, "op_id": number, "frames": [],
                    "profiling_name": "nccl:all_reduce", "time_created_ns": 10**18 + number,
                    "input_sizes": [[4]], "output_sizes": [[4]], "input_dtypes": ["Float"],
                    "output_dtypes": ["Float"], "state": "started", "retired": False,
                    "is_p2p": False,
                }
                for number in (7, 8)
            ]  # fmt: skip
            config = {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1]"}}
            dump = {"version": "2.10", "pg_config": config, "pg_status": {}, "entries": entries}
            for place in (folder, tmp_path / "dumps"):
                (place / f"trace_{rank}").write_bytes(pickle.dumps(dump))
        hangs = profframe.load(tmp_path / "dumps").hangs(per="rank")["record_id"].to_list()
        assert {*hangs} == {7, 8}
        profframe.convert(folder, tmp_path / "store", executor=InlineExecutor())
        for source in (folder, tmp_path / "store"):
            trace = profframe.load(source)
            assert [*trace.traces["rank"]] == [*range(job.ranks)]
            records = trace.recorded_collectives
            of_plugin = records.filter(pl.col("recorder") == "nccl_inspector")
            assert records.height - of_plugin.height == 2 * job.ranks
            assert records.select("rank", "record_id").is_duplicated().sum() == 0
            assert of_plugin["record_id"].min() == 9
            assert of_plugin["event_id"].count() == alone.recorded_collectives["event_id"].count()
            assert trace.hangs(per="rank")["record_id"].to_list() == hangs

    def test_hangs_are_of_flight_recorders(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        write_inspector(Job(2), tmp_path / "job")
        trace = profframe.load(tmp_path / "job")
        assert trace.hangs().height == trace.collective_progress().height == 0
        assert cli.run(["hang", str(tmp_path / "job")]) == 1
        assert "no flight recorder records in it" in capsys.readouterr().err


class TestDamage:
    @pytest.mark.parametrize("version", ["v3.9", "v5.0", "4.0", "v4.10"])
    def test_other_formats_are_refused_by_name(self, version: str, tmp_path: Path) -> None:
        path = written(tmp_path, line(), line(1, metadata=metadata(version)))
        with pytest.raises(profframe.SourceError) as raised:
            profframe.load(path)
        assert str(raised.value) == (
            f"{path}: line 2: format {version!r} of NCCL's Inspector, of which profframe reads "
            "v4.0 to v4.4"
        )

    def test_a_cut_line_is_counted(self, tmp_path: Path) -> None:
        path = written(tmp_path, line(), line(1))
        path.write_text(path.read_text()[:-20])
        trace = profframe.load(path)
        assert trace.recorded_collectives.height == 1
        assert issues(trace) == {"truncated": 1}
        (row,) = trace.traces.to_dicts()
        assert json.loads(row["accounted"]) == {"recorded_collectives": 1, "dropped": 1}

    def test_an_unreadable_line_takes_its_place(self, tmp_path: Path) -> None:
        records = [{"coll_perf": perf(number)} for number in range(3)]
        trace = loaded(tmp_path, marker(3), records[0], "{bad", records[2])
        assert trace.recorded_collectives["collective_seq"].to_list() == [0, 2]
        assert issues(trace) == {"unreadable_event": 1, "unrecorded_collectives": 1}

    def test_a_lost_marker_leaves_orphans(self, tmp_path: Path) -> None:
        """Its lines are beyond the number of the dump before, whatever they say."""
        records = [{"coll_perf": perf(number)} for number in range(4)]
        trace = loaded(tmp_path, marker(2), *records, marker(1), {"coll_perf": perf(4)})
        assert trace.recorded_collectives["collective_seq"].to_list() == [0, 1, 4]
        assert issues(trace) == {"orphan_line": 2, "unrecorded_collectives": 2}

    def test_lines_in_another_order_are_of_a_lost_marker(self, tmp_path: Path) -> None:
        sent = {"p2p": "Send", "p2p_sn": 1, "p2p_peer": 1, "p2p_msg_size_bytes": 8192}
        sent |= {"p2p_exec_time_us": 8}
        counted = marker(1, p2p_records=3)
        lines = [{"coll_perf": perf()}, {"p2p_perf": sent}, {"coll_perf": perf(1)}]
        trace = loaded(tmp_path, counted, *lines, {"p2p_perf": sent})
        assert trace.recorded_collectives.height == 2
        assert issues(trace) == {"orphan_line": 2, "missing_lines": 2}

    def test_a_line_without_a_header_has_no_communicator(self, tmp_path: Path) -> None:
        trace = loaded(tmp_path, {"coll_perf": perf()}, line(0))
        assert trace.recorded_collectives.height == 1
        assert issues(trace) == {"orphan_line": 1}

    def test_announced_lines_that_do_not_follow(self, tmp_path: Path) -> None:
        trace = loaded(tmp_path, marker(3), {"coll_perf": perf()})
        assert issues(trace) == {"missing_lines": 2}

    def test_overwritten_records_are_known(self, tmp_path: Path) -> None:
        lines = [marker(1, coll_dropped_total=total) for total in (2, 5)]
        records = [{"coll_perf": perf(number)} for number in (2, 6)]
        trace = loaded(tmp_path, lines[0], records[0], lines[1], records[1])
        assert issues(trace) == {"overwritten_collectives": 5, "unrecorded_collectives": 5}

    def test_headers_that_disagree(self, tmp_path: Path) -> None:
        lines = [line(0), line(1), line(2, header=header(n_ranks=3))]
        lines[1]["metadata"] = metadata(hostname="node-b")
        trace = loaded(tmp_path, *lines)
        assert issues(trace) == {"conflicting_headers": 2}
        assert json.loads(trace.traces["metadata"][0])["hostname"] == "node-a"

    def test_a_repeated_record_counts_once(self, tmp_path: Path) -> None:
        trace = loaded(tmp_path, line(), line(0, coll_perf=perf(coll_exec_time_us=99)))
        assert issues(trace) == {"repeated_record": 1}
        assert trace.collectives()["dur_ns"].to_list() == [16_000]

    def test_odd_values_are_null_and_counted(self, tmp_path: Path) -> None:
        odd = perf(0, coll_msg_size_bytes=-1, coll_exec_time_us="16", coll=7, coll_busbw_gbs="nan")
        trace = loaded(tmp_path, line(0, coll_perf=odd))
        (row,) = trace.recorded_collectives.to_dicts()
        assert (row["message_bytes"], row["dur_ns"], row["kind"], row["bus_gb_per_s"]) == (
            None, None, None, None,
        )  # fmt: skip
        assert issues(trace) == {"odd_record": 3}

    def test_the_last_of_two_members_counts(self, tmp_path: Path) -> None:
        text = json.dumps(line()).replace('"coll_sn": 0', '"coll_sn": 9, "coll_sn": 0')
        trace = loaded(tmp_path, text)
        assert trace.recorded_collectives["collective_seq"].to_list() == [0]
        assert issues(trace) == {"doubled_member": 1}

    def test_work_of_proxies_is_counted(self, tmp_path: Path) -> None:
        proxy = {"proxy_trace": {"record_type": "proxy_op", "record_sn": 1}}
        trace = loaded(tmp_path, marker(1, proxy_records=1), {"coll_perf": perf()}, proxy)
        assert trace.recorded_collectives.height == 1
        assert issues(trace) == {"rows_not_loaded": 1}

    def test_nothing_of_it_can_be_read(self, tmp_path: Path) -> None:
        path = written(tmp_path, '{"coll_perf": {', '{"coll_perf": {')
        with pytest.raises(profframe.SourceError, match="none of its lines can be read"):
            profframe.load(path)


class TestWithTraces:
    def test_answers_are_those_of_traces(self, tmp_path: Path) -> None:
        job = Job(8, has_small=False)
        write_traces(job, tmp_path / "traces")
        write_inspector(job, tmp_path / "records")
        traces, records = (profframe.load(tmp_path / name) for name in ("traces", "records"))
        columns = tuple(name for name in COLLECTIVES if name != "collective_seq")
        first = compared(traces, "collectives", columns)
        assert len(first) == 8 * (4 + 4 + 4 + 2)
        assert first == compared(records, "collectives", columns)
        assert compared(traces, "collectives", SIZES, per="size") == compared(
            records, "collectives", SIZES, per="size"
        )
        assert compared(traces, "stragglers", STRAGGLERS) == compared(
            records, "stragglers", STRAGGLERS
        )
        both = [pl.DataFrame(trace.stragglers()) for trace in (traces, records)]
        assert [rows["rank"][0] for rows in both] == [LATE, LATE]
        traffic = ("rank", "peer_rank", "process_group", "calls", "bytes")
        assert compared(traces, "collective_traffic", traffic) == compared(
            records, "collective_traffic", traffic
        )

    def test_without_starts_bandwidths_are_the_same(self, tmp_path: Path) -> None:
        job = Job(4, has_small=False)
        write_traces(job, tmp_path / "traces")
        write_inspector(job, tmp_path / "records", is_verbose=False)
        traces, records = (profframe.load(tmp_path / name) for name in ("traces", "records"))
        columns = tuple(n for n in SIZES if "skew" not in n and n != "is_corrected")
        assert compared(traces, "collectives", columns, per="size") == compared(
            records, "collectives", columns, per="size"
        )
        assert records.stragglers().height == 0
        assert records.collectives()["wait_ns"].null_count() == records.collectives().height

    @pytest.mark.parametrize("is_verbose", [True, False])
    def test_records_lead_to_their_kernels(self, tmp_path: Path, *, is_verbose: bool) -> None:
        job, steps = Job(6), [3, 4]
        write_inspector(job, tmp_path / "job", is_verbose=is_verbose)
        write_traces(job, tmp_path / "job", steps)
        trace = profframe.load(tmp_path / "job")
        rows = trace.sql("""
            SELECT record.rank, record.kind, record.process_group, record.collective_seq,
                kernel.start_ns, op.name
            FROM recorded_collectives AS record
            JOIN events AS kernel
                ON record.run = kernel.run AND record.rank = kernel.rank
                AND record.event_id = kernel.event_id
            JOIN events AS op
                ON kernel.run = op.run AND kernel.rank = op.rank AND kernel.op_id = op.event_id
        """).rows()
        want = {
            (call.rank, call.kind, call.group.name, call.number): 1000 * (BEGIN_US + call.start)
            for call in job.calls
            if call.step in steps and call.size >= SMALLEST and not call.is_p2p
        }
        assert {name for *_, name in rows} == {"record_param_comms"}
        joined = {row[:4]: row[4] for row in rows}
        assert len(joined) == len(rows)
        assert joined.items() <= want.items()
        unsure = issues(trace).get("ambiguous_kernels", 0)
        assert len(joined) + unsure == len(want)
        assert (unsure == 0) is is_verbose
        slices = trace.sql("FROM recorded_slices(recorded_collectives, events)")
        assert slices.height == len(rows)

    def test_a_rank_without_a_trace_takes_all_from_records(self, tmp_path: Path) -> None:
        job = Job(2)
        write_inspector(job, tmp_path / "job")
        paths = write_traces(job, tmp_path / "traces")
        shutil.copy(paths[0], tmp_path / "job")
        trace = profframe.load(tmp_path / "job")
        assert trace.collectives()["mismatch"].null_count() == trace.collectives().height
        assert {*trace.collectives()["ranks"]} == {2, 4, 8}


class TestFirstScreen:
    """What the first screen makes of durations of some ranks, in microseconds, by collective."""

    def test_the_rank_that_costs_most_is_named_not_the_one_that_is_often_last(
        self, tmp_path: Path
    ) -> None:
        said = first_screen(tmp_path, *[(20, 20, 16)] * 9, (16, 5016, 5016))
        assert (
            "Rank 0 comes last in 1 of 10 collectives and holds up the others by 5.000 ms" in said
        )

    def test_noise_names_no_rank(self, tmp_path: Path) -> None:
        said = first_screen(tmp_path, *[(100, 101, 102)] * 9, (102, 101, 100))
        assert "comes last" not in said
        assert "Most time is in all_gather of 24.00 KiB in 0x1f (3 ranks): 1.000 ms" in said

    def test_a_collective_without_some_ranks_says_nothing_of_bandwidth_or_ranks(
        self, tmp_path: Path
    ) -> None:
        said = first_screen(tmp_path, (16, 17, 18), (4016, 4017, None), (16, None, 4000))
        assert "Most time is in all_gather of 24.00 KiB in 0x1f (3 ranks): 16.000 us" in said
        assert "varies" not in said
        assert "comes last" not in said
        assert "Records of some ranks are missing for 2 collectives" in said

    def test_if_ranks_lack_all_records_waits_are_named(self, tmp_path: Path) -> None:
        said = first_screen(tmp_path, (16, 4000, None), (4000, 4001, None))
        assert "4.016 ms (100.0 % of all) in 2 calls" in said
        assert "waits for ranks without records included" in said
        assert "varies" not in said

    def test_it_is_about_the_records_not_the_shorter_traces(self, tmp_path: Path) -> None:
        job = Job(3)
        write_inspector(job, tmp_path / "job")
        write_traces(job, tmp_path / "job", steps=[2])
        trace = profframe.load(tmp_path / "job")
        sizes = question(trace, "nccl_sizes")
        assert sizes["calls"].sum() == 3 * (2 + 4 + 4 + 4)
        assert question(trace, "nccl_ranks")["collectives"].to_list() == [3 * 6] * 8

    def test_without_starts_the_next_command_has_rows(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        write_inspector(Job(2), tmp_path / "job", is_verbose=False)
        assert cli.run([str(tmp_path / "job")]) == 0
        said = capsys.readouterr().out
        assert "answer collectives -p per=size" in said
        assert "answer stragglers" not in said

    def test_the_median_bandwidth_is_that_of_the_median_duration(self, tmp_path: Path) -> None:
        first_screen(tmp_path, (10, 10, 10), (40, 40, 40))
        trace = profframe.load(tmp_path / "job")
        (row,) = question(trace, "nccl_sizes").to_dicts()
        assert (row["p50_ns"], row["bus_gb_per_s"]) == (10_000, row["max_gb_per_s"])


def first_screen(folder: Path, *calls: tuple[int | None, ...]) -> str:
    """The sentences about all_gathers of so many ranks; None for one that has no record."""
    ranks = len(calls[0])
    for rank in range(ranks):
        lines = [
            line(
                number,
                header=header(rank=rank, n_ranks=ranks),
                metadata=metadata(pid=rank),
                coll_perf=perf(number, coll_exec_time_us=call[rank]),
            )
            for number, call in enumerate(calls)
            if call[rank] is not None
        ]
        if lines:
            written(folder, *lines, name=f"job/node-a-pid{rank}.log")
    words = profframe.load(folder / "job").summary().words
    return "\n".join(text for part in words.parts for text in part.sentences)


class TestLostRecords:
    def test_a_lost_record_is_no_mismatch(self, tmp_path: Path) -> None:
        first_screen(tmp_path, (16, 16), (16, None))
        trace = profframe.load(tmp_path / "job")
        rows = trace.collectives().select("mismatch", "missing_ranks").rows()
        assert rows == [(None, None), ("not_loaded", "1")]
        assert trace.collectives(mismatched=True).height == 0

    @pytest.mark.parametrize("lost", [None, 1])
    def test_after_a_lost_send_none_is_matched_by_its_place(
        self, tmp_path: Path, lost: int | None
    ) -> None:
        for rank, word in enumerate(("Send", "Recv")):
            lines = [
                {
                    "header": header(rank=rank), "metadata": metadata(pid=rank),
                    "p2p_perf": {
                        "p2p": word, "p2p_sn": number, "p2p_peer": 1 - rank,
                        "p2p_msg_size_bytes": 10_000 * number, "p2p_exec_time_us": 10,
                        "p2p_timing_source": "kernel_gpu",
                    },
                }
                for number in (1, 2, 3)
                if rank or number != lost
            ]  # fmt: skip
            written(tmp_path, *lines, name=f"job/node-a-pid{rank}.log")
        rows = profframe.load(tmp_path / "job").collectives()
        want = [2, 2, 2] if lost is None else [1, 1, 1, 1, 1]
        assert rows["ranks"].to_list() == want
        assert {*rows["mismatch"]} == ({None} if lost is None else {"not_loaded"})

    def test_communicators_of_one_name_are_told_apart(self, tmp_path: Path) -> None:
        for pid, of in enumerate(("0xa", "0xa", "0xb", "0xb")):
            said = header(id=of, comm_name="dp", rank=pid % 2)
            world = header(id="0xc", comm_name="world", rank=pid, n_ranks=4)
            own = metadata(pid=pid)
            written(
                tmp_path,
                line(header=said, metadata=own),
                line(header=world, metadata=own),
                name=f"job/node-a-pid{pid}.log",
            )
        groups = profframe.load(tmp_path / "job").collectives()["process_group"]
        assert sorted(groups) == ["dp 0xa", "dp 0xb", "world"]


class TestQualityNotes:
    def test_notes_that_ranks_share_are_shown_once(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        first_screen(tmp_path, (16, 16, 16), (None, None, None), (16, 16, 16))
        assert cli.run([str(tmp_path / "job")]) == 0
        said = " ".join(capsys.readouterr().out.split())
        assert said.count("unrecorded_collectives") == 1
        assert "unrecorded_collectives 3 Collectives that NCCL's Inspector did not record" in said
        assert said.endswith("0x1f all_gather 1. Missing here, too [job, ranks 0-2]")


class TestExamplePlugin:
    def test_its_collectives_are_records(self, tmp_path: Path) -> None:
        base = {"id": 0, "pid": 5, "tid": 1}
        call = {"name": "AllReduce", "cat": "COLL"}
        said = {
            "SeqNum": 4, "CommHash": 2**64 - 1, "Rank": 3, "Count": 4096,
            "Datatype": "ncclBfloat16", "Algorithm": "RING", "Protocol": "LL", "nChannels": 2,
        }  # fmt: skip
        clock = 1_756_135_989_724_672_000
        kernels = [
            {"Channel": 0, "StartGpuClk": clock + 10, "StopGpuClk": clock + 5010},
            {"Channel": 1, "StartGpuClk": clock, "StopGpuClk": clock + 4000},
        ]
        kernel = {"name": "KernelCh", "cat": "GPU"}
        events = [call | {"ph": "b"} | base | {"ts": 100.5, "args": said}]
        for args in kernels:
            events.append(kernel | {"ph": "b"} | base | {"ts": 110.0, "args": args})
            events.append(kernel | {"ph": "e"} | base | {"ts": 120.0})
        events.append(call | {"ph": "e"} | base | {"ts": 130.0})
        path = tmp_path / "job" / "prof-node-a-5.txt"
        path.parent.mkdir()
        path.write_text("[\n" + "".join(json.dumps(e) + ",\n" for e in events) + "{}]\n")
        trace = profframe.load(path)
        (row,) = trace.recorded_collectives.to_dicts()
        assert {name: value for name, value in row.items() if value is not None} == {
            "run": "job", "rank": 3, "record_id": 0, "collective_seq": 4, "is_p2p": False,
            "kind": "all_reduce", "backend": "nccl", "input_dtypes": '["Bfloat16"]',
            "started_ns": clock, "completed_ns": clock + 5010, "dur_ns": 5000,
            "recorder": "nccl_profiler", "communicator": "0xffffffffffffffff", "group_rank": 3,
            "message_bytes": 8192, "algorithm": "RING", "protocol": "LL", "channels": 2,
            "timing_source": "kernel_gpu",
        }  # fmt: skip
        assert trace.traces["format"].to_list() == ["nccl_profiler"]
        assert trace.sql("SELECT category FROM events ORDER BY event_id")["category"].to_list() == [
            "COLL", "GPU", "GPU",
        ]  # fmt: skip
        (row,) = trace.collectives().to_dicts()
        assert (row["bytes"], row["dtype"], row["dur_ns"]) == (8192, "Bfloat16", 5000)
