"""Rows of several ranks as one each: against plain Python, and on the command line."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any, Final

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from profframe import load
from profframe.errors import ParameterError
from profframe.query.catalogue import selects
from profframe.query.division import tables_by
from profframe.query.header import RankKeys
from profframe.show.rank_means import rank_means, title, worst
from tests.conftest import Run

JOB: Final = "examples/job"
KEYS = RankKeys(("name",), ("device",))
ROW = st.fixed_dictionaries(
    {
        "run": st.sampled_from("ab"),
        "rank": st.integers(0, 3),
        "name": st.sampled_from(["x", "y", None]),
        "calls": st.integers(0, 9),
        "total_ns": st.none() | st.integers(0, 2**40),
        "min_ns": st.none() | st.integers(0, 99),
        "max_ns": st.none() | st.integers(0, 99),
        "share": st.none() | st.floats(0, 1),
        "op": st.sampled_from(["mm", "add", None]),
    }
)
TYPES = {
    "run": pl.String, "rank": pl.Int32, "name": pl.String, "calls": pl.Int64, "total_ns": pl.Int64,
    "min_ns": pl.Int64, "max_ns": pl.Int64, "share": pl.Float64, "op": pl.String,
}  # fmt: skip
ROWS = st.lists(ROW, min_size=1, unique_by=lambda row: (row["run"], row["rank"], row["name"]))


def mean(values: list[Any]) -> Any:
    present = [value for value in values if value is not None]
    return sum(present) / len(present) if present else None


@given(ROWS)
def test_means_of_a_plain_loop(rows: list[dict[str, Any]]) -> None:
    frame = pl.DataFrame(rows, schema=TYPES)
    ranks: dict[str, set[int]] = defaultdict(set)
    groups: dict[tuple[str, str | None], list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        ranks[row["run"]].add(row["rank"])
        groups[row["run"], row["name"]].append(row)
    means = rank_means(frame, KEYS, "total_ns")
    if all(len(of) == 1 for of in ranks.values()):
        assert means is frame
        return
    assert means.height == len(groups)
    everywhere = all(len(group) == len(ranks[run]) for (run, _), group in groups.items())
    assert ("ranks" in means.columns) is not everywhere
    sums = []
    for row in means.iter_rows(named=True):
        group = groups[row["run"], row["name"]]
        totals = [one["total_ns"] for one in group if one["total_ns"] is not None]
        sums.append(sum(totals))
        assert row.get("ranks", len(group)) == len(group)
        number = len(ranks[row["run"]])
        assert row["calls"] == pytest.approx(sum(one["calls"] for one in group) / number)
        assert row["share"] == pytest.approx(mean([one["share"] for one in group]))
        for name, of in (("min_ns", min), ("max_ns", max)):
            values = [one[name] for one in group if one[name] is not None]
            assert row[name] == (of(values) if values else None)
        if not totals:
            assert row["total_ns"] is row[worst("total_ns")] is row["worst_rank"] is None
            continue
        known = number - sum(one["total_ns"] is None for one in group)
        assert abs(row["total_ns"] - sum(totals) / known) <= 0.5
        assert row[worst("total_ns")] == max(totals)
        [of_worst] = [one for one in group if one["rank"] == row["worst_rank"]]
        assert (of_worst["total_ns"], of_worst["op"]) == (max(totals), row["op"])
    assert sums == sorted(sums, reverse=True)


WHOLES: Final = RankKeys(("name",), wholes=(("share", "total_ns"),))


@given(
    st.dictionaries(
        st.integers(0, 3),
        st.dictionaries(st.sampled_from("xyz"), st.integers(1, 2**40), min_size=1),
        min_size=2,
    )
)
def test_shares_are_of_all_ranks(totals: dict[int, dict[str, int]]) -> None:
    rows = [
        {
            "run": "a",
            "rank": rank,
            "name": name,
            "total_ns": total,
            "share": total / sum(of.values()),
        }
        for rank, of in totals.items()
        for name, total in of.items()
    ]
    whole = sum(sum(of.values()) for of in totals.values())
    means = rank_means(pl.DataFrame(rows), WHOLES, "total_ns")
    assert {row["name"]: row["share"] for row in means.iter_rows(named=True)} == {
        name: pytest.approx(sum(of.get(name, 0) for of in totals.values()) / whole)
        for name in set().union(*totals.values())
    }


def test_a_rank_that_lacks_a_row_has_nothing_of_it() -> None:
    rows = pl.DataFrame(
        [
            {"run": "a", "rank": 0, "name": "x", "calls": 6, "total_ns": 60, "share": 0.6},
            {"run": "a", "rank": 0, "name": "y", "calls": 1, "total_ns": 40, "share": 0.4},
            {"run": "a", "rank": 1, "name": "y", "calls": 3, "total_ns": 300, "share": 1.0},
        ]
    )
    means = rank_means(rows.with_columns(mean_ns=pl.col("total_ns") // "calls"), WHOLES, "total_ns")
    columns = ("name", "ranks", "calls", "total_ns", "share", "mean_ns", "worst_total_ns")
    assert means.select(columns).rows() == [
        ("y", 2, 2, 170, 0.85, 85, 300),
        ("x", 1, 3, 30, 0.15, 10, 60),
    ]


def test_rates_are_of_ranks_that_have_one_and_spans_of_those_with_the_row() -> None:
    keys = RankKeys(("name",), (), ("span_ns",), (("bytes_per_s", "bytes"),))
    rows = pl.DataFrame(
        [
            {"run": "a", "rank": 0, "name": "x", "bytes": 10, "bytes_per_s": 5.0, "span_ns": 100},
            {"run": "a", "rank": 1, "name": "x", "bytes": 10, "bytes_per_s": 1.0, "span_ns": 300},
            {"run": "a", "rank": 2, "name": "x", "bytes": 10, "bytes_per_s": None, "span_ns": 500},
            {"run": "a", "rank": 3, "name": "y", "bytes": 0, "bytes_per_s": None, "span_ns": 700},
        ]
    )
    means = rank_means(rows, keys, "bytes")
    assert means.select("name", "bytes", "bytes_per_s", "span_ns").rows() == [
        ("x", 8, pytest.approx(20 / 12), 300),
        ("y", 0, None, 700),
    ]


def test_headers_say_what_shares_are_of_and_rates_over_a_peak_are_of_no_whole() -> None:
    wholes = {select.name: select.rank_keys.wholes for select in selects() if select.rank_keys}
    assert wholes["roofline"] == (("share", "total_ns"),)
    assert wholes["python_lines"] == (
        ("self_share", "self_ns"),
        ("device_share", "self_device_ns", "self_backward_device_ns"),
    )
    assert wholes["kernels"] == (("share", "total_ns"), ("class_share", "total_ns"))


def test_a_share_of_two_amounts_and_lines_that_wait_on_every_rank() -> None:
    keys = RankKeys(("name",), wholes=(("device_share", "own_ns", "back_ns"),))
    rows = pl.DataFrame(
        [
            {"rank": 0, "name": "x", "own_ns": 30, "back_ns": 0, "device_share": 0.3},
            {"rank": 0, "name": "y", "own_ns": 50, "back_ns": 20, "device_share": 0.7},
            {"rank": 1, "name": "y", "own_ns": 100, "back_ns": 0, "device_share": 1.0},
        ]
    ).select(pl.lit("a").alias("run"), pl.all(), only_waits=pl.Series([True, True, False]))
    means = rank_means(rows, keys, "own_ns")
    columns = ("name", "own_ns", "device_share", "only_waits")
    assert means.select(columns).rows() == [("y", 75, 0.85, False), ("x", 15, 0.15, True)]


def test_shares_of_a_class_are_of_that_class() -> None:
    keys = RankKeys(("name", "class"), wholes=(("class_share", "total_ns"),))
    rows = pl.DataFrame(
        [
            {
                "run": "a",
                "rank": 0,
                "name": "x",
                "class": "copy",
                "total_ns": 10,
                "class_share": 1.0,
            },
            {
                "run": "a",
                "rank": 0,
                "name": "y",
                "class": "compute",
                "total_ns": 5,
                "class_share": 1,
            },
            {
                "run": "a",
                "rank": 1,
                "name": "z",
                "class": "copy",
                "total_ns": 30,
                "class_share": 1.0,
            },
        ]
    )
    means = rank_means(rows, keys, "total_ns")
    assert dict(means.select("name", "class_share").rows()) == {"x": 0.25, "y": 1, "z": 0.75}


def test_a_device_for_each_rank_is_not_what_rows_differ_in() -> None:
    rows = pl.DataFrame(
        {
            "run": "a",
            "rank": [0, 0, 1, 1],
            "name": "mm",
            "device": [0, 0, 1, 1],
            "stream": [7, 8, 7, 8],
            "total_ns": [1, 10, 3, 30],
        }
    )
    means = rank_means(rows, RankKeys(("name",), ("device", "stream")), "total_ns")
    assert means.rows() == [("a", "mm", 8, 20, 30, 1), ("a", "mm", 7, 2, 3, 1)]


def test_rows_of_a_rank_that_differ_by_device_stay_apart() -> None:
    rows = pl.DataFrame(
        {
            "run": "a",
            "rank": [0, 0, 1, 1],
            "name": "mm",
            "device": [0, 1, 0, 1],
            "total_ns": [1, 10, 3, 30],
        }
    )
    means = rank_means(rows, KEYS, "total_ns")
    assert means.select("device", "total_ns", "worst_rank").rows() == [(1, 20, 1), (0, 2, 1)]
    assert rank_means(rows.drop("device"), KEYS, "total_ns").height == rows.height


def test_runs_with_different_numbers_of_ranks() -> None:
    rows = pl.DataFrame({"run": ["a", "a", "b"], "rank": [0, 1, 0]})
    assert title(rows) == "mean of the ranks of each run"
    assert title(rows.head(2)) == "mean of 2 ranks"


def test_headers_name_columns_and_a_number_to_rank_by() -> None:
    declared = [select for select in selects() if select.rank_keys]
    assert len(declared) > 10
    for select in declared:
        assert select.rank_keys
        columns = {column.name for column in select.columns}
        assert {*select.rank_keys.keys, *select.rank_keys.finer, "run", "rank"} <= columns
        assert tables_by(select)


@pytest.mark.parametrize(
    "answer", [s.name for s in selects() if s.rank_keys and not s.choice], ids=str
)
def test_each_answer_with_means_is_shown(answer: str, run: Run) -> None:
    code, out, err = run("answer", answer, JOB, "--top", "3")
    assert (code, err) == (0, "")
    assert ("mean of 4 ranks" in out) is not out.startswith("no rows")


def test_numbers_about_a_text_are_those_of_its_rank() -> None:
    rows = pl.DataFrame(
        {
            "run": "a",
            "rank": [0, 1],
            "name": "k",
            "total_ns": [10, 30],
            "top_op": ["mm", "bmm"],
            "top_op_share": [1.0, 0.6],
            "line_name": ["a.py(3)", "b.py(5)"],
            "line_ns": [10, 30],
            "max_ns": [40, 10],
            "max_id": [5, 9],
            "share": [0.2, 0.4],
        }
    )
    [row] = rank_means(rows, KEYS, "total_ns").to_dicts()
    assert (row["top_op"], row["top_op_share"]) == ("bmm", 0.6)
    assert (row["line_name"], row["line_ns"], row["max_ns"], row["max_id"]) == (
        "b.py(5)",
        30,
        10,
        9,
    )
    assert row["share"] == pytest.approx(0.3)


def table(run: Run, *arguments: str) -> list[str]:
    code, out, err = run(*arguments)
    assert (code, err) == (0, "")
    return out.splitlines()


def test_a_table_has_means_and_files_have_rows_of_each_rank(run: Run, tmp_path: Path) -> None:
    above, heading, first, *rest = table(run, "answer", "kernels", JOB, "--top", "3")
    assert heading.startswith("name ")
    assert above.split() == ["worst"]
    assert heading.split()[2:6] == ["total", "worst", "total", "rank"]
    assert first.startswith("nvjet")
    assert rest[-1].startswith("each row is the mean of 4 ranks")
    assert sum(line.startswith(("nvjet", "nccl")) for line in rest) == 2
    each = table(run, "answer", "kernels", JOB, "--per", "rank")
    assert each[0].split()[:3] == ["rank", "name", "calls"]
    assert table(run, "answer", "kernels", JOB, "--rank", "0-3") == each
    rows = json.loads("".join(table(run, "answer", "kernels", JOB, "--format", "json")))
    assert {row["rank"] for row in rows} == {0, 1, 2, 3}
    code, _, _ = run("answer", "kernels", JOB, "-o", str(tmp_path / "kernels.txt"))
    assert (code, "mean of 4 ranks" in (tmp_path / "kernels.txt").read_text()) == (0, True)


def test_the_first_rows_are_those_of_all_ranks(run: Run) -> None:
    by_calls = table(run, "answer", "self_times", JOB, "--sort", "-calls,name", "--top", "2")
    rows = load(JOB).self_times()
    means = rows.group_by("name", "kind").agg(pl.col("calls").mean())
    most = means.sort(["calls", "name"], descending=[True, False])["name"].head(2).to_list()
    assert [line.split("  ")[0] for line in by_calls[1:3]] == most


def test_columns_of_means_can_be_named_and_sorted_by(run: Run) -> None:
    names = "name,ranks,total_ns,worst_total_ns,worst_rank"
    heading, *rows = table(run, "answer", "kernels", JOB, "--top", "2", "--columns", names)
    assert heading.split() == ["name", "ranks", "total", "worst", "total", "worst", "rank"]
    first, second = (row.split() for row in rows[:2])
    assert (first[0], first[1], first[-1]) == ("nvjet_tst_128x256_64x4_coopA_NNT", "4", "3")
    assert (first[2:4], first[4:6]) == (["17.684", "ms"], ["17.713", "ms"])
    assert (second[0], second[4:6]) == ("ncclDevKernel_AllGather_RING_LL", ["11.656", "ms"])
    given = ("-p", "columns=name,worst_rank", "--sort", "+worst_total_ns")
    least = table(run, "answer", "kernels", JOB, "--top", "1", *given)
    each = load(JOB).kernels().group_by("name").agg(pl.col("total_ns").max())
    assert least[1].split()[0] in each.sort("total_ns")["name"][0]


@pytest.mark.parametrize(
    ("given", "option"),
    [
        (("--columns", "name,worst_rank", "--per", "rank"), "--columns"),
        (("--columns", "name,worst_rank", "--rank", "1"), "--columns"),
        (("--columns", "ranks", "--format", "csv"), "--columns"),
        (("--sort", "-worst_total_ns", "--rank", "1"), "--sort"),
    ],
)
def test_columns_of_means_are_refused_where_there_are_none(
    run: Run, given: tuple[str, ...], option: str
) -> None:
    code, out, err = run("answer", "kernels", JOB, *given)
    assert (code, out) == (2, "")
    assert f"{option} " in err
    assert "only tables of several ranks have it" in err
    code, _, err = run("answer", "kernels", JOB, "--columns", "name,worst_calls")
    assert (code, "no column named 'worst_calls'" in err) == (2, True)


@pytest.mark.parametrize(("sort", "first"), [("name", "Memcpy DtoH"), ("calls", "cudaLaunch")])
def test_the_first_screen_sorts_means(run: Run, sort: str, first: str) -> None:
    lines = iter(table(run, "show", JOB, "--sort", sort))
    title = next(line for line in lines if line.startswith("Self time"))
    assert ("mean of 4 ranks" in title, next(lines)[:4]) == (True, "name")
    assert next(lines).startswith(first)
    of_each = "\n".join(table(run, "show", JOB, "--sort", "rank"))
    assert "Self time (top 10 of 248)" in of_each


def test_per_rank_of_an_answer_that_has_it_itself(run: Run) -> None:
    each = table(run, "answer", "kernel_categories", JOB, "--per", "rank")
    assert (each[0].split()[0], len(each)) == ("rank", 26)
    code, _, err = run("answer", "runs", JOB, "--per", "rank")
    assert (code, "no parameter named 'per'" in err) == (2, True)


def test_questions_with_a_row_per_rank_of_their_own_take_it(run: Run) -> None:
    assert table(run, "answer", "collectives", JOB, "--per", "rank") == table(
        run, "answer", "collectives", JOB, "-p", "per=rank"
    )
    code, _, err = run("answer", "kernels", JOB, "--per", "name", "-p", "per=class")
    assert (code, "give only one" in err) == (2, True)


def test_the_first_screen_has_means_unless_ranks_are_named(run: Run) -> None:
    means = "\n".join(table(run, JOB))
    assert "Kernels by short name, mean of 4 ranks" in means
    assert "worst rank" in means
    for options in (("--per", "rank"), ("--rank", "0,1")):
        assert "mean of" not in "\n".join(table(run, "show", JOB, *options)[20:])
    assert "worst rank" not in "\n".join(table(run, JOB, "--rank", "0"))


def test_tables_of_a_report_have_means(tmp_path: Path) -> None:
    trace, pages = load(JOB), {}
    for per in (None, "rank"):
        trace.report(tmp_path / "r.html", sections=["operators", "kernels"], per=per)
        pages[per] = (tmp_path / "r.html").read_text()
    assert "Each row is the mean of 4 ranks." in pages[None]
    assert "mean of 4 ranks" not in pages["rank"]
    with pytest.raises(ParameterError, match="per: 'rank' or None, not 'run'"):
        trace.report(tmp_path / "r.html", per="run")


def test_rows_that_only_wait_come_last() -> None:
    rows = pl.DataFrame(
        {"run": "a", "rank": [0, 1] * 2, "name": ["wait", "wait", "train", "train"]}
        | {"self_ns": [9, 9, 1, 3], "only_waits": [True, True, False, False]}
    )
    assert rank_means(rows, RankKeys(("name",)), "self_ns")["name"].to_list() == ["train", "wait"]
