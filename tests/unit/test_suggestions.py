"""What to type instead: of a command line one line of error, of a call in Python one sentence."""

from __future__ import annotations

import copy
import inspect
import pickle
import re
import shlex
from pathlib import Path
from typing import Final

import pytest

import profframe
from profframe import Trace, errors
from profframe.cli.suggestions import Suggestion, suggestion
from profframe.cli.verbs import verbs
from profframe.errors import ArgumentError, ParameterError, UnknownNameError
from profframe.query import renamed
from tests.builders import event, loaded
from tests.conftest import Run

LINES: Final = {
    # SQL without quotes, and elsewhere
    "sql T select name from events": 'sql T "select name from events"',
    "sql T select name from events limit 3": 'sql T "select name from events limit 3"',
    "sql T select name from events where name = 'a b'": (
        "sql T \"select name from events where name = 'a b'\""
    ),
    "sql 'select name from events' T": 'sql T "select name from events"',
    "sql select name from events T": 'sql T "select name from events"',
    "select name from events T": 'sql T "select name from events"',
    "T select name from events": 'sql T "select name from events"',
    "'select name from events' T": 'sql T "select name from events"',
    "sql T select name from events --format csv": 'sql T "select name from events" --format csv',
    # names within SQL
    "sql T 'select nam from events'": 'sql T "select name from events"',
    "sql T 'select name from event'": 'sql T "select name from events"',
    "sql T 'select e.durns from events e'": 'sql T "select e.dur_ns from events e"',
    "sql T 'select cuont(*) from events'": 'sql T "select count(*) from events"',
    # the wrong way round, and an answer as a verb
    "answer T gaps": "answer gaps T",
    "answer T gaps --top 5": "answer gaps T --top 5",
    "answer T gaps -p top=5": "answer gaps T -p top=5",
    "answer T gasp": "answer gaps T",
    "gaps T": "answer gaps T",
    "gaps T --top 5": "answer gaps T --top 5",
    "T gaps": "answer gaps T",
    "T gaps --top 5": "answer gaps T --top 5",
    "T gap": "answer gaps T",
    "gap T": "answer gaps T",
    "self-times T": "answer self_times T",
    "kernel T": "answer kernels T",
    # a table as an answer or a verb
    "answer quality T": 'sql T "FROM quality"',
    "answer T quality": 'sql T "FROM quality"',
    "quality T --format csv": 'sql T "FROM quality" --format csv',
    "T quality": 'sql T "FROM quality"',
    # an answer by the name that it had
    "unfreed T": "answer memory_peak T -p per=block",
    "kernel-shapes T": "answer kernels T -p per=launch",
    "T steps --top 5": "answer step_times T --top 5",
    "answer T idle_owners": "answer idle T -p by=line -p per=device",
    "tree T --row_limit 5": "tree T --top 5",
    # verbs
    "inof T": "info T",
    "T info": "info T",
    "T inof": "info T",
    "INFO T": "info T",
    "critical_path T": "critical-path T",
    "answer info T": "info T",
    "advise T": "advice T",
    "chek T --baseline x": "check T --baseline x",
    "inof nosuch.json": "info nosuch.json",
    # names of answers, parameters, choices, columns
    "answer gap T": "answer gaps T",
    "answer gap": "answer gaps",
    "answer gap T --no-cache": "answer gaps T --no-cache",
    "answer gaps --no-cache T --tpo 5": "answer gaps --no-cache T --top 5",
    "answer self_time T --columns calls": "answer self_times T --columns calls",
    "answer gaps T -p tpo=5": "answer gaps T -p top=5",
    "answer gaps T -p per=strem": "answer gaps T -p per=stream",
    "answer gaps T --per strem": "answer gaps T --per stream",
    "answer gaps T --kernel-wait-ns 5": "answer gaps T -p kernel_wait_ns=5",
    "answer gaps T -p step=2": "answer gaps T --step 2",
    "answer kernels T --sort totl_ns": "answer kernels T --sort total_ns",
    "answer kernels T --columns nme,calls": "answer kernels T --columns name,calls",
    "T --sort self": "T --sort self_ns",
    "answer T gap -p tpo=5": "answer gaps T -p top=5",
    # options
    "answer kernels T --tpo 5": "answer kernels T --top 5",
    "T --tpo 5": "T --top 5",
    "answer kernels T --format jsn": "answer kernels T --format json",
    "answer kernels T --fromat json": "answer kernels T --format json",
    "blame T --per nam": "blame T --per name",
    "tree T --tpo 5": "tree T --top 5",
    "tree T --limit 5": "tree T --top 5",
    "T -n 5": "T --top 5",
    "report T --row-limit=5": "report T --top 5",
    "roofline T --group-by op": "roofline T --per op",
    "answer kernels T --group-by category": "answer kernels T --per category",
    "blame T --steps 1-2": "blame T --step 1-2",
    "answer gaps T -p run=a": "answer gaps T --run a",
    "info T --json": "info T --format json",
    "info T --col run": "info T --columns run",
    "answer gaps T --order-by dur_ns": "answer gaps T --sort dur_ns",
    # files
    "trace.jsn": "trace.json",
    "info trase.json": "info trace.json",
    "answer gaps trace.jsonn --top 5": "answer gaps trace.json --top 5",
    "info runz/first.json": "info runs/first.json",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a trace, and a folder with another one."""
    path = tmp_path_factory.mktemp("suggestions")
    rows = (
        event("aten::mm", 0, 10),
        event("sgemm", 20, 30, category="kernel", device=0, stream=7),
        event("sgemm", 40, 50, category="kernel", device=0, stream=7),
    )
    (path / "runs").mkdir()
    loaded(*rows).export_chrome_trace(path / "trace.json")
    loaded(*rows).export_chrome_trace(path / "runs" / "first.json")
    return path


@pytest.mark.parametrize(("typed", "meant"), LINES.items(), ids=LINES)
def test_a_command_line_is_mended(
    typed: str, meant: str, folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)

    code, out, err = run(*shlex.split(re.sub(r"\bT\b", "trace.json", typed)))

    assert (code, out) == (2, "")
    assert re.fullmatch(r"error: .+\n", err)
    command = re.sub(r"\bT\b", "trace.json", meant)
    assert err.endswith(f" try: profframe {command}\n")


RUN: Final = (
    "sql T select",
    "answer T gaps --top",
    "gaps T",
    "inof T",
    "trace.jsn",
    "sql T 'select nam",
)


@pytest.mark.parametrize("typed", [line for line in LINES if line.startswith(RUN)])
def test_what_is_suggested_runs(
    typed: str, folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    arguments = LINES[typed].replace("T ", "trace.json ").replace(" T", " trace.json")
    assert run(*shlex.split(arguments))[0] == 0


def test_a_star_that_the_shell_expanded_is_a_star(
    folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    names = sorted(path.name for path in folder.iterdir())
    err = run("sql", "trace.json", "select", *names, "from", "events")[2]
    assert err.endswith('try: profframe sql trace.json "select * from events"\n')


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("sql", "trace.json"), "Missing argument 'QUERY' (Usage: profframe sql"),
        (("answer", "kernels", "trace.json", "--format", "xml"), "'xml' is not one of 'table'"),
        (
            ("answer", "gaps", "trace.json", "--top", "many"),
            "64 bits, not 'many' (Usage:",
        ),
        (("answer", "gaps", "trace.json", "--top", "5", "-p", "top=4"), "--top 5 and -p top=4"),
        (("answer", "xyzzy", "trace.json"), "no answer named 'xyzzy' (known: "),
        (("answer", "quality"), "no answer named 'quality': it is a table"),
        (
            ("answer", "trace.json"),
            "trace.json is no answer: name one before it; `profframe answer`",
        ),
        # which have only their unit, or little, in common
        (
            ("answer", "step_times", "trace.json", "--sort", "dur_ns"),
            "no column named 'dur_ns' (kn",
        ),
        (
            ("answer", "runs", "trace.json", "--columns", "count"),
            "no column named 'count' (known: ",
        ),
        (("trace.json", "--xyzzy"), "No such option '--xyzzy' (Usage: profframe show"),
        (("diff", "trace.json"), "Missing argument 'OTHER' (Usage: profframe diff"),
    ],
)
def test_what_cannot_be_mended_is_one_line_too(
    arguments: tuple[str, ...], words: str, folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert re.fullmatch(r"error: .+\n", err)
    assert words in err
    assert "try:" not in err


@pytest.mark.parametrize(
    "arguments",
    [
        ("nosuch.json",),
        ("xyzzy",),
        ("info", "nosuch/at/all"),
        ("sql", "trace.json", "selec name from events"),
        ("sql", "trace.json", "select xyzzy.a from events"),
        ("sql", "trace.json", "select fuses from events"),
        ("sql", "trace.json", "select e.points from events e"),
        ("trace.json", "--rank", "9"),
    ],
)
def test_bad_input_stays_bad_input(
    arguments: tuple[str, ...], folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    code, out, err = run(*arguments)
    assert (code, out) == (1, "")
    assert re.fullmatch(r"error: .+\n", err)
    assert "try:" not in err


@pytest.mark.parametrize(
    ("word", "shown"),
    [
        ("trace.json", "trace.json"),
        ("select 1", '"select 1"'),
        ("select 'a'", "\"select 'a'\""),
        ("select $HOME", "'select $HOME'"),
        ('select "a"', "'select \"a\"'"),
        ("a`b", "'a`b'"),
    ],
)
def test_a_shell_takes_what_is_suggested(word: str, shown: str) -> None:
    command = Suggestion((word,)).command
    assert command == f"profframe {shown}"
    assert shlex.split(command) == ["profframe", word]


@pytest.fixture(scope="module")
def trace() -> Trace:
    return loaded(
        event("ProfilerStep#2", 0, 100, category="user_annotation"), event("aten::mm", 0, 10)
    )


CALLS: Final = {
    "trace.gap()": (AttributeError, "a Trace has no attribute 'gap'; did you mean trace.gaps()?"),
    "trace.key_average()": (AttributeError, "did you mean trace.key_averages()?"),
    "trace.event": (AttributeError, "did you mean trace.events?"),
    "trace.Kernels()": (AttributeError, "did you mean trace.kernels()?"),
    "trace.plot.kernel()": (AttributeError, "did you mean trace.plot.kernels()?"),
    "trace.xyzzy": (AttributeError, "a Trace has no attribute 'xyzzy'"),
    "profframe.laod": (AttributeError, "did you mean profframe.load()?"),
    "profframe.anwsers": (AttributeError, "did you mean profframe.answers()?"),
    "trace.filter(step=2)": (
        ArgumentError,
        "filter() takes no argument 'step'; did you mean trace.filter(steps=2)?",
    ),
    "trace.filter(kind='kernel')": (ArgumentError, "trace.filter(kinds='kernel')?"),
    "trace.filter(rank=0, steps=2)": (ArgumentError, "trace.filter(ranks=0, steps=2)?"),
    "trace.gaps(step=2)": (ArgumentError, "did you mean trace.filter(steps=2).gaps()?"),
    "trace.gaps(5, rank=0, sort='dur_ns')": (
        ArgumentError,
        "did you mean trace.filter(ranks=0).gaps(5, sort='dur_ns')?",
    ),
    "trace.gaps(tpo=5)": (ArgumentError, "gaps() takes no argument 'tpo'; did you mean 'top'?"),
    "trace.gaps(wings=5)": (
        ArgumentError,
        "(known: columns, each, kernel_wait_ns, on, per, sort, top)",
    ),
    "trace.step_times(phase='decode')": (
        ArgumentError,
        "trace.filter(phases='decode').step_times()?",
    ),
    "trace.plot.kernels(rank=0)": (ArgumentError, "trace.filter(ranks=0).plot.kernels()?"),
    "trace.answer('gaps', step=2)": (ParameterError, "trace.filter(steps=2).answer('gaps')?"),
    "trace.answer('gaps', tpo=5)": (
        ParameterError,
        "no parameter named 'tpo'; did you mean 'top'?",
    ),
    "trace.answer('gap')": (UnknownNameError, "no answer named 'gap'; did you mean 'gaps'?"),
    "trace.gaps(per='strem')": (ParameterError, "not 'strem'; did you mean 'stream'?"),
    "trace.gaps(sort='dur')": (ParameterError, "no column named 'dur'; did you mean 'dur_ns'?"),
    "trace.sql('select nam from events')": (UnknownNameError, 'Candidate bindings: "name"'),
    "trace.sql('select name from event')": (UnknownNameError, 'Did you mean "events"?'),
    "trace.scan('event')": (UnknownNameError, "did you mean 'events'?"),
    "trace.filter(kinds='kernels')": (UnknownNameError, "did you mean 'kernel'?"),
    "trace.filter(steps=9)": (UnknownNameError, "no step 9 (known: 2)"),
    "profframe.load('x', rnak=3)": (ArgumentError, "load() takes no argument 'rnak'; did you mean"),
    "profframe.diff(trace, trace, kernels_by='x')": (ArgumentError, "did you mean 'kernel_by'?"),
}


@pytest.mark.parametrize("call", CALLS)
def test_a_call_in_python_is_mended(call: str, trace: Trace) -> None:
    kind, words = CALLS[call]
    with pytest.raises(kind) as error:
        eval(call, {"trace": trace, "profframe": profframe})  # noqa: S307 - of this file
    assert words in str(error.value)
    assert "\n" not in str(error.value)


def test_a_wrong_argument_is_a_type_error_too(trace: Trace) -> None:
    with pytest.raises(TypeError):
        trace.gaps(tpo=5)  # type: ignore[call-arg]
    with pytest.raises(errors.ProfframeError):
        trace.gaps(tpo=5)  # type: ignore[call-arg]


def test_methods_are_what_they_were(trace: Trace) -> None:
    assert list(inspect.signature(Trace.gaps).parameters)[:3] == ["self", "top", "per"]
    assert Trace.gaps.__name__ == "gaps"
    assert not hasattr(trace, "_no_such")
    assert not hasattr(trace, "__array__")
    assert pickle.loads(pickle.dumps(trace)).events.equals(trace.events)  # noqa: S301 - its own
    assert copy.copy(trace).events.equals(trace.events)


def test_a_missing_file_in_python_says_which_is_near(folder: Path) -> None:
    with pytest.raises(profframe.NoTraceFoundError) as error:
        profframe.load(folder / "trace.jsn")
    path = folder / "trace.json"
    assert str(error.value).endswith(f"trace.jsn: no such file or directory; did you mean {path}?")


WRONG: Final = (
    "top", "rows", "limit", "n", "count", "sort", "sort-by", "by", "per", "group-by", "out", "file",
    "filter", "run", "rank", "ranks", "step", "steps", "phase", "name", "names", "kind", "device",
    "threads", "depth", "width", "json", "csv", "quiet", "verbose", "color", "memory", "time",
    "start", "end", "stat", "mode", "type", "title", "hots", "kernels", "colums",
)  # fmt: skip
KNOWN: Final = {
    ("-n", "--top"), ("--rows", "--top"), ("--limit", "--top"), ("--by", "--per"),
    ("--group-by", "--per"), ("--sort-by", "--sort"),
    ("--json", "--format"), ("--csv", "--format"),
}  # fmt: skip


OTHERS: Final = {
    "augment": ["IN", "OUT"],
    "answer": ["gaps", "T"],
    "check": ["T", "--baseline", "1"],
    "convert": ["T", "-o", "o"],
    "export": ["T", "-o", "o"],
    "diff": ["T", "U"],
    "explain": ["T", "U"],
    "sql": ["T", "SELECT 1"],
}


def _one_slip(word: str) -> set[str]:
    """Words that differ in one letter, or in the order of two."""
    halves = [(word[:place], word[place:]) for place in range(len(word) + 1)]
    letters = "abcdefghijklmnopqrstuvwxyz-"
    return {
        *(a + b[1:] for a, b in halves if b),
        *(a + b[1] + b[0] + b[2:] for a, b in halves if len(b) > 1),
        *(a + letter + b[1:] for a, b in halves if b for letter in letters),
        *(a + letter + b for a, b in halves for letter in letters),
    }


@pytest.mark.parametrize("verb", sorted({*verbs.commands} - {"store"}))
def test_a_suggested_option_is_one_of_the_verb_and_means_the_same(verb: str) -> None:
    options = {name for option in verbs.commands[verb].params for name in option.opts}
    for wrong in WRONG:
        option = f"-{wrong}" if len(wrong) == 1 else f"--{wrong}"
        if option in options | renamed.options(verb).keys():
            continue
        for value in ([], ["5"]):
            line = [verb, *OTHERS.get(verb, ["T"])]
            found = suggestion(verbs, [*line, option, *value])
            if found is None:
                continue
            assert found.words[: len(line)] == (*line,)
            new, *rest = found.words[len(line) :]
            if new == "-p":
                new, rest = rest[0].split("=")[0], value
                assert new in {"top", "per"}
                new = f"--{new}"
            else:
                assert new in options
            assert rest == value or (new, rest) == ("--format", [wrong])
            is_beginning = len(wrong) > 2 and re.match(rf"{option}\w", new)
            is_near = is_beginning or new[2:] in _one_slip(wrong) or (option, new) in KNOWN
            assert is_near, (line, option, found)
