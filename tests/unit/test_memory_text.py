"""The line about the most memory: that of `memory_peak`, of the worst device and rank."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Final

import polars as pl
import pytest

from profframe import load
from profframe.show import units
from profframe.show.memory_text import memory_texts
from tests.conftest import Run

CPU: Final = "examples/cpu_training.json.gz"
GPU: Final = "examples/gpu_training.json.gz"
SNAPSHOT: Final = "examples/snapshot.pickle"
GIB: Final = 1 << 30
PEAK: Final = {
    "run": "a", "rank": 0, "device": 0, "allocated_bytes": 2 * GIB, "reserved_bytes": 3 * GIB,
    "op_name": "aten::mul", "module_name": "nn.Module: MLP_23", "has_totals": True,
}  # fmt: skip
LINE: Final = "at most 2.00 GiB allocated (3.00 GiB reserved) on device 0"
LITTLE: Final = PEAK | {"allocated_bytes": 10}


@pytest.mark.parametrize(
    ("peaks", "text"),
    [
        ([PEAK], f"{LINE}, at aten::mul in MLP_23"),
        ([PEAK | {"module_name": None}], f"{LINE}, at aten::mul"),
        ([PEAK | {"op_name": None, "module_name": None}], LINE),
        ([PEAK | {"module_name": "a\x1b[31m"}], rf"{LINE}, at aten::mul in a\x1b[31m"),
        (
            [LITTLE, PEAK | {"rank": 3, "device": 1}],
            f"{LINE[:-1]}1 of rank 3, at aten::mul in MLP_23",
        ),
        ([LITTLE, PEAK | {"run": "b"}], f"{LINE} in b, at aten::mul in MLP_23"),
        ([LITTLE, PEAK | {"device": None}], "at most 10 B allocated (3.00 GiB reserved) on device"),
        (
            [PEAK | {"device": None, "reserved_bytes": 0}],
            "at most 2.00 GiB allocated on the host, at aten::mul in MLP_23",
        ),
        (
            [PEAK | {"has_totals": False, "reserved_bytes": None}],
            "at most 2.00 GiB allocated since the trace began on device 0, at aten::mul in MLP_23",
        ),
    ],
)
def test_it_is_of_the_largest_peak(peaks: list[dict[str, object]], text: str) -> None:
    first = memory_texts(pl.DataFrame(peaks, schema_overrides={"device": pl.Int32}))[0]
    assert first.startswith(text) if text.endswith("device") else first == text


def test_shorter_texts_drop_the_module_and_then_the_op() -> None:
    assert memory_texts(pl.DataFrame([PEAK]))[1:] == (f"{LINE}, at aten::mul", LINE)


def test_memory_from_before_the_trace_is_in_words_where_it_is_much() -> None:
    half = PEAK | {"before_trace_bytes": GIB}
    of_it = "1.00 GiB of it from before the trace"
    assert memory_texts(pl.DataFrame([half])) == (
        f"{LINE}, at aten::mul in MLP_23; {of_it} (usually weights)",
        f"{LINE}, at aten::mul; {of_it} (usually weights)",
        f"{LINE}; {of_it} (usually weights)",
        f"{LINE}; {of_it}",
        f"at most 2.00 GiB allocated on device 0; {of_it}",
        f"{LINE}, at aten::mul in MLP_23",
        f"{LINE}, at aten::mul",
        LINE,
    )
    for little in (None, 0, 20_000_000):
        peak = pl.DataFrame([PEAK | {"before_trace_bytes": little}])
        assert memory_texts(peak)[0] == f"{LINE}, at aten::mul in MLP_23"


def test_there_is_none_without_a_level() -> None:
    assert memory_texts(pl.DataFrame()) == ()
    row = PEAK | {"allocated_bytes": None}
    assert memory_texts(pl.DataFrame([row], schema_overrides={"allocated_bytes": pl.Int64})) == ()


def test_the_first_lines_have_it_where_memory_was_recorded(run: Run) -> None:
    peak = load(CPU).memory_peak().row(0, named=True)
    amount = units.size(peak["allocated_bytes"])
    lines = run(CPU)[1].partition("\n\n")[0].splitlines()
    (line,) = (line for line in lines if line.startswith("memory "))
    assert line.split(None, 1)[1] == f"at most {amount} allocated on the host, at aten::empty"
    assert re.search(rf"^ +memory +at most {amount}", str(load(CPU).summary()), re.MULTILINE)
    assert "\nmemory " not in run("examples/job")[1]


def commands(printed: str) -> list[list[str]]:
    """Suggested commands below a table or among the first lines, without their comments."""
    lines = (line.partition("next ")[2] or line for line in printed.splitlines())
    typed = (line.strip() for line in lines if line.strip().startswith("profframe answer memory"))
    return [shlex.split(line, comments=True)[1:] for line in typed]


def test_from_the_first_lines_to_owners_by_module_and_what_is_never_freed(run: Run) -> None:
    """Each suggested command is run as it is printed."""
    (first,) = commands(run(GPU)[1].partition("\n\n")[0])
    assert first == ["answer", "memory_owners", GPU]
    code, owners, err = run(*first)
    assert (code, err) == (0, "")
    assert owners.splitlines()[1].split()[:5] == ["CUDA", "0", "before_trace", "865.21", "MiB"]
    words = "before_trace: allocated before recording began, usually weights and optimizer state: "
    assert f"{words}its owner cannot be known" in " ".join(owners.split())
    by_module, at_end = commands(owners)
    assert by_module == ["answer", "memory_owners", "-p", "per=module", GPU]
    assert at_end == ["answer", "memory_owners", "-p", "at=end", GPU]
    assert run(*by_module)[0] == 0
    assert commands(run(*at_end)[1]) == [[*at_end[:-1], "-p", "per=module", GPU]]
    peak = run("answer", "memory_peak", GPU)[1]
    assert commands(peak) == [first, by_module, at_end]
    assert "before trace" in peak.splitlines()[0] + peak.splitlines()[1]


def test_suggestions_repeat_the_part_of_the_trace_and_are_not_for_programs(run: Run) -> None:
    given = ("answer", "memory_owners", GPU, "--step", "2")
    assert all(words[-2:] == ["--step", "2"] for words in commands(run(*given)[1]))
    assert commands(run(*given)[1])
    assert not commands(run(*given, "--format", "csv")[1])


def test_snapshots_lead_to_stacks(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A path that a shell would divide is quoted."""
    copy = "it's a snapshot.pickle"
    (tmp_path / copy).write_bytes(Path(SNAPSHOT).read_bytes())
    monkeypatch.chdir(tmp_path)
    for name in ("memory_peak", "memory_owners", "memory_stacks"):
        assert commands(run("answer", name, copy)[1]) == [
            ["answer", "memory_stacks", "-p", "per=frame", copy],
            ["answer", "memory_stacks", "-p", "at=change", copy],
        ]
    by_frame = run("answer", "memory_stacks", copy, "--per", "frame")[1]
    assert commands(by_frame) == [
        ["answer", "memory_stacks", "-p", "per=frame", "-p", "at=change", copy]
    ]
