"""The scripts of ``examples/`` that are notebooks run, show themselves, and find what they tell."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from profframe.show.frame import Frame
from tests import needs
from tests.pages import Page

jupytext = needs.module("jupytext")
needs.module("IPython")

ROOT = Path(__file__).parent.parent
SCRIPTS = sorted(
    path.stem for path in (ROOT / "examples").glob("*.py") if "# %%" in path.read_text()
)


class Notebook:
    """A script that was run, cell by cell.

    Attributes
    ----------
    names : dict
        What its cells have defined.
    shown : list
        What the last line of each cell gave, where it is an expression.
    """

    def __init__(self, name: str) -> None:
        self.names: dict[str, Any] = {}
        self.shown: list[Any] = []
        text = (ROOT / "examples" / f"{name}.py").read_text()
        text = text.replace("NIGHTS = 1000", "NIGHTS = 100")
        self.cells = jupytext.reads(text, fmt="py:percent").cells
        for cell in self.cells:
            if cell.cell_type == "code":
                self._run(cell.source)

    def _run(self, source: str) -> None:
        lines = ast.parse(source).body
        last = lines.pop() if isinstance(lines[-1], ast.Expr) else None
        exec(compile(ast.Module(lines, []), "cell", "exec"), self.names)  # noqa: S102
        if isinstance(last, ast.Expr):
            value = compile(ast.Expression(last.value), "cell", "eval")
            self.shown.append(eval(value, self.names))  # noqa: S307


@pytest.fixture(scope="module")
def ran() -> dict[str, Notebook]:
    """Notebooks by name, each run when it is first asked for."""
    return {}


def run(ran: dict[str, Notebook], name: str, monkeypatch: pytest.MonkeyPatch) -> Notebook:
    monkeypatch.chdir(ROOT)
    if name not in ran:
        ran[name] = Notebook(name)
    return ran[name]


def test_there_is_one_for_each_story() -> None:
    stories = ("first_look", "gpu_idle", "memory_peak", "roofline", "self_times")
    assert [*stories, "thousand_runs", "two_runs"] == SCRIPTS


@pytest.mark.parametrize("name", SCRIPTS)
def test_it_runs_and_shows_itself(
    name: str, ran: dict[str, Notebook], monkeypatch: pytest.MonkeyPatch
) -> None:
    notebook = run(ran, name, monkeypatch)
    assert len(notebook.shown) >= 4
    for value in notebook.shown:
        if hasattr(value, "_repr_html_"):
            assert Page(value._repr_html_()).text
        else:
            assert isinstance(value, int) or value.to_dict()["data"]  # a number, or a chart
        if isinstance(value, pl.DataFrame):
            assert isinstance(value, Frame)
            assert value.height > 0


@pytest.mark.parametrize("name", SCRIPTS)
def test_it_begins_with_a_question_and_ends_with_what_to_do(
    name: str, ran: dict[str, Notebook], monkeypatch: pytest.MonkeyPatch
) -> None:
    cells = run(ran, name, monkeypatch).cells
    assert cells[0].cell_type == cells[-1].cell_type == "markdown"
    assert re.match(r"# [A-Z][^\n]+\n\n[^#]*\?", cells[0].source)
    assert cells[-1].source.startswith("**What to do about it.**")


class TestWhatTheyTell:
    def test_first_look(self, ran: dict[str, Notebook], monkeypatch: pytest.MonkeyPatch) -> None:
        times = run(ran, "first_look", monkeypatch).names["trace"].self_times()
        assert times["name"][0] == "aten::bernoulli_"
        assert times["self_share"][0] == pytest.approx(0.2, abs=0.01)

    def test_self_times(self, ran: dict[str, Notebook], monkeypatch: pytest.MonkeyPatch) -> None:
        shapes = run(ran, "self_times", monkeypatch).names["shapes"]
        assert shapes["name", "input_dims"].row(0) == ("aten::bernoulli_", "[[16,32,256],[],[]]")

    def test_gpu_idle(self, ran: dict[str, Notebook], monkeypatch: pytest.MonkeyPatch) -> None:
        trace = run(ran, "gpu_idle", monkeypatch).names["trace"]
        steps = trace.time_breakdown().filter(pl.col("step") > 1)
        assert ((steps["idle_ns"] / steps["span_ns"]).is_between(0.3, 0.36)).all()
        longest = trace.gaps(top=2)
        assert longest["frame_name"].to_list() == ["train.py(18): __getitem__"] * 2
        assert longest["cause"].to_list() == ["host_wait"] * 2

    def test_memory_peak(self, ran: dict[str, Notebook], monkeypatch: pytest.MonkeyPatch) -> None:
        trace = run(ran, "memory_peak", monkeypatch).names["trace"]
        owners = trace.memory_owners()
        logits = ["aten::_to_copy", "aten::_log_softmax", "aten::_log_softmax_backward_data"]
        assert owners["name"].to_list()[:5] == [None, *logits, "aten::mm"]
        assert owners.head(5)["share"].sum() > 0.9

    def test_roofline(self, ran: dict[str, Notebook], monkeypatch: pytest.MonkeyPatch) -> None:
        rows = run(ran, "roofline", monkeypatch).names["rows"]
        assert rows["name", "bound"].row(0) == ("aten::mm", "compute")
        assert rows["flop_share"][0] == pytest.approx(0.6, abs=0.03)

    def test_two_runs(self, ran: dict[str, Notebook], monkeypatch: pytest.MonkeyPatch) -> None:
        changes = run(ran, "two_runs", monkeypatch).names["changes"]
        ratio = dict(changes["name", "ratio"].rows())
        assert ratio["ProfilerStep*"] < 0.8
        assert ratio["aten::mm"] == pytest.approx(0.27, abs=0.01)
        assert ratio["aten::_scaled_dot_product_flash_attention_for_cpu_backward"] > 5

    def test_thousand_runs(self, ran: dict[str, Notebook], monkeypatch: pytest.MonkeyPatch) -> None:
        names = run(ran, "thousand_runs", monkeypatch).names
        changed = dict(names["changes"]["metric", "run"].rows())
        assert abs(int(changed["op:aten::mm"][-4:]) - 70) <= 2
        assert names["found"]["name"].to_list() == ["aten::mm"]
        assert names["unlike"]["run"][0] == "night-0040"


def test_a_real_kernel_shows_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    nbclient = needs.module("nbclient")
    monkeypatch.chdir(ROOT)
    notebook = jupytext.read("examples/first_look.py")
    kept = notebook.cells[:4]
    notebook.cells = kept
    client = nbclient.NotebookClient(
        notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": str(ROOT)}}
    )
    client.execute()
    outputs = [output for cell in kept if cell.cell_type == "code" for output in cell.outputs]
    assert [output.output_type for output in outputs] == ["execute_result"] * 2
    trace, times = (Page(output.data["text/html"]) for output in outputs)
    assert "6,244 events" in trace.text
    assert times.cells[1][0] == "aten::bernoulli_"
    assert times.note == "10 rows; run cpu_training; rank 0"
    assert outputs[1].data["text/plain"].startswith("name ")
