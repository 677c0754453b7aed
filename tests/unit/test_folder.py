"""What `profframe` alone says of the folder that it is in, and what its help looks like."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from profframe.cli import folder
from profframe.cli.verbs import verbs
from tests.conftest import ROOT, Run
from tests.unit.test_file_summaries import snapshot

TRACE = ROOT / "examples" / "gpu_training.json.gz"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def copied(path: Path, age_s: int = 0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(TRACE, path)
    os.utime(path, (10**9 - age_s, 10**9 - age_s))
    return path


def test_traces_are_listed_with_their_size_and_kind(here: Path, run: Run) -> None:
    copied(here / "new trace.json.gz")
    copied(here / "runs" / "old" / "rank0.json.gz", age_s=100)
    copied(here / "runs" / "old" / "rank1.json.gz", age_s=100)
    (here / "package.json").write_text('{"name": "x", "schemaVersion": 2}')
    (here / "notes.txt").write_text("traceEvents")
    (here / ".hidden.json").write_text('{"traceEvents": []}')
    snapshot(here / "memory")
    code, printed, error = run()
    assert (code, error) == (0, "")
    lines = printed.splitlines()
    assert lines[0] == (
        "4 traces in this folder and 2 levels of folders below it (1 in this folder itself), the "
        "latest first:"
    )
    listed = sorted(line.split("  ")[0] for line in lines[1:4])
    assert listed == ["memory/snapshot.pickle", "new trace.json.gz", "runs/old/"]
    assert any("KiB" in line and line.endswith("torch's profiler") for line in lines)
    assert any(line.endswith("torch's profiler, 2 files") for line in lines)
    assert "  profframe 'new trace.json.gz'" in lines
    assert "  profframe runs/old" in lines


def test_folders_of_a_job_do_not_hide_other_traces(here: Path, run: Run) -> None:
    for rank in range(30):
        copied(here / "job" / f"rank{rank}.json.gz")
    copied(here / "first.json.gz", age_s=100)
    lines = run()[1].splitlines()
    assert lines[1].startswith("job/ ")
    assert lines[1].endswith("torch's profiler, 30 files")
    assert lines[2].startswith("first.json.gz ")


def test_a_long_list_counts_the_traces_that_it_leaves_out(here: Path, run: Run) -> None:
    for number in range(22):
        copied(here / f"{number}.json.gz", age_s=number)
    for rank in range(2):
        copied(here / "job" / f"rank{rank}.json.gz", age_s=100)
    assert "and 4 more traces" in run()[1].splitlines()


def test_a_store_is_one_line(here: Path, run: Run) -> None:
    assert run("convert", TRACE, "-o", here / "kept")[0] == 0
    printed = run()[1]
    assert "1 trace in" in printed
    assert "  profframe kept" in printed.splitlines()


def test_a_folder_without_traces_says_how_to_record_one(here: Path, run: Run) -> None:
    (here / "data.json").write_text("[1, 2]")
    code, printed, _ = run()
    assert code == 0
    assert "No trace found in this folder" in printed
    assert "export_chrome_trace" in printed
    assert "profframe --help" in printed


def test_a_large_tree_is_not_walked(here: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    copied(here / "a" / "b" / "c" / "deep.json.gz")
    printed = run()[1]
    assert "No trace" in printed
    assert "Not looked at: 1 folder more than 2 levels below." in printed
    for number in range(30):
        (here / f"{number}.json").write_text("[]")
    monkeypatch.setattr(folder, "MOST_ENTRIES", 20)
    assert "Not looked at: files and folders after the first 20." in run()[1]


def test_names_of_files_do_nothing(here: Path, run: Run) -> None:
    copied(here / "a\x1b[31m\nb.json.gz")
    copied(here / "info", age_s=-50)
    printed = run()[1]
    assert "\x1b" not in printed
    assert r"a\x1b[31m\nb.json.gz" in printed
    assert "  profframe ./info" in printed.splitlines()


def test_links_that_lead_nowhere_and_folders_that_cannot_be_read(here: Path, run: Run) -> None:
    (here / "gone.json").symlink_to(here / "nothing.json")
    (here / "loop").symlink_to(here)
    copied(here / "a.json.gz")
    os.mkfifo(here / "pipe.json")
    assert "1 trace in" in run()[1]


def test_help_fits_one_screen(run: Run) -> None:
    code, printed, _ = run("--help")
    lines = printed.splitlines()
    assert code == 0
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 80
    assert "..." not in printed.replace("TRACE...", "")
    places = [printed.index(f"\n  {name} ") for name in ("show", "advice", "answer", "sql")]
    assert places == sorted(places)
    assert all(f"\n  {name} " in printed for name in verbs.commands)
