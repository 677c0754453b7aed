"""The section of a job: its numbers are those of the answers, and one rank has none."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import profframe
from profframe import Trace
from profframe.analysis.path_pieces import pieces
from profframe.errors import ParameterError, UnknownNameError
from profframe.query.header import sql_directory
from profframe.query.session import Session
from profframe.trace import jobs
from profframe.trace.sections import job_steps as section
from tests import needs, step_jobs
from tests.builders import event, loaded, together
from tests.reports import check_rows, data, tables_of

needs.charts()

from profframe.pages.plots import rank_lanes  # noqa: E402

LATE: Final = 500_000
SECTIONS: Final = re.compile(r'<section id="(\w+)"')


@pytest.fixture(scope="module")
def trace() -> Iterator[Trace]:
    """Four ranks and six steps; in step 3 rank 2 comes half a millisecond late."""
    with step_jobs.job(late={(3, 2): LATE}).session() as trace:
        yield trace


def written(trace: Trace, folder: Path, *sections: str) -> Path:
    path = folder / "page.html"
    trace.report(path, sections=sections or ("job",))
    return path


def step_ranks(trace: Trace, **parameters: int) -> pl.DataFrame:
    return pl.DataFrame(trace.answer(sql_directory() / "report" / "step_ranks.sql", **parameters))


def test_times_waits_and_computation_of_each_step(trace: Trace) -> None:
    late = step_jobs.STEP + LATE
    expected = [
        ("r", rank, step, step, late if step == 3 else step_jobs.STEP,
         LATE if step == 3 and rank != 2 else 0, step_jobs.KERNEL)
        for rank in range(4) for step in range(6)
    ]  # fmt: skip
    assert step_ranks(trace).rows() == expected


def test_many_steps_have_a_cell_together_with_the_most_of_each(trace: Trace) -> None:
    rows = step_ranks(trace, most=4)
    assert rows.filter(rank=1).rows() == [
        ("r", 1, 0, 1, step_jobs.STEP, 0, step_jobs.KERNEL),
        ("r", 1, 2, 3, step_jobs.STEP + LATE, LATE, step_jobs.KERNEL),
        ("r", 1, 4, 5, step_jobs.STEP, 0, step_jobs.KERNEL),
    ]


def test_a_step_that_ranks_lack_has_no_cell_and_hosts_compute_nothing() -> None:
    step: dict[str, Any] = {"category": "user_annotation"}
    one = loaded(event("ProfilerStep#4", 0, 10, **step), event("ProfilerStep#5", 10, 30, **step))
    other = loaded(event("ProfilerStep#5", 0, 40, **step), rank=1)
    assert step_ranks(together(one, other)).rows() == [
        ("r", 0, 4, 4, 10, None, None),
        ("r", 0, 5, 5, 20, None, None),
        ("r", 1, 5, 5, 40, None, None),
    ]


def test_waits_are_those_of_stragglers(traces: Path) -> None:
    job = profframe.load(f"{traces}/facebookresearch__param/dlrm_kineto/worker*")
    waits = step_ranks(job).group_by("rank").agg(pl.col("wait_ns").sum()).sort("rank")
    answer = job.stragglers(corrected=True).sort("rank")
    assert waits.rows() == answer.select("rank", "wait_ns").rows()


def test_stretches_of_one_rank_and_bound_are_one_piece(trace: Trace) -> None:
    path = trace.critical_path(step=3, across_ranks=True)
    few = pieces(path.events)
    assert few.select("rank", "bound", "total_ns", "stretches", "name", "waited_ns").rows() == [
        (2, "host", 600_000, 2, "aten::linear", 290_000),
        (2, "launch", 10_000, 1, "cudaLaunchKernel", 10_000),
        (2, "compute", 200_000, 1, "gemm", 200_000),
        (0, "communication", 50_000, 1, "ncclDevKernel_AllReduce", 0),
        (0, "sync", 1_000, 1, "cudaDeviceSynchronize", 0),
        (0, "host", 1_000, 1, "ProfilerStep#3", 0),
    ]
    assert few["start_ns"].to_list() == [0, *few["end_ns"][:-1]]


STRETCHES: Final = st.lists(
    st.tuples(
        st.integers(0, 3), st.sampled_from(["host", "compute", "idle"]), st.integers(0, 10**6),
        st.sampled_from(["a", "b", None]), st.sampled_from([None, 5]),
    ),
    max_size=60,
)  # fmt: skip


@given(STRETCHES, st.integers(1, 20))
def test_few_pieces_have_all_of_the_path(
    stretches: list[tuple[int, str, int, str | None, int | None]], most: int
) -> None:
    at, rows = 10**18, []
    for rank, bound, took, name, waiting in stretches:
        rows.append((rank, bound, "slice", name, at, took, waiting))
        at += took
    names: dict[str, Any] = dict.fromkeys(("bound", "edge", "name"), pl.String)
    times: dict[str, Any] = dict.fromkeys(("start_ns", "dur_ns", "waiting_rank"), pl.Int64)
    events = pl.DataFrame(rows, {"rank": pl.Int32} | names | times, orient="row")
    few = pieces(events, most)

    spent = events.filter(pl.col("dur_ns") > 0)
    assert few.height <= max(most, spent["rank"].n_unique())
    for rank in range(4):
        mine, part = few.filter(rank=rank), spent.filter(rank=rank)
        assert mine["total_ns"].sum() == part["dur_ns"].sum()
        assert mine["stretches"].sum() == part.height
        assert mine["waited_ns"].sum() == part.drop_nulls("waiting_rank")["dur_ns"].sum()
        assert (mine["start_ns"].sort()[1:] >= mine["end_ns"].sort()[:-1]).all()
    first = spent["start_ns"].min()
    for piece in few.iter_rows(named=True):
        inside = spent.filter(
            pl.col("rank") == piece["rank"],
            pl.col("start_ns") - first >= piece["start_ns"],
            pl.col("start_ns") + pl.col("dur_ns") - first <= piece["end_ns"],
        )
        assert inside["dur_ns"].sum() == piece["total_ns"]
        by_bound = inside.group_by("bound").agg(pl.col("dur_ns").sum())
        assert by_bound.filter(bound=piece["bound"])["dur_ns"].item() == piece["bound_ns"]
        assert by_bound["dur_ns"].max() == piece["bound_ns"]
        named = inside.group_by("name").agg(pl.col("dur_ns").sum())
        assert named["dur_ns"].max() == piece["name_ns"]


def test_the_grid_is_what_each_prediction_is(trace: Trace) -> None:
    grid = trace.what_if_grid(step=3, communication=[0.5, 2], host=[0, 1, 1.5])
    assert grid.select("communication", "host").rows() == [
        (c, h) for c in (0.5, 2.0) for h in (0.0, 1.0, 1.5)
    ]
    for row in grid.iter_rows(named=True):
        one = trace.what_if(step=3, communication=row["communication"], host=row["host"])[-1]
        for name in ("now_ns", "predicted_ns", "saved_ns", "saved_share"):
            assert row[name] == one[name].item(), (row, name)
    saved = dict(zip(grid["host"][:3], grid["saved_ns"][:3], strict=True))
    assert saved[1.0] == step_jobs.TRANSFER // 2
    now = step_jobs.STEP + LATE
    assert trace.what_if_grid(step=3)["now_ns"].unique().to_list() == [now]
    assert trace.what_if_grid(step=3).height == 49


@pytest.mark.parametrize("name", ["communication", "host"])
def test_factors_are_checked(trace: Trace, name: str) -> None:
    factors: dict[str, Any] = {name: [1, -0.5]}
    with pytest.raises(ParameterError, match=rf"{name}: expected a number from 0, got -0\.5"):
        trace.what_if_grid(**factors)


def test_steps_of_the_grid_are_checked(trace: Trace) -> None:
    with pytest.raises(UnknownNameError, match="9"):
        trace.what_if_grid(step=9)


def test_the_page_has_the_rows_of_the_answers(trace: Trace, tmp_path: Path) -> None:
    page = written(trace, tmp_path)
    tables = tables_of(data(page))
    changes: dict[str, Any] = {
        "communication": 0.5,
        "stragglers": False,
        "host": 0.5,
        "launches": False,
        "copies": False,
    }
    check_rows("what_if", tables["what_if"], trace.what_if(step=3, **changes))
    check_rows("grid", tables["what-if-grid"], trace.what_if_grid(step=3))
    path = trace.critical_path(step=3, across_ranks=True)
    check_rows("waits", tables["waits"], path.waits)
    predicted = {row["change"]: int(row["saved_ns"]) for row in tables["what_if"]}
    assert predicted["no stragglers"] == LATE
    assert predicted["communication x 0.5"] == step_jobs.TRANSFER // 2
    cells = tables["job-wait-rows_0"]
    assert sorted((int(c["rank"]), int(c["first_step"])) for c in cells if float(c["value"])) == [
        (0, 3), (1, 3), (3, 3),
    ]  # fmt: skip
    bounds = [row["bound"] for row in tables["job-path-rows_1"]]
    assert bounds == ["host", "launch", "compute", "communication", "sync", "host"]
    text = page.read_text()
    assert "trace.what_if(step=3, communication=0.5, stragglers=False" in text
    assert '<dd title="862,000 ns">862.000 us</dd>' in text


def test_the_whole_trace_where_there_are_no_steps(tmp_path: Path) -> None:
    ranks = [loaded(event("mm", 0, 500 + 300 * rank), rank=rank, header={"clock": "utc"})
             for rank in (0, 1)]  # fmt: skip
    text = written(together(*ranks), tmp_path).read_text()
    assert "<dt>Whole trace</dt>" in text
    assert "trace.critical_path(across_ranks=True)" in text
    assert 'data-chart="job-path"' in text
    assert 'data-chart="job-time"' not in text


def test_the_slowest_step_is_one_that_all_ranks_have(tmp_path: Path) -> None:
    step: dict[str, Any] = {"category": "user_annotation"}
    header = {"clock": "utc"}
    one = loaded(
        event("ProfilerStep#4", 0, 10_000, **step), event("mm", 0, 9), event("mm", 10_001, 10_009),
        event("ProfilerStep#5", 10_000, 10_030, **step), header=header,
    )  # fmt: skip
    other = loaded(
        event("ProfilerStep#5", 10_000, 10_040, **step), event("mm", 10_005, 10_030),
        rank=1, header=header,
    )  # fmt: skip
    text = written(together(one, other), tmp_path).read_text()
    assert "trace.critical_path(step=5, across_ranks=True)" in text

    text = written(together(one, loaded(event("mm", 0, 9), rank=1)), tmp_path).read_text()
    assert "Not known: no step 4; there are no steps." in text
    assert 'data-chart="job-time"' in text
    assert "what_if" not in text


def test_one_rank_has_no_section_and_costs_nothing(
    example: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def asked(*_: object, **__: object) -> None:
        raise AssertionError

    monkeypatch.setattr(Session, "answer", asked)
    for name in ("critical_path", "what_if", "what_if_grid"):
        monkeypatch.setattr(jobs, name, asked)
    with pytest.raises(ParameterError, match="there is nothing to show in job"):
        profframe.load(example).report(tmp_path / "page.html", sections="job")


def test_of_several_runs_it_is_the_latest_one(tmp_path: Path) -> None:
    both = together(step_jobs.job(2, 2, run="b"), step_jobs.job(2, 2, run="a"))
    text = written(both, tmp_path, "job", "quality").read_text()
    assert "Section Job covers the latest run, b." in text
    alone = together(step_jobs.job(2, 2, run="a"), step_jobs.job(1, 2, run="b"))
    alone.report(tmp_path / "page.html", sections=["job", "provenance"])
    text = (tmp_path / "page.html").read_text()
    assert SECTIONS.findall(text) == ["provenance"]
    assert "Section Job" not in text


@pytest.mark.parametrize(
    ("limit", "steps", "said"),
    [("_MOST_RANKS", 6, "2 ranks"), ("_MOST_EVENTS", 0, "2 events")],
)
def test_large_jobs_say_what_is_left_out(
    limit: str, steps: int, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(section, limit, 1)
    job = (
        step_jobs.job(2, steps)
        if steps
        else together(*(loaded(event("mm", 0, 5), rank=rank) for rank in range(2)))
    )
    text = written(job, tmp_path).read_text()
    assert f"The path and predictions of {said} are left out" in text
    assert ('data-chart="job-time"' in text) == (steps > 0)
    assert "job-path" not in text


def test_long_paths_stay_small(tmp_path: Path) -> None:
    """Eight ranks that are late in turn, thousands of stretches."""
    late = {(step, step % 8): 5_000 + step for step in range(400)}
    job = step_jobs.job(8, 400, late)
    path = job.critical_path(across_ranks=True)
    assert path.events.height > 2_000
    assert pieces(path.events).height <= 400
    page = written(job, tmp_path)
    frames = data(page)["frames"]
    assert frames["job-time-rows_0"]["rows"] == 8 * 200
    assert len(json.dumps(data(page)["frames"])) < 1_000_000


def test_a_table_of_blame_where_there_is_one(
    trace: Trace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = {"rank": 2, "part": "entry", "cause": "host", "name": "mm", "cost_ns": LATE}
    rows = pl.DataFrame([row])
    monkeypatch.setattr(jobs, "blame", lambda _, step: rows.filter(step == 3))
    tables = tables_of(data(written(trace, tmp_path)))
    assert tables["blame"] == [
        {"rank": "2", "part": "entry", "cause": "host", "name": "mm", "cost_ns": str(LATE)}
    ]
    monkeypatch.setattr(section, "_MOST_BLAMED", 1)
    page = written(trace, tmp_path)
    assert "blame" not in tables_of(data(page))
    assert "Blame of 168 events is left out; trace.blame() gives it." in page.read_text()


def test_colours_are_of_all_times_but_those_far_above() -> None:
    assert rank_lanes._ends([3.0, 1.0, 2.0]) == (1.0, 3.0)
    assert rank_lanes._ends([2.0, 1.0, 2.0, 8.0, 8.5]) == (1.0, 8.0)
    assert rank_lanes._ends([2.0, 2.0]) == (0, 2.0)
    assert rank_lanes._ends([0.0, 0.0, 0.0, 7.0]) == (0.0, 7.0)


def test_of_many_ranks_those_have_a_lane_that_the_path_is_on_longest() -> None:
    path = [("host", "slice", "a", rank, rank * 10**6 + 5) for rank in range(70)]
    rows = pl.DataFrame(
        [(rank, bound, edge, name, 0, took, None) for bound, edge, name, rank, took in path],
        ("rank", "bound", "edge", "name", "start_ns", "dur_ns", "waiting_rank"),
        orient="row",
    ).with_columns(start_ns=pl.col("dur_ns").cum_sum() - pl.col("dur_ns"))
    chart = rank_lanes.ribbon(pieces(rows), range(70), "a path", 70).to_dict()
    assert chart["title"]["subtitle"] == ["the 64 ranks that it is on longest"]
    drawn = chart["layer"][1]["encoding"]["y"]["scale"]["domain"]
    assert drawn == [*range(6, 70)]
    few = rank_lanes.ribbon(pieces(rows.head(3)), [0, 1, 2, 9], "a path", 3).to_dict()
    assert few["layer"][1]["encoding"]["y"]["scale"]["domain"] == [0, 1, 2, 9]
    assert "subtitle" not in few["title"]
