"""Gains of advice: by hand, of jobs that are run again, and where there is no replay."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import profframe
from profframe.analysis.simulation import remedies
from profframe.analysis.simulation.remedies import Changed, Remedy
from profframe.errors import AnswerError, ParameterError
from profframe.query.catalogue import advice
from profframe.query.rules import REPLAYS, read, shipped_rules
from profframe.trace import gains
from profframe.trace.jobs import replayed
from profframe.trace.trace import Trace
from tests import overlaps, step_jobs
from tests.builders import event, loaded, together
from tests.conftest import Run
from tests.jobs import NAMES, job
from tests.members import few
from tests.oracles import jobs
from tests.oracles.jobs import COLLECTIVE, HOST, INPUT, KERNEL, Op
from tests.overlaps import COMPUTE, Do
from tests.parity.test_what_if import faster_kernels, gpu, length, programs

NOTHING: Final = np.empty(0, np.int64)
RULE: Final = """\
-- mine: slices of some names.
-- One row per (run, rank).
-- There is no threshold.
-- suggestion: Do less.
-- link: https://docs.pytorch.org/docs/stable/
{replay}-- needs: events
SELECT
    run, rank, 'low' AS severity, 'found' AS finding,
    list(event_id ORDER BY event_id) AS evidence_events, count(*) AS events,
    sum(events.dur_ns) AS estimated_gain_ns, 'own time' AS gain_basis, NULL AS "where"{columns}
FROM events
WHERE {condition}
GROUP BY run, rank
"""
EVENTS: Final = ", list(event_id ORDER BY event_id) AS changed_events"
HALVED: Final = EVENTS + ", list(0.5) AS changed_factors"

Ask = Callable[..., dict[str, Any]]


@pytest.fixture
def asked(tmp_path: Path) -> Ask:
    """The one finding of a rule with a line ``replay:``, and only of it."""

    def ask(trace: Trace, word: str, condition: str, columns: str = EVENTS) -> dict[str, Any]:
        replay = f"-- replay: {word}, what is said\n" if word else ""
        path = tmp_path / "mine.sql"
        path.write_text(RULE.format(replay=replay, condition=condition, columns=columns), "utf-8")
        [row] = trace.answer(advice(path).only([read(path)])).to_dicts()
        return dict(row)

    return ask


def synced() -> Trace:
    """The host waits for the device, and then does something for 100."""
    return gpu(
        event("cudaDeviceSynchronize", 40, 130, category="cuda_runtime", correlation=3),
        event("after", 130, 230),
    )


@pytest.mark.parametrize(
    ("word", "condition", "columns", "gain"),
    [
        ("works", "name = 'gemm'", EVENTS, 81),  # as kernels={"gemm": 0} of what_if
        ("works", "name = 'gemm'", HALVED, 50),
        ("works", "name = 'relu'", EVENTS, 10),
        ("launches", "name = 'gemm'", "", 15),  # of all that is looked at
        ("launches", "name = 'aten::mm'", EVENTS, 15),
        ("launches", "name = 'aten::relu'", EVENTS, 0),  # behind the first kernel
        ("host", "name = 'aten::mm'", EVENTS, 15),
        ("host", "name = 'aten::relu'", EVENTS, 0),
        ("ops", "name = 'aten::mm'", EVENTS, 101),  # the second kernel is launched at 5
    ],
)
def test_by_hand(asked: Ask, word: str, condition: str, columns: str, gain: int) -> None:
    row = asked(gpu(), word, condition, columns)
    assert row["estimated_gain_ns"] == gain
    assert row["gain_basis"].startswith("replayed with what is said; its own time is ")
    share = gain / 111  # from the first work of the device to the last
    assert row["severity"] == ("high" if share >= 0.2 else "medium" if share >= 0.05 else "low")


@pytest.mark.parametrize(
    ("word", "rules_of", "gained"),
    [
        # all launches gain 15, and those of the first op all of that
        (
            "launches",
            {
                "single_tensor_optimizer": ("name = 'aten::mm'", EVENTS),
                "launch_bound": ("name = 'gemm'", ""),
            },
            [15, 0],
        ),
        # both kernels gain 91, of which 81 are of the first
        (
            "works",
            {
                "exposed_communication": ("name = 'gemm'", EVENTS),
                "communication_share": ("kind = 'kernel'", EVENTS),
            },
            [81, 10],
        ),
    ],
)
def test_what_a_narrower_finding_changes_is_not_gained_again(
    tmp_path: Path, word: str, rules_of: dict[str, tuple[str, str]], gained: list[int]
) -> None:
    for name, (condition, columns) in rules_of.items():
        text = RULE.replace("-- mine:", f"-- {name}:").format(
            replay=f"-- replay: {word}, what is said\n", condition=condition, columns=columns
        )
        (tmp_path / f"{name}.sql").write_text(text, "utf-8")
    rules = [read(tmp_path / f"{name}.sql") for name in rules_of]
    found = gpu().answer(advice(tmp_path).only(rules))
    by_rule = dict(found.select("rule", "estimated_gain_ns").iter_rows())
    assert [by_rule[name] for name in rules_of] == gained


def test_the_same_events_are_replayed_once(tmp_path: Path) -> None:
    names = ("exposed_communication", "communication_share")
    for name in names:
        text = RULE.replace("-- mine:", f"-- {name}:").format(
            replay="-- replay: works, what is said\n", condition="name = 'gemm'", columns=EVENTS
        )
        (tmp_path / f"{name}.sql").write_text(text, "utf-8")
    found = gpu().answer(advice(tmp_path).only([read(tmp_path / f"{n}.sql") for n in names]))
    [row] = found.filter(rule="communication_share").to_dicts()
    assert row["gain_basis"] == "own time (not replayed: other findings change the same events)"


@pytest.mark.parametrize(("word", "gain"), [("calls", 90), ("host", 0)])
def test_a_call_that_is_gone_waits_for_nothing(asked: Ask, word: str, gain: int) -> None:
    """Without it the host is done at 140; a wait stays where only the host is faster."""
    row = asked(synced(), word, "name = 'cudaDeviceSynchronize'")
    assert row["estimated_gain_ns"] == gain


def test_a_call_takes_no_time_of_another_thread_in_a_trace_of_hours() -> None:
    """The tail begins 2^42 ns after the call that is changed."""
    begin = (1 << 42) + 20
    trace = loaded(
        event("first", 0, 10),
        event("cudaLaunchKernel", 20, 30, category="cuda_runtime", correlation=1, thread=1),
        event("gemm", 30, 40, category="kernel", device=0, stream=7, thread=9, correlation=1),
        event("tail", begin, begin + 10),
    )
    model, _, _ = replayed(trace, None, None)
    call = Remedy("host", {0: Changed(np.array([1]), None, NOTHING)}, "")
    tail = Remedy("host", {0: Changed(np.array([3]), None, NOTHING)}, "")
    assert remedies.gains(model, [call, tail]) == ([0, 10], 0)


def test_a_transfer_is_hidden_on_all_its_ranks(asked: Ask) -> None:
    row = asked(step_jobs.job(), "works", "kind = 'kernel' AND name LIKE 'nccl%' AND rank = 1")
    assert row["estimated_gain_ns"] == 6 * step_jobs.TRANSFER


def test_what_one_rank_does_is_hidden_behind_a_later_one(asked: Ask) -> None:
    late = {(step, 0): 1_000_000 for step in range(6)}
    row = asked(step_jobs.job(late=late), "host", "name = 'aten::linear' AND rank = 1")
    assert row["estimated_gain_ns"] == 0
    assert "its own time is 100 us per step" in row["gain_basis"]


def test_a_straggler_gains_what_the_job_takes_less_without_it() -> None:
    late = {(step, 2): 500_000 for step in range(6)}
    found = step_jobs.job(late=late).advice()
    [row] = found.filter(rule="straggler").to_dicts()
    assert row["estimated_gain_ns"] == 6 * 500_000
    assert row["ranks"] == [2]
    assert row["gain_basis"].startswith("replayed with the late ranks doing this as the median")


@settings(deadline=None, max_examples=max(settings().max_examples // 2, 4))
@given(programs())
def test_a_job_run_again_gains_what_was_predicted(program: tuple[list[Op], list[int]]) -> None:
    ops, ahead = program
    trace = job(jobs.run(ops, len(ahead)), ahead)
    rows = trace.sql(f"SELECT rank, event_id FROM events WHERE name = '{NAMES[KERNEL]}'")
    changed = {}
    for rank in range(len(ahead)):
        events = rows.filter(rank=rank)["event_id"].to_numpy()
        changed[rank] = Changed(events, np.full(events.size, 0.5), NOTHING)
    model, _, _ = replayed(trace, None, None)
    [gain], error = remedies.gains(model, [Remedy("works", changed, "host")])
    before = length(ops, len(ahead))
    after = length([faster_kernels(op, 0.5) for op in ops], len(ahead))
    assert error == 0
    assert gain == pytest.approx(before - after, abs=0.01 * before)


@st.composite
def loaders(draw: st.DrawFn) -> tuple[list[Op], int, list[int]]:
    """Steps of three ranks or five that load data, and one of them whose loads and ops are slow."""
    ranks, rng = draw(st.sampled_from([3, 5])), draw(st.randoms(use_true_random=False))
    late = rng.randrange(ranks)
    ops: list[Op] = []
    for _ in range(rng.randrange(2, 6)):
        kinds = [INPUT, HOST, *rng.choices((HOST, INPUT, KERNEL), k=rng.randrange(4)), COLLECTIVE]
        for kind in kinds:
            took = [rng.randrange(1_000, 50_000) for _ in range(ranks)]
            if kind in {INPUT, HOST}:
                took[late] += rng.randrange(300_000)
            ops.append(Op(kind, took, [2_000] * ranks))
    return ops, late, [0] + [rng.randrange(-(10**6), 10**6) for _ in range(ranks - 1)]


@pytest.mark.parametrize(("cause", "kind"), [("input", INPUT), ("host", HOST)])
@settings(deadline=None, max_examples=max(settings().max_examples // 4, 2))
@given(program=loaders())
def test_a_job_whose_loads_or_ops_alone_are_mended_gains_what_was_predicted(
    cause: str, kind: str, program: tuple[list[Op], int, list[int]]
) -> None:
    ops, late, ahead = program
    ranks = len(ahead)
    model, _, _ = replayed(job(jobs.run(ops, ranks), ahead), None, None)
    remedy = Remedy("stragglers", {late: Changed(NOTHING, None, NOTHING, is_all=True)}, cause)
    [gain], error = remedies.gains(model, [remedy])
    mended = []
    for op in ops:
        took = [*op.took]
        if op.kind == kind:
            took[late] = sorted(took)[ranks // 2]
        mended.append(replace(op, took=took))
    before, after = length(ops, ranks), length(mended, ranks)
    assert error == 0
    assert gain == pytest.approx(max(before - after, 0), abs=50 * len(ops))


def test_a_late_loader_gains_what_the_loader_costs() -> None:
    """Rank 2 loads for 3 ms more in each step; its op takes 1 ms more, which is not its data."""
    took = [[100_000] * 4, [100_000] * 4, [50_000] * 4, [20_000] * 4]
    took[0] = [100_000, 101_000, 3_100_000, 102_000]
    took[1] = [100_000, 101_000, 1_100_000, 102_000]
    step = [Op(INPUT, took[0]), Op(HOST, took[1]), Op(KERNEL, took[2], [2_000] * 4)]
    ops = [*step, Op(COLLECTIVE, took[3], [2_000] * 4)] * 6
    found = job(jobs.run(ops, 4), [0] * 4).advice().filter(rule="straggler")
    [row] = found.to_dicts()
    assert row["finding"].endswith("before them, its data loading takes longer")
    assert row["ranks"] == [2]
    mended = replace(ops[0], took=[*took[0][:2], 101_500, took[0][3]])
    gain = length(ops, 4) - length([mended if op.kind == INPUT else op for op in ops], 4)
    assert gain == pytest.approx(6 * 3_000_000, rel=0.01)
    [named] = re.findall(r"; what is named alone gains ([0-9.]+) ms;", row["gain_basis"])
    assert float(named) == pytest.approx(gain / 1e6, rel=0.01)
    assert row["estimated_gain_ns"] > gain + 3_000_000, "that of its op as well"


def check_one_number(trace: Trace) -> dict[str, Any]:
    """What advice says that a job gains without late ranks, what_if says, with one range."""
    [row] = trace.advice().filter(rule="straggler").to_dicts()
    said = trace.what_if(stragglers=False).row(1, named=True)
    assert row["estimated_gain_ns"] == max(said["saved_ns"], 0)
    least, most = (max(said["now_ns"] - said[name], 0) for name in ("high_ns", "low_ns"))
    if least < most:
        texts = trace.sql(f"SELECT duration_text({least}) AS least, duration_text({most}) AS most")
        assert ": {} to {};".format(*texts.row(0)) in row["gain_basis"]
    return dict(row)


def test_one_number_says_what_a_job_gains_without_late_ranks() -> None:
    """A rank has a longer op and a longer kernel: the finding names one, and gains both."""
    usual, slow = [], []
    for step in range(4):
        dos = [
            Do("host", [200_000] * 3, "aten::forward"),
            Do("kernel", [100_000] * 3, "gemm"),
            Do("collective", [50_000] * 3, "AllReduce", 20, (COMPUTE,)),
            Do("sync", mark=step),
        ]
        usual += dos
        slow += [dos[0].later(1, 3_000_000), dos[1].later(1, 2_000_000), *dos[2:]]
    trace = overlaps.job(slow, 3)
    row = check_one_number(trace)
    gain = overlaps.length(slow, 3) - overlaps.length(usual, 3)
    assert gain == 4 * 5_000_000
    assert row["estimated_gain_ns"] == pytest.approx(gain, rel=0.01)
    assert row["severity"] == "high"
    [named] = re.findall(r"; what is named alone gains ([0-9.]+) ms;", row["gain_basis"])
    assert float(named) == pytest.approx(4 * 3, rel=0.05)
    late = trace.stragglers().row(0, named=True)
    assert late["held_up_ns"] + late["shared_ns"] == pytest.approx(gain, rel=0.01)


@pytest.mark.parametrize(
    "pattern",
    few(
        [
            "facebookresearch__param/dlrm_kineto/*.gz",
            "xiaobingling93-pixel__Ascend-msinsight/v2/level0/rank*/*.gz",
        ],
        2,
    ),
)
def test_one_number_says_what_a_real_job_gains(traces: Path, pattern: str) -> None:
    row = check_one_number(profframe.load(traces / pattern))
    assert row["gain_basis"].startswith("replayed with ")


class TestNoReplay:
    """The gain is that of the rule, and the finding says why."""

    def check(self, asked: Ask, trace: Trace, reason: str, word: str = "works") -> None:
        row = asked(trace, word, "name = 'gemm' AND run = 'r'")
        assert row["estimated_gain_ns"] == 6 * step_jobs.KERNEL
        assert row["gain_basis"] == f"own time (not replayed: {reason})"
        assert row["severity"] == "low"

    def trace(self) -> Trace:
        return step_jobs.job(ranks=1)

    def test_of_a_rule_that_names_no_change(self, asked: Ask) -> None:
        assert asked(self.trace(), "", "name = 'gemm'")["gain_basis"] == "own time"

    def test_without_events(self, asked: Ask) -> None:
        assert asked(self.trace(), "works", "name = 'gemm'", "")["gain_basis"] == "own time"

    def test_of_many_runs(self, asked: Ask) -> None:
        names = ["r", *map(str, range(gains.MOST_RUNS))]
        traces = [step_jobs.job(ranks=1, run=name) for name in names]
        self.check(
            asked, together(*traces), "it is one of 5 runs, and at most 4 are replayed at once"
        )

    def test_with_a_time_limit(self, asked: Ask) -> None:
        self.check(asked, self.trace().with_limits(timeout_s=60), "the question has a time limit")

    def test_of_a_run_that_is_too_large(self, asked: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(gains, "MOST_EVENTS", 3)
        self.check(asked, self.trace(), "the run has more than 3 events")

    def test_where_a_replay_is_off(self, asked: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(remedies, "gains", lambda _, wanted: ([0 for _ in wanted], -0.031))
        self.check(asked, self.trace(), "the unchanged replay is 3.1% off")

    @pytest.mark.parametrize(
        ("error", "reason"),
        [(ParameterError("too few"), "too few"), (ValueError("of what"), "it failed: of what")],
    )
    def test_where_it_fails(
        self, asked: Ask, monkeypatch: pytest.MonkeyPatch, error: Exception, reason: str
    ) -> None:
        def fail(*_: object) -> None:
            raise error

        monkeypatch.setattr(gains, "replayed", fail)
        self.check(asked, self.trace(), reason)

    def test_of_a_cause_that_no_change_is_like(self, asked: Ask) -> None:
        row = asked(self.trace(), "stragglers", "name = 'gemm'", ", 'late by launch' AS cause")
        assert row["gain_basis"] == "own time (not replayed: no change of a replay simulates it)"


def test_several_runs_are_replayed_one_by_one(asked: Ask) -> None:
    traces = [step_jobs.job(ranks=1, run=name) for name in ("r", "s")]
    row = asked(together(*traces), "works", "name = 'gemm' AND run = 's'")
    assert row["estimated_gain_ns"] == 6 * (step_jobs.KERNEL - step_jobs.LAUNCH)
    assert row["severity"] == "high"


@pytest.mark.parametrize("line", ["nothing, what is said", "works", "works what is said"])
def test_a_change_that_there_is_none_of_is_refused(tmp_path: Path, line: str) -> None:
    path = tmp_path / "mine.sql"
    path.write_text(
        RULE.format(replay=f"-- replay: {line}\n", condition="true", columns=""), "utf-8"
    )
    with pytest.raises(AnswerError, match=r"mine\.sql: expected '-- replay: WORD, what that is'"):
        read(path)


def test_rules_name_changes_that_there_are() -> None:
    words = {rule.replay for rule in shipped_rules() if rule.replay}
    assert words == {*REPLAYS}


def test_every_way_to_ask_says_the_same(run: Run, tmp_path: Path) -> None:
    trace = step_jobs.job(late={(step, 1): 500_000 for step in range(6)})
    store = tmp_path / "store"
    trace.to_parquet(store)
    expected = trace.advice().select("rule", "estimated_gain_ns", "gain_basis")
    assert expected["gain_basis"].str.starts_with("replayed with").any()
    for verb in (("advice", store), ("answer", "advice", store)):
        rows = json.loads(run(*verb, "--format", "json")[1])
        assert [tuple(row[name] for name in expected.columns) for row in rows] == expected.rows()
