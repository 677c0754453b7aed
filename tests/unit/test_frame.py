"""The DataFrame of tables and answers: a DataFrame in all, and human units where it is shown."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal
from polars.testing.parametric import dataframes

from profframe.show.frame import Frame, frame
from tests import needs
from tests.pages import Page

ROWS = pl.DataFrame(
    {
        "name": ["mm", "relu", "add"],
        "calls": [12_345, 2, 1],
        "self_ns": [1_234_567, 20, None],
        "size_bytes": [3 << 30, 512, 0],
        "self_share": [0.98765, 0.00004, 0.0],
    }
)


class Printer:
    """As much of IPython's as is asked for."""

    said = ""

    def text(self, text: str) -> None:
        self.said += text


def page(rows: pl.DataFrame) -> Page:
    return Page(rows._repr_html_())


class TestIsADataFrame:
    @pytest.mark.parametrize(
        "changed",
        [
            lambda f: f.filter(pl.col("calls") > 1),
            lambda f: f.filter(name="mm"),
            lambda f: f.head(2),
            lambda f: f.tail(2),
            lambda f: f.sort("calls"),
            lambda f: f.select("name", "self_ns"),
            lambda f: f["name", "self_ns"],
            lambda f: f[["name"]],
            lambda f: f[1:],
            lambda f: f.with_columns(x=1),
            lambda f: f.drop("calls"),
            lambda f: f.rename({"calls": "times"}),
            lambda f: f.join(f, on="name"),
            lambda f: f.group_by("name").agg(pl.col("self_ns").sum()),
            lambda f: f.group_by("name", maintain_order=True).len(),
            lambda f: f.sql("SELECT name, self_ns FROM self"),
            lambda f: f.unique(),
            lambda f: f.top_k(2, by="calls"),
            lambda f: f.clone(),
            copy.copy,
            copy.deepcopy,
            lambda f: f.pipe(lambda g: g.limit(1)),
        ],
    )
    def test_rows_that_are_taken_of_it_are_the_same_and_show_themselves_alike(
        self, changed: Callable[[pl.DataFrame], pl.DataFrame]
    ) -> None:
        docs, starts = {"calls": "how often"}, pl.LazyFrame()
        found = changed(frame(ROWS, starts, docs))

        assert type(found) is Frame
        assert (found._starts is starts, found._docs) == (True, docs)
        assert_frame_equal(found, changed(ROWS), check_row_order=False)

    @pytest.mark.parametrize(
        "changed",
        [
            lambda f: f.lazy().collect(),
            lambda f: pl.concat([f, f]),
            pl.DataFrame,
            lambda f: f.describe(),
        ],
    )
    def test_what_is_no_rows_of_it_is_plain(
        self, changed: Callable[[pl.DataFrame], pl.DataFrame]
    ) -> None:
        assert type(changed(Frame(ROWS))) is pl.DataFrame

    def test_other_libraries_take_it(self) -> None:
        rows = Frame(ROWS)
        assert isinstance(rows, pl.DataFrame)
        assert duckdb.connect().sql("SELECT sum(calls) FROM rows").fetchall() == [(12_348,)]
        assert pa.table(rows).column_names == ROWS.columns
        assert rows.to_dicts() == ROWS.to_dicts()
        assert rows.equals(ROWS)
        assert ROWS.equals(rows)
        assert (rows == ROWS)["calls"].all()

    def test_pandas_takes_it(self) -> None:
        pandas = needs.module("pandas")
        assert list(Frame(ROWS).to_pandas().columns) == ROWS.columns
        assert isinstance(Frame(ROWS).to_pandas(), pandas.DataFrame)

    def test_it_goes_to_other_processes_and_back(self) -> None:
        sent = pickle.loads(pickle.dumps(frame(ROWS, pl.LazyFrame(), {"calls": "x"})))  # noqa: S301
        assert type(sent) is Frame
        assert_frame_equal(sent, ROWS)
        assert "12,345" in sent._repr_html_()

    def test_nothing_is_copied(self) -> None:
        places = [rows["calls"].to_numpy().ctypes.data for rows in (ROWS, Frame(ROWS), frame(ROWS))]
        assert len({*places}) == 1

    def test_text_of_python_is_exact(self) -> None:
        assert repr(Frame(ROWS)) == str(Frame(ROWS)) == repr(ROWS)


class TestHtml:
    def test_values_have_units_and_tooltips_the_exact_numbers(self) -> None:
        shown = page(Frame(ROWS))

        assert shown.cells == [
            ["name", "calls", "self_ns", "size_bytes", "self_share"],
            ["mm", "12,345", "1.235 ms", "3.00 GiB", "98.8 %"],
            ["relu", "2", "0.020 us", "512 B", "0.0 %"],
            ["add", "1", "", "0 B", "0.0 %"],
        ]
        assert shown.tips == [
            *("1234567 ns", "3221225472 bytes", "0.98765"),
            *("20 ns", "512 bytes", "4e-05", "0 bytes", "0.0"),
        ]
        assert shown.note == "3 rows"

    @pytest.mark.parametrize(
        ("column", "value", "shown", "exact"),
        [
            ("dur_ns", 999, "0.999 us", "999 ns"),
            ("wait_ns", -5_678_901, "-5.679 ms", "-5678901 ns"),
            ("span_ns", 3_600 * 10**9, "3,600.000 s", "3600000000000 ns"),
            ("mean_ns", 1234.5, "1.234 us", "1234.5 ns"),
            (
                "time_ns",
                1_700_000_000_123_456_789,
                "2023-11-14 22:13:20.123456789 UTC",
                "1700000000123456789 ns",
            ),
            ("bytes", 1 << 20, "1.00 MiB", "1048576 bytes"),
            ("bytes_per_s", 3.35e12, "3.35 TB/s", "3350000000000.0 bytes/s"),
            ("bus_gb_per_s", 412.5, "412.50 GB/s", "412.5 GB/s"),
            ("flop_per_s", 611.02e12, "611.02 TFLOP/s", "611020000000000.0 FLOP/s"),
            ("torch_flops", 268_435_456, "268.44 MFLOP", "268435456 FLOP"),
            ("share", 0.5, "50.0 %", "0.5"),
            ("ratio", 0.272699123, "0.272699", "0.272699123"),
            ("event_id", 1_234_567, "1234567", None),
            ("step", 12_000, "12000", None),
            ("kernels", 12_000, "12,000", None),
            ("is_async", True, "True", None),
            ("self_ns", Decimal("1500.25"), "1.500 us", "1500.25 ns"),
            ("self_ns", float("nan"), "nan", "nan ns"),
            ("self_ns", float("inf"), "inf", "inf ns"),
        ],
    )
    def test_the_ending_of_a_name_is_the_unit(
        self, column: str, value: object, shown: str, exact: str | None
    ) -> None:
        found = page(Frame({column: [value], "x": ["y"]}))

        assert found.cells[1][0] == shown
        assert found.tips == ([exact] if exact else [])

    def test_counts_have_no_unit_whatever_they_count(self) -> None:
        counted = Frame(ROWS).select(pl.col("self_ns").count(), pl.col("size_bytes").n_unique())
        assert page(counted).cells[1] == ["2", "3"]

    def test_values_of_metrics_have_the_unit_of_their_metric(self) -> None:
        rows = Frame(
            {
                "metric": ["span_ns", "op:mm", "peak_device_bytes", "busy_share", "steps"],
                "value": [2e6, 1_500.4, float(3 << 30), 0.25, 7.0],
            }
        )
        shown = [row[1] for row in page(rows).cells[1:]]
        assert shown == ["2.000 ms", "1.500 us", "3.00 GiB", "25.0 %", "7"]

    def test_long_text_is_cut_in_the_middle_and_whole_in_the_tooltip(self) -> None:
        name = "void at::native::" + "x" * 200 + "::kernel(int)"
        shown = page(Frame({"name": [name, "short"]}))

        cut = shown.cells[1][0]
        assert len(cut) == 64
        assert (cut[:17], cut[-13:], cut.count("…")) == ("void at::native::", "::kernel(int)", 1)
        assert shown.tips == [name]

    def test_sentences_are_wrapped_and_not_cut_unless_they_are_endless(self) -> None:
        said = "a word " * 100
        shown = page(Frame({"detail": [said, "x" * 20_000], "n": [1, 2]}))
        assert shown.cells[1][0] == said
        assert len(shown.cells[2][0]) == 1_000
        assert [len(tip) for tip in shown.tips] == [10_000]

    def test_only_so_many_rows_are_shown_and_the_count_is_said(self) -> None:
        many = page(Frame({"n": range(12_345)}))
        assert [row[0] for row in many.cells[1:]] == [str(n) for n in range(20)]
        assert many.note == "20 of 12,345 rows"
        assert page(Frame({"n": range(50)})).note == "50 rows"
        assert page(Frame({"n": range(51)})).note == "20 of 51 rows"

    def test_the_settings_of_polars_hold(self) -> None:
        many = Frame({f"c{n}": range(30) for n in range(80)})
        with pl.Config(tbl_rows=3, tbl_cols=4):
            few = page(many)
        with pl.Config(tbl_rows=-1, tbl_cols=-1):
            every = page(many)
        assert (len(few.cells), len(few.cells[0])) == (4, 4)
        assert few.note == "3 of 30 rows; 4 of 80 columns"
        assert (len(every.cells), len(every.cells[0])) == (31, 80)
        assert page(many).note == "30 rows; 75 of 80 columns"

    def test_columns_that_say_nothing_are_named_below(self) -> None:
        rows = Frame(
            {"run": ["a", "a"], "rank": [0, 0], "name": ["x", "y"], "op": [None, None]},
            schema_overrides={"op": pl.String},
        )
        shown = page(rows)
        assert shown.cells == [["name"], ["x"], ["y"]]
        assert shown.note == "2 rows; run a; rank 0; no values: op"

    def test_many_columns_without_values_are_counted(self) -> None:
        empty = {f"c{n}": pl.Series([None, None], dtype=pl.Int64) for n in range(9)}
        shown = page(Frame({"name": ["x", "y"], **empty}))
        assert shown.note == "2 rows; no values: 9 columns"
        assert "c0, c1, c2, c3, c4, c5, c6, c7, c8" in shown.heads

    def test_no_rows_have_headings(self) -> None:
        shown = page(Frame(ROWS.clear()))
        assert shown.cells == [ROWS.columns]
        assert shown.note == "0 rows"
        assert page(Frame()).note == "0 rows"

    def test_one_row_of_many_columns_stands_upright(self) -> None:
        shown = page(Frame({f"c{n}_ns": [n * 1000] for n in range(1, 9)}))
        assert shown.cells == [[f"c{n}_ns", f"{n}.000 us"] for n in range(1, 9)]

    def test_headings_say_what_is_in_a_column(self) -> None:
        shown = page(frame(ROWS, docs={"calls": "how <often>"}))
        assert shown.heads[:3] == ["String", "calls: how <often> (Int64)", "Int64"]

    @given(dataframes(max_cols=6, max_size=5, allow_null=True))
    def test_any_frame_is_shown(self, rows: pl.DataFrame) -> None:
        shown, printer = page(Frame(rows)), Printer()
        assert shown.note.startswith(f"{rows.height} row")
        assert len(shown.styles) == 1
        Frame(rows)._repr_pretty_(printer, cycle=False)
        assert f"{rows.height} row" in printer.said

    @given(st.text(st.characters(exclude_categories=["Cs"])), st.text(max_size=9))
    def test_any_text_is_shown(self, text: str, name: str) -> None:
        name = name.encode("utf-8", "replace").decode()
        shown = page(Frame({name: [text, "b"], "x_ns": [1, 2]}))
        assert len(shown.cells) == 3
        assert len(shown.cells[1]) == 2


class TestTimes:
    STARTS = pl.LazyFrame(
        {"run": ["a", "a"], "rank": [0, 1], "start_ns": [1_700_000_000 * 10**9, 5]},
        schema_overrides={"rank": pl.Int32},
    )

    def rows(self, **columns: Any) -> pl.DataFrame:
        return pl.DataFrame(columns, schema_overrides={"rank": pl.Int32})

    def test_moments_are_since_the_start_of_their_trace(self) -> None:
        rows = self.rows(
            run=["a", "a"], rank=[0, 1], start_ns=[1_700_000_000 * 10**9 + 2_000_000, 1_005]
        )
        shown = page(frame(rows, self.STARTS))
        assert shown.cells[1:] == [["0", "2.000 ms"], ["1", "1.000 us"]]
        assert shown.note == "2 rows; run a; start_ns: since the trace's start"
        assert "1700000000002000000 ns" in shown.tips

    def test_starts_of_traces_are_dates(self) -> None:
        rows = self.rows(run=["a"], rank=[0], start_ns=[1_700_000_000 * 10**9], n=[1])
        assert page(frame(rows, self.STARTS)).cells[1] == ["2023-11-14 22:13:20.000000000 UTC", "1"]

    def test_moments_of_a_row_are_on_one_clock(self) -> None:
        start = 1_700_000_000 * 10**9
        keys = {"run": ["a"], "rank": [0], "start_ns": [start]}
        of_trace = page(frame(self.rows(**keys, end_ns=[start + 5_000]), self.STARTS))
        assert all(moment.endswith(" UTC") for moment in of_trace.cells[1])
        of_event = page(frame(self.rows(**keys, device_start_ns=[start + 5_000]), self.STARTS))
        assert of_event.cells[1] == ["0.000 us", "5.000 us"]

    def test_a_query_without_run_and_rank_has_them_where_there_is_one_trace(self) -> None:
        rows = pl.DataFrame({"time_ns": [1_700_000_000 * 10**9 + 1_000]})
        assert page(frame(rows, self.STARTS.head(1))).cells[1] == ["1.000 us"]
        assert page(frame(rows, self.STARTS)).cells[1] == ["2023-11-14 22:13:20.000001000 UTC"]

    def test_starts_that_are_gone_are_not_missed(self, tmp_path: Any) -> None:
        path = tmp_path / "starts.parquet"
        self.STARTS.collect().write_parquet(path)
        starts = pl.scan_parquet(path)
        rows = frame(pl.DataFrame({"time_ns": [1_700_000_000 * 10**9]}), starts)
        path.unlink()
        assert page(rows).cells[1] == ["2023-11-14 22:13:20.000000000 UTC"]


def test_ipython_shows_text_in_units_with_the_names_of_the_columns() -> None:
    printer = Printer()
    Frame(ROWS)._repr_pretty_(printer, cycle=False)
    assert printer.said.splitlines() == [
        "name   calls   self_ns  size_bytes  self_share",
        "mm    12,345  1.235 ms    3.00 GiB      98.8 %",
        "relu       2  0.020 us       512 B       0.0 %",
        "add        1                   0 B       0.0 %",
        "3 rows, 5 columns",
    ]
