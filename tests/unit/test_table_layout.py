"""Tables that do not fit: what goes, in which order, and what is said of it."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from profframe.cli.output import OutputOptions
from profframe.cli.rankings import Ranking
from profframe.errors import AnswerError
from profframe.query.catalogue import find, selects
from profframe.query.division import ranked_by
from profframe.query.header import Answer, parse
from profframe.show import columns, table_layout, terminal
from profframe.show.table_layout import Column, Wishes, layout
from profframe.trace.trace import Trace
from tests.builders import event, loaded
from tests.conftest import Run

WIDE: Final = pl.DataFrame(
    {
        "name": ["aten::mm", "relu"], "op_id": [1, 2], "calls": [3, 4], "kernel_id": [7, 8],
        "stream": [7, 7], "self_ns": [1_000, 2_000], "total_ns": [2_000, 3_000],
        "owner_name": ["forward", "backward"],
    }
)  # fmt: skip
MAIN: Final = ("name", "owner_name", "calls")
LEFT_OUT: Final = "not shown for lack of width: "
SAME: Final = "in all these rows: "
WIDTHS: Final = (80, 100, 160)


def shown(frame: pl.DataFrame, width: int, **options: Any) -> tuple[list[str], str]:
    """Headings of a table of some width, and what is said below it."""
    text = terminal.text(terminal.table(frame, width, **options), width)
    assert max(map(cell_len, text.splitlines())) <= width
    lines = text.splitlines()
    return re.split(r"  +", lines[0].strip()), " ".join(lines[1 + frame.height :])


@pytest.mark.parametrize(
    ("width", "headings", "below"),
    [
        (80, "name, op id, calls, kernel id, stream, self, total, owner name", ""),
        (70, "name, op id, calls, kernel id, self, total, owner name", f"{SAME}stream=7"),
        (58, "name, op id, calls, self, total, owner name", f"{LEFT_OUT}kernel_id"),
        (52, "name, calls, self, total, owner name", f"{LEFT_OUT}op_id, kernel_id"),
        (40, "name, calls, self, owner name", f"{LEFT_OUT}op_id, kernel_id, total_ns"),
        (30, "name, calls, owner name", f"{LEFT_OUT}op_id, kernel_id, self_ns, total_ns"),
        (20, "name, owner name", f"{LEFT_OUT}op_id, calls, kernel_id, self_ns, total_ns"),
    ],
)
def test_what_answers_the_question_is_left_out_last(width: int, headings: str, below: str) -> None:
    names, text = shown(WIDE, width, main=MAIN)
    assert ", ".join(names) == headings
    assert text.endswith(below)
    assert (SAME in text) == (width < 80)


def test_without_main_columns_the_first_one_stays_and_others_go_from_the_right() -> None:
    assert shown(WIDE, 30)[0] == ["name", "calls", "self"]


def test_a_column_that_was_named_is_never_left_out() -> None:
    keep = ["total_ns", "kernel_id", "stream"]
    names, below = shown(WIDE, 60, keep=keep, main=MAIN)
    assert {"total", "kernel id", "stream"} <= {*names}
    assert below == f"{LEFT_OUT}op_id, self_ns"
    text = terminal.text(terminal.table(WIDE, 20, keep=keep, main=MAIN), 20)
    heads = [line.split() for line in text.splitlines() if line.startswith("name")]
    assert len(heads) > 1, "one block has no room for them"
    assert all(name in text for name in ("total", "kernel", "stream", "3.000 us"))


def test_the_first_block_has_what_rows_are_about_wherever_it_stands() -> None:
    rows = WIDE.select("calls", "total_ns", "self_ns", "kernel_id", "name")
    text = terminal.text(terminal.table(rows, 28, keep=rows.columns, main=MAIN), 28)
    heads = [line.split() for line in text.splitlines() if line.endswith("name")]
    assert heads == [["calls", "total", "name"], ["self", "id", "name"]]


def test_run_and_rank_that_tell_rows_apart_stay() -> None:
    rows = WIDE.select(pl.Series("run", ["a", "a"]), pl.Series("rank", [0, 1]), pl.all())
    names, below = shown(rows, 40, main=MAIN)
    assert (names[0], "run=a" in below) == ("rank", True)


def test_one_row_loses_nothing_that_has_a_value() -> None:
    names, below = shown(WIDE.head(1), 40, main=MAIN)
    assert names == ["name", "calls", "stream", "owner name"]
    assert below == "also: op_id=1, kernel_id=7, self_ns=1.000 us, total_ns=2.000 us"


def test_from_is_not_shown_without_to() -> None:
    rows = WIDE.select("name", from_bytes="calls", to_bytes="self_ns", made_bytes="total_ns")
    assert shown(rows, 30)[0] == ["name", "from", "to"]
    assert shown(rows, 20)[0] == ["name", "made"]
    assert shown(rows, 15)[0] == ["name"]
    assert shown(rows, 28, keep=["to_bytes"])[0][-2:] == ["from", "to"]


def test_a_narrow_column_comes_back_where_a_wide_one_has_no_room() -> None:
    names, below = shown(WIDE, 26, main=("name", "self_ns", "owner_name", "calls"))
    assert names == ["name", "calls", "self"]
    assert below.endswith(f"{LEFT_OUT}op_id, kernel_id, total_ns, owner_name")


def test_a_text_that_is_whole_is_not_cut() -> None:
    rows = WIDE.with_columns(bounds=pl.lit("-265.646 us … -227.084 us ") + pl.col("name"))
    text = terminal.text(terminal.table(rows, 60, main=("name", "bounds"), whole=["bounds"]), 60)
    assert "-265.646 us … -227.084 us aten::mm" in text


def test_headings_are_in_two_lines_before_a_column_is_left_out() -> None:
    rows = pl.DataFrame({"name": ["a", "b"], "mean_time_last": [1, 2], "calls": [3, 4]})
    lines = terminal.text(terminal.table(rows, 22), 22).splitlines()
    assert [*map(str.split, lines[:2])] == [["mean", "time"], ["name", "last", "calls"]]
    assert len(lines) == 4
    wider = terminal.text(terminal.table(rows, 24), 24).splitlines()
    assert wider == lines, "a heading has more room only where that makes it one line"


@pytest.mark.parametrize("width", [80, 14])
@pytest.mark.parametrize("values", [(1, 1), (1, 2)])
def test_names_of_columns_do_not_act_on_a_terminal(width: int, values: tuple[int, ...]) -> None:
    rows = pl.DataFrame({"name": ["a", "b"], "of\x1b[31m": values, "at\x9bm_some_place": values})
    text = terminal.text(terminal.table(rows, width), width)
    assert "of\\x1b[31m" in text
    assert text.replace("\n", "").isprintable()


@pytest.mark.parametrize("name", ["核" * 500, "x" + "核" * 500, "e\u0301" * 500])
def test_a_value_of_wide_characters_is_cut_below_a_table(name: str) -> None:
    rows = WIDE.with_columns(name=pl.lit(name), shared=pl.lit(name))
    text = terminal.text(terminal.table(rows, 90, main=["owner_name"]), 90)
    below = text.partition(SAME)[2].replace("\n", " ")
    values = dict(part.split("=") for part in below.split(", "))
    assert values["shared"].rstrip().endswith("…")
    assert 59 <= cell_len(values["shared"].strip()) <= 60


def test_what_is_left_out_is_named_by_the_columns_that_it_is_made_of() -> None:
    names = terminal.Names({"growth_share": "ratio", "also": "ratio"}, "profframe diff")
    rows = WIDE.select("name", growth_share=pl.Series([0.5, 0.25]), also=pl.Series([1, 2]))
    assert shown(rows, 10, names=names)[1] == f"{LEFT_OUT}ratio (profframe diff)"


TEXTS: Final = st.text(st.characters(exclude_categories=["Cs"]), max_size=50)


@given(
    st.dictionaries(TEXTS, st.tuples(TEXTS, TEXTS, st.booleans()), min_size=1, max_size=9),
    st.integers(8, 100),
    st.data(),
)
def test_every_column_has_one_place_and_every_block_fits(
    cells: dict[str, tuple[str, str, bool]], width: int, data: st.DataObject
) -> None:
    columns = {
        name: Column(name, [*values], is_number) for name, (*values, is_number) in cells.items()
    }
    names = st.lists(st.sampled_from([*columns]), unique=True)
    keep, main = data.draw(names), data.draw(names)
    chosen = layout(columns, width, Wishes(keep, main))
    in_blocks = {name for block in chosen.blocks for name in block}
    assert {*keep, *main[:1]} <= in_blocks
    assert all(name in chosen.blocks[0] for name in main[:1])
    assert in_blocks | {*chosen.shared, *chosen.left_out} == {*columns}
    assert len(in_blocks) + len(chosen.shared) + len(chosen.left_out) == len(columns)
    assert all(sum(block.values()) + 2 * (len(block) - 1) <= width for block in chosen.blocks)


def test_a_cell_is_measured_once(monkeypatch: pytest.MonkeyPatch) -> None:
    measured = Counter[str]()

    def measure(text: str) -> int:
        measured[text] += 1
        return cell_len(text)

    monkeypatch.setattr(table_layout, "cell_len", measure)
    columns = {name: Column("x", [f"{name}{row}" for row in range(9)], False) for name in "abcdef"}
    layout(columns, 9, Wishes(keep=[*columns]))
    assert {measured[f"{name}{row}"] for name in columns for row in range(9)} == {1}


@pytest.mark.parametrize("select", selects(), ids=lambda select: select.name)
def test_answers_say_which_of_their_columns_are_the_main_ones(select: Answer) -> None:
    assert select.main
    assert {*select.main} <= {column.name for column in select.columns}


def test_main_columns_of_a_header_are_columns() -> None:
    lines = ["mine: a sentence.", "One row per event.", "needs: events", "main columns: a, b"]
    sql = "".join(f"-- {line}\n" for line in [*lines, "a BIGINT  number"])
    with pytest.raises(AnswerError, match="line 4: b in '-- main columns:' is no column"):
        parse(sql, "mine")
    assert parse(sql.replace(", b", ""), "mine").main == ("a",)


PASTED: Final = (
    ("show", ("examples/job",)),
    ("show", ("examples/serving.json.gz",)),
    ("answer self_times", ("examples/job",)),
    ("roofline", ("examples/job",)),
    ("diff", ("examples/fp32.json.gz", "examples/bf16.json.gz")),
)


def printed(rows: pl.DataFrame, select: Answer, capsys: pytest.CaptureFixture[str]) -> str:
    output = OutputOptions("table", None, is_asked_for=False)
    output.emit(rows, keep=ranked_by(select), main=select.main)
    return capsys.readouterr().out


@pytest.mark.parametrize("select", selects(), ids=lambda select: select.name)
def test_no_line_of_an_answer_is_too_long(
    select: Answer,
    hostile_trace: Trace,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    choice = {select.choice.parameter: select.choice.values[0]} if select.choice else {}
    rows = hostile_trace.answer(select.name.partition(".")[0], **choice).head(50)
    for width in WIDTHS:
        monkeypatch.setattr(terminal, "PIPE_WIDTH", width)
        out = printed(rows, select, capsys)
        assert max(map(cell_len, out.splitlines()), default=0) <= width
        assert all({*names} <= {*rows.columns} for names, _ in hints(out))


def hints(out: str) -> Iterator[tuple[list[str], list[str]]]:
    """Names of columns that are left out, and the command that has them, if it is another one.

    The command is in brackets and lacks the sources, or is on a line of its own as it is typed.
    """
    for part in out.split("\n\n"):
        text, _, typed = part.partition(LEFT_OUT)[2].partition("\nmore ")
        names, _, where = " ".join(text.split()).removesuffix(")").partition(" (profframe ")
        if names:
            whole = shlex.split(typed.replace("\\\n", " "))[1:]
            yield names.split(", "), whole or where.split()


@pytest.mark.parametrize(("verb", "sources"), PASTED, ids=str)
def test_what_is_left_out_can_be_pasted(
    verb: str, sources: tuple[str, ...], run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(terminal, "PIPE_WIDTH", 80)
    left_out = [*hints(run(*verb.split(), *sources)[1])]
    assert left_out
    for names, where in left_out:
        has_sources = {*sources} <= {*where}
        own = [] if has_sources else sources
        assert has_sources or verb != "show" or not where
        command = [*(where or verb.split()), *own, "--columns", ",".join(names)]
        code, out, err = run(*command)
        again = {name for others, _ in hints(out) for name in others}
        assert (code, again & {*names}) == (0, {*()}), err


def test_a_narrow_table_of_kernels_says_how_much_of_one_its_op_launched() -> None:
    """Else all of it would seem to be of that op."""
    rows = loaded(
        event("aten::mul_", 0, 20),
        event("cudaLaunchKernel", 5, 9, category="cuda_runtime", correlation=1),
        event("aten::addcdiv_", 30, 50),
        event("cudaLaunchKernel", 35, 39, category="cuda_runtime", correlation=2),
        event("cudaLaunchKernel", 40, 44, category="cuda_runtime", correlation=3),
        *(event(name, at, end, category="kernel", correlation=number, device=0, stream=7)
          for number, name, at, end in (
              (1, "a", 100, 160), (2, "a", 200, 240), (3, "b", 300, 310),
          )),
    ).kernels()  # fmt: skip
    shown = rows.select(columns.informative(rows))
    printed = terminal.text(terminal.table(shown, 72, main=find("kernels").main), 72)
    assert re.search(r"aten::mul_ +60\.0 %", printed)


def test_the_device_of_a_gap_is_left_out_late() -> None:
    """Gaps of two devices at about the same time are not the same gap."""
    gap: dict[str, object] = {"run": "r", "rank": 0, "device": 0, "start_ns": 707_463_000}
    gap |= {"dur_ns": 761_862, "share": 0.116, "cause": "host_wait", "for_ns": 42_996}
    gap |= {"host was in": "FSDP::root_pre_forward", "then came": "Memcpy HtoD (Pageable)"}
    other: dict[str, object] = {
        "device": 1,
        "start_ns": 707_460_000,
        "dur_ns": 731_904,
        "share": 0.114,
    }
    other |= {"host was in": "aten::to", "for_ns": 46_700, "then came": "Memcpy DtoH (Pinned)"}
    rows = pl.DataFrame([gap, gap | other])
    lines = terminal.text(
        Ranking("Largest gaps", rows, "gaps").part(5, 80, " ".join), 80
    ).splitlines()
    assert [line.split()[0] for line in lines[1:4]] == ["device", "0", "1"]
    assert "not shown for lack of width: " in "\n".join(lines)


def test_the_kind_stays_where_it_tells_rows_of_one_name_apart() -> None:
    rows = WIDE.with_columns(name=pl.lit("Step*"), kind=pl.Series(["annotation", "other"]))
    assert shown(rows, 25, main=MAIN)[0] == ["name", "calls", "kind"]
    other_names = rows.with_columns(name=pl.Series(["Step*", "mm"]))
    assert shown(other_names, 25, main=MAIN)[0] == ["name", "calls", "owner name"]
