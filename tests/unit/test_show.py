"""What a notebook and a prompt show of a trace."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Callable

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from profframe.query.selection import spans
from profframe.show import terminal, units
from profframe.show.kernel_names import of_answer, short_name
from profframe.trace.trace import Trace
from tests.builders import stored
from tests.pages import Page

HOSTILE = "<script>alert('x')</script>\x1b[31m&\n\""


def trace_of(runs: list[str], quality: str = "truncated") -> Trace:
    note = {"issue": quality, "events": 3, "action": quality, "detail": quality}
    return stored(
        events=[
            {"run": run, "kind": kind, "start_ns": 5, "dur_ns": 2_500_000, "device": device}
            for run in runs
            for kind, device in (("host_op", None), ("kernel", 0), ("kernel", 0))
        ],
        traces=[{"run": run, "device_type": "CUDA"} for run in runs],
        quality=[{"run": run} | note for run in runs],
    )


def test_repr_says_what_is_inside_in_a_few_lines() -> None:
    assert repr(trace_of(["a"])).splitlines() == [
        "Trace: 1 run, 1 rank, 3 events, 2.500 ms",
        "  device   1 x CUDA (model not in the trace)",
        "  time     compute 100.0 %, idle 0.0 % of 2.500 ms on the devices",
        "  kernels  other 100.0 %",
        "  runs     'a' (rank 0)",
        "  events   kernel 2, host_op 1",
        "  quality  truncated 3",
        "  next     trace.summary()  # why devices wait, and what would gain most",
    ]


def test_repr_of_many_runs_and_of_nothing_is_short() -> None:
    many = repr(trace_of([f"run{i}" for i in range(100)]))
    nothing = repr(stored())

    assert len(many.splitlines()) == 8
    assert "and 95 more" in many
    assert nothing == "Trace: 0 runs, 0 ranks, 0 events"


@given(
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20) | st.just(HOSTILE)
)
def test_html_is_whole_and_holds_no_tag_from_a_trace(name: str) -> None:
    page = Page(trace_of([name, "b"], name)._repr_html_())

    assert units.visible(name) in page.text
    assert len(page.styles) == 1


def test_html_shows_each_trace_and_a_limited_number() -> None:
    page = Page(trace_of([f"run{i}" for i in range(20)])._repr_html_())

    assert page.text.count("2.500 ms") == 1 + 8
    assert page.text.count("8 of 20 rows") == 2


@given(st.text())
def test_visible_text_has_nothing_that_acts(text: str) -> None:
    shown = units.visible(text)

    assert shown.isprintable() or not set(shown) & set("\x1b\x07\n\r\x9b\u202e\u2028\ud800")
    shown.encode()


@pytest.mark.parametrize(
    "character",
    [
        *("\x00", "\t", "\x1b", "\x7f", "\x9b", "\ud800"),  # controls, half pairs
        *("\u2028", "\u2029"),  # line breaks
        *("\u202a", "\u202b", "\u202c", "\u202d", "\u202e"),  # embeddings, overrides
        *("\u2066", "\u2067", "\u2068", "\u2069"),  # isolates
        *("\u200e", "\u200f", "\u061c"),  # marks
        *("\xad", "\u180e", "\u200b", "\u2060", "\u2064", "\ufeff", "\ufff9"),  # nothing to see
        *("\U000e0001", "\U000e0041", "\U000e007f"),  # tags
    ],
    ids=ascii,
)
def test_what_acts_or_cannot_be_seen_is_an_escape(character: str) -> None:
    escape = ascii(character)[1:-1]
    assert units.visible(f"a{character}b") == f"a{escape}b"
    document = json.dumps(f"a{character}b", ensure_ascii=False)
    assert units.escaped(document).isascii()
    assert json.loads(units.escaped(document)) == f"a{character}b"


def test_joiners_stay_in_what_is_written_with_them() -> None:
    for text in ("\u0646\u0645\u06cc\u200c\u062e\u0648\u0627", "\U0001f468\u200d\U0001f469"):
        assert units.visible(text) == text


@pytest.mark.parametrize(
    ("ns", "shown"),
    [
        (0, "0.000 us"),
        (1, "0.001 us"),
        (999_999, "999.999 us"),
        (1_000_000, "1.000 ms"),
        (999_999_499, "999.999 ms"),
        (999_999_500, "1.000 s"),
        (3_600 * 10**9, "3,600.000 s"),
    ],
)
def test_durations_have_a_unit_that_suits(ns: int, shown: str) -> None:
    assert units.duration(ns) == shown
    assert units.duration(-ns).lstrip("-") == shown


@pytest.mark.parametrize(
    ("show", "number", "shown"),
    [
        (units.duration, 999_999.4, "999.999 us"),
        (units.duration, 999_999.5, "1.000 ms"),
        (units.duration, 999_999_499.9, "999.999 ms"),
        (units.duration, 999_999_999.9, "1.000 s"),
        (units.size, 1023.4, "1023 B"),
        (units.size, 1023.5, "1.00 KiB"),
        (units.size, 1023.994 * 2**20, "1023.99 MiB"),
        (units.size, 1023.996 * 2**20, "1.00 GiB"),
        (units.rate, 999.4, "999 B/s"),
        (units.rate, 999.5, "1.00 kB/s"),
        (units.rate, 999_994, "999.99 kB/s"),
        (units.rate, 999_996, "1.00 MB/s"),
        (units.flops, 999.996e9, "1.00 TFLOP"),
        (units.flop_rate, 999.996e12, "1.00 PFLOP/s"),
    ],
)
def test_what_rounds_to_the_next_unit_has_it(
    show: Callable[[float], str], number: float, shown: str
) -> None:
    assert show(number) == shown
    assert show(-number) == f"-{shown}"


@pytest.mark.parametrize(
    ("show", "most", "edge"),
    [
        *((units.duration, 1000, edge) for edge in (999_999.5, 999_999_500.0)),
        *((units.size, 1024, edge * 1024**n) for edge in (1023.5, 1023.995) for n in range(5)),
        *((units.rate, 1000, edge * 1000**n) for edge in (999.5, 999.995) for n in range(5)),
    ],
)
def test_no_number_reaches_the_next_unit_by_rounding(
    show: Callable[[float], str], most: int, edge: float
) -> None:
    below, above = math.nextafter(edge, 0), math.nextafter(edge, math.inf)
    for number in (below, edge, above, -below, -edge, -above):
        assert abs(float(show(number).split()[0])) < most


@given(st.integers(0, 2**62))
def test_durations_are_never_a_thousand_of_a_smaller_unit(ns: int) -> None:
    shown = units.duration(ns)

    assert shown.endswith(" s") or not shown.startswith("1000.000")


@given(st.lists(st.integers(-5, 20)))
def test_spans_name_every_number_once(numbers: list[int]) -> None:
    named = [part.strip() for part in spans(numbers).split(",") if part.strip()]

    assert len(named) == sum(n - 1 not in numbers for n in set(numbers))


@given(
    st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=50), min_size=1),
    st.integers(20, 200),
)
def test_no_line_is_wider_than_the_terminal(names: list[str], width: int) -> None:
    from rich.cells import cell_len
    from rich.console import Console

    frame = pl.DataFrame({"name": names, "kind": names, "self_ns": range(len(names))})
    file = io.StringIO()
    Console(file=file, width=width).print(terminal.table(frame, width))

    assert max(map(cell_len, file.getvalue().splitlines())) <= width


def test_lines_of_files_keep_their_numbers() -> None:
    name = "python/site-packages/torch/nn/modules/linear.py(114): forward"
    rows = pl.DataFrame({"calls": [1, 2], "name": [name, "relu"]})
    assert "linear.py(114): forward" in terminal.text(terminal.table(rows, 40))
    assert "…(114): forward" in terminal.text(terminal.table(rows, 28))


def test_piped_names_are_whole() -> None:
    name = "void " + "kernel" * 200

    assert name in terminal.text(terminal.table(pl.DataFrame({"name": [name]}), None))


def test_headings_of_tables_and_answers_say_what_a_column_is() -> None:
    trace = trace_of(["a"])
    answer, table_ = Page(trace.self_times()._repr_html_()), Page(trace.events._repr_html_())
    assert "calls: number of slices (Int64)" in answer.heads
    assert any(head.startswith("start_ns: Start, on the clock") for head in table_.heads)


def test_lines_of_text_show_themselves_as_they_are() -> None:
    text = trace_of(["<b>"]).table()
    assert repr(text) == str(text)
    assert Page(text._repr_html_()).text == text  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "_ZN7sgl_hip3act18act_and_mul_kernelI14__hip_bfloat16E",
            "sgl_hip::act::act_and_mul_kernel",
        ),
        (
            "_ZN2ck6device12_GLOBAL__N_121kernel_grouped_conv_vINS_3GriE",
            "ck::device::kernel_grouped_conv_v",
        ),
        (
            "_ZN7ck_tile6kentryILi1ELi2ENS_12Rmsnorm2dFwdINS_9PipelineXE",
            "ck_tile::kentry<Rmsnorm2dFwd>",
        ),
        ("_Z3fooi", "foo"),
        ("_ZN99999x", "_ZN99999x"),
        ("_ZN5", "_ZN5"),
        ("_Z", "_Z"),
        ("Custom_Cijk_Alik_MT16x32x64_MI16x16x1_SN_K1", "Custom_Cijk_Alik_MT16x32x64_MI16x16x1"),
        ("kernel_cutlass_kernel_fooNorm_object_at__tensor_0", "kernel_cutlass_kernel_fooNorm"),
        ("triton_poi_fused_add_0", "triton_poi_fused_add_0"),
    ],
)
def test_short_names_of_mangled_and_generated_kernels(name: str, expected: str) -> None:
    assert short_name(name) == expected


def test_sequences_of_layers_have_short_names() -> None:
    rows = pl.DataFrame({"sequence": ["void a::mm<float>(int) -> _Z3fooi"]})
    assert of_answer("graph_layers", rows)["sequence"].to_list() == ["a::mm -> foo"]


def test_the_time_of_a_short_name_grows_with_the_length_of_the_name() -> None:
    """With its square, this one would take minutes."""
    assert short_name("x" * 200_000 + " run(int)") == "run"
