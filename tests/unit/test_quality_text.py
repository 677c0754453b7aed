"""Quality notes for people: what was noticed, what was done about it, and what to do."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from profframe.schema import CHECKS, quality_rows
from profframe.show.footnotes import footnotes
from profframe.show.quality_text import notes, sentence
from tests.conftest import Run
from tests.unit.test_opening import first_lines, labelled, written


def test_a_note_says_what_how_much_what_was_done_and_what_to_do() -> None:
    row = quality_rows(("outside_steps", 3, "1.000 ms", None)).to_pylist()[0]
    assert sentence(row) == (
        "Work of devices in no profiler step, although there are steps: 1.000 ms. "
        "Left out of what is per step; in times of the whole trace. "
        "Usually it was launched before the first step: nothing to do, or record a step before. "
        "`profframe diff --outside all` counts it"
    )


def test_names_of_columns_keep_their_letters() -> None:
    row = quality_rows(("overrun", 1, None, None)).to_pylist()[0]
    assert sentence(row).endswith(". dur_ns is NULL")


@pytest.mark.parametrize("number", [1, 5])
def test_files_that_are_no_traces_are_one_note(number: int, tmp_path: Path, run: Run) -> None:
    written(tmp_path)
    for one in range(number):
        (tmp_path / f"train{one}.py").write_text("import torch\n")
    printed = run(tmp_path)[1]
    notes = [line for line in printed.splitlines() if line.startswith("skipped_file")]
    (note,) = notes
    assert note.split()[1] == str(number)
    assert labelled(printed)["recorded"][0].endswith("; 3 quality notes below")
    if number > 1:
        assert "5 files of the directory or pattern are no traces. Not loaded: " in note
        assert "train0.py, train1.py, train2.py, 2 more." in printed
    assert "Name the traces, or a pattern such as '*.json.gz'" in " ".join(printed.split())
    assert first_lines(printed)[0].endswith(": 1 run, 1 rank, 2 steps, 200.000 us")


def test_names_of_files_are_whole() -> None:
    details = [
        "/x/weird: name.bin: not a trace: it is not JSON: Expecting value",
        "/x/snapshot.pickle: byte 1,024: not a trace: its opcode GLOBAL can run code",
        "/x/a.json: it is a folder: not a file",
    ]
    rows = quality_rows(*(("skipped_file", 0, detail, None) for detail in details))
    quality = pl.DataFrame(rows).with_columns(run=pl.lit("r"), rank=0)
    (note,) = notes(quality)
    assert note.files == ["weird: name.bin", "snapshot.pickle", "a.json"]


def test_ranks_that_differ_in_durations_alone_share_a_note() -> None:
    """Durations add up, and of the longest ones the longest counts."""
    details = ("1.500 ms, up to 0.900 ms", "0.700 ms, up to 0.600 ms", "8.000 ms, up to 2.500 ms")
    rows = [quality_rows(("kernel_without_launch", 2, detail, None)) for detail in details]
    rows += [quality_rows(("outside_steps", 1, "1.000 ms; 1 more", None)) for _ in "ab"]
    rows += [quality_rows(("outside_steps", 1, "1.000 ms; 2 more", None))]
    of_ranks = [pl.DataFrame(r).with_columns(run=pl.lit("r"), rank=n) for n, r in enumerate(rows)]
    first, second, third = notes(pl.concat(of_ranks, how="vertical_relaxed"))
    assert (first.events, first.ranks) == (6, {0, 1, 2})
    assert ": 10.200 ms, up to 2.500 ms. Kept" in first.text
    assert (second.events, ": 2.000 ms; 1 more" in second.text) == (2, True)
    assert (third.events, ": 1.000 ms; 2 more" in third.text) == (1, True)


def test_what_happens_often_says_what_to_do() -> None:
    """Checks that real traces have, most of them many times."""
    often = (
        "kernel_without_launch", "launch_without_work", "outside_steps", "incomplete_step",
        "host_ahead", "crossing_slices", "external_id_mismatch", "collective_without_metadata",
        "work_needs_lengths", "fill_without_work", "wait_for_unknown_event", "unknown_device",
    )  # fmt: skip
    assert not [name for name in often if not CHECKS[name].remedy]
    assert not [c.name for c in CHECKS.values() if c.remedy and not c.remedy.endswith(".")]


def test_what_to_do_about_launches_that_lack_fits_profilers_that_record_devices_alone() -> None:
    what_to_do = CHECKS["kernel_without_launch"].remedy
    assert "Record the calls of the host too, or a step before" in what_to_do
    (note,) = footnotes(pl.DataFrame({"cause": ["other"]}), {}, "idle")
    assert "record the calls of the host too, or a step before" in note[1]
