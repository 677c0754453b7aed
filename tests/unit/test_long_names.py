"""Names of kernels as people say them, whatever a verb prints; names of 2,000 characters."""

from __future__ import annotations

import csv
import io
import json
import pickle
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import click
import polars as pl
import pytest

import profframe
from profframe.cli.verbs import verbs
from profframe.query.catalogue import find
from profframe.show.kernel_names import candidates, disambiguated, replaced, short_name
from tests.conftest import Run
from tests.members import few
from tests.unit.test_cli import MODULE, on_terminal

WIDEST: Final = 160
ARGUMENTS: Final[dict[str, list[str]]] = {
    "show": ["show", "TRACE"],
    "info": ["info", "TRACE"],
    "tree": ["tree", "TRACE"],
    "critical-path": ["critical-path", "TRACE"],
    "blame": ["blame", "STORE", "--run", "now"],
    "answer": ["answer", "kernels", "TRACE"],
    "sql": ["sql", "TRACE", "SELECT * FROM events ORDER BY dur_ns DESC LIMIT 50"],
    "advice": ["advice", "TRACE"],
    "diff": ["diff", "BEFORE", "TRACE"],
    "explain": ["explain", "BEFORE", "TRACE"],
    "check": ["check", "STORE", "--baseline", "before*"],
    "roofline": ["roofline", "TRACE"],
    "what-if": ["what-if", "TRACE", "--kernel", "*gemm*=0.5", "--host", "0.5"],
    "hang": ["hang", "DUMP"],
    "store ls": ["store", "ls", "STORE"],
    "store kept": ["store", "kept", "STORE"],
    "store upgrade": ["store", "upgrade", "STORE"],
    "store verify": ["store", "verify", "STORE"],
}
"""What each verb with rows is given."""
OTHER_FORMS: Final = ["show", "critical-path", "answer", "diff", "store ls"]
"""Verbs whose rows are read back from every form; from JSON and Parquet those of each verb are."""
WITH_KERNELS: Final = ["gaps", "kernels", "key_averages", "op_kernels", "roofline", "sequences"]
"""Answers whose rows of the trace name kernels, each from another column or table."""
UNITS: Final[dict[str | None, str | tuple[str, ...]]] = {
    "ns": "_ns",
    "bytes": "bytes",
    "bytes/s": "bytes_per_s",
    "GB/s": "gb_per_s",
    "FLOP": "flops",
    "FLOP/s": ("flop_per_s", "flops_per_s"),
    "FLOP/byte": "flop_per_byte",
    "J": "_j",
    "W": "_w",
    "0..1": ("share", "mfu", "hfu"),
}
"""How names of columns end that have a unit."""


def with_rows() -> Iterator[str]:
    def below(group: click.Group, names: tuple[str, ...]) -> Iterator[str]:
        for name, command in group.commands.items():
            if isinstance(command, click.Group):
                yield from below(command, (*names, name))
            elif any(parameter.name == "columns" for parameter in command.params):
                yield " ".join((*names, name))

    return below(verbs, ())


def test_every_verb_with_rows_is_tried() -> None:
    assert {*with_rows()} == set(ARGUMENTS)


@pytest.fixture(scope="module")
def sources(root: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("long")
    before, trace = folder / "before.json", folder / "trace.json"
    whole = profframe.load(root / "examples" / "gpu_training.json.gz")
    whole.filter(steps=2).export_chrome_trace(before)
    document = json.loads(before.read_bytes())
    types = ", ".join(f"at::Type{number}<float, (int){number}>" for number in range(75))
    for event in document["traceEvents"]:
        if event.get("cat") == "kernel":
            event["name"] = f"void {short_name(event['name'])}_gemm<{types}>(at::Tensor&, long)"
            assert len(event["name"]) >= 1_900
    trace.write_text(json.dumps(document))
    for run_name, path in (("before", before), ("before.1", before), ("now", trace)):
        profframe.load(path, run=run_name).to_parquet(folder / "store")
    profframe.load(trace).to_parquet(folder / "one")
    dump = folder / "dump_0"
    entry = {"process_group": ("0", "default_pg"), "collective_seq_id": 1, "record_id": 0}
    dump.write_bytes(pickle.dumps({"version": "2.10", "pg_config": {}, "entries": [entry]}))
    names = {"TRACE": trace, "BEFORE": before, "STORE": folder / "store", "DUMP": dump}
    return {name: str(path) for name, path in (names | {"ONE": folder / "one"}).items()}


@pytest.fixture
def asked(run: Run, sources: dict[str, str]) -> Any:
    """What a verb writes."""

    def ask(verb: str, *options: str) -> str:
        words = [sources.get(word, word) for word in ARGUMENTS[verb]]
        code, out, err = run(*words, *options)
        assert code == 0, err
        return out

    return ask


@pytest.mark.parametrize("verb", ARGUMENTS)
def test_no_line_of_a_pipe_is_long(verb: str, asked: Any, tmp_path: Path) -> None:
    out = asked(verb)
    assert max(map(len, out.splitlines()), default=0) <= WIDEST
    assert "at::Type" not in out
    if verb in {"sql", "roofline"}:
        file = tmp_path / "rows.txt"
        asked(verb, "-o", str(file))
        assert max(map(len, file.read_text().splitlines())) <= WIDEST


@pytest.mark.parametrize("verb", ARGUMENTS)
def test_rows_of_every_verb_are_read_back_and_chosen(verb: str, asked: Any, tmp_path: Path) -> None:
    rows = json.loads(asked(verb, "--format", "json"))
    head = [*rows[0]] if rows else next(csv.reader(io.StringIO(asked(verb, "--format", "csv"))))
    assert all([*row] == head for row in rows)
    file = tmp_path / "rows.parquet"
    chosen = [head[-1], head[0]]
    asked(verb, "--columns", ",".join(chosen), "-o", str(file))
    stored = pl.read_parquet(file)
    assert (stored.columns, stored.height) == (chosen, len(rows))


@pytest.mark.parametrize("verb", few(ARGUMENTS, OTHER_FORMS))
def test_other_forms_have_the_same_rows(verb: str, asked: Any, tmp_path: Path) -> None:
    file = tmp_path / "rows.parquet"
    asked(verb, "-o", str(file))
    stored = pl.read_parquet(file)
    head, *lines = csv.reader(io.StringIO(asked(verb, "--format", "csv")))
    assert (head, len(lines)) == (stored.columns, stored.height)
    marked = asked(verb, "--format", "markdown")
    assert "at::Type" not in marked
    if verb != "diff":  # a comment
        assert [line[:1] for line in marked.splitlines()].count("|") >= 2


@pytest.mark.parametrize("verb", few(ARGUMENTS, ["show", "sql", "store ls"]))
def test_a_column_that_is_not_there(verb: str, asked: Any, run: Run, sources: Any) -> None:
    head = next(csv.reader(io.StringIO(asked(verb, "--format", "csv"))))
    words = [sources.get(word, word) for word in ARGUMENTS[verb]]
    code, out, err = run(*words, "--columns", f"{head[0]}x")
    assert (code, out) == (2, "")
    assert f"'{head[0]}'" in err


@pytest.mark.parametrize(
    "name", few(profframe.answers().filter(kind="answer")["name"], WITH_KERNELS)
)
def test_no_answer_has_a_long_line_or_a_long_name_of_a_kernel(
    name: str, run: Run, sources: dict[str, str]
) -> None:
    code, out, err = run("answer", name, sources["ONE"])
    assert code == 0, err
    assert max(map(len, out.splitlines()), default=0) <= WIDEST
    assert "at::Type" not in out


def test_full_names_are_whole_in_a_pipe(asked: Any, sources: dict[str, str]) -> None:
    longest = max(profframe.load(sources["TRACE"]).kernels()["name"], key=len)
    for verb in ("show", "answer", "diff"):
        assert "at::Type74<float, (int)74>>(at::Tensor&, long)" in asked(verb, "--full-names")
    assert longest in asked("answer", "--full-names")


def test_a_terminal_of_100_columns_has_names_to_know_kernels_by(sources: dict[str, str]) -> None:
    shown = on_terminal(100, [*MODULE, sources["TRACE"]])
    assert max(map(len, shown.splitlines())) <= 100
    (kernels,) = [part for part in shown.split("\n\n") if part.startswith("Kernels")]
    names = [re.split(r"\s{2,}", line)[0] for line in kernels.splitlines()[2:12]]
    assert len({*names}) == len(names) == 10
    assert all(len(name) >= 40 for name in names if "…" in name)


def test_full_names_are_folded_on_a_terminal(sources: dict[str, str]) -> None:
    command = [*MODULE, "answer", "kernels", sources["TRACE"], "--full-names"]
    shown = on_terminal(100, command)
    assert max(map(len, shown.splitlines())) <= 100
    assert "…" not in shown
    assert shown.replace("\n", "").replace(" ", "").count("at::Type74<") >= 1


def test_texts_that_only_look_like_kernels_stay(tmp_path: Path, run: Run) -> None:
    slice_ = {"ph": "X", "pid": 1, "tid": 1, "ts": 1, "dur": 4}
    names = ("train.py(18): step", "load<int>(x)", "void f<int>(float*)")
    categories = ("python_function", "user_annotation", "kernel")
    events = [
        slice_ | {"name": name, "cat": category, "tid": number}
        for number, (name, category) in enumerate(zip(names, categories, strict=True))
    ]
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": events}))
    out = run("sql", str(path), "SELECT name FROM events ORDER BY name")[1]
    assert out.splitlines()[1:] == ["load<int>(x)", "train.py(18): step", "f"]


def test_names_between_arrows_are_replaced() -> None:
    rows = pl.DataFrame({"sequence": ["void f<int>() -> g", "plain", None], "n": [1, 2, 3]})
    assert candidates(rows)["void f<int>()"] == "f"
    assert replaced(rows, {"void f<int>()": "f"})["sequence"].to_list() == ["f -> g", "plain", None]


def test_names_of_columns_end_in_their_unit() -> None:
    methods = {"blame", "trend", "outliers", "critical_path", "regressions", "tree"}
    columns = [
        (name, column)
        for name in profframe.answers().filter(kind="answer")["name"]
        if name not in methods
        for column in find(name).columns
        if column.unit
    ]
    assert len(columns) > 300
    assert [(n, c.name) for n, c in columns if not c.name.endswith(UNITS[c.unit])] == []


def test_the_json_of_the_page_is_that_of_the_verb(root: Path, run: Run) -> None:
    page = (root / "docs" / "formats.md").read_text()
    (row,) = json.loads(re.search(r"^```json\n(.+?)\n```", page, re.MULTILINE)[1])  # type: ignore[index]
    trace = str(root / "examples" / "gpu_training.json.gz")
    out = run("answer", "kernels", trace, "--columns", ",".join(row), "--format", "json")[1]
    assert json.loads(out)[0] == row
    assert [*json.loads(out)[0]] == [*row]


def test_names_that_would_look_the_same_have_words_that_tell_them_apart() -> None:
    full = {
        "f<4, at::AddFunctor<float>>()": "[AddFunctor float]",
        "f<4, at::AddFunctor<c10::Half>>()": "[Half]",
        "f<4, at::FillFunctor<float>>()": "[FillFunctor]",
        "g<128, 64>()": "#1",  # of the same words
        "g<64, 128>()": "#2",
        "g<64, 128, 2>()": "[2]",
    }
    rows = pl.DataFrame({"name": [*full]})
    assert disambiguated(rows)["name"].to_list() == [f"{n[0]} {words}" for n, words in full.items()]
    assert disambiguated(rows.reverse())["name"].to_list()[3:] == [
        "f [FillFunctor]",
        "f [Half]",
        "f [AddFunctor float]",
    ]


def test_many_names_that_look_the_same_are_numbered() -> None:
    rows = pl.DataFrame({"name": [f"f<at::T{number}>()" for number in range(1000)]})
    assert disambiguated(rows)["name"].to_list() == [f"f #{number}" for number in range(1, 1001)]
    assert disambiguated(rows.head(100))["name"][7] == "f [T7]"
