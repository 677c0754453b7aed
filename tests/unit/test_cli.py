"""The command line as people use it: what it prints, where, and its exit code."""

from __future__ import annotations

import fcntl
import io
import json
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
from itertools import takewhile
from pathlib import Path

import polars as pl
import pytest

import profframe
from profframe import cli, schema
from profframe.show import compact_tables, quality_text
from profframe.trace.trace import Trace
from tests import needs
from tests.builders import event, loaded, stored
from tests.conftest import Run
from tests.members import few

EXAMPLE = str(Path(__file__).parent.parent.parent / "examples" / "cpu_training.json.gz")
MODULE = [sys.executable, "-m", "profframe"]
HOSTILE = "[red]a[/red]\x1b[31m\nb\u202e 名前 '\"<b>"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A store of two ranks with a hostile name, kernels and quality notes."""
    events: list[dict[str, object]] = [
        {"rank": rank, "kind": kind, "name": f"{HOSTILE} {kind}", "self_ns": 10**6 * (rank + 1)}
        | {"event_id": i, "start_ns": 10**18 + i, "dur_ns": 10**6, "device": device}
        for rank in (0, 1)
        for i, (kind, device) in enumerate([("host_op", None), ("kernel", 0)])
    ]
    step: dict[str, object] = {"rank": 1, "event_id": 2, "kind": "annotation", "step": 4}
    step |= {"name": "ProfilerStep#4", "start_ns": 10**18, "dur_ns": 10**9}
    head = {"clock": "utc", "start_ns": 10**18, "device_type": "CUDA"}
    path = tmp_path_factory.mktemp("cli") / "store"
    stored(
        events=[*events, step],
        traces=[head | {"rank": rank} for rank in (0, 1)],
        quality=[{"issue": "truncated", "events": 3, "action": f"kept {HOSTILE}"}],
    ).to_parquet(path)
    return str(path)


def test_a_trace_is_shown_without_a_verb(run: Run) -> None:
    code, out, err = run(EXAMPLE)

    assert (code, err) == (0, "")
    assert "Overview" in out
    assert re.search(r"^Self time \(top 10 of \d+\)$", out, re.MULTILINE)
    assert "Kernels" not in out
    assert run("show", EXAMPLE)[1] == out


def test_ranks_kernels_and_quality_are_shown_where_there_are_any(store: str, run: Run) -> None:
    code, out, err = run(store)

    assert (code, err) == (0, "")
    headings = [line for line in out.splitlines() if line[:1].isupper()]
    assert headings == [
        *("Overview", "Device time, first to last work"),
        "Time of the devices by category, mean of 2 ranks",
        *("Self time, mean of 2 ranks", "Kernels by short name, mean of 2 ranks"),
        quality_text.HEADING,
    ]
    assert "1.000 ms" in out


def test_what_the_devices_did_and_why_they_waited(tmp_path: Path, run: Run) -> None:
    """The host is in cudaMalloc from 30 us to 80 us and launches at 90 us what runs from 100 us."""
    slices = [
        ("user_annotation", "ProfilerStep#7", 1, 0, 150, {}),
        ("cpu_op", "aten::mm", 1, 10, 130, {}),
        ("cuda_runtime", "cudaLaunchKernel", 1, 15, 5, {"correlation": 1}),
        ("cuda_runtime", "cudaMalloc", 1, 30, 50, {}),
        ("cuda_runtime", "cudaLaunchKernel", 1, 90, 5, {"correlation": 2}),
        ("kernel", "sgemm", 7, 20, 10, {"correlation": 1, "device": 0, "stream": 7}),
        ("kernel", "relu", 7, 100, 30, {"correlation": 2, "device": 0, "stream": 7}),
    ]
    events = [
        {"ph": "X", "cat": category, "name": name, "pid": 1, "tid": tid, "ts": ts, "dur": dur}
        | {"args": args}
        for category, name, tid, ts, dur, args in slices
    ]
    path = tmp_path / "gpu.json"
    path.write_text(json.dumps({"traceEvents": events}))
    code, printed, _ = run(str(path))
    assert code == 0
    sections = [part.splitlines() for part in printed.split("\n\n")]
    shown = {
        lines[0]: [
            re.split(r"\s{2,}", line.strip())
            for line in takewhile(lambda line: ": " not in line, lines[1:])
        ]
        for lines in sections
    }
    assert shown["Device time"] == [
        ["step", "span", "host", "compute", "idle", "idle %"],
        ["first to last work", "110.000 us", "40.000 us", "70.000 us", "63.6 %"],
        ["7", "150.000 us", "150.000 us", "40.000 us", "110.000 us", "73.3 %"],
    ]
    assert shown["Idle time of the devices, first to last work"] == [
        ["device", "cause", "idle", "idle %", "gaps", "mean", "max", "host mostly in"],
        ["0", "host_wait", "70.000 us", "63.6 %", "1", "70.000 us", "70.000 us", "aten::mm"],
    ]
    assert shown["Largest gaps"] == [
        ["device", "start", "dur", "%", "cause", "host was in", "for", "then came"],
        ["0", "30.000 us", "70.000 us", "100.0 %", "host_wait", "cudaMalloc", "50.000 us", "relu"],
    ]


def test_an_overview_without_device_work_has_no_columns_of_it() -> None:
    host = {"run": "r", "rank": 0, "events": 9, "devices": 0, "kernels": 0, "device_busy_ns": 0}
    copies = host | {"devices": 1, "device_busy_ns": 5}
    assert compact_tables.overview(pl.DataFrame([host])).columns == ["run", "rank", "events"]
    assert compact_tables.overview(pl.DataFrame([host, copies])).columns == [*host]


@pytest.mark.parametrize(("module_ns", "expected"), [(30, "nn.Module: A_0"), (None, "Step*")])
def test_a_step_is_named_only_where_nothing_inside_is(module_ns: int | None, expected: str) -> None:
    numbers = ("run", "rank", "device", "gaps", "idle_ns", "mean_ns", "max_ns")
    idle: dict[str, object] = dict.fromkeys(numbers, 0)
    idle |= {"cause": "sync", "span_share": 0.5, "line_name": None, "op_name": None, "op_ns": None}
    idle |= {"annotation_name": "ProfilerStep*", "annotation_ns": 90}
    idle |= {"module_name": module_ns and "nn.Module: A_0", "module_ns": module_ns}
    (shown,) = compact_tables.causes(pl.DataFrame([idle]))["host mostly in"]
    assert shown.endswith(expected)


def test_names_do_nothing_to_the_terminal(store: str, run: Run) -> None:
    for verb in ((), ("info",), ("answer", "self_times"), ("answer", "kernels")):
        out = run(*verb, store)[1]
        assert not set(out) & set("\x1b\u202e")
    assert r"[red]a[/red]\x1b[31m\nb\u202e 名前" in out


def test_rows_are_chosen_and_sorted(store: str, run: Run) -> None:
    top = run(EXAMPLE, "--top", "3", "--sort", "calls")[1]
    calls = [int(m) for m in re.findall(r"host_op +(\d+) ", top)]
    assert calls == sorted(calls, reverse=True)
    assert len(calls) == 3
    assert "1 rank," in run(store, "--rank", "1")[1]
    assert "steps" in run(store, "--step", "4")[1]


def test_a_phase_of_inference_is_chosen_and_shown(tmp_path: Path, run: Run) -> None:
    rows = (
        event("step[EXTEND bs=1 toks=9]", 0, 40, category="user_annotation"),
        event("step[DECODE bs=3]", 50, 90, category="user_annotation"),
        event("aten::sampled", 60, 70),
    )
    loaded(*rows).to_parquet(tmp_path / "store")
    path = str(tmp_path / "store")
    whole, decode = run(path)[1], run(path, "--phase", "decode")[1]
    assert "Inference phases" in whole
    assert ("prefill" in whole, "prefill" in decode, "sampled" in decode) == (True, False, True)
    speedscope = str(tmp_path / "a.speedscope.json")
    assert run("export", path, "--phase", "prefill", "-o", speedscope)[0] == 0
    assert "DECODE" not in Path(speedscope).read_text()
    code, _, error = run(path, "--phase", "draft")
    assert code == 1
    assert "no phase named 'draft' (known: decode, prefill)" in error


def test_convert_keeps_the_answers(tmp_path: Path, run: Run) -> None:
    code, out, err = run("convert", EXAMPLE, "-o", str(tmp_path), "--as-run", "r", "--as-rank", "3")

    assert (code, out) == (0, "")
    assert "1 run, 1 rank" in err
    assert (tmp_path / "run=r" / "rank=3" / "events.parquet").is_file()
    converted = profframe.load(tmp_path).self_times().drop("run", "rank")
    assert converted.equals(profframe.load(EXAMPLE).self_times().drop("run", "rank"))


def test_answers_are_listed_and_described(run: Run) -> None:
    listed = run("answer")[1]
    described = run("answer", "key_averages")[1]

    lines = listed.splitlines()
    assert [line.split()[0] for line in lines[1:]] == profframe.answers()["name"].to_list()
    assert all(word in described for word in ("group_by_stack_n", "=0", "INTEGER", "self_cpu_ns"))
    assert "``" not in "".join(run("answer", name)[1] for name in ("blame", "trend", "outliers"))
    names = json.loads(run("answer", "--format", "json")[1])
    assert [row["name"] for row in names] == profframe.answers()["name"].to_list()


def test_csv_and_json_are_the_rows(store: str, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    expected = profframe.load(store).self_times()

    assert cli.run(["answer", "self_times", store, "--format", "csv"]) == 0
    csv = pl.read_csv(io.BytesIO(capfdbinary.readouterr().out), schema=expected.schema)
    assert cli.run(["answer", "self_times", store, "--format", "json"]) == 0
    rows = json.loads(capfdbinary.readouterr().out)

    shown = [
        name.replace("\x1b", r"\x1b").replace("\u202e", r"\u202e") for name in expected["name"]
    ]
    assert csv.equals(pl.DataFrame(expected).with_columns(name=pl.Series(shown)))
    assert rows == expected.to_dicts()


def test_json_has_no_words_that_json_lacks(store: str, run: Run) -> None:
    query = "SELECT 'nan'::DOUBLE AS a, 'inf'::DOUBLE AS b, [1, NULL] AS c, 'x'::BLOB AS d"

    rows = run("sql", store, query, "--format", "json")[1]
    csv = run("sql", store, query, "--format", "csv")[1]

    assert json.loads(rows) == [{"a": None, "b": None, "c": [1, None], "d": "78"}]
    assert csv == 'a,b,c,d\nNaN,inf,"[1, null]",78\n'


@pytest.mark.parametrize("form", ["csv", "json", "jsonl", "parquet", "txt"])
def test_a_file_is_written_in_the_form_of_its_ending(
    form: str, store: str, tmp_path: Path, run: Run
) -> None:
    file = tmp_path / f"rows.{form}"

    code, out, err = run("answer", "kernels", store, "-o", str(file))

    assert (code, out, err) == (0, "", "")
    assert file.stat().st_size
    if form == "parquet":
        assert pl.read_parquet(file).equals(profframe.load(store).kernels())


def test_parameters_are_given_as_text(run: Run) -> None:
    asked = ("answer", "key_averages", EXAMPLE, "-p", "group_by_input_shape=true")

    rows = json.loads(run(*asked, "--format", "json")[1])

    assert rows == profframe.load(EXAMPLE).key_averages(group_by_input_shape=True).to_dicts()


def test_moments_are_since_the_start(store: str, run: Run) -> None:
    assert " 0.000 us" in run("answer", "steps", store)[1]
    sole = run("sql", store, "SELECT max(start_ns) AS start_ns FROM events")[1]
    assert "2001-09-09 01:46:40.000000001 UTC" in sole


def test_info_shows_what_is_inside(store: str, run: Run) -> None:
    out = run("info", store)[1]

    words = ("2 ranks", "Tables", "Threads", "Quality", "events", "CUDA")
    assert all(word in out for word in words)
    assert "2001-09-09 01:46:40.000000000 UTC" in out


def test_a_file_named_like_a_verb_needs_its_folder(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "info").write_bytes(Path(EXAMPLE).read_bytes())
    monkeypatch.chdir(tmp_path)

    assert run("./info")[0] == 0
    assert run("info", "info")[0] == 0
    assert run("info")[0] == 2


WRONG_USAGE = [
    ("--no-such-option",),
    ("{store}", "--top", "0"),
    ("{store}", "--top", "x"),
    ("{store}", "--sort", "self"),
    ("convert", "{store}"),
    ("answer", "self_time", "{store}"),
    ("answer", "self_time"),
    ("answer", "self_times", "{store}", "--format", "parquet"),
    ("answer", "self_times", "{store}", "--format", "xml"),
    ("answer", "key_averages", "{store}", "-p", "group_by_stack_n"),
    ("answer", "key_averages", "{store}", "-p", "group_by_stack_n=many"),
    ("answer", "key_averages", "{store}", "-p", "group_by_stak_n=1"),
    ("sql", "{store}"),
    ("roofline",),
    ("roofline", "{store}", "--per", "x"),
    ("roofline", "{store}", "--dtype", "fp17"),
    ("roofline", "{store}", "--top", "0"),
    ("augment", "{store}"),
]


@pytest.mark.parametrize("arguments", WRONG_USAGE, ids=range(len(WRONG_USAGE)))
def test_wrong_usage_is_2(arguments: tuple[str, ...], store: str, run: Run) -> None:
    code, out, err = run(*(argument.format(store=store) for argument in arguments))

    assert (code, out) == (2, "")
    if arguments:
        assert re.fullmatch(r"error: .+\n", err)
    assert "Usage: profframe" in err or " try: profframe " in err


@pytest.mark.parametrize(
    ("verb", "option"),
    [("tree", "--event"), ("critical-path", "--annotation"), ("hang", "--as-rank")],
)
def test_what_chooses_one_thing_is_given_once(verb: str, option: str, store: str, run: Run) -> None:
    """The last one would be taken, and nothing said of the others."""
    code, out, err = run(verb, store, option, "1", option, "2")

    assert (code, out) == (2, "")
    assert f"{option}: only one, not 1, 2" in err


def test_a_mistyped_name_suggests_the_nearest(store: str, run: Run) -> None:
    assert "'self_times'" in run("answer", "self_time", store)[2]
    assert "'self_ns'" in run(store, "--sort", "self_n")[2]
    assert "group_by_stack_n" in run("answer", "key_averages", "-p", "group_by_stak_n=1")[2]


BAD_INPUT = {
    "missing": (("{tmp}/missing.json",), "missing.json"),
    "empty": (("{tmp}/empty",), "empty"),
    "no trace": (("{tmp}/text",), "text"),
    "line break in its name": (("{tmp}/a\nb",), r"a\nb"),
    "empty folder": (("{tmp}/folder",), "folder"),
    "damaged store": (("{tmp}/damaged",), "traces.parquet"),
    "bad SQL": (("sql", "{store}", "SELEC 1"), "syntax error"),
    "unknown rank": (("{store}", "--rank", "7"), "no rank 7 (known: 0-1)"),
    "unknown step": (("{store}", "--step", "7"), "no step 7 (known: 4)"),
    "unwritable": (("convert", "{store}", "-o", "{tmp}/text/store"), "text"),
    "unwritable file": (("answer", "-o", "{tmp}/no/such.csv"), "such.csv"),
    "missing sql file": (("sql", "{tmp}/missing", "SELECT 1"), "missing"),
    "two ranks": (
        ("augment", "{store}", "{tmp}/o"),
        "a file holds one (run, rank), and there are 2",
    ),
    "no such rank": (("augment", "{store}", "{tmp}/o", "--rank", "7"), "no rank 7"),
    "no folder": (("augment", "{store}", "{tmp}/no/o", "--rank", "0"), "cannot be written"),
    "nothing to augment": (("augment", "{tmp}/missing", "{tmp}/o"), "no such file"),
    "missing devices": (("roofline", "{store}", "--devices", "{tmp}/missing"), "cannot be read"),
    "folder of devices": (("roofline", "{store}", "--devices", "{store}"), "cannot be read"),
    "odd devices": (("roofline", "{store}", "--devices", "{tmp}/odd"), "no field named 'match_'"),
}


@pytest.mark.parametrize(("arguments", "named"), BAD_INPUT.values(), ids=BAD_INPUT)
def test_bad_input_is_1_and_one_line(
    arguments: tuple[str, ...], named: str, store: str, tmp_path: Path, run: Run
) -> None:
    (tmp_path / "empty").touch()
    (tmp_path / "text").write_text("no trace at all")
    (tmp_path / "a\nb").write_text("no trace at all")
    (tmp_path / "odd").write_text('{"Mine": {"match_": 1}}')
    (tmp_path / "folder").mkdir()
    (tmp_path / "damaged" / "run=a" / "rank=0").mkdir(parents=True)
    for name in schema.TABLES:
        (tmp_path / "damaged" / "run=a" / "rank=0" / f"{name}.parquet").touch()

    code, out, err = run(*(a.format(store=store, tmp=tmp_path) for a in arguments))

    assert (code, out) == (1, "")
    assert re.fullmatch(r"error: .+\n", err)
    assert named in err


def test_what_nobody_thought_of_is_one_line_too(
    store: str, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("two\nlines")

    monkeypatch.setattr(Trace, "sql", fail)

    assert run("sql", store, "SELECT 1")[2].startswith(r"error: internal: RuntimeError: two\nlines")
    monkeypatch.setenv("PROFFRAME_DEBUG", "1")
    with pytest.raises(RuntimeError):
        run("sql", store, "SELECT 1")


def test_an_interrupt_is_130(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Trace, "sql", interrupt)

    assert cli.run(["sql", store, "SELECT 1"]) == 130


def test_what_goes_wrong_after_an_interrupt_is_130(
    store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        try:
            raise KeyboardInterrupt
        finally:
            raise RuntimeError("Set changed size during iteration")

    monkeypatch.setattr(Trace, "sql", interrupt)

    assert cli.run(["sql", store, "SELECT 1"]) == 130


def test_what_duckdb_makes_of_an_interrupt_is_130(
    store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise RuntimeError("Query interrupted")

    monkeypatch.setattr("profframe.query.session.query", interrupt)

    assert cli.run(["sql", store, "SELECT 1"]) == 130


def test_progress_is_for_terminals_and_for_what_takes_a_while(tmp_path: Path) -> None:
    small = tmp_path / "small.json"
    small.write_text('[{"ph": "X", "name": "x", "pid": 1, "tid": 1, "ts": 1, "dur": 4}]')
    code = (
        "import sys; from profframe.cli import loading, run; loading.QUIET_S = 0; run(sys.argv[1:])"
    )
    asked = ["sql", str(small), "SELECT name FROM events"]
    patient = [sys.executable, "-c", code, *asked]

    assert "loading" in on_terminal(80, patient)
    assert "loading" not in on_terminal(80, [*MODULE, *asked])
    piped = subprocess.run(patient, check=True, capture_output=True, text=True)
    assert piped.stderr == ""


def test_the_process_ends_after_what_was_asked_for_its_end_and_takes_nothing_apart() -> None:
    code = (
        "import atexit, sys\n"
        "from profframe import cli\n"
        "class Kept:\n"
        "    def __del__(self): print('taken apart')\n"
        "kept, run = Kept(), cli.run\n"
        "cli.run = lambda words: (atexit.register(print, 'closed'), run(words), 3)[-1]\n"
        "sys.argv = ['profframe', '--version']\n"
        "cli.main()"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (3, "")
    assert done.stdout.splitlines()[1:] == ["closed"]


def test_module_and_version() -> None:
    done = subprocess.run([*MODULE, "--version"], check=True, capture_output=True, text=True)

    version, _, scanner = done.stdout.partition(" (")
    assert version == f"profframe {profframe.__version__}"
    assert "native scanner" in scanner


def test_a_reader_that_goes_away_is_no_error(store: str) -> None:
    query = "SELECT range FROM range(1000000)"
    command = [*MODULE, "sql", store, query, "--format", "csv"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == -signal.SIGPIPE


def on_terminal(columns: int, command: list[str]) -> str:
    """What a terminal of some width is sent."""
    pid, terminal = pty.fork()
    if pid == 0:
        environment = {k: v for k, v in os.environ.items() if k not in {"COLUMNS", "NO_COLOR"}}
        os.execve(sys.executable, command, environment | {"TERM": "xterm"})  # noqa: S606
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    sent = b""
    while True:
        try:
            sent += os.read(terminal, 65536)
        except OSError:  # the program has ended
            break
    os.waitpid(pid, 0)
    os.close(terminal)
    return re.sub(r"\x1b\[[0-9;]*m", "", sent.decode()).replace("\r\n", "\n")


@pytest.mark.parametrize("columns", few([60, 80, 140], 2))
def test_tables_fit_the_terminal(columns: int, store: str) -> None:
    from rich.cells import cell_len

    query = "SELECT * EXCLUDE (kernel_category, computes_and_communicates) FROM events"
    commands = ([store], ["info", store], ["sql", store, query], ["answer"])
    code = f"from profframe.cli import run\nfor one in {commands}: run(one); print('END')"
    shown = on_terminal(columns, [sys.executable, "-c", code]).split("END\n")[:-1]
    assert len(shown) == len(commands)
    assert max(cell_len(line) for text in shown for line in text.splitlines()) <= columns
    assert ("not shown for lack of width" in shown[2]) == (columns < 140)
    assert "sentence" in shown[3]


def test_facts_can_be_torchs(tmp_path: Path, run: Run) -> None:
    needs.torch()  # they are those of the release that is here
    slice_ = {"ph": "X", "name": "x", "pid": 1, "tid": 1, "ts": 1, "dur": 4}
    events = [
        slice_ | {"cat": "cpu_op", "args": {"External id": 7}},
        slice_ | {"cat": "cuda_runtime", "tid": 2, "args": {"correlation": 7}},
        slice_ | {"cat": "kernel", "tid": 3, "args": {"External id": 7}},
    ]
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": events}))
    query = "SELECT sum(device_ns)::BIGINT AS total FROM events"
    right = run("sql", str(path), query, "--format", "csv")
    torchs = run("sql", str(path), query, "--format", "csv", "--compat", "torch")
    assert (right[1], torchs[1]) == ("total\n8000\n", "total\n12000\n")
