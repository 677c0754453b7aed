"""The page of a diff: its numbers are those of `explain`, and its names are texts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, Final

import polars as pl
import pytest

import profframe
from profframe.errors import ParameterError
from profframe.pages.report import why_flames
from tests import hostile, needs
from tests.builders import Row, event, loaded
from tests.conftest import Run
from tests.members import few
from tests.reports import data, tables_of, typed

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
FP32, BF16 = (str(EXAMPLES / f"{name}.json.gz") for name in ("fp32", "bf16"))
KERNEL: Final[Any] = {"category": "kernel", "device": 0, "thread": 9, "stream": 7}


class Bars(HTMLParser):
    """Bars of each waterfall: kind, label, edges in percent, exact text."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.waterfalls: list[list[dict[str, str]]] = []
        self._in = ""
        self.feed(
            "".join(re.findall(r'<ol class="waterfall".*?</ol>', path.read_text(), re.DOTALL))
        )

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {key: value or "" for key, value in attrs}
        if tag == "ol":
            self.waterfalls.append([])
        if "data-bar" in found:
            self.waterfalls[-1].append({"kind": found["data-bar"], "label": ""})
        if tag == "i":
            self.waterfalls[-1][-1]["style"] = found["style"]
        if tag == "b":
            self.waterfalls[-1][-1]["exact"] = found["title"]
        self._in = tag

    def handle_data(self, data: str) -> None:
        if self._in in {"span", "small"}:
            self.waterfalls[-1][-1]["label"] += data

    def handle_endtag(self, tag: str) -> None:
        if tag == self._in:
            self._in = ""


class Nodes(HTMLParser):
    """Nodes of the tree: how many are around each, its exact text, and all of its text."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.nodes: list[tuple[int, str, str]] = []
        self._open: list[str] = []
        self.feed(path.read_text().partition('<div class="tree"')[2].partition("</div>")[0])
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._open.append(tag)
        if tag in {"summary", "p"}:
            around = self._open.count("details") - (tag == "summary")
            self.nodes.append((around, "", ""))
        if tag == "b":
            around, _, text = self.nodes[-1]
            self.nodes[-1] = (around, dict(attrs)["title"] or "", text)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.nodes:
            around, exact, text = self.nodes[-1]
            self.nodes[-1] = (around, exact, text + data)


def number(text: str) -> int:
    return int(text.removesuffix(" ns").replace(",", ""))


def edges(bar: dict[str, str]) -> tuple[float, float]:
    left, width = map(float, re.findall(r"[\d.]+", bar["style"]))
    return left, left + width


def steps(kernel: int, *names: str, op: str = "aten::mm") -> list[Row]:
    """A step with an op of each name, its launch, and a kernel of that name, in nanoseconds."""
    events: list[Row] = []
    for number, name in enumerate(names or ("gemm",)):
        at, correlation = number * (kernel + 2_000), 5 + number
        launch: Any = {"category": "cuda_runtime", "correlation": correlation}
        start = at + 2_000
        events += [
            event(op, at + 500, at + 1_500),
            event("cudaLaunchKernel", at + 600, at + 1_400, **launch),
            event(name, start, start + kernel, correlation=correlation, **KERNEL),
        ]
    end = max(len(names), 1) * (kernel + 2_000) + 1_000
    return [event("ProfilerStep#0", 0, end, category="user_annotation"), *events]


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "diff.html"
    profframe.diff_report(FP32, BF16, path, ["fp32", "bf16"])
    return path


def test_bars_lead_from_one_step_to_the_other(page: Path) -> None:
    why = profframe.explain(FP32, BF16)
    kinds, single = Bars(page).waterfalls
    for bars in kinds, single:
        assert [bars[0]["label"], bars[-1]["label"]] == ["fp32", "bf16"]
        numbers = [number(bar["exact"]) for bar in bars]
        assert [numbers[0], numbers[-1]] == [why.base_ns, why.other_ns]
        assert numbers[0] + sum(numbers[1:-1]) == numbers[-1]
        at, scale = numbers[0], max(edges(bars[0])) / why.base_ns
        for bar, change in zip(bars[1:-1], numbers[1:-1], strict=True):
            assert bar["kind"] == ("more" if change > 0 else "less")
            assert edges(bar) == pytest.approx(
                sorted([at * scale, (at + change) * scale]), abs=1e-3
            )
            at += change
    assert [number(bar["exact"]) for bar in single[1:11]] == why.causes["change_ns"][:10].to_list()
    assert single[11]["label"] == f"{why.causes.height - 10} other causes"
    by_kind = {cause: rows["change_ns"].sum() for (cause,), rows in why.causes.group_by("cause")}
    assert sorted(number(bar["exact"]) for bar in kinds[1:-1]) == sorted(by_kind.values())


def test_the_table_has_all_causes(page: Path) -> None:
    causes = profframe.explain(FP32, BF16).causes
    rows = tables_of(data(page))["causes"]
    for name in ("change_ns", "base_ns", "other_ns", "share", "places", "base_calls", "p_value"):
        assert [typed(row[name], causes.schema[name]) for row in rows] == causes[name].to_list()
    events = [", ".join(map(str, ids)) for ids in causes["base_event_ids"].fill_null([])]
    assert [row["base_event_ids"] for row in rows] == events
    assert [row["base_op"] for row in rows] == causes["base_op"].fill_null("").to_list()


def test_nodes_are_those_of_the_tree(page: Path) -> None:
    """Each is in the one that it is in, next to what changed more."""
    tree = profframe.explain(FP32, BF16).tree
    rows = tree.filter(pl.col("largest_change_ns") >= 1_000)
    times = "{:+,} ns: {:,} ns -> {:,} ns"
    texts = {
        (row["depth"], times.format(row["change_ns"], row["base_ns"], row["other_ns"])): row
        for row in rows.iter_rows(named=True)
    }
    nodes = Nodes(page).nodes
    assert f"This page has {len(nodes)} of {tree.height} places" in page.read_text()
    assert 100 < len(nodes) <= rows.height
    above: list[str] = []
    last: dict[tuple[str, ...], int] = {}
    for around, exact, text in nodes:
        row = texts[around, exact]
        assert (row["other_name"] or row["base_name"] or "Step") in text
        assert ("only in bf16" in text) == (row["side"] == "other")
        assert ("only in fp32" in text) == (row["side"] == "base")
        del above[around:]
        place = tuple(above)
        assert abs(row["change_ns"]) <= last.get(place, abs(row["change_ns"]))
        last[place] = abs(row["change_ns"])
        above.append(text)
    most = rows.filter(pl.col("parent") >= 0).group_by("parent").agg(pl.len())["len"].max()
    assert isinstance(most, int)
    assert most > 20


@pytest.mark.parametrize("most", [10_000, 40])
def test_flame_graphs_are_the_tree(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is left out, each node has its time: that of its own, and of all inside it."""
    monkeypatch.setattr(why_flames, "_MOST", most)
    why = profframe.explain(FP32, BF16)
    for side, step in (("base", why.base_ns), ("other", why.other_ns)):
        rows = why_flames.nodes(why.tree, side)
        own = dict(rows.select("node_id", "self_ns").iter_rows())
        above = dict(rows.select("node_id", "parent_id").iter_rows())
        sums = dict.fromkeys(own, 0)
        seen: set[int | None] = {None}
        for node, ns in own.items():
            assert above[node] in seen
            seen.add(node)
            at: int | None = node
            while at is not None:
                sums[at] += ns
                at = above[at]
        expected = dict(why.tree.select("slot", f"{side}_ns").iter_rows())
        kept = rows.filter(pl.col("kind") != "others")["node_id"].to_list()
        assert {node: sums[node] for node in kept} == {node: expected[node] for node in kept}
        assert sum(own.values()) == step
        assert rows["name"].null_count() == 0
        assert ("others" in rows["kind"]) == (most == 40)
        changes = dict(why.tree.select("slot", "change_ns").iter_rows())
        found = dict(rows.select("node_id", "change_ns").iter_rows())
        assert all(found[node] == changes[node] for node in kept)


def test_bars_of_a_small_change_do_not_begin_at_nothing(tmp_path: Path) -> None:
    path = tmp_path / "diff.html"
    profframe.diff_report(loaded(*steps(97_000)), loaded(*steps(98_000)), path)
    (bars, _), text = Bars(path).waterfalls, path.read_text()
    assert [number(bar["exact"]) for bar in bars] == [100_000, 1_000, 101_000]
    assert "Bars begin at 99.750 us, not at 0." in text
    assert [edges(bar) for bar in bars] == [(0, 20), (20, 100), (0, 100)]


def test_a_trace_against_itself(tmp_path: Path) -> None:
    path = tmp_path / "same.html"
    profframe.diff_report(FP32, FP32, path)
    assert "Nothing changed." in path.read_text()
    assert Bars(path).waterfalls == []
    assert tables_of(data(path)) == {}
    assert data(path)["flames"] == {}
    assert Nodes(path).nodes == []


@pytest.mark.parametrize(
    "titles",
    few(
        [["".join(hostile.NAMES[n : n + 4]) for n in (0, 4, 8)], hostile.NAMES[:12]],
        1,
    ),
    ids=["four at once", "one by one"],
)
def test_names_are_texts(titles: Sequence[str], tmp_path: Path) -> None:
    path = tmp_path / "diff.html"
    names = hostile.NAMES
    sides = loaded(*steps(5_000, *names)), loaded(*steps(9_000, *names, op=names[1]))
    for title in titles:
        profframe.diff_report(*sides, path, (f"a{title}", f"b{title}"), title=title)
        text = path.read_text()
        assert not hostile.ACTS.search(text), title
        assert f"<script>{hostile.MARK}" not in text
        assert "<img" not in text
        assert "<svg" not in text
        assert text.count("<script") == 3
        assert len(Bars(path).waterfalls) == 2
        assert len(Nodes(path).nodes) > 20


def test_from_the_command_line(tmp_path: Path, run: Run) -> None:
    needs.charts()
    path = tmp_path / "diff.html"
    arguments = ("diff", FP32, BF16, "--names", "fp32,bf16", "-o", str(path))
    assert run(*arguments) == (0, "", "")
    assert len(Bars(path).waterfalls) == 2
    path.unlink()
    code, out, err = run("diff", BF16, FP32, "-o", str(path), "--fail-on", "step=5%")
    assert (code, out) == (3, "")
    assert "worse by more than 5%: step" in err.replace("5 %", "5%")
    assert path.exists()


def test_a_format_that_is_named_goes_before_the_ending(tmp_path: Path, run: Run) -> None:
    path = tmp_path / "diff.html"
    assert run("diff", FP32, BF16, "--format", "json", "-o", str(path))[0] == 0
    assert path.read_text().startswith("[{")


@pytest.mark.parametrize("names", ["ab", ("a",), ("a", "a"), ("a", "")])
def test_names_that_are_no_two(tmp_path: Path, names: tuple[str, ...]) -> None:
    with pytest.raises(ParameterError, match="two different texts"):
        profframe.diff_report(FP32, BF16, tmp_path / "diff.html", names)
